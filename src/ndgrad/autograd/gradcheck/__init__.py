"""gradcheck and gradgradcheck: compare derivatives of a function with finite differences, with torch's arguments.

A failed comparison raises a `GradcheckError`, which names the function, the op of the output, the input, the indices
and both values. Errors of the function itself pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.sparse_gradients import is_sparse_data
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, requires_grad, wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.nested_arguments import convert_to_values, may_be_nested
from ndgrad.autograd.gradcheck.analytical import as_tuple, differentiable, like, pull, reverse_jacobian
from ndgrad.autograd.gradcheck.derivative_checks import Check, GradcheckError, name_of, random_like
from ndgrad.autograd.gradcheck.numerical import Array, numerical_jacobian, values_of

if TYPE_CHECKING:
    from ndgrad._typing import Tensor, TensorLike


def gradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: TensorLike | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """True if the derivatives of `func` at `inputs` agree with finite differences of step `eps`.

    The inputs that require grad are checked; use double precision. A derivative `a` agrees with the
    difference quotient `n` if `|a - n| <= atol + rtol * |n|`. With `fast_mode` one random direction is compared instead
    of all elements. A sparse input counts with all of its elements, or, if `masked`, only with its values.

    Args:
        func: function of the inputs, with a tensor or tensors as result.
        inputs: arguments of `func`.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: whether a failure raises. Otherwise the result is False.
        nondet_tol: largest difference between two runs of backward.
        check_undefined_grad: whether backward is also run with undefined gradients of the outputs.
        check_grad_dtypes: whether gradients must have the dtypes of the inputs.
        check_batched_grad: whether gradients under `vmap` are checked.
        check_batched_forward_grad: whether forward mode under `vmap` is checked. It needs `check_forward_ad`.
        check_forward_ad: whether forward mode is checked.
        check_backward_ad: whether reverse mode is checked.
        fast_mode: whether one random direction is compared in place of all elements.
        masked: whether a sparse input counts with its values only.

    Raises:
        GradcheckError: if a derivative is wrong and `raise_exception` is set.

    >>> import ndgrad
    >>> x = ndgrad.tensor([0.5, 1.5], dtype=ndgrad.float64, requires_grad=True)
    >>> ndgrad.autograd.gradcheck(lambda x: x.sin() * x, (x,), check_forward_ad=True, check_batched_grad=True)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True, and gradcheck was given "
            "neither. [nd-exclusive]"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "gradcheck: check_batched_grad=True checks reverse mode, so it needs check_backward_ad=True. [nd-exclusive]"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True: it checks forward mode. "
            "[nd-exclusive]"
        )
    func, given = on_dense_tensors(func, as_tuple(inputs), bool(masked))
    check = Check(func, given, eps, atol, rtol)
    steps: list[Callable[[], None]] = []
    if fast_mode:
        steps.append(lambda: check.compare_directions(check_backward_ad, check_forward_ad, nondet_tol))
    else:
        steps.append(lambda: check.compare_elements(check_backward_ad, check_forward_ad, nondet_tol))
    if check_backward_ad:
        steps.append(check.zero_gives_zero)
        if check_grad_dtypes:
            steps.append(check.dtypes)
        if check_undefined_grad:
            steps.append(check.missing_gradients)
    if check_forward_ad and check_undefined_grad:
        steps.append(check.missing_tangents)
    if check_batched_grad:
        steps.append(check.batched_backward)
    if check_batched_forward_grad:
        steps.append(check.batched_forward)
    try:
        if not check.differentiable:
            check.nothing_to_differentiate()
            return True
        for step in steps:
            step()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: TensorLike | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """True if second derivatives agree with finite differences of first ones: gradcheck of the gradient.

    `grad_outputs` are the cotangents at which the gradient is taken, random ones if None, on strided memory with
    `gen_non_contig_grad_outputs`.

    Args:
        func: function of the inputs, with a tensor or tensors as result.
        inputs: arguments of `func`.
        grad_outputs: gradients of the outputs. None means random ones.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        gen_non_contig_grad_outputs: whether random gradients lie in strided memory.
        raise_exception: whether a failure raises. Otherwise the result is False.
        nondet_tol: largest difference between two runs of backward.
        check_undefined_grad: whether backward is also run with undefined gradients of the outputs.
        check_grad_dtypes: whether gradients must have the dtypes of the inputs.
        check_batched_grad: whether gradients under `vmap` are checked.
        check_fwd_over_rev: whether forward mode over reverse mode is checked.
        check_rev_over_rev: whether reverse mode over reverse mode is checked.
        fast_mode: whether one random direction is compared in place of all elements.
        masked: whether a sparse input counts with its values only.

    Raises:
        GradcheckError: if a derivative is wrong and `raise_exception` is set.

    >>> import ndgrad
    >>> x = ndgrad.tensor([0.5, 1.5], dtype=ndgrad.float64, requires_grad=True)
    >>> ndgrad.autograd.gradgradcheck(lambda x: x**3, x, check_fwd_over_rev=True)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "gradgradcheck: check_fwd_over_rev and check_rev_over_rev are both False. "
            "Set at least one of them to True. [nd-exclusive]"
        )
    for name, wanted in (("check_undefined_grad", check_undefined_grad), ("check_batched_grad", check_batched_grad)):
        if wanted and not check_rev_over_rev:
            raise AssertionError(
                f"gradgradcheck: {name}=True checks reverse over reverse, so it needs check_rev_over_rev=True. "
                "[nd-exclusive]"
            )
    func, given = on_dense_tensors(func, as_tuple(inputs), masked)
    outputs = as_tuple(func(*given))
    smooth = differentiable(outputs)
    if not smooth:
        return gradcheck(
            func, given, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, fast_mode=fast_mode
        )
    if grad_outputs is None:
        random = np.random.default_rng(1)
        cotangents = tuple(_cotangent(outputs[i], random, gen_non_contig_grad_outputs) for i in smooth)
    else:
        cotangents = as_tuple(grad_outputs)[: len(smooth)]
    count = len(given)

    def gradient(*args: Any) -> tuple[Tensor, ...]:
        found = as_tuple(func(*args[:count]))
        wanted = [a for a in args[:count] if isinstance(a, Variable) and requires_grad(a)]
        grads = pull([found[i] for i in differentiable(found)], wanted, args[count:], create_graph=True)
        return tuple(g for g in grads if g is not None)

    gradient.__qualname__ = f"the gradient of {name_of(func)}"
    return gradcheck(
        gradient, (*given, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def on_dense_tensors(
    func: Callable[..., Any], inputs: tuple[Any, ...], masked: bool
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return an equivalent function of dense tensors, if there are sparse or nested inputs."""
    if may_be_nested(func):
        func, inputs = convert_to_values(func, inputs)
    if not any(isinstance(t, Variable) and is_sparse_data(t._array) for t in inputs):
        return func, inputs
    from ndgrad.sparse.gradient_checks import on_dense  # loaded only for sparse tensors

    return on_dense(func, inputs, masked)


