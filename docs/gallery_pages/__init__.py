"""A Sphinx extension that writes the gallery's pages and notebooks from its programs, and the tutorials' notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", _write_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _write_pages(app: Any) -> None:
    from docs.gallery_pages import pages, tutorials
    from sphinx.util import logging

    logging.getLogger(__name__).info("gallery: %d files written", pages.write(Path(app.srcdir)))
    logging.getLogger(__name__).info("tutorials: %d notebooks written", tutorials.write())
