"""Saved values: errors about them, access to them, and lifetimes."""

from __future__ import annotations

import gc
import inspect
import weakref

import numpy as np
import pytest
from tests.core.functions import Square
from tests.transforms.table_programs import STEPS, step

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.debug.source_lines import place_of
from ndgrad._src.ops.table import table
from ndgrad.autograd import graph


def leaf(*values: float):
    return ndgrad.tensor(list(values or (1.0, 2.0, 3.0)), requires_grad=True)


def line() -> int:
    """Return the line of the caller."""
    return inspect.currentframe().f_back.f_lineno


def failing_backward(y) -> str:
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.backward()
    return str(caught.value)


# ----- errors for overwritten saves ------------------------------------------------------------------------------------------


def test_an_overwritten_input_names_both_ops_both_versions_and_the_remedy():
    x = leaf()
    h = x.sin()
    y = (h * h).sum()
    h.add_(1.0)
    text = failing_backward(y)
    assert "MulBackward0 saved 'other'" in text
    assert "shape (3,), which is output 0 of Sin," in text
    assert "at version 0" in text
    assert "overwritten by add_: it is at version 1 now" in text
    assert "x = x.add(...) instead of x.add_(...)" in text
    assert "ndgrad.autograd.debug()" in text


def test_an_overwritten_result_is_called_the_result():
    y = leaf().exp()
    z = y.sum()
    y.mul_(2.0)
    assert "ExpBackward0 saved its result" in failing_backward(z)


def test_a_leaf_is_called_a_leaf():
    x = leaf()
    y = (x * x).sum()
    with ndgrad.no_grad():
        x.sub_(0.1)
    assert "a leaf" in failing_backward(y)


@pytest.mark.parametrize(
    ("write", "remedy"),
    [
        (lambda t: t.__setitem__(0, 5.0), "assignments like x"),
        (lambda t: ndgrad.mul(ndgrad.ones(3), 2.0, out=t), "Leave out= away"),
        (lambda t: graph.increment_version(t), "clone"),
    ],
)
def test_the_remedy_fits_the_write(write, remedy):
    w, t = leaf(), ndgrad.ones(3)
    y = (w * t).sum()
    write(t)
    assert remedy in failing_backward(y)


def test_adding_to_a_grad_that_was_used_is_explained():
    x = leaf()
    (x * 2).sum().backward()
    y = (x.grad * x).sum()
    (x * 3).sum().backward()
    assert "set .grad to None" in failing_backward(y)


@pytest.mark.parametrize("mode", ["debug", "anomaly"])
def test_both_lines_are_known_in_modes_that_remember(mode):
    x = leaf()
    with ndgrad.autograd.debug() if mode == "debug" else ndgrad.autograd.set_detect_anomaly(True):
        h = x * 2
        saved = line() + 1
        y = (h * h).sum()
        h.sin_()
        h[0] = 3.0
    text = failing_backward(y)
    file = __file__
    assert f"saved at        {file}:{saved} in test_both_lines_are_known_in_modes_that_remember: y = (h * h).sum()" in text
    assert f"overwritten at  {file}:{saved + 1} in" in text
    assert "h.sin_()" in text
    assert "by sin_ and 1 later write" in text


def test_the_line_of_a_write_through_a_view_is_known():
    x = leaf()
    with ndgrad.autograd.debug():
        h = x * 2
        y = (h * h).sum()
        h[1:].zero_()
        written = line() - 1
    assert f":{written} in" in failing_backward(y)


def test_the_line_of_a_save_is_unknown_if_the_mode_came_later():
    x = leaf()
    h = x * 2
    y = (h * h).sum()
    with ndgrad.autograd.debug():
        h.add_(1)
    text = failing_backward(y)
    assert "saved at        (before the mode" in text
    assert "h.add_(1)" in text


