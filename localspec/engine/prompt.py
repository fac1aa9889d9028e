"""Prompt segments to tokens: special tokens come from trusted text only, and the begin token stands once."""

import re
from collections.abc import Iterable, Sequence

from localspec.engine.llama import Model
from localspec.engine.requests import Segment

_SPACE = " \t\n\v\f\r"


class PromptEncoder:
    """Tokenises prompts for one model.

    Trusted text is split at the spellings of control tokens, as llama.cpp does; what lies between two of them, whoever
    wrote it, is tokenised in one piece without recognising specials, less the white space that a neighbouring control
    token takes along (Phi-3's do). So a prompt whose untrusted parts spell no control token gets the very tokens of the
    whole string.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        spellings = sorted(model.special_tokens, key=len, reverse=True)
        self._strips = {token: model.strips(token) for token in model.special_tokens.values()}
        self._special = re.compile("|".join(map(re.escape, spellings))) if spellings else None

    def encode(self, prompt: Iterable[Segment]) -> list[int]:
        """Token ids; the begin token is put first when the vocabulary wants one and the text brings none, and for an
        encoder the end token last: no answer is to continue the text."""
        model = self._model
        ids: list[int] = []
        plain: list[str] = []

        def flush(before: int | None) -> None:
            """Tokenise what was collected between the last control token and `before`."""
            text = "".join(plain)
            plain.clear()
            if ids and self._strips.get(ids[-1], (False, False))[1]:
                text = text.lstrip(_SPACE)
            if before is not None and self._strips[before][0]:
                text = text.rstrip(_SPACE)
            if text:
                ids.extend(model.tokenize(text))

        for segment in prompt:
            if not segment.trusted or self._special is None:
                plain.append(segment.text)
                continue
            start = 0
            for match in self._special.finditer(segment.text):
                plain.append(segment.text[start : match.start()])
                token = model.special_tokens[match.group()]
                flush(token)
                ids.append(token)
                start = match.end()
            plain.append(segment.text[start:])
        flush(None)
        if model.add_bos and model.bos is not None and ids[:1] != [model.bos]:
            ids.insert(0, model.bos)
        if model.has_encoder and model.add_eos and model.eos is not None and ids and ids[-1] != model.eos:
            ids.append(model.eos)
        return ids


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences share at their start."""
    end = min(len(first), len(second))
    # Halving finds the difference with a few fast list comparisons instead of a loop over every token.
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        if list(first[low:middle]) == list(second[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low
