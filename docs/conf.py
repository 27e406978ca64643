"""Sphinx settings: Markdown pages in, one HTML tree out, with no step that needs the network."""

from __future__ import annotations

import tomllib
from pathlib import Path

_pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))

project = "ndgrad"
author = "The ndgrad authors"
copyright = "2026, The ndgrad authors"
release = version = _pyproject["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = f"ndgrad {release}"
html_show_sphinx = False
