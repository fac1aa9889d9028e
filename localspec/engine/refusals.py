"""Requests that what is loaded cannot answer."""

from localspec.engine.errors import EngineError, PromptTooLong
from localspec.engine.events import MODEL_DRAFTERS
from localspec.engine.requests import EngineInfo, Request

NOT_LOADED = {
    "draft": "no draft model is loaded; load one, or speculate with lookup",
    "mtp": "no MTP heads are loaded: the model's file carries none, or they were not asked for when it was loaded",
    "self": "no draft made of the model's own layers is loaded; load one, or speculate with lookup",
}


def check(request: Request, prompt_tokens: int, info: EngineInfo, size: int, longest: int) -> None:
    """Raises `EngineError` for a request that cannot be answered. `size` is the target's context and `longest` the
    longest draft, in tokens."""
    if not prompt_tokens:
        raise EngineError("the prompt is empty")
    if prompt_tokens > size:
        raise PromptTooLong(
            f"the prompt has {prompt_tokens} tokens, {prompt_tokens - size} more than the context of {size} holds"
        )
    if request.speculate in MODEL_DRAFTERS and request.speculate != info.drafter:
        raise EngineError(NOT_LOADED[request.speculate])
    if request.draft_length is not None and not 1 <= request.draft_length <= longest:
        raise EngineError(f"the draft length must be between 1 and {longest}, not {request.draft_length}")
    if request.max_tokens is not None and request.max_tokens < 1:
        raise EngineError(f"max_tokens must be 1 or more, not {request.max_tokens}")
