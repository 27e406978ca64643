"""NumPy's namespace: programs that fill buffers in place have the gradients of their functional form, at linear cost.

Each program takes the namespace `np` (NumPy itself, or ndgrad.numpy) and the input, so central differences of the plain NumPy
program are the oracle.
"""

from __future__ import annotations

import gc
import weakref

import numpy as onp
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.core.functions import Square

import ndgrad
import ndgrad.numpy as dnp

# ----- programs ------------------------------------------------------------------------------------------------------------


def sin(x):
    return x.sin() if isinstance(x, ndgrad.Tensor) else onp.sin(x)


def exp(x):
    return x.exp() if isinstance(x, ndgrad.Tensor) else onp.exp(x)


def recurrence(np, x):
    u = np.zeros(6)
    u[0] = x[0]
    for i in range(1, 6):
        u[i] = sin(u[i - 1]) * x[i % 3] + u[i - 1]
    return (u * u).sum()


def heat_in_place(np, x):
    u = np.zeros(8)
    u[2:5] = x
    for _ in range(4):
        u[1:-1] += 0.3 * (u[2:] - 2.0 * u[1:-1] + u[:-2]) * (1.0 + 0.1 * u[1:-1])
    return (u * u).sum()


def gauss_seidel(np, x):
    u = np.zeros((4, 4))
    u[0, :3] = x
    for _ in range(2):
        for i in range(1, 3):
            for j in range(1, 3):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) + 0.1 * u[i, j] ** 2
    return (u**3).sum()


def prefix_sums(np, x):
    s = np.zeros(4)
    for i in range(3):
        s[i + 1] = s[i] + x[i] ** 2
    return (s[1:] * s[:-1]).sum()


def hidden_markov(np, x):
    transition = onp.array([[0.7, 0.3], [0.4, 0.6]])
    alpha = np.zeros((3, 2))
    alpha[0] = 0.5
    for t in range(1, 3):
        alpha[t] = (alpha[t - 1] @ transition) * exp(-((x[t] - onp.array([0.0, 1.0])) ** 2))
        alpha[t] /= alpha[t].sum()
    return (alpha * alpha * x[0]).sum()


def kalman(np, x):
    mean, variance = np.zeros(4), np.ones(4)
    for t in range(3):
        gain = variance[t] / (variance[t] + 0.5)
        mean[t + 1] = mean[t] + gain * (x[t] - mean[t])
        variance[t + 1] = (1.0 - gain) * variance[t] + 0.1 * mean[t + 1] ** 2
    return (mean * variance).sum()


def bodies(np, x):
    position = np.zeros((3, 2))
    position[:, 0] = x
    position[:, 1] = onp.array([0.0, 1.0, 0.5])
    velocity = np.zeros((3, 2))
    for _ in range(2):
        force = np.zeros((3, 2))
        for i in range(3):
            for j in range(3):
                if i != j:
                    d = position[j] - position[i]
                    force[i] += d / ((d * d).sum() + 0.3) ** 1.5
        velocity += 0.1 * force
        position += 0.1 * velocity
    return (position**2).sum()


def matrix_by_rows(np, x):
    a = np.zeros((3, 3))
    for i in range(3):
        a[i] = x * (i + 1.0)
        a[i, i] += x[i] ** 2
    return (a @ a).sum()


def scaling_slices(np, x):
    y = x * 1.0
    y[:2] *= x[1:]
    y[1:] += y[:-1] * y[:-1]
    y *= y
    y[::2] /= 1.0 + y[1]
    return y.sum()


def overlapping_slices(np, x):
    y = np.zeros(5)
    y[:3] = x
    y[1:4] = y[:3] * y[:3]
    y[2:5] += y[1:4]
    y[:-1] *= y[1:]
    return (y * y).sum()


def fancy_writes(np, x):
    y = np.zeros(5)
    y[onp.array([0, 2, 4])] = x * x
    y[onp.array([1, 3])] = y[onp.array([2, 0])] * x[:2]
    y[onp.array([True, False, False, True, False])] *= x[2]
    return (y * y * y).sum()


def several_views(np, x):
    y = np.zeros((2, 3))
    row, column, whole = y[0], y[:, 1], y.reshape(6)
    row[:] = x
    column *= x[0]
    whole[1:4] += row * row
    row += column[0]
    return (whole * whole).sum() + (row * x).sum()


