"""`backward` and `grad`: the public functions that run the engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import numpy as np

from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.hooks import retain_grad
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.sparse_gradients import wrap_gradient
from ndgrad._src.core.variable import Variable, np_dtype, requires_grad, wrap_like
from ndgrad._src.engine.engine import backward_from, run_alone
from ndgrad._src.engine.pass_logging import is_logged, logged_backward
from ndgrad._src.engine.roots import root_gradients
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._typing import GradientEdge, Payload, Tensor

K = TypeVar("K")
TensorOrEdge: TypeAlias = "Tensor | GradientEdge"


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, Variable) or hasattr(value, "input_nr"):
        return [value]
    return list(value.values() if isinstance(value, dict) else value)


@set_module("ndgrad.autograd")
def backward(
    tensors: TensorOrEdge | Sequence[TensorOrEdge],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: TensorOrEdge | Sequence[TensorOrEdge] | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves (or only of `inputs`).

    `grad_tensors` are the gradients of the roots; the default is 1 for a root with one element. The graph is freed
    unless `retain_graph`. With `create_graph` the gradients can be differentiated again.

    Args:
        tensors: root or roots: tensors or gradient edges.
        grad_tensors: gradient of each root. None means 1, for a root with one element.
        retain_graph: whether the graph stays for another backward. None means the value of `create_graph`.
        create_graph: whether backward is recorded, so that the gradients can be differentiated.
        grad_variables: old name of `grad_tensors`.
        inputs: tensors or gradient edges whose `.grad` is set. None means all leaves.

    Raises:
        RuntimeError: if a root has no graph, or several elements and no gradient.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> ndgrad.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    has_defaults = inputs is None and grad_tensors is None and grad_variables is None and not create_graph
    if has_defaults and tensors.__class__ in TENSOR_TYPES:
        node: Any = tensors._node  # type: ignore[union-attr]  # attribute of a tensor
        if node is not None and node.stands_alone and tensors._meta is None:  # type: ignore[union-attr]
            if (not retain_graph and node.run_alone()) or run_alone(node, bool(retain_graph)):
                return
    if process.open and thread.levels:
        _check_allowed()
    if grad_variables is not None:
        grad_tensors = _read_old_name(grad_tensors, grad_variables)
    is_plain = grad_tensors is None and tensors.__class__ in TENSOR_TYPES
    roots, grads = ([tensors], [None]) if is_plain else _list_roots(tensors, grad_tensors)
    wanted = None if inputs is None else _wanted_inputs([_take_twin(t, as_input=True) for t in _as_list(inputs)])
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warnings.warn(
            (
                "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
                "gradient, which only the cyclic collector frees. Use autograd.grad() instead, or reset .grad to None "
                "after use."
            ),
            UserWarning,
            stacklevel=3,
        )
    given = root_gradients(roots, grads)
    for t in wanted or ():
        if isinstance(t, Variable):
            retain_grad(t)  # no effect on a leaf, whose accumulator stores the gradient
    run = logged_backward if is_logged() else backward_from
    run(roots, given, retain_graph=keep, create_graph=create_graph, inputs=wanted)


def _read_old_name(grad_tensors: Any, grad_variables: Any) -> Any:
    """Return the gradients that are given under their old name, with a warning."""
    warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=3)
    if grad_tensors is not None:
        raise RuntimeError(
            "`grad_tensors` and `grad_variables` (its old name) were both given. Give `grad_tensors` alone. "
            "[nd-exclusive]"
        )
    return grad_variables


@overload
def grad(
    outputs: TensorOrEdge | Sequence[TensorOrEdge],
    inputs: TensorOrEdge | Sequence[TensorOrEdge],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def grad(
    outputs: TensorOrEdge | Sequence[TensorOrEdge],
    inputs: dict[K, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[K, Tensor]: ...


@set_module("ndgrad.autograd")
def grad(
    outputs: TensorOrEdge | Sequence[TensorOrEdge],
    inputs: Any,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, without changing any `.grad`.

    The result is a tuple, or a dict for a dict of inputs. For an input that the outputs do not depend on, `grad`
    raises; the gradient is None with `allow_unused`, and zeros with `materialize_grads`. With `is_grads_batched`,
    `grad_outputs` have a leading batch dimension, and all are computed at once.

    Args:
        outputs: root or roots: tensors or gradient edges.
        inputs: tensors or gradient edges to differentiate in, or a dict of them.
        grad_outputs: gradient of each root. None means 1, for a root with one element.
        retain_graph: whether the graph stays for another backward. None means the value of `create_graph`.
        create_graph: whether backward is recorded, so that the gradients can be differentiated.
        only_inputs: accepted as in torch. It has no effect: only gradients of `inputs` are computed.
        allow_unused: whether the gradient of an input without influence is None. None means the value of
            `materialize_grads`.
        is_grads_batched: whether `grad_outputs` have a leading batch dimension.
        materialize_grads: whether the gradient of an input without influence is zeros.

    Raises:
        RuntimeError: if an input has no influence, unless `allow_unused` or `materialize_grads` is set.

    >>> import ndgrad
    >>> x = ndgrad.tensor(3.0, requires_grad=True)
    >>> (g,) = ndgrad.autograd.grad(x**2, x)
    >>> g
    tensor(6.)
    """
    if process.open and thread.levels:
        if (functional := _functional_level(outputs, inputs)) is not None:
            options = (retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads)
            return functional.grad(outputs, inputs, grad_outputs, options)
    if materialize_grads or not only_inputs:
        _check_options(materialize_grads, allow_unused, only_inputs)
    if is_grads_batched:
        rest: dict[str, Any] = {
            "create_graph": create_graph,
            "allow_unused": allow_unused,
            "materialize_grads": materialize_grads,
        }
        return _batched_grad(outputs, inputs, grad_outputs, rest)
    roots, grads = _list_roots(outputs, grad_outputs)
    given_inputs = wanted = [*inputs] if inputs.__class__ is list else _as_list(inputs)
    if not wanted:
        raise RuntimeError(
            "`inputs` argument to `grad()` cannot be empty. Name the tensors whose gradients are wanted. [nd-too-few]"
        )
    if not TENSOR_TYPES.keys() >= {*map(type, wanted)}:  # plain tensors have no twins
        wanted = [_take_twin(t, as_input=True) for t in wanted]
    _check_inputs(wanted)
    keep = create_graph if retain_graph is None else retain_graph
    given = root_gradients(roots, grads)
    run = logged_backward if is_logged() else backward_from
    found = run(roots, given, retain_graph=keep, create_graph=create_graph, inputs=wanted, accumulate=False)
    assert found is not None
    # There is one tensor per array: a second tensor over the same memory would miss writes to the first. The result may
    # also be the gradient that was passed in.
    made: dict[tuple[int, type[Any]], Any] = {(id(g._array), g.__class__): g for g in given}
    out = []
    for position, (t, g, original) in enumerate(zip(wanted, found, given_inputs, strict=True)):
        if g is None:
            if not (allow_unused or materialize_grads):
                raise RuntimeError(_unused(t, position))
            if materialize_grads:
                g = _make_zeros(t, requires_grad=create_graph)
        elif not isinstance(g, Variable):
            tensor_type = TENSOR_TYPES.get(t.__class__) or _type_of_gradient(t)
            g = made.setdefault((id(g), tensor_type), wrap_gradient(tensor_type, g))
        out.append(g if g is None or t is original else original.from_twin_gradient(g))
    return dict(zip(inputs, out, strict=True)) if isinstance(inputs, dict) else tuple(out)


