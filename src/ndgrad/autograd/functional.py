"""torch's older functional interface: vjp, jvp, vhp, hvp, jacobian, hessian, using only the engine.

The functions run `func` on fresh leaves, so captured tensors are not differentiated, and use `autograd.grad`. With
`strict`, a derivative that is zero because of a missing dependency raises an error. New code should use ndgrad.func.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.grad_mode import enable_grad
from ndgrad._src.core.variable import Variable, np_dtype, requires_grad
from ndgrad._src.engine.backward_api import grad
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.jacobian import _basis as basis
from ndgrad._src.transforms.jacobian import jacfwd, jacrev

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

Tensors = tuple[Any, ...]
In = TypeVar("In", bound="Tensor | tuple[Tensor, ...]")
Out = TypeVar("Out", bound="Tensor | tuple[Tensor, ...]")

_STRATEGIES = ("forward-mode", "reverse-mode")


# ----- products -------------------------------------------------------------------------------------------------------


def vjp(
    func: Callable[..., Out], inputs: In, v: Out | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Out, In]:
    """Return the outputs of `func`, and the product of `v` with its Jacobian.

    Args:
        func: function of tensors.
        inputs: tensor, or tuple of tensors.
        v: tensor or tuple like the outputs. It may be None for one output with one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input raises. Otherwise its derivative is zeros.

    >>> import ndgrad
    >>> x, v = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 1.0])
    >>> ndgrad.autograd.functional.vjp(lambda x: x**2, x, v)
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        single_input, args = _inputs("vjp", inputs, create_graph)
        single_output, outputs = _outputs("vjp", func(*args), strict)
        if v is None and not (single_output and math.prod(outputs[0].shape) == 1):
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element: vjp got other outputs. Pass v, like the outputs. [nd-not-scalar]"
            )
        cotangents = _vectors("vjp", v, outputs, single_output, "outputs")
        grads = _grad(outputs, args, cotangents, create_graph)
    _tell("vjp", grads, args, strict, create_graph)
    return _result(outputs, single_output, create_graph), _result(_fill_absent(grads, args), single_input, create_graph)


def jvp(
    func: Callable[..., Out], inputs: In, v: In | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Out, Out]:
    """Return the outputs of `func`, and the product of its Jacobian with `v`.

    By two backward passes (the product with the Jacobian is the derivative of the product with its transpose), so that
    functions without a forward-mode rule can be used too; `ndgrad.func.jvp` is faster.

    Args:
        func: function of tensors.
        inputs: tensor, or tuple of tensors.
        v: tensor or tuple like the inputs. It may be None for one input with one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input raises. Otherwise its derivative is zeros.

    >>> import ndgrad
    >>> x, v = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 0.0])
    >>> ndgrad.autograd.functional.jvp(lambda x: x**2, x, v)
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    with enable_grad():
        _, args = _inputs("jvp", inputs, create_graph)
        tangents = _input_vectors("jvp", v, inputs, args)
        single_output, outputs = _outputs("jvp", func(*args), strict)
        dummies = tuple(_zeros(o).requires_grad_() if is_inexact(np_dtype(o)) else None for o in outputs)
        pulled = _grad(outputs, args, dummies, create_graph=True)
        if strict:
            _tell("jvp", pulled, args, strict, False)
        found = _grad_of_products(pulled, dummies, tangents, create_graph)
    _tell_constant("jvp", found, strict, create_graph)
    found = _fill_absent(found, outputs)
    return _result(outputs, single_output, create_graph), _result(found, single_output, create_graph)


def vhp(
    func: Callable[..., Tensor], inputs: In, v: In | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensor, In]:
    """Return the output of a scalar function, and the product of `v` with its Hessian.

    Args:
        func: function of tensors with one element as result.
        inputs: tensor, or tuple of tensors.
        v: tensor or tuple like the inputs. It may be None for one input with one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input raises. Otherwise its derivative is zeros.

    >>> import ndgrad
    >>> x, v = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 1.0])
    >>> ndgrad.autograd.functional.vhp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        single_input, args = _inputs("vhp", inputs, create_graph)
        tangents = _input_vectors("vhp", v, inputs, args)
        output, gradient = _gradient("vhp", func, args, strict)
        live = [(g, t) for g, t in zip(gradient, tangents, strict=True) if requires_grad(g)]
        found: Tensors = (None,) * len(args)
        if live:
            found = _grad(tuple(g for g, _ in live), args, tuple(t for _, t in live), create_graph)
    _tell("vhp", found, args, strict, create_graph, second=True)
    return _result((output,), True, create_graph), _result(_fill_absent(found, args), single_input, create_graph)


