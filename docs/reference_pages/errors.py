"""The pages of error codes, written from the explanations in the package, and their index."""

from __future__ import annotations

from pathlib import Path

from ndgrad._src.foundations.error_codes import PAGES, entries, page


def pages() -> dict[str, str]:
    """Return path below docs/, without its extension -> the page's Markdown."""
    made = {f"errors/{name}": page(name) for name in PAGES}
    titles = {name: text.partition("\n")[0].removeprefix("# ") for name in PAGES for text in [page(name)]}
    rows = [
        f"| [`{e.code}`]({e.page}.md#{e.code}) | {e.summary} | {titles[e.page]} |"
        for e in sorted(entries().values(), key=lambda e: e.code)
    ]
    made["errors/index"] = (
        "# Errors by code\n\nEvery error ends in a code for the kind of mistake. `ndgrad explain CODE` prints the same text offline. "
        "[A separate page](../errors.md) shows the most common errors.\n\n"
        "| code | meaning | page |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(PAGES) + "\n```\n"
    )
    return made


def write(docs: Path) -> int:
    """Write changed pages below docs/errors/. Return the number of pages written."""
    count = 0
    for path, text in pages().items():
        file = docs / f"{path}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            count += 1
    return count
