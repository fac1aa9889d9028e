"""The same prompts to running llama-servers and to our engine, in turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from localspec.bench import paired
from localspec.bench.contest import OURS, PLAIN, Answer, Contest
from localspec.bench.paired import Answerer, Mode, Plan, Prompting
from localspec.bench.peer_server import Peer, PeerError, Server
from localspec.bench.workloads import Task
from localspec.engine.requests import Segment


class Engine(Answerer, Protocol):
    """Our side: answers, and tells a prompt's token ids."""

    def tokens(self, prompt: tuple[Segment, ...]) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """How it is measured. `ours` is our way to speculate. `cache_prompt`: whether the servers may keep a prompt between
    answers, as our engine does; prefill is not compared either way. `stopped` is asked all the time; `progress` is told
    answers made, answers in all, what comes next. `rest` returns once our engine computes nothing: behind an answer it
    measures passes and lets the draft model read, which would slow a peer."""

    tasks: Sequence[Task]
    ours: Mode
    rounds: int
    max_tokens: int
    prompting: Prompting
    cache_prompt: bool = True
    stopped: Callable[[], bool] = lambda: False
    progress: Callable[[int, int, str], None] = lambda done, total, text: None
    rest: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Peers:
    """The peers with their servers. `failed`: those that are out of the contest, and why."""

    servers: dict[Peer, list[Server]]
    failed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def connect(cls, peers: Sequence[Peer]) -> Self:
        return cls({peer: [Server(peer.name, url) for url in peer.urls] for peer in peers})

    def close(self) -> None:
        for servers in self.servers.values():
            for server in servers:
                server.close()

    def check(self, engine: Engine, target: str, setting: Setting) -> list[str]:
        """Every server against every prompt's length and the first prompt's tokens. Raises `PeerError`."""
        prompts = [setting.prompting([task.prompt]) for task in setting.tasks]
        longest = max(prompts, key=lambda prompt: len(engine.tokens(prompt)))
        text, ids = "".join(segment.text for segment in longest), engine.tokens(longest)
        notes = [note for servers in self.servers.values() for server in servers
                 for note in server.check(target, text, ids, setting.max_tokens)]  # fmt: skip
        return list(dict.fromkeys(notes))


def measure(contest: Contest, engine: Engine, peers: Peers, setting: Setting) -> None:
    """Answer everything into `contest`, which keeps what is there when it is stopped. Within a round each way answers
    the same prompt, one after the other; the next round goes the other way around. A peer that fails in the middle is
    out from there on. Raises our engine's errors."""
    contest.peers = [peer.way for peer in peers.servers]
    total, done = (2 + len(peers.servers)) * len(setting.tasks) * setting.rounds, 0
    ways: list[Mode | Peer] = [paired.PLAIN, setting.ours, *peers.servers]
    for task in setting.tasks:
        ids = engine.tokens(setting.prompting([task.prompt]))
        for round_ in range(setting.rounds):
            for way in ways[:: 1 if round_ % 2 == 0 else -1]:
                if setting.stopped():
                    return
                setting.progress(done, total, f"{task.id}, {way.name}")
                answer = (
                    _theirs(peers, way, task, round_, ids, setting) if isinstance(way, Peer)
                    else _ours(engine, way, task, round_, setting)
                )  # fmt: skip
                if answer is not None:
                    contest.answers.append(answer)
                done += 1
    setting.progress(done, total, "")


def _ours(engine: Engine, mode: Mode, task: Task, round_: int, setting: Setting) -> Answer | None:
    plan = Plan([task], [mode], 1, setting.max_tokens)
    for run in paired.run(engine, plan, setting.prompting, setting.stopped):
        stats, drafted = run.stats, run.stats.proposed > 0
        return Answer(
            task, PLAIN if mode == paired.PLAIN else OURS, round_, max(0, stats.tokens - 1), stats.decode_s,
            stats.proposed if drafted else None, stats.accepted if drafted else None, run.tokens,
        )  # fmt: skip
    return None


def _theirs(peers: Peers, peer: Peer, task: Task, round_: int, ids: Sequence[int], setting: Setting) -> Answer | None:
    if peer.name in peers.failed:
        return None
    servers = peers.servers[peer]
    server = servers[round_ % len(servers)]
    setting.rest()
    try:
        found = server.complete(ids, setting.max_tokens, cache_prompt=setting.cache_prompt, stopped=setting.stopped)
    except PeerError as error:
        peers.failed[peer.name] = str(error)
        return None
    if found is None:
        return None
    return Answer(task, peer.way, round_, found.tokens, found.seconds, found.proposed, found.accepted, found.ids)
