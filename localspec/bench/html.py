"""A report as one page: pictures with their figures in tables, what was measured with what. Nothing is fetched, no
script runs, all text from outside is escaped; light and dark follow the reader's system."""

from collections.abc import Sequence

from localspec.bench import plots, rule_page, verdict, where
from localspec.bench.curves import Curve
from localspec.bench.markup import table
from localspec.bench.results import ModeReport, Report, Row
from localspec.bench.svg import shown

MISSING = "–"

HEADINGS = (
    "prompts", "tokens", "wall clock", "95 % interval", "virtual", "bound", "of bound", "accepted", "tokens/cycle",
    "drafted by",
)  # fmt: skip

COLOURS = {
    "page": ("#ffffff", "#16181d"),
    "ink": ("#24292f", "#d5d8de"),
    "quiet": ("#59636e", "#9198a1"),
    "line": ("#d1d9e0", "#3d444d"),
    "bar": ("#2f6fb7", "#5b9be0"),
    "second": ("#b4561a", "#f0a35e"),
    "strong": ("#6a2c91", "#d3a4f0"),
    "chosen": ("#c9dcf1", "#2c4257"),
}
"""On light and on dark."""

STYLE = """
body { margin: 0 auto; max-width: 58rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
.quiet, figcaption, summary { color: var(--quiet); font-size: .875rem; } .warn { font-weight: 600; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; margin: .5rem 0; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
tr.mean td { font-weight: 600; }
code { font-size: .875rem; overflow-wrap: anywhere; }
text { fill: var(--ink); } text.small { fill: var(--quiet); font-size: 11.5px; } text.strong { font-weight: 600; }
.grid { stroke: var(--line); } .one { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 3; }
.bar, .lookup { fill: var(--bar); } .draft { fill: var(--second); } .chosen { fill: var(--chosen); }
.whisker { stroke: var(--ink); stroke-width: 1.5; } .virtual { fill: var(--second); stroke: var(--page); }
.bound { fill: var(--strong); } .point { fill: var(--ink); }
.curve { fill: none; stroke: var(--ink); stroke-width: 2; }
.c1 { stroke-dasharray: 7 4; } .c2 { stroke-dasharray: 2 3; }
"""


def page(report: Report) -> str:
    """The whole page."""
    title = f"localspec bench: {shown(report.machine.target.name)}"
    body = [f"<h1>{title}</h1>", _about(report)]
    if warning := where.busy(report.load, report.machine.cores):
        body.append(f'<p class="warn">As it began: {shown(warning)}.</p>')
    if not report.complete:
        body.append('<p class="warn">Stopped before its end: this is what was measured until then.</p>')
    if not report.modes:
        body.append("<p>Nothing was compared.</p>")
    if len(report.modes) > 1:
        means = [(mode.name, *_cells(mode.mean, "")[1:]) for mode in report.modes]
        body += ["<h2>Geometric means</h2>", table(("mode", *HEADINGS), means)]
    for mode in report.modes:
        body += _mode(mode, report.curve)
    if report.curve and not report.modes:
        body.append(_figure(plots.cost_curve(report.curve, None), _curve_table(report.curve)))
    if report.rules:
        body += [
            f"<h2>{rule_page.HEADING}</h2>",
            *(_figure(*one, open_=True) for one in rule_page.charts(report.rules)),
        ]
        body += rule_page.told(report.rules)
    body.append(_method(report))
    return frame(title, body)


