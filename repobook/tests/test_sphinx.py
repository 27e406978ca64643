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
        "Title\n=====\n\n:book:`src/thing.py` and :book:`Engine.run` and :book:`nothing.here`\n"
    )
    out = tmp_path / "out"
    Sphinx(str(docs), str(docs), str(out), str(tmp_path / "trees"), "html", status=None, warning=None).build()
    page = (out / "index.html").read_text()
    assert 'href="book/src/thing.py_docs.html"' in page
    assert 'href="book/src/thing.py_docs.html#d-Engine.run"' in page
    assert (out / "book/src/thing.py_docs.html").exists()
    assert "nothing.here" in page
