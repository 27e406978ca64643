"""Pages in a real browser, without a window: their scripts run, and say what they show in attributes of the body."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import ndgrad

pytestmark = pytest.mark.browser
BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome", "chrome"])), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync "
    "--disable-quic --window-size=1200,800 --virtual-time-budget=4000 --dump-dom"
).split()


@pytest.fixture
def look(tmp_path):
    """The attributes of a page's body after its script has run, and the whole text."""
    if BROWSER is None:
        pytest.skip("there is no Chromium: apt-get install chromium")

    def look(page, hash=""):
        path = tmp_path / "page.html"
        path.write_text(page, encoding="utf-8")
        address = f"{path.as_uri()}#{hash}"
        command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", address]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
        body = re.search(r"<body([^>]*)>", dom)
        assert body is not None, "the browser showed nothing"
        return dict(re.findall(r'data-([\w-]+)="([^"]*)"', body[1])), dom

    return look


def network():
    ndgrad.manual_seed(0)
    model = ndgrad.nn.Sequential(ndgrad.nn.Linear(3, 4), ndgrad.nn.Tanh(), ndgrad.nn.Linear(4, 1))
    with ndgrad.autograd.debug():
        loss = model(ndgrad.ones(2, 3)).square().mean()
    return ndgrad.viz.graph({"loss": loss}, params=model).html


def test_graph_is_laid_out_from_leaves_to_the_result(look):
    told, _ = look(network())
    assert told["nodes"] == told["items"] == "9"
    assert told["edges"] == "8"
    assert told["layers"] == "6"  # a chain of five ops below the first parameters


@pytest.mark.parametrize(("fold", "items"), [("none", "9"), ("module", "2"), ("function", "5"), ("line", "5")])
def test_graph_folds(look, fold, items):
    assert look(network(), f"fold={fold}")[0]["items"] == items


def test_search_finds_and_selects(look):
    told, dom = look(network(), "search=tanh")
    assert told["matches"] == "1"
    assert told["selected"] == "TanhBackward0"
    assert "1 found" in dom
    assert "test_pages.py" in dom  # the line that made it


def test_search_goes_to_nodes_of_that_name_before_those_of_that_line(look):
    x = ndgrad.ones(2, requires_grad=True)
    with ndgrad.autograd.debug():
        loss = (x.exp() * x.tanh()).sum()
    told, dom = look(ndgrad.viz.graph(loss).html, "search=tanh")
    assert told["matches"] == "4"  # all ops of the line
    assert told["selected"] == "TanhBackward0"
    assert "4 found, 1 by name" in dom


def test_both_directions_and_heat(look):
    told, _ = look(network(), "view=both&heat=bytes")
    assert (told["view"], told["heat"]) == ("both", "bytes")


def test_ten_thousand_nodes_are_laid_out(look):
    x = y = ndgrad.ones(1, requires_grad=True)
    for _ in range(5000):
        y = (y * 1.01 + x).sin() if _ % 2 else (y * 1.01).sin()
    told, _ = look(ndgrad.viz.graph(y).html, "fold=none&search=sin")
    assert int(told["items"]) > 10_000
    assert int(told["matches"]) == 5000


def test_flame_zooms(look):
    with ndgrad.autograd.profiler.profile() as profile:
        for _ in range(3):
            ndgrad.ones(1000).exp().sum()
    page = ndgrad.viz.flame(profile).html
    every, _ = look(page)
    one, _ = look(page, "zoom=aten::exp")
    assert int(one["visible"]) < int(every["visible"]) == int(every["frames"])


def test_memory_shows_its_table(look):
    with ndgrad.autograd.graph.trace_allocations() as trace:
        kept = [ndgrad.ones(100).exp() for _ in range(3)]
    _, dom = look(ndgrad.viz.memory(trace).html)
    assert "3 × exp" in dom
    assert len(kept) == 3