def two_dimensional(np, x):
    y = np.zeros((4, 4))
    y[1:3, 1:4] = x
    y[::2, ::2] += y[1:3, 1:3] * y[1:3, 1:3]
    y[1:, :-1] -= 0.5 * y[:-1, 1:]
    return (y * y).sum()


def negative_steps(np, x):
    y = x * 1.0
    back = y[::-1]
    back[0] *= y[0]
    y[::-1] += y * y
    back[:2] = back[:2] * x[:2]
    return (y * back * y).sum()


def nested_views(np, x):
    y = np.zeros((2, 3, 2))
    y[:, :, 0] = x
    inner = y.transpose(2, 1, 0)[0][1:]
    inner[0] *= x[0]
    inner[:, 1] += inner[0, 0] * x[1]
    y[0][1][0] *= x[2]
    return (y * y).sum()


def power_iteration(np, x):
    v = x * 1.0
    a = onp.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 1.0]])
    for _ in range(3):
        v[:] = a @ v
        v /= (v * v).sum() ** 0.5
    return v @ a @ v * x[0]


PROGRAMS = [
    recurrence, heat_in_place, gauss_seidel, prefix_sums, hidden_markov, kalman, bodies, matrix_by_rows, scaling_slices,
    overlapping_slices, fancy_writes, several_views, two_dimensional, negative_steps, nested_views, power_iteration,
]  # fmt: skip
POINT = onp.array([0.7, -0.4, 1.2])


def differences(f, x, step=1e-5):
    """Return central differences of f at x, for f returning a number or an array."""
    columns = []
    for k in range(len(x)):
        d = onp.zeros_like(x)
        d[k] = step
        columns.append((f(x + d) - f(x - d)) / (2 * step))
    return onp.stack(columns, axis=-1)


def gradient(program, x):
    t = dnp.array(x).requires_grad_()
    program(dnp, t).backward()
    return t.grad._array


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_buffer_programs_have_the_gradient_of_their_values(program):
    t = dnp.array(POINT).requires_grad_()
    value = program(dnp, t)
    assert isinstance(value, dnp.Array)
    onp.testing.assert_allclose(value.detach().item(), program(onp, POINT), rtol=1e-12)
    value.backward()
    onp.testing.assert_allclose(t.grad._array, differences(lambda x: program(onp, x), POINT), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_buffer_programs_have_second_derivatives(program):
    t = dnp.array(POINT).requires_grad_()
    (g,) = ndgrad.autograd.grad(program(dnp, t), t, create_graph=True)
    rows = [ndgrad.autograd.grad(g[k], t, retain_graph=True)[0]._array for k in range(3)]
    onp.testing.assert_allclose(onp.stack(rows), differences(lambda x: gradient(program, x), POINT), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_buffer_programs_inside_transforms(program):
    t = dnp.array(POINT)
    onp.testing.assert_allclose(ndgrad.func.grad(lambda x: program(dnp, x))(t)._array, gradient(program, POINT), rtol=1e-9)
    v = onp.array([0.3, -1.0, 0.5])
    _, tangent = ndgrad.func.jvp(lambda x: program(dnp, x), (t,), (dnp.array(v),))
    onp.testing.assert_allclose(tangent._array, gradient(program, POINT) @ v, rtol=1e-9)
    points = onp.stack([POINT, POINT + 0.1])
    batch = ndgrad.func.vmap(ndgrad.func.grad(lambda x: program(dnp, x)))(dnp.array(points))
    onp.testing.assert_allclose(batch._array, [gradient(program, p) for p in points], rtol=1e-9)
    batch = ndgrad.func.vmap(lambda x: program(dnp, x))(dnp.array(points))
    onp.testing.assert_allclose(batch._array, [program(onp, p) for p in points], rtol=1e-9)


RAISES_ON_TORCHS_FACE = [recurrence, gauss_seidel, kalman, overlapping_slices, scaling_slices, power_iteration]


@pytest.mark.parametrize("program", RAISES_ON_TORCHS_FACE, ids=lambda f: f.__name__)
def test_torchs_class_raises_on_buffer_programs(program):
    t = ndgrad.tensor(POINT, requires_grad=True)
    value = program(ndgrad, t)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()
    assert t.grad is None


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=12))
def test_random_buffer_programs_equal_their_functional_form(steps):
    """The same writes, once in place and once by building a new array each time."""

    def part(k):
        return [slice(k % 4, None), slice(None, 1 + k % 4), slice(None, None, 2), slice(None, None, -1)][k % 4]

    def run(x, functional):
        u = x * 1.0
        for a, b, kind in steps:
            here, there = part(a), b % 4
            value = sin(u[there]) * u[here] if kind < 2 else u[here] * u[here]
            if kind % 2:
                value = u[here] + value
            if functional:
                keep = onp.ones(4)
                keep[here] = 0.0
                place = onp.zeros((4, len(range(4)[here])))
                place[onp.arange(4)[here], onp.arange(place.shape[1])] = 1.0
                u = u * dnp.array(keep) + dnp.array(place) @ value
            else:
                u[here] = value
        return (u * u).sum()

    x = onp.array([0.3, -0.2, 0.5, 0.1])
    found = []
    for functional in (False, True):
        t = dnp.array(x).requires_grad_()
        (g,) = ndgrad.autograd.grad(run(t, functional), t, create_graph=True)
        (h,) = ndgrad.autograd.grad((g * g).sum(), t)
        found.append((g._array, h._array))
    assume(all(onp.isfinite(theirs).all() for theirs in found[1]))  # twelve squares in a row overflow
    for ours, theirs in zip(*found, strict=True):
        onp.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


