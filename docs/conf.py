"""Sphinx settings: Markdown pages in, one HTML tree out, with no step that needs the network."""

from __future__ import annotations

import functools
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # the reference reads the source of this tree, installed or not

_pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

project = "ndgrad"
author = "The ndgrad authors"
copyright = "2026, The ndgrad authors"
release = version = _pyproject["project"]["version"]

# The order matters: the book needs the names of a file in the reference.
extensions = [
    "myst_parser", "docs.reference_pages", "docs.gallery_pages", "repobook.sphinx_extension", "docs.site_pages",
]  # fmt: skip
exclude_patterns = ["_build", "reference_pages", "gallery_pages", "site_pages", "_templates"]

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# A long signature has a line per parameter.
maximum_signature_line_length = 100
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"ndgrad {release}"
html_show_sphinx = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
templates_path = ["_templates"]  # the page of the search
html_css_files = ["ndgrad.css"]
html_js_files = [("tables.js", {"defer": "defer"})]
html_show_sourcelink = False


def repobook_documented(path: str) -> list[tuple[str, str]]:
    """Return the entries of the reference for a file, for the page of that file in the book of the source."""
    return _documented().get(path, [])


@functools.cache
def _documented() -> dict[str, list[tuple[str, str]]]:
    from docs.reference_pages import pages  # a late import, because it loads all of ndgrad

    return pages.read_records(Path(__file__).parent, "sources")
