"""Programs for tests of passes: traced from functions of tensors, with their gradients; random functions; comparison of
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np

import ndgrad
from ndgrad._src.compiler.capture.trace_watch import trust
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.program.text import parse_program
from ndgrad._src.compiler.runtime import specialization, tracing
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.compiler.runtime.plan import CodeOptions
from ndgrad._src.compiler.runtime.trace_result import TracedProgram, TraceResult

trust(__file__)


class _Traced(BaseException):  # not an Exception, so that no handler catches it
    """Carries the traced program out of `compile`."""

    def __init__(self, program: Program, held: list[tuple[Any, Any]]) -> None:
        self.program = program
        self.held = held


def _end(trace: TraceResult, traced: TracedProgram, options: CodeOptions) -> None:
    """Take the place of `make_plan`: end after the trace."""
    program, joint = traced.joint.program, traced.joint
    program.outputs = [*joint.values, *[g for g in joint.gradients if g is not None]]
    pairs = zip(program.inputs, trace.sources, strict=False)
    raise _Traced(program, [(value, which[0]) for value, (kind, which) in pairs if kind == "environment"])


def traced(function: Callable[..., Any], arrays: Sequence[Any], gradients: bool = True) -> Program:
    """Return the program of a function of tensors before any pass: its results, then the gradients of its
    floating-point arguments. The inputs are these, then the gradients of the results.
    """
    tensors = [ndgrad.tensor(a, requires_grad=gradients and np.asarray(a).dtype.kind in "fc") for a in arrays]
    try:
        with (
            mock.patch.object(specialization, "make_plan", _end),
            mock.patch.object(tracing, "joint_program", return_value=None),  # runs passes first
        ):
            CompiledFunction(function, fullgraph=True)(*tensors)
    except _Traced as found:
        for value, source in found.held:
            found.program.inputs.remove(value)
            found.program.constants[value] = np.array(source._array)  # captured tensors are constants here
        found.program.check()
        return found.program
    raise AssertionError("nothing was traced")


def arrays_for(program: Program, arrays: Sequence[Any]) -> list[Any]:
    """Return the arguments of a traced program: those of the function, then the gradients of its results."""
    rest = program.inputs[len(arrays) :]
    random = np.random.default_rng(7)
    return [*arrays, *[(random.integers(-4, 5, v.shape) / 4).astype(v.dtype) for v in rest]]


def run(program: Program, arrays: Sequence[Any]) -> list[Any]:
    """Return the outputs of a program on NumPy."""
    with np.errstate(all="ignore"):
        return [np.asarray(a) for a in Replay(program)(arrays)]


def assert_same(program: Program, other: Program, arrays: Sequence[Any], ulps: int = 0) -> None:
    """Check that both programs give the same arrays: bit for bit, except for the signs of NaNs, or within some units in
    the last place of the largest element, if sums are added in memory order.
    """
    other.check()
    for a, b in zip(run(program, arrays), run(other, arrays), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if same_bits(a, b):
            continue
        assert ulps, f"\n{program}\n{other}\n{a}\n{b}"
        assert a.dtype.kind in "fc"
        scale = max(float(np.abs(a[np.isfinite(a)]).max(initial=0)), float(np.finfo(a.dtype).tiny))
        np.testing.assert_allclose(a, b, rtol=0, atol=ulps * float(np.finfo(a.dtype).eps) * scale, err_msg=f"\n{program}\n{other}")


def same_bits(a: Any, b: Any) -> bool:
    """True if two arrays have the same elements, including signs of zeros."""
    if a.dtype.kind not in "fc":
        return bool((a == b).all())
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    return bool((((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))).all())


# ----- random functions ----------------------------------------------------------------------------------------------------

# Only sums and products of numbers with few digits, for which every order of additions is exact.
_UNARY = ("neg", "relu", "abs", "detach", "clone")
_VIEWS = ("t", "flatten", "row", "rows", "unsqueeze", "expand", "back", "column", "select", "flip", "contiguous", "double")


def random_function(seed: int, length: int = 14) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of two matrices and a vector, and arguments for it, with zeros of both signs among them."""
    draw = np.random.default_rng(seed)
    choices = draw.integers(0, 1 << 30, (length, 4))
    arrays = [draw.integers(-3, 4, shape) * draw.choice([0.5, -1.0], shape) for shape in ((3, 4), (3, 4), (4,))]

    def function(*tensors: Any) -> Any:
        pool = list(tensors)
        for kind, first, second, which in choices:
            x, y = pool[first % len(pool)], pool[second % len(pool)]
            try:
                pool.append(_draw(int(kind), int(which), x, y))
            except (RuntimeError, IndexError, ValueError):  # incompatible shapes
                continue
        return pool[-1], pool[-2] * 1.0

    return function, arrays


def _draw(kind: int, which: int, x: Any, y: Any) -> Any:
    match kind % 6:
        case 0 | 1:
            found = (x + y, x - y, x * y, x / 2, x * 1, x - 0.0, x + 0.0, -x, 1.0 * x, y + (-x), x - (-y), (-x) * (-y), (-x) * 2.0)
            return found[which % len(found)]
        case 2:
            return getattr(x, _UNARY[which % len(_UNARY)])()
        case 3:
            return (x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.square(), x.sum(0, keepdim=True).squeeze(0))[which % 5]
        case 4:
            return _viewed(_VIEWS[which % len(_VIEWS)], x)
    return _write(which, x, y)


def _viewed(name: str, x: Any) -> Any:
    match name:
        case "t":
            return x.transpose(0, -1)
        case "flatten":
            return x.flatten()
        case "row":
            return x[1]
        case "rows":
            return x[1:][::1]
        case "unsqueeze":
            return x.unsqueeze(0)
        case "expand":
            return x.sum().expand(3, 4)
        case "back":
            return x.reshape(-1).reshape(x.shape)
        case "column":
            return x[..., -1]
        case "select":
            return x.select(0, 0)
        case "flip":
            return x.flip(0)
        case "contiguous":
            return x.t().contiguous()
    return x.float().double()


def _write(which: int, x: Any, y: Any) -> Any:
    out = x.clone()
    match which % 5:
        case 0:
            out[0] = y.reshape(-1)[0]
        case 1:
            out[1:] = 2.0
        case 2:
            out.mul_(2)
        case 3:
            return ndgrad.cat([x, x], 0)[1:3]
        case 4:
            return ndgrad.stack([x, y])[0]
    return out


# ----- texts -----------------------------------------------------------------------------------------------------------------


def becomes(rewrite: Callable[[Program], Program], before: str, after: str, constants: Sequence[Any] = ()) -> None:
    """Check that a pass turns the program of one text, after dead code elimination, into that of another, with the same
    results.
    """
    program = parse_program(before, constants)
    other = remove_dead_code(rewrite(program))
    expected = parse_program(after)
    assert str(other) == str(expected), f"\n{other}"
    random = np.random.default_rng(3)
    given = [np.asarray(random.integers(-3, 4, v.shape) / 2).astype(v.dtype) for v in program.inputs]
    assert_same(program, other, given)


def fail_at(emit: Callable[..., Any], count: list[int], error: Any) -> Callable[..., Any]:
    """A method of the tracer in the place of another: it counts its calls in `count[0]`, and raises at number `count[1]`."""

    def emits(self: Any, *args: Any) -> Any:
        count[0] += 1
        if count[0] == count[1]:
            raise error
        return emit(self, *args)

    return emits
