"""Short forms of view paths: equal to the steps that they replace, and of bounded length."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import ndgrad
from ndgrad import func
from ndgrad._src.core.view_path import LONG, steps, take_raw

# Steps of random chains, as pairs of a function of tensors and one of arrays.
_SAME_SHAPE = [
    (lambda t: t[...], lambda a: a[...]),
    (lambda t: t.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    (lambda t: t.unsqueeze(1), lambda a: np.expand_dims(a, 1)),
    (lambda t: t.squeeze(), lambda a: a.squeeze()),
    (lambda t: t.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1)),
    (lambda t: t.view(t.shape), lambda a: a.reshape(a.shape)),
]
_SMALLER = [
    (lambda t: t[1:], lambda a: a[1:]),
    (lambda t: t[::2], lambda a: a[::2]),
    (lambda t: t[..., :-1], lambda a: a[..., :-1]),
    (lambda t: t.narrow(-1, 0, t.shape[-1] - 1), lambda a: a[..., :-1]),
    (lambda t: t[0], lambda a: a[0, ...]),
]


def _flatten(t, a):
    """Return a flat view of a tensor and of an array, or both unchanged if the memory has gaps."""
    return (t.view(-1), a.reshape(-1)) if a.flags.c_contiguous else (t, a)


def _extend(rng, t, a):
    """Return one more random view of a tensor and of an array."""
    kind = rng.integers(10)
    if kind == 0:
        return _flatten(t, a)
    if kind == 1 and a.flags.c_contiguous and a.size % 2 == 0:
        return t.view(2, -1), a.reshape(2, -1)
    if kind == 2 and a.ndim == 2 and min(a.shape) > 1:
        return t.diagonal(), np.einsum("ii->i", a[: min(a.shape), : min(a.shape)])
    if kind == 3 and a.ndim and a.size > 8 and a.shape[0] > 1 and a.shape[-1] > 1:
        on_tensor, on_array = _SMALLER[rng.integers(len(_SMALLER))]
        return on_tensor(t), on_array(a)
    if not a.ndim or a.ndim > 6:
        return t.view(t.shape), a.reshape(a.shape)
    on_tensor, on_array = _SAME_SHAPE[rng.integers(len(_SAME_SHAPE))]
    return on_tensor(t), on_array(a)


def _start(layout):
    """Return an array that is dense in C order, dense in Fortran order, or has gaps."""
    values = np.arange(1.0, 6 * 5 * 8 + 1)
    if layout == "rows":
        return values.reshape(6, 5, 8)
    if layout == "columns":
        return values.reshape(8, 5, 6).T
    return np.repeat(values, 2).reshape(6, 5, 16)[:, :, ::2]


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("seed", range(10))
def test_the_short_form_of_a_path_gives_the_part_of_memory_that_its_steps_gave(layout, seed):
    rng = np.random.default_rng(seed)
    array = _start(layout)
    view, part = base, _ = ndgrad.from_numpy(array), array
    assert base._array.strides == array.strides
    for _ in range(5 * LONG):
        view, part = _extend(rng, view, part)
    short = take_raw(array, steps(view._meta.view.path), np)
    assert short.shape == part.shape == tuple(view.shape)
    assert short.__array_interface__["data"] == part.__array_interface__["data"]
    assert all(n == 1 or s == t for n, s, t in zip(part.shape, short.strides, part.strides, strict=True))


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("seed", range(10))
def test_writes_through_long_paths_have_the_gradients_of_their_factors(layout, seed):
    """NumPy's own views of an array of factors tell which elements were written, and how often."""
    rng = np.random.default_rng(seed)
    x = ndgrad.from_numpy(_start(layout)).requires_grad_()
    base = x * 1.0
    factors = np.ones_like(base.detach().numpy())
    view, part = base, factors
    for k in range(5 * LONG):
        view, part = _extend(rng, view, part)
        assert np.shares_memory(part, factors)
        if k % 3 == 0:
            view.mul_(1.5)
            part *= 1.5
    weights = rng.standard_normal(base.shape)
    loss = (base * ndgrad.tensor(weights)).sum()
    (grad,) = ndgrad.autograd.grad(loss, x, retain_graph=True)
    np.testing.assert_allclose(grad.numpy(), weights * factors, rtol=1e-12)
    (twice,) = ndgrad.autograd.grad(loss, x, create_graph=True, retain_graph=True)
    np.testing.assert_allclose(twice.detach().numpy(), weights * factors, rtol=1e-12)
    seen = np.zeros_like(factors)
    (grad,) = ndgrad.autograd.grad((view * 2.0).sum(), base)
    before = factors.copy()
    part += 1.0
    seen[factors != before] = 2.0
    np.testing.assert_array_equal(grad.numpy(), seen)


