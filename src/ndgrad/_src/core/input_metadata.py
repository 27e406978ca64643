"""Metadata of the gradients that a node takes: `grad_fn._input_metadata`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.arrays.placement import device_of
from ndgrad._src.core.node import output_count
from ndgrad._src.core.traversal import iterate_nodes
from ndgrad._src.core.variable import AccumulateGrad, innermost_array
from ndgrad._src.foundations.devices import device
from ndgrad._src.foundations.sizes import size_of_shape


class InputMetadata(NamedTuple):
    """Shape, dtype and device of one gradient, equal to those of the corresponding output of the op."""

    shape: Any
    dtype: Any
    device: Any
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


def input_metadata(node: Any) -> tuple[InputMetadata, ...]:
    # Nodes store no device, because a whole graph is on one device: that of its leaves.
    leaf = next((n for n in iterate_nodes([node]) if isinstance(n, AccumulateGrad)), None)
    where = device("cpu") if leaf is None else device_of(innermost_array(leaf.variable))
    known = [node.output_metadata(0)] if node.outputs == 1 else node.metadata_of_outputs
    found = []
    for number in range(output_count(node)):
        shape, dtype = known[number] or ((), None)
        found.append(InputMetadata(size_of_shape(shape), None if dtype is None else as_dtype(dtype), where))
    return tuple(found)
