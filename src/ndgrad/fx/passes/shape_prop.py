"""Shapes and dtypes of all values of a graph, from one run on example inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.devices import channels_last, channels_last_3d, contiguous_format, memory_format
from ndgrad._src.foundations.sizes import Size
from ndgrad.fx.interpreter import Interpreter
from ndgrad.fx.node import Node, map_aggregate
from ndgrad.nn.modules.module import Module

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Facts about a tensor, without its values.

    Args:
        shape: shape of the tensor.
        dtype: dtype of the tensor.
        requires_grad: whether autograd records operations on it.
        stride: strides in elements.
        memory_format: memory layout, if it is a known one.
        is_quantized: whether it is quantized.
        qparams: parameters of the quantization.
    """

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    """Return the facts about a tensor."""
    form = None
    if include_contiguity:
        found = [f for f in (contiguous_format, channels_last, channels_last_3d) if _has_format(result, f)]
        form = found[0] if found else None
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, tuple(result.stride()), form, False, {}
    )


def _has_format(tensor: Any, form: memory_format) -> bool:
    dims = {channels_last: 4, channels_last_3d: 5}.get(form)
    return (dims is None or tensor.dim() == dims) and bool(tensor.is_contiguous(memory_format=form))


class ShapeProp(Interpreter):
    """Interpreter that stores `meta["tensor_meta"]` and `meta["type"]` of each node.

    Args:
        gm: module to run.
        fake_mode: kept as an attribute, without further effect: inputs may be tensors on the meta device in any case.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.shape_prop import ShapeProp
    >>> traced = ndgrad.fx.symbolic_trace(lambda x: x.reshape(-1).sum())
    >>> _ = ShapeProp(traced).propagate(ndgrad.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3), (6,), (), ()]
    """

    def __init__(self, gm: Module, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        """Run a node and store the facts about its result.

        Args:
            n: node of the graph.
        """
        result = super().run_node(n)
        has_tensors = False

        def describe(leaf: Any) -> Any:
            nonlocal has_tensors
            if isinstance(leaf, Variable):
                has_tensors = True
                return _extract_tensor_metadata(leaf)
            return leaf

        found = map_aggregate(_plain(result), describe)
        if has_tensors:
            n.meta["tensor_meta"] = found
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these inputs, and return its result.

        Args:
            args: inputs of the graph.
        """
        return super().run(*args)


def _plain(value: Any) -> Any:
    """Return named results, such as those of `max`, as plain tuples, whose fields may hold metadata."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value
