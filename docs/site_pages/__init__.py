"""A Sphinx extension for the site as a whole: the table of benchmarks, the pictures that can be
used, and a search that works without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, Any]:
    from docs.site_pages.benchmark_table import BenchmarkTable

    app.add_directive("benchmark-table", BenchmarkTable)
    app.connect("build-finished", _write_search_index)
    app.connect("build-finished", _write_pictures)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _write_pictures(app: Any, exception: Exception | None) -> None:
    from docs.site_pages import live_pictures

    if exception is None and app.builder.name == "html":
        live_pictures.write(Path(app.srcdir), Path(app.outdir))


def _write_search_index(app: Any, exception: Exception | None) -> None:
    from docs.site_pages import search_index

    if exception is None and app.builder.name == "html":
        search_index.write(Path(app.outdir), sorted(app.env.found_docs))