def test_a_dtype_of_parts_inside_a_long_path_is_kept():
    x = ndgrad.tensor([1 + 2j, 3 + 4j, 5 + 6j, 7 + 8j], requires_grad=True)
    base = x * 1.0
    view = base
    for _ in range(LONG + 3):
        view = view[:]
    view = ndgrad.view_as_real(view)
    for _ in range(3 * LONG + 1):
        view = view.t()[:]
    view = view[1]
    for _ in range(3):
        view = view[1:]
    view.mul_(3.0)
    assert base.tolist() == [1 + 2j, 3 + 4j, 5 + 6j, 7 + 24j]
    ndgrad.view_as_real(base).sum().backward()
    assert x.grad.tolist() == [1 + 1j, 1 + 1j, 1 + 1j, 1 + 3j]


# ----- the number of steps ---------------------------------------------------------------------------------------------


def _nested(x, n):
    """Write to a view, to a view of that view, and so on."""
    base = x * 1.0
    view = base
    for _ in range(n):
        view = view[:].t()
        view.mul_(1.001)
    return base


def _forward(x, n):
    _nested(x, n)


def _backward(x, n):
    _nested(x, n).sum().backward()


def _create_graph(x, n):
    (g,) = ndgrad.autograd.grad((_nested(x, n) ** 2).sum(), x, create_graph=True)
    g.sum().backward()


def _grad(x, n):
    func.grad(lambda t: _nested(t, n).sum())(x.detach())


def _jvp(x, n):
    func.jvp(lambda t: _nested(t, n).sum(), (x.detach(),), (x.detach(),))


def _vmap(x, n):
    func.vmap(func.grad(lambda t: _nested(t, n).sum()))(ndgrad.stack([x.detach(), x.detach()]))


def _functionalize(x, n):
    func.functionalize(lambda t: _nested(t, n))(x.detach())


def _views_kept(x, n):
    """Take nested views, write the base once, and read all of them."""
    base = x * 1.0
    views = [base]
    for _ in range(n):
        views.append(views[-1][:])
    base.mul_(2.0)
    sum(v.sum() for v in views).backward()


def _shrinking(x, n):
    base = ndgrad.ones(n + 1, dtype=ndgrad.float64, requires_grad=True) * 1.0
    view = base
    for _ in range(n):
        view = view[1:]
        view[0].mul_(2.0)
    base.sum().backward()


def _merging(x, n):
    """Alternate slices with reshapes that merge dimensions."""
    base = ndgrad.ones(2, n + 2, dtype=ndgrad.float64, requires_grad=True) * 1.0
    view = base
    for _ in range(n):
        view = view.view(-1)[2:].view(2, -1)
        view.mul_(1.001)
    base.sum().backward()


def _count_calls(program, n):
    """Return the number of Python calls that a program makes."""
    x = ndgrad.tensor(np.linspace(0.5, 1.5, 4).reshape(2, 2), requires_grad=True)
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    gc.collect()
    sys.setprofile(count)
    try:
        program(x, n)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "program",
    [_forward, _backward, _create_graph, _grad, _jvp, _vmap, _functionalize, _views_kept, _shrinking, _merging],
)
def test_the_calls_of_nested_views_are_proportional_to_their_number(program):
    n = 12 * LONG
    program(ndgrad.ones(2, 2, dtype=ndgrad.float64, requires_grad=True), LONG + 1)  # made on first use
    once, twice = _count_calls(program, n), _count_calls(program, 2 * n)
    assert twice < 2.3 * once


def test_ten_thousand_nested_views_with_a_write_at_each():
    x = ndgrad.ones(2, dtype=ndgrad.float64, requires_grad=True)
    base = x * 1.0
    view = base
    for _ in range(10_000):
        view = view[:]
        view.neg_()
    (base * view).sum().backward()
    assert base.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [2.0, 2.0]
