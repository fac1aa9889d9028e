"""What the model menu says about a pair: cells of its table, and the details in sentences.

All of it is data (`Content`, `Text`), never markup: names, reasons and notes come from files a person or a stranger
wrote.
"""

from rich.text import Text
from textual.content import Content

from localspec.chat.looks import MISSING
from localspec.chat.visible import one_line
from localspec.models.hardware import Machine
from localspec.models.heads import describe
from localspec.models.partial import human
from localspec.models.removal import Plan
from localspec.models.rows import CONTEXT, FileState, Row
from localspec.tui.downloads import Download

COLUMNS = {"": 1, "Pair": 20, "Here": 8, "Fits": 5, "Size": 7, "Measured": 11, "Licence": 10}
"""The table's headings with their widths in cells; together they fit 80."""

FIGURES = 70
"""Cells that a download's name and figures take; what is left is its bar."""

FIT_WORDS = {"fits": "yes", "tight": "tight", "no": "no"}


def cells(row: Row, *, in_use: bool, download: Download | None) -> tuple[Text, ...]:
    """A pair's line in the table, one cell for each of `COLUMNS`."""
    here = row.state
    return (
        Text("●" if in_use else " "),
        Text(row.pair.key, style="bold" if here == "here" else ""),
        Text(here_word(row, download), style="" if here == "here" else "dim"),
        Text(FIT_WORDS[row.fit.verdict] if row.fit else MISSING),
        Text(human(row.size) if row.size is not None else MISSING, justify="right"),
        Text(best(row)),
        Text(one_line(licences(row))),
    )


def single_cells(one: FileState, *, in_use: bool, download: Download | None) -> tuple[Text, ...]:
    """The line of a file that belongs to no pair."""
    size = human(one.file.size) if one.file.size is not None else MISSING
    if download is not None and download.active:
        here = percent(download) or "waiting"
    else:
        here = {"here": "yes", "partly": "partly", "absent": "no"}[one.state]
    return (
        Text("●" if in_use else " "),
        Text(one.file.key, style="bold" if one.path else ""),
        Text(here, style="" if one.path else "dim"),
        Text(MISSING),
        Text(size, justify="right"),
        Text(MISSING),
        Text(one_line(one.file.licence or MISSING)),
    )


def here_word(row: Row, download: Download | None) -> str:
    if download is not None and download.active:
        return percent(download) or "waiting"
    if row.state == "partly" and row.size:
        done = sum((one.file.size or 0) if one.path else one.partial for one in row.files)
        return f"{done / row.size:.0%}"
    return {"here": "yes", "target only": "no draft", "partly": "partly", "absent": "no"}[row.state]


def licences(row: Row) -> str:
    return " / ".join(dict.fromkeys(one.file.licence or MISSING for one in row.files))


def best(row: Row) -> str:
    """The best speed-up measured here, and for what."""
    if not row.measured:
        return MISSING
    category, speedup = max(row.measured.items(), key=lambda item: item[1])
    return one_line(f"{speedup:.1f}x {category}")


def percent(download: Download) -> str:
    return f"{download.done / download.total:.0%}" if download.total else ""


def title(row: Row, *, in_use: bool) -> str:
    """A pair's first line."""
    pair = row.pair
    marks = [mark for mark, holds in (("the pair to begin with", pair.starter), ("in use", in_use)) if holds]
    return " · ".join((one_line(pair.title), *marks))


def details(row: Row) -> list[tuple[str, str]]:
    """Everything known about a pair: labels and sentences."""
    pair = row.pair
    facts = [("Name", pair.key), *([("For", pair.purpose)] if pair.purpose else [])]
    facts += [("Next", next_step(row)), ("Memory", memory(row)), ("Pair", verdict(row)), ("Licence", licences(row))]
    facts.append(("Measured", measured(row)))
    facts += [("Reported", f"{one.result} ({one.source})") for one in pair.published]
    facts += [("Note", note) for note in pair.notes]
    facts += [(role, file_line(one)) for one, role in zip(row.files, ("Target", "Draft"), strict=False)]
    return [(label, one_line(text)) for label, text in facts]


def single_details(one: FileState) -> list[tuple[str, str]]:
    """Everything known about a file without a draft of its own."""
    facts = [
        ("For", "a target without a draft of its own: prompt lookup still helps"),
        ("Next", "Enter chats with it." if one.path else f"Enter fetches it ({_size(one.file.size)})."),
        ("Licence", one.file.licence or MISSING),
        *([("Note", one.file.note)] if one.file.note else []),
        *([("Heads", f"the file {own}")] if (own := _heads(one)) else []),
        ("File", file_line(one)),
    ]
    return [(label, one_line(text)) for label, text in facts]