# ----- cost and memory -------------------------------------------------------------------------------------------------------


def undo_bytes(version):
    total, steps = 0, 0
    while version is not None:
        if version.undo is not None:
            total += version.undo[2].nbytes
        version, steps = version.next, steps + 1
    return total, steps


def test_undo_data_is_as_large_as_what_was_overwritten():
    n = 500
    x = dnp.array(0.5).requires_grad_()
    u = dnp.zeros(n)
    u[0] = x
    first = u._storage.version
    for i in range(1, n):
        u[i] = sin(u[i - 1])
    size, steps = undo_bytes(first)
    assert steps == n
    assert size <= 8 * n


def test_backward_over_a_buffer_copies_its_memory_once(monkeypatch):
    from ndgrad._src.core import versions

    copies = []
    original = versions.ctypes.string_at
    monkeypatch.setattr(versions.ctypes, "string_at", lambda *a: copies.append(a) or original(*a))
    x = dnp.array(0.5).requires_grad_()
    u = dnp.zeros(300)
    u[0] = x
    for i in range(1, 300):
        u[i] = sin(u[i - 1])
    u[-1].backward()
    assert len(copies) <= 1
    value, slope = 0.5, 1.0
    for _ in range(299):
        value, slope = onp.sin(value), slope * onp.cos(value)
    onp.testing.assert_allclose(x.grad._array, slope, rtol=1e-9)


def test_undo_data_dies_with_the_graph_by_reference_counting():
    gc.disable()
    try:
        x = dnp.array(0.5).requires_grad_()
        u = dnp.zeros(50)
        u[0] = x
        for i in range(1, 50):
            u[i] = sin(u[i - 1])
        u[-1].backward()
        array = weakref.ref(u._array)
        nodes = weakref.ref(u.grad_fn)
        del u
        assert array() is None
        assert nodes() is None
    finally:
        gc.enable()


def _sines(zeros, x):
    u = zeros(50)
    u[0] = x
    for i in range(1, 50):
        u[i] = sin(u[i - 1])
    return u


def _squares_of_slices(zeros, x):
    u = zeros(50)
    u[:2] = x
    for i in range(2, 50, 2):
        part = u[i - 2 : i]
        u[i : i + 2] = part * part  # saves the view itself
    return u


def _custom_squares_of_slices(zeros, x):
    u = zeros(50)
    u[:2] = x
    for i in range(2, 50, 2):
        u[i : i + 2] = Square.apply(u[i - 2 : i])
    return u


def _written_through_views(zeros, x):
    u = zeros(4)
    u[0] = x
    first, second = u[:2], u[2:]
    second += first * first
    first *= second
    return u


@pytest.mark.parametrize("zeros", [dnp.zeros, ndgrad.zeros], ids=["numpy", "torch"])
@pytest.mark.parametrize("program", [_sines, _squares_of_slices, _custom_squares_of_slices, _written_through_views])
def test_a_buffer_whose_graph_was_never_run_dies_by_reference_counting(program, zeros):
    """The saved part of a buffer does not refer to the buffer, whose history leads to the save."""
    gc.collect()
    gc.disable()
    try:
        u = program(zeros, ndgrad.tensor(0.5, requires_grad=True) if zeros is ndgrad.zeros else dnp.array(0.5).requires_grad_())
        array, node = weakref.ref(u._array), weakref.ref(u.grad_fn)
        del u
        assert array() is None
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [dnp.array, ndgrad.tensor])
def test_a_custom_function_sees_the_class_of_its_arguments_in_backward_too(make):
    seen = []

    class Watched(Square):
        @staticmethod
        def backward(ctx, g):
            seen.extend([type(g), *map(type, ctx.saved_tensors)])
            return Square.backward(ctx, g)

    x = make([1.0, 2.0]).requires_grad_()
    Watched.apply(x).sum().backward()
    assert seen == [type(x), type(x)]
    assert x.grad.tolist() == [2.0, 4.0]


