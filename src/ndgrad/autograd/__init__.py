"""The graph and its engine, under torch's names: backward, grad, Function, grad modes, graph,
forward_ad, functional."""

from __future__ import annotations

from typing import Any

from ndgrad._src.foundations.shadowing import prefer_functions

__all__ = [
    "Function", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled",
    "no_grad", "set_grad_enabled",
]  # fmt: skip

_SUBMODULES = frozenset(
    "_functions anomaly_mode forward_ad function functional grad_mode graph profiler profiler_util variable".split()
)

_HOMES = {
    "Variable": "ndgrad.autograd.variable",
    "_calculate_shape": "ndgrad._src.engine.roots",
    "_profiler_enabled": "ndgrad.profiler.timing",
    "kineto_available": "ndgrad.profiler.timing",
    "is_multithreading_enabled": "ndgrad._src.core.grad_mode",
    "set_multithreading_enabled": "ndgrad._src.core.grad_mode",
    "_is_checkpoint_valid": "ndgrad._src.engine.callbacks",
    "SavedTensor": "ndgrad._src.core.saved_access",
    "debug": "ndgrad._src.debug.debug_mode",
    "detect_anomaly": "ndgrad._src.debug.anomaly",
    "explain": "ndgrad._src.debug.explanation",
    "guard": "ndgrad._src.debug.checksum",
    "is_anomaly_check_nan_enabled": "ndgrad._src.debug.anomaly",
    "is_anomaly_enabled": "ndgrad._src.debug.anomaly",
    "is_debug_enabled": "ndgrad._src.debug.debug_mode",
    "is_guard_enabled": "ndgrad._src.debug.checksum",
    "set_debug": "ndgrad._src.debug.debug_mode",
    "set_detect_anomaly": "ndgrad._src.debug.anomaly",
    "set_guard": "ndgrad._src.debug.checksum",
    "is_inference_mode_enabled": "ndgrad._src.core.grad_mode",
    "backward": "ndgrad._src.engine.backward_api",
    "grad": "ndgrad._src.engine.backward_api",
    "gradcheck": "ndgrad.autograd.gradcheck",
    "gradgradcheck": "ndgrad.autograd.gradcheck",
    "Function": "ndgrad._src.custom_functions.function",
    "NestedIOFunction": "ndgrad._src.custom_functions.nested_function",
    "enable_grad": "ndgrad._src.core.grad_mode",
    "_enter_inference_mode": "ndgrad._src.core.grad_mode",
    "_exit_inference_mode": "ndgrad._src.core.grad_mode",
    "_force_original_view_tracking": "ndgrad._src.core.grad_mode",
    "_unsafe_preserve_version_counter": "ndgrad._src.core.grad_mode",
    "enforce_grad_layout_policy": "ndgrad._src.core.grad_mode",
    "is_view_replay_enabled": "ndgrad._src.core.grad_mode",
    "inference_mode": "ndgrad._src.core.grad_mode",
    "is_grad_enabled": "ndgrad._src.core.grad_mode",
    "no_grad": "ndgrad._src.core.grad_mode",
    "set_grad_enabled": "ndgrad._src.core.grad_mode",
}


def __getattr__(name: str) -> Any:
    """Load a name from its module on first use."""
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"ndgrad.autograd.{name}")
    home = _HOMES.get(name)
    if home is None:
        from ndgrad._src.foundations.missing_names import refusal  # only for missing names

        raise refusal(__name__, name)
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(name for name in {*_HOMES, *_SUBMODULES} if not name.startswith("_"))


prefer_functions(__name__, "gradcheck")