def test_lines_are_the_users_own_even_through_numpy():
    x = ndgrad.numpy.array([1.0, 2.0]) if hasattr(ndgrad.numpy, "array") else None
    if x is None:
        pytest.skip("no NumPy's tensor class")
    x.requires_grad_()
    with ndgrad.autograd.debug():
        y = np.multiply(x, 2.0)
        made = line() - 1
    place = place_of(y.grad_fn)
    assert (place.filename, place.line) == (__file__, made)


def test_lines_do_not_keep_local_variables_alive():
    x = leaf()

    def step():
        big = np.zeros(1000)
        gone.append(weakref.ref(big))
        return x * 2

    gone: list = []
    with ndgrad.autograd.debug(), ndgrad.autograd.set_detect_anomaly(True):
        y = step()
    assert gone[0]() is None
    assert "return x * 2" in place_of(y.grad_fn).text


def test_debug_mode_nests_and_decorates_and_is_left_after_errors():
    busy = len(ndgrad._src.core.modes.process.busy)
    assert not ndgrad.autograd.is_debug_enabled()

    @ndgrad.autograd.debug()
    def inside():
        assert ndgrad.autograd.is_debug_enabled()
        with ndgrad.autograd.set_debug(False):
            assert not ndgrad.autograd.is_debug_enabled()
        assert ndgrad.autograd.is_debug_enabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        inside()
    assert not ndgrad.autograd.is_debug_enabled()
    assert len(ndgrad._src.core.modes.process.busy) == busy


def test_debug_mode_changes_no_gradient():
    def step():
        x, w = leaf(), leaf(0.5, -1.0, 2.0)
        h = (x * w).tanh() * 1
        h[1:] *= 2
        parts = h.split(1)
        return ndgrad.autograd.grad((parts[0] * parts[2] + h.exp().sum()).sum(), (x, w))

    plain = [g.tolist() for g in step()]
    with ndgrad.autograd.debug():
        assert [g.tolist() for g in step()] == plain
    with ndgrad.autograd.guard():
        assert [g.tolist() for g in step()] == plain
    with ndgrad.autograd.set_detect_anomaly(True):
        assert [g.tolist() for g in step()] == plain


# ----- identity and lifetime ---------------------------------------------------------------------------------------------------


def test_an_input_comes_back_as_itself_with_its_attributes_after_its_last_name_has_gone():
    x = leaf()
    h = x * 2
    h.note = ["mine"]
    y = h * h
    seen = weakref.ref(h)
    del h
    assert seen() is not None
    assert y.grad_fn._saved_self.note == ["mine"]
    del y
    assert seen() is None


@pytest.mark.parametrize("part", [lambda a: a[0], lambda a: a.t()[1:], lambda a: a.unbind(0)[0], lambda a: a.unbind(0)[1]])
def test_a_view_comes_back_as_itself_while_somebody_holds_it(part):
    a = ndgrad.ones(3, 2, requires_grad=True) * 2
    view = part(a)
    view.note = "mine"
    y = view * view
    saved = y.grad_fn._saved_self
    assert saved is view
    assert saved.note == "mine"
    del saved, view
    saved = y.grad_fn._saved_self  # its value, history and memory
    assert saved._storage is a._storage
    assert saved.grad_fn is not None
    (g,) = ndgrad.autograd.grad((saved * saved).sum(), a)
    np.testing.assert_allclose(g.numpy(), ndgrad.autograd.grad(y.sum(), a)[0].numpy())


def test_a_write_to_a_saved_view_is_in_the_history_of_its_base():
    x = leaf(1.0, 2.0)
    a = x * 1
    view = a[:1]
    y = view * view
    y.grad_fn._saved_self.mul_(3.0)
    assert ndgrad.autograd.grad(a.sum(), x)[0].tolist() == [3.0, 1.0]


@pytest.mark.parametrize("write", [lambda s: s.mul_(2.0), lambda s: s.view(-1).sin_(), lambda s: s.__setitem__(0, 1.0)])
def test_a_saved_view_that_nobody_holds_is_not_written(write):
    """The base would have to learn of the write, but the graph does not know the base."""
    x = leaf(1.0, 2.0)
    a = x * 1
    y = a[:1] * a[:1]
    with pytest.raises(RuntimeError, match=r"read from a graph.*clone\(\)"):
        write(y.grad_fn._saved_self)
    assert a.tolist() == [1.0, 2.0]
    assert ndgrad.autograd.grad(y.sum(), x)[0].tolist() == [2.0, 0.0]