def test_undo_data_dies_with_the_last_save_that_could_ask_for_it():
    x = dnp.ones(3).requires_grad_()
    y = x * 1.0
    z = y * y
    before = y._storage.version
    y[0] = 5.0
    assert before.undo is not None
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    # The saves are gone, so a further write keeps nothing.
    present = weakref.ref(y._storage)
    del before
    y[1] = 7.0
    assert present().version.undo is None


def test_a_write_that_nobody_can_ask_about_keeps_nothing():
    y = dnp.zeros(3)
    old = y._storage
    y[0] = 1.0
    y[1] = 2.0
    assert old is None or old.version.undo is None
    assert y._storage.version.undo is None


def test_a_long_chain_of_versions_dies_without_recursion():
    x = dnp.ones(1).requires_grad_()
    y = x * 1.0
    z = y * y
    for _ in range(20_000):
        y[0] = 2.0
    z.sum().backward()
    assert x.grad.tolist() == [2.0]
    del y, z


# ----- Tensors and Arrays together -------------------------------------------------------------------------------------------


def test_faces_meet_in_numpys():
    a, t = dnp.ones(2).requires_grad_(), ndgrad.ones(2, requires_grad=True)
    for made in (a * t, t * a, t + a, dnp.asarray(t) * 2.0):
        assert isinstance(made, dnp.Array)
    assert type(a.tensor()) is ndgrad.Tensor
    (a * t * dnp.asarray(t)).sum().backward()
    assert a.grad.tolist() == [1.0, 1.0]
    assert t.grad.tolist() == [2.0, 2.0]


def test_faces_of_one_memory_share_versions_and_history():
    x = ndgrad.ones(3, requires_grad=True)
    t = x * 2.0
    a = dnp.asarray(t)
    kept = a * a
    t[0] = 5.0
    assert a.detach().tolist() == [5.0, 2.0, 2.0]
    kept.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0, 8.0]


