"""Names of torch's that are not here, each with the reason and with what to use instead.

The table is absent.txt beside this file, and everything that says so is derived from it: the errors of missing
attributes and imports, docs/absent.md, and the test that no public name of torch's is missing without a reason
(tests/torch_parity/names). It is read when a name is missed for the first time.

    ## heading                      of the page
    reason | what to use instead    one line
        name name.* other*          indented: torch's names without `torch.`; `*` stands for anything without a dot,
                                    `.*` at the end for all that is under a name
"""

from __future__ import annotations

import functools
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple


class Absence(NamedTuple):
    """One reason, and the names that it is about."""

    heading: str
    reason: str
    instead: str
    patterns: tuple[str, ...]


@functools.cache
def table() -> tuple[Absence, ...]:
    """The table, in its order."""
    found: list[Absence] = []
    heading = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("    "):
            last = found[-1]
            found[-1] = last._replace(patterns=(*last.patterns, *line.split()))
        elif line and not line.startswith("#"):
            reason, _, instead = line.partition(" | ")
            found.append(Absence(heading, reason, instead, ()))
    return tuple(found)


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], Absence], ...]:
    return tuple((expression(pattern), absence) for absence in table() for pattern in absence.patterns)


def expression(pattern: str) -> re.Pattern[str]:
    """A pattern of the table as a regular expression of whole names."""
    under = pattern.endswith(".*")
    found = re.escape(pattern.removesuffix(".*")).replace(r"\*", "[^.]*")
    return re.compile(found + (r"\..*" if under else ""))


def find(name: str) -> Absence | None:
    """Why a name of torch's (without `torch.`) is not here; None if it is not in the table. The first row that fits
    counts."""
    return next((absence for pattern, absence in _patterns() if pattern.fullmatch(name)), None)


def explained(namespace: str, name: str) -> str:
    """The table's words on a name of a namespace of this package; empty if it has none."""
    absence = find(f"{namespace}.{name}".removeprefix("ndgrad").removeprefix("."))
    return "" if absence is None else f": {absence.reason} {absence.instead}".rstrip()


def refusal(namespace: str, name: str) -> AttributeError:
    """The error for a name that a namespace does not have."""
    told = "" if name.startswith("__") else explained(namespace, name)
    code = " [nd-absent]" if told else ""  # a name that nobody has keeps Python's own words
    return AttributeError(f"module {namespace!r} has no attribute {name!r}{told}{code}", name=name)


def refuse_absent(namespace: str) -> None:
    """Let a module say why a name is not there. Said here and not by a `__getattr__` in each file, of which type
    checkers would conclude that any name may be. One that loads names when they are first looked up is asked before."""
    names: dict[str, Any] = vars(sys.modules[namespace])
    own = names.get("__getattr__")

    def __getattr__(name: str) -> Any:
        if own is not None:
            with suppress(AttributeError):
                return own(name)
        raise refusal(namespace, name)

    names["__getattr__"] = __getattr__
