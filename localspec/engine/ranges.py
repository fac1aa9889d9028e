"""The ranges of what a person may set, and the words in which a value outside them is refused. Loads nothing."""

import math

from localspec.engine.requests import SamplerSettings


def validate(settings: SamplerSettings, vocab_size: int) -> None:
    """Raise ValueError, naming the option and its range, when a setting is out of range."""
    in_range("temperature", settings.temperature, 0.0, math.inf)
    whole("top_k", settings.top_k, 0, "0 (off) or more")
    in_range("top_p", settings.top_p, 0.0, 1.0)
    in_range("min_p", settings.min_p, 0.0, 1.0)
    in_range("repeat_penalty", settings.repeat_penalty, 0.0, math.inf, above=True)
    in_range("frequency_penalty", settings.frequency_penalty, -math.inf, math.inf)
    in_range("presence_penalty", settings.presence_penalty, -math.inf, math.inf)
    whole("penalty_last_n", settings.penalty_last_n, -1, "-1 (all), 0 (off) or more")
    for token, bias in settings.logit_bias.items():
        if not 0 <= token < vocab_size:
            raise ValueError(f"logit_bias names token {token}; this model's tokens are 0 to {vocab_size - 1}")
        if math.isnan(bias) or bias == math.inf:
            raise ValueError(f"logit_bias of token {token} must be a finite number or -inf, not {bias}")


def in_range(name: str, value: float, low: float, high: float, *, above: bool = False) -> None:
    """Raise ValueError when `value` is not finite or not between `low` and `high` (`above`: `low` itself excluded).

    With an `int` as `low` the words are those for a whole number.
    """
    finite = isinstance(value, int) or math.isfinite(value)
    if finite and (low < value if above else low <= value) and value <= high:
        return
    number = "" if isinstance(low, int) else "a finite number"
    if high < math.inf:
        wanted = f"between {_spelled(low)} and {_spelled(high)}"
    elif low > -math.inf:
        limit = f"above {_spelled(low)}" if above else f"{_spelled(low)} or more"
        wanted = limit if not number else f"{number} {limit}" if above else f"{number}, {limit}"
    else:
        wanted = number
    raise ValueError(f"{name} must be {wanted}, not {value}")


def _spelled(bound: float) -> str:
    """Every digit of a whole number counts: 18446744073709551615 is no 1.84467e+19."""
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def whole(name: str, value: int, low: int, wanted: str) -> None:
    """Raise ValueError when `value` is not a whole number of at least `low`; `wanted` says so in words."""
    if not isinstance(value, int) or value < low:
        raise ValueError(f"{name} must be a whole number, {wanted}, not {value}")
