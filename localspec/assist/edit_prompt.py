"""How a model is asked for an edit: the text to change in one block, the complete new text in one block back.

Nearly all of such an answer is a copy of the prompt, which prompt lookup drafts. The wording is what a 1.5B model keeps
to: what to do first, the text, then what to answer with, said once more at the end, where small models look.
"""

import re
from collections.abc import Sequence

from localspec.assist.answer import fence_for
from localspec.chat.attach import Attached

LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".jsx": "jsx", ".ts": "typescript",
    ".tsx": "tsx", ".rs": "rust", ".go": "go", ".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".cc": "cpp",
    ".cs": "csharp", ".java": "java", ".kt": "kotlin", ".rb": "ruby", ".sh": "bash", ".md": "markdown", ".yml": "yaml",
    ".yaml": "yaml", ".toml": "toml", ".json": "json", ".html": "html", ".css": "css", ".sql": "sql", ".lua": "lua",
}  # fmt: skip


def fenced(text: str, suffix: str) -> str:
    """The text in a fence that nothing in it closes, with its language."""
    language = LANGUAGES.get(suffix) or (suffix[1:] if re.fullmatch(r"\.[A-Za-z0-9+]{1,10}", suffix) else "")
    fence = fence_for(text)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def for_whole(instruction: str, name: str, text: str, suffix: str, context: Sequence[Attached]) -> str:
    """The question for a whole text; `name` "" for one that has none."""
    if not text:
        return "\n\n".join(
            [
                *_context(context),
                f"{instruction}\n\nThe file {name} is empty. Answer with its complete new text in one code block."
                if name
                else f"{instruction}\n\nAnswer with the complete text in one code block.",
            ]
        )
    called = f"the file {name}" if name else "this text"
    return "\n\n".join(
        [
            *_context(context),
            f"{instruction}\n\n{called[0].upper()}{called[1:]}:\n\n{fenced(text, suffix)}",
            f"{instruction}\nAnswer with the complete new text of {called} in one code block{_fence_word(text)}. "
            "Write every line, and change nothing else.",
        ]
    )


def for_part(instruction: str, name: str, text: str, suffix: str, context: Sequence[Attached]) -> str:
    """The question for a part of a text, which alone is shown: a small model that sees what stands around a part
    answers with that too, changed as well, and nothing in its answer tells the two apart."""
    called = f"the file {name}" if name else "a text"
    return "\n\n".join(
        [
            *_context(context),
            f"{instruction}\n\nThis part of {called}:\n\n{fenced(text, suffix)}",
            f"{instruction}\nAnswer with the complete new text of this part in one code block{_fence_word(text)}. "
            "Write every line of it, keep its indentation, and change nothing else.",
        ]
    )


def _context(files: Sequence[Attached]) -> list[str]:
    return [f"For reference, not to be changed: {file.name}\n\n{fenced(file.text, file.suffix)}" for file in files]


def _fence_word(text: str) -> str:
    fence = fence_for(text)
    return f" between lines of {len(fence)} backticks" if len(fence) > 3 else ""
