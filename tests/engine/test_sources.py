"""Where copied tokens stand: files and lines by hand."""

from localspec.engine.events import Source
from localspec.engine.requests import SourceText
from localspec.engine.sources import Sources

TEXT = "hi\nx=1\ny=2\nend\nz"


def piece(token: int) -> bytes:
    """A token is a character."""
    return chr(token).encode()


def tokens(text: str) -> list[int]:
    return [ord(c) for c in text]


def test_a_file_is_named_with_its_own_lines() -> None:
    sources = Sources(piece, tokens(TEXT), [SourceText("a.py", "x=1\ny=2\n", first_line=40)])
    at = TEXT.index("y")
    assert sources.of(at) == Source("a.py", 41)
    assert sources.of(TEXT.index("x")) == Source("a.py", 40)
    assert sources.of(0) == Source("prompt", 1)
    assert sources.of(TEXT.index("z")) == Source("prompt", 5)


def test_the_same_text_twice_is_two_files() -> None:
    text = "a\n--\na\n"
    sources = Sources(piece, tokens(text), [SourceText("one", "a\n"), SourceText("two", "a\n")])
    assert [sources.of(0), sources.of(5)] == [Source("one", 1), Source("two", 1)]


def test_a_text_that_is_not_there_names_nothing() -> None:
    sources = Sources(piece, tokens(TEXT), [SourceText("b.py", "nowhere"), SourceText("empty", "")])
    assert sources.of(3) == Source("prompt", 2)


def test_the_answer_is_a_source_of_itself() -> None:
    sources = Sources(piece, tokens("ab"), [])
    for token in tokens("c\nd"):
        sources.wrote(token)
    assert [sources.of(2), sources.of(4), sources.of(5)] == [Source("answer", 1), Source("answer", 2), None]


def test_predictions_come_first_each_with_a_separator() -> None:
    sources = Sources(piece, tokens("p"), [], [tokens("a\nb"), tokens("c")])
    assert sources.of(2) == Source("prediction", 2)
    assert sources.of(4) == Source("prediction", 1)
    assert sources.of(6) == Source("prompt", 1)


def test_a_token_from_nowhere_has_no_place() -> None:
    assert Sources(piece, tokens("p"), []).of(-1) is None
