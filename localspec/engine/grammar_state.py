"""llama.cpp's grammars: where a text stands in one, and JSON schemas as one."""

import ctypes
from typing import Any

import llama_cpp.llama_cpp as native
import numpy as np
from numpy.typing import NDArray

from localspec.engine.errors import EngineError
from localspec.engine.llama import Model, recent_log

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class GrammarState:
    """Where a text stands in a grammar: which tokens may come next.

    Belongs to one thread, and to the model, which must outlive it.
    """

    def __init__(self, model: Model, handle: Any) -> None:
        self._model, self._handle = model, handle

    @classmethod
    def begin(cls, model: Model, grammar: str) -> "GrammarState":
        """Before the first token of a text in `grammar` (GBNF, checked by `gbnf.check`; its root is `root`).

        Raises `EngineError` when llama.cpp cannot use it.
        """
        recent_log.clear()
        vocab = native.llama_model_get_vocab(model.handle)
        handle = native.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
        if not handle:
            said = " ".join("".join(recent_log).split())
            raise EngineError(f"llama.cpp cannot use the grammar: {said or 'the reason is in the log'}")
        return cls(model, handle)

    def allowed(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of the tokens `ids` may come next. About 3 µs and 0.1 µs a token.

        An end token may when the text is complete; a control token never, for its text is not part of the answer.
        """
        candidates = np.zeros(len(ids), _CANDIDATE)
        candidates["id"] = ids
        data = ctypes.cast(candidates.ctypes.data, ctypes.POINTER(native.llama_token_data))
        array = native.llama_token_data_array(data=data, size=len(ids), selected=-1, sorted=False)
        native.llama_sampler_apply(self._handle, ctypes.byref(array))
        may: NDArray[np.bool_] = candidates["logit"] == 0
        may &= ~self._model.hidden_tokens[ids]
        return may

    def allows(self, token: int) -> bool:
        return bool(self.allowed(np.array([token], np.int32))[0])

    def accept(self, token: int) -> None:
        """Move on by one token; raises ValueError for one that may not come: the library would abort."""
        if not self.allows(token):
            raise ValueError(f"token {token} may not come here")
        if token not in self._model.end_tokens:
            native.llama_sampler_accept(self._handle, token)

    def clone(self) -> "GrammarState":
        """A state of its own at the same place. 3 µs for most grammars; 40 ms where a thousand texts are still open."""
        return GrammarState(self._model, native.llama_sampler_clone(self._handle))

    def after(self, token: int) -> "GrammarState":
        """The state after one more token, this one staying where it is; raises ValueError as `accept` does."""
        if not self.allows(token):
            raise ValueError(f"token {token} may not come here")
        state = self.clone()
        state.accept(token)
        return state

    def close(self) -> None:
        if self._handle:
            native.llama_sampler_free(self._handle)
            self._handle = None

    def __del__(self) -> None:
        # An answer that nobody reads to its end drops its states without closing them.
        self.close()


def schema_to_gbnf(schema: str) -> str:
    """llama-cpp-python's own conversion of a JSON schema to a grammar; raises whatever it raises."""
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    return str(json_schema_to_gbnf(schema))
