"""The static site: links and anchors resolve, hostile content stays text, search finds, the server is local."""

import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import Files, Repository

from repobook.build import build_model, silent
from repobook.pages.writer import write_pages
from repobook.site import html, links, source
from repobook.site.build import write_site

Make = Callable[[Files], Repository]
TREE: Files = {
    "pkg/__init__.py": '"""The package."""\nfrom .core import Engine\n',
    "pkg/core.py": '"""Core."""\nclass Engine:\n    """Runs."""\n    def run_backward(self):\n        return 1 < 2\n',
    "pkg/a b.cpp": "#include <vector>\nclass Base {};\nclass Derived : public Base { int x; };\n",
    "pkg/evil.py": "'''</code><script>alert(1)</script>'''\nx = '</pre><script>alert(2)</script>'\n",
    "pkg/<img src=x onerror=alert(3)>.py": "def f(): pass\n",
    'pkg/"><script>alert(4)<x>.js': "function g() { return '`**[a](javascript:alert(5))**`' }\n",
    "pkg/[a](javascript:alert(6)).md": "# <script>alert(7)</script> & [x](javascript:alert(8))\n\n| a |\n",
    "pkg/\u00e4 & \u00fc.py": "class Gr\u00f6\u00dfe:\n    pass\n",
    "pkg/blob.bin": b"\x00\x01\x02",
    "src/index": "a file whose source page would be index.html in another layout\n",
    "tests/test_core.py": "from pkg import Engine\ndef test_it():\n    Engine().run_backward()\n",
}
# The elements that our own code writes.
KNOWN = set(
    "html head meta title link script body header nav main a div p span button input kbd ol ul li h1 h2 h3 h4 h5 code pre "
    "svg path rect text i strong table thead tbody tr th td details summary".split()
)


def build_site(repository: Repository) -> Path:
    db, outcome = build_model(repository.root, repository.output, repository.config)
    write_pages(db, repository.root, repository.output, repository.config, 1, outcome, silent)
    write_site(db, repository.root, repository.output, "A <title>", 1, silent)
    db.close()
    return repository.output / "html"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def parsed(path: Path) -> Tags:
    found = Tags()
    found.feed(path.read_text(encoding="utf-8"))
    return found


