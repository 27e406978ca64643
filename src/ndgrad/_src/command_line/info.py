"""`ndgrad info`: show the installation and the libraries that it computes with."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ndgrad
from ndgrad.backends.cpu import build, get_cpu_capability

#: Optional libraries, and the features that they add.
OPTIONAL = {
    "scipy": "ndgrad.scipy, ndgrad.implicit", "ml_dtypes": "bfloat16", "llvmlite": "ndgrad.compile", "cupy": "GPUs",
    "opt_einsum": "better orders for einsum", "onnx": "ndgrad.onnx",
    "mpi4py": "several processes",
}  # fmt: skip
_DISTRIBUTIONS = {"cupy": ("cupy", "cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x")}


def facts() -> dict[str, Any]:
    """Return all facts that a bug report needs."""
    blas = build().get("Build Dependencies", {}).get("blas", {})
    return {
        "ndgrad": ndgrad.__version__,
        "torch interface": str(ndgrad.version.torch),
        "at": str(Path(ndgrad.__path__[0])),
        "Python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "NumPy": f"{np.__version__}, with {blas.get('name', 'unknown')} {blas.get('version', '')}".rstrip(),
        "processor": f"{os.cpu_count()} cores, {get_cpu_capability()}",
        "threads": ndgrad.get_num_threads(),
        "GPU": f"{ndgrad.cuda.device_count()} through CuPy" if ndgrad.cuda.is_available() else "none that CuPy finds",
        "default dtype": str(ndgrad.get_default_dtype()),
        "compiled functions": _cache(),
        "environment": {
            name: os.environ[name]
            for name in sorted(os.environ)
            if name.startswith(("NDGRAD_", "OMP_NUM", "OPENBLAS_NUM"))
        },
        "optional libraries": {name: _version(name) for name in OPTIONAL},
    }


def _version(name: str) -> str | None:
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _cache() -> str:
    """Return the folder of compiled functions, and its size."""
    try:
        from ndgrad._src.compiler.native import cache  # needs llvmlite
    except ImportError:
        return "not possible without llvmlite"
    folder = cache.folder()
    if folder is None:
        return "kept nowhere"
    if not folder.is_dir():
        return f"{folder} (empty)"
    files = [p for p in folder.rglob("*") if p.is_file()]
    return f"{folder} ({len(files)} files, {sum(p.stat().st_size for p in files) / 1e6:.1f} MB)"


def run(options: argparse.Namespace) -> int:
    known = facts()
    if options.json:
        print(json.dumps(known, indent=2))
        return 0
    beside = known.pop("optional libraries")
    for name, value in known.items():
        text = ", ".join(f"{k}={v}" for k, v in value.items()) or "nothing set" if isinstance(value, dict) else value
        print(f"  {name:20} {text}")
    print("\n  optional libraries:")
    for name, version in beside.items():
        print(f"    {name:18} {version or '-':12} {OPTIONAL[name]}")
    return 0
