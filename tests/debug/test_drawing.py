"""Pictures of graphs: text, DOT and SVG say the same, fold what is large, and change nothing by looking."""

from __future__ import annotations

import gc
import re
import shutil
import subprocess
import weakref
import xml.etree.ElementTree as xml
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from ndgrad._src.debug.drawing.contents import format_bytes, gather
from ndgrad._src.debug.drawing.fold import fold
from ndgrad._src.debug.drawing.layout import place
from ndgrad._src.debug.drawing.names import Names
from ndgrad._src.debug.saved_memory import holdings
from ndgrad.autograd import graph

DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def leaf(*shape):
    return ndgrad.ones(*shape, requires_grad=True)


def texts(svg):
    """The visible texts of a picture, which must be well formed."""
    return [t.text for t in xml.fromstring(svg).iter(f"{SVG}text")]


def boxes(svg):
    """(x, y, width, height) of the boxes of a picture, paper and legend left out."""
    root = xml.fromstring(svg)
    drawing = next(g for g in root.iter(f"{SVG}g") if g.get("transform"))
    return [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in drawing.iter(f"{SVG}rect")]


# ----- text ----------------------------------------------------------------------------------------------------------


def test_tree_lists_a_chain_in_one_column_and_branches_below():
    x, w = leaf(3), leaf(3)
    y = ((x.exp() + w) * x).sum()
    lines = graph.tree(y).splitlines()
    assert [line.split("  ")[0] for line in lines[:2]] == ["SumBackward0 y", "MulBackward0"]
    assert lines[2].startswith("├─ AddBackward0")
    assert lines[3].startswith("│  ├─ ExpBackward0")
    assert lines[4].startswith("│  │  AccumulateGrad x *1")
    assert lines[5].startswith("│  └─ AccumulateGrad w")
    assert lines[6].startswith("└─ AccumulateGrad x *1")
    assert lines[-1].startswith("4 nodes, 2 leaves, ")


def test_tree_of_a_shared_node_prints_what_is_behind_it_once():
    x = leaf(3)
    h = x * 2
    for _ in range(50):
        h = h * h  # as a tree without sharing it would have 2**50 lines
    assert len(graph.tree(h).splitlines()) < 110


def test_tree_of_a_very_long_chain_needs_no_recursion_and_no_room():
    x = leaf(1)
    for _ in range(20_000):
        x = x * 1.0
    text = graph.tree(x, limit=None)
    assert text.count("MulBackward0") == 20_000
    assert len(text) < 20_000 * 60
    cut = graph.tree(x, limit=10).splitlines()
    assert len(cut) == 12
    assert cut[-2] == "... 19,991 more nodes: limit=None prints all"


def test_output_numbers_of_multi_output_nodes_are_shown():
    a, b = leaf(2, 3).unbind()
    text = graph.tree(a * b)
    assert "UnbindBackward0 a, b *1" in text
    assert "UnbindBackward0 a, b [1] *1" in text


# ----- facts ---------------------------------------------------------------------------------------------------------


def test_saved_bytes_are_those_of_the_arrays():
    x, w = leaf(100), leaf(100)
    y = x * w
    assert {h.name: h.nbytes for h in holdings(y.grad_fn)} == {"self": 800, "other": 800}
    assert graph.saved_bytes(y) == 1600
    assert graph.saved_bytes(x * x) == 800  # one memory, two names
    assert graph.saved_bytes((x + w).sum()) == 0


def test_saved_views_share_the_memory_of_their_base():
    x = leaf(10, 10)
    assert graph.saved_bytes(x[0] * x[1]) == 80  # both are views of one memory, of which each keeps 80 bytes


def test_freed_and_packed_values_are_told_and_hooks_do_not_run():
    x = leaf(4)
    ran = []

    def unpack(t):
        ran.append(1)
        return t

    with graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.exp().sum()
    assert "result 32 B packed" in graph.tree(y)
    assert not ran
    y.backward()
    assert ran == [1]
    assert "result freed" in graph.tree(y)


def test_guarded_values_are_shown_as_they_are():
    x = leaf(4)
    with ndgrad.autograd.guard():
        y = x.exp()
    assert "saved: result 32 B" in graph.tree(y)


def test_custom_function_shows_what_its_context_keeps():
    class Scale(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, None, w)
            ctx.table = np.zeros(5)
            return x * w, x + w

        @staticmethod
        def backward(ctx, g, h):
            return g, h

    x, w = leaf(3), leaf(3)
    p, q = Scale.apply(x, w)
    text = graph.tree([p, q])
    assert "2 x (3,) float64   saved: input 0 24 B, input 2 24 B, ctx.table 40 B" in text
    p.sum().backward()
    assert "saved freed" in graph.tree(q)


