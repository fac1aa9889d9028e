"""What a person can set: every setting reads what it writes, refuses in words, and becomes the engine's types."""

from dataclasses import fields

import pytest

from localspec.chat.settings import BY_NAME, SETTINGS, Setting, Settings
from localspec.engine.ranges import validate
from localspec.engine.requests import EngineConfig, SamplerSettings, Segment

FITS_A_LINE = 72


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    assert [setting.name for setting in SETTINGS] == list(dict.fromkeys(BY_NAME))
    assert set(BY_NAME) == {field.name for field in fields(Settings)}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_reads_what_it_writes_and_explains_itself_in_a_line(setting: Setting) -> None:
    assert setting.parse(setting.write(setting.default)) == setting.default
    assert 20 < len(setting.line) < FITS_A_LINE
    assert "\n" not in setting.line


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", " 0.7 ", 0.7),
        ("temperature", "1", 1.0),
        ("top_k", "0", 0),
        ("seed", "auto", None),
        ("seed", "", None),
        ("seed", "18446744073709551615", 2**64 - 1),
        ("speculate", "auto", "auto"),
        ("speculate", "suggested", None),
        ("system", "  two  ", "  two  "),
        ("history", "off", False),
        ("pair", "auto", None),
    ],
)
def test_what_a_person_writes(name: str, text: str, value: object) -> None:
    parsed = BY_NAME[name].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("temperature", "-1", "temperature must be a finite number, 0 or more, not -1.0"),
        ("temperature", "nan", "temperature must be a finite number, 0 or more, not nan"),
        ("temperature", "warm", "temperature must be a number, not 'warm'"),
        ("top_k", "-3", "top_k must be a whole number, 0 (off) or more, not -3"),
        ("top_p", "1.5", "top_p must be between 0 and 1, not 1.5"),
        ("repeat_penalty", "0", "repeat_penalty must be a finite number above 0, not 0.0"),
        ("draft_length", "65", "draft_length must be between 1 and 64, not 65"),
        ("context", "many", "context must be a whole number or auto, not 'many'"),
        ("kv_type", "q9", "kv_type must be one of f16, q8_0, q5_1, q5_0, q4_1, q4_0, bf16, f32, not 'q9'"),
        ("history", "maybe", "history must be true or false, not 'maybe'"),
    ],
)
def test_a_wrong_value_is_refused_in_words(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        BY_NAME[name].parse(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p", "repeat_penalty"])
def test_the_words_are_the_engines_own(name: str) -> None:
    with pytest.raises(ValueError, match=name) as engines:
        validate(SamplerSettings(**{name: -1}), 0)
    with pytest.raises(ValueError, match=name) as ours:
        BY_NAME[name].check(-1)
    assert str(ours.value) == str(engines.value)


@pytest.mark.parametrize("value", [True, "0.5", [1], None])
def test_a_number_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="temperature must be a number"):
        BY_NAME["temperature"].check(value)


def test_settings_become_a_request() -> None:
    prompt = (Segment("hi"),)
    settings = Settings(temperature=0.0, seed=7, max_tokens=5, draft_length=3)
    request = settings.request(prompt, suggested="lookup", keep_control=("<think>",), stop=("end",))
    assert request.sampling == SamplerSettings(temperature=0.0)
    assert (request.seed, request.max_tokens, request.draft_length, request.speculate) == (7, 5, 3, "lookup")
    assert (request.prompt, request.keep_control, request.stop) == (prompt, ("<think>",), ("end",))
    assert Settings(speculate="auto").request(prompt, suggested="lookup").speculate == "auto"


def test_settings_become_what_the_engine_loads() -> None:
    config = Settings(context=512, threads=1, gpu_layers=3, kv_type="q8_0").engine_config("t.gguf", "d.gguf", "cache")
    assert config == EngineConfig(
        "t.gguf", "d.gguf", context=512, threads=1, gpu_layers=3, kv_type="q8_0", cache_dir="cache"
    )
    assert Settings(draft_length=50).engine_config("t", None, None).max_draft_length == 50


def test_only_what_the_engine_loads_with_needs_loading_again() -> None:
    now = Settings()
    assert not Settings(temperature=0.0, seed=1, system="x", draft_length=8, theme="t").needs_loading(now)
    for changed in (Settings(context=1), Settings(threads=1), Settings(kv_type="q8_0"), Settings(draft_length=60)):
        assert changed.needs_loading(now)
    assert not Settings(draft_length=8).needs_loading(Settings(draft_length=60))
    assert Settings(speculate="mtp").needs_loading(now), "heads are loaded where they may draft"
    assert now.needs_loading(Settings(speculate="mtp"))
    assert not Settings(speculate="off").needs_loading(now)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, False),
        ({"seed": 1}, True),
        ({"seed": 1, "verify": "coupled"}, True),
        ({"seed": 1, "verify": "block"}, False),
    ],
)
def test_an_engine_is_loaded_for_seeds_where_the_same_text_is_promised(values: dict[str, object], wanted: bool) -> None:
    settings = Settings().with_values(values)  # type: ignore[arg-type]
    assert settings.engine_config("t.gguf", None, None).seeded == wanted