def hvp(
    func: Callable[..., Tensor], inputs: In, v: In | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensor, In]:
    """Return the output of a scalar function, and the product of its Hessian with `v`. `vhp` is the same
    by symmetry, and faster.

    Args:
        func: function of tensors with one element as result.
        inputs: tensor, or tuple of tensors.
        v: tensor or tuple like the inputs. It may be None for one input with one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input raises. Otherwise its derivative is zeros.

    >>> import ndgrad
    >>> x, v = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 0.0])
    >>> ndgrad.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([6., 0.]))
    """
    with enable_grad():
        single_input, args = _inputs("hvp", inputs, create_graph)
        tangents = _input_vectors("hvp", v, inputs, args)
        output, gradient = _gradient("hvp", func, args, strict)
        dummies = tuple(_zeros(t).requires_grad_() for t in args)
        live = [(g, d) for g, d in zip(gradient, dummies, strict=True) if requires_grad(g)]
        pulled: Tensors = (None,) * len(args)
        if live:
            pulled = _grad(tuple(g for g, _ in live), args, tuple(d for _, d in live), create_graph=True)
        _tell("hvp", pulled, args, strict, False, second=True)
        found = _grad_of_products(pulled, dummies, tangents, create_graph)
    return _result((output,), True, create_graph), _result(_fill_absent(found, args), single_input, create_graph)


def _grad_of_products(pulled: Tensors, dummies: Tensors, tangents: Tensors, create_graph: bool) -> Tensors:
    """Return the derivative of `pulled`, which is linear in `dummies`, with respect to them, along the tangents."""
    live = [(p, t) for p, t in zip(pulled, tangents, strict=True) if p is not None and requires_grad(p)]
    wanted = [d for d in dummies if d is not None]
    if not live or not wanted:
        return (None,) * len(dummies)
    found = iter(_grad(tuple(p for p, _ in live), tuple(wanted), tuple(t for _, t in live), create_graph))
    return tuple(None if d is None else next(found) for d in dummies)


# ----- whole matrices -------------------------------------------------------------------------------------------------


