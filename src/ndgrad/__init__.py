"""ndgrad: PyTorch's autograd, whole, for the NumPy world.

    import ndgrad as torch

runs torch programs that stay within the surface. The names below come from the files that define them: functions and methods
from ndgrad.api, dtypes and devices from theirs; submodules are imported when first used.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any  # underscored: not part of the namespace

from ndgrad import devices as _devices
from ndgrad import dtypes as _dtypes
from ndgrad._tensor import Tensor
from ndgrad.api import tensor_types as _typed
from ndgrad.api.install import install as _install
from ndgrad.api.lazy import install_stubs as _install_stubs
from ndgrad.api.tensor_types import set_default_tensor_type
from ndgrad.arrays.memory import get_retained_memory, set_retained_memory
from ndgrad.arrays.memory import retain_by_default as _retain_by_default
from ndgrad.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ndgrad.devices import device, get_default_device, layout, memory_format, set_default_device
from ndgrad.generator import Generator, default_generator
from ndgrad.sizes import Size
from ndgrad.storage import TypedStorage, UntypedStorage

__version__ = "0.1.0"

#: The files of ndgrad.api that are loaded at once, in the order in which their functions are installed.
_API = (
    "elementwise", "comparison", "reduce", "index", "data", "creation", "convert", "describe", "fill", "shape", "split", "join",
    "extremum", "product",
)  # fmt: skip
_SUBMODULES = frozenset(
    "_C array_api autograd compat cuda distributed fft func implicit jit library linalg nested nn numpy ops optim overrides profiler "
    "random scipy sparse special testing utils".split()
)
_FROM_FUNC = frozenset(("vmap",))
_FROM_LIFTING = frozenset(("lift",))
_FROM_FILES = frozenset(("load", "save"))
_FROM_AUTOGRAD = frozenset(("explain", "is_anomaly_check_nan_enabled", "is_anomaly_enabled"))
#: Functions that torch has at its top level as well as in nn.functional.
_FROM_FUNCTIONAL = frozenset(
    "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear binary_cross_entropy_with_logits celu "
    "channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity "
    "dropout embedding embedding_bag feature_alpha_dropout group_norm hinge_embedding_loss instance_norm kl_div layer_norm "
    "margin_ranking_loss max_pool1d max_pool2d max_pool3d pairwise_distance pixel_shuffle pixel_unshuffle poisson_nll_loss prelu rms_norm "
    "rrelu triplet_margin_loss".split()
)

_retain_by_default()
_install_stubs(globals(), Tensor)
for _name in _API:
    _install(_importlib.import_module(f"ndgrad.api.{_name}"), globals(), Tensor)

_CONSTANTS: dict[str, _Any] = {
    **{d.name: d for d in _dtypes._BY_NAME.values()},
    **_dtypes.ALIASES,
    **_typed.CLASSES,
    **{
        name: getattr(_devices, name)
        for name in (
            "channels_last", "channels_last_3d", "contiguous_format", "jagged", "preserve_format", "sparse_bsc", "sparse_bsr",
            "sparse_coo", "sparse_csc", "sparse_csr", "strided",
        )
    },
    "inf": float("inf"),
    "nan": float("nan"),
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
    "newaxis": None,
}  # fmt: skip
# Last, since float, int and bool are dtypes here and builtins above.
globals().update(_CONSTANTS)


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        try:
            return _importlib.import_module(f"ndgrad.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ndgrad.{name}":
                raise
    if name in _FROM_AUTOGRAD:
        return getattr(_importlib.import_module("ndgrad.autograd"), name)
    if name in _FROM_FUNC:
        return getattr(_importlib.import_module("ndgrad.func.transforms"), name)
    if name in _FROM_LIFTING:
        return getattr(_importlib.import_module("ndgrad.lifting.entry"), name)
    if name in _FROM_FILES:
        return getattr(_importlib.import_module("ndgrad.serialization"), name)
    if name in _FROM_FUNCTIONAL:
        found = getattr(_importlib.import_module("ndgrad.nn.functional"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'ndgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({n for n in globals() if not n.startswith("_")} | _SUBMODULES | _FROM_FUNC | _FROM_LIFTING | _FROM_FILES | _FROM_AUTOGRAD)


__all__ = [
    "Generator", "Size", "Tensor", "TypedStorage", "UntypedStorage", "default_generator", "device", "enable_grad",
    "get_default_device", "get_retained_memory", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "layout",
    "memory_format", "no_grad", "set_default_device", "set_default_tensor_type", "set_grad_enabled", "set_retained_memory",
]  # fmt: skip