def next_step(row: Row) -> str:
    """What Enter does."""
    warn = " It does not fit, so it will not run well." if row.fit and row.fit.verdict == "no" else ""
    if row.state == "here":
        return f"Enter chats with it.{warn}"
    rest = human(row.to_fetch) if row.to_fetch is not None else "of a size not known"
    if row.state == "target only":
        return f"The draft is missing: Enter fetches it ({rest}). U chats without it, by prompt lookup.{warn}"
    verb = "goes on fetching it" if row.state == "partly" else "fetches it"
    return f"Enter {verb} ({rest}).{warn}"


def memory(row: Row) -> str:
    """Whether it fits, with the numbers."""
    if row.fit is None:
        return "not known: a size is missing on the menu"
    words = {"fits": "fits", "tight": "only just fits", "no": "does not fit this machine"}[row.fit.verdict]
    longest = row.fit.largest_context
    more = f"; up to {longest:,} tokens of context" if longest > CONTEXT else ""
    return f"{words}: with {CONTEXT:,} tokens of context it {row.fit.sentence}{more}"


def verdict(row: Row) -> str:
    """Whether target and draft belong together, in words."""
    if row.pair.draft is None:
        own = _heads(row.files[0])
        return f"no draft model: the target {own}" if own else "no draft model: prompt lookup drafts"
    if row.verdict:
        return "target and draft have the same vocabulary: checked here, token by token"
    if row.verdict is False:
        reason = row.compatible.removeprefix("no: ")
        return f"the draft cannot be used, prompt lookup drafts instead: {reason}"
    known = {
        "checked": "target and draft have the same vocabulary, checked by us; compared again once both files are here",
        "family": "same family and vocabulary size; compared token by token once both files are here",
        "to check": "not known yet; compared token by token once both files are here",
        "not checked yet": "not known yet; compared token by token once both files are here",
    }
    return known.get(row.compatible, f"{row.compatible}, as published; compared again once both files are here")


def _heads(one: FileState) -> str | None:
    """What a file's MTP heads are good for; None without any, or where it is not here."""
    return describe(one.header) if one.header else None


def measured(row: Row) -> str:
    if not row.measured:
        return f"{MISSING}  (`localspec bench` measures it on this machine)"
    return ", ".join(f"{category} {speedup:.2f}x" for category, speedup in row.measured.items())


def machine_line(machine: Machine) -> str:
    """The memory of this machine."""
    gpus = "".join(f", {gpu.description or gpu.name} {human(gpu.total)}" for gpu in machine.gpus if not gpu.shared)
    return one_line(f"{human(machine.ram_free)} of {human(machine.ram_total)} memory free{gpus}")


def progress(download: Download, width: int) -> Content:
    """A download as one line of at most `width` cells with a bar, or what became of it."""
    name = Content.styled(one_line(download.name), "bold")
    if not download.active:
        style, words = {
            "done": ("$success", "is here"),
            "cancelled": ("$text-warning", download.error),
            "failed": ("$text-error", download.error),
        }[download.phase]
        return Content.assemble(name, "  ", (one_line(words), style))
    if download.phase == "waiting":
        return Content.assemble(name, ("  waits for the download before it", "dim"))
    if not download.total:
        return Content.assemble(name, (f"  {one_line(download.said or download.step)} …", "dim"))
    share = min(1.0, download.done / download.total)
    bar = max(8, min(40, width - FIGURES))
    full = int(share * bar)
    figures = [f"{share:4.0%}", f"{human(download.done)} of {human(download.total)}"]
    if download.rate:
        figures.append(f"{human(download.rate)}/s")
    if download.left_s is not None:
        figures.append(f"{duration(download.left_s)} left")
    if download.step.startswith("checking"):
        figures.append("checking")
    said = f"\n{one_line(download.said)}" if download.said else ""
    return Content.assemble(
        name, "  ", ("━" * full, "$success"), ("━" * (bar - full), "$border-blurred"),
        " ", " · ".join(figures), (said, "dim"),
    )  # fmt: skip


def removal(plan: Plan) -> tuple[str, str]:
    """What deleting would do, and the word for doing it; "" when there is nothing to delete."""
    lines = [*(f"delete {path}" for path in plan.delete), *plan.stays]
    if plan.own_entry:
        lines.append(f"{plan.name} leaves the menu")
    text = one_line("; ".join(lines)) + "."
    if plan.delete:
        return text, f"Delete, free {human(plan.frees)}"
    return text, "Take it off the menu" if plan.own_entry else ""


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def file_line(one: FileState) -> str:
    """A file: its name, kind and size, and where it lies."""
    file = one.file
    facts = [file.name, *([file.quantisation] if file.quantisation else []), _size(file.size)]
    where = f"at {one.path}" if one.path else "partly fetched" if one.partial else "not here"
    return f"{', '.join(facts)}; {where}"


def _size(size: int | None) -> str:
    return human(size) if size is not None else "size not known"
