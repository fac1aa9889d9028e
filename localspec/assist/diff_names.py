"""What a file is called in a patch, so that `git apply` finds it from wherever it is run."""

from pathlib import Path


def name_for(path: Path, folder: Path | None = None) -> str:
    """The file behind `path` (links followed), with /: relative to the root of the git repository it is in, as git
    wants it from any subdirectory; elsewhere relative to `folder` (the working one), or else to the root of all."""
    real = path.resolve()
    for root in (repository_of(real), (folder or Path.cwd()).resolve()):
        if root is not None and real.is_relative_to(root):
            return real.relative_to(root).as_posix()
    return real.relative_to(real.anchor).as_posix()


def repository_of(real: Path) -> Path | None:
    """The root of the git repository (or work tree, or submodule) that a file is in; None without one."""
    return next((folder for folder in real.parents if (folder / ".git").exists()), None)
