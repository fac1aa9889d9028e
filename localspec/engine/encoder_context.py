"""The context of an encoder-decoder model (T5): the encoder reads the text once, the decoder writes and attends to it.

It is used like any other context. Its record goes through the text into the answer: the first tokens decoded after a
clear are the text, all of it in one pass, and the logits after it are those that the decoder's start token gives. The
start token is no part of the record. Cutting back takes tokens of the decoder alone, so the encoder's output stays; the
text without its last token may be kept too, and saying that token again gives the first logits again without reading
the text. Anything less of it is nothing: an encoder has no prefixes.

llama.cpp keeps the encoder's output and no keys and values of it: each pass of the decoder computes them anew.
"""

from collections.abc import Sequence

import llama_cpp.llama_cpp as native
import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context, ContextOptions
from localspec.engine.errors import DecodeError, LoadError
from localspec.engine.llama import AbortFlag, Model


def open_context(model: Model, options: ContextOptions, abort: AbortFlag | None = None) -> Context:
    """A context of the kind this model needs. Raises `LoadError`."""
    return (EncoderContext if model.has_encoder else Context)(model, options, abort)


class EncoderContext(Context):
    """`text` is what the encoder has read. `options.batch` bounds it, as it bounds every pass."""

    encodes = True

    def __init__(self, model: Model, options: ContextOptions, abort: AbortFlag | None = None) -> None:
        super().__init__(model, options, abort)
        start = model.decoder_start
        if start is None:
            self.close()
            raise LoadError(f"{model.path} names no token that its decoder starts with")
        self._start = start
        self.text: list[int] = []

    def decode(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        """As every context does; of the text there is one row of logits, that of the decoder's start."""
        if self.text and len(self.tokens) >= len(self.text):
            return super().decode(tokens, rows)
        text = [*self.tokens, *tokens]
        # More tokens than a micro-batch, or a decoder without an encoder's output, end the process.
        longest = min(self.options.batch, self.size, int(native.llama_n_ubatch(self._ctx)))
        if not 0 < len(text) <= longest or rows > 1:
            raise DecodeError(f"a text of {len(text)} tokens, {rows} rows: the encoder reads {longest} and gives one")
        if text != self.text:
            self.clear()
            self._pass(native.llama_encode, text, 0, len(text))
            self.text = text
        self._pass(native.llama_decode, [self._start], 0, rows)
        self.tokens[:] = text
        self._last_pass = 1
        return self._logits(rows)

    def truncate(self, keep: int) -> int:
        """As every context does; `keep` may end one token before the end of the text, but not before that."""
        if keep >= len(self.tokens):
            return len(self.tokens)
        if keep < len(self.text) - 1:
            self.clear()
            return 0
        if keep < len(self.text):
            native.llama_memory_clear(self._memory, True)
            del self.tokens[keep:]
            return keep
        return super().truncate(keep)

    def clear(self) -> None:
        super().clear()
        self.text = []

    def _place(self, index: int) -> int:
        """The decoder's start token is where the text ends."""
        return index - len(self.text) + 1
