"""torch's `backends`: the libraries that it computes with, and their switches.

Most of these libraries are not used here, and queries say so (no MPS). A switch stores its value, for code that sets
and restores it, and has no effect: results already satisfy the careful setting (reproducible, float32 products in
float32). Settings that cannot be satisfied raise an error.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

_SUBMODULES = frozenset(
    "cpu cuda cudnn cusparselt kleidiai mha miopen mkl mkldnn mps nnpack openmp opt_einsum quantized".split()
)

if TYPE_CHECKING:
    from ndgrad.backends import cpu as cpu
    from ndgrad.backends import cuda as cuda
    from ndgrad.backends import cudnn as cudnn
    from ndgrad.backends import cusparselt as cusparselt
    from ndgrad.backends import kleidiai as kleidiai
    from ndgrad.backends import mha as mha
    from ndgrad.backends import miopen as miopen
    from ndgrad.backends import mkl as mkl
    from ndgrad.backends import mkldnn as mkldnn
    from ndgrad.backends import mps as mps
    from ndgrad.backends import nnpack as nnpack
    from ndgrad.backends import openmp as openmp
    from ndgrad.backends import opt_einsum as opt_einsum
    from ndgrad.backends import quantized as quantized
else:

    def __getattr__(name: str) -> ModuleType:
        if name in _SUBMODULES:
            return importlib.import_module(f"ndgrad.backends.{name}")
        from ndgrad._src.foundations.missing_names import find_alias  # only for missing names

        found: ModuleType = find_alias(__name__, name)
        return found


def __dir__() -> list[str]:
    return sorted(_SUBMODULES)
