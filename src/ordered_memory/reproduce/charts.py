"""Line charts as SVG for a page: colours and type come from the page's style sheet, so they follow light and dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 480, 320
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 58, 42  # room around the plot for heading, legend and the axes' labels
LETTER = 8.2  # width of a letter of the legend, near enough
ROW = 20  # height of a row of the legend


@dataclass(frozen=True)
class Line:
    """One curve: points (seconds, fraction of 1) in the order of time."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    """Which of the style sheet's colours, from 0."""
    kept: tuple[float, float] | None = None
    """The point of the checkpoint that was kept; it gets a ring."""
    dash: int = 0
    """Which of the style sheet's dashes, from 0, a solid line: what tells lines of one colour apart."""

    @property
    def look(self) -> str:
        """Its classes in the style sheet."""
        return f"curve series-{self.colour}" + (f" dash-{self.dash}" if self.dash else "")


@dataclass(frozen=True)
class Floor:
    """A level to compare with, drawn dashed across the chart."""

    name: str
    height: float


def line_chart(title: str, label: str, lines: Sequence[Line], floor: Floor | None = None) -> str:
    """Curves of fractions, shown as percent from 0 to 100, against time."""
    longest = max((x for line in lines for x, _ in line.points), default=1.0)
    unit, seconds = time_unit(longest)
    ticks = axis_ticks(longest / seconds)
    end = max(longest / seconds, 1e-9)

    def place(x: float, y: float) -> tuple[float, float]:
        across = x / seconds / end * (WIDTH - LEFT - RIGHT)
        return LEFT + across, HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)

    curves = [[place(x, y) for x, y in line.points] for line in lines]
    parts = _axes(unit, [(place(tick * seconds, 0)[0], f"{tick:g}") for tick in ticks])
    if floor is not None:
        _, y = place(0, floor.height)
        parts.append(f'<path class="floor" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_floor_name(floor.name, y, [curve for curve in curves if curve]))
    for line, curve in zip(lines, curves, strict=True):
        parts += _curve(line, curve, None if line.kept is None else place(*line.kept))
    legend, rows = _legend(lines)
    lower = ROW * (rows - 1)  # where the legend has more than one, all below it makes room
    if lower:
        parts = [f'<g transform="translate(0 {lower})">', *parts, "</g>"]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {HEIGHT + lower}" role="img">'
    heading = _text(0, 14, label, "start", "heading")
    return "\n".join([head, f"<title>{escape(title)}</title>", heading, *parts, *legend, "</svg>"])


def time_unit(longest: float) -> tuple[str, int]:
    """The unit that suits a time, and its seconds."""
    for unit, seconds in (("hours", 3600), ("minutes", 60)):
        if longest >= 1.5 * seconds:
            return unit, seconds
    return "seconds", 1


def axis_ticks(end: float, most: int = 6) -> list[float]:
    """Round numbers from 0 up to the end, at most so many steps."""
    if not end > 0:
        return [0.0]
    rough = end / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [round(number * step, 10) for number in range(int(end / step + 1e-9) + 1)]


def _axes(unit: str, ticks: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    bottom = HEIGHT - BOTTOM
    for percent in range(0, 101, 20):
        y = bottom - percent / 100 * (bottom - TOP)
        parts.append(f'<path class="{"grid" if percent else "axis"}" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{percent}%" if percent == 100 else str(percent), "end"))
    for x, text in ticks:
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v5"/>')
        parts.append(_text(x, bottom + 19, text, "middle"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 4, f"{unit} of training", "end"))
    return parts


def _floor_name(name: str, floor: float, curves: Sequence[Sequence[tuple[float, float]]]) -> str:
    """The name of a floor, where it covers no curve: below it if there is room above the axis, and to the right."""
    width = LETTER * len(name)
    heights = (15, -5) if floor + 15 < HEIGHT - BOTTOM else (-5,)
    sides = {"end": WIDTH - RIGHT - 2, "start": LEFT + 4}
    places = [(x, floor + down, side) for down in heights for side, x in sides.items()]

    def covers(x: float, y: float, side: str) -> bool:
        left = x - width if side == "end" else x
        return any(left - 4 <= at <= left + width + 4 and y - 15 <= height <= y + 5 for at, height in drawn)

    drawn = [point for curve in curves for point in _along(curve)]
    x, y, side = next((place for place in places if not covers(*place)), places[0])
    return _text(x, y, name, side)


def _along(curve: Sequence[tuple[float, float]], every: float = 3.0) -> list[tuple[float, float]]:
    """Points of a curve, and of the straight lines between them."""
    points = [curve[0]]
    for (x, y), (further, other) in pairwise(curve):
        parts = max(1, math.ceil(math.hypot(further - x, other - y) / every))
        points += [(x + (further - x) * part / parts, y + (other - y) * part / parts) for part in range(1, parts + 1)]
    return points


def _curve(line: Line, points: Sequence[tuple[float, float]], kept: tuple[float, float] | None) -> list[str]:
    if not points:
        return []
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    x, y = points[-1]
    parts = [
        f'<path class="{line.look}" d="M{path}"/>',
        f'<circle class="dot series-{line.colour}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>',
    ]
    if kept is not None:
        parts.append(f'<circle class="kept series-{line.colour}" cx="{kept[0]:.1f}" cy="{kept[1]:.1f}" r="5"/>')
    return parts


def _legend(lines: Sequence[Line]) -> tuple[list[str], int]:
    """The names of the lines, and in how many rows they stand."""
    parts, x, row = [], 1.0, 0
    for line in lines:
        width = 24 + LETTER * len(line.name)
        if x > 1.0 and x + width > WIDTH:
            x, row = 1.0, row + 1
        y = 34 + ROW * row
        parts.append(f'<path class="{line.look}" d="M{x:.1f} {y}h18"/>')
        parts.append(_text(x + 24, y + 4, line.name, "start"))
        x += width + 18
    return parts, row + 1


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
