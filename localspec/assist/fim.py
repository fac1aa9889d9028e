"""Fill-in-the-middle: a prompt in the model's own tokens for what stands between a prefix and a suffix.

The layout is the repository-level one that the Qwen2.5-Coder report (arXiv:2409.12186) describes and llama-server's
`/infill` uses: the neighbouring files under their names, then prefix, suffix and the mark after which the middle comes.

    <repo> NAME \\n  <sep> FILE \\n TEXT ...  <sep> FILE \\n  <pre> PREFIX <suf> SUFFIX <mid>

Models without the repository's or the files' tokens get the files' names and texts as plain text before the prefix.
"""

from collections.abc import Sequence

from localspec.engine.requests import EngineInfo, Segment

NEEDED = ("pre", "suf", "mid")
"""The roles without which nothing can be filled in; `rep` and `sep` tell files apart where a model has them."""


class NoFim(Exception):
    """The model cannot fill in a middle: no tokens for it, or an encoder. `str(error)` is one line."""


def has_fim(info: EngineInfo) -> bool:
    """Whether the vocabulary has a control token for each of the three roles, and the model goes on with a text."""
    if info.has_encoder:
        return False
    texts = {info.fim_texts.get(role) for role in NEEDED}
    return len(texts) == len(NEEDED) and None not in texts


def require_going_on(info: EngineInfo) -> None:
    """Raises `NoFim` for a model that answers a text and does not go on with one."""
    if info.has_encoder:
        raise NoFim(f"{info.target} has an encoder and answers one text: it cannot fill a gap in it")


def fim_prompt(
    info: EngineInfo,
    prefix: str,
    suffix: str,
    extra: Sequence[tuple[str, str]] = (),
    *,
    name: str = "",
    repo: str = "",
) -> tuple[Segment, ...]:
    """The prompt whose answer is the text between `prefix` and `suffix`.

    `extra` are (name, text) of other files, the most telling one last, next to the place. `name` is that of the file
    itself, `repo` of the project. Only the tokens themselves are trusted: what stands in a file or its name is text,
    also where it spells a token. Raises `NoFim`.
    """
    require_going_on(info)
    if not has_fim(info):
        raise NoFim(f"{info.target} has no fill-in-the-middle tokens")
    tokens = info.fim_texts
    sep = tokens.get("sep")
    parts: list[Segment] = []
    if extra:
        if "rep" in tokens and repo:
            parts += [Segment(tokens["rep"], True), Segment(f"{_line(repo)}\n")]
        for title, text in extra:
            parts += [Segment(sep, True)] if sep else []
            parts.append(Segment(f"{_line(title)}\n{_ended(text)}"))
        if sep:
            parts += [Segment(sep, True), *([Segment(f"{_line(name)}\n")] if name else [])]
    parts += [Segment(tokens["pre"], True), Segment(prefix), Segment(tokens["suf"], True), Segment(suffix)]
    return (*parts, Segment(tokens["mid"], True))


def fim_stops(info: EngineInfo) -> tuple[str, ...]:
    """Spellings at which a middle ends: the model begins another file or another gap. For a request's `stop` and, so
    that the control tokens have a text which can be compared, its `keep_control`."""
    return tuple(dict.fromkeys(text for role, text in info.fim_texts.items() if role in (*NEEDED, "rep", "sep", "pad")))


def _line(name: str) -> str:
    """A name as one line: what follows a line end would be read as the file."""
    return " ".join(name.split("\n"))


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
