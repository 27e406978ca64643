"""Functions of complex numbers, compiled and eager: memory order, writes, derivatives, loops and transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import func

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.steps import Call
from ndgrad._src.compiler.runtime.function import CompiledFunction
from tests.compiler.traced import traced

RNG = np.random.default_rng(0)
DTYPES = [np.complex64, np.complex128]


@pytest.fixture(autouse=True)
def failures_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)


def numbers(*shape: int, dtype: Any = np.complex128) -> Any:
    return ndgrad.tensor((RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype))


def close(found: Any, expected: Any, units: float = 200) -> None:
    a, b = (np.asarray(t.detach().numpy()) for t in (found, expected))
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    scale = float(np.max(np.abs(b), initial=1.0))
    np.testing.assert_allclose(a, b, rtol=0, atol=units * scale * float(np.finfo(b.dtype).eps))


def weighted(r: Any) -> Any:
    return (r * ndgrad.cos(ndgrad.arange(r.numel(), dtype=r.dtype)).reshape(r.shape)).sum()


def same(f: Callable[..., Any], *tensors: Any, gradients: bool = True) -> CompiledFunction:
    """Check that a function returns its eager result three times: traced, by its program, and as a builtin."""
    compiled = CompiledFunction(f, fullgraph=True)
    for _ in range(3):
        results = []
        for run in (f, compiled):
            leaves = [t.detach().requires_grad_(gradients and t.dtype.is_complex) for t in tensors]
            out = run(*leaves)
            found = list(out) if isinstance(out, tuple) else [out]
            if gradients:
                loss = sum(weighted(ndgrad.view_as_real(r) if r.is_complex() else r) for r in found)
                found += ndgrad.autograd.grad(loss, [t for t in leaves if t.requires_grad])
            results.append(found)
        for a, b in zip(*results[::-1], strict=True):
            close(a, b)
    return compiled


def steps(f: Callable[..., Any], *tensors: Any) -> list[str]:
    """Return the steps of a function as native code, without gradients."""
    made = NativeProgram(simplified(traced(f, [t.numpy() for t in tensors], gradients=False)))
    return [called(step.instruction) if isinstance(step, Call) else type(step).__name__ for step in made.groups.steps]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_chain_of_elementwise_ops_is_one_kernel(dtype: Any) -> None:
    def f(z: Any, w: Any) -> Any:
        a = z * w.conj() + 2j
        return (a.exp() / (1 + w.abs())).tanh() * 0.5 - a.real

    same(f, numbers(7, 33, dtype=dtype), numbers(33, dtype=dtype))
    assert steps(f, numbers(7, 33), numbers(7, 33)) == ["Kernel"]


@pytest.mark.parametrize("size", [1, 2, 3, 15, 64, 1000, 70001])
def test_any_number_of_elements(size: int) -> None:
    same(lambda z, w: (z * w, (z + w).real, (z * 1j).sum()), numbers(size), numbers(size))


@pytest.mark.parametrize("view", ["transposed", "every other", "backwards", "part", "conjugated", "of real memory"])
def test_arguments_that_lie_otherwise(view: str) -> None:
    z = numbers(6, 8)
    w = {
        "transposed": lambda: numbers(8, 6).mT,
        "every other": lambda: numbers(6, 16)[:, ::2],
        "backwards": lambda: ndgrad.tensor(np.asarray(numbers(6, 8).numpy()))[::1].flip(0),
        "part": lambda: numbers(9, 9)[2:8, 1:],
        "conjugated": lambda: numbers(6, 8).conj(),
        "of real memory": lambda: ndgrad.view_as_complex(ndgrad.view_as_real(numbers(6, 8))),
    }[view]()
    same(lambda z, w: (z * w).exp() @ w.mH, z, w)


def test_parts_of_an_argument_are_views_of_it() -> None:
    """Return real tensors with a stride of two."""
    z = numbers(5, 6)
    same(lambda x, y, w: x * y + w.real, z.real, z.imag, numbers(5, 6))


def test_parts_that_are_written() -> None:
    def f(z: Any, w: Any) -> Any:
        z = z * 1.0
        z.real[0] = 3.0
        z.imag *= w.real
        ndgrad.view_as_real(z)[1, ..., 0] += 1.0
        z[2] = w[0] * 1j
        return z * z

    same(f, numbers(4, 5), numbers(4, 5))


def test_an_argument_that_is_written() -> None:
    def f(z: Any, w: Any) -> Any:
        z.mul_(w)
        z.real.add_(1.0)
        return z.sum()

    compiled = CompiledFunction(f, fullgraph=True)
    w = numbers(6)
    a, b = (numbers(6) for _ in range(2))
    b.copy_(a)
    for _ in range(4):
        close(compiled(b, w), f(a, w))
        close(b, a)


def test_results_are_memory_of_their_own() -> None:
    """Pairs and their complex numbers share memory in eager code, but are two values in the program."""
    z = numbers(4)
    compiled = CompiledFunction(lambda z: (z * 1.0, ndgrad.view_as_real(z * 1.0), z), fullgraph=True)
    for _ in range(3):
        a, b, c = compiled(z)
        before = z.clone()
        a.zero_()
        b.add_(1.0)
        close(z, before)
        close(ndgrad.view_as_complex(b), before + (1 + 1j))
        close(c, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_contractions(dtype: Any) -> None:
    a, b, c = numbers(4, 5, 6, dtype=dtype), numbers(6, 5, 7, dtype=dtype), numbers(7, 4, dtype=dtype)
    same(lambda a, b, c: ndgrad.einsum("ijk,kjl,lm->im", a, b, c), a, b, c)
    same(lambda a, b, c: (ndgrad.tensordot(a, b, dims=([2], [0])).sum((1, 2)), ndgrad.outer(c[0], c[1]), ndgrad.vdot(c[0], c[1])), a, b, c)
    assert set(steps(lambda a, b: ndgrad.einsum("ijk,kjl->il", a, b), a, b)) == {"Kernel", "Product"}


@pytest.mark.parametrize("sizes", [(3, 4, 5), (64, 32, 48), (1, 130, 70), (70, 130, 1), (257, 33, 65)])
def test_matrix_products(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    same(lambda a, b: a @ b, numbers(m, k), numbers(k, n))
    same(lambda a, b: (a.mH @ a) @ b.conj(), numbers(m, k), numbers(k, n))
    kinds = steps(lambda a, b: a @ b, numbers(m, k), numbers(k, n))
    assert "Product" in kinds
    assert set(kinds) <= {"Kernel", "Product"}


def test_a_transform_between_kernels() -> None:
    def f(z: Any, h: Any) -> Any:
        return ndgrad.fft.ifft(ndgrad.fft.fft(z * z.conj().real) * h).abs().square().mean() + ndgrad.fft.rfft(z.real).abs().sum()

    same(f, numbers(3, 16), numbers(16))
    assert steps(f, numbers(3, 16), numbers(16)).count("fft_c2c") == 2


def test_a_quantum_circuit() -> None:
    """Gates on a state of several qubits in a Python loop, which is detected, and the expectation with gradients."""

    def rotation(angle: Any) -> Any:
        c, s = ndgrad.cos(angle / 2), ndgrad.sin(angle / 2)
        return ndgrad.stack([ndgrad.stack([ndgrad.complex(c, 0 * c), ndgrad.complex(0 * s, -s)]),
                             ndgrad.stack([ndgrad.complex(0 * s, -s), ndgrad.complex(c, 0 * c)])])  # fmt: skip

    def energy(angles: Any, state: Any) -> Any:
        for layer in range(3):
            for qubit in range(4):
                state = ndgrad.tensordot(rotation(angles[layer, qubit]), state, dims=([1], [qubit])).movedim(0, qubit)
        return (state[0].abs() ** 2).sum()

    angles = ndgrad.tensor(RNG.standard_normal((3, 4)), requires_grad=True)
    state = numbers(2, 2, 2, 2)
    compiled = CompiledFunction(energy, fullgraph=True)
    for _ in range(3):
        expected, found = (run(angles, state) for run in (energy, compiled))
        close(found, expected)
        close(*[ndgrad.autograd.grad(e, angles)[0] for e in (found, expected)])


def test_a_loop_of_complex_state() -> None:
    def f(z: Any, w: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            state = state * x + 0.1j * state.conj()
            return state, state.abs()

        return func.scan(step, z, w)

    z, w = numbers(3) * 0.5, numbers(8, 3) * 0.5
    carried, sizes = CompiledFunction(f, fullgraph=True)(z, w)
    expected, others = f(z, w)
    close(carried, expected)
    close(sizes, others)
    same(lambda z, w: f(z, w)[0], z, w)


def test_a_branch_on_complex_numbers() -> None:
    def f(p: Any, z: Any) -> Any:
        return func.cond(p, lambda z: ndgrad.linalg.inv(z), lambda z: z * 2j, z)

    compiled = CompiledFunction(f, fullgraph=True)
    z = numbers(3, 3)
    for p in (True, False, True):
        close(compiled(ndgrad.tensor(p), z), f(ndgrad.tensor(p), z))


@pytest.mark.parametrize("way", ["jvp", "second", "hvp", "vmap", "jacfwd"])
def test_derivatives_and_transforms(way: str) -> None:
    def f(z: Any) -> Any:
        return (z * z.conj() + (z * 0.3).exp()).abs().sum() + (z**3 / (z + 3)).imag.sum()

    z, t = numbers(4), numbers(4)
    run = {
        "jvp": lambda z: func.jvp(f, (z,), (t,))[1],
        "second": lambda z: func.grad(lambda z: (func.grad(f)(z) * t.conj()).real.sum())(z),
        "hvp": lambda z: func.jvp(func.grad(f), (z,), (t,))[1],
        "vmap": lambda z: func.vmap(func.grad(f))(ndgrad.stack([z, z * 1j, t])),
        "jacfwd": lambda z: func.jacfwd(lambda z: z * z.sum() / (z + 2))(z),
    }[way]
    same(run, z, gradients=False)


def test_double_backward_of_a_compiled_function() -> None:
    compiled = CompiledFunction(lambda z: (z.exp() * z.conj()).real.sum())
    found = []
    z0 = numbers(5)
    for run in (compiled, compiled.__wrapped__):
        z = z0.clone().requires_grad_()
        (g,) = ndgrad.autograd.grad(run(z), z, create_graph=True)
        found.append(ndgrad.autograd.grad((g * g).imag.sum(), z)[0])
    close(*found)


def test_a_step_of_an_optimizer() -> None:
    found = []
    start, x = numbers(4, 4), numbers(4, 4)
    for wrap in (lambda f: f, CompiledFunction):
        z = start.clone().requires_grad_()
        optimizer = ndgrad.optim.Adam([z], lr=0.1)

        def step(x: Any, z: Any = z, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = ((z @ x - x).abs() ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        found.append([*[run(x) for _ in range(5)], z])
    for a, b in zip(*found, strict=True):
        close(a, b, 2000)


def test_strict_gives_every_bit() -> None:
    def f(z: Any) -> Any:
        return (z.exp() / (z + 1)).log() @ z

    z = numbers(20, 20)
    with ndgrad.no_grad():
        found = CompiledFunction(f, strict=True)(z)
    np.testing.assert_array_equal(found.numpy(), f(z).numpy())


def test_sizes_that_vary_share_their_code() -> None:
    compiled = CompiledFunction(lambda z, w: (z * w).exp().sum(-1), dynamic=True)
    for n in (33, 40, 41, 64):
        z, w = numbers(3, n), numbers(3, n)
        with ndgrad.no_grad():
            close(compiled(z, w), (z * w).exp().sum(-1))


def test_the_steps_can_be_looked_at() -> None:
    compiled = CompiledFunction(lambda z: ndgrad.fft.fft(z @ z) * 2)
    text = str(compiled.kernels(numbers(8, 8)))
    assert "matmul" in text
    assert "fft_c2c" in text
