"""What the controller decided in a cycle, and on which estimate, in words. No clock, no screen."""

from localspec.chat.looks import DRAFTER_NAMES, MISSING, place
from localspec.engine.events import Cycle


def reason(cycle: Cycle | None) -> str:
    """One sentence: who drafted how much, what that promised against plain decoding, or why nothing was drafted.

    The price in passes is what the estimate implies: tokens expected over the expected speed, a plain pass being 1.
    """
    if cycle is None:
        return MISSING
    if not cycle.proposed:
        return _plain(cycle)
    tokens = f"{cycle.proposed} token" + ("s" if cycle.proposed != 1 else "")
    name = DRAFTER_NAMES[cycle.drafter]
    told = f"{name[0].upper()}{name[1:]}, {tokens}"
    if cycle.source is not None:
        told += f" from {place(cycle.source)}"
    if not cycle.expected or not cycle.gain:
        return f"{told}."
    passes = cycle.expected / cycle.gain
    return f"{told}: expects {cycle.expected:.1f} tokens for {passes:.1f} passes, {cycle.gain:.2f}x plain."


def _plain(cycle: Cycle) -> str:
    if cycle.gain is None:
        return "Not drafting: there was nothing to choose from."
    if cycle.passes:
        return f"A draft was begun, but no token of it was sure enough; it had promised {cycle.gain:.2f}x plain."
    if cycle.gain < 1:
        return f"Not drafting: the best guess promised {cycle.gain:.2f}x plain."
    return f"A plain pass this time; the best guess promised {cycle.gain:.2f}x plain."
