"""Drawing: small pictures exactly as they must look, and any tree or pointer without losing a token."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.drawing import ACCENT, EDGE, draw_pointer_svg, draw_pointer_text, draw_svg, draw_text, stack_svg
from ordered_memory.errors import InputError
from ordered_memory.trees import Tree, left_branching, random_tree, right_branching

SVG = "{http://www.w3.org/2000/svg}"
LISTOPS = Tree.from_brackets("( ( ( [MAX 2 ) ( ( [MIN 4 ) ] ) ) ] )")
SENTENCE = Tree.from_brackets("(S (NP (DT the) (JJ old) (NN cat)) (VP (VBZ sleeps)) (. .))", "ptb")
POINTER = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0.02, 0.5, 0.48], [0, 0, 0.75, 0.25, 0]])


def picture(text: str) -> str:
    """A picture as it stands in a test: every line begins at its |."""
    return "\n".join(line.removeprefix("|") for line in dedent(text).strip("\n").split("\n"))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


# ---- trees in a terminal


def test_upright() -> None:
    assert draw_text(LISTOPS) == picture(
        """
        |         ╭─────┴─────╮
        |   ╭─────┴─────╮     │
        |   │        ╭──┴──╮  │
        | ╭─┴──╮   ╭─┴──╮  │  │
        |[MAX  2  [MIN  4  ]  ]
        """
    )


def test_upright_in_ascii_and_closer() -> None:
    assert draw_text(LISTOPS, width=17, ascii_only=True) == picture(
        """
        |       +---+----+
        |   +---+----+   |
        |   |      +-+-+ |
        | +-+-+  +-+-+ | |
        |[MAX 2 [MIN 4 ] ]
        """
    )


def test_upright_with_labels() -> None:
    assert draw_text(SENTENCE) == picture(
        """
        |      ╭───────S──┬─────╮
        | ╭────NP───╮     VP    │
        | DT   JJ   NN   VBZ    .
        |the  old  cat  sleeps  .
        """
    )


def test_long_labels_make_room() -> None:
    assert draw_text(Tree.from_brackets("(FRAGMENT (A a) (B b))", "ptb")) == picture(
        """
        |╭FRAGMENT╮
        |A        B
        |a        b
        """
    )


def test_upright_with_unary_nodes_and_wide_characters() -> None:
    assert draw_text(Tree.from_brackets("( ( a ) ( ( b 漢字 ) ) e\u0301 )")) == picture(
        """
        |╭────┼──────╮
        |│    •      │
        |•  ╭─┴─╮    │
        |a  b  漢字  e\u0301
        """
    )


def test_outline_where_upright_does_not_fit() -> None:
    assert draw_text(LISTOPS, width=16) == picture(
        """
        |┐
        |├─┐
        |│ ├─┐
        |│ │ ├─ [MAX
        |│ │ └─ 2
        |│ └─┐
        |│   ├─┐
        |│   │ ├─ [MIN
        |│   │ └─ 4
        |│   └─ ]
        |└─ ]
        """
    )


def test_outline_with_labels_in_ascii() -> None:
    assert draw_text(SENTENCE, width=10, ascii_only=True) == picture(
        """
        |S
        ||- NP
        ||  |- DT the
        ||  |- JJ old
        ||  `- NN cat
        ||- VP
        ||  `- VBZ sleeps
        |`- . .
        """
    )


def test_a_label_too_long_for_its_place_gets_an_outline() -> None:
    tree = Tree.from_brackets("(S (UNREASONABLE (X (A a) (B b))) (B b))", "ptb")
    assert draw_text(tree).splitlines()[1] == "├─ UNREASONABLE"


def test_a_lone_token_is_drawn_as_itself() -> None:
    assert draw_text(Tree.from_spans(["solo"], [])) == "solo"
    assert draw_text(Tree.from_spans(["solo"], []), width=2) == "solo"


def test_characters_that_would_break_a_line_are_replaced() -> None:
    tree = Tree.from_spans(["a\nb", "c\u00a0d", "\x1b[0m"], [(0, 3)])
    for width in (40, 3):
        assert [token in draw_text(tree, width) for token in ("a\ufffdb", "c d", "\ufffd[0m")] == [True] * 3


@given(st.integers(2, 40), st.integers(0, 2**32), st.integers(1, 150), st.booleans())
def test_every_token_is_drawn_in_order_and_within_the_width(
    length: int, seed: int, width: int, ascii_only: bool
) -> None:
    rng = np.random.default_rng(seed)
    tokens = [f"w{index}" for index in range(length)]
    drawing = draw_text(random_tree(tokens, rng), width, ascii_only)
    words = [word for word in drawing.split() if word.startswith("w")]
    assert words == tokens
    assert ascii_only == drawing.isascii()
    if drawing.splitlines()[-1].split() == tokens:  # upright
        assert max(map(len, drawing.splitlines())) <= width


@pytest.mark.parametrize("grow", [left_branching, right_branching])
def test_deep_trees_stay_legible(grow: Callable[[Sequence[str]], Tree]) -> None:
    lines = draw_text(grow([f"w{index}" for index in range(10_000)]), width=60).splitlines()
    assert max(map(len, lines)) <= 72
    assert len(lines) == 10_000 + 9_999 + 1
    assert lines[-1].endswith("levels of branches further left are not drawn)")
    deepest = next(line for line in lines if line.endswith("─ w9998" if grow is right_branching else "─ w0"))
    assert deepest.startswith("+99")


# ---- trees as SVG


def test_svg_is_self_contained_and_shows_every_token() -> None:
    svg = draw_svg(LISTOPS)
    root = ElementTree.fromstring(svg)
    assert texts(svg) == list(LISTOPS.tokens)
    assert len(list(root.iter(f"{SVG}circle"))) == len(LISTOPS.spans)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {"svg", "title", "path", "circle", "text"}
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert ACCENT not in svg
    xs = [float(element.get("x", "")) for element in root.iter(f"{SVG}text")]
    assert xs == sorted(xs)
    assert 0 < xs[0] < xs[-1] < float(root.get("width", ""))


def test_svg_shows_labels() -> None:
    assert sorted(texts(draw_svg(SENTENCE))) == sorted(
        [*SENTENCE.tokens, *(SENTENCE.labels or ()), *(SENTENCE.leaf_labels or ())]
    )


def test_svg_highlights_the_spans_asked_for() -> None:
    root = ElementTree.fromstring(draw_svg(LISTOPS, highlight={(0, 2), (2, 4), (1, 3)}))
    dots = [dot.get("fill") for dot in root.iter(f"{SVG}circle")]
    expected = [ACCENT if tuple(span) in {(0, 2), (2, 4)} else EDGE for span in LISTOPS.spans.tolist()]
    assert dots == expected
    edges = {path.get("stroke"): path.get("d", "").count("M") for path in root.iter(f"{SVG}path")}
    assert edges == {EDGE: 6, ACCENT: 4}


def test_svg_escapes_what_xml_reserves() -> None:
    tokens = ["<b>", "&", '"', "\x00"]
    tree = Tree.from_spans(tokens, [(0, 4)], labels=["<S>"])
    svg = draw_svg(tree, title="<&>")
    assert texts(svg) == ["<S>", "<b>", "&", '"', "\ufffd"]
    assert ElementTree.fromstring(svg).findtext(f"{SVG}title") == "<&>"
    assert texts(draw_pointer_svg(np.ones((4, 1)), tokens))[-4:] == ["<b>", "&", '"', "\ufffd"]


@pytest.mark.parametrize("tree", [Tree.from_spans(["solo"], []), right_branching(["w"] * 10_000)])
def test_svg_of_any_size(tree: Tree) -> None:
    svg = draw_svg(tree)
    assert len(texts(svg)) == len(tree)
    assert "nan" not in svg


# ---- pointers


def test_pointer_in_a_terminal() -> None:
    assert draw_pointer_text(POINTER, ["a", "bb", "c", "漢字"]) == picture(
        """
        |slot   2  3  4
        |   a │         │
        |  bb │      ███│
        |   c │   ▒▒▒▒▒▒│
        |漢字 │▓▓▓░░░   │
        |
        |weight: ░░ ¼   ▒▒ ½   ▓▓ ¾   ██ 1
        |not drawn, hardly any weight: slots 0-1
        """
    )


def test_pointer_in_ascii_with_all_slots() -> None:
    assert draw_pointer_text(np.eye(2), ["first", "second"], ascii_only=True) == picture(
        """
        |  slot   0  1
        | first |###   |
        |second |   ###|
        |
        |weight: .. 1/4   :: 1/2   ** 3/4   ## 1
        """
    )


def test_slots_left_out_are_named() -> None:
    pointer = np.zeros((1, 9))
    pointer[0, [3, 8]] = 0.5
    assert draw_pointer_text(pointer, ["a"]).endswith("slots 0-2, 4-7")
    pointer[0, 4:] = 0.5
    pointer[0, 0:2] = 0.5
    assert draw_pointer_text(pointer, ["a"]).endswith("slot 2")


def test_pointer_svg() -> None:
    svg = draw_pointer_svg(POINTER, ["a", "bb", "c", "d"])
    assert texts(svg) == ["slot 4", "3", "2", "a", "bb", "c", "d", "not drawn, hardly any weight: slots 0-1"]
    cells = [cell for cell in ElementTree.fromstring(svg).iter(f"{SVG}rect") if cell.get("fill") == EDGE]
    opacity = [float(cell.get("fill-opacity", "")) for cell in cells]
    assert opacity == [1.0, 0.48, 0.5, 0.25, 0.02, 0.75]


def test_pointer_and_tree_share_their_columns() -> None:
    def places(svg: str) -> list[str | None]:
        found = {element.text: element.get("x") for element in ElementTree.fromstring(svg).iter(f"{SVG}text")}
        return [found[token] for token in ("one", "two", "three")]

    tokens = ["one", "two", "three"]
    assert places(draw_svg(left_branching(tokens))) == places(draw_pointer_svg(np.eye(3), tokens))


@pytest.mark.parametrize("draw", [draw_pointer_text, draw_pointer_svg])
def test_bad_pointers_are_refused(draw: Callable[..., str]) -> None:
    with pytest.raises(InputError, match="3 tokens long"):
        draw(np.eye(2), ["a", "b", "c"])
    with pytest.raises(InputError, match=r"\(time, slots\)"):
        draw(np.ones(2), ["a", "b"])
    with pytest.raises(InputError, match=r"token 2: .* not finite"):
        draw([[0, 1], [np.nan, 1]], ["a", "b"])


# ---- both


def test_stacked_pictures_keep_every_word_and_do_not_overlap() -> None:
    tree, pointer = draw_svg(LISTOPS), draw_pointer_svg(POINTER, ["a", "b", "c", "d"])
    both = stack_svg(tree, pointer)
    assert texts(both) == texts(tree) + texts(pointer)
    outer = ElementTree.fromstring(both)
    upper, lower = outer.findall(f"{SVG}svg")
    assert float(lower.get("y", "")) == float(upper.get("height", ""))
    assert float(outer.get("height", "")) == float(upper.get("height", "")) + float(lower.get("height", ""))
    assert float(outer.get("width", "")) == max(float(part.get("width", "")) for part in (upper, lower))


def test_captions_stand_above_their_pictures() -> None:
    tree, pointer = draw_svg(LISTOPS), draw_pointer_svg(POINTER, ["a", "b", "c", "d"])
    long = "below " * 100
    both = ElementTree.fromstring(stack_svg(tree, pointer, captions=["above", long]))
    (first, second), (upper, lower) = both.findall(f"{SVG}text"), both.findall(f"{SVG}svg")
    heights = [float(part.get("height", "")) for part in (upper, lower)]
    assert first.text == "above"
    assert 0 < float(first.get("y", "")) < float(upper.get("y", ""))
    assert float(upper.get("y", "")) + heights[0] < float(second.get("y", "")) < float(lower.get("y", ""))
    assert float(both.get("height", "")) == float(lower.get("y", "")) + heights[1]
    assert float(both.get("width", "")) > 2 * float(lower.get("width", ""))  # and nothing is cut off
    with pytest.raises(ValueError, match="1 captions for 2 pictures"):
        stack_svg(tree, pointer, captions=["one"])
