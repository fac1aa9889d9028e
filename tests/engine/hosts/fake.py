"""An engine process with a scripted engine in it: `fake.py MODE`. The prompt's text chooses what an answer does."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from localspec.engine import host
from localspec.engine.cost_report import CostReport
from localspec.engine.errors import DecodeError, EngineError, LoadError, PromptTooLong
from localspec.engine.events import Event, Finished, Prefill, Reason, Started, Stats, Token
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment
from localspec.engine.rule_report import RuleJob, RuleRates

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"

libc = ctypes.CDLL(None)


def illegal_instruction() -> None:
    """Ends the process the way a wrong build does, seen from outside."""
    signal.signal(signal.SIGILL, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGILL)


def stats(prompt: int, tokens: int) -> Stats:
    return Stats(
        prompt_tokens=prompt, prompt_reused=0, ttft_s=0.1, tokens=tokens, decode_s=0.1, tokens_per_s=10.0,
        itl_ms_p50=None, itl_ms_p95=None, plain_tokens_per_s=None, baseline="none", speedup=None, cycles=0, proposed=0,
        judged=0, accepted=0, resampled=0, bonus=0, plain=tokens, acceptance_rate=None, tokens_per_cycle=None,
        draft_s=0.0, verify_s=0.1, overhead_s=0.0,
    )  # fmt: skip


def report(relative: float) -> CostReport:
    return CostReport((1, 2), (64,), ((1.0, relative),), (10.0,), (3, 3), (64,), None, 0, 1.0, "off")


class Odd(Exception):
    """Cannot be pickled, nor described."""

    def __reduce__(self) -> str:
        raise TypeError("not this one")

    def __str__(self) -> str:
        raise ValueError("no words")


class StrangeLoadError(LoadError):
    """A kind the client does not know, with an ancestor that it does."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and\n{second}")


class FakeEngine:
    def __init__(self, config: EngineConfig, progress: Callable[[float], None]) -> None:
        self._config = config
        self._stop = threading.Event()
        progress(0.5)
        if MODE == "load-error":
            raise StrangeLoadError(1, 2)
        if MODE == "load-odd":
            raise Odd
        if MODE == "load-forever":
            libc.pause()
        if MODE == "load-missing":
            import llama_cpp.no_such_module
        if MODE == "load-broken-library":
            import llama_cpp  # noqa: F401
        if MODE == "load-other-import":
            import localspec.no_such_module  # type: ignore[import-untyped]  # noqa: F401
        if MODE == "load-exit":
            sys.exit(3)
        if MODE == "ill-load" and config.extra_bufts:
            illegal_instruction()
        if MODE == "ill-always":
            illegal_instruction()
        if MODE == "noisy-load":
            os.write(1, b"native words on stdout\n")
            os.write(2, b"native words on stderr\x1b[2J\n")
            libc.puts(b"words through libc")
            libc.fflush(None)
            libc.abort()
        progress(1.0)
        self.info = EngineInfo(
            target=config.target, draft=config.draft, context=128, train_context=128, threads=1, gpu_layers=0,
            draft_gpu_layers=0, flash_attn="off", vocab_size=300, chat_template=None, special_tokens={},
            rollback="unlimited", has_encoder=False, mtp_layers=0, fim_tokens={}, load_s=0.0,
            library=f"omp={os.environ.get('OMP_WAIT_POLICY')} backtrace={os.environ.get('GGML_NO_BACKTRACE')} "
            f"extra_bufts={config.extra_bufts}",
            notices=("from the engine",),
        )  # fmt: skip

    def generate(self, request: Request) -> Iterator[Event]:
        self._stop.clear()
        text = "".join(segment.text for segment in request.prompt)
        seed = 7 if request.seed is None and self._config.extra_bufts else request.seed or 8
        if text == "too long":
            raise PromptTooLong("The prompt is 3 tokens too long.")
        yield Started("t", None, "off", "rejection", False, 128, 1, seed, len(text))
        yield Prefill(0, len(text), 0)
        if MODE == "ill-decode" and self._config.extra_bufts:
            illegal_instruction()
        if MODE == "ill-decode-always":
            illegal_instruction()
        if text == "prefill":
            self._stop.wait()
            yield from self._finish("cancelled", "", len(text))
            return
        if text == "native":
            os.write(2, b"in a native call\n")
            libc.pause()
        if text == "unpicklable":
            yield threading.Lock()  # type: ignore[misc]
        if text == "unexpected":
            raise ZeroDivisionError("a\nb")
        if text == "odd":
            raise Odd
        if text == "refused":
            raise DecodeError("The batch was refused.")
        if text == "exit":
            os._exit(9)
        if text == "noise":
            os.write(1, b"\0" * 4096 + b"native noise\n")
            print("python noise")
            libc.puts(b"libc noise")
            libc.fflush(None)
        if text == "wire":
            # What no engine does: it finds the private descriptor and writes into it.
            for descriptor in range(3, 20):
                try:
                    os.write(descriptor, b"\xff" * 64)
                except OSError:
                    continue
        words = [text] if text not in {"endless", "ill-late"} else None
        said: list[str] = []
        while words is None or words:
            if self._stop.is_set():
                yield from self._finish("cancelled", "".join(said), len(text))
                return
            word = words.pop() if words is not None else "word "
            said.append(word)
            yield Token(1, word, "plain", "none", 0, 0.1)
            if text == "ill-late" and self._config.extra_bufts:
                illegal_instruction()
            if text == "ill-late":
                break
            if words is None:
                time.sleep(0.002)
        yield from self._finish("end_of_text", "".join(said), len(text), seed)

    def _finish(self, reason: Reason, text: str, prompt: int, tokens: int = 0) -> Iterator[Event]:
        yield Finished(reason, text, stats(prompt, tokens))

    def cancel(self) -> None:
        self._stop.set()

    def save(self, path: str) -> int:
        raise ValueError("not scripted")

    restore = save

    def costs(self) -> CostReport:
        return report(1.5)

    def calibrate(self, seconds: float, progress: Callable[[float], None]) -> CostReport:
        """Half a calibration, and the other half only when it is cancelled."""
        self._stop.clear()
        progress(0.0)
        if seconds < 0:
            raise EngineError("There is nothing to measure.")
        progress(0.5)
        cancelled = self._stop.wait(30)
        return report(3.0 if cancelled else 9.0)

    def measure(self, job: RuleJob, progress: Callable[[float], None]) -> RuleRates:
        """Half a job, and the other half only when it is cancelled."""
        self._stop.clear()
        progress(0.0)
        if not job.prompt:
            raise EngineError("There is nothing to measure.")
        progress(0.5)
        return RuleRates(not self._stop.wait(30))

    def idle(self, waiting: Callable[[], bool]) -> None:
        """In mode `idles` it has work for ever, and says on the log when it begins and when it was called away."""
        self._stop.clear()
        if MODE == "idle-fails":
            raise ZeroDivisionError("in the idle work")
        if MODE == "idles" and not waiting():
            os.write(2, b"idle work begins\n")
            self._stop.wait()
            os.write(2, b"idle work ends\n")

    def keep(self) -> None:
        os.write(2, b"kept\n")
        if MODE == "idle-fails":
            raise ZeroDivisionError("in the keeping")

    def count(self, prompt: tuple[Segment, ...]) -> int:
        if not prompt:
            raise ValueError("nothing to count")
        return sum(len(segment.text) for segment in prompt)

    def encode(self, prompt: tuple[Segment, ...]) -> list[int]:
        return [ord(letter) for segment in prompt for letter in segment.text]


if __name__ == "__main__":
    host.main(FakeEngine)
