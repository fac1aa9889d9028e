# localspec: `make run` and `make test` do everything on a machine with Python 3.11+, make and a C++ compiler.

VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PAIR   := qwen2.5-coder-1.5b
CACHE  := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/localspec/pip

.PHONY: run test check install clean help

help:
	@echo "make run    install what is missing, start localspec, which fetches a model when there is none"
	@echo "make test   install what is missing, run all tests (those with real models too)"
	@echo "make check  lint, types, import contracts"

run: $(VENV)/ready
	@if [ -t 0 ] && [ -t 1 ] && [ "$$TERM" != dumb ]; then \
		$(BIN)/localspec; \
	else \
		$(BIN)/localspec models pull $(PAIR) && $(BIN)/localspec demo; \
	fi

test: $(VENV)/ready
	@echo "Running all tests: about 15 minutes, more the first time (two model files of 1.6 GB are fetched when absent)."
	@$(BIN)/python -m pytest

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/ready

# llama.cpp is compiled for this processor. pip's wheel cache does not look at CMAKE_ARGS or at the processor, so every
# set of flags and instruction sets has a cache of its own; a built wheel is used again without compiling.
# GCC up to 12 drops the stores that fill AMX's tile configuration as dead (SIGILL at the first batched product): the two
# flags keep them. A compiler that shows __AMX_TILE__ for the native processor is about to use AMX.
$(VENV)/ready: pyproject.toml
	@set -e; \
	$(PYTHON) -c 'import sys; sys.exit("localspec needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'; \
	cxx=$${CXX:-c++}; \
	command -v $$cxx >/dev/null || { echo "A C++ compiler is needed: apt install g++ (Debian, Ubuntu) or xcode-select --install (macOS)"; exit 1; }; \
	macros=$$($$cxx -march=native -dM -E -x c++ /dev/null 2>/dev/null || true); \
	if [ -z "$$CMAKE_ARGS" ] && echo "$$macros" | grep -q __AMX_TILE__ && ! echo "$$macros" | grep -q __clang__; then \
		CMAKE_ARGS="-DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'"; export CMAKE_ARGS; \
		echo "AMX under GCC: compiling with $$CMAKE_ARGS"; \
	fi; \
	key=$$(printf '%s\n%s\n' "$$CMAKE_ARGS" "$$macros" | cksum | cut -d' ' -f1); \
	[ -x $(BIN)/python ] || { echo "Making $(VENV)"; $(PYTHON) -m venv $(VENV) || { echo "python3-venv is needed: apt install python3-venv"; exit 1; }; }; \
	if [ -f $(VENV)/build-key ] && [ "$$(cat $(VENV)/build-key)" != "$$key" ]; then \
		echo "The compiler flags or the processor changed: llama.cpp is built again."; \
		$(BIN)/python -m pip uninstall -q -y llama-cpp-python; \
	fi; \
	echo "Installing. The first time llama.cpp is compiled: 5 to 10 minutes, nearly silent; later it is ready at once."; \
	$(BIN)/python -m pip install -q --disable-pip-version-check --cache-dir "$(CACHE)/$$key" -e '.[dev]'; \
	echo "$$key" > $(VENV)/build-key; \
	touch $(VENV)/ready

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
