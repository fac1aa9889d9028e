"""What bounds the passes of one answer: how long its drafts, how much of its prompt is read, where reading is cut; and
whether its text comes out the same again, which depends on both."""

from collections.abc import Iterator

from localspec.engine.agreement import Agreement
from localspec.engine.context import Context, stretches
from localspec.engine.prompt import common_prefix
from localspec.engine.requests import Request

PREFILL_CHUNK = 256
"""Prompt tokens a decode: small enough for progress several times a second, large enough for full speed."""


class Bounds:
    """The bounds of the answer to `request`, whose prompt is `ids`. `coupled`: its rule is; `drafts`: any are allowed;
    `greedy`: no token is drawn."""

    def __init__(
        self,
        target: Context,
        request: Request,
        ids: list[int],
        agreement: Agreement,
        *,
        coupled: bool,
        drafts: bool,
        greedy: bool,
    ) -> None:
        self._target = target
        self._request = request
        self._ids = ids
        self._agreement = agreement
        self._coupled = coupled
        self._drafts = drafts
        self._greedy = greedy
        self._text = len(ids) if target.encodes else 0

    def draft(self, emitted: int) -> int:
        """The longest draft the next cycle may have: room, batch, rollback and the tokens still wanted bound it."""
        target = self._target
        bounds = [target.room - 1, target.options.batch - 1, target.options.outputs - 1]
        if self._request.draft_length is None:
            bounds.append(self._longest)
        if self._request.max_tokens is not None:
            bounds.append(self._request.max_tokens - emitted - 1)
        if target.depth.kind == "last_pass":
            bounds.append(target.depth.tokens)
        return max(0, min(bounds))

    @property
    def _longest(self) -> int:
        """The longest draft that is not asked for: where passes agree to the bit, coupled answers keep to them."""
        if self._coupled and self._agreement.widths > 1:
            return self._agreement.widths - 1
        return self._target.options.outputs - 1

    @property
    def reusable(self) -> int:
        """Tokens of the prompt that need not be read again. The last one always is: its logits are wanted.

        Where a seed promises a text, and passes that read differ from those that wrote, a short prompt is read anew: it
        costs one pass, and the text does not depend on what was said before. What an encoder read is all of the prompt
        or none of it.
        """
        if self._text:
            return self._text - 1 if list(self._target.text) == self._ids else 0
        promised = self._coupled and self._request.seed is not None
        if promised and not self._agreement.prompt and len(self._ids) <= PREFILL_CHUNK:
            return 0
        return min(common_prefix(self._target.tokens, self._ids), len(self._ids) - 1)

    @property
    def reproducible(self) -> bool:
        """Whether this request gives this text again, to the bit: which tokens share a pass depends on timing."""
        repeats = self._request.seed is not None and (self._coupled or not self._drafts)
        if not (repeats or self._greedy):
            return False
        widest = 1 + (self._request.draft_length or self._longest) if self._drafts else 1
        return self._agreement.holds(widest, 0 if self._text else self.reusable)

    def chunks(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Where to cut a stretch that is decoded without being judged."""
        return stretches(start, end, min(PREFILL_CHUNK, self._target.options.batch), self._text)
