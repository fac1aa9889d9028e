"""The person's own `models.toml`: adding a pair of files of theirs, taking it out again. Comments in it stay."""

from pathlib import Path
from typing import Any

from localspec.models import catalog as menu
from localspec.models import fields
from localspec.models.errors import ModelError, named, plain
from localspec.models.partial import write_atomically


def add(name: str, target: Path, draft: Path | None = None) -> Path:
    """Put a pair called `name` on the menu: files that stay where they are. Answers the file written.

    Raises ModelError when the name is taken or unusable, or the own file cannot be read.
    """
    check_name(name)
    document = _read()
    entries = {name: target.absolute()}
    pair: dict[str, str] = {"target": name}
    if draft is not None:
        pair["draft"] = f"{name}-draft"
        entries[pair["draft"]] = draft.absolute()
    for key, path in entries.items():
        _table(document, "files")[key] = _filled({"path": str(path)})
    _table(document, "pairs")[name] = _filled(pair)
    return _write(document)


def check_name(name: str) -> None:
    """Raise ModelError when `name` cannot become an entry: it is taken, or no name."""
    if not fields.is_key(name):
        raise ModelError(
            f"{plain(name)!r} cannot be a name: letters, digits, '.', '_' and '-', the first a letter or digit"
        )
    known = menu.load()
    if name in known.pairs or name in known.files:
        raise ModelError(
            f"{name} is on the menu already: choose another name, or `localspec models remove {name}` first"
        )


def remove(name: str) -> bool:
    """Take pair `name` and the files only it names out of the own file; False when it is not in there."""
    document = _read()
    pair = document.get("pairs", {}).get(name)
    if pair is None and name not in document.get("files", {}):
        return False
    mine = {name, *(str(pair[role]) for role in ("target", "draft") if pair and role in pair)}
    if pair is not None:
        del document["pairs"][name]
    used = {str(other.get(role)) for other in document.get("pairs", {}).values() for role in ("target", "draft")}
    for key in mine - used:
        document.get("files", {}).pop(key, None)
    _write(document)
    return True


def _read() -> Any:
    import tomlkit
    import tomlkit.exceptions

    file = menu.own_file()
    try:
        return tomlkit.parse(file.read_text(encoding="utf-8")) if file.exists() else tomlkit.document()
    except (tomlkit.exceptions.ParseError, UnicodeDecodeError) as error:
        cause = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else plain(str(error))
        raise ModelError(f"{named(file)} cannot be changed before it is correct: {cause}") from error


def _table(document: Any, name: str) -> Any:
    import tomlkit

    if name not in document:
        document[name] = tomlkit.table(is_super_table=True)
    if not isinstance(document[name], dict):
        raise ModelError(f"{named(menu.own_file())}: {name} must be a table; correct it first")
    return document[name]


def _filled(values: dict[str, str]) -> Any:
    import tomlkit

    table = tomlkit.table()
    table.update(values)
    return table


def _write(document: Any) -> Path:
    import tomlkit

    file = menu.own_file()
    write_atomically(file, tomlkit.dumps(document))
    return file
