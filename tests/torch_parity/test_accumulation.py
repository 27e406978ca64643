"""Accumulation of gradients into `.grad`: memory, layout, undefined and mixed ones; torch and ndgrad alike."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, node_names, on_both, ones, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


def arange(m, *shape):
    return m.tensor(np.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape))


# ----- gradients that are passed in -------------------------------------------------------------------------------------


@program
def gradients_are_converted_to_the_dtype_of_the_output(m):
    found = []
    for dtype in (m.float32, m.int64):
        x = leaf(m, 2)
        (x * x).backward(m.ones(2, dtype=dtype))
        found.append((x.grad, str(x.grad.dtype).split(".")[-1]))
    return found


@program
def gradients_of_the_wrong_kind(m):
    x = leaf(m, 2)
    return [
        attempt(lambda: (x * x).backward(ones(m, 1))),
        attempt(lambda: (x * x).backward(ones(m, 2) * 1j)),
        attempt(lambda: m.autograd.backward(x.sum(), [1.0])),
        attempt(lambda: m.autograd.backward([x * x, x * x], [ones(m, 2), None])),
    ]


@program
def the_gradient_passed_in_may_be_the_answer(m):
    x = leaf(m, 2)
    y = x * 1
    g = ones(m, 2)
    (found,) = m.autograd.grad(y, y, g)
    return found is g


@program
def one_gradient_for_two_inputs_is_one_tensor(m):
    a, b = leaf(m, 2), leaf(m, 2)
    first, second = m.autograd.grad(a + b, [a, b], ones(m, 2))
    third, fourth = m.autograd.grad((a * 2).sum(), [a, a])
    return first is second, third is fourth


@program
def deprecated_names_warn(m):
    x = leaf(m, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m.autograd.backward([x * x], grad_variables=[ones(m, 2)])
        m.autograd.grad([(x * x).sum()], x, only_inputs=False)
    return [w.category.__name__ for w in caught], x.grad


@program
def deprecated_names_beside_new_ones(m):
    x = leaf(m, 2)
    return [
        attempt(lambda: m.autograd.backward([x * x], grad_tensors=[ones(m, 2)], grad_variables=[ones(m, 2)])),
        attempt(lambda: x.sum().backward(retain_variables=True)),
    ]


# ----- accumulation -----------------------------------------------------------------------------------------------------


@program
def a_gradient_lies_in_memory_like_its_leaf(m):
    found = []
    transposed = arange(m, 2, 3).t().requires_grad_()
    (transposed * 2).sum().backward()
    found.append(transposed.grad.stride())
    permuted = arange(m, 2, 3, 4).permute(2, 0, 1).requires_grad_()
    (permuted * permuted).sum().backward()
    found.append(permuted.grad.stride())
    gaps = arange(m, 4, 6)[::2, ::2].requires_grad_()
    (gaps * 2).sum().backward()
    found.append(gaps.grad.stride())
    expanded = ones(m, 3, 1).expand(3, 4).requires_grad_()
    (expanded * 2).sum().backward()
    found.append(expanded.grad.stride())
    plain_leaf = leaf(m, 2, 3)
    (plain_leaf.t() * ones(m, 3, 2)).sum().backward()
    found.append(plain_leaf.grad.stride())
    from_sum = leaf(m, 2, 3)
    from_sum.sum().backward()
    found.append(from_sum.grad.stride())
    return found


@program
def a_gradient_that_only_the_engine_holds_is_taken_as_it_is(m):
    x, seen = leaf(m, 2), []
    x.register_hook(lambda g: seen.append(g.data_ptr()))
    (x * 2).sum().backward()
    return seen == [x.grad.data_ptr()]


@program
def a_gradient_that_a_hook_keeps_is_copied(m):
    x, seen = leaf(m, 2), []
    x.register_hook(lambda g: seen.append(g))
    (x * 2).sum().backward()
    shared = seen[0].data_ptr() == x.grad.data_ptr()
    x.grad.zero_()
    return shared, seen[0]


@program
def a_gradient_passed_in_is_copied_under_create_graph_too(m):
    x, g = leaf(m, 2), leaf(m, 2)
    (x * 1).backward(g, create_graph=True)
    return x.grad.data_ptr() == g.data_ptr(), x.grad.requires_grad, m.autograd.grad(x.grad.sum(), g)


@program
def create_graph_without_a_graph_to_create(m):
    x = leaf(m, 2)
    (x * 3).sum().backward(create_graph=True)
    return x.grad, x.grad.requires_grad


@program
def grads_of_graph_and_no_graph_in_turn(m):
    x = leaf(m, 2)
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    second = x.grad
    (x * x).sum().backward()
    return first is second, x.grad is second, x.grad.requires_grad, first, second


@program
def a_zero_dimensional_grad_stays_the_same_object(m):
    x = m.tensor(2.0, dtype=m.float64, requires_grad=True)
    (x * x).backward()
    first = x.grad
    (x * x).backward()
    return x.grad is first, first


@program
def a_grad_set_by_hand_and_its_version(m):
    x = leaf(m, 2)
    mine = m.zeros(2, dtype=m.float64)
    x.grad = mine
    (x * x).sum().backward()
    in_place = x.grad is mine, mine, mine._version
    x.grad = mine = m.zeros(2, dtype=m.float64)
    (x * x).sum().backward(create_graph=True)
    return in_place, x.grad is mine, mine, mine._version


@program
def accumulating_spoils_what_was_saved(m):
    x = leaf(m, 2)
    (x * x).sum().backward()
    w = leaf(m, 2)
    y = (w * x.grad).sum()
    (x * x).sum().backward()
    return attempt(y.backward)


@program
def a_leaf_that_requires_grad_no_longer(m):
    x, w = leaf(m, 2), leaf(m, 2)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    return x.grad, w.grad


@program
def clearing_the_gradient_in_the_middle(m):
    x = leaf(m, 2)
    h = x * x
    h.register_hook(lambda g: setattr(x, "grad", None))
    x.grad = ones(m, 2)
    h.sum().backward()
    return x.grad


# ----- undefined gradients ----------------------------------------------------------------------------------------------


def stop(m):
    class Stop(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    return Stop.apply


@program
def nothing_behind_a_backward_that_returns_none(m):
    x, w = leaf(m, 2), leaf(m, 2)
    (stop(m)(x * 3) * w).sum().backward()
    return x.grad, w.grad


@program
def grad_behind_a_backward_that_returns_none(m):
    x = leaf(m, 2)
    h = x * 3
    y = stop(m)(h).sum()
    return m.autograd.grad(y, [x, h], allow_unused=True, retain_graph=True), m.autograd.grad(y, [x], materialize_grads=True)


@program
def a_custom_function_behind_an_undefined_gradient_gets_zeros(m):
    events: list[Any] = []

    class Seen(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            events.append(plain(g))
            return g + 1

    x = leaf(m, 2)
    stop(m)(Seen.apply(x * 3).exp()).sum().backward()
    return events, x.grad


@program
def a_custom_function_that_does_not_materialize_gets_none(m):
    events: list[Any] = []

    class Seen(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            events.append((g if g is None else plain(g), h if h is None else plain(h)))
            return None

    x = leaf(m, 2)
    a, b = Seen.apply(x)
    stop(m)(a).sum().backward(retain_graph=True)
    (b * 1).sum().backward()
    return events, x.grad


@program
def an_undefined_gradient_beside_a_defined_one(m):
    x = leaf(m, 2)
    h = x * 3
    (stop(m)(h) + h * 5).sum().backward(retain_graph=True)
    (h.detach() + stop(m)(h)).sum().backward()
    return x.grad


@program
def an_undefined_gradient_of_one_of_several_outputs(m):
    x = leaf(m, 2, 2)
    a, b = (x * 3).unbind()
    (stop(m)(a) + b).sum().backward()
    return x.grad


# ----- mixed kinds ------------------------------------------------------------------------------------------------------


@program
def float32_and_float64_uses_of_one_value(m):
    x = m.tensor([1.0, 2.0], dtype=m.float32, requires_grad=True)
    h = x * m.tensor([2.0, 2.0], dtype=m.float32)
    y = (h.to(m.float64) * 3).sum() + h.sum().to(m.float64)
    y.backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


@program
def real_and_complex_uses_of_one_value(m):
    x = leaf(m, 2)
    h = x * 2
    z = h * m.tensor([1j, 2 - 1j], dtype=m.complex128)
    ((z * z).real.sum() + (h * h).sum()).backward()
    return x.grad


@program
def scalars_and_vectors_that_meet_in_one_leaf(m):
    x = m.tensor(2.0, dtype=m.float64, requires_grad=True)
    (x * ones(m, 3)).sum().backward()
    (x * x + (x * ones(m, 2, 2)).sum()).backward()
    return x.grad


@program
def an_error_that_waits(m):
    class Once(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @m.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 2

    x, v = leaf(m, 2), leaf(m, 2)
    (g,) = m.autograd.grad(Once.apply(x), x, v, create_graph=True)
    return g, g.requires_grad, attempt(lambda: g.sum().backward())


@program
def a_graph_dies_when_its_output_does(m):
    gc.collect()
    x = leaf(m, 2)
    h = x * 2
    y = h.exp()
    refs = [weakref.ref(h), weakref.ref(y)]
    node = y.grad_fn
    del h, y
    gone = [r() is None for r in refs]
    return gone, node_names([node.next_functions[0][0]])


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_a_grad_that_cannot_be_added_to() -> None:
    assert deliberate("grad-of-shared-memory")
    for m in MODULES:
        x = leaf(m, 3)
        x.grad = ones(m, 1).expand(3)
        found = attempt(lambda x=x: (x * x).sum().backward())
        assert found == "RuntimeError" if m is torch else plain(x.grad) == [3.0, 5.0, 7.0]
