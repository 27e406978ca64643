"""Shape functions: argument forms, views and copies, and errors that leave everything unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import func
from ndgrad._src.interpreters import forward_ad

A = np.arange(24.0).reshape(2, 3, 4)


def leaf(array):
    return ndgrad.tensor(array, requires_grad=True)


def values(t):
    return np.asarray(t.detach().numpy())


def gradient(f, array):
    """Return the gradient of a scalar function by its rules."""
    x = leaf(array)
    return values(ndgrad.autograd.grad(f(x), x)[0])


def differences(f, array, step=1e-6):
    """Return the gradient by central differences."""
    out = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        moved = [array.copy(), array.copy()]
        moved[0][i] += step
        moved[1][i] -= step
        high, low = (float(f(ndgrad.tensor(m)).item()) for m in moved)
        out[i] = (high - low) / (2 * step)
    return out


# ----- forms of arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: ndgrad.squeeze(x[:1], axis=0), lambda a: np.squeeze(a[:1], axis=0)),
        (lambda x: ndgrad.unsqueeze(x, axis=1), lambda a: np.expand_dims(a, axis=1)),
        (lambda x: ndgrad.cat([x, x], axis=2), lambda a: np.concatenate([a, a], axis=2)),
        (lambda x: ndgrad.stack([x, x], axis=-1), lambda a: np.stack([a, a], axis=-1)),
        (lambda x: ndgrad.flip(x, axis=(0, 2)), lambda a: np.flip(a, axis=(0, 2))),
        (lambda x: ndgrad.roll(x, 1, axis=1), lambda a: np.roll(a, 1, axis=1)),
        (lambda x: ndgrad.permute(x, axes=(2, 0, 1)), lambda a: np.transpose(a, axes=(2, 0, 1))),
        (lambda x: ndgrad.transpose(x, (2, 0, 1)), lambda a: np.transpose(a, (2, 0, 1))),
        (lambda x: ndgrad.transpose(x, axes=(2, 0, 1)), lambda a: np.transpose(a, (2, 0, 1))),
        (lambda x: ndgrad.transpose(x, dim0=0, dim1=2), lambda a: np.swapaxes(a, 0, 2)),
        (lambda x: ndgrad.split(x, 2, axis=2)[1], lambda a: a[:, :, 2:]),
        (lambda x: ndgrad.repeat_interleave(x, 2, axis=1), lambda a: np.repeat(a, 2, axis=1)),
        (lambda x: x.view(np.int64(6), np.int64(4)), lambda a: a.reshape(6, 4)),
        (lambda x: x.reshape([4, 6]), lambda a: a.reshape(4, 6)),
        (lambda x: x.expand(ndgrad.Size([5, 2, 3, 4])), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
        (lambda x: x.tile(2), lambda a: np.tile(a, 2)),
    ],
)  # fmt: skip
def test_forms_of_arguments_give_what_numpy_gives(ours, numpys):
    np.testing.assert_array_equal(values(ours(ndgrad.tensor(A))), numpys(A))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.transpose(0),
        lambda x: ndgrad.transpose(x, (0, 1, 2), 1),
        lambda x: x.reshape(shape=(24,), size=(24,)),
        lambda x: x.permute((0, 1, 2), dims=(0, 1, 2)),
        lambda x: ndgrad.squeeze(x, dimension=0),
        lambda x: ndgrad.cat([x, x], 0, axis=0),
        lambda x: x.narrow(0, 0.5, 1),
        lambda x: x.expand(2.0, 3),
    ],
)
def test_wrong_arguments_raise_type_errors(call):
    with pytest.raises(TypeError):
        call(ndgrad.tensor(A))


def test_broadcast_shapes():
    assert ndgrad.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        ndgrad.broadcast_shapes((2,), (3,))


def test_float32_stays_float32():
    x = ndgrad.tensor(A.astype(np.float32), requires_grad=True)
    parts = [x.tril(), x.flip(0), x.roll(1), x.repeat(2, 1, 1), ndgrad.cat([x, x]), ndgrad.block_diag(x[0], x[1]), x.diag_embed()]
    for part in parts:
        assert part.dtype == np.float32
        assert ndgrad.autograd.grad(part.sum(), x)[0].dtype == np.float32


@pytest.mark.parametrize("name", ["cat", "stack", "hstack", "vstack", "dstack", "column_stack"])
def test_joins_write_into_out(name):
    x, y = ndgrad.tensor(A[0]), ndgrad.tensor(A[1])
    expected = getattr(ndgrad, name)([x, y])
    out = ndgrad.empty(tuple(expected.shape))
    assert getattr(ndgrad, name)([x, y], out=out) is out
    np.testing.assert_array_equal(values(out), values(expected))
    with pytest.raises(RuntimeError, match="out="):
        getattr(ndgrad, name)([leaf(A[0]), y], out=out)


def test_triangles_write_into_out_and_in_place():
    x = ndgrad.tensor(A)
    out = ndgrad.empty(2, 3, 4)
    np.testing.assert_array_equal(values(ndgrad.tril(x, -1, out=out)), np.tril(A, -1))
    np.testing.assert_array_equal(values(out), np.tril(A, -1))
    np.testing.assert_array_equal(values(x.clone().triu_(1)), np.triu(A, 1))
    f = lambda t: ((t * t).tril_(1) * t).sum()
    np.testing.assert_allclose(gradient(f, A), 3 * A**2 * np.tril(np.ones((2, 3, 4)), 1))


# ----- views and memory --------------------------------------------------------------------------------------------------

VIEWS = {
    "view": lambda x: x.view(6, 4),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "transpose": lambda x: x.transpose(0, 2),
    "expand": lambda x: x.expand(5, 2, 3, 4),
    "squeeze": lambda x: x.narrow(0, 1, 1).squeeze(),
    "select": lambda x: x.select(2, 1),
    "split": lambda x: x.split(2, 2)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "tensor_split": lambda x: x.tensor_split(2, 1)[0],
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "unfold": lambda x: x.unfold(2, 3, 1),
    "as_strided": lambda x: x.as_strided((3, 3), (2, 1), 5),
    "view_as_complex": lambda x: ndgrad.view_as_complex(x.view(2, 3, 2, 2)),
    "view dtype": lambda x: x.view(ndgrad.int64),
    "meshgrid": lambda x: ndgrad.meshgrid(x[0, 0], x[0, 1], indexing="ij")[1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_see_writes_to_the_base_and_share_its_version(name):
    x = ndgrad.tensor(A)
    view = VIEWS[name](x)
    before = values(view).copy()
    x.mul_(3.0)
    np.testing.assert_array_equal(values(view), values(VIEWS[name](ndgrad.tensor(3 * A))))
    assert not np.array_equal(values(view), before)
    assert view._version == x._version == 1


@pytest.mark.parametrize(
    ("order", "view"),
    [
        ("F", lambda y: y.transpose(0, 2).view(2, 2, 6)),
        ("F", lambda y: y.permute(2, 1, 0).view(24)),
        ("C", lambda y: y.view(24)),
        *((order, lambda y: y.permute(2, 1, 0).flatten()) for order in "CF"),
        *((order, lambda y: y.diagonal(0, 1, 2)) for order in "CF"),
        *((order, lambda y: y.select(1, 1).unsqueeze(0)) for order in "CF"),
        *((order, lambda y: y.expand(2, 2, 3, 4).select(0, 1).narrow(2, 1, 2)) for order in "CF"),
        *((order, lambda y: y.unfold(2, 2, 2)) for order in "CF"),
    ],
)
def test_write_through_view_has_right_gradient_whatever_the_order_of_memory(order, view):
    """A reshape is a view for one memory order and a copy for the other; gradients have a memory order of their own."""

    def f(x):
        y = x * 1.0
        v = view(y)
        v.mul_(3.0)
        return (y * y * y).sum() + v.sum()

    array = np.array(A + 1, order=order)
    x = ndgrad.from_numpy(array).requires_grad_()
    expected = differences(lambda t: f(ndgrad.from_numpy(np.array(values(t), order=order))), array, 1e-4)
    for create_graph in (False, True):
        (g,) = ndgrad.autograd.grad(f(x), x, create_graph=create_graph)
        np.testing.assert_allclose(values(g), expected, rtol=1e-5)


def test_write_through_view_of_a_scalar():
    f = lambda x: _tripled(x * 1.0)
    assert gradient(f, np.array(2.0)) == pytest.approx(36.0)


def _tripled(y):
    y.view(1).mul_(3.0)
    return y * y


@pytest.mark.parametrize("make", [lambda y: y.unfold(0, 3, 1), lambda y: y.as_strided((3, 3), (1, 1)), lambda y: y.expand(2, 6)])
def test_view_whose_elements_share_memory_may_not_be_written(make):
    y = ndgrad.tensor(np.arange(6.0))
    with pytest.raises(RuntimeError, match="clone"):
        make(y).mul_(2.0)
    np.testing.assert_array_equal(values(y), np.arange(6.0))
    assert y._version == 0


def test_windows_apart_may_be_written():
    y = ndgrad.tensor(np.arange(6.0))
    y.unfold(0, 2, 3).mul_(10.0)
    np.testing.assert_array_equal(values(y), [0, 10, 2, 30, 40, 5])


def test_copies_do_not_reach_the_original():
    x = ndgrad.tensor(A)
    for copy in (x.flip(0), x.roll(1, 0), x.rot90(0), x.repeat(1, 1, 1), x.tril(9), x.permute(2, 0, 1).reshape(24), x.diag_embed()):
        copy.fill_(-1.0)
        np.testing.assert_array_equal(values(x), A)


def test_as_strided_beyond_a_view_sends_gradients_to_the_base():
    """torch drops these gradients; the elements belong to the base, and so does the gradient."""
    weights = np.array([1.0, 2.0, 3.0])
    f = lambda x: (x.clone()[3:].as_strided((3,), (1,), 1) * ndgrad.tensor(weights)).sum()
    np.testing.assert_array_equal(gradient(f, np.arange(6.0)), [0, 1, 2, 3, 0, 0])


def test_as_strided_of_foreign_memory_has_zero_gradient_there():
    memory = np.arange(6.0)
    x = ndgrad.from_numpy(memory[3:]).requires_grad_()
    y = x.as_strided((4,), (1,), 1)
    np.testing.assert_array_equal(values(y), [1, 2, 3, 4])
    np.testing.assert_array_equal(values(ndgrad.autograd.grad(y.sum(), x)[0]), [1, 1, 0])


def test_iterating_a_split_in_a_loop_reaches_every_part():
    f = lambda x: sum((i + 1) * part.sum() for i, part in enumerate(x.split([1, 0, 3], 2)))
    np.testing.assert_array_equal(gradient(f, A)[0, 0], [1, 3, 3, 3])


def test_outputs_of_one_op_share_a_node():
    x = leaf(A) * 1.0
    for parts, name in (
        (x.split(1, 1), "Split"),
        (x.split([1, 2], 1), "SplitWithSizes"),
        (x.chunk(2, 1), "Split"),
        (x.unbind(2), "Unbind"),
    ):
        assert {p.grad_fn for p in parts} == {parts[0].grad_fn}
        assert parts[0].grad_fn.name() == name + "Backward0"
        assert [p.output_nr for p in parts] == list(range(len(parts)))


def test_hooks_on_parts_of_a_split():
    x = leaf(np.arange(4.0))
    seen = []
    low, high = (x * 1.0).split(2)
    high.register_hook(lambda g: seen.append(values(g)) or g * 10)
    (low.sum() + (high * high).sum()).backward()
    np.testing.assert_array_equal(seen[0], [4, 6])
    np.testing.assert_array_equal(values(x.grad), [1, 1, 40, 60])


def test_double_backward_through_parts():
    x = leaf(A)
    parts = x.unbind(2)
    (g,) = ndgrad.autograd.grad((parts[0] * parts[1] * parts[3]).sum(), x, create_graph=True)
    (gg,) = ndgrad.autograd.grad((g * g).sum(), x)
    a, b, d = A[..., 0], A[..., 1], A[..., 3]
    # The squared gradient is (bd)^2 + (ad)^2 + (ab)^2.
    expected = np.stack([2 * a * (d**2 + b**2), 2 * b * (d**2 + a**2), 0 * a, 2 * d * (b**2 + a**2)], -1)
    np.testing.assert_allclose(values(gg), expected)


# ----- a tensor's own shape ------------------------------------------------------------------------------------------------


def test_shape_changed_in_place_keeps_identity_memory_and_history():
    x = leaf(A)
    y = x * 2.0
    address = y.data_ptr()
    assert y.transpose_(0, 2).unsqueeze_(0).squeeze_(0) is y
    assert y.shape == (4, 3, 2)
    assert y.data_ptr() == address
    assert y._version == 3
    weights = np.cos(np.arange(24.0)).reshape(4, 3, 2)
    (y * ndgrad.tensor(weights)).sum().backward()
    np.testing.assert_allclose(values(x.grad), 2 * weights.transpose(2, 1, 0))


def test_shape_changed_in_place_without_grad_keeps_history():
    x = leaf(A[0])
    y = x * 2.0
    with ndgrad.no_grad():
        y.t_()
    y[0].sum().backward()
    np.testing.assert_array_equal(values(x.grad), [[2, 0, 0, 0]] * 3)


def test_leaf_changed_in_place_without_grad_stays_a_leaf():
    x = leaf(A[0])
    with ndgrad.no_grad():
        x.t_()
    assert x.is_leaf
    (x * x).sum().backward()
    np.testing.assert_array_equal(values(x.grad), 2 * A[0].T)


def test_leaf_that_requires_grad_keeps_its_shape():
    x = leaf(A)
    with pytest.raises(RuntimeError, match="leaf"):
        x.unsqueeze_(0)
    assert x.shape == (2, 3, 4)
    assert x._version == 0


def test_view_changed_in_place_still_writes_to_its_base():
    x = leaf(A[0])
    y = x * 1.0
    v = y.narrow(0, 1, 2)
    v.t_()
    v.select(0, 3).mul_(10.0)
    assert v._base is y
    y.sum().backward()
    np.testing.assert_array_equal(values(x.grad), [[1, 1, 1, 1], [1, 1, 1, 10], [1, 1, 1, 10]])


def test_view_of_a_base_that_changed_its_shape_raises_rather_than_guess():
    x = leaf(A[0, :3, :3])
    y = x * 1.0
    row = y.select(0, 0)
    y.t_()
    with pytest.raises(RuntimeError, match="changed its own shape"):
        row.mul_(2.0)
    np.testing.assert_array_equal(values(y), A[0, :3, :3].T)
    y.select(0, 0).mul_(2.0)
    y.sum().backward()
    np.testing.assert_array_equal(values(x.grad), [[2, 1, 1]] * 3)


# ----- inside transforms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [lambda y: y.squeeze_(0), lambda y: y.unsqueeze_(1), lambda y: y.transpose_(0, 1)])
def test_shape_changed_in_place_inside_transforms(change):
    array = A[:, :1]

    def f(x):
        y = x * x
        change(y)
        return y * ndgrad.tensor(np.arange(4.0).reshape(tuple(y.shape)))

    batched = func.vmap(f)(ndgrad.tensor(array))
    rows = np.stack([values(f(ndgrad.tensor(a))) for a in array])
    np.testing.assert_allclose(values(batched), rows)
    grads = func.vmap(func.grad(lambda x: f(x).sum()))(ndgrad.tensor(array))
    np.testing.assert_allclose(values(grads), 2 * array * np.arange(4.0))
    _, tangent = func.jvp(lambda x: f(x[0]), (ndgrad.tensor(array),), (ndgrad.tensor(np.ones_like(array)),))
    np.testing.assert_allclose(values(tangent).reshape(4), 2 * array[0, 0] * np.arange(4.0))


def test_vmap_of_functions_whose_arguments_name_dimensions():
    x = ndgrad.tensor(A)
    cases = [
        lambda t: t.flatten(),
        lambda t: t.view(-1),
        lambda t: t.movedim(0, -1),
        lambda t: ndgrad.stack(t.unbind(1)),
        lambda t: ndgrad.cat(t.split(3, -1), 0) if t.shape[-1] % 3 == 0 else t,
        lambda t: t.squeeze(),
        lambda t: t.repeat_interleave(ndgrad.tensor([1, 0, 2]), 0),
        lambda t: t.repeat_interleave(2),
        lambda t: t.roll(5),
        lambda t: t.unfold(1, 2, 1).contiguous(),
        lambda t: t.as_strided((2, 3), (4, 1), 1 + t.storage_offset()),
        lambda t: ndgrad.atleast_3d(t),
        lambda t: ndgrad.block_diag(t, t.t()),
        lambda t: ndgrad.cartesian_prod(t[0], t[1, :2]),
    ]
    for f in cases:
        rows = np.stack([values(f(ndgrad.tensor(a))) for a in A])
        np.testing.assert_array_equal(values(func.vmap(f)(x)), rows)


def test_view_inside_vmap_asks_for_the_strides_of_one_sample():
    x = ndgrad.tensor(A.transpose(1, 0, 2))
    np.testing.assert_array_equal(values(func.vmap(lambda t: t.view(8), in_dims=0)(x)), A.transpose(1, 0, 2).reshape(3, 8))
    with pytest.raises(RuntimeError, match="not compatible"):
        func.vmap(lambda t: t.t().view(8))(ndgrad.tensor(A[:, :2]))


def test_repeats_that_belong_to_a_transform_raise():
    with pytest.raises(RuntimeError, match="depends on the values"):
        func.vmap(lambda n: ndgrad.ones(3).repeat_interleave(n))(ndgrad.tensor([[1, 2, 3]]))


def test_as_strided_beyond_a_sample_raises_inside_vmap():
    with pytest.raises(RuntimeError, match="vmap"):
        func.vmap(lambda t: t.as_strided((8,), (1,)))(ndgrad.tensor(A[:, 0]))


def test_join_of_a_dual_with_values_that_are_not_finite():
    """A constant has tangent zero even if 0 * inf would not be zero."""
    with forward_ad.dual_level():
        x = forward_ad.make_dual(ndgrad.tensor([1.0]), ndgrad.tensor([5.0]))
        y = ndgrad.cat([x, ndgrad.tensor([np.inf, np.nan]), ndgrad.tensor([7])])
        np.testing.assert_array_equal(values(forward_ad.unpack_dual(y).tangent), [5, 0, 0, 0])


# ----- without data --------------------------------------------------------------------------------------------------------


def test_shapes_on_the_meta_device():
    x = ndgrad.empty(2, 3, 4, device="meta")
    shapes = {
        "view": x.view(6, 4), "permute": x.permute(2, 0, 1), "expand": x.expand(5, 2, 3, 4), "squeeze": x.narrow(0, 0, 1).squeeze(),
        "split": x.split(3, 2)[1], "unbind": x.unbind(1)[0], "unfold": x.unfold(2, 2, 1), "diagonal": x.diagonal(0, 1, 2),
        "cat": ndgrad.cat([x, x], 1), "flip": x.flip(0), "tril": x.tril(), "repeat": x.repeat(1, 2, 1),
    }  # fmt: skip
    real = ndgrad.tensor(A)
    assert shapes["unfold"].shape == real.unfold(2, 2, 1).shape
    assert shapes["split"].shape == (2, 3, 1)
    assert shapes["diagonal"].shape == real.diagonal(0, 1, 2).shape
    assert all(t.is_meta for t in shapes.values())


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_indices_of_triangles_refuse_a_layout_that_they_do_not_make(name):
    assert getattr(ndgrad, name)(2, 2, layout=ndgrad.strided).dtype == ndgrad.int64
    with pytest.raises(RuntimeError, match="makes dense tensors"):
        getattr(ndgrad, name)(2, 2, layout=ndgrad.sparse_coo)


def test_storage_and_windows_of_arrays_made_by_stride_tricks():
    memory = np.arange(63.0).reshape(9, 7)
    inside = np.lib.stride_tricks.as_strided(memory[1:], (3, 4), memory.strides)
    x = ndgrad.from_numpy(inside)
    assert x.storage_offset() == 7
    assert x.untyped_storage().nbytes() == memory.nbytes
    np.testing.assert_array_equal(x.unfold(1, 2, 1), np.lib.stride_tricks.sliding_window_view(inside, 2, axis=1))
    x.unfold(1, 2, 2).mul_(-1.0)
    assert memory[1, :4].tolist() == [-7.0, -8.0, -9.0, -10.0]


def test_double_backward_of_compiled_windows_of_a_part():
    def windows(x):
        y = (x.chunk(2, 1)[0] + 0.0).unfold(1, 4, 1)
        return ndgrad.complex(y * y * y, y).real

    x = ndgrad.arange(63.0, requires_grad=True).view(9, 7)
    found = []
    for f in (windows, ndgrad.compile(windows)):
        (slope,) = ndgrad.autograd.grad(f(x).sum(), x, create_graph=True)
        found.append(ndgrad.autograd.grad(slope.sum(), x)[0])
    assert ndgrad.equal(*found)
    np.testing.assert_allclose(found[0][:, :4], 6.0 * x.detach()[:, :4])
