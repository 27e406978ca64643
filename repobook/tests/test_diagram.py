"""Diagrams as SVG: arrows lead down, circles are drawn, and the list below says the same."""

import re
from itertools import pairwise
from xml.etree import ElementTree

from repobook.site import diagram


def boxes(markup: str) -> dict[str, float]:
    """The height of each box by its label."""
    svg = ElementTree.fromstring(markup.partition("</div>")[0].partition(">")[2])
    return {str(text.text): float(text.get("y", "0")) for text in svg.iter("text")}


def chart(*pairs: tuple[str, str, int]) -> list[str]:
    names = sorted({name for one, two, _ in pairs for name in (one, two)})
    ids = {name: f"p{at}" for at, name in enumerate(names)}
    return [f'  {ids[name]}["{name}"]' for name in names] + [f"  {ids[a]} -->|{n}| {ids[b]}" for a, b, n in pairs]


def test_arrows_lead_down() -> None:
    places = boxes(diagram.render(chart(("app", "core", 3), ("core", "base", 9), ("app", "base", 1))))
    assert places["app"] < places["core"] < places["base"]


def test_a_circle_breaks_at_its_lightest_arrow() -> None:
    markup = diagram.render(chart(("a", "b", 9), ("b", "c", 8), ("c", "a", 1)))
    places = boxes(markup)
    assert places["a"] < places["b"] < places["c"]
    assert markup.count('class="up"') == 1


def test_the_list_says_the_same_as_the_picture() -> None:
    markup = diagram.render(chart(("a", "b", 2), ("c", "b", 5)))
    assert re.findall(r"<li>.*?</li>", markup) == [
        "<li><code>a</code> → <code>b</code> (2)</li>",
        "<li><code>c</code> → <code>b</code> (5)</li>",
    ]


def test_wide_rows_are_broken_and_boxes_do_not_overlap() -> None:
    markup = diagram.render(chart(*[(f"a_rather_long_name_{n}", "base", n + 1) for n in range(12)]))
    svg = ElementTree.fromstring(markup.partition("</div>")[0].partition(">")[2])
    assert float(svg.get("width", "0")) < 1000
    rows: dict[str, list[tuple[float, float]]] = {}
    for rect in svg.iter("rect"):
        left = float(rect.get("x", "0"))
        rows.setdefault(rect.get("y", ""), []).append((left, left + float(rect.get("width", "0"))))
    for row in rows.values():
        row.sort()
        assert all(one[1] < two[0] for one, two in pairwise(row))


def test_classes_stand_above_their_bases_and_hostile_labels_are_text() -> None:
    lines = ["classDiagram", '  class c0["Base<script>"]', '  class c1["Derived"]', "  c0 <|-- c1"]
    markup = diagram.render(lines)
    assert "<script>" not in markup
    places = boxes(markup)
    assert places["Derived"] < places["Base<script>"]
    assert diagram.render(["flowchart TD", "  p0 -->|1| p9"]) == ""
