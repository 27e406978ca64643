"""The codes at the end of error messages, and what is told about each: cause, example, cure.

A code names a kind of mistake, by what cures it: `[nd-broadcast]`, `[nd-leaf-write]`. What is told stands in the
Markdown files beside this one, a section per code, and only there: `ndgrad explain` prints it, and the pages of the
documentation are written from it. tests/test_error_codes.py holds that every error has a code, every code a section,
and that examples say what they show.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

#: The files beside this one, in the order in which they are read.
PAGES = (
    "graph", "writes", "shapes", "dtypes", "arguments", "transforms", "extending", "solvers", "layouts", "networks",
    "files", "processes", "compiler", "checking",
)  # fmt: skip


class Entry(NamedTuple):
    """What is told about one code."""

    code: str
    summary: str
    #: Markdown: the cause, an example, the cure.
    text: str
    page: str


def page(name: str) -> str:
    """The Markdown of a page."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")


@functools.cache
def entries() -> dict[str, Entry]:
    """Every code with what is told about it, in the order of the pages.

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
