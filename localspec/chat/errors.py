"""What can go wrong between a conversation and a prompt, said in one line."""


class TemplateError(Exception):
    """The model's chat template refused the conversation or could not be used. `str(error)` is one line; nothing of the
    conversation is changed."""


NEXT_STEP = "use --raw, or another copy of the model"
"""What helps when the template is at fault."""
