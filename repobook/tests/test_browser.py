"""The site in headless Chromium, opened from disk: search at scale, the keyboard, narrow screens, light and dark."""

import random
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Repository
from test_site import TREE, build_site
from test_site_search import symbols_database
from webdriver import CHROMIUM, DRIVER, KEYS, Browser

from repobook.serve import make_server
from repobook.site import search
from repobook.site.build import ASSETS
from repobook.site.frame import document

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and chromedriver")
SYMBOLS = 300_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site") / "tree"
    root.mkdir()
    return build_site(Repository(root, root / "book").write(TREE))


def test_any_of_300_000_symbols_is_found_within_100_ms(browser: Browser, tmp_path: Path) -> None:
    db, names = symbols_database(SYMBOLS)
    scripts = search.index(db)
    (tmp_path / "search").mkdir()
    (tmp_path / "assets").mkdir()
    for name, text in scripts.items():
        (tmp_path / "search" / f"{name}.js").write_text(text)
    for name in ASSETS:
        source = Path(search.__file__).parent / "assets" / name
        (tmp_path / "assets" / name).write_text(source.read_text())
    (tmp_path / "index.html").write_text(document("index.html", "x", "<h1>x</h1>", "x"))
    wanted = random.Random(1).sample(names, 60)
    times = []
    for start in range(0, len(wanted), 10):
        browser.go((tmp_path / "index.html").as_uri())  # nothing is loaded: each batch starts with all scripts on disk
        browser.run("await repobook.ready();")  # as when the search gets the focus
        for name in wanted[start : start + 10]:
            took, first = browser.run(
                "const begun = performance.now(); const found = await repobook.search(a[0]);"
                "return [performance.now() - begun, found.length && found[0].last];", name
            )  # fmt: skip
            assert first == name
            times.append(took)
    # The median bears a busy machine; most of a time is the loading of one script.
    print(f"median {statistics.median(times):.1f} ms, longest {max(times):.1f} ms")
    assert statistics.median(times) < 100, sorted(times)


def test_search_with_the_keyboard_alone(browser: Browser, site: Path) -> None:
    browser.screen(1280, 800)
    browser.go((site / "index.html").as_uri())
    browser.type("/")
    assert browser.run("return document.activeElement.id;") == "q"
    browser.type("backward")
    browser.wait("document.getElementById('found').dataset.text === 'backward'")
    assert browser.run("return document.querySelector('#found a code').textContent;") == "Engine.run_backward"
    assert browser.run("return document.getElementById('q').getAttribute('aria-expanded');") == "true"
    browser.type(KEYS["down"])
    chosen = "document.getElementById(document.getElementById('q').getAttribute('aria-activedescendant'))"
    assert browser.run(f"return {chosen}.getAttribute('aria-selected');") == "true"
    browser.type(KEYS["enter"])
    browser.wait("location.href.endsWith('/pkg/core.py_docs.html#d-Engine.run_backward')")
    assert browser.run("return document.querySelector(':target') !== null;") is True
    assert [line for line in browser.log() if "favicon" not in line] == []


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("enigne", "Engine"),
        ("backwrad", "Engine.run_backward"),
        ("bacward", "Engine.run_backward"),
        ("ngine", "Engine"),
    ],
)
def test_misspelled_names_are_found(browser: Browser, site: Path, typed: str, first: str) -> None:
    browser.go((site / "index.html").as_uri())
    rows = browser.run("return (await repobook.search(a[0])).map(row => [row.name, row.misspelled]);", typed)
    assert rows[0] == [first, True]
    assert browser.run("return (await repobook.search('qqzzqq')).length;") == 0
    assert browser.run("return (await repobook.search('Engine'))[0].misspelled;") is False
    browser.type("/")
    browser.type(typed)
    browser.wait(f"document.getElementById('found').dataset.text === {typed!r}")
    assert browser.run("return document.querySelector('#found p').textContent;").endswith("Names like it:")


@pytest.mark.parametrize("width", [900, 1400])
def test_table_headers_stay_on_one_line(browser: Browser, site: Path, width: int) -> None:
    browser.screen(width, 900)
    browser.go((site / "pkg/index.html").as_uri())
    heights = browser.run(
        "return [...document.querySelectorAll('th')].map(cell => cell.getBoundingClientRect().height);"
    )
    assert heights and max(heights) < 45


