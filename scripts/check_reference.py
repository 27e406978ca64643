"""Check that the docstrings of public functions, classes and methods describe every parameter.

A docstring has sections in Google's style:

    Args:
        dim: dimension to sum over.
        out, mask: several parameters that share a description.

The section of a class describes the parameters of its constructor. A finding is a parameter without a description, or a
description of a parameter that does not exist. `python scripts/check_reference.py PREFIX ...` checks the public names
with these prefixes. `--count` prints the number of findings per namespace.
"""

from __future__ import annotations

import argparse
import enum
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from docs.reference_pages import entries, markup  # noqa: E402
from docs.reference_pages.namespaces import CLASSES, get, namespaces  # noqa: E402


def public_callables() -> Iterator[tuple[str, Any, bool]]:
    """Yield the full name of each public function, class and method, the object, and whether its first parameter is the
    object of a method."""
    every = {name: n for name, n in namespaces().items() if n.names}
    shared = entries.shared_names(every)
    for namespace in every.values():
        for name in namespace.names:
            value, qualified = get(namespace, name), f"{namespace.name}.{name}"
            if shared.get(id(value), qualified) != qualified or not callable(value):
                continue
            if not inspect.isclass(value):
                yield qualified, value, namespace.is_class and not inspect.ismethod(value)
                continue
            is_enum = issubclass(value, enum.Enum)  # its constructor looks a member up
            if ("__init__" in vars(value) or "__new__" in vars(value)) and not is_enum:
                yield qualified, value, False
            if qualified not in CLASSES:
                for member, found in vars(value).items():
                    if member.startswith("_") or inspect.isclass(found):
                        continue
                    if isinstance(found, (staticmethod, classmethod)) or inspect.isfunction(found):
                        function = getattr(found, "__func__", found)
                        yield f"{qualified}.{member}", function, not isinstance(found, staticmethod)


def parameter_names(value: Any, drop_first: bool) -> list[str]:
    """Return the names of the parameters of a callable."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters[drop_first:] if not p.name.startswith("_")]


def check(value: Any, drop_first: bool) -> list[str]:
    """Return the findings of one callable."""
    place = entries.source_of(value)
    if place is None:
        return []
    parameters, text = parameter_names(value, drop_first), entries.docstring(value)
    described = [name for names, _ in markup.arguments(text) for name in names]
    missing = [p for p in parameters if p not in described]
    found = [f"no description of {', '.join(missing)}"] if missing else []
    # The docstring of a function that is also a method describes the object, too.
    known = parameter_names(value, False) if drop_first else parameters
    extra = [name for name in described if name not in known and not _takes_any(value)]
    return [*found, *([f"describes {', '.join(extra)}, which it does not take"] if extra else [])]


def _takes_any(value: Any) -> bool:
    return any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in inspect.signature(value).parameters.values())


def main() -> int:
    """Print the findings, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("prefixes", nargs="*", help="beginnings of public names")
    parser.add_argument("--count", action="store_true", help="print numbers for each namespace")
    options = parser.parse_args()
    prefixes = tuple(options.prefixes) or ("ndgrad.",)
    counts: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for name, value, drop_first in public_callables():
        if not name.startswith(prefixes):
            continue
        home = ".".join(name.split(".")[:2]) if name.count(".") > 1 else "ndgrad"
        total[home] += 1
        for finding in check(value, drop_first):
            counts[home] += 1
            if not options.count:
                place = entries.source_of(value) or ("", 0)
                print(f"src/{place[0]}:{place[1]}: {name}: {finding}")
    if options.count:
        for home, number in total.most_common():
            print(f"{home:32} {counts[home]:5} of {number}")
    print(f"{sum(counts.values())} findings in {sum(total.values())} public functions, classes and methods")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
