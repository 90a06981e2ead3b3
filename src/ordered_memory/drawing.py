"""Trees and pointers as pictures: for the terminal, and as SVG that stands alone in a README or a report."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from html import escape
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordered_memory.errors import InputError
from ordered_memory.trees import Tree

# Middle tones, which read well on white and on black: a picture does not know where it will stand.
INK, EDGE, ACCENT = "#707a89", "#3f87d0", "#e0680e"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_EM = 0.602  # a letter's width in fixed-width type, by its size: we can space tokens without measuring any

# What a cell of the upright drawing shows, by the directions in which lines leave it.
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOX = {
    0: " ",
    _UP | _DOWN: "│",
    _LEFT | _RIGHT: "─",
    _DOWN | _RIGHT: "╭",
    _DOWN | _LEFT: "╮",
    _UP | _LEFT | _RIGHT: "┴",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}
_ASCII = str.maketrans("│─╭╮┴┬┼├└┐•░▒▓█", "|-+++++|`+o.:*#")
_SHADES = " ░▒▓█"
_FAINT = 0.01  # a slot whose weight never reaches this is left out of a picture


def draw_text(tree: Tree, width: int = 80, ascii_only: bool = False) -> str:
    """The tree for a terminal: upright over its tokens where that fits the width, else an outline of any size."""
    return _upright(tree, width, ascii_only) or _outline(tree, width, ascii_only)


def draw_svg(tree: Tree, highlight: Collection[tuple[int, int]] = frozenset(), title: str | None = None) -> str:
    """The tree as a self-contained SVG; nodes whose span is in `highlight` are drawn in a second colour."""
    edges = _columns(tree)
    centres = [(left + right) / 2 for left, right in pairwise(edges)]
    middles, heights = _middles(tree, centres, snap=8), _heights(tree)
    step = min(36.0 if tree.labels else 28.0, max(4.0, 2000 / max(heights, default=1)))  # a deep tree is drawn closer
    floor = 16 + max(heights, default=0) * step  # the height of a leaf
    base = floor + (20 if tree.leaf_labels else 0)  # where the tokens begin
    leaf = base - 10 if tree.leaf_labels else base  # where their edges end
    wanted = {(int(start), int(end)) for start, end in highlight}
    marked = [span in wanted for span in map(tuple, tree.spans.tolist())]

    paths: dict[bool, list[str]] = {False: [], True: []}
    dots = []
    for node, children in enumerate(tree.children):
        x, y = middles[node], floor - heights[node] * step
        for child in children:
            below = (centres[~child], leaf) if child < 0 else (middles[child], floor - heights[child] * step)
            paths[marked[node]].append(_elbow(x, y, *below, radius=min(7.0, step / 2)))
        colour = ACCENT if marked[node] else EDGE
        radius = min(3.6, step / 3)
        dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}"/>'
        dots.append(_pill(x, y, tree.labels[node], colour) if tree.labels else dot)
    lines = [
        f'<path d="{"".join(paths[mark])}" fill="none" stroke="{colour}" stroke-width="{thickness}"/>'
        for mark, colour, thickness in ((False, EDGE, 1.6), (True, ACCENT, 2.4))
        if paths[mark]
    ]
    tags = [_pill(x, leaf, tag, INK) for x, tag in zip(centres, tree.leaf_labels or (), strict=False)]
    words = [_words(x, base + 17, token) for x, token in zip(centres, tree.tokens, strict=True)]
    name = f"Tree: {' '.join(tree.tokens)}" if title is None else title
    return _svg([*lines, *dots, *tags, *words], edges[-1] + edges[0], base + 26, name)


def draw_pointer_text(pointer: ArrayLike, tokens: Sequence[str], ascii_only: bool = False) -> str:
    """A soft pointer (time, slots) as a heat map for the terminal: a line for each token, a column for each slot."""
    weights, shown = _pointer(pointer, tokens)
    words = [_visible(token) for token in tokens]
    margin = max(map(_cells, [*words, "slot"]))
    size = max(3, len(str(weights.shape[1] - 1)) + 1)
    shades = _SHADES.translate(_ASCII) if ascii_only else _SHADES
    bar = "|" if ascii_only else "│"
    lines = ["slot".rjust(margin) + "  " + "".join(f"{slot:^{size}}" for slot in shown)]
    for word, row in zip(words, np.rint(np.clip(weights, 0, 1) * 4).astype(int), strict=True):
        cells = "".join(shades[row[slot]] * size for slot in shown)
        lines.append(" " * (margin - _cells(word)) + f"{word} {bar}{cells}{bar}")
    key = "   ".join(f"{shade * 2} {part}" for shade, part in zip(shades[1:], ("¼", "½", "¾", "1"), strict=True))
    if ascii_only:
        key = key.replace("¼", "1/4").replace("½", "1/2").replace("¾", "3/4")
    lines += ["", f"weight: {key}", *_left_out(weights.shape[1], shown)]
    return "\n".join(line.rstrip() for line in lines)


def draw_pointer_svg(pointer: ArrayLike, tokens: Sequence[str], title: str | None = None) -> str:
    """A soft pointer (time, slots) as a heat map in SVG, the root's side of the memory on top.

    Tokens stand where `draw_svg` puts those of a tree without labels, so one picture can stand above the other.
    """
    weights, shown = _pointer(pointer, tokens)
    edges = _columns(Tree(tuple(tokens), np.zeros((0, 2), np.int32)))
    height = 20.0
    parts = []
    for row, slot in enumerate(reversed(shown)):
        y = 8 + row * height
        for (left, right), weight in zip(pairwise(edges), weights[:, slot].tolist(), strict=True):
            box = f'x="{left + 1:.1f}" y="{y + 1:.1f}" width="{right - left - 2:.1f}" height="{height - 2:.1f}" rx="3"'
            parts.append(f'<rect {box} fill="{INK}" fill-opacity="0.13"/>')
            if weight >= _FAINT:
                parts.append(f'<rect {box} fill="{EDGE}" fill-opacity="{min(weight, 1.0):.2f}"/>')
        name = f"slot {slot}" if row == 0 else str(slot)
        parts.append(_words(edges[-1] + 8, y + 14, name, size=11, anchor="start"))
    base = 8 + len(shown) * height
    centres = [(left + right) / 2 for left, right in pairwise(edges)]
    parts += [_words(x, base + 17, token) for x, token in zip(centres, tokens, strict=True)]
    notes = _left_out(weights.shape[1], shown)
    parts += [_words(edges[0] + 2, base + 40, note, size=11, anchor="start") for note in notes]
    width = max([edges[-1] + 70, *(edges[0] + 10 + _text_width(note, 11) for note in notes)])
    name = f"Pointer: {' '.join(tokens)}" if title is None else title
    return _svg(parts, width, base + (48 if notes else 26), name)


def stack_svg(*pictures: str, captions: Sequence[str] = ()) -> str:
    """Pictures that this module drew, one below the other in one, each under its caption if there are captions."""
    if captions and len(captions) != len(pictures):
        raise ValueError(f"{len(captions)} captions for {len(pictures)} pictures")
    sizes = [re.search(r'width="(\d+)" height="(\d+)"', picture) for picture in pictures]
    widths, heights = zip(*((int(size[1]), int(size[2])) for size in sizes if size), strict=True)
    above = 30 if captions else 0
    tops = list(accumulate((above + height for height in heights), initial=above))
    inner = [
        picture.replace("<svg ", f'<svg y="{top}" ', 1).rstrip()
        for picture, top in zip(pictures, tops[:-1], strict=True)
    ]
    heads = [_words(8, top - 8, caption, anchor="start") for caption, top in zip(captions, tops, strict=False)]
    width = max([*widths, *(math.ceil(16 + _text_width(caption, 14)) for caption in captions)])
    height = tops[-1] - above
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{_FONT}">'
    return "\n".join([opening, *heads, *inner, "</svg>"]) + "\n"


def _heights(tree: Tree) -> list[int]:
    """Of every node, the longest way down to a leaf."""
    heights = [0] * len(tree.spans)
    for node in reversed(range(len(heights))):
        heights[node] = 1 + max(heights[child] if child >= 0 else 0 for child in tree.children[node])
    return heights


def _middles(tree: Tree, centres: Sequence[float], snap: float) -> list[float]:
    """Of every node, the middle between its first and its last child; or right above a child nearly there."""
    middles = [0.0] * len(tree.spans)
    for node in reversed(range(len(middles))):
        below = [middles[child] if child >= 0 else centres[~child] for child in tree.children[node]]
        middle = (below[0] + below[-1]) / 2
        away, nearest = min(((abs(x - middle), x) for x in below[1:-1]), default=(0.0, middle))
        middles[node] = nearest if away <= snap else middle
    return middles


def _visible(text: str) -> str:
    """The text without what would break a line or a file: control characters, odd spaces."""
    if text.isprintable():
        return text
    unprintable = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() else " " if unicodedata.category(c) == "Zs" else unprintable for c in text)


def _cells(text: str) -> int:
    """Columns of a terminal that the text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _cell_widths(tree: Tree) -> list[int]:
    """Of every token, the columns it takes with all that stands right above it."""
    widths = [max(1, _cells(_visible(token))) for token in tree.tokens]
    for position, tag in enumerate(tree.leaf_labels or ()):
        widths[position] = max(widths[position], _cells(_visible(tag)))
    for (start, end), label in zip(tree.spans.tolist(), tree.labels or (), strict=False):
        if end == start + 1:
            widths[start] = max(widths[start], _cells(_visible(label)))
    return widths