@overload
def jacobian(
    func: Callable[..., Tensor],
    inputs: In,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> In: ...


@overload
def jacobian(
    func: Callable[..., tuple[Tensor, ...]],
    inputs: In,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> tuple[In, ...]: ...


def jacobian(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Tensor | tuple[Tensor | tuple[Tensor, ...], ...]:
    """Return the Jacobian of `func`: per output and input, a tensor of the output's shape followed by the input's.

    It is computed row by row, or with `vectorize` all rows at once through vmap. `strategy="forward-mode"` goes column
    by column, which is faster for more outputs than inputs.

    Args:
        func: function of tensors.
        inputs: tensor, or tuple of tensors.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input raises. Otherwise its derivative is zeros.
        vectorize: whether all rows are computed at once, by `vmap`.
        strategy: `"reverse-mode"`, or `"forward-mode"`, which needs `vectorize`.

    >>> import ndgrad
    >>> ndgrad.autograd.functional.jacobian(lambda x: x**2, ndgrad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy("jacobian", "strategy", strategy, vectorize, create_graph, strict)
    if strategy == "forward-mode":
        return _forward_jacobian("jacobian", func, inputs)
    if vectorize and strict:
        raise RuntimeError(
            "ndgrad.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Set "
            "one of them to False. [nd-exclusive]"
        )
    with enable_grad():
        single_input, args = _inputs("jacobian", inputs, create_graph)
        single_output, outputs = _outputs("jacobian", func(*args), strict)
        rows = [_rows("jacobian", number, o, args, create_graph, strict, vectorize) for number, o in enumerate(outputs)]
    if not create_graph:
        rows = [tuple(b.detach() for b in blocks) for blocks in rows]
    per_output = tuple(blocks[0] if single_input else blocks for blocks in rows)
    return per_output[0] if single_output else per_output


@overload
def hessian(
    func: Callable[..., Tensor],
    inputs: Tensor,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensor: ...


@overload
def hessian(
    func: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> tuple[tuple[Tensor, ...], ...]: ...


def hessian(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensor | tuple[Tensor | tuple[Tensor, ...], ...]:
    """Return the Hessian of a scalar function: per pair of inputs, a tensor of the first's shape followed by the
    second's.

    With `outer_jacobian_strategy="forward-mode"` it is forward over reverse, which is usually faster.

    Args:
        func: function of tensors with one element as result.
        inputs: tensor, or tuple of tensors.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input raises. Otherwise its derivative is zeros.
        vectorize: whether all rows are computed at once, by `vmap`.
        outer_jacobian_strategy: `"reverse-mode"`, or `"forward-mode"`, which needs `vectorize`.

    >>> import ndgrad
    >>> ndgrad.autograd.functional.hessian(lambda x: (x**3).sum(), ndgrad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _check_strategy("hessian", "outer_jacobian_strategy", outer_jacobian_strategy, vectorize, create_graph, strict)
    single_input, given = _tensors("hessian", inputs, "inputs")

    def scalar(*args: Any) -> Tensor:
        return _scalar("hessian", func(*args), strict)

    if outer_jacobian_strategy == "forward-mode":
        return _forward_jacobian("hessian", jacrev(scalar, 0 if single_input else tuple(range(len(given)))), inputs)

    def gradient(*args: Any) -> Any:  # the structure of the inputs
        found = _grad((scalar(*args),), args, (None,), create_graph=True)
        if strict:
            _tell("hessian", found, args, True, True, second=True)
        filled = _fill_absent(found, args)
        return filled[0] if single_input else filled

    return jacobian(gradient, inputs, create_graph, strict, vectorize)


def _check_strategy(name: str, argument: str, strategy: str, vectorize: bool, create_graph: bool, strict: bool) -> None:
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode": '
            f"{name} was given {argument}={strategy!r}. "
            "Choose the first for more outputs than inputs, else the second. [nd-option]"
        )
    if strategy == "reverse-mode":
        return
    if create_graph:
        raise NotImplementedError(
            f'ndgrad.autograd.functional.{name}: `create_graph=True` and `{argument}="forward-mode"` are not supported '
            "together. Use 'reverse-mode', or ndgrad.func.jacfwd, which can be differentiated. [nd-exclusive]"
        )
    if strict:
        raise RuntimeError(
            f'ndgrad.autograd.functional.{name}: `strict=True` and `{argument}="forward-mode"` are not supported '
            "together. "
            "Use 'reverse-mode'. [nd-exclusive]"
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            f"vectorize=True ({name}, {argument}='forward-mode'). Pass vectorize=True. [nd-exclusive]"
        )


def _rows(
    name: str, number: int, output: Tensor, args: Tensors, create_graph: bool, strict: bool, vectorize: bool
) -> Tensors:
    """Return the blocks of one output, one per input."""
    size = math.prod(output.shape)
    if not requires_grad(output) or not size:
        return tuple(_zeros(t, tuple(output.shape)) for t in args)
    found: Tensors
    if vectorize:
        found = grad(
            output,
            args,
            _basis(output),
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            is_grads_batched=True,
        )
    else:
        elements = tensor_ops.reshape(output, shape=(size,))
        every = [
            grad(
                tensor_ops.getitem(elements, index=(k,)),
                args,
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
            )
            for k in range(size)
        ]
        for i in range(len(args)) if strict else ():
            if every[0][i] is None:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {i}. This is not allowed "
                    f"in strict mode of {name}. [nd-unused]"
                )
        if strict:
            _tell_constant(name, [row[i] for row in every for i in range(len(args))], strict, create_graph)
        found = tuple(
            None if column[0] is None else tensor_ops.stack(*(_zeros(t) if g is None else g for g in column), dim=0)
            for t, column in zip(args, zip(*every, strict=True), strict=True)
        )
    shape = tuple(output.shape)
    return tuple(
        _zeros(t, shape) if g is None else tensor_ops.reshape(g, shape=(*shape, *t.shape))
        for t, g in zip(args, found, strict=True)
    )


def _basis(output: Tensor) -> Tensor:
    """Return the unit cotangents of an output, along a new first dimension."""
    return basis([output])[0]


def _forward_jacobian(
    name: str, func: Callable[..., Any], inputs: Tensor | tuple[Tensor, ...]
) -> Tensor | tuple[Tensor | tuple[Tensor, ...], ...]:
    single_input, args = _tensors(name, inputs, "inputs")

    def run_checked(*given: Any) -> Tensor | tuple[Tensor, ...]:
        single_output, outputs = _outputs(name, func(*given), False)
        return outputs[0] if single_output else outputs

    return jacfwd(run_checked, 0 if single_input else tuple(range(len(args))))(*(t.detach() for t in args))


# ----- torch's private names, for programs that build on them ---------------------------------------------------------


def _as_tuple(inp: object, arg_name: str | None = None, fn_name: str | None = None) -> tuple[bool, Tensors]:
    """Return whether the value is a tuple, and the tuple of tensors."""
    single, found = _tensors(fn_name or "the function", inp, arg_name or "value")
    return not single, found


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, ...]) -> Any:
    """Undo `_as_tuple`: return the only item of a tuple that was made of a single value, level by level."""
    if isinstance(to_unpack, tuple):
        res = res if to_unpack[0] else res[0]
        if not to_unpack[1]:
            res = tuple(item[0] for item in res) if to_unpack[0] else res[0]
        return res
    return res if to_unpack else res[0]


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Return tensors, or tuples of them, detached unless a graph is wanted."""
    if isinstance(inputs, tuple):
        return tuple(_grad_postprocess(item, create_graph) for item in inputs)
    return inputs if create_graph else inputs.detach()


def _construct_standard_basis_for(tensors: Tensors, tensor_numels: tuple[int, ...]) -> Tensors:
    """Return for each tensor the matrix whose rows are its part of the unit vectors of all tensors together."""
    if tuple(math.prod(t.shape) for t in tensors) != tuple(tensor_numels):
        raise ValueError(f"tensor_numels is {tensor_numels}, but the tensors have other sizes. [nd-shape]")
    return tuple(b.reshape(sum(tensor_numels), -1) for b in basis(tensors))


# ----- arguments and results ------------------------------------------------------------------------------------------


def _tensors(name: str, value: object, what: str) -> tuple[bool, Tensors]:
    """Return whether there is one tensor or a tuple, and the tuple."""
    single = not isinstance(value, tuple)
    found: Tensors = value if isinstance(value, tuple) else (value,)
    for i, t in enumerate(found):
        if not isinstance(t, Variable):
            which = f"is {type(value).__name__}" if single else f"has {type(t).__name__} at index {i}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors, and {which}. Convert with "
                "as_tensor(). [nd-type]"
            )
    return single, found


def _inputs(name: str, inputs: object, create_graph: bool) -> tuple[bool, Tensors]:
    """Return the inputs as separate leaves, or as views if the result is to be differentiated with respect to them."""
    single, given = _tensors(name, inputs, "inputs")
    return single, tuple(
        tensor_ops.alias(t) if create_graph and requires_grad(t) else t.detach().requires_grad_() for t in given
    )


def _outputs(name: str, value: object, strict: bool) -> tuple[bool, Tensors]:
    single, found = _tensors(name, value, "outputs of the user-provided function")
    for i, o in enumerate(found):
        if strict and not requires_grad(o):
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients, which {name} does not allow in "
                "strict mode: it must be computed from the inputs by differentiable ops. [nd-no-graph]"
            )
    return single, found


def _scalar(name: str, value: object, strict: bool) -> Tensor:
    single, outputs = _outputs(name, value, strict)
    if not single:
        raise RuntimeError(
            f"The function given to {name} should return a single Tensor, and returned a tuple of {len(outputs)}. "
            "[nd-not-scalar]"
        )
    if math.prod(outputs[0].shape) != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, but has shape "
            f"{tuple(outputs[0].shape)}. Reduce it, e.g. with .sum(). [nd-not-scalar]"
        )
    return tensor_ops.reshape(outputs[0], shape=()) if outputs[0].shape else outputs[0]


def _gradient(name: str, func: Callable[..., Any], args: Tensors, strict: bool) -> tuple[Any, Tensors]:
    """Return the output of a scalar function and its gradient, recorded."""
    value = func(*args)
    scalar = _scalar(name, value, strict)
    return value, _fill_absent(_grad((scalar,), args, (None,), create_graph=True), args)


def _vectors(name: str, v: object, like: Tensors, single: bool, what: str) -> Tensors:
    """Return the vector(s) of a product, checked against the other factor; ones for a single number."""
    if v is None:
        return tuple(tensor_ops.fill(_zeros(t), value=1) for t in like)
    _, given = _tensors(name, v, "v")
    if len(given) != len(like):
        expected = "a single Tensor" if single else f"{len(like)} tensors"
        raise RuntimeError(
            f"The given v should contain {expected}. It has {len(given)}, unlike the {what} of {name}. "
            "[nd-grad-mismatch]"
        )
    for i, (t, u) in enumerate(zip(like, given, strict=True)):
        if tuple(t.shape) != tuple(u.shape):
            raise RuntimeError(
                f"{'v' if single else f'Entry {i} in v'} has invalid size: should be {tuple(t.shape)}, like the "
                f"{what} of {name}, but got {tuple(u.shape)}. [nd-grad-mismatch]"
            )
    return tuple(
        u if np_dtype(u) == np_dtype(t) else tensor_ops.cast(u, dtype=np_dtype(t))
        for t, u in zip(like, given, strict=True)
    )


def _input_vectors(name: str, v: object, inputs: object, args: Tensors) -> Tensors:
    single = not isinstance(inputs, tuple)
    if v is None and not (len(args) == 1 and math.prod(args[0].shape) == 1):
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
            f"element: {name} got another input. Pass v, like the inputs. [nd-not-scalar]"
        )
    return _vectors(name, v, args, single, "inputs")


def _grad(outputs: Tensors, inputs: Tensors, cotangents: Tensors, create_graph: bool) -> Tensors:
    live = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if requires_grad(o)]
    if not live:
        return (None,) * len(inputs)
    found: Tensors = grad(
        [o for o, _ in live], list(inputs), [c for _, c in live], create_graph=create_graph, allow_unused=True
    )
    return found


def _zeros(t: Tensor, lead: tuple[int, ...] = ()) -> Tensor:
    zero = tensor_ops.zeros_like(t).detach()
    return tensor_ops.clone(tensor_ops.expand(zero, shape=(*lead, *t.shape))) if lead else zero


def _fill_absent(found: Sequence[Tensor | None], like: Tensors) -> Tensors:
    return tuple(_zeros(t) if g is None else g for g, t in zip(found, like, strict=True))


def _result(values: Tensors, single: bool, keep_graph: bool) -> Any:  # the structure of the inputs or outputs
    out = values if keep_graph else tuple(v.detach() for v in values)
    return out[0] if single else out


def _tell(
    name: str, grads: Sequence[Tensor | None], args: Tensors, strict: bool, create_graph: bool, second: bool = False
) -> None:
    """Raise, with `strict`, if a derivative is missing, or cannot be differentiated although the graph was
    requested.
    """
    if not strict:
        return
    for i, g in enumerate(grads):
        if g is None and second:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {i} is independent of the input, as a linear function's is ({name}): then the Hessian is zero, "
                "which strict mode does not allow. [nd-unused]"
            )
        if g is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}. This is not allowed in strict "
                f"mode of {name}. [nd-unused]"
            )
    if not second:
        _tell_constant(name, grads, strict, create_graph)
    elif create_graph and not any(g is not None and requires_grad(g) for g in grads):
        raise RuntimeError(
            "While computing the hessian, found that the jacobian of the user-provided function is independent of the "
            f"inputs. This is not allowed in strict mode of {name}. [nd-unused]"
        )


def _tell_constant(name: str, found: Sequence[Tensor | None], strict: bool, create_graph: bool) -> None:
    if strict and create_graph:
        for i, g in enumerate(found):
            if g is not None and not requires_grad(g):
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {i}. This is not allowed in "
                    f"strict mode of {name} when create_graph=True: its derivative would be zero. [nd-unused]"
                )


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_refuse_absent(__name__)
