"""Views and in-place writes: the classic programs, by name, on torch and on ndgrad alike. Random ones are in test_random_views_inplace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both

PROGRAMS = Programs()
program = PROGRAMS.enter

# ----- histories ---------------------------------------------------------------------------------------------------------


@program
def writes_through_two_views_that_share_elements(m):
    x = leaf(m, 3, 3)
    y = x * 1
    row, column = y[1], y[:, 1]
    row.mul_(2)
    column.mul_(row[0])
    (y * y).sum().backward()
    return y, x.grad


@program
def a_constant_base_gets_a_history_through_its_view(m):
    x = leaf(m, 2)
    base = m.zeros(2, 2, dtype=m.float64)
    row, other = base[0], base[1]
    row.copy_(x)
    (base * base).sum().backward()
    return base.requires_grad, row.requires_grad, other.requires_grad, base.is_leaf, x.grad


@program
def a_view_taken_before_the_base_required_grad(m):
    base = m.zeros(3, dtype=m.float64)
    v = base[:2]
    base.mul_(1.0)
    base.requires_grad_()
    v.sum().backward()
    return v.requires_grad, v.is_leaf, base.grad


@program
def a_leaf_that_is_a_view(m):
    base = m.ones(3, dtype=m.float64)
    v = base[:2].requires_grad_()
    (v * v).sum().backward()
    return v.is_leaf, v._is_view(), v.grad, base.requires_grad


@program
def broadcast_value_in_a_copy(m):
    x, row = leaf(m, 2, 3), leaf(m, 3)
    y = x * 1
    y.copy_(row)
    (y * m.tensor([[1.0], [10.0]], dtype=m.float64)).sum().backward()
    return x.grad, row.grad


@program
def copy_from_another_dtype(m):
    x = m.tensor([1.0, 2.0], dtype=m.float32, requires_grad=True)
    y = m.zeros(2, dtype=m.float64)
    y.copy_(x)
    (y * y).sum().backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


@program
def setting_items_of_every_kind(m):
    x = leaf(m, 3, 4)
    y = x * 1
    y[0, 1] = x[2, 3] * 2
    y[1:, ::2] = x[:2, :2]
    y[m.tensor([0, 2]), m.tensor([3, 0])] = x[0, :2]
    y[y.detach() > 11] = 0.5
    y[..., -1] = 3.0
    (y * y).sum().backward()
    return y, x.grad


@program
def setting_an_item_to_itself(m):
    x = leaf(m, 3)
    y = x * 1
    y[0] = y[0]
    y[1] = y[2]
    (y * y).sum().backward()
    return y, x.grad


@program
def the_whole_is_no_part(m):
    x, z = leaf(m, 3), leaf(m, 3)
    names = []
    for index in (slice(None), Ellipsis, slice(0, 5), slice(0, 2)):
        y = x * 1
        y[index] = z[index]
        names.append("Slices" in y.grad_fn.name())
    return names


@program
def real_and_imaginary_parts_are_views(m):
    z = m.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    w = z * 1
    w.real.mul_(3.0)
    w.imag[0] = 5.0
    (w.real * w.real + w.imag).sum().backward()
    return w, z.grad


@program
def chunks_may_be_read_after_a_write_to_none_of_them(m):
    x = leaf(m, 4)
    a, b = (x * 2).chunk(2)
    (a * b).sum().backward()
    return x.grad, a._is_view(), a._base is b._base


@program
def second_derivative_through_writes(m):
    x = leaf(m, 3)
    y = x * x
    y[0].mul_(x[1])
    y[1:].exp_()
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad((g * g).sum(), x)
    return [round(v, 6) for v in g.tolist()], [round(v / abs(v), 6) if v else 0 for v in h.tolist()]


@program
def retain_grad_follows_the_newest_value_of_a_base(m):
    x = leaf(m, 3)
    y = x * 1
    y.retain_grad()
    y[0] = 5.0
    y[1:].mul_(3.0)
    (y * y).sum().backward()
    return y.grad, x.grad


@program
def retain_grad_follows_the_newest_value_of_a_view(m):
    x = leaf(m, 3)
    y = x * 1
    v = y[:2]
    v.retain_grad()
    y.mul_(3.0)
    (v * v).sum().backward()
    return v.grad, x.grad


# ----- versions ----------------------------------------------------------------------------------------------------------


@program
def versions_count_writes_through_anyone(m):
    x = leaf(m, 3)
    y = x * 1
    v, d = y[:2], y.detach()
    v.add_(1.0)
    d.mul_(2.0)
    with m.no_grad():
        y.zero_()
    y.data.add_(1.0)
    return y._version, v._version, d._version


@program
def saved_view_overwritten_through_its_base(m):
    x = leaf(m, 3)
    y = x * 1
    z = y[1:] * y[:-1]
    y.zero_()
    z.sum().backward()


@program
def saved_leaf_overwritten_under_no_grad(m):
    x = leaf(m, 3)
    z = x * x
    with m.no_grad():
        x.zero_()
    z.sum().backward()


@program
def saved_value_overwritten_through_detach(m):
    x = leaf(m, 3)
    z = x.exp()
    z.detach().zero_()
    z.sum().backward()


@program
def a_write_between_two_backwards(m):
    x = leaf(m, 3)
    y = x.clone()
    z = y * y
    z.sum().backward(retain_graph=True)
    y.add_(1.0)
    z.sum().backward()


@program
def an_in_place_op_that_saves_its_output_then_overwritten(m):
    x = leaf(m, 3)
    y = x.clone().exp_()
    y.mul_(2.0)
    y.sum().backward()


# ----- refusals ----------------------------------------------------------------------------------------------------------


@program
def writing_a_no_grad_view_of_a_constant(m):
    y = m.zeros(3, dtype=m.float64)
    with m.no_grad():
        v = y[:2]
    v.add_(1.0)
    return y, v._version


@program
def writing_a_differentiable_value_into_a_no_grad_view_of_a_constant(m):
    y = m.zeros(3, dtype=m.float64)
    with m.no_grad():
        v = y[:2]
    v.add_(leaf(m, 2))


@program
def reading_a_no_grad_view_after_its_base_was_written(m):
    y = leaf(m, 3) * 1
    with m.no_grad():
        v = y[:2]
    y.add_(1.0)
    return v * 2


@program
def writing_an_unbound_view_under_no_grad_then_reading_it(m):
    y = leaf(m, 2, 2) * 1
    a, _ = y.unbind()
    with m.no_grad():
        a.add_(1.0)
    return a * 2


@program
def writing_the_base_of_unbound_views(m):
    y = leaf(m, 2, 2) * 1
    a, _ = y.unbind()
    y.add_(1.0)
    return a.sum()


@program
def what_an_unusable_view_still_tells(m):
    x = leaf(m, 2, 2)
    v = x.unbind()[0]
    with m.no_grad():
        x.add_(1.0)
    return v.requires_grad, v._version, v.detach(), v.grad, attempt(lambda: v.grad_fn), attempt(lambda: v.is_leaf)


@program
def writing_a_view_of_an_unbound_view(m):
    a, _ = (leaf(m, 2, 2) * 1).unbind()
    a[0].add_(1.0)


@program
def writing_floats_into_integers(m):
    m.ones(3, dtype=m.int64).mul_(1.5)


@program
def detaching_a_view_in_place(m):
    (leaf(m, 3) * 1)[0].detach_()


@program
def writing_a_view_whose_base_was_detached(m):
    y = leaf(m, 3).clone()
    v = y[:2]
    y.detach_()
    v[0] = 1.0


@program
def a_leaf_moved_into_the_interior(m):
    x = leaf(m, 3)
    y = x.clone()
    x.detach_()
    x.copy_(y)
    x.sum().backward()


@program
def a_leaf_that_stopped_requiring_grad(m):
    x, w = leaf(m, 3), leaf(m, 3)
    y = x * w
    x.requires_grad_(False)
    y.sum().backward()
    return x.grad, w.grad


@program
def a_second_backward_through_a_write(m):
    y = leaf(m, 3).clone()
    y[0] = 1.0
    y.sum().backward()
    y.sum().backward()


# ----- inference mode ----------------------------------------------------------------------------------------------------


@program
def inference_views_of_normal_tensors_are_normal(m):
    x = leaf(m, 3)
    with m.inference_mode():
        v, made = x[:2], x * 2
        v.mul_(2.0)
    return v.is_inference(), made.is_inference(), x._version, v._is_view(), attempt(lambda: made._version), x


@program
def inference_tensors_cannot_be_saved(m):
    with m.inference_mode():
        t = m.ones(3, dtype=m.float64)
    return leaf(m, 3) * t


@program
def inference_tensors_can_be_used_where_nothing_is_saved(m):
    with m.inference_mode():
        t = m.ones(3, dtype=m.float64)
    x = leaf(m, 3)
    y = x + t
    y.sum().backward()
    return x.grad, y.is_inference(), t[0].is_inference(), t.detach().is_inference(), (t * 2).is_inference(), t[0]._is_view()


@program
def inference_tensors_cannot_be_written_outside(m):
    with m.inference_mode():
        t = m.ones(3, dtype=m.float64)
        t.add_(1.0)
    t.add_(1.0)


@program
def inference_tensors_cannot_be_saved_through_views(m):
    with m.inference_mode():
        t = m.ones(3, dtype=m.float64)
    return leaf(m, 2) * t[:2]


@program
def writing_an_inference_view_outside(m):
    y = leaf(m, 3) * 1
    with m.inference_mode():
        v = y[:2]
    v.add_(1.0)


@program
def enable_grad_does_not_record_in_inference_mode(m):
    x = leaf(m, 3)
    with m.inference_mode():
        before = m.is_grad_enabled()
        with m.enable_grad():
            y = x * 2
            inside = m.is_grad_enabled()
        with m.inference_mode(False):
            z = x * 2
            normal = m.is_grad_enabled()
        after = m.is_grad_enabled()
    return before, inside, normal, after, m.is_grad_enabled(), y.requires_grad, y.is_inference(), z.requires_grad


@program
def a_clone_of_an_expanded_tensor_is_contiguous(m):
    t = m.ones(2, 3, dtype=m.float64).unsqueeze(0).expand(2, 2, 3).clone()
    return t.is_contiguous(), t.reshape(-1)._is_view()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same numbers, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


# ----- deliberate differences ------------------------------------------------------------------------------------------------


def test_overlapping_operands_are_read_before_the_write() -> None:
    assert deliberate("overlapping-writes")
    t = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        t[1:].add_(t[:-1])
    x = ndgrad.arange(4.0).requires_grad_()
    y = x.clone()
    y[1:].add_(y[:-1])
    assert y.tolist() == [0.0, 1.0, 3.0, 5.0]
    (y * ndgrad.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [11.0, 110.0, 1100.0, 1000.0]


def test_views_without_history_do_not_require_grad() -> None:
    assert deliberate("views-without-history")
    says, raises = {}, {}
    for m in MODULES:
        x = leaf(m, 3)
        with m.no_grad():
            v = x[:2]
        says[m] = v.requires_grad
        raises[m] = attempt(lambda v=v: (v * 2).sum().backward())
        assert v.grad_fn is None
        assert x.grad is None
    assert says == {torch: True, ndgrad: False}
    assert raises == {torch: None, ndgrad: "RuntimeError"}


def test_a_view_of_a_base_that_was_detached_and_written_has_no_history() -> None:
    assert deliberate("views-without-history")
    for m in MODULES:
        x = leaf(m, 3)
        y = x.clone()
        v = y[:2]
        y.detach_()
        y.zero_()
        assert attempt(lambda v=v: v.sum().backward()) == (None if m is torch else "RuntimeError")
        assert x.grad is None


def test_a_saved_result_that_was_detached_in_place_keeps_its_history() -> None:
    assert deliberate("detached-saves")
    for m in MODULES:
        x = leaf(m, 3)
        y = x.exp()
        z = x * y
        y.detach_()
        if m is torch:
            with pytest.raises(RuntimeError, match="detached in-place"):
                z.sum().backward()
            continue
        (g,) = m.autograd.grad(z.sum(), x, create_graph=True)
        (h,) = m.autograd.grad(g.sum(), x)
        e = np.exp(np.arange(1.0, 4.0))
        np.testing.assert_allclose(g.detach().numpy(), e * np.arange(2.0, 5.0))
        np.testing.assert_allclose(h.numpy(), e * np.arange(3.0, 6.0))


def test_expanded_tensors_are_not_filled() -> None:
    assert deliberate("refused-beyond")
    assert torch.ones(1).expand(3).fill_(2.0).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError):
        ndgrad.ones(1).expand(3).fill_(2.0)
