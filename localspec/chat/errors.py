"""What can go wrong with conversations and prompts, said in one line."""


class TemplateError(Exception):
    """The model's chat template refused the conversation or could not be used. `str(error)` is one line; nothing of the
    conversation is changed."""


NEXT_STEP = "use --raw, or another copy of the model"
"""What helps when the template is at fault."""


class HistoryError(Exception):
    """A chat could not be found, kept or read. `str(error)` is one line."""


def reason_of(error: BaseException) -> str:
    """One line for the person: the reason of a failure that has one, else the fault of the program by its name."""
    from localspec.chat.visible import one_line
    from localspec.engine.errors import EngineError
    from localspec.models.errors import ModelError

    if isinstance(error, EngineError | ModelError | TemplateError | HistoryError):
        return one_line(str(error))
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return one_line(f"{place}{error.strerror or error}")
    return one_line(f"internal error: {type(error).__name__}: {error}")