def test_escape_closes_and_tab_reaches_the_skip_link_first(browser: Browser, site: Path) -> None:
    browser.go((site / "pkg/core.py_docs.html").as_uri())
    browser.type(KEYS["tab"])
    assert browser.run("return document.activeElement.className;") == "skip"
    assert browser.run("return document.activeElement.getBoundingClientRect().top >= 0;") is True
    browser.type("/")
    browser.type("eng")
    browser.wait("!document.getElementById('found').hidden")
    browser.type(KEYS["escape"])
    assert browser.run("return document.getElementById('found').hidden;") is True


def test_hostile_names_stay_text_in_results(browser: Browser, site: Path) -> None:
    browser.go((site / "index.html").as_uri())
    for text in ("<img", "onerror", "script", "javascript:alert"):
        browser.run("document.getElementById('q').focus(); document.getElementById('q').value = a[0];"
                    "document.getElementById('q').dispatchEvent(new Event('input'));", text)  # fmt: skip
        browser.wait(f"document.getElementById('found').dataset.text === {text!r}")
        assert browser.run("return document.querySelectorAll('#found img, #found script').length;") == 0
    rows = browser.run("return (await repobook.search('onerror')).map(row => row.href);")
    assert len(rows) == 1 and rows[0].endswith("_docs.html")
    for address in rows:
        browser.go((site / address).as_uri() if "%" not in address else site.as_uri() + "/" + address)
        assert browser.run("return document.querySelectorAll('main h1').length;") == 1


@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_pages_fit_the_screen(browser: Browser, site: Path, width: int) -> None:
    browser.screen(width, 800)
    for page in ("index.html", "pkg/index.html", "pkg/core.py_docs.html", "pkg/core.py_kw.html", "keywords.html",
                 "pkg/core.py_source.html"):  # fmt: skip
        browser.go((site / page).as_uri())
        assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth;"), page


def test_light_dark_and_the_switch(browser: Browser, site: Path) -> None:
    shade = "return getComputedStyle(document.body).backgroundColor;"
    browser.screen(1280, 800)
    browser.go((site / "index.html").as_uri())
    browser.run("localStorage.clear();")
    seen = {}
    for scheme in ("light", "dark"):
        browser.media(scheme)
        browser.go((site / "index.html").as_uri())
        seen[scheme] = browser.run(shade)
    assert seen["light"] != seen["dark"]
    browser.click("#theme")
    assert browser.run(shade) == seen["light"]
    browser.go((site / "pkg/core.py_docs.html").as_uri())  # the choice is kept
    assert browser.run(shade) == seen["light"]
    browser.run("localStorage.clear();")
    browser.media("light")


def test_the_source_stands_beside_the_page(browser: Browser, site: Path) -> None:
    browser.screen(1400, 800)
    browser.go((site / "pkg/core.py_docs.html").as_uri())
    browser.run("localStorage.clear();")
    browser.click("#split")
    assert browser.run("return document.getElementById('pane').src.endsWith('core.py_source.html');")
    browser.run("document.querySelector('main a[href*=\"core.py_source.html#L\"]').click();")
    assert "#L" in browser.run("return document.getElementById('pane').src;")
    assert browser.run("return location.pathname.endsWith('core.py_docs.html');")
    browser.type("s")
    assert browser.run("return document.getElementById('pane');") is None
    browser.run("localStorage.clear();")


def test_live_search_of_the_server(browser: Browser, site: Path) -> None:
    server = make_server(site.parent, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        browser.screen(1280, 800)
        browser.go(f"http://127.0.0.1:{server.server_address[1]}/pkg/index.html")
        browser.type("/")
        browser.type("run back")
        browser.wait("document.getElementById('found').dataset.text === 'run back'")
        browser.type(KEYS["enter"])
        browser.wait("location.pathname === '/pkg/core.py_docs.html' && document.querySelector(':target') !== null")
    finally:
        browser.go("about:blank")
        server.shutdown()
        server.server_close()
        thread.join()
