"""Utilities for training modules, under torch's names: clipping, parameters as a vector, parametrizations,
sequences of different lengths.

`nn` itself needs the sequences; the rest is loaded on first access.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING
from typing import Any as _Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.shadowing import prefer_functions
from ndgrad.nn.utils import rnn
from ndgrad.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from ndgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

if TYPE_CHECKING:
    from ndgrad.nn.utils import fusion, init, memory_format, parametrizations, parametrize, prune, stateless
    from ndgrad.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from ndgrad.nn.utils.init import skip_init
    from ndgrad.nn.utils.memory_format import convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format
    from ndgrad.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
    from ndgrad.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "fusion", "get_total_norm", "init",
    "memory_format", "parameters_to_vector", "parametrizations", "parametrize", "prune", "remove_spectral_norm",
    "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless", "vector_to_parameters", "weight_norm",
]  # fmt: skip

#: Files loaded on first access, with the names that they add to this namespace.
_LATER = {
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
    "parametrizations": "",
    "parametrize": "",
    "prune": "",
    "spectral_norm": "remove_spectral_norm spectral_norm",
    "stateless": "",
    "weight_norm": "remove_weight_norm weight_norm",
}
_HOMES = {name: file for file, names in _LATER.items() for name in names.split()}

prefer_functions(__name__, "spectral_norm", "weight_norm")


def __getattr__(name: str) -> _Any:
    if name in _HOMES:
        found = getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in _LATER:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
_refuse_absent(__name__)
