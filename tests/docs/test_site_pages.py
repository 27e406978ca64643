"""The pages of the site as a whole: the table of benchmarks, and the sections that the search finds."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("docutils")

from docs.site_pages import benchmark_table, search_index

PAGE = """<html><nav>menu</nav><article role="main" id="furo-main-content">
<section class="tex2jax_ignore" id="saving"><h1>Saving and loading<a class="headerlink" href="#saving">¶</a></h1>
<p>Use <code>ndgrad.save</code> for a model&#8217;s state.</p>
<section id="formats"><h2>Formats</h2><p>npz</p><svg><text>picture</text></svg></section></section>
<dl class="py function"><dt class="sig sig-object py" id="ndgrad.save"><span>ndgrad.save</span></dt><dd><p>Save an object.</p></dd></dl>
</article></html>"""


def test_every_kind_of_measurement_has_rows_with_ratios():
    rows = benchmark_table.rows()
    assert {kind for kind, _, _ in rows} == {"whole run", "compiled", "single op"}
    for kind, title, cells in rows:
        assert set(cells) <= set(benchmark_table.COLUMNS), (kind, title)
        assert "ndgrad" in cells or "ndgrad, compiled" in cells, (kind, title)


def test_table_of_benchmarks_has_the_measured_ratio():
    latest = json.loads((benchmark_table.RESULTS / "latest.json").read_text(encoding="utf-8"))["timings"]["ode"]
    (cells,) = [cells for kind, title, cells in benchmark_table.rows() if kind == "whole run" and title == latest["title"]]
    assert float(cells["ndgrad"]) == pytest.approx(latest["libraries"]["ndgrad"]["ratio"][0], rel=0.06)


def test_table_of_benchmarks_has_a_cell_per_column():
    table = benchmark_table.table_html()
    for row in re.findall(r"<tr data-kind.*?</tr>", table):
        assert row.count("<td>") == 1 + len(benchmark_table.COLUMNS)


def test_sections_of_a_page_are_found():
    found = search_index.sections(PAGE)
    assert [(anchor, title) for anchor, title, _ in found] == [
        ("saving", "Saving and loading"), ("formats", "Formats"), ("ndgrad.save", "ndgrad.save"),
    ]  # fmt: skip
    assert found[0][2] == "Use ndgrad.save for a model’s state."
    assert found[1][2] == "npz"
    assert "Save an object." in found[2][2]


def test_index_is_a_script(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "files.html").write_text(PAGE, encoding="utf-8")
    assert search_index.write(tmp_path, ["files", "absent"]) == 3
    text = (tmp_path / "_static" / "search-index.js").read_text(encoding="utf-8")
    content = json.loads(text.removeprefix("window.searchIndex = ").removesuffix(";\n"))
    assert content["paths"] == ["files.html"]
    assert content["sections"][2][:3] == [0, "ndgrad.save", "ndgrad.save"]
