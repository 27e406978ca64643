"""The codes at the end of error messages, with a cause, an example and a cure for each.

A code names a kind of mistake by its cure: `[nd-broadcast]`, `[nd-leaf-write]`. The explanations are in the Markdown
files of this folder, one section per code. `ndgrad explain` prints them, and the documentation pages are generated from
them. tests/test_error_codes.py checks that every error has a code, that every code has a section, and that the examples
print the output shown.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

#: The Markdown files of this folder, in reading order.
PAGES = (
    "graph", "writes", "shapes", "dtypes", "arguments", "transforms", "extending", "solvers", "layouts", "networks",
    "files", "processes", "compiler", "checking",
)  # fmt: skip


class Entry(NamedTuple):
    """The explanation of one error code."""

    code: str
    summary: str
    #: Markdown text: cause, example, cure.
    text: str
    page: str


def page(name: str) -> str:
    """Return the Markdown text of a page."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")


@functools.cache
def entries() -> dict[str, Entry]:
    """Return the explanation of every code, in the order of the pages.

    >>> from ndgrad._src.foundations.error_codes import entries
    >>> entries()["nd-broadcast"].summary
    'Shapes cannot be broadcast together.'
    """
    found = {}
    for name in PAGES:
        for section in re.split(r"^## ", page(name), flags=re.MULTILINE)[1:]:
            code, summary, text = section.split("\n\n", 2)
            found[code] = Entry(code, summary, text.strip(), name)
    return found