def _cotangent(output: Tensor, random: np.random.Generator, strided: bool) -> Tensor:
    """Return a random cotangent that requires grad; strided means every other element of a larger one."""
    made = like(output, random_like(random, output))
    if strided and output.numel():
        made = tensor_ops.getitem(tensor_ops.stack(made, made, dim=len(made.shape)), index=(Ellipsis, 0))
    return made.requires_grad_()


# ----- Jacobians by themselves ----------------------------------------------------------------------------------------


def get_numerical_jacobian(
    fn: Callable[[Any], Any],
    inputs: Tensor | Sequence[Tensor],
    target: Tensor | Sequence[Tensor] | None = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Tensor, ...]:
    """Return finite-difference Jacobians of the (first) real output of `fn`, a function of the tuple `inputs`.

    One matrix of shape (elements of the input, elements of the output) per tensor of `target` (all inputs
    that require grad, if None).

    Args:
        fn: function of the tuple of inputs.
        inputs: tensor, or sequence of tensors.
        target: tensors to differentiate in. None means the inputs.
        eps: step of the differences.
        grad_out: accepted only as 1, as in torch.
    """
    _check_grad_out("get_numerical_jacobian", grad_out)
    given = as_tuple(inputs)
    wanted = as_tuple(given if target is None else target)
    _refuse_complex("get_numerical_jacobian", as_tuple(fn(given)))
    found = []
    for i, t in enumerate(wanted):
        if isinstance(t, Variable) and requires_grad(t):
            slopes = numerical_jacobian(lambda: values_of(as_tuple(fn(given))), t, f"input {i}", eps)
            found.append(like_matrix(t, slopes[0].of_output_part(False)))
    return tuple(found)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Tensor | Sequence[Tensor],
    outputs: object,
    eps: float,
    input: Tensor | None = None,
    is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:
    """Return finite-difference Jacobians of all outputs of `fn(*inputs)` with respect to one input.

    Args:
        fn: function of the inputs.
        input_idx: number of the input.
        inputs: tensor, or sequence of tensors.
        outputs: accepted as in torch. It has no effect, because the outputs are computed again.
        eps: step of the differences.
        input: tensor to differentiate in. None means that of `inputs`.
        is_forward_ad: whether derivatives along real steps are returned, as forward mode gives them.

    >>> import ndgrad
    >>> from ndgrad.autograd.gradcheck import get_numerical_jacobian_wrt_specific_input
    >>> x = ndgrad.tensor([3.0], dtype=ndgrad.float64, requires_grad=True)
    >>> get_numerical_jacobian_wrt_specific_input(lambda x: x * x, 0, (x,), None, 1e-6)[0].round(decimals=3)
    tensor([[6.]], dtype=ndgrad.float64)
    """
    given = as_tuple(inputs)
    t = given[input_idx] if input is None else input
    slopes = numerical_jacobian(lambda: values_of(as_tuple(fn(*given))), t, f"input {input_idx}", eps)
    return tuple(like_matrix(t, s.real if is_forward_ad else s.of_output_part(False)) for s in slopes)


