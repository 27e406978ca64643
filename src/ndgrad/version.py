"""torch's `version` namespace: this package's version, and the GPU libraries it was built for.

`torch` is the version of torch whose interface and behaviour this package follows.
"""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["cuda", "debug", "git_version", "hip", "rocm", "torch", "xpu"]

__version__ = "0.1.0"
torch = "2.13.0"
debug = False
#: Python has no build of its own; GPU memory is CuPy's, which knows its CUDA version.
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"

_refuse_absent(__name__)
