"""gradcheck and gradgradcheck: the same verdicts as torch's on the same functions, right and wrong ones."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.autograd.gradcheck  # puts the module where `file_of` finds it
from tests.torch_parity.outcomes import assert_same, compare, outcome
from tests.torch_parity.side_by_side import Programs

PROGRAMS = Programs()
program = PROGRAMS.enter


def points(m: Any, *shape: int, kind: str = "float64", seed: int = 0) -> Any:
    r = np.random.default_rng(seed)
    values = r.uniform(0.5, 1.5, shape)
    if kind == "complex128":
        values = values + 1j * r.uniform(0.5, 1.5, shape)
    return m.tensor(values.astype(kind), requires_grad=True)


def function(m: Any, forward: Any, backward: Any, **more: Any) -> Any:
    members = {"forward": forward, "backward": backward, **more}
    return type("F", (m.autograd.Function,), {name: staticmethod(f) for name, f in members.items()}).apply


def file_of(m: Any) -> Any:
    return sys.modules[f"{m.__name__}.autograd.gradcheck"]


def wrong(m: Any) -> Any:
    return function(m, lambda ctx, x: x * 2, lambda ctx, g: g * 3)


def wrong_jvp(m: Any) -> Any:
    return function(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2, jvp=lambda ctx, t: t * 5)


# ----- functions that are right -------------------------------------------------------------------------------------------


@program
def one_input(m):
    return m.autograd.gradcheck(lambda x: x.sin(), points(m, 3))


@program
def several_inputs_and_outputs(m):
    return m.autograd.gradcheck(lambda x, y: (x * y, x.sin() + y), (points(m, 3), points(m, 3, seed=1)))


@program
def inputs_in_a_list(m):
    return m.autograd.gradcheck(lambda x, y: x * y, [points(m, 2), points(m, 2)])


@program
def outputs_in_a_list(m):
    return m.autograd.gradcheck(lambda x: [x * 2, x * 3], points(m, 2))


@program
def an_integer_input_beside(m):
    return m.autograd.gradcheck(lambda x, i: x[i], (points(m, 3), m.tensor([0, 1])))


@program
def an_input_that_is_a_number(m):
    return m.autograd.gradcheck(lambda x, k: x * k, (points(m, 3), 3.0))


@program
def an_input_without_gradient(m):
    return m.autograd.gradcheck(lambda x, y: x * y, (points(m, 2), points(m, 2).detach()))


@program
def an_input_that_is_not_used(m):
    return m.autograd.gradcheck(lambda x, y: x * 2, (points(m, 2), points(m, 2)))


@program
def an_empty_input(m):
    return m.autograd.gradcheck(lambda x: x * 2, points(m, 0))


@program
def a_scalar_input(m):
    return m.autograd.gradcheck(lambda x: x.exp(), points(m), check_forward_ad=True)


@program
def a_transposed_input(m):
    x = points(m, 2, 3).detach().t().requires_grad_()
    return m.autograd.gradcheck(lambda x: x @ x.t(), x, check_forward_ad=True)


@program
def an_input_that_is_returned(m):
    return m.autograd.gradcheck(lambda x: x, points(m, 2))


@program
def a_write_in_place(m):
    return m.autograd.gradcheck(lambda x: x.clone().mul_(2.0).exp_(), points(m, 2), check_forward_ad=True)


@program
def a_closure_over_the_input(m):
    x = points(m, 2)
    return m.autograd.gradcheck(lambda _: x * x, x)


@program
def an_input_from_inside_a_graph(m):
    return m.autograd.gradcheck(lambda x: x * x, points(m, 2) * 2)


@program
def every_check_at_once(m):
    return m.autograd.gradcheck(
        lambda x, y: (x @ y).tanh(), (points(m, 2, 3), points(m, 3)), check_forward_ad=True, check_batched_grad=True,
        check_batched_forward_grad=True, check_grad_dtypes=True,
    )  # fmt: skip


@program
def fast_mode(m):
    return m.autograd.gradcheck(lambda x, y: (x @ y).tanh(), (points(m, 2, 3), points(m, 3)), fast_mode=True, check_forward_ad=True)


@program
def complex_to_complex(m):
    z = points(m, 2, kind="complex128")
    return m.autograd.gradcheck(lambda z: z * z + z.conj(), z, check_forward_ad=True, check_batched_grad=True)


@program
def complex_to_real(m):
    return m.autograd.gradcheck(lambda z: z.abs(), points(m, 2, kind="complex128"), check_forward_ad=True)


@program
def real_to_complex(m):
    return m.autograd.gradcheck(lambda x: m.complex(x, x * 2).exp(), points(m, 2), check_forward_ad=True)


@program
def complex_in_fast_mode(m):
    z = points(m, 2, kind="complex128")
    return m.autograd.gradcheck(lambda z: (z * z).conj(), z, fast_mode=True, check_forward_ad=True)


@program
def a_constant_function(m):
    return m.autograd.gradcheck(lambda x: x.detach() * 0, points(m, 3))


@program
def outputs_without_gradient_beside(m):
    return m.autograd.gradcheck(lambda x: (x.detach(), x * 2), points(m, 3))


@program
def only_integers(m):
    return m.autograd.gradcheck(lambda x: x.argmax(), points(m, 3))


@program
def masked_is_accepted(m):
    return m.autograd.gradcheck(lambda x: x * 2, points(m, 2), masked=True)


# ----- functions that are wrong -------------------------------------------------------------------------------------------


@program
def a_wrong_backward(m):
    return m.autograd.gradcheck(wrong(m), points(m, 2))


@program
def a_wrong_backward_without_exception(m):
    return m.autograd.gradcheck(wrong(m), points(m, 2), raise_exception=False)


@program
def a_wrong_backward_in_fast_mode(m):
    return m.autograd.gradcheck(wrong(m), points(m, 2), fast_mode=True)


@program
def a_wrong_jvp(m):
    return m.autograd.gradcheck(wrong_jvp(m), points(m, 2), check_forward_ad=True)


@program
def a_wrong_jvp_that_is_not_asked_for(m):
    return m.autograd.gradcheck(wrong_jvp(m), points(m, 2))


@program
def a_wrong_jvp_in_fast_mode(m):
    return m.autograd.gradcheck(wrong_jvp(m), points(m, 2), check_forward_ad=True, fast_mode=True)


@program
def a_jvp_alone(m):
    f = function(m, lambda ctx, x: x * 2, lambda ctx, g: g * 3, jvp=lambda ctx, t: t * 2)
    return m.autograd.gradcheck(f, points(m, 2), check_forward_ad=True, check_backward_ad=False)


@program
def a_missing_jvp(m):
    return m.autograd.gradcheck(wrong(m), points(m, 2), check_forward_ad=True, check_backward_ad=False)


@program
def a_lost_graph(m):
    return m.autograd.gradcheck(lambda x: x.detach(), points(m, 3))


@program
def a_forgotten_conjugate(m):
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z

    f = function(m, forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0])
    return m.autograd.gradcheck(f, points(m, 2, kind="complex128"))


@program
def a_wrong_imaginary_part(m):
    f = function(m, lambda ctx, x: m.complex(x, x * 2), lambda ctx, g: g.real + g.imag)
    return m.autograd.gradcheck(f, points(m, 2))


@program
def a_backward_that_ignores_the_cotangent(m):
    return m.autograd.gradcheck(function(m, lambda ctx, x: x * 2, lambda ctx, g: m.full_like(g, 2.0)), points(m, 1))


@program
def a_backward_that_is_not_linear(m):
    return m.autograd.gradcheck(function(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2 + (g == 0)), points(m, 2))


def unrepeatable(m):
    calls = [0]

    def backward(ctx, g):
        calls[0] += 1
        return g * (1 + 1e-8 * calls[0])

    return function(m, lambda ctx, x: x * 1, backward)


@program
def a_backward_that_does_not_repeat(m):
    return m.autograd.gradcheck(unrepeatable(m), points(m, 2))


@program
def a_backward_that_does_not_repeat_in_fast_mode(m):
    return m.autograd.gradcheck(unrepeatable(m), points(m, 2), fast_mode=True)


@program
def a_tolerated_difference_between_runs(m):
    return m.autograd.gradcheck(unrepeatable(m), points(m, 2), nondet_tol=1e-3)


@program
def randomness_in_the_function(m):
    return m.autograd.gradcheck(lambda x: x * m.rand(2), points(m, 2), raise_exception=False)


@program
def single_precision(m):
    return m.autograd.gradcheck(lambda x: x.sin(), points(m, 2, kind="float32"))


@program
def tolerances_too_small(m):
    return m.autograd.gradcheck(lambda x: x.exp(), points(m, 2), rtol=1e-14, atol=1e-14)


@program
def a_steep_place(m):
    x = m.full((2,), 1e-7).double().requires_grad_()
    return m.autograd.gradcheck(lambda x: x.abs().sqrt(), x)


@program
def a_kink_with_a_symmetric_choice(m):
    return m.autograd.gradcheck(lambda x: x.abs(), m.zeros(2).double().requires_grad_())


@program
def not_a_number(m):
    return m.autograd.gradcheck(lambda x: x * float("nan"), points(m, 2))


@program
def a_batched_backward_that_cannot_be(m):
    f = function(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2 if g.sum().item() < 1e9 else g)
    return m.autograd.gradcheck(f, points(m, 2), check_batched_grad=True)


@program
def a_batched_jvp_that_cannot_be(m):
    f = function(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2, jvp=lambda ctx, t: t * 2 if t.sum().item() < 1e9 else t)
    return m.autograd.gradcheck(f, points(m, 2), check_forward_ad=True, check_batched_forward_grad=True)


# ----- outputs without a gradient ------------------------------------------------------------------------------------------


def unmaterialized(m, outputs, backward):
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return outputs(x)

    return function(m, forward, backward)


@program
def missing_gradients_handled(m):
    def backward(ctx, a, b):
        if a is None and b is None:
            return None
        return (0 if a is None else a) + (0 if b is None else 2 * b)

    return m.autograd.gradcheck(unmaterialized(m, lambda x: (x * 1, x * 2), backward), points(m, 2))


@program
def missing_gradients_taken_for_ones(m):
    f = unmaterialized(m, lambda x: x * 2, lambda ctx, g: m.ones(2) if g is None else 2 * g)
    return m.autograd.gradcheck(f, points(m, 2))


@program
def missing_gradients_unchecked(m):
    f = unmaterialized(m, lambda x: x * 2, lambda ctx, g: m.ones(2) if g is None else 2 * g)
    return m.autograd.gradcheck(f, points(m, 2), check_undefined_grad=False)


@program
def one_missing_gradient_of_three_refused(m):
    def backward(ctx, a, b, c):
        if sum(g is None for g in (a, b, c)) == 1:
            raise RuntimeError("one is missing")
        return sum(k * g for k, g in zip((2, 1, 3), (a, b, c), strict=True) if g is not None)

    return m.autograd.gradcheck(unmaterialized(m, lambda x: (x * 2, x * 1, x * 3), backward), points(m, 2))


@program
def missing_gradients_that_break_backward(m):
    f = unmaterialized(m, lambda x: (x * 1, x * 2), lambda ctx, a, b: a + 2 * b)
    return m.autograd.gradcheck(f, points(m, 2))


# ----- bad calls ------------------------------------------------------------------------------------------------------------


@program
def nothing_to_check(m):
    return m.autograd.gradcheck(lambda x: x * 2, points(m, 2).detach())


@program
def nothing_to_check_without_exception(m):
    return m.autograd.gradcheck(lambda x: x * 2, points(m, 2).detach(), raise_exception=False)


@program
def no_inputs(m):
    return m.autograd.gradcheck(lambda: m.ones(2), ())


@program
def an_expanded_input(m):
    return m.autograd.gradcheck(lambda x: x * 2, points(m, 1).detach().expand(3).requires_grad_())


@program
def neither_mode(m):
    return m.autograd.gradcheck(lambda x: x, points(m, 2), check_backward_ad=False)


@program
def batched_forward_without_forward(m):
    return m.autograd.gradcheck(lambda x: x, points(m, 2), check_batched_forward_grad=True)


@program
def options_by_position(m):
    return m.autograd.gradcheck(lambda x: x, points(m, 2), 1e-6)


@program
def a_function_that_raises(m):
    return m.autograd.gradcheck(lambda x: 1 / 0, points(m, 2))


@program
def a_backward_that_raises(m):
    return m.autograd.gradcheck(function(m, lambda ctx, x: x * 2, lambda ctx, g: 1 / 0), points(m, 2), raise_exception=False)


@program
def a_write_to_the_input(m):
    return m.autograd.gradcheck(lambda x: x.mul_(2), points(m, 2))


@program
def a_gradient_of_the_wrong_shape(m):
    return m.autograd.gradcheck(function(m, lambda ctx, x: x * 1, lambda ctx, g: g[:1]), points(m, 2))


# ----- second order ----------------------------------------------------------------------------------------------------------


@program
def second_order(m):
    return m.autograd.gradgradcheck(lambda x: x**3, points(m, 2))


@program
def second_order_of_two_outputs(m):
    return m.autograd.gradgradcheck(lambda x, y: (x * y.sin(), x.exp()), (points(m, 2), points(m, 2, seed=3)))


@program
def second_order_of_a_linear_function(m):
    return m.autograd.gradgradcheck(lambda x: x * 2, points(m, 2))


@program
def second_order_with_a_wrong_but_consistent_first(m):
    return m.autograd.gradgradcheck(wrong(m), points(m, 2))


def frozen(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    return function(m, forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0].detach())


@program
def a_second_order_that_is_lost(m):
    return m.autograd.gradgradcheck(frozen(m), points(m, 2))


@program
def a_second_order_that_is_lost_without_exception(m):
    return m.autograd.gradgradcheck(frozen(m), points(m, 2), raise_exception=False)


@program
def second_order_with_cotangents(m):
    return m.autograd.gradgradcheck(lambda x: x**3, points(m, 2), m.ones(2).double())


@program
def second_order_with_cotangents_to_check(m):
    return m.autograd.gradgradcheck(lambda x: x**3, points(m, 2), points(m, 2, seed=5))


@program
def second_order_with_strided_cotangents(m):
    return m.autograd.gradgradcheck(lambda x: x**3, points(m, 2, 3), gen_non_contig_grad_outputs=True)


@program
def second_order_forward_over_reverse(m):
    return m.autograd.gradgradcheck(lambda x: (x @ x.t()).tanh(), points(m, 2, 2), check_fwd_over_rev=True)


@program
def second_order_batched_and_fast(m):
    return m.autograd.gradgradcheck(lambda x: x**3, points(m, 2), check_batched_grad=True, fast_mode=True)


@program
def second_order_of_complex(m):
    return m.autograd.gradgradcheck(lambda z: z**3, points(m, 2, kind="complex128"), check_fwd_over_rev=True)


@program
def second_order_with_neither_mode(m):
    return m.autograd.gradgradcheck(lambda x: x, points(m, 2), check_rev_over_rev=False)


@program
def second_order_forward_alone_needs_options(m):
    return m.autograd.gradgradcheck(lambda x: x**2, points(m, 2), check_fwd_over_rev=True, check_rev_over_rev=False)


@program
def second_order_with_a_cotangent_of_the_wrong_shape(m):
    return m.autograd.gradgradcheck(lambda x: x**2, points(m, 2), points(m, 3))


# ----- the Jacobians themselves ------------------------------------------------------------------------------------------------


@program
def numerical_jacobian(m):
    x = points(m, 2)
    return [j.round(decimals=6) for j in file_of(m).get_numerical_jacobian(lambda given: given[0] ** 2, (x,), eps=1e-6)]


@program
def numerical_jacobian_of_one_input(m):
    x, y = points(m, 2), points(m, 2, seed=2)
    found = file_of(m).get_numerical_jacobian_wrt_specific_input(lambda x, y: (x * y, x), 1, (x, y), (x * y, x), eps=1e-6)
    return [j.round(decimals=6) for j in found]


@program
def analytical_jacobian(m):
    x, y = points(m, 2), points(m, 3)
    return file_of(m).get_analytical_jacobian((x, y), (x[:, None] * y).sum(0))


@program
def numerical_jacobian_scaled(m):
    return file_of(m).get_numerical_jacobian(lambda given: given[0], (points(m, 2),), grad_out=2.0)


@program
def numerical_jacobian_of_complex(m):
    return file_of(m).get_numerical_jacobian(lambda given: given[0], (points(m, 2, kind="complex128"),))


@program
def analytical_jacobian_of_complex(m):
    z = points(m, 2, kind="complex128")
    return file_of(m).get_analytical_jacobian((z,), z * 2)


@program
def the_function_hides_the_module(m):
    return callable(m.autograd.gradcheck), callable(m.autograd.gradgradcheck), issubclass(file_of(m).GradcheckError, RuntimeError)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    compare(PROGRAMS[name])


def test_single_precision_warns_as_torch_does():
    for m in (torch, ndgrad):
        with pytest.warns(UserWarning, match="not a double precision"):
            m.autograd.gradcheck(lambda x: x * 1, points(m, 2, kind="complex64"), atol=0.1, rtol=0.1)


def test_double_precision_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ndgrad.autograd.gradcheck(lambda x: x * 1, points(ndgrad, 2))


def test_numbers_agree_with_torchs_to_the_last_digit_that_matters():
    def jacobian(m):
        x = points(m, 2, 2)
        return file_of(m).get_analytical_jacobian((x,), (x @ x).sin())[0]

    assert_same(outcome(jacobian, torch), outcome(jacobian, ndgrad))
