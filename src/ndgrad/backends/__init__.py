"""torch's `backends`: the libraries that it computes with, and their switches.

None of these libraries is at work here, so questions are answered truthfully (there is no cuDNN, no MPS), and a
switch remembers what it was set to, for code that sets it and puts it back, and changes nothing: the results here are
already what the careful setting asks for (the same in every run, float32 products in float32). What can be asked for
and not be had is refused.
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
        from ndgrad._src.foundations.missing_names import refusal  # only for a name that is not there

        raise refusal(__name__, name)


def __dir__() -> list[str]:
    return sorted(_SUBMODULES)
