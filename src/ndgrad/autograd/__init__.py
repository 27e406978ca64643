"""The graph and its engine, under torch's names: backward, grad, Function, grad modes, graph, forward_ad, functional."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Function", "backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip

_SUBMODULES = frozenset(("forward_ad", "function", "functional", "grad_mode", "gradcheck", "graph", "profiler"))

_HOMES = {
    "detect_anomaly": "anomaly",
    "set_detect_anomaly": "anomaly",
    "is_inference_mode_enabled": "grad_mode",
    "backward": "calls",
    "grad": "calls",
    "Function": "function",
    "enable_grad": "grad_mode",
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
