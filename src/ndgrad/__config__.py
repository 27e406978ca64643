"""torch's `__config__`: the libraries used by this package."""

from __future__ import annotations

import importlib.util

import numpy as np

from ndgrad import version
from ndgrad._src.arrays import threads
from ndgrad.backends.cpu import build, get_cpu_capability


def show() -> str:
    """Return a description of the package, NumPy with its build, the processor, and optional libraries.

    >>> import ndgrad
    >>> print(ndgrad.__config__.show())
    ndgrad built with:...
    """
    blas = build().get("Build Dependencies", {}).get("blas", {})
    optional = ("scipy", "ml_dtypes", "llvmlite", "cupy", "opt_einsum")
    beside = [name for name in optional if importlib.util.find_spec(name)]
    lines = [
        f"ndgrad {version.__version__}, with the interface of torch {version.torch}",
        f"NumPy {np.__version__}, with {blas.get('name', 'unknown')} {blas.get('version', '')}".rstrip(),
        f"CPU capability usage: {get_cpu_capability()}",
        f"optional libraries: {', '.join(beside) or 'nothing'}",
    ]
    return "ndgrad built with:\n" + "".join(f"  - {line}\n" for line in lines)


def parallel_info() -> str:
    """Return the number of threads that kernels may use.

    >>> import ndgrad
    >>> ndgrad.__config__.parallel_info().splitlines()[0]
    'ndgrad parallel info:'
    """
    return (
        "ndgrad parallel info:\n"
        f"\tndgrad.get_num_threads() : {threads.max_threads}\n"
        "\tndgrad.get_num_interop_threads() : 1\n"
        "(of the threads of NumPy's linear algebra, OPENBLAS_NUM_THREADS and its like decide)\n"
    )
