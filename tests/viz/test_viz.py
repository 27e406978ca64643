"""Pictures: what their pages hold, and what a notebook shows."""

from __future__ import annotations

import base64
import json
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest

import ndgrad


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


@pytest.fixture
def model():
    ndgrad.manual_seed(0)
    return ndgrad.nn.Sequential(ndgrad.nn.Linear(3, 4), ndgrad.nn.Tanh(), ndgrad.nn.Linear(4, 1))


def test_page_has_every_node_and_its_edges():
    w = ndgrad.ones(3, requires_grad=True)
    loss = (w.exp() * w).sum()
    nodes = data_of(ndgrad.viz.graph(loss).html)["nodes"]
    assert [n["title"] for n in nodes] == ["SumBackward0", "MulBackward0", "ExpBackward0", "AccumulateGrad"]
    assert nodes[1]["inputs"] == [2, 3]
    assert nodes[3]["names"] == "w"
    assert nodes[1]["bytes"] == ndgrad.autograd.graph.saved_bytes(loss) - 0 * nodes[2]["bytes"]


def test_page_knows_lines_functions_and_modules(model):
    with ndgrad.autograd.debug():
        loss = model(ndgrad.ones(2, 3)).square().mean()
    nodes = data_of(ndgrad.viz.graph({"loss": loss}, params=model).html)["nodes"]
    linear, tanh = [n for n in nodes if n["title"] == "LinearBackward0"], [n for n in nodes if n["title"] == "TanhBackward0"]
    assert [n["module"] for n in linear] == ["2", "0"]
    assert tanh[0]["module"] == "0"  # goes on with what the first layer made
    assert all(n["file"] == __file__ and n["inside"] == "test_page_knows_lines_functions_and_modules" for n in linear)
    assert linear[0]["source"].startswith("loss = model(")


def test_page_has_times_of_a_profile(model):
    with ndgrad.autograd.profiler.profile() as profile:
        loss = model(ndgrad.ones(2, 3)).square().mean()
        loss.backward(retain_graph=True)
    nodes = [n for n in data_of(ndgrad.viz.graph(loss, profile=profile).html)["nodes"] if n["kind"] != "leaf"]
    assert all(n["forward_us"] > 0 and n["backward_us"] > 0 for n in nodes)


def test_page_stands_by_itself_and_is_not_broken_by_names():
    x = ndgrad.ones(2, requires_grad=True)
    html = ndgrad.viz.graph({"</script><b>": (x * x).sum()}).html
    assert "</script><b>" not in html
    assert not re.search(r'(src|href)="(?!#|file)', html.replace("${", ""))
    assert "http" not in html.replace("http://www.w3.org", "")


def test_ten_thousand_nodes_are_all_there():
    y = ndgrad.ones(1, requires_grad=True)
    for _ in range(5000):
        y = (y * 1.01).sin()
    picture = ndgrad.viz.graph(y)
    assert len(data_of(picture.html)["nodes"]) == 10_001


