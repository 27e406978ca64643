"""Views and in-place writes: histories, versions, and refused writes."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad


def base(*shape):
    """Return a leaf and a non-leaf copy of it, which may be written in place."""
    x = ndgrad.tensor(np.arange(1.0, 1 + np.prod(shape)).reshape(shape), requires_grad=True)
    return x, x * 1.0


def test_a_write_to_the_base_is_seen_by_its_views():
    x, y = base(2, 3)
    v = y[0]
    y.mul_(2.0)
    v.sum().backward()
    assert v.tolist() == [2.0, 4.0, 6.0]
    assert x.grad.tolist() == [[2.0] * 3, [0.0] * 3]


def test_a_write_through_a_view_rebases_the_history_of_the_base():
    x, y = base(2, 3)
    y[0].mul_(3.0)
    y.sum().backward()
    assert x.grad.tolist() == [[3.0] * 3, [1.0] * 3]


def test_a_write_through_one_view_refreshes_every_other_view():
    x, y = base(2, 3)
    row, column, whole = y[0], y[:, 1], y.reshape(6)
    row.mul_(3.0)
    (column.sum() + whole[1] * 10.0).backward()
    assert column.tolist() == [6.0, 5.0]
    assert x.grad.tolist() == [[0.0, 33.0, 0.0], [0.0, 1.0, 0.0]]


def test_chains_of_views_replay_through_their_view_functions():
    x, y = base(2, 3, 4)
    v = y.transpose(0, 2).reshape(4, 3, 2)[1:3, :, 0][0]
    v.mul_(v.detach() * 2.0)
    y.sum().backward()
    expected = np.ones((2, 3, 4))
    expected[0, :, 1] = 2 * np.arange(1.0, 25).reshape(2, 3, 4)[0, :, 1]
    assert np.array_equal(x.grad._array, expected)


def test_views_and_base_share_one_version():
    _, y = base(3)
    v, w = y[0:2], y[1]
    assert (y._version, v._version, w._version) == (0, 0, 0)
    v.mul_(2.0)
    y[2] = 5.0
    assert (y._version, v._version, w._version) == (2, 2, 2)


def test_detach_shares_memory_and_version():
    _, y = base(3)
    d = y.detach()
    d.mul_(2.0)
    assert y.tolist() == [2.0, 4.0, 6.0]
    assert y._version == d._version == 1


def test_overwriting_a_saved_input_raises_with_versions_and_names():
    _, y = base(3)
    z = y * y
    y.add_(1.0)
    with pytest.raises(RuntimeError, match=r"MulBackward0.*version 0.*by add_.*version 1.*clone\(\)"):
        z.sum().backward()


def test_overwriting_a_saved_output_raises():
    x, _ = base(3)
    z = x.exp()
    z.mul_(2.0)
    with pytest.raises(RuntimeError, match="ExpBackward0"):
        z.sum().backward()


def test_overwriting_what_nobody_saved_is_fine():
    x, _ = base(3)
    z = x + 1.0
    z.mul_(2.0)
    z.sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_an_in_place_op_that_needs_its_old_value_keeps_it():
    x, y = base(3)
    w = ndgrad.tensor([2.0, 3.0, 4.0], requires_grad=True)
    y.mul_(w)
    y.sum().backward()
    assert w.grad.tolist() == [1.0, 2.0, 3.0]
    assert x.grad.tolist() == [2.0, 3.0, 4.0]


def test_an_in_place_op_that_saves_its_output():
    x, y = base(3)
    y.exp_()
    y.sum().backward()
    assert np.allclose(x.grad._array, np.exp([1.0, 2.0, 3.0]))


def test_double_backward_through_in_place_writes_on_views():
    x, y = base(3)
    y[0].mul_(y[1].clone())
    product = y[0].clone()
    y[2] = product * product
    (g,) = ndgrad.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = ndgrad.autograd.grad((g * g).sum(), x)
    a, b = 1.0, 2.0  # y.sum() = ab + b + (ab)^2
    g1, g2 = b + 2 * a * b * b, a + 1 + 2 * a * a * b
    assert np.allclose(g._array, [g1, g2, 0.0])
    assert np.allclose(
        h._array, [2 * g1 * 2 * b * b + 2 * g2 * (1 + 4 * a * b), 2 * g1 * (1 + 4 * a * b) + 2 * g2 * 2 * a * a, 0.0]
    )


@pytest.mark.parametrize("write", [lambda t: t.mul_(2.0), lambda t: t.__setitem__(0, 1.0), lambda t: t[0:1].mul_(2.0)])
def test_writing_a_leaf_that_requires_grad_raises_and_changes_nothing(write):
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"leaf.*no_grad\(\)"):
        write(x)
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0


def test_writing_a_leaf_under_no_grad_is_allowed():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    with ndgrad.no_grad():
        x.mul_(2.0)
    assert x.tolist() == [2.0, 4.0]
    assert x._version == 1


def test_a_view_made_under_no_grad_cannot_be_written_with_grad():
    _, y = base(3)
    with ndgrad.no_grad():
        v = y[0:2]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        v.mul_(2.0)


def test_multi_output_views_cannot_be_written():
    _, y = base(2, 3)
    first, _ = y.unbind(0)
    with pytest.raises(RuntimeError, match="a function that returns multiple views"):
        first.mul_(2.0)


def test_a_failed_write_leaves_value_version_and_history():
    _, y = base(2, 3)
    node = y.grad_fn
    with pytest.raises(RuntimeError, match="shape"):
        y.mul_(ndgrad.tensor(np.ones((4, 2, 3))))
    with pytest.raises((RuntimeError, TypeError)):
        y.mul_(ndgrad.tensor(np.ones(3) * 1j))
    with pytest.raises((IndexError, RuntimeError)):
        y[7] = 1.0
    assert y.grad_fn is node
    assert y._version == 0
    assert np.array_equal(y._array, np.arange(1.0, 7).reshape(2, 3))


def test_writing_an_expanded_tensor_raises():
    x = ndgrad.tensor([1.0]).expand(3)
    with pytest.raises(RuntimeError, match=r"(single memory location|read-only).*clone\(\)"):
        x.mul_(2.0)


def test_writing_read_only_memory_raises():
    a = np.ones(3)
    a.flags.writeable = False
    t = ndgrad.from_numpy(a)
    with pytest.raises(RuntimeError, match="read-only"):
        t.mul_(2.0)


def test_reading_and_writing_slices_of_one_buffer_on_torchs_class_raises():
    w = ndgrad.tensor(2.0, requires_grad=True)
    u = ndgrad.zeros(3)
    u[0] = w
    u[1] = u[0] * w
    u[2] = u[1] * w
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        u.sum().backward()


def test_an_element_of_a_leaf_is_changed_in_place_under_no_grad():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    with ndgrad.no_grad():
        x[0] += 3.0  # a view made and written under no_grad, then assigned to its own location
    assert x.tolist() == [4.0, 2.0]
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


# ----- leaves and bases that change their own shape in place ---------------------------------------------------------------------------


@pytest.mark.parametrize("change", [lambda t: t.t_(), lambda t: t.unsqueeze_(0), lambda t: t.transpose_(0, 1).unsqueeze_(-1)])
def test_a_leaf_that_changes_its_shape_gets_the_gradients_of_graphs_from_before(change):
    weights = ndgrad.tensor([[1.0, 2.0], [3.0, 5.0]])
    x = ndgrad.tensor([[0.5, 1.5], [2.5, 3.5]], requires_grad=True)
    before = (x * weights).sum()
    with ndgrad.no_grad():
        change(x)
    factors = ndgrad.arange(1.0, 5.0).reshape(x.shape)
    after = (x * factors).sum()
    moved = change(weights.clone())
    expected = {"before": moved, "after": factors, "both": moved + factors}
    for name, loss in {"before": before, "after": after, "both": before + after}.items():
        (g,) = ndgrad.autograd.grad(loss, x, retain_graph=True)
        assert g.tolist() == expected[name].tolist()
        (g,) = ndgrad.autograd.grad(loss, x, create_graph=True)
        assert g.tolist() == expected[name].tolist()
        x.grad = None
        loss.backward(retain_graph=True)
        assert x.grad.tolist() == expected[name].tolist()


def test_an_argument_of_a_transform_may_not_change_its_shape_in_place():
    def f(x):
        with ndgrad.no_grad():
            x.t_()
        return x.sum()

    with pytest.raises(RuntimeError, match="out-of-place form, t()"):
        ndgrad.func.grad(f)(ndgrad.ones(2, 3))


def test_a_view_of_a_base_that_has_changed_its_shape_keeps_its_history():
    x, y = base(2, 3)
    v = y[0]
    v.retain_grad()
    y.t_()
    assert v.grad is None
    assert v.requires_grad
    (v * v).sum().backward()
    assert v.grad.tolist() == [2.0, 4.0, 6.0]
    assert x.grad.tolist() == [[2.0, 4.0, 6.0], [0.0] * 3]


def test_a_view_of_a_base_that_has_changed_its_shape_and_was_written_raises():
    _, y = base(2, 3)
    v = y[0]
    y.t_()
    y.mul_(2.0)
    with pytest.raises(RuntimeError, match="changed its own shape in place since"):
        v.sum().backward()


VIEWS = {
    "select": lambda x: x[0],
    "slice": lambda x: x[:, 1:],
    "view": lambda x: x.view(2, 2, 2),
    "transpose": lambda x: x.transpose(0, 1),
    "expand": lambda x: x[:, :1].expand(2, 4)[:, 0],
    "split": lambda x: x.split(2, dim=1)[1],
    "view of a view": lambda x: x.unsqueeze(0)[0, 1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_without_recording_shares_memory_and_refuses_recorded_writes(name: str) -> None:
    x = ndgrad.arange(8.0).reshape(2, 4).clone()
    with ndgrad.no_grad():
        view = VIEWS[name](x)
        view.fill_(-1.0)
    assert (view == -1.0).all()
    np.testing.assert_array_equal(VIEWS[name](x), view)
    assert view._is_view()
    assert view._base is x
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="no_grad"):
        view.mul_(ndgrad.ones((), requires_grad=True))
