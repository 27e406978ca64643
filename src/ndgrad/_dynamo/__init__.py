"""The few names of torch's private `torch._dynamo` that programs use, over `ndgrad.compiler`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.runtime.directives import allow_in_graph, assume_constant_result, list_backends
from ndgrad._src.compiler.runtime.entry import compile, disable, explain, is_compiling, reset
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn.modules.compiled import CompiledModule as OptimizedModule

__all__ = [
    "allow_in_graph", "assume_constant_result", "config", "disable", "explain", "graph_break", "is_compiling",
    "list_backends", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize",
    "reset", "OptimizedModule",
]  # fmt: skip


class _Config:
    """Settings of torch's compiler: any can be set, and none has an effect here."""

    suppress_errors = False
    verbose = False
    cache_size_limit = recompile_limit = 8
    dynamic_shapes = True
    automatic_dynamic_shapes = True
    assume_static_by_default = True
    accumulated_cache_size_limit = accumulated_recompile_limit = 256
    capture_scalar_outputs = False
    capture_dynamic_output_shape_ops = False
    force_parameter_static_shapes = True
    optimize_ddp = True
    skip_fwd_side_effects_in_bwd_under_checkpoint = False


config = _Config()


def optimize(
    backend: str = "inductor", *, nopython: bool = False, dynamic: bool | None = None, **_: Any
) -> Callable[[Any], Any]:
    """Return a decorator that compiles: `ndgrad.compile(backend=..., fullgraph=nopython)`."""
    return lambda function: compile(function, backend=backend, fullgraph=nopython, dynamic=dynamic)


def graph_break(msg: str = "") -> None:
    """Make a traced function run eagerly."""
    if current_tracer.get() is not None:
        raise GraphBreak(msg or "the function asks for a graph break")


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Accept a size marked as varying: `compile` detects it, and `compile(dynamic=True)` assumes it."""


maybe_mark_dynamic = mark_static = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Accept a tensor whose memory stays: compiled functions read the memory of each call."""


_refuse_absent(__name__)