def test_a_save_on_torchs_class_raises_whoever_wrote():
    x = ndgrad.ones(3, requires_grad=True)
    t = x * 2.0
    kept = t * t
    dnp.asarray(t)[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_python_numbers_do_not_drop_the_graph_silently():
    x = dnp.ones(2).requires_grad_()
    plain = onp.zeros(2)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        plain[0] = x[0]
    with pytest.raises(TypeError, match=r"item\(\)"):
        float(x[0])
    assert x[0].detach().item() == 1.0


# ----- methods have NumPy's meaning ----------------------------------------------------------------------------------------------

METHODS = {
    "sum": lambda a: a.sum(),
    "sum axis": lambda a: a.sum(axis=0, keepdims=True),
    "mean": lambda a: a.mean(axis=(0, 1)),
    "std": lambda a: a.std(),
    "std axis ddof": lambda a: a.std(axis=1, ddof=1),
    "var": lambda a: a.var(axis=0),
    "var keepdims": lambda a: a.var(axis=-1, keepdims=True),
    "max axis": lambda a: a.max(0),
    "max": lambda a: a.max(),
    "min axis": lambda a: a.min(axis=1),
    "argmax": lambda a: a.argmax(),
    "argmax axis": lambda a: a.argmax(axis=1),
    "prod": lambda a: a.prod(axis=0),
    "cumsum": lambda a: a.cumsum(),
    "cumsum axis": lambda a: a.cumsum(axis=1),
    "cumprod": lambda a: a.cumprod(axis=0),
    "repeat": lambda a: a.repeat(2),
    "repeat axis": lambda a: a.repeat([1, 0, 2], axis=0),
    "transpose": lambda a: a.transpose(),
    "transpose axes": lambda a: a.transpose(2, 0, 1),
    "T": lambda a: a.T,
    "swapaxes": lambda a: a.swapaxes(0, 2),
    "squeeze": lambda a: a[:1].squeeze(),
    "squeeze axis": lambda a: a[:1].squeeze(axis=0),
    "flatten": lambda a: a.flatten(),
    "flatten F": lambda a: a.flatten(order="F"),
    "ravel": lambda a: a.ravel(),
    "reshape": lambda a: a.reshape(2, -1),
    "reshape tuple": lambda a: a.reshape((6, 4)),
    "reshape F": lambda a: a.reshape((6, 4), order="F"),
    "take": lambda a: a.take([0, 5, 5]),
    "take axis": lambda a: a.take([1, 0, 1], axis=1),
    "diagonal": lambda a: a.diagonal(),
    "trace": lambda a: a.trace(),
    "clip": lambda a: a.clip(-0.5, 0.5),
    "round": lambda a: a.round(1),
    "dot": lambda a: a.dot(onp.ones((4, 2))),
    "matmul": lambda a: a @ onp.ones((4, 2)),
    "argsort": lambda a: a.argsort(axis=0),
    "nonzero": lambda a: a.nonzero()[1],
    "any": lambda a: (a > 0).any(axis=0),
    "all": lambda a: (a > -10).all(),
    "astype": lambda a: a.astype("float32"),
    "copy": lambda a: a.copy(),
    "mixed int and list": lambda a: a[0, [0, 1]],
    "mixed list and slice": lambda a: a[[0, 2], 1:, ::2],
    "lists apart": lambda a: a[[0, 2], :, [1, 3]],
    "mask": lambda a: a[a > 0],
    "mask of rows": lambda a: a[onp.array([True, False, True])],
    "newaxis": lambda a: a[:, None, 1],
    "ellipsis": lambda a: a[..., ::-1],
    "list of lists": lambda a: a[[[0, 1], [2, 0]]],
}


@pytest.mark.parametrize("name", METHODS)
@given(seed=st.integers(0, 2**16))
def test_methods_mean_numpys(name, seed):
    f = METHODS[name]
    x = onp.random.default_rng(seed).normal(size=(3, 2, 4))
    t = dnp.array(x).requires_grad_()
    want, have = f(x), f(t)
    assert have.shape == onp.shape(want)
    assert have.dtype == want.dtype
    onp.testing.assert_allclose(have.detach()._array, want, rtol=1e-6 if want.dtype == onp.float32 else 1e-12, atol=1e-14)
    if want.dtype != onp.float64 or name == "round":
        return
    v = onp.random.default_rng(seed + 1).normal(size=onp.shape(want))
    (have * dnp.array(v)).sum().backward()
    direction = onp.random.default_rng(seed + 2).normal(size=x.shape)
    step = 1e-6
    slope = ((f(x + step * direction) * v).sum() - (f(x - step * direction) * v).sum()) / (2 * step)
    if onp.shape(f(x + step * direction)) == onp.shape(f(x - step * direction)):
        onp.testing.assert_allclose((t.grad._array * direction).sum(), slope, rtol=1e-4, atol=1e-4)


def test_attributes_are_numpys():
    x = onp.arange(6.0).reshape(2, 3)
    a = dnp.array(x)
    assert (a.size, a.shape, a.ndim, a.dtype, a.strides, len(a)) == (6, (2, 3), 2, x.dtype, x.strides, 2)
    assert type(a.shape) is tuple
    assert isinstance(a.dtype, onp.dtype)


def test_sort_is_in_place_and_differentiable():
    x = dnp.array([3.0, 1.0, 2.0]).requires_grad_()
    y = x * 1.0
    assert y.sort() is None
    assert y.detach().tolist() == [1.0, 2.0, 3.0]
    (y * dnp.array([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100.0, 1.0, 10.0]


def test_fill_put_and_augmented_assignment_are_in_place():
    x = dnp.array([3.0, 1.0, 2.0]).requires_grad_()
    y = x * 1.0
    same = y
    y += 1.0
    y *= x
    assert same is y
    y.put([0], 5.0)
    assert y.detach().tolist() == [5.0, 2.0, 6.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0, 5.0]
    assert y.fill(0.0) is None
    assert y.detach().tolist() == [0.0, 0.0, 0.0]


def test_repeated_positions_of_a_fancy_write_take_the_last_value():
    x = dnp.array([3.0, 1.0, 2.0]).requires_grad_()
    y = dnp.zeros(2)
    y[onp.array([0, 0, 1])] = x
    assert y.detach().tolist() == [1.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0]


def test_squeezing_a_larger_axis_raises_as_in_numpy():
    with pytest.raises(ValueError, match="squeeze"):
        dnp.ones((2, 1)).squeeze(axis=0)
