"""The config file: layers, values that are wrong, and edits that leave everything else as it stands."""

import threading
from pathlib import Path

import pytest

from localspec import paths
from localspec.chat import config
from localspec.chat.config import ALL, ConfigError, Scope

WRITTEN = """\
# my settings
theme = "plain"  # calm

# where models come from
[sources]
order = ["disk"]  # nothing else

[presets.precise]   # for code
temperature = 0
"""


@pytest.fixture
def file() -> Path:
    file = paths.config_file()
    file.parent.mkdir(parents=True)
    file.write_text(WRITTEN, encoding="utf-8")
    return file


def test_a_missing_file_is_the_defaults() -> None:
    found = config.load()
    assert found == config.Config()
    assert found.settings("any") == config.Settings()


def test_a_pair_stands_over_all_and_all_over_the_defaults() -> None:
    config.save({"temperature": 0.5, "top_k": 10})
    config.save({"temperature": 0.1}, Scope("pair", "qwen2.5-1.5b"))
    found = config.load()
    assert (found.settings().temperature, found.settings().top_k, found.settings().top_p) == (0.5, 10, 0.95)
    assert (found.settings("qwen2.5-1.5b").temperature, found.settings("qwen2.5-1.5b").top_k) == (0.1, 10)
    assert found.settings("other").temperature == 0.5


def test_an_edit_keeps_comments_order_and_what_it_does_not_know(file: Path) -> None:
    config.save({"temperature": 0.5, "seed": None})
    config.save({"theme": "localspec-light"})
    config.save({"top_k": 5}, Scope("pair", "a.b"))
    config.save({"temperature": 0.1}, Scope("preset", "precise"))
    assert (
        file.read_text(encoding="utf-8")
        == """\
# my settings
theme = "localspec-light"  # calm
temperature = 0.5
seed = "auto"

# where models come from
[sources]
order = ["disk"]  # nothing else

[presets.precise]   # for code
temperature = 0.1

[pairs."a.b"]
top_k = 5
"""
    )


def test_dropping_gives_the_layer_below_back(file: Path) -> None:
    config.save({"temperature": 0.5})
    config.save({"temperature": 0.1, "top_k": 1}, Scope("pair", "p"))
    config.save({}, Scope("pair", "p"), drop=["temperature", "never_there"])
    assert config.load().settings("p").temperature == 0.5
    assert config.load().of(Scope("pair", "p")) == {"top_k": 1}
    config.delete(Scope("pair", "p"))
    config.delete(Scope("pair", "never there"))
    assert config.load().pairs == {}
    assert "# nothing else" in file.read_text(encoding="utf-8")


def test_presets_have_names_a_person_chose() -> None:
    name = 'Mine: "quick" [x]'
    config.save({"temperature": 0.0, "system": "line\nline"}, Scope("preset", name))
    assert config.load().of(Scope("preset", name)) == {"temperature": 0.0, "system": "line\nline"}


def test_a_list_over_several_lines_does_not_end_the_top_level(file: Path) -> None:
    file.write_text('[models]\nfolders = [\n  "a",\n]\n', encoding="utf-8")
    config.save({"top_k": 1})
    assert file.read_text(encoding="utf-8") == 'top_k = 1\n\n[models]\nfolders = [\n  "a",\n]\n'
    file.write_text("more = [\n[1],\n]\n[models]\n", encoding="utf-8")
    config.save({"top_k": 1})
    assert file.read_text(encoding="utf-8") == "more = [\n[1],\n]\ntop_k = 1\n\n[models]\n"


def test_wrong_values_are_named_with_their_line_and_hide_nothing_else(file: Path) -> None:
    """T11."""
    file.write_text(
        'temperature = -1\ntop_k = 3\nfoo = 1\n[pairs.a]\ntheme = "x"\ntop_p = "x"\nmin_p = 0.1\n[keys]\nstop = 1\n'
        '"chat.copy" = "ctrl+y"\n[presets]\nbad = 1\n',
        encoding="utf-8",
    )
    found = config.load()
    assert found.values == {"top_k": 3}
    assert found.pairs == {"a": {"min_p": 0.1}}
    assert found.keys == {"chat.copy": "ctrl+y"}
    assert [(one.line, one.key, one.reason) for one in found.problems] == [
        (1, "temperature", "must be a finite number, 0 or more, not -1"),
        (3, "foo", "unknown setting, not used"),
        (5, "pairs.a.theme", "holds for the whole program: write it above all tables"),
        (6, "pairs.a.top_p", "must be a number, not 'x'"),
        (12, "presets.bad", "must be a table"),
        (9, "keys.stop", 'must be a key, such as "ctrl+x"'),
    ]


@pytest.mark.parametrize("broken", [b"temperature = \n", b"\xff\xfe", b"[pairs\n", b"pairs = 1\n"])
def test_a_broken_file_is_read_as_far_as_it_goes_and_never_overwritten(file: Path, broken: bytes) -> None:
    """T11."""
    file.write_bytes(broken)
    assert config.load().problems
    with pytest.raises(ConfigError) as caught:
        config.save({"top_k": 1}, Scope("pair", "p"))
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    assert file.read_bytes() == broken


def test_writers_side_by_side_lose_nothing() -> None:
    names = ["temperature", "top_p", "min_p", "repeat_penalty"]
    threads = [threading.Thread(target=config.save, args=({name: 0.5}, ALL)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert config.load().values == dict.fromkeys(names, 0.5)


def test_a_place_that_cannot_be_written_is_named(file: Path) -> None:
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml cannot be"):
        config.save({"top_k": 1})
