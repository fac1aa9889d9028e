"""What `localspec bench` does without a sub-command: the paired comparison over the workload."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from localspec.bench import bounds, curves, process, rules, suite, summary, where
from localspec.bench.curves import Curve, CurveError
from localspec.bench.paired import Measured, Plan
from localspec.bench.results import Report
from localspec.chat.pairing import Choice
from localspec.cli import bench_common as common
from localspec.cli import bench_output, session
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.cli.interrupts import Interrupts
from localspec.cli.terminal import StatusLine, say
from localspec.engine import machine
from localspec.engine.errors import EngineError
from localspec.engine.events import MODEL_DRAFTERS
from localspec.engine.requests import EngineInfo, Speculate

WAYS: tuple[Speculate, ...] = ("auto", "lookup", *MODEL_DRAFTERS)


CALIBRATE_S = 30.0
"""Enough for the widths that matter at a short and a long context."""


USUAL_CONTEXT = 600
"""Tokens, about, of a prompt of the built-in workload and half its answer."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The command's own options; None where nothing was said."""

    full: bool
    workload: Path | None
    prompts: int | None
    repeats: int | None
    max_tokens: int | None
    temperatures: tuple[float, ...]
    cost_curve: str | None
    command: str
    output: bench_output.Output

    def temperatures_or(self) -> Sequence[float]:
        return tuple(dict.fromkeys(self.temperatures)) or ((0.0, 1.0) if self.full else (0.0,))


def compare(wishes: Wishes, values: dict[str, Any]) -> int:
    """Measure, print, write and remember; `values` are the model options. Answers the exit code."""
    ways = _ways(wishes, values)
    tasks = suite.first_of_each(
        common.tasks_of(wishes.workload), wishes.prompts or (None if wishes.full or wishes.workload else 1)
    )
    curve = curve_of(wishes.cost_curve)
    wishes.output.check()
    # Whatever the menu or the settings suggest: a draft that is at hand is measured.
    choice = session.choose(values | {"speculate": values["speculate"] or "auto"})
    client, info = session.start(choice, StatusLine())
    ways = [way for way in ways if way[0] not in MODEL_DRAFTERS or way[0] == info.drafter]
    rounds, max_tokens = wishes.repeats or (5 if wishes.full else 3), wishes.max_tokens or (128 if wishes.full else 64)
    plan = Plan(tasks, suite.modes(ways, wishes.temperatures_or()), rounds, max_tokens)
    try:
        common.check_room(tasks, client, info)
    except BaseException:
        client.close()
        raise
    measured, load = Measured(), where.load()
    judged, judging = rules.Found(), rules.Setting(client, common.prompting_for(info), info.drafter or "draft")
    if warning := where.busy(load, machine.usable_cores()):
        say(warning)
    try:
        with common.Bar() as bar, Interrupts(client.cancel) as interrupts:
            if curve is None:
                calibrate(client, bar, lambda: interrupts.hit)
            _announce(plan, choice, client, info)
            setting = suite.Setting(client, common.prompting_for(info), lambda: interrupts.hit, bar.show)
            suite.measure(measured, plan, setting)
            if wishes.full and info.drafter:
                rules.measure(judged, judging, lambda: interrupts.hit, bar.part)
    finally:
        curve = curve or priced_here(client, measured)
        report = replace(_report(client, measured, plan, wishes, choice, info, curve), load=load)
        if judged.known:
            report = replace(report, rules=judged.report(judging, curve), complete=report.complete and judged.complete)
        client.close()
        bench_output.remember(report)
        wishes.output.give(report)
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def curve_of(spec: str | None) -> Curve | None:
    """The cost curve that was asked for. Raises `Failure`."""
    try:
        return curves.read(spec) if spec else None
    except CurveError as error:
        raise Failure(str(error)) from None


def _ways(wishes: Wishes, values: dict[str, Any]) -> list[tuple[Speculate, int | None]]:
    asked, length = values["speculate"], values["draft_length"]
    if asked == "off":
        raise click.UsageError("bench compares with plain decoding: --speculate off leaves nothing to compare")
    if wishes.full and (asked or length):
        raise click.UsageError("--full measures every way to speculate: --speculate and --draft-length say only one")
    if wishes.full:
        return [(way, None) for way in WAYS]
    return [(asked or "auto", length)]


def _announce(plan: Plan, choice: Choice, client: Any, info: EngineInfo) -> None:
    """How long it will take, before it begins."""
    plain_ms = client.costs().ms(1, USUAL_CONTEXT)
    plain_s = suite.plain_seconds(Path(choice.config.target)) if plain_ms is None else plain_ms / 1000
    files = [Path(choice.config.target), *([Path(choice.config.draft)] if info.draft and choice.config.draft else [])]
    caches = process.cache_bytes(files, info.context, choice.config.kv_type)
    memory = (sum(file.stat().st_size for file in files) + caches) / 1e9
    say(
        f"{plan.answers} answers to {len(plan.tasks)} prompts: about {duration(suite.seconds(plan, plain_s))}, "
        f"{memory:.1f} GB of memory; Ctrl+C ends it and keeps what it has"
    )


def duration(seconds: float) -> str:
    """Seconds, roughly, in words."""
    if seconds < 90:
        return f"{max(2, round(seconds))} seconds"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def calibrate(client: Any, bar: common.Bar, stopped: Callable[[], bool]) -> None:
    """The cost of passes, once for this machine and these files: virtual time is priced by it."""
    if stopped() or any(client.costs().samples[1:]):
        return
    try:
        client.calibrate(CALIBRATE_S, lambda done: bar.show(int(100 * done), 100, "measuring what a pass costs here"))
    except EngineError as error:
        say(f"the cost of passes could not be measured: {error}")


def priced_here(client: Any, measured: Measured) -> Curve | None:
    """What the engine measured of its passes; when it has nothing, or is gone, what these answers show."""
    with suppress(EngineError):
        costs = client.costs()
        if any(costs.samples[1:]):
            return curves.of_costs(costs, measured.runs)
    return curves.of_runs(measured.runs)


def _prompts(client: Any, plan: Plan, info: EngineInfo) -> dict[str, tuple[int, ...]]:
    """Token ids of the plan's prompts by the task's id; none when the engine is gone."""
    prompting = common.prompting_for(info)
    with suppress(EngineError):
        return {task.id: client.tokens(prompting([task.prompt])) for task in plan.tasks}
    return {}


def _report(
    client: Any, measured: Measured, plan: Plan, wishes: Wishes, choice: Choice, info: EngineInfo, curve: Curve | None
) -> Report:
    return Report(
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=wishes.command,
        complete=len(measured.runs) == plan.answers,
        machine=where.here(info, choice.config),
        workload=str(wishes.workload or "built-in"),
        rounds=plan.rounds,
        max_tokens=plan.max_tokens,
        pair=choice.name,
        modes=summary.mode_reports(measured, plan.max_tokens, curve, bounds.known(curve, _prompts(client, plan, info))),
        curve=curve,
    )
