"""Charts: round ticks, and points where they belong."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.reproduce.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LETTER,
    RIGHT,
    ROW,
    TOP,
    WIDTH,
    Floor,
    Line,
    axis_ticks,
    line_chart,
    time_unit,
)

SVG = "{http://www.w3.org/2000/svg}"


@given(st.floats(1e-3, 1e6))
def test_ticks_are_few_even_and_within(end: float) -> None:
    ticks = axis_ticks(end)
    assert ticks[0] == 0
    assert 3 <= len(ticks) <= 7
    assert end * 0.6 < ticks[-1] <= end * (1 + 1e-6)
    steps = [later - former for former, later in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps))


@pytest.mark.parametrize(("longest", "unit"), [(0.5, "seconds"), (80, "seconds"), (180, "minutes"), (7200, "hours")])
def test_the_unit_suits_the_time(longest: float, unit: str) -> None:
    assert time_unit(longest)[0] == unit


def test_points_are_drawn_in_the_plot_at_their_place() -> None:
    line = Line("a <model>", [(0.0, 0.0), (50.0, 0.5), (100.0, 1.0)], colour=2, kept=(50.0, 0.5))
    root = ElementTree.fromstring(line_chart("title", "label", [line], Floor("floor", 0.2)))
    curve = next(path for path in root.iter(f"{SVG}path") if path.get("class") == "curve series-2")
    points = [tuple(map(float, point.split())) for point in (curve.get("d") or "")[1:].split("L")]
    middle = ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2)
    assert points == [(LEFT, HEIGHT - BOTTOM), middle, (WIDTH - RIGHT, TOP)]
    ring = next(circle for circle in root.iter(f"{SVG}circle") if circle.get("class") == "kept series-2")
    assert (float(ring.get("cx") or 0), float(ring.get("cy") or 0)) == middle
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a <model>", "floor", "label", "100%", "minutes of training"} <= set(texts)


def test_a_long_legend_goes_on_in_further_rows_and_all_else_makes_room() -> None:
    names = ["Ordered Memory", "Gumbel Tree-LSTM", "Havrylov et al. 2019", "Transformer", "ON-LSTM", "LSTM"]
    lines = [Line(name, [(0.0, 0.2), (9.0, 0.4)], number % 5, dash=number // 5) for number, name in enumerate(names)]
    root = ElementTree.fromstring(line_chart("title", "label", lines))
    texts = {text.text: text for text in root.findall(f"{SVG}text")}
    assert {*names, "label"} == texts.keys(), "the axes stand in a group of their own"
    rows = {float(texts[name].get("y") or 0) for name in names}
    for name in names:
        assert float(texts[name].get("x") or 0) + LETTER * len(name) <= WIDTH
    assert len(rows) > 1
    lower = ROW * (len(rows) - 1)
    assert root.get("viewBox") == f"0 0 {WIDTH} {HEIGHT + lower}"
    [group] = root.findall(f"{SVG}g")
    assert group.get("transform") == f"translate(0 {lower})"
    looks = [path.get("class") for path in group.iter(f"{SVG}path") if "curve" in (path.get("class") or "")]
    assert len(set(looks)) == len(names)


@pytest.mark.parametrize("points", [[], [(0.0, 0.3)], [(3.0, 0.3)]])
def test_a_chart_of_hardly_anything_is_still_one(points: list[tuple[float, float]]) -> None:
    root = ElementTree.fromstring(line_chart("title", "label", [Line("run", points, 0)]))
    assert len(list(root.iter(f"{SVG}circle"))) == len(points)


@pytest.mark.parametrize(
    ("points", "side", "below"),
    [
        ([(0.0, 0.6), (9.0, 0.9)], "end", True),  # the usual curve
        ([(9.0, 0.48)], "start", True),  # a short run, that ends where the name would stand
        ([(0.0, 0.48), (9.0, 0.48)], "end", False),  # one that runs along below the floor
    ],
)
def test_the_floors_name_covers_no_curve(points: list[tuple[float, float]], side: str, below: bool) -> None:
    root = ElementTree.fromstring(line_chart("title", "label", [Line("run", points, 0)], Floor("majority class", 0.5)))
    name = next(text for text in root.iter(f"{SVG}text") if text.text == "majority class")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    assert (name.get("text-anchor"), float(name.get("y") or 0) > middle) == (side, below)
