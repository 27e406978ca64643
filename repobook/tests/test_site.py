"""The static site: links and anchors resolve, hostile content stays text, search finds, the server is local."""

import json
import os
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import Files, Repository

from repobook.build import build_model, silent
from repobook.pages.writer import write_pages
from repobook.serve import make_server
from repobook.site import html, source
from repobook.site.build import write_site

Make = Callable[[Files], Repository]
TREE: Files = {
    "pkg/__init__.py": '"""The package."""\nfrom .core import Engine\n',
    "pkg/core.py": '"""Core."""\nclass Engine:\n    """Runs."""\n    def run_backward(self):\n        return 1 < 2\n',
    "pkg/a b.cpp": "#include <vector>\nclass Base {};\nclass Derived : public Base { int x; };\n",
    "pkg/evil.py": "'''</code><script>alert(1)</script>'''\nx = '</pre><script>alert(2)</script>'\n",
    "tests/test_core.py": "from pkg import Engine\ndef test_it():\n    Engine().run_backward()\n",
}


def build_site(repository: Repository) -> Path:
    db, outcome = build_model(repository.root, repository.output, repository.config)
    write_pages(db, repository.root, repository.output, repository.config, 1, outcome, silent)
    write_site(db, repository.root, repository.output, "A <title>", 1, silent)
    db.close()
    return repository.output / "html"


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        if values.get("id"):
            self.ids.add(str(values["id"]))
        for key in ("href", "src"):
            if values.get(key):
                self.links.append(str(values[key]))


def parsed(path: Path) -> Links:
    found = Links()
    found.feed(path.read_text(encoding="utf-8"))
    return found


def test_every_link_and_anchor_of_the_site_resolves(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    pages = {path: parsed(path) for path in site.rglob("*.html")}
    assert len(pages) > 20
    for path, page in pages.items():
        for target in page.links:
            place, _, anchor = target.partition("#")
            goal = Path(os.path.normpath(path.parent / unquote(place))) if place else path
            assert goal.exists(), f"{path.relative_to(site)}: {target}"
            if anchor and goal in pages:
                assert unquote(anchor) in pages[goal].ids, f"{path.relative_to(site)}: {target}"


def test_nothing_of_the_tree_becomes_markup(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    for path in site.rglob("*.html"):
        page = parsed(path)
        scripts = [values for tag, values in page.tags if tag == "script"]
        assert len(scripts) == 1 and str(scripts[0]["src"]).endswith("assets/app.js"), path
        assert not [values for tag, values in page.tags if any(key.startswith("on") for key in values)]


def test_the_site_needs_no_network(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    for path in [*site.rglob("*.html"), *site.rglob("*.js"), *site.rglob("*.css")]:
        assert not re.search(
            r"""(?:src|href)=["']?https?:|url\(|@import|fetch\(""", path.read_text(encoding="utf-8")
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
    assert source.listing(text, "python").count("<a id=") == 4


def test_inline_markup() -> None:
    def show(text: str) -> str:
        return html.inline(text, lambda target: target)

    assert show("a `b<c>` **d** \\*e\\*") == "a <code>b&lt;c&gt;</code> <strong>d</strong> *e*"
    assert show("[`x`](y.md#z) &lt;") == '<a href="y.md#z"><code>x</code></a> &lt;'
    assert show("<script>") == "&lt;script&gt;"
    assert show("`` a`b ``") == "<code>a`b</code>"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the site's script")
def test_search_finds_names_and_parts_of_names(make_repository: Make) -> None:
    site = build_site(make_repository(TREE))
    program = """
const fs = require("fs"), vm = require("vm");
const site = process.argv[2];
const context = vm.createContext({console, performance, setTimeout});
context.document = {documentElement: {dataset: {base: ""}}, addEventListener() {}, createElement: () => ({}),
  head: {append(s) { try { vm.runInContext(fs.readFileSync(site + "/" + s.src, "utf8"), context); } catch (e) {} s.onload(); }}};
vm.runInContext(fs.readFileSync(site + "/assets/app.js", "utf8") + ";globalThis.repobook = repobook;", context);
(async () => {
  const found = {};
  for (const q of ["Engine", "run", "backward", "test_it", "zz", "core.py"]) found[q] = (await context.repobook.search(q)).map(r => [r.name, r.href]);
  console.log(JSON.stringify(found));
})();
"""
    done = subprocess.run(["node", "-", str(site)], input=program, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["Engine"][0] == ["Engine", "pkg/core.py_docs.html#d-Engine"]
    assert ["Engine.run_backward", "pkg/core.py_docs.html#d-Engine.run_backward"] in found["run"]
    assert any(name == "Engine.run_backward" for name, _ in found["backward"])
    assert found["zz"] == []
    assert ["core.py", "pkg/core.py_docs.html"] in found["core.py"]


def test_an_unchanged_site_writes_nothing_and_a_change_little(make_repository: Make) -> None:
    repository = make_repository(TREE)
    site = build_site(repository)
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}
    build_site(repository)
    assert before == {path: path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}
    (repository.root / "pkg/evil.py").unlink()
    build_site(repository)
    assert not (site / "pkg/evil.py_docs.html").exists() and not (site / "src/pkg/evil.py.html").exists()


def test_the_server_is_local_and_searches(make_repository: Make) -> None:
    repository = make_repository(TREE)
    build_site(repository)
    server = make_server(repository.output, 0)
    assert server.server_address[0] == "127.0.0.1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        assert b"Engine" in opener.open(f"{base}/pkg/core.py_docs.html").read()
        rows = json.load(opener.open(f"{base}/api/search?q=eng"))
        assert rows[0]["qualified"] == "Engine"
        for path, headers in (("/", {"Host": "evil.example"}), ("/../.repobook/model.sqlite", {}), ("/src/", {})):
            with pytest.raises(urllib.error.HTTPError) as error:
                opener.open(urllib.request.Request(base + path, headers=headers))
            assert error.value.code in (403, 404)
            error.value.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