def test_every_link_and_anchor_of_the_site_resolves(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    assert len(list(site.rglob("*.html"))) > 20
    assert list(links.dead_links(site)) == []


def test_the_checker_finds_dead_links_of_the_site(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    (site / "pkg/core.py_source.html").unlink()
    page = site / "index.html"
    page.write_text(page.read_text() + '<a href="pkg/core.py_docs.html#d-Nothing">x</a>')
    problems = list(links.dead_links(site))
    assert "index.html: pkg/core.py_docs.html#d-Nothing: no such anchor" in problems
    assert any(problem.endswith("core.py_source.html: no such file") for problem in problems)


def test_nothing_of_the_tree_becomes_markup(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    for path in site.rglob("*.html"):
        page = parsed(path)
        scripts = [values for tag, values in page.tags if tag == "script"]
        names = [str(values["src"]).rpartition("assets/")[2] for values in scripts]
        assert names == ["theme.js", "search.js", "app.js"], path
        assert not [values for _, values in page.tags if any(key.startswith("on") for key in values)]
        assert not [values for _, values in page.tags if str(values.get("href")).startswith("javascript")], path
        assert {tag for tag, _ in page.tags} <= KNOWN, path


def test_the_site_needs_no_network(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    for path in [*site.rglob("*.html"), *site.rglob("*.js"), *site.rglob("*.css")]:
        assert not re.search(
            r"""(?:src|href)=["']?https?:|url\(|@import|fetch\((?!`/api/)""", path.read_text(encoding="utf-8")
        ), path


def test_source_has_an_anchor_per_line_and_keeps_its_text() -> None:
    text = "def f(x):\n    '''a\n    b'''\n    return x < 1\n"
    lines = source.lines_of(text.removesuffix("\n"), "python")
    assert [re.sub(r"<[^>]*>", "", line) for line in lines] == [
        "def f(x):",
        "    &#x27;&#x27;&#x27;a",
        "    b&#x27;&#x27;&#x27;",
        "    return x &lt; 1",
    ]
    assert source.listing(text, "python").count('<span id="L') == 4
    for language in ("python", "cpp", "unknown"):
        assert len(source.lines_of("\n\na\rb\x0c\u2028c\n\n\nd", language)) == 6


def test_inline_markup() -> None:
    def show(text: str) -> str:
        return html.inline(text, lambda target: target)

    assert show("a `b<c>` **d** \\*e\\*") == "a <code>b&lt;c&gt;</code> <strong>d</strong> *e*"
    assert show("[`x`](y.md#z) &lt;") == '<a href="y.md#z"><code>x</code></a> &lt;'
    assert show("<script>") == "&lt;script&gt;"
    assert show("`` a`b ``") == "<code>a`b</code>"


def test_an_unchanged_site_writes_nothing_and_a_change_little(make_repository: Make) -> None:
    repository = make_repository(TREE)
    site = build_site(repository)
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}
    build_site(repository)
    assert before == {path: path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}
    (repository.root / "pkg/evil.py").unlink()
    build_site(repository)
    assert not (site / "pkg/evil.py_docs.html").exists() and not (site / "pkg/evil.py_source.html").exists()


def test_the_text_of_a_file_is_on_its_source_page_alone(make_repository: Make) -> None:
    site = build_site(make_repository({**TREE, "pkg/tricky.py": "x = 1\n</details>\n\n[a](b.md) to\n"}))
    for name in ("core.py", "tricky.py"):
        page = (site / f"pkg/{name}_docs.html").read_text()
        assert "lines, highlighted: " in page and "<details><summary>" not in page
        assert "return 1" not in page and "to link to single lines" not in page
    assert '<i class="k">return</i>' in (site / "pkg/core.py_source.html").read_text()


SAMPLES = {
    "python": 'def f(x):\n    """a\n    <b>"""\n    return x + 1  # <c>\n@d.e\nclass G: s = rb\'\\\'\' + f"{x}"\n',
    "cpp": '#include <a>\nstruct S { char c = \'"\'; int n = 1\'000; }; // <c>\nauto r = R"x(</pre>\n" )x"; /* a\nb */ return 1;\n',
    "rust": "fn f<'a>(x: &'a str) -> char { '\"' } // it's\n",
    "javascript": "const s = `a\n${b}<`; /* ' */ function g() { return 'x\\'' }\n",
    "go": "func f() string { return `a\"\n` } // '\n",
    "java": 'class A { char c = \'"\'; String s = "//"; }\n',
}


@pytest.mark.parametrize("language", SAMPLES)
def test_colours_keep_the_text(language: str) -> None:
    text = SAMPLES[language]
    lines = source.lines_of(text, language)
    assert [unescape(re.sub(r"</?i[^>]*>", "", line)) for line in lines] == text.split("\n")
    for line in lines:
        assert re.fullmatch(r"(?:[^<>]|<i class=\"[a-z]\">[^<>]*</i>)*", line), line


@pytest.mark.parametrize("language", ["python", "cpp", "rust", "javascript"])
def test_colours_of_anything_end_soon(language: str) -> None:
    # No expression may look through the rest of the text again for each unit.
    for unit in ('"', "'", "/*", "\\", 'R"(', "\\`", "\\'", '\\"', "'\\", "`", "//\\", "@a.", "1'", "\n'''"):
        for text in (unit * 10_000, '"' * 3 + unit * 10_000):
            assert unescape(re.sub(r"</?i[^>]*>", "", "\n".join(source.lines_of(text, language)))) == text


def test_colours_of_python_and_cpp() -> None:
    assert source.lines_of(SAMPLES["python"], "python")[0] == '<i class="k">def</i> <i class="f">f</i>(x):'
    assert source.lines_of(SAMPLES["python"], "python")[2] == '<i class="s">    &lt;b&gt;&quot;&quot;&quot;</i>'
    assert source.lines_of(SAMPLES["cpp"], "cpp")[0] == '<i class="d">#include</i> &lt;a&gt;'
    assert '<i class="n">1&#x27;000</i>' in source.lines_of(SAMPLES["cpp"], "cpp")[1]
    assert source.lines_of(SAMPLES["cpp"], "cpp")[3].startswith('<i class="s">&quot; )x&quot;</i>;')


def test_a_new_model_removes_the_old_pages_of_the_site(make_repository: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository({"keep.py": "def keep():\n    pass\n", "zebra.py": "def zebra():\n    pass\n"})
    site = build_site(repository)
    assert (site / "zebra.py_docs.html").exists() and (site / "keywords_ze.html").exists()
    (repository.root / "zebra.py").unlink()
    monkeypatch.setattr("repobook.build.digest_code", lambda *packages: "newer readers")
    build_site(repository)
    assert sorted(path.name for path in site.glob("*ze*")) == []
    assert list(links.dead_links(site)) == []
