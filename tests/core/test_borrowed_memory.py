"""NumPy writes to saved memory: the gradient is that of the forward, or an error is raised. See Note [Lent memory]."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.core.borrowed_memory import SMALL, sample
from ndgrad._src.engine.graph import saved_tensors_hooks

CHANGED = "changed behind the library's back"


def overwritten(use: Callable[..., Any], make: Callable[[int], Any]) -> Callable[..., Any]:
    """A program that uses a plain array and writes to it afterwards."""

    def program(x: Any) -> Any:
        c = make(x.shape[0])
        y = use(x, c)
        c[...] = 0
        return y

    return program


class Product(ndgrad.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, c: Any) -> Any:
        return x * c

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.saved_tensors[0] * g, None

    @staticmethod
    def jvp(ctx: Any, t: Any, _: Any) -> Any:
        return ctx.saved_tensors[0] * t


def threes(n: int) -> Any:
    return np.full(n, 3.0)


#: A program, and its gradient as a function of x.
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "operator": (overwritten(lambda x, c: (x * c * x).sum(), threes), lambda x: 6 * x),
    "ufunc": (overwritten(lambda x, c: (np.multiply(x, c) * x).sum(), threes), lambda x: 6 * x),
    "maximum": (overwritten(lambda x, c: (np.maximum(x, c - 1.69) ** 2).sum(), threes), lambda x: 2 * x * (x > 1.31)),
    "maximum_of_it": (overwritten(lambda x, c: (np.maximum(x, c) ** 2).sum(), lambda n: np.full(n, 1.31)), lambda x: 2 * x * (x > 1.31)),
    "logaddexp": (overwritten(lambda x, c: np.logaddexp(x, c).sum(), threes), lambda x: 1 / (1 + np.exp(3 - x))),
    "index": (overwritten(lambda x, i: (x[i] ** 2).sum(), lambda n: np.arange(n)), lambda x: 2 * x),
    "indices": (overwritten(lambda x, i: (x[i, None] ** 2).sum(), lambda n: np.arange(n)), lambda x: 2 * x),
    "mask": (overwritten(lambda x, m: (x[m] ** 2).sum(), lambda n: np.ones(n, bool)), lambda x: 2 * x),
    "where": (overwritten(lambda x, m: np.where(m, x**2, 0.0).sum(), lambda n: np.ones(n, bool)), lambda x: 2 * x),
    "take": (overwritten(lambda x, i: (np.take(x, i) ** 2).sum(), lambda n: np.arange(n)), lambda x: 2 * x),
    "matmul": (overwritten(lambda x, c: (x @ c) ** 2, threes), lambda x: 18 * x.sum() * np.ones(len(x))),
    "einsum": (overwritten(lambda x, c: np.einsum("i,i,i->", x, c, x), threes), lambda x: 6 * x),
    "power": (overwritten(lambda x, c: (x**c).sum(), threes), lambda x: 3 * x**2),
    "asarray": (overwritten(lambda x, c: (x * dnp.asarray(c) * x).sum(), threes), lambda x: 6 * x),
    "custom": (overwritten(lambda x, c: Product.apply(x, dnp.asarray(c)).sum(), threes), lambda x: 3.0 + 0 * x),
    "custom_of_a_view": (overwritten(lambda x, c: Product.apply(x, dnp.asarray(c)[::1]).sum(), threes), lambda x: 3.0 + 0 * x),
    "in_a_loop": (lambda x: _loop(x), lambda x: 6 * x),
}


def _loop(x: Any) -> Any:
    c, y = np.empty(x.shape[0]), 0.0
    for k in range(3):
        c[:] = k
        y = y + (x * c * x).sum()
    return y


def by_backward(f: Any, x: Any) -> Any:
    t = dnp.array(x).requires_grad_()
    f(t).backward()
    return t.grad.numpy()


def under_hooks(f: Any, t: Any) -> Any:
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        return f(t)


MODES: dict[str, Callable[..., Any]] = {
    "backward": by_backward,
    "func.grad": lambda f, x: func.grad(f)(dnp.array(x)).numpy(),
    "jacrev": lambda f, x: func.jacrev(f)(dnp.array(x)).numpy(),
    "grad_of_jvp": lambda f, x: func.jacfwd(f)(dnp.array(x)).numpy(),
    "vmap_of_grad": lambda f, x: func.vmap(func.grad(f))(dnp.array(x[None])).numpy()[0],
    "grad_of_functionalize": lambda f, x: func.grad(func.functionalize(f))(dnp.array(x)).numpy(),
    "functionalize_of_grad": lambda f, x: func.functionalize(func.grad(f))(dnp.array(x)).numpy(),
    "checkpoint": lambda f, x: by_backward(lambda t: checkpoint(f, t, use_reentrant=False), x),
    "grad_of_checkpoint": lambda f, x: func.grad(lambda t: checkpoint(f, t, use_reentrant=False))(dnp.array(x)).numpy(),
    "pack_hooks": lambda f, x: by_backward(lambda t: under_hooks(f, t), x),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_small_array_may_be_written_after_its_use(name: str, mode: str) -> None:
    if name == "mask" and mode == "vmap_of_grad":
        pytest.skip("what a mask picks cannot be batched")
    program, gradient = PROGRAMS[name]
    x = np.linspace(0.5, 2.0, 4)
    np.testing.assert_allclose(MODES[mode](program, x), gradient(x), rtol=1e-12)


@pytest.mark.parametrize("mode", ["backward", "func.grad", "jacrev", "grad_of_functionalize", "functionalize_of_grad", "checkpoint"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_large_array_that_was_written_is_noticed(name: str, mode: str) -> None:
    program, gradient = PROGRAMS[name]
    x = np.linspace(0.5, 2.0, SMALL)
    error = ""
    try:
        found = MODES[mode](program, x)
    except RuntimeError as caught:
        error = str(caught)
    assert not error or CHANGED in error or "was overwritten by a write of NumPy's" in error
    if not error:  # the saved value was computed from the array, but is not the array
        np.testing.assert_allclose(found, gradient(x), rtol=1e-9)


@pytest.mark.parametrize("name", ["operator", "ufunc", "index", "matmul", "power", "asarray"])
def test_a_large_array_that_is_saved_itself_raises(name: str) -> None:
    with pytest.raises(RuntimeError, match=CHANGED):
        by_backward(PROGRAMS[name][0], np.linspace(0.5, 2.0, SMALL))


@pytest.mark.parametrize("n", [3, SMALL])
@pytest.mark.parametrize("make", [ndgrad.from_numpy, ndgrad.as_tensor, ndgrad.asarray])
def test_tensors_made_of_arrays_are_watched(make: Any, n: int) -> None:
    data = np.ones(n)
    w = ndgrad.full((n,), 2.0, requires_grad=True)
    (w * make(data)).sum().backward()
    assert w.grad.tolist() == [1.0] * n
    y = (w * make(data)).sum()
    data[...] = 7.0
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()


def test_a_leaf_over_the_users_memory_is_watched() -> None:
    data = np.array([1.0, 2.0])
    w = ndgrad.from_numpy(data).requires_grad_()
    y = (w * w).sum()
    (g,) = ndgrad.autograd.grad(y, w, create_graph=True)
    assert ndgrad.autograd.grad(g.sum(), w)[0].tolist() == [2.0, 2.0]
    y = (w * w).sum()
    data *= 3.0
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()


def test_writes_through_the_library_are_understood_as_ever() -> None:
    w = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    c = ndgrad.from_numpy(np.ones(2))
    y = (w * c).sum()
    c.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    w, c = dnp.array([1.0, 2.0]).requires_grad_(), dnp.asarray(np.ones(SMALL)[:2])
    y = (w * c).sum()
    c *= 2.0
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_second_derivatives_see_what_was_saved() -> None:
    c = np.array([3.0, 4.0])

    def f(x: Any) -> Any:
        y = (x**3 * c).sum()
        c[...] = 0.0
        return y

    x = dnp.array([1.0, 2.0]).requires_grad_()
    (g,) = ndgrad.autograd.grad(f(x), x, create_graph=True)
    assert ndgrad.autograd.grad(g.sum(), x)[0].tolist() == [18.0, 48.0]


def test_memory_that_cannot_change_is_neither_copied_nor_watched() -> None:
    frozen = np.ones(SMALL)
    frozen.flags.writeable = False
    w = ndgrad.ones(SMALL, requires_grad=True)
    y = w * frozen
    assert y.grad_fn._saved_other.numpy().base is frozen or np.shares_memory(y.grad_fn._saved_other.numpy(), frozen)


def test_a_sample_is_of_values_and_not_of_layout() -> None:
    rows = np.arange(60.0 * 70).reshape(60, 70)
    assert sample(rows) == sample(np.asfortranarray(rows)) == sample(rows.copy())
    assert sample(rows) != sample(rows + 1)
    changed = rows.copy()
    changed[-1, -1] = 0.0
    assert sample(rows) != sample(changed)


# ----- one buffer, one version -------------------------------------------------------------------------------------------------


def _strided() -> tuple[Any, Any]:
    base = np.arange(1.0, 4.0)
    return as_strided(base, (3,), (8,)), base


def _buffers() -> tuple[Any, Any]:
    memory = bytearray(np.arange(1.0, 4.0).tobytes())
    return np.frombuffer(memory), np.frombuffer(memoryview(memory))


def _shifted() -> tuple[Any, Any]:
    memory = array.array("d", [9.0, 1.0, 2.0, 3.0, 9.0])
    return np.frombuffer(memory, offset=8, count=3), np.frombuffer(memory)[1:]


@pytest.mark.parametrize("make", [_strided, _buffers, _shifted])
def test_arrays_over_one_buffer_share_a_version(make: Any) -> None:
    first, second = map(ndgrad.from_numpy, make())
    w = ndgrad.ones(3, requires_grad=True)
    y = (w * first).sum()
    second.mul_(5.0)
    assert first._version == second._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("make", [_strided, _buffers, _shifted])
def test_what_another_array_over_the_buffer_overwrote_is_rebuilt(make: Any) -> None:
    first, second = map(dnp.asarray, make())
    u, v = first * 1.0, first  # a copy, and the memory itself
    w = dnp.ones(3).requires_grad_()
    y = (w * v).sum()
    second *= 5.0
    y.backward()
    assert w.grad.tolist() == u.tolist()


# ----- values with a derivative in memory that cannot hold one --------------------------------------------------------------------


def _written_through_an_array(x: Any, make: Callable[[Any], Any] = dnp.asarray) -> Any:
    c = np.array([1.0, 2.0, 3.0])
    u = make(c)
    u[1:] = x[:2] * 5.0
    return (x * c).sum() + (u * 0.0).sum()


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "backward": lambda f, x: f(x.requires_grad_()),
    "grad": lambda f, x: func.grad(f)(x),
    "jacfwd": lambda f, x: func.jacfwd(f)(x),
    "vmap": lambda f, x: func.vmap(f)(dnp.stack([x, x])),
    "grad of functionalize": lambda f, x: func.grad(func.functionalize(f))(x),
    "functionalize of grad": lambda f, x: func.functionalize(func.grad(f))(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_array_over_a_plain_one_takes_no_value_that_has_a_derivative(way: str) -> None:
    with pytest.raises(RuntimeError, match="lies in the memory of a plain numpy.ndarray"):
        WAYS[way](_written_through_an_array, dnp.array([1.0, 1.0, 1.0]))
    WAYS[way](lambda x: _written_through_an_array(x, dnp.array), dnp.array([1.0, 1.0, 1.0]))


def test_the_argument_of_a_transform_may_be_written_in_memory_of_a_plain_array() -> None:
    def f(x: Any) -> Any:
        x *= x
        return x.sum()

    x = np.array([1.0, 2.0])
    assert func.jvp(f, (dnp.asarray(x),), (dnp.ones(2),))[1].tolist() == 6.0
    assert x.tolist() == [1.0, 4.0]


@pytest.mark.parametrize("make", [dnp.asarray, ndgrad.from_numpy])
def test_what_is_written_inside_functionalize_shows_in_the_plain_array(make: Any) -> None:
    def f(x: Any) -> Any:
        c = np.array([1.0, 2.0, 3.0])
        u = make(c)
        u[1:][0] = 5.0
        u *= 2.0
        return (x * make(c.copy())).sum()

    x = make(np.ones(3))
    for wrapped in (f, func.functionalize(f)):
        assert float(wrapped(x)) == 2.0 + 10.0 + 6.0
    assert func.grad(func.functionalize(f))(x).tolist() == [2.0, 10.0, 6.0]
    assert func.functionalize(func.grad(f))(x).tolist() == [2.0, 10.0, 6.0]


@pytest.mark.parametrize("name", ["copysign", "hypot", "fmin", "arctan2"])
def test_the_first_call_of_a_ufunc_saves_what_later_calls_save(name: str) -> None:
    """Run under checkpoint, where the second call is the recomputation, which must save the same tensors."""
    saved: list[int] = []
    for _ in range(3):
        seen: list[Any] = []
        with saved_tensors_hooks(lambda t, seen=seen: (seen.append(t), t)[1], lambda t: t):
            getattr(np, name)(dnp.array([0.5, 2.0]).requires_grad_(), np.array([3.0, 1.0]))
        saved.append(len(seen))
    assert len(set(saved)) == 1
