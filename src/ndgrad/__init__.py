"""ndgrad: all of PyTorch's autograd for the NumPy world.

    import ndgrad as torch

runs torch programs that stay within the surface. The implementation is in ndgrad._src, whose docstring lists layers;
torch's functions are in ndgrad._src.tensor.functions. Names that few programs need are imported on first use. For type
checkers and editors, `__init__.pyi` (written by scripts/surface.py) shows all names.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any  # underscored: not part of the namespace

from ndgrad._src.arrays import dtypes as _dtypes
from ndgrad._src.arrays.generator import Generator, default_generator
from ndgrad._src.arrays.retained_memory import get_retained_memory, set_retained_memory
from ndgrad._src.core.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ndgrad._src.foundations import devices as _devices
from ndgrad._src.foundations import import_watch
from ndgrad._src.foundations.devices import device, get_default_device, layout, memory_format, set_default_device
from ndgrad._src.foundations.missing_names import find_alias as _find_alias
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.tensor import families as _families
from ndgrad._src.tensor import typed_classes as _typed
from ndgrad._src.tensor.lazy_names import FUNCTIONS as _LATER
from ndgrad._src.tensor.methods import TensorMethods as _TensorMethods
from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad._src.tensor.typed_classes import set_default_tensor_type

__version__ = "0.1.0"

_SUBMODULES = frozenset(
    "accelerator amp array_api autograd backends compat compiler cpu cuda distributed distributions errors export fft "
    "func functorch futures fx hub implicit jit library linalg masked mps mtia multiprocessing nested nn npz numpy "
    "onnx ops optim overrides profiler pytree quasirandom random return_types safetensors scipy serialization signal "
    "sparse special storage testing torch_version types utils version viz xpu".split()
)
#: Private submodules that torch programs import.
_PRIVATE_SUBMODULES = frozenset(
    "_C __config__ _dynamo _functorch _higher_order_ops _tensor_str _utils _vmap_internals".split()
)
#: Names of this namespace that are defined in a submodule: submodule -> names.
_FROM = {
    "amp.autocast_mode": (
        "autocast clear_autocast_cache get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype "
        "is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled "
        "set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled "
        "set_autocast_gpu_dtype"
    ),
    "_C._files": "PyTorchFileReader",
    "amp.grad_scaler": "GradScaler",
    "as_torch": "install_as_torch uninstall_as_torch",
    "cuda": "OutOfMemoryError",
    "cuda.streams": "Event Stream",
    "futures": "Future",
    "overrides": "DisableTorchFunction DisableTorchFunctionSubclass",
    "_src.tensor.settings": (
        "are_deterministic_algorithms_enabled compiled_with_cxx11_abi get_deterministic_debug_mode get_device_module "
        "get_float32_matmul_precision is_deterministic_algorithms_warn_only_enabled is_vulkan_available "
        "is_warn_always_enabled set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
        "set_warn_always use_deterministic_algorithms"
    ),
    # Private functions of torch that libraries call.
    "_src.tensor.private_functions": (
        "_assert_async _assert_scalar "
        "_check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_tensor_all_with "
        "_check_type _check_value _check_with _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo "
        "_segment_reduce _softmax_backward_data _unique _unique2"
    ),
    "_src.tensor.type_names": "DeviceObjType TensorType",
    "_src.tensor.symbolic_numbers": (
        "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum"
    ),
    "autograd": "explain is_anomaly_check_nan_enabled is_anomaly_enabled",
    "compiler": "compile",
    "control_flow": "cond while_loop",
    "func": "vmap",
    "_src.lifting.entry": "lift",
    "jit": "ScriptFunction ScriptModule",
    "serialization": "load save",
    "utils.dlpack": "to_dlpack",
    # Functions that torch has both at its top level and in nn.functional.
    "nn.functional": (
        "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear "
        "binary_cross_entropy_with_logits channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d "
        "conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity dropout embedding_bag "
        "feature_alpha_dropout group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss "
        "max_pool1d max_pool1d_with_indices max_pool2d max_pool3d pairwise_distance pixel_shuffle pixel_unshuffle "
        "poisson_nll_loss prelu rms_norm rrelu triplet_margin_loss"
    ),
    # Functions that torch has only at its top level, under the names of its kernels.
    "nn.functional.native": (
        "affine_grid_generator alpha_dropout_ constant_pad_nd convolution dropout_ embedding_renorm_ "
        "feature_alpha_dropout_ feature_dropout feature_dropout_ grid_sampler grid_sampler_2d grid_sampler_3d "
        "native_batch_norm native_channel_shuffle native_dropout native_group_norm native_layer_norm"
    ),
}
_HOMES = {name: module for module, names in _FROM.items() for name in names.split()}

_families.give_methods(_TensorMethods)
for _family in _families.AT_ONCE:
    globals().update(_families.load(_family)[0])

_CONSTANTS: dict[str, _Any] = {
    **{d.name: d for d in _dtypes._BY_NAME.values()},
    **_dtypes.ALIASES,
    **_dtypes.QUANTIZED,
    **_typed.CLASSES,
    **{
        name: getattr(_devices, name)
        for name in (
            "channels_last", "channels_last_3d", "contiguous_format", "jagged", "preserve_format", "sparse_bsc",
            "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr", "strided",
        )
    },
    "legacy_contiguous_format": _devices.contiguous_format,
    "inf": float("inf"),
    "nan": float("nan"),
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
    "newaxis": None,
}  # fmt: skip
# Last, since float, int and bool are dtypes here and builtins above.
globals().update(_CONSTANTS)


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        globals().update(_families.load(_LATER[name])[0])
        return globals()[name]
    if name in _SUBMODULES or name in _PRIVATE_SUBMODULES:
        return _importlib.import_module(f"ndgrad.{name}")
    if name.startswith("_foreach_"):
        found = vars(_importlib.import_module("ndgrad._src.tensor.list_functions")).get(name)
        if found is not None:
            globals()[name] = found
            return found
    if name in _HOMES:
        found = getattr(_importlib.import_module(f"ndgrad.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    return _find_alias(__name__, name)


__all__ = [
    "Generator", "Size", "Tensor", "TypedStorage", "UntypedStorage", "default_generator", "device", "enable_grad",
    "get_default_device", "get_retained_memory", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled",
    "layout", "memory_format", "no_grad", "set_default_device", "set_default_tensor_type", "set_grad_enabled",
    "set_retained_memory",
]  # fmt: skip
__all__ += [name for family in _families.AT_ONCE for name in _families.load(family)[0] if not name.startswith("_")]
__all__ += [*(name for name in (*_LATER, *_HOMES) if not name.startswith("_")), *_CONSTANTS]


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, "__version__"})


import_watch.watch()  # last, since imports in it may need the whole namespace
