"""backward and grad: the same programs on torch and on ndgrad, compared by results, order of events and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- backward ---------------------------------------------------------------------------------------------------------


@program
def gradients_accumulate(m):
    x = leaf(m, 3)
    (x * x).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    return x.grad, x.grad is first


@program
def gradients_accumulate_out_of_place_under_create_graph(m):
    x = leaf(m, 3)
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * x * x).sum().backward(create_graph=True)
    return x.grad, x.grad is first, x.grad.requires_grad, first


@program
def a_grad_set_by_hand_is_added_to_in_place(m):
    x = leaf(m, 3)
    mine = m.ones(3, dtype=m.float64)
    x.grad = mine
    x.sum().backward()
    return x.grad is mine, mine


@program
def backward_on_a_leaf(m):
    x = leaf(m, 1)
    x.backward()
    x.backward(m.tensor([3.0], dtype=m.float64))
    return x.grad


@program
def backward_twice(m):
    y = (leaf(m, 3) ** 2).sum()
    y.backward()
    y.backward()


@program
def backward_twice_with_retain_graph(m):
    x = leaf(m, 3)
    y = (x**2).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad, attempt(y.backward)


@program
def backward_twice_through_what_saves_nothing(m):
    x = leaf(m, 3)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    return x.grad


@program
def backward_of_a_part_of_a_freed_graph(m):
    x = leaf(m, 3)
    h = x.exp()
    h.sum().backward()
    (h + 1).sum().backward()


@program
def backward_from_several_roots(m):
    x = leaf(m, 3)
    h = x * x
    m.autograd.backward([h.sum(), h], [None, m.ones(3, dtype=m.float64) * 2])
    return x.grad


@program
def the_same_root_twice(m):
    x = leaf(m, 2)
    y = x * x
    g = m.ones(2, dtype=m.float64)
    m.autograd.backward([y, y], [g, g])
    return x.grad


@program
def backward_without_a_gradient_for_a_vector(m):
    (leaf(m, 3) * 2).backward()


@program
def backward_with_a_gradient_of_another_shape(m):
    (leaf(m, 3) * 2).backward(m.ones(4, dtype=m.float64))


@program
def backward_of_a_constant(m):
    m.ones(1).backward()


@program
def backward_with_the_wrong_number_of_gradients(m):
    x = leaf(m, 3)
    m.autograd.backward([x.sum(), x.sum()], [None])


@program
def backward_with_inputs_of_leaves(m):
    x, w = leaf(m, 3), leaf(m, 3)
    (x * w).sum().backward(inputs=[x])
    return x.grad, w.grad


@program
def backward_with_inputs_of_results(m):
    x = leaf(m, 3)
    h = x * 2
    (h * h).sum().backward(inputs=[h])
    return x.grad, h.grad


@program
def backward_with_inputs_of_leaf_and_result(m):
    x = leaf(m, 3)
    h = x * 2
    for _ in range(2):
        (h * h).sum().backward(inputs=[h, x], retain_graph=True)
    return x.grad, h.grad


@program
def backward_with_no_inputs(m):
    leaf(m, 3).sum().backward(inputs=[])


@program
def backward_with_an_input_that_needs_no_gradient(m):
    x = leaf(m, 3)
    c = m.ones(3, dtype=m.float64)
    (x * c).sum().backward(inputs=[c])


@program
def backward_of_a_complex_scalar(m):
    z = m.tensor(1 + 2j, requires_grad=True)
    (z * z).backward()


@program
def gradients_of_one_leaf_are_never_shared(m):
    x, w = leaf(m, 3), leaf(m, 3)
    (x + w).sum().backward()
    x.grad.zero_()
    return x.grad, w.grad


@program
def a_given_gradient_is_not_kept(m):
    x = leaf(m, 3)
    g = m.ones(3, dtype=m.float64)
    (x + 0.0).backward(g)
    g.zero_()
    return x.grad


@program
def float32_leaf_in_a_float64_program(m):
    x = m.tensor([1.0, 2.0], dtype=m.float32, requires_grad=True)
    (x * m.tensor([3.0, 4.0], dtype=m.float64)).sum().backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


# ----- grad -------------------------------------------------------------------------------------------------------------


@program
def grad_of_leaves_and_results(m):
    x = leaf(m, 3)
    h = x * x
    return m.autograd.grad((h * x).sum(), [x, h]), x.grad


@program
def grad_of_a_single_tensor_is_a_tuple(m):
    x = leaf(m, 3)
    found = m.autograd.grad(x.sum(), x)
    return type(found).__name__, found


@program
def grad_of_the_output_itself(m):
    y = (leaf(m, 3) * 2).sum()
    return m.autograd.grad(y, y)


@program
def grad_with_the_same_input_twice(m):
    x = leaf(m, 3)
    return m.autograd.grad((x * x).sum(), [x, x])


@program
def grad_with_grad_outputs(m):
    x = leaf(m, 3)
    return m.autograd.grad([x * x, x.sum()], [x], [m.ones(3, dtype=m.float64) * 2, None])


@program
def grad_of_an_unused_input(m):
    x, w = leaf(m, 3), leaf(m, 3)
    m.autograd.grad(x.sum(), [w])


@program
def grad_of_an_unused_input_allowed(m):
    x, w = leaf(m, 3), leaf(m, 2)
    return m.autograd.grad(x.sum(), [w, x], allow_unused=True)


@program
def grad_of_an_unused_input_materialized(m):
    x, w = leaf(m, 3), leaf(m, 2)
    return m.autograd.grad(x.sum(), [w, x], materialize_grads=True)


@program
def grad_materialized_and_not_allowed(m):
    x = leaf(m, 3)
    m.autograd.grad(x.sum(), [x], materialize_grads=True, allow_unused=False)


@program
def grad_of_a_constant(m):
    x = leaf(m, 3)
    m.autograd.grad(x.sum(), [m.ones(3)])


@program
def grad_of_nothing(m):
    m.autograd.grad(leaf(m, 3).sum(), [])


@program
def grad_of_a_dict(m):
    x, w = leaf(m, 3), leaf(m, 3)
    found = m.autograd.grad((x * w).sum(), {"x": x, "w": w})
    return sorted(found), found["x"], found["w"]


@program
def grad_twice_frees(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    m.autograd.grad(y, x)
    m.autograd.grad(y, x)


@program
def grad_frees_only_what_it_passes(m):
    x, w = leaf(m, 3), leaf(m, 3)
    y = (x.exp() + w.exp()).sum()
    m.autograd.grad(y, x)
    return m.autograd.grad(y, w)


@program
def third_derivative(m):
    x = leaf(m, 3)
    y = (x**4).sum()
    for _ in range(3):
        (y,) = m.autograd.grad(y.sum(), x, create_graph=True)
    return y, y.requires_grad


@program
def create_graph_keeps_the_graph(m):
    x = leaf(m, 3)
    y = (x**2).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    (h,) = m.autograd.grad(y, x)
    return g, h, g.requires_grad, h.requires_grad


@program
def create_graph_with_the_graph_not_retained(m):
    x = leaf(m, 3)
    y = (x.exp() ** 2).sum()
    m.autograd.grad(y, x, create_graph=True, retain_graph=False)
    return attempt(lambda: m.autograd.grad(y, x))


@program
def batched_grad_outputs(m):
    x = leaf(m, 3)
    y = x * x
    return m.autograd.grad(y, x, m.eye(3, dtype=m.float64), is_grads_batched=True)


@program
def grad_outputs_that_require_grad(m):
    x, v = leaf(m, 3), leaf(m, 3)
    (g,) = m.autograd.grad(x * x, x, v, create_graph=True)
    return m.autograd.grad(g.sum(), v)


@program
def grad_under_no_grad(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    with m.no_grad():
        (g,) = m.autograd.grad(y, x, create_graph=True)
    return g, g.requires_grad


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_captures_come_after_hooks_whatever_else_is_wanted() -> None:
    assert deliberate("captures-after-hooks")
    found = {}
    for m in MODULES:
        x = leaf(m, 1)
        h = x * 2
        h.register_hook(lambda g: g * 10)
        alone = m.autograd.grad(h.sum(), [h], retain_graph=True)[0].item()
        beside = m.autograd.grad(h.sum(), [h, x])[0].item()
        found[m] = alone, beside
    assert found == {torch: (10.0, 1.0), ndgrad: (10.0, 10.0)}


def test_reading_the_grad_of_a_result_warns() -> None:
    for m in MODULES:
        h = leaf(m, 2) * 2
        with pytest.warns(UserWarning, match="not a leaf"):
            assert h.grad is None
