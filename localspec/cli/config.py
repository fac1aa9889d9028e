"""`localspec config`: where everything lies, what holds, and changing a setting."""

from collections.abc import Mapping
from typing import Any

import click

from localspec import paths
from localspec.chat import config as config_file
from localspec.chat.settings import BY_NAME, SETTINGS, Setting, Value
from localspec.cli.errors import Failure
from localspec.cli.terminal import say, visible

LISTS = {"sources.order": "the sources to try, in order", "models.folders": "folders with model files of yours"}
TEXTS = {"sources.endpoint": "the hub's address, or a mirror's"}


@click.group(invoke_without_command=True)
@click.pass_context
def config(ctx: click.Context) -> None:
    """Print the four directories, the config file and the settings in force."""
    if ctx.invoked_subcommand is None:
        _show()


@config.command("set")
@click.argument("key")
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
def set_value(key: str, values: tuple[str, ...]) -> None:
    """Set KEY in the config file; comments and everything else in it stay.

    Keys: every setting that `localspec config` prints; sources.order and models.folders take several values.
    """
    value = _checked(key, values)
    try:
        config_file.set_key(key, value)
    except config_file.ConfigError as error:
        raise Failure(str(error)) from None
    say(f"{key} set in {paths.config_file()}")


def _checked(key: str, values: tuple[str, ...]) -> Any:
    if key in LISTS:
        return list(values)
    if key not in BY_NAME and key not in TEXTS:
        known = ", ".join((*BY_NAME, *TEXTS, *LISTS))
        raise Failure(f"there is no setting {key!r}: there are {known}")
    if len(values) > 1:
        raise Failure(f"{key} takes one value")
    if key in TEXTS:
        return values[0]
    try:
        value = BY_NAME[key].parse(values[0])
    except ValueError as error:
        raise Failure(str(error)) from None
    return BY_NAME[key].word if value is None else value


def _in_words(setting: Setting, values: Mapping[str, Value]) -> str:
    value = values.get(setting.name, setting.default)
    text = setting.write(value) + (f" ({setting.auto})" if value is None else "")
    return text if setting.name in values else f"not set: {text or 'none'}"


def _show() -> None:
    from localspec.models import settings as model_settings

    mine, models = config_file.load(), model_settings.load()
    rows = [
        ("config", str(paths.config_dir())),
        ("data", str(paths.data_dir())),
        ("state", str(paths.state_dir())),
        ("cache", str(paths.cache_dir())),
        ("config file", f"{paths.config_file()}{'' if paths.config_file().exists() else ' (not there yet)'}"),
        *((setting.name, _in_words(setting, mine.values)) for setting in SETTINGS),
        ("sources.order", ", ".join(models.order)),
        ("sources.endpoint", models.endpoint),
        ("models.folders", ", ".join(map(str, models.folders)) or "none"),
        ("offline", "yes (HF_HUB_OFFLINE)" if models.offline else "no"),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(visible(f"{name.ljust(width)}  {value}"))
    for problem in dict.fromkeys(map(str, (*mine.problems, *models.problems))):
        say(problem)