def test_a_saved_result_makes_no_cycle_whoever_looks_at_it():
    gc.collect()
    gc.disable()
    try:
        y = leaf().exp()
        node = weakref.ref(y.grad_fn)
        result = y.grad_fn._saved_result
        assert result.grad_fn is y.grad_fn
        y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
        del y, result
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("keep", [lambda t: t, lambda t: (t.device, t), lambda t: {"it": t}])
def test_a_pack_hook_that_keeps_a_result_makes_no_cycle(keep):
    gc.collect()
    gc.disable()
    try:
        with graph.saved_tensors_hooks(keep, lambda p: p):
            y = leaf().exp()
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_write_through_a_saved_result_is_noticed():
    y = leaf().exp()
    z = y.sum()
    with ndgrad.no_grad():
        y.grad_fn._saved_result.mul_(2.0)
    assert y._version == 1
    failing_backward(z)


# ----- hooks -----------------------------------------------------------------------------------------------------------------------


def test_hooks_keep_the_history_of_what_they_replace():
    x = leaf()
    with graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), ndgrad.tensor):
        y = (x.exp() * x**3).sum()
    (g,) = ndgrad.autograd.grad(y, x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g.sum(), x)
    a = x.detach().numpy()
    assert np.allclose(h.numpy(), np.exp(a) * (a**3 + 6 * a**2 + 6 * a))


def test_save_on_cpu_does_not_hide_a_write():
    x = leaf()
    with graph.save_on_cpu():
        h = x * 2
        y = (h * h).sum()
    h.add_(1.0)
    failing_backward(y)


def test_an_unpacked_value_of_another_shape_is_refused():
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t[:2]):
        y = (leaf() ** 2).sum()
    with pytest.raises(RuntimeError, match=r"shape \(2,\) for a saved one of shape \(3,\)"):
        y.backward()


def test_hooks_that_raise_leave_modes_as_they_were():
    x = leaf()

    def fail(t):
        raise KeyError("no")

    with pytest.raises(KeyError), graph.saved_tensors_hooks(fail, lambda t: t):
        x * x
    assert ndgrad.is_grad_enabled()
    assert len(ndgrad._src.core.modes.process.busy) == bool(ndgrad._src.core.modes.process.shared)
    with graph.saved_tensors_hooks(lambda t: t, fail):
        y = (x * x).sum()
    with pytest.raises(KeyError):
        y.backward()
    assert len(ndgrad._src.core.modes.process.busy) == bool(ndgrad._src.core.modes.process.shared)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_allow_mutation_keeps_results_and_custom_saves_too():
    x = leaf()
    with graph.allow_mutation_on_saved_tensors() as context:
        h = x * 1
        y, z = h.exp(), Square.apply(h)
        total = y.sum() + z.sum()
        y.zero_()
        h.zero_()
        context.clear()
    total.backward()
    a = x.detach().numpy()
    assert np.allclose(x.grad.numpy(), np.exp(a) + 2 * a)


def test_allow_mutation_through_views():
    x = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        a = x.clone()
        out = (a[0] * a[1]).sum()
        a[0].mul_(10)
        out = out + (a * a).sum()
        a.zero_()
        out.backward()
    assert x.grad.tolist() == [[3.0 + 200.0, 4.0 + 400.0], [1.0 + 6.0, 2.0 + 8.0]]


def test_hooks_can_be_set_on_the_parts_of_a_list():
    x = ndgrad.ones(3, 3, requires_grad=True)
    y = x[[0, 2], [1, 1]]
    parts = y.grad_fn._raw_saved_indices
    assert [p.unpack().tolist() for p in parts] == [[0, 2], [1, 1]]
    parts[1].register_hooks(lambda t: t.tolist(), lambda kept: ndgrad.tensor([0, 0]))
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_nodes_show_only_what_they_save():
    y = leaf() * leaf()
    shown = {n for n in dir(y.grad_fn) if n.startswith("_saved_")}
    assert {"_saved_self", "_saved_other"} <= shown
    assert "_saved_result" not in shown
    assert not hasattr(y.grad_fn, "_saved_nothing")


