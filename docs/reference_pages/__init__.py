"""A Sphinx extension: the reference and the error codes, written from the source, and formulas typeset without the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", _write_pages)
    app.connect("doctree-read", _note_objects)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _write_pages(app: Any) -> None:
    from docs.reference_pages import errors, pages  # load all of ndgrad, which a mere look at the settings need not
    from sphinx.util import logging

    written = pages.write(Path(app.srcdir)) + errors.write(Path(app.srcdir))
    app.objects_of_pages = pages.written(Path(app.srcdir), "objects")
    logging.getLogger(__name__).info("reference: %d pages written", written)


def _note_objects(app: Any, doctree: Any) -> None:
    """Tell the search and the cross-references what stands on a page of the reference."""
    domain = app.env.domains.python_domain
    for name, kind in app.objects_of_pages.get(app.env.current_document.docname, ()):
        domain.objects.pop(name, None)  # where it stood before it moved here, if that page is read after this one
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
