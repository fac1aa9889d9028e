"""The client with the real engine behind it, on tiny models."""

import subprocess
import sys
from pathlib import Path

import pytest

from localspec.engine.client import EngineClient
from localspec.engine.errors import EngineError, LoadError
from localspec.engine.events import Finished
from localspec.engine.requests import EngineConfig, Request, Segment
from tests.engine.answers import GREEDY_ENDLESS, ask
from tests.engine.conftest import MakeEngine
from tests.engine.engine_clients import is_gone, text_of, until_token

REQUEST = Request((Segment("abcabcab"),), sampling=GREEDY_ENDLESS, speculate="off", max_tokens=40)


def config(path: Path) -> EngineConfig:
    return EngineConfig(str(path), context=512, threads=1, flash_attn="on")


def test_the_answer_is_the_one_the_engine_makes_by_itself(tiny_files: dict[str, Path], make_engine: MakeEngine) -> None:
    expected = ask(make_engine()).end.text
    with EngineClient(config(tiny_files["target"])) as client:
        assert client.count(REQUEST.prompt) > 0
        assert text_of(list(client.generate(REQUEST))) == expected
        assert text_of(list(client.generate(REQUEST))) == expected


def test_cancel_and_close_in_the_middle(tiny_files: dict[str, Path]) -> None:
    """S3, T6"""
    with EngineClient(config(tiny_files["target"])) as client:
        answer = client.generate(REQUEST)
        until_token(answer)
        client.cancel()
        last = list(answer)[-1]
        assert isinstance(last, Finished)
        answer = client.generate(REQUEST)
        until_token(answer)
        pid = client.pid
    assert pid is not None
    assert is_gone(pid)


def test_a_file_that_is_no_model_is_a_load_error(tmp_path: Path) -> None:
    """D4: the native library has the last word, and it is one line."""
    path = tmp_path / "page.gguf"
    path.write_text("<html>not here</html>")
    client = EngineClient(config(path))
    for _ in range(2):
        with pytest.raises(LoadError) as caught:
            client.start()
        assert "\n" not in str(caught.value)
        assert client.pid is None
    client.close()


def test_a_missing_native_library_is_explained(
    tiny_files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1"""
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    client = EngineClient(config(tiny_files["target"]))
    with pytest.raises(EngineError, match=r"llama.cpp cannot be loaded .*-m pip install"):
        client.start()
    client.close()


def test_a_program_that_uses_the_engine_loads_nothing_native_itself(tiny_files: dict[str, Path]) -> None:
    """Also not by unpacking what the engine sends, a numpy number for instance."""
    code = f"""
import sys
from localspec.engine.client import EngineClient
from localspec.engine.requests import *
with EngineClient(EngineConfig({str(tiny_files["target"])!r}, context=512, threads=1, flash_attn="on")) as client:
    for mode in ("off", "lookup"):
        request = Request((Segment("abcabcab"),), speculate=mode, max_tokens=40)
        assert list(client.generate(request))
    client.count((Segment("abc"),))
print(sorted({{"numpy", "llama_cpp", "textual", "huggingface_hub"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
