"""The part of a report that is looked at: induced trees beside the gold ones, and where the memory pointed."""

from collections.abc import Sequence
from html import escape

from ordered_memory.drawing import draw_pointer_svg, draw_svg
from ordered_memory.reproduce.markup import section
from ordered_memory.reproduce.runs import FinishedRun, Sample, TreePair, disagreements, easy_to_draw, percent, samples
from ordered_memory.tasks import Example

DRAWN = 3
"""Trees drawn whatever they look like."""
DIFFERING, SEARCHED = 2, 100
"""Where all of those are gold trees: trees drawn because they are not, and among how many examples to look for them."""


def trees_section(runs: Sequence[FinishedRun], examples: Sequence[Example]) -> str:
    parsers = [run for run in runs if run.induces_trees]
    gold = [example for example in examples if example.trees]
    chosen = easy_to_draw(gold or examples)
    if not parsers or not chosen:
        return ""
    first = chosen[:DRAWN]
    made = [samples(run, first) for run in parsers]
    parts = [_sample(parsers, [drawn[place] for drawn in made]) for place in range(len(first))]
    lengths = sorted(max(map(len, example.sentences)) for example in chosen)
    left_out = " ".join(parsers[0].not_words)
    rule = (
        f"The first {len(first)} test examples of {lengths[0]} to {lengths[-1]} tokens, whatever they look like."
        + (" A branch that only one of two trees has is drawn thick and orange." if gold else "")
        + (f" The tokens {left_out} are left out of the trees." if left_out else "")
    )
    body = [f"<p>{escape(rule)}</p>\n", *parts]
    if gold and not any(sample.differs for drawn in made for sample in drawn):
        body += _first_that_differ(parsers[0], chosen[DRAWN : DRAWN + SEARCHED])
    title = "Induced trees beside the gold ones" if gold else "Induced trees"
    return section(title, "".join(body)) + _pointer(parsers[0], made[0][0])


def _first_that_differ(run: FinishedRun, examples: Sequence[Example]) -> list[str]:
    """Good examples alone would flatter: the first that are not."""
    found = disagreements(run, examples, DIFFERING)
    if not found:
        more = f", and so are those of the {len(examples)} examples after them" if examples else ""
        return [f"<p>All of these are the gold trees{more}.</p>\n"]
    parts = [_sample([run], [sample]) for sample in found]
    note = f"<p>All of these are the gold trees. Of the {len(examples)} examples after them, the first to differ:</p>\n"
    return [note, *parts]


def _sample(runs: Sequence[FinishedRun], drawn: Sequence[Sample]) -> str:
    """The gold trees of an example's sentences, a line for each, and beside them those that each run induces."""
    lines = [
        f'<div class="trees">\n{"".join(_trees(runs, pairs))}</div>\n'
        for pairs in zip(*(sample.trees for sample in drawn), strict=True)
    ]
    answers = ", ".join(
        f'{escape(run.name)} answers <strong class="{"right" if sample.is_right else "wrong"}">'
        f"{escape(sample.prediction.label)}</strong>, {percent(sample.certainty, 1)} sure"
        for run, sample in zip(runs, drawn, strict=True)
    )
    heading = f"Right answer <strong>{escape(drawn[0].example.label)}</strong>; {answers}."
    return f'<div class="sample">\n<p>{heading}</p>\n{"".join(lines)}</div>\n'


def _trees(runs: Sequence[FinishedRun], pairs: Sequence[TreePair]) -> list[str]:
    """One sentence: its gold tree, and that of each run."""
    pictures = []
    if (gold := pairs[0].gold) is not None:
        missed_by_all = set(pairs[0].missed).intersection(*(pair.missed for pair in pairs))
        pictures.append(_picture("Gold", draw_svg(gold, highlight=missed_by_all)))
    for run, pair in zip(runs, pairs, strict=True):
        if pair.induced is not None:
            svg = draw_svg(pair.induced, highlight=pair.invented)
            agreement = f": {_agreement(pair)}" if pair.gold is not None else ""
            pictures.append(_picture(escape(run.name) + agreement, svg))
    return pictures


def _agreement(pair: TreePair) -> str:
    """Whether the two trees are the same, in words."""
    if not pair.invented:
        return "the same tree"
    nodes = len(pair.induced.spans) if pair.induced else 0
    return f'<span class="wrong">{len(pair.invented)} of its {nodes} branches not in gold</span>'


def _pointer(run: FinishedRun, sample: Sample) -> str:
    pictures = [
        draw_pointer_svg(sentence.pointer, sentence.tokens) + draw_svg(sentence.tree)
        for sentence in sample.prediction.sentences
        if sentence.pointer is not None and sentence.tree is not None and len(sentence.tokens) > 1
    ]
    if not pictures:
        return ""
    caption = (
        "Each column is a token and each row a slot of the memory: the stronger the blue, the more surely the model "
        "pointed at that slot when it read the token. A high row means that the token joins the whole of what came "
        "before, near the root of the tree; the lower the row, the deeper nested is the part that it belongs to. "
        "The strongest slot of each column is the height of the branch that joins the token to what stands left of it, "
        "so these pointers are the tree drawn under them; the first token has nothing to point at yet."
    )
    panels = "\n".join(f'<div class="scroll panel">\n{picture}</div>' for picture in pictures)
    figure = f"{panels}\n<figcaption>{escape(caption)}</figcaption>"
    introduction = f"<p>{escape(run.name)} on the first example above.</p>"
    return "\n" + section("Where the memory points", f'{introduction}\n<figure class="pointer">{figure}</figure>')


def _picture(caption: str, svg: str) -> str:
    """A tree with its caption, which is HTML already."""
    return f'<figure><div class="scroll">{svg}</div><figcaption>{caption}</figcaption></figure>\n'
