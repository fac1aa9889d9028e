"""A program with llama-server's face for a test: its flags and addresses, a real model's vocabulary, made-up speeds."""

import signal
import sys
import threading

from localspec.engine.llama import Model
from tests.bench.peerserver import PeerServer, serving


def main() -> None:
    flags = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
    model = Model(flags["-m"], vocab_only=True)
    server = PeerServer(
        speed=lambda number: 1000.0 if "ngram-mod" in sys.argv else 100.0,
        model_path=flags["-m"], context=int(flags["-c"]), slots=int(flags["-np"]),
        tokenize=lambda text: model.tokenize(text, parse_special=True),
    )  # fmt: skip
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with serving(server, int(flags["--port"])):
        ended.wait()


if __name__ == "__main__":
    main()