def get_analytical_jacobian(
    inputs: Tensor | Sequence[Tensor], output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Return the Jacobians of a real output by backward, whether backward is deterministic, and whether gradients have
    the right sizes and dtypes.

    Args:
        inputs: tensor, or sequence of tensors.
        output: tensor that depends on them.
        nondet_tol: largest difference between two runs of backward.
        grad_out: accepted only as 1, as in torch.

    >>> import ndgrad
    >>> from ndgrad.autograd.gradcheck import get_analytical_jacobian
    >>> x = ndgrad.tensor([3.0], requires_grad=True)
    >>> get_analytical_jacobian((x,), x * x)
    ((tensor([[6.]]),), True, True, True)
    """
    _check_grad_out("get_analytical_jacobian", grad_out)
    _refuse_complex("get_analytical_jacobian", (output,))
    wanted = [t for t in as_tuple(inputs) if isinstance(t, Variable) and requires_grad(t)]
    found, spread = reverse_jacobian(output, wanted)
    grads = pull([output], wanted, [like(output, np.ones(tuple(output.shape)))])
    sizes = all(g is None or tuple(g.shape) == tuple(t.shape) for t, g in zip(wanted, grads, strict=True))
    types = all(g is None or np_dtype(g) == np_dtype(t) for t, g in zip(wanted, grads, strict=True))
    return tuple(like_matrix(t, m) for t, m in zip(wanted, found, strict=True)), spread <= nondet_tol, sizes, types


def like_matrix(t: Tensor, matrix: Array) -> Tensor:
    """Return a matrix as a tensor of the class and device of `t`."""
    return wrap(t.tensor_type, library_of(innermost_array(t)).asarray(matrix))


def _check_grad_out(name: str, grad_out: float) -> None:
    if grad_out != 1.0:
        raise ValueError(
            f"{name}: grad_out is {grad_out}. Only 1.0 is supported; scale the Jacobian instead. [nd-option]"
        )


def _refuse_complex(name: str, outputs: Sequence[Any]) -> None:
    for o in outputs:
        if np_dtype(o).kind == "c":
            raise ValueError(
                f"{name}: the output is {np_dtype(o)}. Take its real and imaginary part, one at a time. [nd-complex]"
            )


__all__ = [
    "GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian", "get_numerical_jacobian_wrt_specific_input",
    "gradcheck", "gradgradcheck",
]  # fmt: skip
