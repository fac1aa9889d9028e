"""Running the command line inside the test, with standard streams that are terminals or pipes as the test says."""

import io
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from localspec.cli.main import main
from tests.fake_engine import FakeEngine


class Stream(io.TextIOWrapper):
    """A text stream over bytes in memory. `breaks_after` bytes its reader is gone."""

    def __init__(self, data: bytes = b"", *, terminal: bool = False, breaks_after: int | None = None) -> None:
        self.bytes = _Bytes(data, breaks_after)
        self.terminal = terminal
        super().__init__(self.bytes, encoding="utf-8", newline="")

    def isatty(self) -> bool:
        return self.terminal

    @property
    def written(self) -> str:
        return self.bytes.kept.decode("utf-8")


class _Bytes(io.BytesIO):
    def __init__(self, data: bytes, breaks_after: int | None) -> None:
        super().__init__(data)
        self.kept = b""
        self._breaks_after = breaks_after

    def write(self, data: Any) -> int:
        if self._breaks_after is not None and len(self.kept) + len(data) > self._breaks_after:
            raise BrokenPipeError(32, "Broken pipe")
        self.kept += bytes(data)
        return len(data)


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@dataclass
class CommandLine:
    """`run(...)` is one call of `localspec`; the engines it made are in `engines`."""

    monkeypatch: pytest.MonkeyPatch
    engines: list[FakeEngine] = field(default_factory=list)

    def use(self, **script: Any) -> None:
        """Every engine from now on is a fake one with this script."""

        def make(config: Any, **given: Any) -> FakeEngine:
            engine = FakeEngine(config, **script, **given)
            self.engines.append(engine)
            return engine

        self.monkeypatch.setattr("localspec.cli.session.EngineClient", make)

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        terminal: bool = False,
        err_terminal: bool | None = None,
        breaks_after: int | None = None,
    ) -> Outcome:
        """`stdin` None: a keyboard. `terminal`: stdout is one (and stderr, unless said otherwise)."""
        out = Stream(terminal=terminal, breaks_after=breaks_after)
        err = Stream(terminal=terminal if err_terminal is None else err_terminal)
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", Stream(stdin or b"", terminal=stdin is None))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as exit_:
                main(list(arguments))
        assert isinstance(exit_.value.code, int)
        return Outcome(exit_.value.code, out.written, err.written)


def run(cli: CommandLine, model: Path, *arguments: str, **streams: Any) -> Outcome:
    return cli.run("run", "--target", str(model), *arguments, **streams)


def lines(outcome: Outcome) -> list[dict[str, Any]]:
    return [json.loads(line) for line in outcome.out.splitlines()]


def failed(outcome: Outcome, *words: str, code: int = 1) -> None:
    """One line on stderr with the words, nothing on stdout."""
    assert outcome.code == code
    assert outcome.out == ""
    assert outcome.err.startswith("localspec: ")
    assert outcome.err.count("\n") == 1
    for word in words:
        assert word in outcome.err