def _upright(tree: Tree, width: int, ascii_only: bool) -> str | None:
    """Tokens in one row, branches above; None where it does not fit."""
    widths = _cell_widths(tree)
    lefts = _places(tree, widths, width)
    if lefts is None:
        return None
    centres = [left + (cells - 1) // 2 for left, cells in zip(lefts, widths, strict=True)]
    columns, heights = [int(middle) for middle in _middles(tree, centres, snap=1)], _heights(tree)
    rows = max(heights, default=0)
    grid = _branches(tree, centres, columns, heights, ascii_only, width)
    unary = "o" if ascii_only else "•"
    for node, ((start, end), children) in enumerate(zip(tree.spans.tolist(), tree.children, strict=True)):
        mark = _visible(tree.labels[node]) if tree.labels else unary if len(children) == 1 else ""
        left = columns[node] - (_cells(mark) - 1) // 2
        if mark and not lefts[start] <= left <= lefts[end - 1] + widths[end - 1] - _cells(mark):
            return None  # a long label on a narrow branch would run into its neighbours
        _place(grid[rows - heights[node]], columns[node], mark)
    for texts in (tree.leaf_labels, tree.tokens):
        if texts is not None:
            grid.append([" "] * width)
            for column, text in zip(centres, texts, strict=True):
                _place(grid[-1], column, _visible(text))
    return "\n".join("".join(row).rstrip() for row in grid)


def _places(tree: Tree, widths: list[int], width: int) -> list[int] | None:
    """Where each token begins, with room for every label between the corners of its branch; None if it is too wide."""
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1
    if sum(widths) + gap * (len(widths) - 1) > width:
        return None
    lefts = [0, *accumulate(cells + gap for cells in widths)][:-1]
    labels = tree.labels or ()
    for node in reversed(range(len(labels))):
        centres = [left + (cells - 1) // 2 for left, cells in zip(lefts, widths, strict=True)]
        middles = _middles(tree, centres, snap=1)
        first, last = tree.children[node][0], tree.children[node][-1]
        low, high = (int(middles[child]) if child >= 0 else centres[~child] for child in (first, last))
        need = _cells(_visible(labels[node])) + (2 if len(tree.children[node]) > 2 else 0)  # it may sit a little aside
        lack = need - (high - low - 1)
        if first != last and lack > 0:
            begin = int(tree.spans[last, 0]) if last >= 0 else ~last
            lefts[begin:] = [left + lack for left in lefts[begin:]]
    return lefts if lefts[-1] + widths[-1] <= width else None


def _branches(
    tree: Tree, centres: list[int], columns: list[int], heights: list[int], ascii_only: bool, width: int
) -> list[list[str]]:
    """The rows of lines above the tokens."""
    rows = max(heights, default=0)
    lines = np.zeros((rows, width), dtype=np.int8)
    for node, children in enumerate(tree.children):
        row = rows - heights[node]
        below = [columns[child] if child >= 0 else centres[~child] for child in children]
        lines[row, columns[node]] |= _UP
        lines[row, below[0] : below[-1]] |= _RIGHT
        lines[row, below[0] + 1 : below[-1] + 1] |= _LEFT
        for child, column in zip(children, below, strict=True):
            lines[row, column] |= _DOWN
            lines[row + 1 : rows - heights[child] if child >= 0 else rows, column] |= _UP | _DOWN
    shapes = {bits: shape.translate(_ASCII) if ascii_only else shape for bits, shape in _BOX.items()}
    return [[shapes[bits] for bits in row] for row in lines.tolist()]


def _place(row: list[str], centre: int, text: str) -> None:
    """Write the text into a row of single cells; a wide character empties the cell after it."""
    column = centre - (_cells(text) - 1) // 2
    for character in text:
        cells = _cells(character)
        if cells:
            row[column : column + cells] = [character] + [""] * (cells - 1)
            column += cells
        else:
            row[max(0, column - 1)] += character


def _outline(tree: Tree, width: int, ascii_only: bool) -> str:
    """A line for each node and token, indented. Deep trees would run off the page: there each line shows the nearest
    branches only, after the number of levels that are not drawn."""
    indent = 3 if tree.labels else 2
    fork, end, bar, node_mark = ("├─", "└─", "│", "┐")
    page = max(4, (width - 12) // indent)  # levels drawn side by side
    margin = len(f"+{tree.depth // page * page} ") if tree.depth > page else 0
    guides: list[str] = []  # for each level above, a bar where more children follow
    lines = []
    waiting = [(0 if len(tree.spans) else ~0, 0, True)]  # node, depth, whether it is the last child
    while waiting:
        node, depth, last = waiting.pop()
        guides[max(0, depth - 1) :] = [(" " if last else bar).ljust(indent)] if depth else []
        skipped = max(0, depth - 1) // page * page
        drawn = "".join(guides[skipped : depth - 1]) + (end if last else fork) if depth else ""
        if ascii_only:
            drawn = drawn.translate(_ASCII)
        if node >= 0:
            mark = node_mark.translate(_ASCII) if ascii_only else node_mark
            text = " " * bool(depth) + _visible(tree.labels[node]) if tree.labels else mark
            waiting += [(child, depth + 1, child == tree.children[node][-1]) for child in reversed(tree.children[node])]
        else:
            tag = f"{_visible(tree.leaf_labels[~node])} " if tree.leaf_labels else ""
            text = " " * bool(depth) + tag + _visible(tree.tokens[~node])
        lines.append((f"+{skipped}" if skipped else "").ljust(margin) + drawn + text)
    if margin:
        lines.append(f"(+{page}: {page} levels of branches further left are not drawn)")
    return "\n".join(lines)


def _pointer(pointer: ArrayLike, tokens: Sequence[str]) -> tuple[NDArray[Any], list[int]]:
    """The weights, and the slots that ever get any."""
    weights = np.asarray(pointer, dtype=np.float64)
    if weights.ndim != 2 or len(weights) != len(tokens) or not weights.size:
        raise InputError(f"a pointer must be (time, slots), and {len(tokens)} tokens long, not {weights.shape}")
    if not np.isfinite(weights).all():
        raise InputError(f"token {np.argwhere(~np.isfinite(weights))[0][0] + 1}: its pointer is not finite")
    return weights, np.flatnonzero(weights.max(axis=0) >= _FAINT).tolist()


def _left_out(num_slots: int, shown: list[int]) -> list[str]:
    """A line that says which slots a picture leaves out, if any."""
    missing = [slot for slot in range(num_slots) if slot not in set(shown)]
    if not missing:
        return []
    cuts = [0, *(index for index in range(1, len(missing)) if missing[index] != missing[index - 1] + 1), len(missing)]
    runs = [(missing[first], missing[last - 1]) for first, last in pairwise(cuts)]
    names = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    return [f"not drawn, hardly any weight: slot{'s' if len(missing) > 1 else ''} {names}"]


def _columns(tree: Tree) -> list[float]:
    """The edges of each token's column, wide enough for the token and what stands right above it."""
    extra = 16 if tree.labels or tree.leaf_labels else 13
    return list(accumulate((max(24.0, cells * 14 * _EM + extra) for cells in _cell_widths(tree)), initial=8.0))


def _text_width(text: str, size: float) -> float:
    return _cells(text) * size * _EM


def _elbow(x: float, y: float, to_x: float, to_y: float, radius: float) -> str:
    """Along, round the corner, and down."""
    if abs(to_x - x) < 0.1:
        return f"M{x:.1f} {y:.1f}V{to_y:.1f}"
    radius = min(radius, abs(to_x - x), to_y - y)
    turn = to_x - radius if to_x > x else to_x + radius
    return f"M{x:.1f} {y:.1f}H{turn:.1f}Q{to_x:.1f} {y:.1f} {to_x:.1f} {y + radius:.1f}V{to_y:.1f}"


def _words(x: float, y: float, text: str, size: int = 14, anchor: str = "middle", colour: str = INK) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(_visible(text))}</text>'


def _pill(x: float, y: float, text: str, colour: str) -> str:
    """A label in white on a rounded ground."""
    width = max(16.0, _text_width(_visible(text), 11) + 9)
    ground = f'<rect x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width:.1f}" height="16" rx="8" fill="{colour}"/>'
    return ground + _words(x, y + 4, text, size=11, colour="#fff")


def _svg(parts: list[str], width: float, height: float, title: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    short = _visible(title) if len(title) <= 200 else _visible(title[:200]) + " ..."
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{_FONT}">'
    return "\n".join([opening, f"<title>{escape(short)}</title>", *parts, "</svg>"]) + "\n"