def test_hooks_inside_transforms_keep_batches_and_refuse_to_cut_outer_graphs():
    rows = ndgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x = ndgrad.tensor([0.1, -0.2, 0.3])

    def slope(c):
        return ndgrad.func.grad(lambda x: (x.exp() * c).sin().sum())(x)

    expected = ndgrad.func.vmap(slope)(rows)
    curvature = ndgrad.func.grad(lambda c: slope(c).sum())
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        assert ndgrad.allclose(ndgrad.func.vmap(slope)(rows), expected)
        with pytest.raises(RuntimeError, match="lost its history"):
            curvature(rows[0])
    with graph.saved_tensors_hooks(lambda t: [t], lambda held: held[0]):
        assert ndgrad.allclose(curvature(rows[0]), ndgrad.func.jacfwd(lambda c: slope(c).sum())(rows[0]))


INDICES_TOO = [
    next(s for s in STEPS if s.split()[0] == name) for name in sorted({s.split()[0] for s in STEPS}) if table[name].discrete_outputs
]


@pytest.mark.parametrize("name", INDICES_TOO)
def test_hooks_inside_transforms_are_given_indices_as_batches(name):
    """An output without gradient has no node. The level of its payload must still be known, or hooks could not use it."""
    f = step(name)
    slope = ndgrad.func.grad(lambda x: (f(x) ** 2).sum())
    rows = ndgrad.tensor([[0.3, -0.4], [0.1, 0.2]])
    expected = ndgrad.stack([slope(row) for row in rows])
    for pack in (lambda t: t.detach(), lambda t: t.clone() * 1):
        with graph.saved_tensors_hooks(pack, lambda t: t):
            np.testing.assert_allclose(ndgrad.func.vmap(slope)(rows).numpy(), expected.numpy(), rtol=1e-10)
            np.testing.assert_allclose(slope(rows[1]).numpy(), expected[1].numpy(), rtol=1e-10)


def test_on_numpys_class_what_a_hook_passed_on_is_rebuilt_after_a_write():
    x = dnp.array([0.3, -0.7]).requires_grad_()
    with graph.save_on_cpu():
        y = dnp.sin(x)
        z = y * y
        y[0] = 5.0
        y += 1
    dnp.sum(z).backward()
    assert np.allclose(np.asarray(x.grad), np.sin(2 * np.array([0.3, -0.7])))


def parameter(values):
    return ndgrad.nn.Parameter(ndgrad.tensor(values, dtype=ndgrad.float64))


def leaf_array(values):
    return dnp.array(values).requires_grad_()


@pytest.mark.parametrize("make", [parameter, leaf_array])
def test_what_lies_as_it_was_saved_is_read_without_a_detour(make, monkeypatch):
    x, y = make([1.0, 2.0]), make([3.0, 4.0])
    z = x * y

    def refuse(node, name):
        raise AssertionError(f"{name} took the way of values that are not simply there")

    monkeypatch.setitem(type(z._node).apply.__globals__, "unpack_raw", refuse)
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert y.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("other", [2.0, 3], ids=type)
def test_arithmetic_of_constants_makes_no_storage(other):
    x, y = dnp.array([1.0, 2.0]), dnp.array([3.0, 4.0])
    assert (x * y * other / y).tolist() == [1.0 * other, 2.0 * other]
    assert x._storage is None
    assert y._storage is None


def test_constant_beside_a_gradient_is_restored_after_a_write():
    x, y = leaf_array([1.0, 2.0]), dnp.array([3.0, 4.0])
    z = x * y + y / x
    y[0] = 50.0
    z.sum().backward()
    assert x.grad.tolist() == [3.0 - 3.0, 4.0 - 1.0]
