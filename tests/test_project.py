"""The first files that a newcomer reads: repeated statements agree, and links lead somewhere."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

import ndgrad

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Folders of docs that are written when the documentation is built, whose warnings are errors.
MADE = ("errors", "gallery", "reference")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")),
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if not {"_build", *MADE} & set(p.relative_to(ROOT / "docs").parts)),
]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


# ----- one version, one list of Pythons -----------------------------------------------------------------------------


def test_version_is_the_same_everywhere():
    assert PROJECT["version"] == ndgrad.__version__
    assert f"\nversion: {ndgrad.__version__}\n" in text_of("CITATION.cff")


def test_changelog_has_a_dated_section_for_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(ndgrad.__version__)} \(\d{{4}}-\d\d-\d\d\)$", text, re.M)


def test_supported_pythons_are_those_that_are_tested():
    claimed = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert re.search(r"^PYTHONS := (.*)$", text_of("Makefile"), re.MULTILINE)[1].split() == claimed
    matrix = json.loads(re.search(r"python: (\[.*\])", text_of(".github/workflows/tests.yml"))[1])
    assert set(claimed) <= set(matrix)
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_workflow_has_every_system_and_targets_that_exist():
    workflow = text_of(".github/workflows/tests.yml")
    assert all(system in workflow for system in ("ubuntu-latest", "macos-latest", "windows-latest", "3.14t"))
    targets = re.findall(r"^([\w-]+):.*##", text_of("Makefile"), re.MULTILINE)
    assert set(re.search(r"target: \[(.*)\]", workflow)[1].split(", ")) <= set(targets)


def test_report_of_a_bug_asks_for_what_info_prints():
    assert "ndgrad info" in text_of(".github/ISSUE_TEMPLATE/wrong.md")


# ----- numbers ------------------------------------------------------------------------------------------------------


def test_numbers_of_the_readme_are_those_of_the_results():
    readme = pytest.importorskip("benchmarks.readme")
    assert readme.update(text_of("README.md")) == text_of("README.md"), "run: python -m benchmarks.readme"


def test_numbers_in_the_prose_of_the_readme_are_those_of_the_results():
    told = text_of("README.md")
    latest = json.loads(text_of("benchmarks/results/latest.json"))
    middle = {name: sorted(times)[len(times) // 2] for name, times in latest["imports"].items()}
    assert f"Importing takes {middle['ndgrad'] / middle['numpy']:.1f} times" in told
    mean, count = re.search(r"Geometric mean of (\d+) ops: ([\d.]+)", text_of("benchmarks/results/ops.md")).group(2, 1)
    assert f"{mean} of torch's time in the geometric mean of {count}" in told


def test_sizes_of_the_source_in_the_pages_are_those_of_the_source():
    """Within a tenth: the core, the ten files to start with, and the files after them, as docs/design.md lists them."""
    source, design = ROOT / "src" / "ndgrad" / "_src", text_of("docs/design.md")

    def lines(paths):
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)

    told = r"about ([\d,]+) lines\. Start with ten files of about ([\d,]+) lines:(.*?)Then read(.*?): about ([\d,]+) lines more"
    core, ten, first, then, more = re.search(told, design, re.DOTALL).groups()
    files = [[source / f"{name}.py" for name in re.findall(r"`(\w+/\w+)`", names)] for names in (first, then)]
    files[1] += (source / "interpreters").glob("*.py")
    assert len(files[0]) == 10
    for number, paths in ((core, [*source.glob("core/*.py"), *source.glob("engine/*.py")]), (ten, files[0]), (more, files[1])):
        assert int(number.replace(",", "")) == pytest.approx(lines(paths), rel=0.1)
    assert f"about {core} lines. Start with the ten files, about {ten} lines" in text_of("README.md")


def test_pictures_of_the_results_are_drawn_from_them():
    history = pytest.importorskip("benchmarks.history")
    assert history.speed(json.loads(text_of("benchmarks/results/latest.json"))) == text_of("benchmarks/results/speed.svg")
    assert history.over_time(history.runs()) == text_of("benchmarks/results/history.svg")
    readme = pytest.importorskip("benchmarks.readme")
    compiled = readme.compiled_rows(text_of("benchmarks/results/runs.md"))
    assert history.compiled(compiled) == text_of("benchmarks/results/compiled.svg")
    assert history.runs()[-1]["ratios"]["mlp"]["ndgrad"][0] == pytest.approx(
        json.loads(text_of("benchmarks/results/latest.json"))["timings"]["mlp"]["libraries"]["ndgrad"]["ratio"][0], rel=1e-2
    )


def test_run_is_added_to_the_history_and_drawn(tmp_path):
    history = pytest.importorskip("benchmarks.history")
    content = json.loads(text_of("benchmarks/results/latest.json"))
    (tmp_path / "latest.json").write_text(json.dumps(content), encoding="utf-8")
    history.add(tmp_path, content)
    history.add(tmp_path, content)
    first, second = history.runs(tmp_path)
    assert first["ratios"] == second["ratios"] == history.runs()[-1]["ratios"]
    assert "torch" not in first["ratios"]["mlp"]
    assert {path.name for path in history.draw(tmp_path)} == {"history.svg", "speed.svg"}
    assert (tmp_path / "speed.svg").read_text(encoding="utf-8") == text_of("benchmarks/results/speed.svg")


# ----- links --------------------------------------------------------------------------------------------------------


def slug(heading):
    """The anchor of a heading, as GitHub and MyST make it."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def without_code(text):
    return re.sub(r"^(`{3,})(?!\{).*?^\1`*\s*$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(path):
    text = path.read_text(encoding="utf-8")
    for included in re.findall(r"^```\{include\} (.*)$", text, re.MULTILINE):
        text += (path.parent / included).read_text(encoding="utf-8")
    headings = re.findall(r"^#{1,6} (.*)$", without_code(text), re.MULTILINE)
    return {*map(slug, headings), *re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE), *re.findall(r'id="([^"]+)"', text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_page_lead_somewhere(page):
    broken = []
    for target in re.findall(r"(?<!\\)\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        home = page if not path else (page.parent / path).resolve()
        if any(home.is_relative_to(ROOT / "docs" / made) for made in MADE):
            continue
        if not home.exists() or (anchor and home.suffix == ".md" and anchor not in anchors_of(home)):
            broken.append(target)
    assert broken == []


# ----- no network ---------------------------------------------------------------------------------------------------


def test_site_loads_nothing_from_elsewhere():
    """Neither by its settings nor by its own pages; what the theme adds is looked at by the browser's tests."""
    settings = text_of("docs/conf.py") + text_of("docs/_static/ndgrad.css")
    assert "//" not in re.sub(r"/\*.*?\*/", "", settings, flags=re.DOTALL)
    for page in PAGES:
        for raw in re.findall(r"<(?:script|link|img|iframe)[^>]*>", without_code(page.read_text(encoding="utf-8"))):
            assert "//" not in raw, (page, raw)