def test_write_into_a_part_shows_what_the_write_saved():
    x = leaf(3)
    v = x * 1
    v[0:2].mul_(x[1:])
    assert {h.name for h in holdings(v.grad_fn)} == {"self", "other"}
    assert "CopySlices v" in graph.tree(v)


def test_lines_of_the_user_are_shown_in_debug_mode_their_text_once():
    x = leaf(3)
    with ndgrad.autograd.debug():
        y = (x * 2).exp().sum()
    text = graph.tree(y)
    assert text.count("test_drawing.py:") == 3
    assert text.count("y = (x * 2).exp().sum()") == 1
    assert "y = (x * 2).exp().sum()" in texts(graph.to_svg(y))


def test_hooks_are_counted():
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda g: g)
    y.grad_fn.register_hook(lambda a, b: None)
    x.register_hook(lambda g: g)
    lines = graph.tree(y).splitlines()
    assert "2 hooks" in lines[0]
    assert "1 hook" in lines[1]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (2_500_000, "2.5 MB"), (3e12, "3000.0 GB")]
)
def test_sizes_are_written_as_people_say_them(count, text):
    assert format_bytes(count) == text


# ----- names ---------------------------------------------------------------------------------------------------------


def test_names_come_from_params_before_variables():
    weight = leaf(2)
    y = weight * 2
    assert "AccumulateGrad weight" in graph.tree(y)
    assert "AccumulateGrad w " in graph.tree(y, params={"w": weight}) + " "
    assert "AccumulateGrad w\n" in graph.tree(y, params=[("w", weight)]).replace("   ", "\n").replace("  ", "\n")


def test_names_come_from_modules_lists_and_dicts():
    model = ndgrad.nn.Linear(2, 1)
    weights = [leaf(2), leaf(2)]
    table = {"scale": leaf(1)}
    y = (model(weights[0] * weights[1]) * table["scale"]).sum()
    text = graph.tree(y)
    for name in ("model.weight", "model.bias", "weights[0]", "weights[1]", "table['scale']"):
        assert f"AccumulateGrad {name}" in text, text
    assert "AccumulateGrad 0.weight" in graph.tree(y, params=ndgrad.nn.Sequential(model))


def test_roots_may_have_names():
    x = leaf(2)
    text = graph.tree({"loss": (x * 2).sum(), "penalty": (x * x).sum()})
    assert "SumBackward0 loss" in text
    assert "SumBackward0 penalty" in text


def test_roots_may_be_edges_and_nodes():
    x = leaf(2, 2)
    a, b = (x * 2).unbind()
    by_tensor = graph.tree(b, params={"x": x}).replace(" a, b", "").replace(" [1]", "")
    del a
    assert graph.tree(graph.get_gradient_edge(b)).splitlines()[-1] == by_tensor.splitlines()[-1]
    assert "UnbindBackward0" in graph.tree(b.grad_fn)


# ----- DOT -----------------------------------------------------------------------------------------------------------


def test_dot_has_a_statement_per_node_and_edge():
    x, w = leaf(3), leaf(3)
    y = ((x * w).exp() + x).sum()
    text = graph.to_dot(y)
    assert text.startswith("digraph {\n")
    assert text.endswith("}\n")
    assert len(re.findall(r"^  n\d+ \[label=", text, re.M)) == 6
    assert len(re.findall(r"^  n\d+ -> n\d+", text, re.M)) == 6


def test_dot_quotes_what_users_write():
    x = leaf(3)
    y = x * 2
    text = graph.to_dot(y, params={'a "quoted\\ name"': x})
    assert 'label="a \\"quoted\\\\ name\\"\\n' in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_takes_the_dot_text():
    x = leaf(3)
    a, b = ndgrad.stack([x, x * 2]).unbind()
    made = subprocess.run(["dot", "-Tsvg"], input=graph.to_dot((a * b).sum()), capture_output=True, text=True, check=True)
    assert made.stdout.count('class="node"') == 6
    assert not made.stderr


# ----- SVG -----------------------------------------------------------------------------------------------------------


def network():
    model = ndgrad.nn.Sequential(ndgrad.nn.Linear(4, 8), ndgrad.nn.Tanh(), ndgrad.nn.Linear(8, 8), ndgrad.nn.ReLU(), ndgrad.nn.Linear(8, 2))
    x = ndgrad.randn(5, 4)
    h = model[0](x)
    return (model(x).square().mean() + (h * h).sum()) * h.exp().mean()


