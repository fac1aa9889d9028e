"""Tables of a page."""

from collections.abc import Sequence

from localspec.bench.svg import shown


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text from outside is escaped; a wide one scrolls by itself."""
    head = "".join(f'<th scope="col">{shown(one)}</th>' for one in headings)
    body = "".join("<tr>" + "".join(f"<td>{shown(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
