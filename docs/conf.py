"""Sphinx settings: Markdown pages in, one HTML tree out, with no step that needs the network."""

from __future__ import annotations

import functools
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # the reference reads the source beside these pages, installed or not

_pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

project = "ndgrad"
author = "The ndgrad authors"
copyright = "2026, The ndgrad authors"
release = version = _pyproject["project"]["version"]

# in this order: the book is told which names of a file the reference has
extensions = ["myst_parser", "docs.reference_pages", "docs.gallery_pages", "repobook.sphinx_extension"]
exclude_patterns = ["_build", "reference_pages", "gallery_pages"]

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# a long signature has a line per parameter
maximum_signature_line_length = 100
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"ndgrad {release}"
html_show_sphinx = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["ndgrad.css"]
html_show_sourcelink = False


def repobook_documented(path: str) -> list[tuple[str, str]]:
    """What the reference tells about a file, for the page of that file in the book of the source."""
    return _documented().get(path, [])


@functools.cache
def _documented() -> dict[str, list[tuple[str, str]]]:
    from docs.reference_pages import pages  # loads all of ndgrad, which a mere look at the settings need not

    return pages.written(Path(__file__).parent, "sources")
