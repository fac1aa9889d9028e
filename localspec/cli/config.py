"""`localspec config`: where everything lies, what holds, and changing a setting."""

import click

from localspec import paths
from localspec.cli import settings
from localspec.cli.errors import Failure
from localspec.cli.terminal import one_line, say, visible

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

    Keys: pair, speculate, think, color, sources.endpoint, and with several values sources.order and models.folders.
    """
    import tomlkit
    import tomlkit.exceptions

    value = _checked(key, values)
    file = paths.config_file()
    try:
        document = tomlkit.parse(file.read_text(encoding="utf-8")) if file.exists() else tomlkit.document()
    except (tomlkit.exceptions.ParseError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read ({one_line(str(error))}): correct it first") from None
    table, _, name = key.rpartition(".")
    if table and not isinstance(document.get(table), dict):
        document[table] = tomlkit.table()
    target = document[table] if table else document
    target[name] = value
    from localspec.models.partial import write_atomically

    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, tomlkit.dumps(document))
    say(f"{key} set in {file}")


def _checked(key: str, values: tuple[str, ...]) -> str | list[str]:
    if key in LISTS:
        return list(values)
    if key not in settings.KEYS and key not in TEXTS:
        known = ", ".join((*settings.KEYS, *TEXTS, *LISTS))
        raise Failure(f"there is no setting {key!r}: there are {known}")
    if len(values) > 1:
        raise Failure(f"{key} takes one value")
    fault = settings.fault_of(key, values[0])
    if fault:
        raise Failure(f"{key} {fault}")
    return values[0]


def _show() -> None:
    from localspec.models import settings as model_settings

    mine, models = settings.load(), model_settings.load()
    default = "not set"
    rows = [
        ("config", str(paths.config_dir())),
        ("data", str(paths.data_dir())),
        ("state", str(paths.state_dir())),
        ("cache", str(paths.cache_dir())),
        ("config file", f"{paths.config_file()}{'' if paths.config_file().exists() else ' (not there yet)'}"),
        ("pair", mine.pair or f"{default}: the starter"),
        *((key, getattr(mine, key) or f"{default}: auto") for key in settings.CHOICES),
        ("sources.order", ", ".join(models.order)),
        ("sources.endpoint", models.endpoint),
        ("models.folders", ", ".join(map(str, models.folders)) or "none"),
        ("offline", "yes (HF_HUB_OFFLINE)" if models.offline else "no"),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(visible(f"{name.ljust(width)}  {value}"))
    for problem in dict.fromkeys((*mine.problems, *map(str, models.problems))):
        say(problem)