def _check_options(materialize_grads: bool, allow_unused: bool | None, only_inputs: bool) -> None:
    """Raise for options that contradict each other, and warn of one without an effect."""
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False. "
            "[nd-exclusive]"
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True).", FutureWarning, stacklevel=3
        )


def _list_roots(roots: Any, gradients: Payload) -> tuple[list[Any], list[Any]]:
    """Return the roots and their gradients (or None) as lists. A root is replaced by the tensor that keeps its graph.
    """
    listed = [roots] if roots.__class__ in TENSOR_TYPES else [*roots] if roots.__class__ is list else _as_list(roots)
    grads = [None] * len(listed) if gradients is None else _list_gradients(listed, gradients)
    if not TENSOR_TYPES.keys() >= {*map(type, listed)}:  # plain tensors have no twins
        _replace_by_twins(listed, grads)
    return listed, grads


def _take_twin(t: object, as_input: bool = False) -> Any:
    """Return the tensor in which another one keeps its graph, usually the tensor itself."""
    return t.graph_twin(as_input) if isinstance(t, Variable) and t.graph_twin is not None else t


def _replace_by_twins(roots: list[Any], grads: list[Any]) -> None:
    """Replace roots by the tensors in which they keep their graph, and their gradients accordingly."""
    for n, t in enumerate(roots):
        twin = _take_twin(t)
        if twin is not t:
            roots[n], grads[n] = twin, t.to_twin_gradient(grads[n])


