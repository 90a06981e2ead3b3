"""The few pieces of HTML that a report is made of. What is not said to be HTML already is escaped here."""

from collections.abc import Sequence
from html import escape


def section(title: str, body: str) -> str:
    """A part of the page under its heading; the body is HTML already."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def table(heads: Sequence[str], rows: Sequence[str], caption: str) -> str:
    """A table of rows that are HTML already; it scrolls by itself where the page is too narrow."""
    cells = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "\n".join(rows)
    inner = f"<thead><tr>{cells}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    note = f'\n<p class="caption">{escape(caption)}</p>' if caption else ""
    return f'<div class="scroll"><table>\n{inner}\n</table></div>{note}'


def row(name: str, cells: Sequence[str], kind: str = "") -> str:
    """A row with a heading of its own; the cells are HTML already."""
    mark = f' class="{kind}"' if kind else ""
    return f'<tr{mark}><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>'


def figure(picture: str, caption: str) -> str:
    """A picture with its caption in words."""
    return f"<figure>\n{picture}\n<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
