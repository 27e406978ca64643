"""The start of backward: checked edges and gradients of `backward` and `grad`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.device_kernels import scalar_one
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.meta import MetaArray
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.node import Edge
from ndgrad._src.core.sparse_gradients import is_structured
from ndgrad._src.core.subclass import has_dispatch, needs_tensors
from ndgrad._src.core.variable import Variable, edge, innermost_array, np_dtype, requires_grad, shape_of, wrap
from ndgrad._src.core.view import tangents_of
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._typing import Payload


def gradient_edge(t: Any) -> Any:
    """Return the edge of a tensor or of a GradientEdge, None if it has none."""
    if not isinstance(t, Variable):
        return t.node if t.node.outputs == 1 else Edge(t.node, t.input_nr)
    return edge(t)


def gradient_edges(roots: list[Any]) -> list[Any]:
    """Return the edges of the tensors from which a pass starts."""
    found = []
    for position, t in enumerate(roots):
        found.append(edge(t) if isinstance(t, Variable) else gradient_edge(t))
        if found[-1] is None:
            raise RuntimeError(
                f"element {position} of tensors does not require grad and does not have a grad_fn (shape "
                f"{tuple(t.shape)}), so backward cannot start there. Call requires_grad_() on the leaves before the "
                "computation, and check that no no_grad(), detach() or integer dtype cuts it. [nd-no-graph]"
            )
    return found


def choose_path(roots: list[Any], grads: list[Any], create_graph: bool) -> str:
    """Return the path of the engine for a pass from these edges (see the engine's docstring)."""
    if create_graph or needs_tensors(roots, grads) or (process.busy and thread.observers):
        return "tensors"
    number = 0  # grad level of the graph
    for e in roots:
        number = max(number, e.node.level if e.__class__ is Edge else e.level)
    if process.open and thread.dual_stack and thread.dual_stack[-1] > number:
        return "tensors"  # saved values may have tangents
    if number:
        from ndgrad._src.interpreters.levels import find_level  # loaded once a transform is open

        level: Any = find_level(number)  # a grad level, because no other level has a graph
        return "arrays" if level.pure and all(is_constant(g) for g in grads) else "payloads"
    for g in grads:
        if not _is_plain(g):
            return "tensors"
    return "arrays"


def _is_plain(g: Payload) -> bool:
    """True if the array of a gradient is complete: not batched, dual, meta, sparse or of a custom subclass."""
    if not (g._array.__class__ is np.ndarray or is_on_device(g._array)) and (
        isinstance(g._array, Variable) or getattr(g._array, "is_meta", False) or is_structured(g._array)
    ):
        return False
    meta = g._meta
    return meta is None or not (meta.batch_level or tangents_of(g))


def is_constant(g: Payload) -> bool:
    """True if the array of a cotangent is complete information: it has no history in the levels below."""
    return _is_plain(g) and not requires_grad(g)


def root_gradients(tensors: list[Any], grads: list[Any]) -> list[Any]:
    """Return one gradient per root: ones for a scalar, otherwise the given one, checked against the root."""
    out = []
    for position, (t, g) in enumerate(zip(tensors, grads, strict=True)):
        if g is None:
            out.append(implicit_gradient(t))
            continue
        if not isinstance(g, Variable):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(g).__name__}. Wrap it with "
                "ndgrad.as_tensor(...). [nd-grad-mismatch]"
            )
        if t.__class__ in TENSOR_TYPES and g.__class__ in TENSOR_TYPES:
            shape, is_same = shape_of(t), shape_of(t) == shape_of(g)
        else:
            shape = tuple(t.shape) if isinstance(t, Variable) else t.node.output_metadata(t.input_nr)[0]
            is_same = tuple(g.shape) == tuple(shape)
        if not is_same:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{position}] has a shape of {Size(g.shape)} and output[{position}] "
                f"has a shape of {Size(shape)}. Pass a gradient of the output's shape. [nd-grad-mismatch]"
            )
        if np_dtype(g).kind != "c":
            out.append(g)
            continue
        want = np_dtype(t) if isinstance(t, Variable) else t.node.output_metadata(t.input_nr)[1]
        if want.kind != "c":
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                "dtype: "
                f"grad_output[{position}] has a dtype of {np_dtype(g)} and output[{position}] has a dtype of {want}; "
                "a real output has a real gradient. Pass its .real, or differentiate a complex output. "
                "[nd-grad-mismatch]"
            )
        out.append(g)
    return out


def _calculate_shape(output: Any, grad: Any, is_grads_batched: bool) -> tuple[Any, Any]:
    """Return the shapes of a root (a tensor or an edge) and of its gradient, without the batch of the gradients.

    A nested tensor's shape is the table of its parts' shapes.
    """
    if isinstance(output, Variable):
        if getattr(output, "is_nested", False) or getattr(grad, "is_nested", False):
            nested: Any = output
            return nested._nested_tensor_size(), grad._nested_tensor_size()
        shape = output.shape
    else:
        shape = output.node.output_metadata(output.input_nr)[0]
    return shape, grad.shape[1:] if is_grads_batched else grad.shape


def implicit_gradient(t: Any) -> Any:
    """Return the gradient of a real scalar with respect to itself. All other outputs need an explicit gradient."""
    tensor_type: Any = TENSOR_TYPES.get(t.__class__)
    if tensor_type is not None and t._meta is None:  # the usual case, kept cheap
        shape, dtype = t._array.shape, t._array.dtype
    elif isinstance(t, Variable):
        shape, dtype = tuple(t.shape), np_dtype(t)
    else:
        shape, dtype = t.node.output_metadata(t.input_nr)
    if math.prod(shape) != 1:
        raise RuntimeError(
            f"grad can be implicitly created only for scalar outputs, but this one has shape {tuple(shape)}. "
            "Reduce it first (y.sum().backward()), or pass the gradient: y.backward(gradient). [nd-not-scalar]"
        )
    if dtype.kind == "c":
        raise RuntimeError(
            "grad can be implicitly created only for real scalar outputs, but this one is "
            f"{dtype}. Take a real function of it (y.abs(), y.real), or pass the gradient: y.backward(gradient). "
            "[nd-not-scalar]"
        )
    if process.dispatching and isinstance(t, Variable):
        bottom: Any = t
        while isinstance(bottom._array, Variable):
            bottom = bottom._array
        if has_dispatch(bottom.__class__):
            with no_grad():
                return tensor_ops.zeros_like(t) + 1.0  # the class makes its own gradient
    if tensor_type is None:
        from ndgrad._src.foundations.registry import Tensor as tensor_type  # the class lies above the core
    like = t._array if isinstance(t, Variable) else None
    if isinstance(like, Variable):
        like = innermost_array(like)
    if like is None or isinstance(like, (np.ndarray, np.generic)):
        ones: Any = np.empty(shape, dtype)
    elif isinstance(like, MetaArray):
        return wrap(tensor_type, MetaArray(shape, dtype))
    else:
        ones = None if shape else scalar_one(like, dtype)
        if ones is not None:
            return wrap(tensor_type, ones)
        ones = library_of(like).empty(shape, dtype)
    ones.fill(1)
    return wrap(tensor_type, ones)