def test_graph_saves_by_its_ending(tmp_path):
    x = ndgrad.ones(2, requires_grad=True)
    picture = ndgrad.viz.graph(x.exp())
    picture.save(tmp_path / "g.html")
    assert (tmp_path / "g.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(ValueError, match="its ending names no format"):
        picture.save(tmp_path / "g.png")


def test_flame_is_as_wide_as_time():
    with ndgrad.autograd.profiler.profile(with_stack=True) as profile, ndgrad.autograd.profiler.record_function("outer"):
        for _ in range(3):
            ndgrad.ones(1000).exp()
    from ndgrad.profiler.pictures import frames

    root = frames(profile.function_events)
    names, waiting = {}, [root]
    while waiting:
        frame = waiting.pop()
        names[frame.name] = frame
        assert frame.microseconds >= sum(f.microseconds for f in frame.inside.values()) * (1 - 1e-9)
        waiting += frame.inside.values()
    assert names["aten::exp"].calls == 3
    assert names["outer"].inside["aten::exp"] is names["aten::exp"]
    picture = ndgrad.viz.flame(profile)
    assert 'data-n="aten::exp"' in picture.svg
    assert "calls" in repr(picture)


def test_flame_of_nothing_says_so(tmp_path):
    with ndgrad.autograd.profiler.profile() as profile:
        pass
    with pytest.raises(ValueError, match="no calls"):
        ndgrad.viz.flame(profile)


def test_memory_explains_the_peak(tmp_path):
    with ndgrad.autograd.graph.trace_allocations() as trace:
        kept = ndgrad.ones(1000).exp()
        _ = ndgrad.ones(500) * 2
        del _
    picture = ndgrad.viz.memory(trace)
    assert "exp" in picture.html
    assert "kept = ndgrad.ones(1000).exp()" in picture.html
    picture.save(tmp_path / "m.svg")
    with pytest.raises(ValueError, match="End it in .html or .svg"):
        picture.save(tmp_path / "m.png")
    assert kept.shape == (1000,)


def test_memory_of_a_long_trace_keeps_its_peak():
    from ndgrad.profiler.pictures import _thin_out

    points = [(float(i), (i % 7, 100 if i == 4321 else 0)) for i in range(10_000)]
    kept = _thin_out(points, 4321)
    assert len(kept) <= 1202
    assert points[4321] in kept
    assert kept[-1] == points[-1]


def test_memory_of_nothing_says_so():
    with ndgrad.autograd.graph.trace_allocations() as trace:
        pass
    with pytest.raises(ValueError, match="nothing was allocated"):
        ndgrad.viz.memory(trace)


@pytest.mark.parametrize(
    ("make", "cells"),
    [
        (lambda: ndgrad.tensor([[1.0, -2.0], [float("nan"), 0.0]]), 4),
        (lambda: ndgrad.tensor([1, 2, 3]), 3),
        (lambda: ndgrad.tensor([True, False]), 2),
        (lambda: ndgrad.zeros(100), 0),
        (lambda: ndgrad.tensor(1.0), 0),
        (lambda: ndgrad.zeros(2, 2, 2), 0),
        (lambda: ndgrad.zeros(0), 0),
        (lambda: ndgrad.zeros(2, dtype=ndgrad.complex64), 0),
        (lambda: ndgrad.zeros(2, device="meta"), 0),
        (lambda: ndgrad.ones(2, 2, requires_grad=True), 4),
        (lambda: ndgrad.eye(2).to_sparse(), 0),
        (lambda: ndgrad.ones(2, dtype=ndgrad.float16), 2),
    ],
)
def test_notebook_shows_small_tensors_as_a_heat_map(make, cells):
    assert make()._repr_html_().count("<td") == cells


def test_notebook_shows_a_tensor_inside_a_transform_as_text():
    seen = []
    ndgrad.func.vmap(lambda x: (seen.append(x._repr_html_()), x)[1])(ndgrad.ones(2, 3))
    assert "<td" not in seen[0]


def test_notebook_shows_modules_as_a_tree(model):
    html = model._repr_html_()
    assert html.count("parameters") == 4
    assert "in_features=3" in html


def test_notebook_shows_a_profile_with_its_table():
    with ndgrad.autograd.profiler.profile() as profile:
        ndgrad.ones(3).exp()
    assert "<svg" in profile._repr_html_()
    assert "aten::exp" in profile._repr_html_()


# ----- charts -------------------------------------------------------------------------------------------------------


def elements(picture, tag):
    return [e for e in ElementTree.fromstring(picture.svg).iter() if e.tag.endswith("}" + tag)]


def test_line_goes_through_its_points():
    """Equal steps of data are equal steps on paper, upwards is less."""
    (line,) = elements(ndgrad.viz.Chart("t").line([0, 1, 3], [0.0, 1.0, 3.0]), "polyline")
    (x0, y0), (x1, y1), (x3, y3) = ([float(v) for v in p.split(",")] for p in line.attrib["points"].split())
    assert (x3 - x0) == pytest.approx(3 * (x1 - x0), abs=0.3)
    assert (y3 - y0) == pytest.approx(3 * (y1 - y0), abs=0.3)
    assert x3 > x0
    assert y3 < y0


def test_logarithmic_axis_spaces_powers_evenly_and_leaves_out_what_has_no_logarithm():
    (line,) = elements(ndgrad.viz.Chart("t", log_y=True).line(range(4), [1.0, 0.1, 0.01, 0.0]), "polyline")
    ys = [float(p.split(",")[1]) for p in line.attrib["points"].split()]
    assert len(ys) == 3
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.3)


def test_line_is_interrupted_where_a_value_is_not_finite():
    chart = ndgrad.viz.Chart("t").line(range(5), [1.0, 2.0, float("nan"), 3.0, 4.0])
    assert len(elements(chart, "polyline")) == 2


def test_equal_scales_keep_a_circle_round():
    t = np.linspace(0, 2 * np.pi, 100)
    (line,) = elements(ndgrad.viz.Chart("t", equal=True).line(np.cos(t), np.sin(t)), "polyline")
    points = np.array([[float(v) for v in p.split(",")] for p in line.attrib["points"].split()])
    assert np.ptp(points[:, 0]) == pytest.approx(np.ptp(points[:, 1]), rel=0.01)


def test_image_is_a_png_of_the_values():
    (image,) = elements(ndgrad.viz.Chart("t").image(ndgrad.tensor([[0.0, 1.0, float("nan")]], requires_grad=True)), "image")
    data = base64.b64decode(next(v for k, v in image.attrib.items() if k.endswith("href")).partition("base64,")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (3, 1)
    start = data.index(b"IDAT") + 4
    row = zlib.decompress(data[start : start + struct.unpack(">I", data[start - 8 : start - 4])[0]])
    assert list(row) == [0, 17, 24, 66, 250, 236, 120, 128, 128, 128]  # the first and last colours, and grey for nan


def test_what_a_chart_cannot_show_is_refused():
    chart = ndgrad.viz.Chart("t")
    with pytest.raises(ValueError, match="as many x as y, but was given 2 and 3"):
        chart.line([0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match=r"has shape \(3,\)"):
        chart.image([1, 2, 3])
    with pytest.raises(TypeError, match="real numbers"):
        chart.points([0], [1j])
    with pytest.raises(ValueError, match="a chart at least"):
        ndgrad.viz.beside()


def test_titles_and_labels_are_escaped_and_charts_stand_beside_one_another():
    pair = ndgrad.viz.beside(ndgrad.viz.Chart("a < b", width=100), ndgrad.viz.Chart('"c"', width=200).line([0], [0], "<i>"))
    root = ElementTree.fromstring(pair.svg)
    assert root.attrib["width"] == "300"
    assert {"a < b", '"c"', "<i>"} <= {e.text for e in elements(pair, "text")}
