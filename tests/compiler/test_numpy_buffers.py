"""NumPy programs that write into buffers, compiled: alone, and inside and around every transform."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ndgrad
import ndgrad.numpy as np
from ndgrad import func

N = 7


def heat(x: Any) -> Any:
    u = np.exp(-((np.arange(N + 1) - 4.0) / 2) ** 2)
    for _ in range(4):
        flux = x * (u[1:] - u[:-1])
        u[1:-1] = u[1:-1] + 0.2 * (flux[1:] - flux[:-1])
    return (u * u).sum()


def recurrence(x: Any) -> Any:
    u = np.zeros(N)
    u[0] = x[0]
    for i in range(1, N):
        u[i] = np.sin(u[i - 1]) + x[i]
    return (u * u).sum()


def augmented(x: Any) -> Any:
    u = np.zeros(N + 2)
    for _ in range(3):
        u[1:-1] += x
        u[2:] -= 0.1 * u[:-2] * u[2:]
        u[:-1] *= 0.9
    return (u**2).sum()


def with_out(x: Any) -> Any:
    u, t = np.zeros_like(x), np.empty(N)
    for _ in range(3):
        np.multiply(x, 0.3, out=t)
        np.add(u, t, out=u)
        np.sin(u, out=u)
    return u.sum()


def stencil(x: Any) -> Any:
    u = np.zeros((5, 6))
    u[:, 0] = 1.0
    u[2, 3] = x[0]
    for _ in range(3):
        u[1:-1, 1:-1] += 0.1 * x[1] * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return (u * u).sum()


def red_black(x: Any) -> Any:
    u = np.array(x) * 1.0
    for _ in range(3):
        u[::2] = u[::2] * 0.5 + 0.1
        u[1::2] = np.tanh(u[1::2]) + 0.5 * u[:-1:2]
    return (u * u).sum()


def periodic(x: Any) -> Any:
    u = x * 1.0
    for _ in range(3):
        u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        u[0] = u[-1] = 0
    return (u * u).sum()


def thomas(x: Any) -> Any:
    a, b, c, d = -np.ones(N), 2 + x, -np.ones(N), x * 1.0
    for i in range(1, N):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    s = np.zeros(N)
    s[-1] = d[-1] / b[-1]
    for i in range(N - 2, -1, -1):
        s[i] = (d[i] - c[i] * s[i + 1]) / b[i]
    return s.sum()


def fancy(x: Any) -> Any:
    u = np.zeros(N)
    u[np.array([1, 3, 5])] = x[np.array([0, 2, 4])] ** 2
    np.add.at(u, np.arange(N) // 2, x)
    u[u > 100] = 0.0
    return (u * u * x).sum()


def lists(x: Any) -> Any:
    y = np.array([x[1], 0.0])
    for _ in range(4):
        y = y + 0.1 * np.array([y[1], -np.sin(y[0]) * x[0]])
    return y[0] ** 2


PROGRAMS = [heat, recurrence, augmented, with_out, stencil, red_black, periodic, thomas, fancy, lists]


def hvp(f: Any) -> Any:
    return lambda x: func.jvp(func.grad(f), (x,), (np.cos(x),))[1]


FORMS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda f: f,
    "grad": func.grad,
    "jvp": lambda f: lambda x: func.jvp(f, (x,), (np.cos(x),)),
    "hvp": hvp,
    "hessian": func.hessian,
    "jacfwd of grad": lambda f: func.jacfwd(func.grad(f)),
    "vmap of grad": lambda f: lambda x: func.vmap(func.grad(f))(np.stack([x, 1.1 * x])),
}


def point() -> Any:
    return np.array(0.5 + 0.05 * numpy.arange(N))


def agrees(f: Any, *arguments: Any) -> None:
    """Check that a function compiled to one program gives its eager result."""
    for found, expected in zip(_leaves(ndgrad.compile(f, fullgraph=True)(*arguments)), _leaves(f(*arguments)), strict=True):
        numpy.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-11, atol=1e-13)


def _leaves(tree: Any) -> Any:
    return ndgrad.utils._pytree.tree_flatten(tree)[0]


@pytest.fixture
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_buffers_compile_in_every_transform(program: Any, form: str) -> None:
    agrees(FORMS[form](program), point())


@pytest.mark.parametrize("program", [heat, stencil, red_black, periodic, lists], ids=lambda p: p.__name__)
def test_gradients_of_buffers_as_native_code(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    agrees(func.grad(program), point())


def test_gradient_of_a_time_loop_is_two_native_loops() -> None:
    pytest.importorskip("llvmlite")

    def energy(k: Any) -> Any:
        u = np.exp(-((np.arange(20) - 10.0) / 4) ** 2)
        for _ in range(40):
            flux = k * (u[1:] - u[:-1])
            u[1:-1] = u[1:-1] + 0.2 * (flux[1:] - flux[:-1])
        return (u * u).sum()

    compiled = ndgrad.compile(func.grad(energy))
    k = np.array(0.5 + 0.01 * numpy.arange(19))
    numpy.testing.assert_allclose(compiled(k).numpy(), func.grad(energy)(k).numpy(), rtol=1e-12)
    kinds = [type(step).__name__ for step in compiled.entries[-1].specialisation.plan.run_forward.executable.groups.steps]
    assert kinds.count("Loop") == 2
    assert "Call" not in kinds


@pytest.mark.usefixtures("on_numpy")
def test_backward_through_a_compiled_function_of_buffers() -> None:
    for program in (heat, thomas, stencil):
        x, y = point().requires_grad_(), point().requires_grad_()
        (ndgrad.compile(program, fullgraph=True)(x) * 2.0).backward()
        (program(y) * 2.0).backward()
        numpy.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12)


@pytest.mark.usefixtures("on_numpy")
def test_lifted_numpy_functions_compile() -> None:
    def plain(x: Any) -> Any:
        u = numpy.zeros(N)
        u[0] = x[0]
        for i in range(1, N):
            u[i] = numpy.sin(u[i - 1]) + x[i]
        u[1:-1] += 0.5 * u[2:]
        return (u * u).sum()

    lifted = ndgrad.lift(plain)
    for form in ("plain", "grad", "hvp"):
        agrees(FORMS[form](lifted), point())


@pytest.mark.usefixtures("on_numpy")
def test_torchs_out_is_a_write() -> None:
    def f(x: Any) -> Any:
        t = ndgrad.zeros(3, dtype=ndgrad.float64)
        ndgrad.mul(x, 2.0, out=t)
        ndgrad.add(t, x, out=t)
        return t * t

    x = ndgrad.tensor([1.0, 2.0, 3.0], dtype=ndgrad.float64)
    agrees(f, x)
    out = ndgrad.zeros(3, dtype=ndgrad.float64)
    ndgrad.compile(lambda x: ndgrad.exp(x, out=out), fullgraph=True)(x)
    numpy.testing.assert_allclose(out.numpy(), x.exp().numpy())


def reshaped_in_order(y: Any) -> Any:
    t = y * 2.0
    t.reshape(-1)[1] = 5.0
    t.ravel()[0] = 2.0
    return t


def written_out_of_order(y: Any) -> Any:
    t = y.T * 2.0
    t[0] = 5.0
    t[1:] *= 2.0
    return t.reshape(-1) * 3.0


def reshaped_out_of_order(y: Any) -> Any:
    t = np.mod(np.reshape(y, (-1, 2), order="F"), 2.0)  # in Fortran order like its argument, so the next op copies
    t.reshape(-1)[...] = 2.0
    return t


def raveled_out_of_order(y: Any) -> Any:
    t = np.sin(y.T)
    t.ravel()[0] = 2.0
    return t


def of_an_order_to_be_found_out(y: Any) -> Any:
    t = np.fft.fft(y, axis=0).real.T[np.array([2, 0, 1])]
    t.reshape(-1)[0] = 2.0
    return t


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize(
    "program",
    [reshaped_in_order, written_out_of_order, reshaped_out_of_order, raveled_out_of_order, of_an_order_to_be_found_out],
)
def test_whether_a_reshape_is_a_view_is_known(program: Any) -> None:
    y = np.array(numpy.cos(numpy.arange(6.0)).reshape(2, 3))
    numpy.testing.assert_array_equal(ndgrad.compile(program, fullgraph=True)(y).numpy(), program(y).numpy())


# ----- parts that an index picks which only a call knows ------------------------------------------------------------------


def _least(t: Any) -> Any:
    return t.reshape(-1).argsort()[0] % 2


def _written_part(t: Any, x: Any) -> Any:
    part = t[_least(t)]
    part += x
    return t * x


def _written_view_of_part(t: Any, x: Any) -> Any:
    part = t[_least(t)][1:]
    part *= x[1:]
    return t + x


def _written_column(t: Any, x: Any) -> Any:
    part = t[:, _least(t)]
    part += x.sum()
    return t + x


def _written_whole(t: Any, x: Any) -> Any:
    part = t[_least(t)]
    t *= 2.0
    return part * x


def _written_at_index(t: Any, x: Any) -> Any:
    t[_least(t)] += x
    t[_least(t)] *= 2.0
    return t * x


@pytest.mark.parametrize(
    "f", [_written_part, _written_view_of_part, _written_column, _written_whole, _written_at_index], ids=lambda f: f.__name__[1:]
)
@pytest.mark.parametrize("tensor_type", [ndgrad, np], ids=["tensors", "arrays"])
def test_a_part_by_a_computed_index_is_a_view(f: Any, tensor_type: Any) -> None:
    make = ndgrad.tensor if tensor_type is ndgrad else np.array
    x = make([1.0, 2.0, 3.0]).requires_grad_()

    def run(x: Any) -> Any:
        return f(make([[3.0, 0.5, 1.0], [0.2, 2.0, 4.0]]) * 1.0, x)

    expected = run(x)
    (slope,) = ndgrad.autograd.grad(expected.sum(), x)
    for found in (compiled := ndgrad.compile(run))(x), compiled(x):
        numpy.testing.assert_allclose(found.detach(), expected.detach())
        numpy.testing.assert_allclose(ndgrad.autograd.grad(found.sum(), x)[0], slope)
