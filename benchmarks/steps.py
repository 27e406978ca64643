"""The steps of a compiled workload: `python -m benchmarks.steps mlp transformer`.

Each step is listed with its ops, bytes, operations, time and the machine's limit. Calls of NumPy between native steps
are marked.
"""

from __future__ import annotations

import sys
from typing import Any

import benchmarks.workloads  # noqa: F401  (fills the registry)
from benchmarks.differentiate import Compiler
from benchmarks.libraries import LIBRARIES
from benchmarks.registry import WORKLOADS


def compiled_functions(name: str, calls: int = 5) -> list[Any]:
    """Return the functions that a workload compiles, after a few steps, so that state made in the first step exists."""
    namespace = LIBRARIES["ndgrad-compiled"].load()
    Compiler.made.clear()
    step = WORKLOADS[name].build(namespace)
    for _ in range(calls):
        step()
    return [getattr(f, "compiled_forward", f) for f in Compiler.made]


def main() -> None:
    """Print the steps of the named workloads."""
    for name in sys.argv[1:]:
        print(f"----- {name}: {WORKLOADS[name].title}")
        for function in compiled_functions(name):
            entry = function.entries[-1] if function.entries else None
            if entry is None or entry.specialisation is None:
                print(f"runs eagerly: {entry.broken.reason if entry is not None else 'it was never called'}")
                continue
            if entry.specialisation.traced.arguments.places:
                print("has arguments of its own; its steps: function.kernels(*args)")
                continue
            print(function.kernels())


if __name__ == "__main__":
    main()
