"""Names of torch that ndgrad does not have, each with the reason and an alternative.

The table is missing_names.txt in this folder. It is read when a name is missing for the first time. Three things are
derived from it: the errors for missing attributes and imports, docs/absent.md, and the test that no public name of
torch is missing without a reason (tests/torch_parity/names). The format:

    ## heading                      heading on the page
    reason | alternative            one line
        name name.* other*          indented: torch's names without `torch.`; `*` matches anything without a dot,
                                    `.*` at the end matches every name below
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ndgrad._src.foundations import module_names, names_of_jax


class Absence(NamedTuple):
    """One reason, with the patterns of the names that it explains."""

    heading: str
    reason: str
    instead: str
    patterns: tuple[str, ...]


@functools.cache
def table() -> tuple[Absence, ...]:
    """Return the rows of the table, in order."""
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
    return tuple((compile_pattern(pattern), absence) for absence in table() for pattern in absence.patterns)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern of the table as a regular expression for whole names."""
    under = pattern.endswith(".*")
    found = re.escape(pattern.removesuffix(".*")).replace(r"\*", "[^.]*")
    return re.compile(found + (r"\..*" if under else ""))


def find(name: str) -> Absence | None:
    """Return the first row that matches a name of torch (without `torch.`), or None."""
    return next((absence for pattern, absence in _patterns() if pattern.fullmatch(name)), None)


@functools.lru_cache(1024)  # programs ask for the same name in every call: `hasattr(torch.nn.functional, name)`
def explain(namespace: str, name: str) -> str:
    """Return the explanation for a name of one of this package's namespaces, or an empty string."""
    absence = find(f"{namespace}.{name}".removeprefix("ndgrad").removeprefix("."))
    if absence is None:
        return names_of_jax.find_alternative(namespace, name)
    return f": {absence.reason} {absence.instead}".rstrip()


def refusal(namespace: str, name: str) -> AttributeError:
    """Return the AttributeError for a name that a namespace does not have."""
    explanation = "" if name.startswith("__") else explain(namespace, name)
    code = " [nd-absent]" if explanation else ""  # names unknown to torch keep Python's own message
    return AttributeError(f"module {namespace!r} has no attribute {name!r}{explanation}{code}", name=name)


def find_alias(namespace: str, name: str) -> Any:
    """Return the module that holds the contents of torch's module `namespace.name`, or the submodule of that name;
    AttributeError with the reason if this package has neither.
    """
    theirs = f"{namespace}.{name}".removeprefix("ndgrad.")
    ours = module_names.aliases().get(theirs)
    if ours is not None:
        return importlib.import_module(f"ndgrad.{ours}".rstrip("."))
    if not name.startswith("__") and _is_submodule(namespace, name):
        return importlib.import_module(f"{namespace}.{name}")
    raise refusal(namespace, name)


@functools.lru_cache(1024)
def _is_submodule(namespace: str, name: str) -> bool:
    """True if a package of this library has a file of that name."""
    return any(
        (Path(folder) / f"{name}{end}").is_file()
        for folder in getattr(sys.modules[namespace], "__path__", ())
        for end in (".py", "/__init__.py")
    )


def refuse_absent(namespace: str) -> None:
    """Give a module a `__getattr__` that explains missing names, and finds modules that have another name in torch.

    A `__getattr__` written in the file itself would make type checkers accept any name. An existing `__getattr__`, such
    as one that loads names on first use, is asked first.
    """
    names: dict[str, Any] = vars(sys.modules[namespace])
    own = names.get("__getattr__")

    def __getattr__(name: str) -> Any:
        if own is not None:
            with suppress(AttributeError):
                return own(name)
        return find_alias(namespace, name)

    names["__getattr__"] = __getattr__