def test_svg_is_well_formed_and_says_every_fact():
    weight, bias = leaf(2, 3), leaf(2)
    out = ndgrad.nn.functional.linear(ndgrad.ones(4, 3), weight, bias).relu().sum()
    shown = texts(graph.to_svg(out))
    for fact in ("weight", "(2, 3) float64", "bias", "out", "SumBackward0", "ReluBackward0", "(4, 2) float64", "leaf", "result"):
        assert fact in shown, (fact, shown)
    assert any(text.startswith("saved: ") for text in shown)


def test_boxes_of_a_picture_do_not_overlap_and_lie_inside():
    svg = graph.to_svg(network())
    root = xml.fromstring(svg)
    found = boxes(svg)
    assert len(found) == len({(x, y) for x, y, *_ in found}) > 15
    for i, (x, y, w, h) in enumerate(found):
        assert x >= 0
        assert y >= 0
        assert x + w <= float(root.get("width"))
        assert y + h <= float(root.get("height"))
        for x2, y2, w2, h2 in found[i + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_results_are_at_the_bottom_and_leaves_above_their_consumers():
    x = leaf(2)
    y = (x * 2).exp()
    contents = gather(y, Names())
    placed = place(contents.boxes, [(e[0], b) for b in contents.boxes for e in b.inputs if e], dict.fromkeys(contents.boxes, (50.0, 20.0)))
    tops = [placed.spots[box].y for box in contents.boxes]
    assert tops == sorted(tops, reverse=True)
    assert contents.boxes[0].is_root


@given(st.data())
def test_layout_keeps_gaps_for_any_graph(data):
    count = data.draw(st.integers(1, 25))
    edges = [(p, c) for p in range(count) for c in range(p) if data.draw(st.integers(0, 5)) == 0]
    sizes = {n: (float(data.draw(st.integers(10, 90))), 20.0) for n in range(count)}
    placed = place(list(range(count)), edges, sizes, gap=(10.0, 30.0))
    rows: dict[float, list] = {}
    for spot in placed.spots.values():
        rows.setdefault(spot.y, []).append(spot)
    for row in rows.values():
        row.sort(key=lambda s: s.x)
        for left, right in pairwise(row):
            assert right.x - right.width / 2 - left.x - left.width / 2 >= 10.0 - 1e-6
    for producer, consumer, run in placed.runs:
        assert placed.spots[producer].y + 20.0 <= placed.spots[consumer].y
        assert run[0] is placed.spots[producer]
        assert run[-1] is placed.spots[consumer]
        assert all(below.layer == above.layer - 1 for above, below in pairwise(run))


def test_trunk_of_a_deep_network_is_straight():
    model = ndgrad.nn.Sequential(*[layer for _ in range(20) for layer in (ndgrad.nn.Linear(3, 3), ndgrad.nn.Tanh())])
    svg = graph.to_svg(model(ndgrad.ones(2, 3)).sum())
    assert float(xml.fromstring(svg).get("width")) < 1000


def test_leaf_that_many_use_stands_beside_each():
    w, h = leaf(2), ndgrad.ones(2)
    for _ in range(6):
        h = ndgrad.tanh(h * w)
    svg = graph.to_svg(h)
    assert texts(svg).count("w") == 6
    assert svg.count("stroke-dasharray") == 6
    assert "12 nodes, 1 leaf" in svg


# ----- large graphs --------------------------------------------------------------------------------------------------


def contents_of(y):
    return gather(y, Names())


def total(contents):
    return sum(box.count for box in contents.boxes)


def test_folding_joins_parameters_with_ops_and_chains_into_boxes():
    model = ndgrad.nn.Sequential(*[layer for _ in range(40) for layer in (ndgrad.nn.Linear(3, 3), ndgrad.nn.Tanh())])
    y = model(ndgrad.ones(2, 3)).sum()
    whole = contents_of(y)
    nodes = total(whole)
    folded = fold(whole, 50)
    assert len(folded.boxes) <= 50
    assert total(folded) == nodes
    svg = graph.to_svg(y, limit=50)
    assert any("TanhBackward0 x " in t for t in texts(svg))
    assert f"{nodes - 80} nodes, 80 leaves" in svg


def test_folding_a_recurrence_with_shared_weights():
    w, b, h = leaf(3, 3), leaf(3), ndgrad.ones(3)
    for _ in range(150):
        h = ndgrad.tanh(w @ h + b)
    folded = fold(contents_of(h), 100)
    assert len(folded.boxes) < 12
    assert total(folded) == 452


def test_what_cannot_be_folded_is_cut_visibly():
    row = [leaf(1) for _ in range(40)]
    while len(row) > 20:
        row = [(a * b + c).exp() for a, b, c in zip(row, row[1:], row[2:], strict=False)]
    y = sum(row[1:], row[0])
    whole = contents_of(y)
    nodes = total(whole)
    folded = fold(whole, 30)
    assert len(folded.boxes) == 30
    assert total(folded) == nodes
    assert "more nodes" in folded.boxes[-1].title
    assert any("more nodes" in t for t in texts(graph.to_svg(y, limit=30)))


def test_picture_of_a_huge_graph_is_made_in_no_time():
    x = leaf(1)
    for _ in range(20_000):
        x = x * 1.0
    assert len(graph.to_svg(x)) < 20_000


# ----- the object, files, errors -------------------------------------------------------------------------------------


def test_picture_is_a_snapshot_that_holds_no_tensor():
    x = leaf(3)
    y = x.exp()
    node = weakref.ref(y.grad_fn)
    picture = graph.show(y)
    before = picture.svg
    del y
    gc.collect()
    assert node() is None
    assert picture.svg == before
    assert str(picture) == picture.text == repr(picture)


def test_looking_for_names_leaves_the_variables_of_the_caller_alone():
    x = leaf(3)
    mine = locals()
    graph.show(x * 2)
    assert mine["x"] is x


def test_picture_answers_notebooks():
    x = leaf(3)
    picture = graph.show(x * 2)

    class Printer:
        def text(self, text):
            self.seen = text

    printer = Printer()
    picture._repr_pretty_(printer, False)
    assert printer.seen == picture.text
    assert xml.fromstring(picture._repr_svg_()).tag == f"{SVG}svg"
    assert picture._repr_svg_() in picture._repr_html_()


@pytest.mark.parametrize(
    ("name", "start"), [("g.svg", "<svg"), ("g.html", "<!doctype html>"), ("g.dot", "digraph {"), ("g.gv", "digraph {"), ("g.TXT", "Mul")]
)
def test_draw_writes_the_form_that_the_ending_says(tmp_path, name, start):
    graph.draw(leaf(3) * 2, tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_draw_refuses_endings_it_does_not_know(tmp_path):
    with pytest.raises(ValueError, match=r"its ending names no format.*\.svg"):
        graph.draw(leaf(3) * 2, tmp_path / "g.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("roots", "error", "words"),
    [
        (3, TypeError, "needs a tensor"),
        ([3], TypeError, "one root is int"),
        ([], ValueError, "nothing to draw"),
        (ndgrad.ones(2), RuntimeError, "does not require grad"),
    ],
)
def test_what_has_no_graph_is_refused(roots, error, words):
    with pytest.raises(error, match=words):
        graph.tree(roots)


def test_bad_params_and_limits_are_refused():
    y = leaf(2) * 2
    with pytest.raises(TypeError, match="params gives the name 'w' to int"):
        graph.tree(y, params={"w": 3})
    with pytest.raises(TypeError, match="params takes a dict"):
        graph.tree(y, params=3)
    with pytest.raises(ValueError, match="limit is 1"):
        graph.to_svg(y, limit=1)


def test_looking_at_a_graph_leaves_it_as_it_was():
    x = leaf(3)
    y = (x.exp() * x).sum()
    version = x._version
    for form in (graph.tree, graph.to_dot, graph.to_svg, graph.show):
        form(y)
    assert x._version == version
    assert x.grad is None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 2 * np.e))


def test_graph_inside_a_transform_can_be_drawn():
    seen = []

    def f(x):
        y = (x.exp() * x).sum()
        seen.append(graph.tree(y))
        return y

    ndgrad.func.grad(f)(ndgrad.ones(3))
    assert "SumBackward0 y" in seen[0]
    assert "Accumulator x" in seen[0]


def test_picture_in_the_documentation_is_what_the_page_draws(tmp_path, monkeypatch):
    page = DOCS / "graph.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    drawn = next(n for n, block in enumerate(blocks) if "graph.draw(" in block)
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks[: drawn + 1]:
        if not block.startswith(">>>"):
            exec(block, namespace)
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == (DOCS / "graph.svg").read_text(encoding="utf-8")