def _batched_grad(outputs: Any, inputs: Any, grad_outputs: Any, options: dict[str, Any]) -> Any:
    """Return the gradients for a batch of gradients of the outputs."""
    present: list[bool] = []

    def one(*g: Any) -> Any:
        found = grad(outputs, inputs, g, True, **options)
        values = tuple(found.values()) if isinstance(found, dict) else found
        present[:] = [v is not None for v in values]
        return tuple(v for v in values if v is not None)

    given = _as_list(grad_outputs)
    for i, (o, g) in enumerate(zip(_as_list(outputs), given, strict=False)):
        if isinstance(o, Variable) and isinstance(g, Variable) and tuple(g.shape[1:]) != tuple(o.shape):
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                f"dimension: grad_output[{i}] of shape {tuple(g.shape)} does not hold gradients for output[{i}] of "
                f"shape {tuple(o.shape)}. Stack one gradient per row. [nd-grad-mismatch]"
            )
    rows = iter(registry.transforms.vmap(one)(*given))
    answer = tuple(next(rows) if p else None for p in present)
    return dict(zip(inputs, answer, strict=True)) if isinstance(inputs, dict) else answer


def _unused(t: Any, position: int) -> str:
    what = f"a tensor of shape {tuple(t.shape)}" if isinstance(t, Variable) else f"an edge of {t.node.name()}"
    return (
        f"The differentiated Tensor at index {position} appears to not have been used in the graph ({what}). Set "
        "allow_unused=True if this is the desired behavior, or materialize_grads=True for zeros. [nd-unused]"
    )


def _make_zeros(t: Any, requires_grad: bool) -> Any:
    """Return zeros as the gradient of an input on which the roots do not depend."""
    if isinstance(t, Variable):
        if isinstance(t._array, Variable):
            zeros = tensor_ops.zeros_like(t)
        else:
            zeros = wrap_like(t, np.zeros(tuple(t.shape), np_dtype(t)))
        return zeros.requires_grad_() if requires_grad else zeros
    raise RuntimeError(
        f"materialize_grads cannot be used when the given input is a GradientEdge (of {t.node.name()}), "
        "which does not know where its zeros should lie. Use allow_unused=True, and zeros for None. [nd-unused]"
    )


def _type_of_gradient(t: object) -> type[Any]:
    """Return the class of the gradient of an input that is no plain tensor."""
    if isinstance(t, Variable):
        return t.tensor_type
    from ndgrad._src.foundations.registry import Tensor  # the class lies above the core

    return Tensor


def _wanted_inputs(inputs: Any) -> list[Any]:
    wanted = _as_list(inputs)
    if not wanted:
        raise RuntimeError(
            "`inputs` argument to `backward()` cannot be empty. Leave it out to reach all leaves. [nd-too-few]"
        )
    for t in wanted:
        if isinstance(t, Variable) and not requires_grad(t):
            raise RuntimeError(
                "can't retain_grad on Tensor that has requires_grad=False, but backward() should reach it as one of "
                f"its `inputs` (shape {tuple(t.shape)}). Call requires_grad_() on it before the computation. "
                "[nd-no-graph]"
            )
    _check_inputs(wanted)
    return wanted


def _check_inputs(wanted: Sequence[Any]) -> None:
    for t in wanted:
        if not isinstance(t, Variable) and not hasattr(t, "input_nr"):
            raise RuntimeError(
                f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}. "
                "Wrap arrays with as_tensor(). [nd-type]"
            )
        if isinstance(t, Variable) and not requires_grad(t):
            raise RuntimeError(
                f"One of the differentiated Tensors does not require grad (shape {tuple(t.shape)}). "
                "Call requires_grad_() on it before the computation. [nd-no-graph]"
            )


def _list_gradients(roots: Sequence[Any], given: Any) -> list[Any]:
    """Return the gradients of the roots as a list with one entry for each root."""
    grads = [*given] if given.__class__ is list else _as_list(given)
    if len(roots) != len(grads):
        raise RuntimeError(
            f"got {len(roots)} tensors and {len(grads)} gradients. Pass one gradient (or None) per tensor. "
            "[nd-grad-mismatch]"
        )
    return grads


def _check_allowed() -> None:
    if any(level.kind in ("grad", "functional") for level in thread.levels):
        raise RuntimeError(
            "backward() called inside a functorch-style transform: it would write .grad of tensors that the transform "
            "owns. Use ndgrad.func.grad, or autograd.grad, which returns gradients. [nd-in-transform]"
        )


def _functional_level(outputs: Any, inputs: Any) -> Any:
    """Return the level of functionalize to which these tensors belong, if it is their innermost level; otherwise None.

    The graph of such tensors is that of their values.
    """
    # The import is late because transforms build on the engine, which needs them only while one is open.
    from ndgrad._src.interpreters.levels import top_level

    level = top_level((*_as_list(outputs), *_as_list(inputs)))
    return level if level is not None and level.kind == "functional" else None
