"""What a workload runs as when ndgrad compiles it, step by step: `python -m benchmarks.steps mlp transformer`.

Each step with its ops, bytes, operations, time and the machine's limit; what NumPy runs between native steps is marked.
"""

from __future__ import annotations

import sys
from typing import Any

import benchmarks.workloads  # noqa: F401  (fills the registry)
from benchmarks.differentiate import Compiler
from benchmarks.libraries import LIBRARIES
from benchmarks.registry import WORKLOADS


def compiled_functions(name: str, calls: int = 5) -> list[Any]:
    """The functions that a workload compiles, after a few steps: state that is made in the first is there."""
    namespace = LIBRARIES["ndgrad-compiled"].load()
    Compiler.made.clear()
    step = WORKLOADS[name].build(namespace)
    for _ in range(calls):
        step()
    return [getattr(f, "compiled_forward", f) for f in Compiler.made]


def main() -> None:
    """Print the steps of the workloads named."""
    for name in sys.argv[1:]:
        print(f"----- {name}: {WORKLOADS[name].title}")
        for function in compiled_functions(name):
            entry = function.entries[-1] if function.entries else None
            if entry is None or entry.made is None:
                print(f"runs eagerly: {entry.broken.reason if entry is not None else 'it was never called'}")
                continue
            if entry.made.places:
                print("has arguments of its own; its steps: function.kernels(*args)")
                continue
            print(function.kernels())


if __name__ == "__main__":
    main()
