"""Untrusted text made visible: what a model, a file or an error says never steers a terminal."""

_C0_PICTURES = 0x2400
_DELETE_PICTURE = "\u2421"

_VISIBLE = (
    {code: chr(_C0_PICTURES + code) for code in range(0x20) if chr(code) not in "\t\n"}
    | {0x7F: _DELETE_PICTURE}
    | {code: f"<{code:02X}>" for code in range(0x80, 0xA0)}
)


def visible(text: str) -> str:
    """`text` with every control character but tab and newline as a mark: ESC as ␛, 8-bit CSI as <9B>, CR as ␍."""
    return text.translate(_VISIBLE)


class VisibleStream:
    """`visible`, for text in pieces: CR LF is a newline also when the two come apart. `finish` gives what is held."""

    def __init__(self) -> None:
        self._carriage = False

    def push(self, text: str) -> str:
        if self._carriage:
            text = "\r" + text
        self._carriage = text.endswith("\r")
        if self._carriage:
            text = text[:-1]
        return visible(text.replace("\r\n", "\n"))

    def finish(self) -> str:
        held = "\r" if self._carriage else ""
        self._carriage = False
        return visible(held)


def one_line(text: str) -> str:
    """Untrusted text on one line: control characters visible, line breaks as spaces."""
    return visible(" ".join(part for part in text.split("\n") if part).replace("\t", " ").strip())
