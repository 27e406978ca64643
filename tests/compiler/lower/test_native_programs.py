"""Programs as native code: what they give is what NumPy gives, and they are cut into as few kernels as they should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import Tensor
from ndgrad.nn import functional as F

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.lower.grouping import group_instructions
from ndgrad._src.compiler.lower.loops import Loop
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.products import Product
from ndgrad._src.compiler.lower.steps import Call, Kernel
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.reroll import find_loops
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import parse_program
from ndgrad._src.compiler.runtime.function import CompiledFunction
from tests.compiler.traced import arrays_for, random_function, run, traced

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def failures_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)


def assert_close(found: list[Any], expected: list[Any], ulps: int = 200) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if a.dtype.kind != "f":
            assert (a == b).all()
            continue
        scale = float(np.abs(b[np.isfinite(b)]).max(initial=np.finfo(b.dtype).tiny))
        np.testing.assert_allclose(a, b, rtol=0, atol=ulps * float(np.finfo(b.dtype).eps) * scale)


def native(function: Callable[..., Any], *arrays: Any, gradients: bool = True) -> tuple[NativeProgram, Program]:
    """The native program of a function, which gives what NumPy gives."""
    program = traced(function, list(arrays), gradients)
    made = NativeProgram(simplify_program(program))
    given = arrays_for(program, list(arrays))
    assert_close(made(given), run(program, given))
    return made, program


def kinds(made: NativeProgram) -> list[str]:
    return [type(step).__name__ if not isinstance(step, Call) else step.instruction.op.name for step in made.groups.steps]


def floats(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int) -> None:
    function, arrays = random_function(seed)
    program = traced(function, arrays)
    made = NativeProgram(simplify_program(program))
    given = arrays_for(program, arrays)
    with np.errstate(all="ignore"):
        found = made(given)
    for a, b in zip(found, run(program, given), strict=True):
        assert a.dtype == b.dtype
        finite = np.isfinite(b) if b.dtype.kind in "fc" else np.ones(b.shape, bool)
        scale = float(np.abs(b[finite]).max(initial=1.0)) if b.dtype.kind in "fc" else 1.0
        np.testing.assert_allclose(a[finite], b[finite], rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (7,), (8,), (33,), (3, 5), (2, 1, 17), (40, 3), (1000,)])
def test_a_chain_of_elementwise_ops_is_one_kernel(shape: tuple[int, ...], dtype: Any) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        z = x * 2.0 + y.sin()
        return (z.exp() - x / (1.0 + y * y)).sum()

    arrays = floats(*shape, dtype=dtype), floats(*shape, dtype=dtype)
    assert kinds(native(f, *arrays, gradients=False)[0]) == ["Kernel"]
    assert len(native(f, *arrays)[0].groups.steps) <= 3  # one step for numbers, one for values that depend on them


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[1:, ::2],
        lambda x: x[2],
        lambda x: x.t()[1:-1],
        lambda x: x.t().reshape(-1),
        lambda x: x.reshape(2, 3, 5).permute(2, 0, 1),
        lambda x: x[:, None, :].expand(6, 4, 5),
        lambda x: x.flip(0)[::2],
        lambda x: x.unfold(1, 2, 1),
        lambda x: x.diagonal(),
    ],
)
def test_views_are_read_where_they_lie(view: Callable[[Tensor], Tensor]) -> None:
    native(lambda x: (view(x) * view(x * 3.0).tanh()).sum(), floats(6, 5))


def test_rows_are_gone_through_in_one_kernel() -> None:
    x = floats(6, 9)
    assert kinds(native(lambda x: x.softmax(1), x, gradients=False)[0]) == ["Kernel"]
    assert kinds(native(lambda x: F.layer_norm(x, (9,)) * 2.0, x, gradients=False)[0]) == ["Kernel"]
    made, _ = native(lambda x: (x.softmax(1) * x.log_softmax(1)).sum(), x)
    assert set(kinds(made)) == {"Kernel"}
    assert len(made.groups.steps) <= 3


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dim", [0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 7, 2), (2, 1, 40), (5, 33, 1)])
def test_sums_over_any_dimensions(dim: Any, shape: tuple[int, ...]) -> None:
    native(lambda x: (x.sin().sum(dim) * 2.0, x.sum(dim, keepdim=True) * x, x.amax(dim)), floats(*shape))


def test_integers_and_booleans() -> None:
    i, j = RNG.integers(-9, 9, (4, 7)), RNG.integers(1, 5, (4, 7))

    def f(i: Tensor, j: Tensor) -> Any:
        small = i < j
        return i * j - 3, small.any(1), small.all(), (i // j).sum(1), i.amax(), ndgrad.where(small, i, j), (i % j).to(ndgrad.float32)

    made, _ = native(f, i, j)
    assert "any" not in kinds(made)


def test_parts_are_put_together_in_place() -> None:
    x, y = floats(3, 4), floats(2, 4)
    made, _ = native(lambda x, y: ndgrad.cat([x.exp(), y * 2.0, x[:1]]), x, y, gradients=False)
    assert set(kinds(made)) == {"Kernel"}
    native(lambda x, y: (ndgrad.cat([x, y]) * ndgrad.stack([x[0], y[1], x[2], y[0], x[1]])).sum(), x, y)

    def writes(x: Tensor, y: Tensor) -> Tensor:
        z = x.clone()
        z[1:] = y * 3.0
        z[:, 2] += 1.0
        return z * z

    native(writes, x, y)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 7), (7, 3)), ((4, 5, 7), (7, 3)), ((4, 5, 7), (4, 7, 3)), ((2, 1, 3, 4), (5, 4, 2)), ((7,), (7, 3)), ((5, 7), (7,)),
        ((7,), (7,)),
    ],
)  # fmt: skip
def test_products(shapes: Any, dtype: Any) -> None:
    made, _ = native(lambda a, b: ((a @ b) * 0.2).sin().sum(), *[floats(*s, dtype=dtype) for s in shapes])
    assert {k for k in kinds(made) if k not in ("Kernel", "Product")} <= {"contract"}  # outer products, in gradients of vectors
    assert any(isinstance(step, Product) for step in made.groups.steps)


def test_large_arrays_are_shared_among_workers() -> None:
    x = floats(300_001)
    made, _ = native(lambda x: (x.sin() * x.exp()).sum() + x.amax(), x)
    assert "ndgrad_run" in made.text
    native(lambda a, b: (a @ b).relu().sum(), floats(200, 150), floats(150, 170))
    native(lambda x: x.softmax(1) * 2.0, floats(700, 90))


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 63, 64, 65, 255, 1000, 4097, 70_000])
def test_sums_are_no_less_accurate_than_numpys(n: int) -> None:
    x = (RNG.standard_normal(n) * np.exp(RNG.uniform(-8, 8, n))).astype(np.float32)
    program = traced(lambda t: t.sum(), [x], gradients=False)
    found = float(NativeProgram(program)([x])[0])
    exact = math.fsum(map(float, x))
    assert abs(found - exact) <= max(abs(float(x.sum()) - exact), 2 * float(np.abs(x).sum()) * 2.0**-24)


def test_a_sum_of_infinities_and_nans() -> None:
    for values in ([1.0, math.inf], [math.inf, -math.inf], [1.0, math.nan], [-math.inf] * 40, [1e308] * 20):
        x = np.array(values)
        program = traced(lambda t: (t.sum(), t.amax(), t.amin()), [x], gradients=False)
        with np.errstate(all="ignore"):
            np.testing.assert_equal([float(a) for a in NativeProgram(program)([x])], [x.sum(), x.max(), x.min()])


def test_repeated_blocks_run_as_native_loops() -> None:
    def descent(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(30):
            x = x - 0.1 * (x * w).sin() + 0.01 * x @ w
        return (x * x).sum()

    x, w = floats(4), floats(4, 4)
    program = traced(descent, [x, w])
    made = NativeProgram(find_loops(simplify_program(program)))
    assert any(isinstance(step, Loop) for step in made.groups.steps)
    given = arrays_for(program, [x, w])
    assert_close(made(given), run(program, given), ulps=4000)


def test_an_index_out_of_range_is_the_ops_own_error() -> None:
    loss = CompiledFunction(lambda x, y: F.cross_entropy(x, y))
    x, y = ndgrad.tensor(floats(4, 3), requires_grad=True), ndgrad.tensor([0, 1, 2, 1])
    expected = F.cross_entropy(x, y)
    assert loss(x, y).item() == pytest.approx(expected.item(), rel=1e-14)
    bad = ndgrad.tensor([0, 3, 2, 1])
    with pytest.raises(Exception) as eager:
        F.cross_entropy(x, bad)
    with pytest.raises(type(eager.value)):
        loss(x, bad)
    assert loss(x, y).item() == pytest.approx(expected.item(), rel=1e-14)


def test_calls_from_two_threads_have_memory_of_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    program = traced(lambda a: (a @ a).tanh() @ a, [floats(40, 40)], gradients=False)
    made = NativeProgram(program)
    arrays = [floats(40, 40) for _ in range(8)]
    expected = [run(program, [a])[0] for a in arrays]
    with ThreadPoolExecutor(4) as executor:
        for _ in range(5):
            for found, want in zip(executor.map(lambda a: made([a])[0], arrays), expected, strict=True):
                np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-10)


def test_results_are_memory_of_their_own() -> None:
    program = traced(lambda a: (a * 2.0, (a + 1.0).t()), [floats(3, 4)], gradients=False)
    made = NativeProgram(program)
    a, b = floats(3, 4), floats(3, 4)
    first = [r.copy() for r in made([a])]
    kept = made([a])
    made([b])
    for x, y in zip(kept, first, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_kernel_may_be_joined_by_what_comes_later() -> None:
    """A value that only a later instruction reads does not break a kernel apart."""
    program = simplify_program(traced(lambda x, w: ((x @ w).sum(), x.sin() + x.cos()), [floats(4, 4), floats(4, 4)], gradients=False))
    steps = group_instructions(program).steps
    assert sum(isinstance(s, Kernel) for s in steps) <= 2


@pytest.mark.parametrize("settings", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": (2, 1)}, {"groups": 2, "padding": 1}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolutions(settings: dict[str, Any], dtype: Any) -> None:
    x, b = floats(2, 4, 9, 8, dtype=dtype), floats(6, dtype=dtype)
    w = floats(6, 4 // settings.get("groups", 1), 3, 3, dtype=dtype)
    native(lambda x, w, b: F.conv2d(x, w, b, **settings).tanh().sum(), x, w, b)


def test_formulas_of_mixed_dtypes_compute_as_numpy_does() -> None:
    x, y, w = floats(3, 4, dtype=np.float32), floats(3, 4, dtype=np.float32), floats(3, 4)
    native(lambda x, y, w: (ndgrad.lerp(x, y, w), x * w, ndgrad.where(x > 0, y, w), x < w), x, y, w)


def test_strict_and_threads() -> None:
    x = ndgrad.tensor(floats(300_000), requires_grad=True)

    def f(x: Tensor) -> Tensor:
        return (x.sin() * x).sum()

    strict = CompiledFunction(f, fullgraph=True, strict=True)
    assert strict(x).item() == f(x).item()  # to the last bit
    one = CompiledFunction(f, fullgraph=True, threads=1)
    one(x)
    made = one.entries[0].specialisation
    assert made is not None
    assert "ndgrad_run" in made.plan.run_forward.executable.text
    assert "i64 1)" in next(line for line in made.plan.run_forward.executable.text.splitlines() if "call void @ndgrad_run" in line)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5000, 13), (700, 3, 50), (9, 30000), (40, 40, 40)])
def test_sums_over_leading_dimensions_are_shared_among_workers(shape: tuple[int, ...], dtype: Any) -> None:
    x = RNG.standard_normal(shape).astype(dtype)

    def function(x: Tensor) -> Any:
        y = (x * 3).exp()
        return y.sum(0), (y - 1).sum(tuple(range(len(shape) - 1))), y * 2

    made, _ = native(function, x, gradients=False)
    assert any(nest.splits_sums for nest in made.assembly.kernels) == (shape[0] > 30)
    one = NativeProgram(made.original, threads=1)
    for a, b in zip(made([x]), one([x]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("shape", [(7, 5), (1, 5), (2000, 60), (40, 8, 70)])
def test_reductions_over_leading_dimensions_are_kernels(shape: tuple[int, ...], dtype: str) -> None:
    x = (RNG.standard_normal(shape) * 9).astype(dtype)
    if dtype.startswith("float"):
        x.flat[3], x.flat[x.size // 2], x[:, ..., 1] = np.nan, np.inf, -np.inf
    for dim in (0, len(shape) - 2):
        made, _ = native(
            lambda t, dim=dim: (t.amax(dim), t.amin(dim), (t > 0).any(dim), (t > 2).all(dim)),
            x, gradients=False,
        )  # fmt: skip
        assert {*kinds(made)} == {"Kernel"}
    if dtype.startswith("int"):
        made, _ = native(lambda t: (t.sum(0), t.prod(0)), x % 5 + 1, gradients=False)
        assert {*kinds(made)} == {"Kernel"}


def test_softmax_along_a_leading_dimension_is_kernels() -> None:
    made, _ = native(lambda t: ndgrad.softmax(t, 0) * ndgrad.log_softmax(t, 0), floats(300, 40))
    assert {*kinds(made)} == {"Kernel"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_parts_that_overlap_are_kernels(dtype: Any) -> None:
    x = RNG.standard_normal((6, 8)).astype(dtype)
    x[2:4] = -0.0

    def function(x: Tensor) -> Any:
        return x[1:4].exp(), x[2:, ::2] * x[:4, 1::2], x[3] * 2, x[:, 5:] + 1

    made, program = native(function, x)
    assert "pieces" in {i.op.name for i in simplify_program(program).instructions}
    assert not [name for name in kinds(made) if name not in ("Kernel", "Product")]
    given = [x, *[np.full(v.shape, -0.0, v.dtype) for v in program.inputs[1:]]]
    for a, b in zip(made(given), run(program, given), strict=True):
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def test_parts_written_over_others_are_kernels() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        out = x * 2
        out[1:3] = y[:2]
        out[:, 2:5] = out[:, 1:4] + y[:, :3]
        out[2] = y[0] * y[1]
        return out

    made, _ = native(function, RNG.standard_normal((4, 6)), RNG.standard_normal((4, 6)))
    assert not [name for name in kinds(made) if name not in ("Kernel", "Product")]


def test_outputs_have_memory_of_their_own_without_python() -> None:
    def function(x: Any, y: Any) -> Any:
        total = x + y
        return total.T, x[:, ::2], x, y, y, total.sum(0).expand(3, 5)

    made, _ = native(function, floats(4, 5), floats(4, 5), gradients=False)
    assert made.gives_fresh
    x, y = floats(4, 5), floats(4, 5)
    outputs = made([x, y])
    assert all(a.flags.c_contiguous and a.flags.owndata and not np.shares_memory(a, b) for a in outputs for b in (x, y))
    assert not any(np.shares_memory(a, b) for i, a in enumerate(outputs) for b in outputs[:i])


def test_a_transposed_gradient_is_a_product_and_no_copy() -> None:
    made, _ = native(lambda x, w: x @ w.T, floats(6, 5), floats(7, 5))
    assert kinds(made) == ["Product", "Product", "Product"]
    assert made.gives_fresh


@pytest.mark.parametrize("others", ["", ", %1", ", %3"])
@pytest.mark.parametrize(("shape", "dims"), [((3, 5), (1, 0)), ((64, 48), (1, 0)), ((2, 3, 4), (2, 0, 1))])
def test_outputs_with_dimensions_in_another_order_are_written_so(
    shape: tuple[int, ...], dims: tuple[int, ...], others: str
) -> None:
    """By the kernel that computes them, also where they are wanted as they are, or added up, too."""
    text = ",".join(map(str, shape)), ",".join(str(shape[d]) for d in dims), ",".join(map(str, shape[1:]))
    program = NativeProgram(
        parse_program(f"""program p(%0: float64[{text[0]}])
  %1: float64[{text[0]}] = mul(%0, 2.0)
  %2: float64[{text[1]}] = permute(%1, dims={dims})
  %3: float64[{text[2]}] = sum(%1, dim=(0,), keepdim=False, dtype=None)
  return %2{others}
""")
    )
    x = np.random.default_rng(0).standard_normal(shape)
    found = program([x])
    assert (found[0] == (x * 2).transpose(dims)).all()
    assert all(place.is_whole for place in program.outputs)
    assert all(a.flags.c_contiguous for a in found)
    if others:
        np.testing.assert_allclose(found[1], x * 2 if others == ", %1" else (x * 2).sum(0), rtol=1e-14)
