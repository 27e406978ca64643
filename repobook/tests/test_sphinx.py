"""The Sphinx extension builds the book beside the documentation and links into it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Files, Repository

Make = Callable[[Files], Repository]


def test_a_role_links_to_pages_of_the_book(make_repository: Make, tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    from sphinx.application import Sphinx

    repository = make_repository({"src/thing.py": "class Engine:\n    def run(self): ...\n"})
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text(
        f"extensions = ['repobook.sphinx_extension']\nrepobook_root = {str(repository.root)!r}\n"
    )
    (docs / "index.rst").write_text(
        "Title\n=====\n\n:book:`src/thing.py` and :book:`Engine.run` and :book:`nothing.here` and :book:`words <src/thing.py>`\n"
    )
    out = tmp_path / "out"
    Sphinx(str(docs), str(docs), str(out), str(tmp_path / "trees"), "html", status=None, warning=None).build()
    page = (out / "index.html").read_text()
    assert 'href="book/src/thing.py_docs.html"' in page
    assert 'href="book/src/thing.py_docs.html#d-Engine.run"' in page
    assert (out / "book/src/thing.py_docs.html").exists()
    assert "nothing.here" in page
    assert '<a class="reference external" href="book/src/thing.py_docs.html">words</a>' in page


def test_pages_of_the_book_link_back(make_repository: Make, tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    from sphinx.application import Sphinx

    repository = make_repository({"src/thing.py": "class Engine: ...\n", "src/other.py": "x = 1\n"})
    docs = tmp_path / "docs"
    docs.mkdir()
    settings = f"""extensions = ['repobook.sphinx_extension']
repobook_root = {str(repository.root)!r}
def repobook_documented(path):
    return [("thing.Engine", "reference/thing.html#thing.Engine")] if path == "src/thing.py" else []
"""
    (docs / "conf.py").write_text(settings)
    (docs / "index.rst").write_text("Title\n=====\n")

    def build_pages() -> tuple[str, str]:
        arguments = (str(docs), str(docs), str(tmp_path / "out"), str(tmp_path / "trees"), "html")
        Sphinx(*arguments, status=None, warning=None, warningiserror=True).build()
        pages = tmp_path / "out" / "book" / "src"
        return (pages / "thing.py_docs.html").read_text(), (pages / "other.py_docs.html").read_text()

    thing, other = build_pages()
    assert '<a href="../../reference/thing.html#thing.Engine"><code>thing.Engine</code></a>' in thing
    assert '<a href="../../index.html">Documentation</a>' in thing
    assert "In the documentation" not in other
    (docs / "conf.py").write_text(settings.replace("thing.html", "engines.html"))
    assert "reference/engines.html#thing.Engine" in build_pages()[0]
