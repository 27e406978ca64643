"""The documentation in a real browser, if it has been built: search without a server, nothing from elsewhere, narrow screens."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

pytestmark = pytest.mark.browser
SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome", "chrome"])), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync "
    "--disable-quic --virtual-time-budget=8000 --dump-dom"
).split()


@pytest.fixture
def site():
    if not (SITE / "index.html").is_file():
        pytest.skip("the documentation is not built: make docs")
    return SITE


def dom_of(address, folder, *flags):
    if BROWSER is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


def search(site, folder, query):
    """The results of a search on a page opened from the disk: address, title and excerpt of each."""
    dom = dom_of(f"{(site / 'search.html').as_uri()}?q={quote(query)}", folder)
    found = re.search(r'<ol id="search-results">(.*?)</ol>', dom, flags=re.DOTALL)
    assert found is not None, "the page of the search has no list of results"
    items = re.findall(r'<li><a href="([^"]*)">(.*?)</a>.*?<p>(.*?)</p></li>', found[1], flags=re.DOTALL)
    return [(address, *(re.sub(r"<[^>]+>", "", text) for text in texts)) for address, *texts in items]


def test_search_answers_from_files_alone(site, tmp_path):
    assert "ndgrad.nn.functional.softmax" in [title for _, title, _ in search(site, tmp_path, "softmax")]


def test_search_finds_a_question_in_words(site, tmp_path):
    """The first answers to a question are about saving, with an excerpt that shows why."""
    found = search(site, tmp_path, "how to save a model")[:5]
    assert any(re.search(r"sav", title, re.IGNORECASE) for _, title, _ in found), found
    assert any(re.search(r"sav", text, re.IGNORECASE) for _, _, text in found), found


@pytest.mark.parametrize("code", ["nd-shape", "nd-not-scalar"])
def test_search_finds_error_codes(site, tmp_path, code):
    assert any(address.startswith("errors/") and code in address for address, _, _ in search(site, tmp_path, code)[:3])


def test_search_without_an_answer_says_so(site, tmp_path):
    assert search(site, tmp_path, "xyzzyplugh") == []


@pytest.mark.parametrize(
    ("hash", "shown"), [("", "all"), ("filter=LSTM", "some"), ("kind=single op", "some"), ("filter=xyzzy", "none")]
)
def test_table_of_benchmarks_is_filtered(site, tmp_path, hash, shown):
    dom = dom_of(f"{(site / 'benchmarks.html').as_uri()}#{hash}", tmp_path)
    rows = re.findall(r"<tr data-kind=\"([^\"]*)\"([^>]*)>", dom)
    visible = [kind for kind, rest in rows if "hidden" not in rest]
    assert re.search(r'data-rows="(\d+)"', dom)[1] == str(len(visible))
    assert {"all": len(visible) == len(rows) > 100, "some": 0 < len(visible) < len(rows), "none": not visible}[shown]
    if hash.startswith("kind"):
        assert set(visible) == {"single op"}


def test_pages_load_nothing_from_elsewhere(site):
    """Every page: links may lead out, but no script, style, font or picture comes from outside."""
    wrong = []
    for page in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        loads = re.findall(r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\bsrc=\"([^\"]*)\"", text)
        loads += [href for rel, href in re.findall(r'<link\b[^>]*?rel="([^"]*)"[^>]*?href="([^"]*)"', text) if rel != "canonical"]
        wrong += [(page.name, address) for address in loads if re.match(r"(https?:)?//", address)]
    for style in (site / "_static").rglob("*.css"):
        wrong += [(style.name, url) for url in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]*)", style.read_text(encoding="utf-8"))]
    assert wrong == []


def test_internal_links_of_built_pages_resolve(site):
    ids, wrong = {}, []

    def anchors(page):
        if page not in ids:
            ids[page] = set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))
        return ids[page]

    for page in site.rglob("*.html"):
        text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in set(re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', text)):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:|//", target) or page.name in ("search.html", "genindex.html"):
                continue
            home = (page.parent / path).resolve() if path else page
            if not home.is_file() or (anchor and home.suffix == ".html" and anchor not in anchors(home)):
                wrong.append((str(page.relative_to(site)), target))
    assert wrong == []


@pytest.mark.parametrize(
    "page",
    ["index", "gallery/index", "benchmarks", "reference/ops/trigonometric", "reference/index", "reference/ndgrad", "search", "parity",
     "from-torch"],
)
def test_page_is_no_wider_than_a_phone(site, tmp_path, page):
    """In a frame as wide as a phone, since a window cannot be made that narrow: nothing but what scrolls by itself sticks out."""
    frame = tmp_path / "frame.html"
    script = (
        "const f=document.querySelector('iframe');f.onload=()=>{const d=f.contentDocument.documentElement;"
        "document.body.dataset.wide=d.scrollWidth-d.clientWidth}"
    )
    address = (site / f"{page}.html").as_uri()
    frame.write_text(f'<body><iframe src="{address}" width="390" height="844"></iframe><script>{script}</script></body>')
    dom = dom_of(frame.as_uri(), tmp_path, "--allow-file-access-from-files")
    assert re.search(r'data-wide="(-?\d+)"', dom)[1] == "0"


@pytest.mark.parametrize("page", ["differences/views-and-writes", "differences/numbers", "parity", "installing", "lift"])
@pytest.mark.parametrize("width", [390, 1400])
def test_code_in_tables_is_not_broken_into_letters(site, tmp_path, page, width):
    """Code in a cell is split at spaces and hyphens only: a line of it that is full has at least four letters."""
    frame = tmp_path / "frame.html"
    script = (
        "const f=document.querySelector('iframe');f.onload=()=>{const d=f.contentDocument;let worst=0;"
        "for(const c of d.querySelectorAll('td code'))worst=Math.max(worst,4*c.getClientRects().length/(c.textContent.length+12));"
        "document.body.dataset.cells=d.querySelectorAll('td code').length;document.body.dataset.worst=worst}"
    )
    address = (site / f"{page}.html").as_uri()
    frame.write_text(f'<body><iframe src="{address}" width="{width}" height="844"></iframe><script>{script}</script></body>')
    dom = dom_of(frame.as_uri(), tmp_path, "--allow-file-access-from-files")
    assert int(re.search(r'data-cells="(\d+)"', dom)[1]) > 0
    assert float(re.search(r'data-worst="([\d.]+)"', dom)[1]) < 1


def measure(site, tmp_path, page, width, script):
    """The number that a script computes from the document `d` of a page in a frame of some width."""
    frame = tmp_path / "frame.html"
    address = (site / f"{page}.html").as_uri()
    run = f"const f=document.querySelector('iframe');f.onload=()=>{{const d=f.contentDocument;document.body.dataset.found={script}}}"
    frame.write_text(f'<body><iframe src="{address}" width="{width}" height="844"></iframe><script>{run}</script></body>')
    return float(re.search(r'data-found="([-\d.]+)"', dom_of(frame.as_uri(), tmp_path, "--allow-file-access-from-files"))[1])


@pytest.mark.parametrize("page", ["differences/numbers", "installing", "lift"])
def test_tables_of_text_fit_on_a_phone(site, tmp_path, page):
    """Rows become blocks there, in which each cell follows the title of its column."""
    wrappers = "[...d.querySelectorAll('.table-wrapper')]"
    assert measure(site, tmp_path, page, 390, f"Math.max(...{wrappers}.map(w=>w.scrollWidth-w.clientWidth))") <= 1
    assert measure(site, tmp_path, page, 390, "d.querySelectorAll('table.rows td[data-title]').length") > 0
    assert measure(site, tmp_path, page, 1400, "d.querySelectorAll('table.rows').length") == 0


def test_table_of_benchmarks_shows_ratios_on_a_phone(site, tmp_path):
    assert measure(site, tmp_path, "benchmarks", 390, "d.querySelectorAll('.bench th')[2].getBoundingClientRect().right") < 390