def frame(title: str, body: Sequence[str]) -> str:
    """A whole page around `body`; both are markup, what came from outside is escaped in it."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{_palette()}{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _palette() -> str:
    def variables(place: int) -> str:
        return ":root { " + " ".join(f"--{name}: {pair[place]};" for name, pair in COLOURS.items()) + " }"

    return f"\n{variables(0)}\n@media (prefers-color-scheme: dark) {{ {variables(1)} }}"


def _about(report: Report) -> str:
    lines = [shown(line) for line in where.words(report.machine)]
    lines.append(f"{shown(report.workload)} workload, {report.rounds} rounds of at most {report.max_tokens} tokens")
    lines.append(f"{shown(report.date)}: <code>{shown(report.command)}</code>")
    return f'<p class="quiet">{"<br>".join(lines)}</p>'


def _mode(mode: ModeReport, curve: Curve | None) -> list[str]:
    body = [f"<h2>{shown(mode.name)}</h2>", f"<p>{shown(verdict.slower(mode))}</p>"]
    body.append(_figure(plots.speedups(mode), _rows("category", [*mode.categories, mode.mean]), open_=True))
    if mode.prompts:
        body.append(f"<details><summary>By prompt</summary>{_rows('prompt', mode.prompts)}</details>")
    for drafter, counts in mode.run_lengths.items():
        cells = [(length, str(count)) for length, count in counts.items()]
        body.append(_figure(plots.run_lengths(mode, drafter), table(("tokens kept", "drafts"), cells)))
    if curve:
        body.append(_figure(plots.cost_curve(curve, mode), _curve_table(curve) + _lengths_table(mode)))
    return body


def _figure(picture: str, table: str, *, open_: bool = False) -> str:
    """A picture, and its figures for those who would rather read them."""
    state = " open" if open_ else ""
    return f"<figure>{picture}<details{state}><summary>The figures</summary>{table}</details></figure>"


def _rows(first: str, rows: Sequence[Row]) -> str:
    return table((first, *HEADINGS), [_cells(row, row.id or row.category) for row in rows])


def _cells(row: Row, name: str) -> tuple[str, ...]:
    low, high, cycles = row.wall.low, row.wall.high, sum(row.drafters.values())
    drafted = ", ".join(f"{who} {count / cycles:.0%}" for who, count in row.drafters.items() if cycles)
    return (
        name, str(row.prompts), str(row.tokens), _number(row.wall.value, ".2f", "x"),
        MISSING if low is None or high is None else f"{low:.2f} to {high:.2f}", _number(row.virtual, ".2f", "x"),
        _number(row.bound, ".2f", "x"), _number(row.of_bound, ".0%"), _number(row.acceptance_rate, ".0%"),
        _number(row.tokens_per_cycle, ".2f"), drafted or MISSING,
    )  # fmt: skip


def _number(value: float | None, form: str, unit: str = "") -> str:
    return MISSING if value is None else f"{value:{form}}{unit}"


def _curve_table(curve: Curve) -> str:
    contexts = [f"at {context:,} tokens" for context in curve.contexts]
    costs = zip(*curve.costs, strict=True)
    cells = [
        (str(width), *(f"{cost:.2f}" for cost in row)) for width, row in zip(curve.widths, costs, strict=True)
    ]  # fmt: skip
    draft = f"a drawn draft token costs {curve.draft:.2f}" if curve.draft else "no draft model"
    told = f'<p class="quiet">In plain passes, {shown(curve.name)}; {draft}.</p>'
    return told + table(("tokens in a pass", *contexts), cells)


def _lengths_table(mode: ModeReport) -> str:
    cells = [
        (length, drafter, str(count))
        for drafter, counts in mode.draft_lengths.items()
        for length, count in counts.items()
    ]
    return table(("draft length", "drafter", "drafts"), cells) if cells else ""


def _method(report: Report) -> str:
    curve = shown(report.curve.name) if report.curve else "none was known, so there is no virtual time"
    return f"""<h2>How it was measured</h2>
<p>A speed-up is decoded tokens a second over those of plain decoding, by the same target in the same process: for each
prompt all ways to decode take turns in one round, the next round goes the other way around, the prompt is read once.
The figure of a prompt is the median of its rounds' ratios, of a category the geometric mean of its prompts, and the
mean goes over the categories. The interval is a bootstrap over rounds and prompts. Virtual time prices the steps of the
same answers by the cost curve ({curve}), so the machine's noise is not in it. The bound is what prompt lookup with
perfect draft lengths would reach on the same text, going by its tokens alone: words that an edit renames, and the
beginning of a code block, are found by their letters and are not in it.</p>"""
