"""What can go wrong in the engine, said in one line each. All picklable: they cross the pipe to the client."""


class EngineError(Exception):
    """A failure with a reason a person can act on. `str(error)` is one line."""


class LoadError(EngineError):
    """A model file could not be loaded."""


class PromptTooLong(EngineError):
    """The prompt does not fit the context; the message says by how much."""


class DecodeError(EngineError):
    """The native library refused a batch."""


class Busy(EngineError):
    """Another answer is being made."""


class EngineDied(EngineError):
    """The engine's process ended by itself; the message names the signal and the last native log lines."""
