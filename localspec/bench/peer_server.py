"""A running llama-server: what it is asked, and what of its answer counts.

It gets a prompt as token ids, decodes greedily and tells its own timings. `predicted_n` counts the first token, which
comes from the prompt, and the end token; `predicted_ms` runs from the first token to the last. So its decode speed is
(`predicted_n` - 1) tokens, less the end token, in `predicted_ms`: what our own figures count. (`predicted_per_second`
counts the first token in some releases and not in others, and is not used.) Source: llama.cpp, tools/server,
`server_slot_stats`.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from queue import Empty, SimpleQueue
from typing import Any, Self
from urllib.parse import urlsplit

CONNECT_S = 5.0
ANSWER_S = 900.0
"""A long prompt on a slow machine; Ctrl+C ends the wait at once."""

_LOOK_S = 0.05
"""How often a wait looks whether it was stopped: rarely enough to cost the server nothing."""


class PeerError(Exception):
    """A peer that cannot be measured; `str(error)` is one line that names it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A server's setting. Round r asks `urls[r % len(urls)]`: a server that keeps what it said in earlier answers knows
    a repeated prompt's answer already, so such a setting wants a fresh server for every round."""

    name: str
    urls: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `URL`, `NAME=URL` or `NAME=URL,URL,...`. Raises ValueError."""
        name, equals, rest = text.partition("=")
        if not equals or "://" in name:
            name, rest = "", text
        urls = tuple(url.strip().rstrip("/") for url in rest.split(","))
        if not all(map(_is_address, urls)):
            raise ValueError(f"{text!r} is not URL or NAME=URL with a URL such as http://127.0.0.1:8080")
        return cls(name.strip() or urlsplit(urls[0]).netloc, urls)

    @property
    def here(self) -> bool:
        """Whether all its servers are on this machine."""
        hosts = [urlsplit(url).hostname or "" for url in self.urls]
        return all(host in ("localhost", "::1") or host.startswith("127.") for host in hosts)

    @property
    def way(self) -> str:
        """Its name among the ways of a contest."""
        return f"@{self.name}"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and url.isprintable()
        and " " not in url
    )


@dataclass(frozen=True, slots=True)
class Completion:
    """What the server said of one answer: tokens decoded after the first (no end token), seconds, and the drafts'
    tokens, None when it drafted nothing."""

    tokens: int
    seconds: float
    proposed: int | None
    accepted: int | None
    ids: tuple[int, ...]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Self:
        """From the answer of `/completion`. Raises KeyError, TypeError or ValueError for what is none."""
        timings = found["timings"]
        ended = found.get("stop_type") == "eos" or bool(found.get("stopped_eos"))
        ids = tuple(int(token) for token in found.get("tokens") or ())
        count, ms = int(timings["predicted_n"]), float(timings["predicted_ms"])
        if not math.isfinite(ms):
            raise ValueError(f"{ms} ms")
        drafted = bool(timings.get("draft_n"))
        return cls(
            tokens=max(0, count - 1 - ended), seconds=ms / 1000,
            proposed=int(timings["draft_n"]) if drafted else None,
            accepted=int(timings["draft_n_accepted"]) if drafted else None,
            ids=ids[:-1] if ended and len(ids) == count else ids,
        )  # fmt: skip


class Server:
    """One llama-server. Nothing but its URL is contacted, past any proxy. Raises `PeerError`."""

    def __init__(self, name: str, url: str) -> None:
        import httpx2

        self.name, self.url = name, url
        timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
        self._http = httpx2.Client(base_url=url, timeout=timeout, trust_env=False, follow_redirects=False)

    def close(self) -> None:
        self._http.close()

    def check(self, target: str, text: str, ids: Sequence[int], max_tokens: int) -> list[str]:
        """Whether the server can answer like us: it is there, reads `text` as our `ids`, has room. Answers sentences
        for the person where it differs in what may be meant."""
        props = self._ask("GET", "/props")
        asked = {"content": text, "add_special": False, "parse_special": True}
        read = self._ask("POST", "/tokenize", asked).get("tokens")
        if not isinstance(read, list):
            raise self._fault("tells no tokens: is it a llama-server?")
        # Our prompt may have a begin token in front, which the server would add by itself to a text.
        if read not in (list(ids), list(ids[1:])):
            raise self._fault(f"reads our prompt as {len(read)} other tokens than our {len(ids)}: is it another model?")
        usual = props.get("default_generation_settings")
        room = usual.get("n_ctx") if isinstance(usual, dict) else None
        if isinstance(room, int) and room and room < len(ids) + max_tokens:
            raise self._fault(f"has a context of {room} tokens, and {len(ids) + max_tokens} are needed: start it "
                              f"with -c {len(ids) + max_tokens} or more")  # fmt: skip
        notes = []
        model = PurePath(str(props.get("model_path") or "").replace("\\", "/")).name
        if model and model != target:
            notes.append(f"{self.name} runs {model}, and we {target}")
        if (slots := props.get("total_slots")) not in (None, 1):
            notes.append(f"{self.name} has {slots} slots: one (-np 1) is what a single person's server needs")
        return notes

    def complete(
        self, ids: Sequence[int], max_tokens: int, *, cache_prompt: bool, stopped: Callable[[], bool]
    ) -> Completion | None:
        """One greedy answer; None when it was `stopped` before its end: then the server works on for nobody, until it
        is done or this process ends."""
        body = {
            "prompt": list(ids), "n_predict": max_tokens, "cache_prompt": cache_prompt, "stream": False,
            "return_tokens": True, "temperature": 0.0, "top_k": 1, "samplers": ["top_k", "temperature"], "seed": 0,
        }  # fmt: skip
        found = self._wait("/completion", body, stopped)
        if found is None:
            return None
        try:
            return Completion.read(found)
        except (KeyError, TypeError, ValueError) as error:
            raise self._fault(f"answers without timings ({error!r}): is it a llama-server?") from None

    def _wait(self, path: str, body: Any, stopped: Callable[[], bool]) -> dict[str, Any] | None:
        """The answer of a long request; None once `stopped`. A daemon thread asks, so that nothing waits for it."""
        told: SimpleQueue[dict[str, Any] | PeerError] = SimpleQueue()

        def ask() -> None:
            try:
                told.put(self._ask("POST", path, body))
            except PeerError as error:
                told.put(error)

        threading.Thread(target=ask, name="peer", daemon=True).start()
        while True:
            try:
                found = told.get(timeout=_LOOK_S)
            except Empty:
                if stopped():
                    return None
                continue
            if isinstance(found, PeerError):
                raise found
            return found

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        import httpx2

        try:
            response = self._http.request(method, path, json=body)
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, RuntimeError) as error:  # the last: closed meanwhile
            raise self._fault(f"does not answer ({error})") from None
        if response.status_code == 503:
            raise self._fault("is still loading its model: wait until /health says ok")
        try:
            found = response.json()
        except ValueError:
            found = None
        if response.status_code != 200 or not isinstance(found, dict):
            told = found.get("error") if isinstance(found, dict) else None
            why = told.get("message") if isinstance(told, dict) else None
            raise self._fault(f"answers {path} with status {response.status_code}" + (f": {why}" if why else ""))
        return found

    def _fault(self, words: str) -> PeerError:
        return PeerError(f"{self.name} at {self.url} {words}")
