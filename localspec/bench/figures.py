"""The figures localspec promises about itself, measured on this machine with a real pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Protocol

from localspec.bench import paired, process
from localspec.bench.paired import GREEDY, PLAIN, Answerer, Comparison, Measured, Mode, Plan, Prompting
from localspec.bench.process import MemoryUse, StartUp
from localspec.bench.workloads import EDIT, Task
from localspec.engine.requests import EngineInfo, KvType, Request, SamplerSettings

SAMPLED = SamplerSettings(temperature=0.8, top_k=40, top_p=0.95, min_p=0.0)

EDIT_LENGTH = 15
DRAFT_LENGTH = 4
"""Fixed, so that the drafter drafts in every cycle it can: the most there is to do outside the models' passes."""

OVERHEAD_TASKS = 3
OVERHEAD_TOKENS = 96
TURN_TOKENS = 48

QUESTION, FOLLOW_UP = "Name three cities in Italy, nothing else.", "Which of them is the furthest north?"


class Client(Answerer, Protocol):
    """The engine, and its process."""

    @property
    def pid(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how the figures are taken. `files` are those of target and draft. `stopped` is asked between answers;
    `progress` is told steps done, steps in all, and what comes next."""

    client: Client
    info: EngineInfo
    files: Sequence[Path]
    tasks: Sequence[Task]
    prompting: Prompting
    rounds: int = 3
    max_tokens: int = 160
    kv_type: KvType = "f16"
    stopped: Callable[[], bool] = lambda: False
    progress: Callable[[int, int, str], None] = lambda done, total, text: None


@dataclass(frozen=True, slots=True)
class SecondTurn:
    """Tokens of a chat's second prompt: all, those the first turn left in the cache, those found there."""

    prompt: int
    same: int
    reused: int


@dataclass(slots=True)
class Figures:
    """What is measured so far; None and empty where nothing is yet."""

    info: EngineInfo
    start_up: StartUp | None = None
    second_turn: SecondTurn | None = None
    overheads: Measured = field(default_factory=Measured)
    edits: Measured = field(default_factory=Measured)
    memory: MemoryUse | None = None

    def modes(self) -> list[Mode]:
        """The ways to decode whose overhead is measured: every drafter, greedy and sampled."""
        modes = []
        for name, sampling in (("greedy", GREEDY), ("temperature 0.8", SAMPLED)):
            modes.append(Mode(f"lookup {EDIT_LENGTH}, {name}", "lookup", EDIT_LENGTH, sampling))
            if (model := self.info.drafter) is not None:
                modes.append(Mode(f"{model} {DRAFT_LENGTH}, {name}", model, DRAFT_LENGTH, sampling))
            modes.append(Mode(f"auto, {name}", "auto", None, sampling))
        return modes

    def overhead(self, mode: Mode) -> float | None:
        """Share of decode time outside the models' passes."""
        return paired.overhead_share(run for run in self.overheads.runs if run.mode == mode)

    def comparisons(self) -> list[Comparison]:
        """The code edits, one by one."""
        return self.edits.comparisons()

    @property
    def edit_speedup(self) -> float | None:
        """The median over the code edits."""
        known = [each.speedup for each in self.comparisons() if each.speedup is not None]
        return median(known) if known else None


def measure(figures: Figures, setting: Setting) -> None:
    """Take all figures, the quick ones first, into `figures`, which keeps what is there when it is stopped.

    Raises the engine's errors.
    """
    edits = [task for task in setting.tasks if task.category == EDIT]
    others = [task for task in setting.tasks if task.category != EDIT]
    few = [*edits[:1], *others, *edits[1:]][:OVERHEAD_TASKS]
    overheads = Plan(few, figures.modes(), 1, min(OVERHEAD_TOKENS, setting.max_tokens))
    lookup = Mode(f"lookup {EDIT_LENGTH}", "lookup", EDIT_LENGTH)
    compared = Plan(edits, [PLAIN, lookup], setting.rounds, setting.max_tokens)
    total = 2 + overheads.answers + compared.answers
    setting.progress(0, total, "start-up")
    if not setting.stopped():
        figures.start_up = process.start_up()
    setting.progress(1, total, "second turn")
    if not setting.stopped():
        figures.second_turn = second_turn(setting)
    caches = process.cache_bytes(setting.files, setting.info.context, setting.kv_type)
    done = 2
    for plan, measured in ((overheads, figures.overheads), (compared, figures.edits)):
        names = [f"{task.id}, {mode.name}" for task, _, mode in plan.order()]
        answers = paired.run(setting.client, plan, setting.prompting, setting.stopped)
        setting.progress(done, total, next(iter(names), ""))
        for number, answer in enumerate(answers, 1):
            measured.runs.append(answer)
            _note_memory(figures, setting, caches)
            setting.progress(done + number, total, names[number] if number < len(names) else "")
        done += plan.answers


def second_turn(setting: Setting) -> SecondTurn | None:
    """A short chat of two turns, greedy; None when it was cancelled."""
    prompt = setting.prompting([QUESTION])
    first = paired.last_event(setting.client.generate(Request(prompt, sampling=GREEDY, max_tokens=TURN_TOKENS)))
    if first.reason == "cancelled":
        return None
    prompt = setting.prompting([QUESTION, first.text, FOLLOW_UP])
    second = paired.last_event(setting.client.generate(Request(prompt, sampling=GREEDY, max_tokens=TURN_TOKENS)))
    if second.stats.ttft_s is None:
        return None
    same = first.stats.prompt_tokens + first.stats.tokens
    return SecondTurn(second.stats.prompt_tokens, same, second.stats.prompt_reused)


def _note_memory(figures: Figures, setting: Setting, caches: int) -> None:
    pid = setting.client.pid
    anonymous = process.anonymous_bytes(pid) if pid is not None else None
    if anonymous is not None:
        most = max(anonymous, figures.memory.anonymous if figures.memory else 0)
        figures.memory = MemoryUse(most, sum(file.stat().st_size for file in setting.files), caches)
