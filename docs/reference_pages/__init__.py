"""A Sphinx extension that writes the reference and the error codes from the source, and typesets formulas offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", _write_pages)
    app.connect("doctree-read", _note_objects)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _write_pages(app: Any) -> None:
    from docs.reference_pages import errors, pages  # a late import, because these load all of ndgrad
    from sphinx.util import logging

    written = pages.write(Path(app.srcdir)) + errors.write(Path(app.srcdir))
    app.objects_of_pages = pages.read_records(Path(app.srcdir), "objects")
    logging.getLogger(__name__).info("reference: %d pages written", written)


def _note_objects(app: Any, doctree: Any) -> None:
    """Register the objects on a page of the reference with the search and the cross-references."""
    domain = app.env.domains.python_domain
    for name, kind in app.objects_of_pages.get(app.env.current_document.docname, ()):
        domain.objects.pop(name, None)  # removes an entry of the page that had the name before
        domain.note_object(name, kind, name, location=doctree)


def _inline(translator: Any, node: Any) -> None:
    from docs.reference_pages.formula import tex
    from docutils import nodes

    translator.body.append(tex(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: Any) -> None:
    from docs.reference_pages.formula import tex
    from docutils import nodes

    translator.body.append(f'<div class="math">{tex(node.astext(), display=True)}</div>')
    raise nodes.SkipNode
