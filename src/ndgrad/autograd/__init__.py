"""The graph and its engine, under torch's names: backward, grad, Function, grad modes, graph, forward_ad, functional."""

from __future__ import annotations

from typing import Any

from ndgrad.shadowing import prefer_functions

__all__ = [
    "Function", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled", "no_grad",
    "set_grad_enabled",
]  # fmt: skip

_SUBMODULES = frozenset(("allocations", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler", "profiler_util"))

_HOMES = {
    "Variable": "legacy",
    "_profiler_enabled": "profiler",
    "kineto_available": "profiler",
    "is_multithreading_enabled": "grad_mode",
    "set_multithreading_enabled": "grad_mode",
    "_is_checkpoint_valid": "callbacks",
    "SavedTensor": "saved_access",
    "debug": "lines",
    "detect_anomaly": "anomaly",
    "explain": "explanation",
    "guard": "checksum",
    "is_anomaly_check_nan_enabled": "anomaly",
    "is_anomaly_enabled": "anomaly",
    "is_debug_enabled": "lines",
    "is_guard_enabled": "checksum",
    "set_debug": "lines",
    "set_detect_anomaly": "anomaly",
    "set_guard": "checksum",
    "is_inference_mode_enabled": "grad_mode",
    "backward": "calls",
    "grad": "calls",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "Function": "function",
    "enable_grad": "grad_mode",
    "_enter_inference_mode": "grad_mode",
    "_exit_inference_mode": "grad_mode",
    "_force_original_view_tracking": "grad_mode",
    "_unsafe_preserve_version_counter": "grad_mode",
    "enforce_grad_layout_policy": "grad_mode",
    "is_view_replay_enabled": "grad_mode",
    "inference_mode": "grad_mode",
    "is_grad_enabled": "grad_mode",
    "no_grad": "grad_mode",
    "set_grad_enabled": "grad_mode",
}


def __getattr__(name: str) -> Any:
    """Public names come from their files on first use: the core below imports this package and must not wait for them."""
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"ndgrad.autograd.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ndgrad.autograd' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ndgrad.autograd.{home}"), name)
    globals()[name] = value
    return value


prefer_functions(__name__, "gradcheck")
