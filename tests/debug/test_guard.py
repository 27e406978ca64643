"""Guard mode: writes that bypass the library are detected, and the library's own writes are not reported."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.functions import Square

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.debug.checksum import checksum

CHANGED = "changed behind the library's back"


def leaf(*values: float):
    return ndgrad.tensor(list(values or (1.0, 2.0, 3.0)), requires_grad=True)


def test_a_write_through_the_array_that_a_tensor_was_made_of():
    data = np.ones(3)
    w = leaf()
    with ndgrad.autograd.guard():
        y = (w * ndgrad.from_numpy(data)).sum()
    data[1] = 7.0
    with pytest.raises(RuntimeError, match=CHANGED) as caught:
        y.backward()
    text = str(caught.value)
    assert "MulBackward0" in text
    assert "'other'" in text
    assert "test_guard.py" in text
    assert "y = (w * ndgrad.from_numpy(data)).sum()" in text
    assert w.grad is None


def test_a_write_through_numpy_of_a_tensor():
    x = leaf()
    with ndgrad.autograd.guard():
        h = x * 2
        y = (h * h).sum()
    h.detach().numpy()[0] = 100.0
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()


def test_a_write_through_an_array_that_came_before_the_memory_was_read_only():
    data = np.ones(3)
    early = data[:]
    data.flags.writeable = False
    w = leaf()
    with ndgrad.autograd.guard():
        y = (w * ndgrad.from_numpy(data)).sum()
    early[0] = 3.0
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()


def test_a_saved_result_is_guarded_too():
    x = leaf()
    with ndgrad.autograd.guard():
        y = x.exp()
    z = y.sum()
    y.detach().numpy()[2] = 0.0
    with pytest.raises(RuntimeError, match="its result"):
        z.backward()


def test_a_write_through_data_is_noticed():
    x = leaf()
    with ndgrad.autograd.guard():
        y = (x * x).sum()
    x.data.mul_(2.0)
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()


def test_custom_functions_are_guarded():
    data = np.ones(3)
    x = ndgrad.from_numpy(data).requires_grad_()
    with ndgrad.autograd.guard():
        y, z = Square.apply(x).sum(), Square.apply(x).sum()
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    data[0] = 5.0
    with pytest.raises(RuntimeError, match="SquareBackward"):
        z.backward()


def test_create_graph_and_transforms_are_guarded():
    data = np.ones(3)
    c = ndgrad.from_numpy(data)
    x = leaf()
    with ndgrad.autograd.guard():
        y = (x * x * c).sum()
        (g,) = ndgrad.autograd.grad(y, x, create_graph=True)
        assert ndgrad.autograd.grad(g.sum(), x)[0].tolist() == [2.0, 2.0, 2.0]
        data[0] = 2.0
        with pytest.raises(RuntimeError, match=CHANGED):
            ndgrad.autograd.grad(y, x, create_graph=True)

        def spoils(t):
            out = (t * c).sum()
            data[0] += 1.0
            return out

        with pytest.raises(RuntimeError, match=CHANGED):
            ndgrad.func.grad(spoils)(x.detach())


def test_second_derivatives_and_batches_are_right_under_guard():
    x = leaf()
    f = ndgrad.func.hessian(lambda t: (t.exp() * t**2).sum())
    plain = f(x.detach()).tolist()
    with ndgrad.autograd.guard():
        assert f(x.detach()).tolist() == plain
        assert ndgrad.func.vmap(ndgrad.func.grad(lambda t: (t * t.sin()).sum()))(ndgrad.ones(2, 3)).shape == (2, 3)


def test_writes_through_the_library_are_the_ordinary_error():
    x = leaf()
    with ndgrad.autograd.guard():
        h = x * 2
        y = (h * h).sum()
        h.add_(1.0)
    with pytest.raises(RuntimeError, match="overwritten by add_"):
        y.backward()


def test_a_write_that_increment_version_announced_is_the_ordinary_error():
    data = np.ones(3)
    c, x = ndgrad.from_numpy(data), leaf()
    with ndgrad.autograd.guard():
        y = (x * c).sum()
    data[0] = 2.0
    ndgrad.autograd.graph.increment_version(c)
    with pytest.raises(RuntimeError, match="overwritten by increment_version"):
        y.backward()


def test_saves_that_numpys_class_rebuilds_pass():
    anp = ndgrad.numpy
    x = anp.asarray(np.array([1.0, 2.0, 3.0]))
    x.requires_grad_()
    with ndgrad.autograd.guard():
        u = x * 1.0
        total = (u * u).sum()
        u[0] = 10.0
        total = total + (u * u).sum()
        u *= 2.0
        total = total + u.exp().sum() * 0.0
    total.backward()
    assert x.grad.tolist() == [2.0, 8.0, 12.0]


def test_a_write_behind_the_back_is_found_in_what_numpys_class_rebuilds():
    anp = ndgrad.numpy
    x = anp.asarray(np.array([1.0, 2.0, 3.0]))
    x.requires_grad_()
    with ndgrad.autograd.guard():
        u = x * 1.0
        total = (u * u).sum()
        u[0] = 10.0
    u._array[1] = 77.0
    with pytest.raises(RuntimeError, match=CHANGED):
        total.backward()


def test_mutation_that_is_allowed_passes():
    x = leaf()
    with ndgrad.autograd.guard(), ndgrad.autograd.graph.allow_mutation_on_saved_tensors():
        h = x * 1
        y = (h * h).sum()
        h.zero_()
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_the_same_bytes_written_again_are_no_change():
    data = np.ones(3)
    w = leaf()
    with ndgrad.autograd.guard():
        y = (w * ndgrad.from_numpy(data)).sum()
    data[:] = 1.0
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_guard_is_off_outside_its_block():
    busy = len(ndgrad._src.core.modes.process.busy)
    assert not ndgrad.autograd.is_guard_enabled()
    with ndgrad.autograd.guard():
        assert ndgrad.autograd.is_guard_enabled()
        with ndgrad.autograd.set_guard(False):
            assert not ndgrad.autograd.is_guard_enabled()
    assert not ndgrad.autograd.is_guard_enabled()
    assert len(ndgrad._src.core.modes.process.busy) == busy


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(4, 6),
        np.asfortranarray(np.arange(24.0).reshape(4, 6)),
        np.arange(24.0).reshape(4, 6)[::2, ::-1],
        np.array(3.0),
        np.zeros((0, 3)),
        np.arange(6, dtype=np.complex64),
        np.array([True, False]),
        np.arange(6, dtype=np.float16),
    ],
    ids=["c", "fortran", "strided", "0-d", "empty", "complex", "bool", "half"],
)
def test_the_checksum_depends_on_every_element(array):
    before = checksum(array)
    assert checksum(array) == before
    for index in np.ndindex(array.shape):
        changed = array.copy("K")
        changed[index] = changed[index] + 1 if array.dtype.kind != "b" else not changed[index]
        assert checksum(changed) != before


def test_the_checksum_tells_elements_that_changed_places():
    a = np.arange(8.0)
    assert checksum(a) != checksum(a[::-1].copy())


@pytest.mark.parametrize(
    "part",
    [lambda t: t.T, lambda t: t[::-1], lambda t: t[:, 1:], lambda t: np.broadcast_to(t[:, :1], (2, 4)), lambda t: t.T[:, None]],
    ids=["transposed", "reversed", "columns", "repeated", "transposed with a new axis"],
)
def test_what_is_rebuilt_after_a_write_has_its_checksum_whatever_order_it_lies_in(part):
    """The rebuilt copy has another memory order than the saved value."""
    x = dnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).requires_grad_()
    with ndgrad.autograd.guard():
        t = x * 1.0
        y = (part(t) * part(t)).sum()
        t *= 10.0
        y.backward()
    z = x.detach().requires_grad_()
    (part(z) ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy())


def test_a_repeated_element_is_read_once():
    wide = np.broadcast_to(np.arange(3.0)[:, None], (3, 1_000_000))
    assert checksum(wide) == checksum(np.arange(3.0)[:, None])
