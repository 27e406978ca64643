"""One call that checks everything the table promises of an op.

Values against a reference, forward mode against finite differences, reverse mode as its transpose, both second orders,
batching against a loop, batched derivatives, and that batching does not loop. People who register an op of their own use it
as the project's own tests do.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndgrad.autograd.variable import Variable, wrap
from ndgrad.func.transforms import jvp, vjp, vmap
from ndgrad.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, Op

#: The checks, in the order they run.
CHECKS = ("values", "jvp", "vjp", "jvp of vjp", "vjp of vjp", "vjp of jvp", "vmap", "vmap of jvp", "vmap of vjp", "no loop")


@dataclass
class Sample:
    """One way to call an op: arrays (or None, or numbers), settings, and what the value should be."""

    args: tuple[Any, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    #: what the op computes, as a function of the same raw arguments; None when `expected` is given
    reference: Callable[..., Any] | None = None
    #: False where the second derivative does not exist or vanishes by convention (checks of second order are skipped)
    smooth: bool = True
    #: what to skip, with the reason: {"vmap": "the batch rule needs at least one dimension"}
    skip: dict[str, str] = field(default_factory=dict)
    #: tolerance relative to the scale of the numbers
    tolerance: float = 1e-6
    #: values are checked only through this function of the outputs (signs of eigenvectors, say)
    invariant: Callable[..., Any] | None = None
    #: the arguments go through this function first (it makes them symmetric, say, where the op reads one triangle only)
    prepare: Callable[..., Any] | None = None


class Failure(AssertionError):
    """An op breaks a promise."""


def check_op(op: Op, sample: Sample, *, seed: int = 0) -> list[str]:
    """Run every check on one sample; returns the names of those that ran."""
    return [name for name, run in checks(op, sample, seed=seed) if run() or True]


def checks(op: Op, sample: Sample, *, seed: int = 0) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks that apply to an op and a sample, each as a function that raises on failure."""
    case = _Case(op, sample, seed)
    yield "values", case.values
    if op.vjp is not NOT_DIFFERENTIABLE and case.positions:
        for name, run in {"jvp": case.forward, "vjp": case.reverse}.items():
            if name not in sample.skip:
                yield name, run
        if sample.smooth:
            second = {
                "jvp of vjp": case.forward_over_reverse,
                "vjp of vjp": case.reverse_over_reverse,
                "vjp of jvp": case.reverse_over_forward,
            }
            for name, run in second.items():
                if name not in sample.skip:
                    yield name, run
    if op.batch not in (DATA_DEPENDENT, RANDOM) and "vmap" not in sample.skip:
        yield "vmap", case.batching
        yield "no loop", case.no_loop
        if op.vjp is not NOT_DIFFERENTIABLE and case.positions:
            yield "vmap of jvp", case.batched_forward
            yield "vmap of vjp", case.batched_reverse


class _Case:
    def __init__(self, op: Op, sample: Sample, seed: int) -> None:
        self.op, self.sample = op, sample
        self.random = np.random.default_rng(seed)
        self.arrays = [i for i, a in enumerate(sample.args) if isinstance(a, (np.ndarray, np.generic))]
        smooth = op.differentiable_positions(len(sample.args))
        self.positions = [i for i in self.arrays if sample.args[i].dtype.kind in "fc" and i in smooth]

    # ----- running the op -----

    def call(self, *differentiable: Any) -> Any:
        """The op as a function of its differentiable arguments, tensors in, a tuple of differentiable tensors out."""
        args = [wrap_array(a) for a in self.sample.args]
        for i, t in zip(self.positions, differentiable, strict=True):
            args[i] = t
        return self.smooth_outputs(self.apply(args))

    def apply(self, args: Any) -> Any:
        """The op on tensors, after the sample's preparation."""
        prepared = args if self.sample.prepare is None else as_tuple(self.sample.prepare(*args))
        return self.op(*prepared, **self.sample.settings)

    def smooth_outputs(self, out: Any) -> tuple[Any, ...]:
        outs = out if isinstance(out, tuple) else (out,)
        kept = tuple(o for i, o in enumerate(outs) if i not in self.op.discrete_outputs and _kind(o) in "fc")
        return kept if self.sample.invariant is None else as_tuple(self.sample.invariant(*kept))

    def primals(self) -> list[Any]:
        return [wrap_array(self.sample.args[i]) for i in self.positions]

    def like(self, arrays: Any) -> list[Any]:
        return [wrap_array(_normal(self.random, a.shape, _dtype(a))) for a in arrays]

    # ----- checks -----

    def values(self) -> None:
        reference = self.sample.reference
        if reference is None:
            raise Failure(f"{self.op.name}: a sample has no reference to compare values with")
        expected = reference(*self.sample.args, **self.sample.settings)
        got = self.apply([wrap_array(a) for a in self.sample.args])
        if self.sample.invariant is not None:
            got = as_tuple(self.sample.invariant(*as_tuple(got)))
            expected = as_tuple(self.sample.invariant(*[wrap_array(np.asarray(e)) for e in as_tuple(expected)]))
        for e, g in zip(as_tuple(expected), as_tuple(got), strict=True):
            e = array_of(e)
            if g.shape != e.shape or array_of(g).dtype != e.dtype:
                raise Failure(f"{self.op.name}: shape {tuple(g.shape)} {array_of(g).dtype}, expected {e.shape} {e.dtype}")
            self.compare("value", array_of(g), e, 1e-9)

    def forward(self) -> None:
        primals, tangents = self.primals(), self.like(self.primals())
        _, out = jvp(self.call, tuple(primals), tuple(tangents))
        for got, want in zip(out, difference(self.call, primals, tangents), strict=True):
            self.compare("jvp", array_of(got), want, self.sample.tolerance)

    def reverse(self) -> None:
        primals = self.primals()
        self.transposed("vjp", self.call, primals)

    def transposed(self, name: str, f: Callable[..., Any], primals: list[Any]) -> None:
        """Re<g, jvp(t)> equals Re<vjp(g), t> for random t and g."""
        tangents = self.like(primals)
        out, pushed = jvp(f, tuple(primals), tuple(tangents))
        cotangents = tuple(self.like(out))
        _, pull = vjp(f, *primals)
        pulled = pull(cotangents)
        left, right = inner(cotangents, pushed), inner(as_tuple(pulled), tangents)
        scale = sum(np.sum(np.abs(array_of(a) * array_of(b))) for a, b in zip(as_tuple(pulled), tangents, strict=True)) + 1e-12
        scale = max(scale, float(np.sum([np.sum(np.abs(array_of(a) * array_of(b))) for a, b in zip(cotangents, pushed, strict=True)])))
        if not abs(left - right) <= 1e-8 * scale:
            raise Failure(f"{self.op.name}: {name} is not the transpose of the forward rule: <g, Jt> = {left}, <J'g, t> = {right}")
        for p, g in zip(primals, as_tuple(pulled), strict=True):
            if tuple(p.shape) != tuple(g.shape) or _dtype(p) != _dtype(g):
                raise Failure(f"{self.op.name}: {name} gave a gradient {tuple(g.shape)} {_dtype(g)} for {tuple(p.shape)} {_dtype(p)}")

    def pulled(self) -> tuple[Callable[..., Any], list[Any]]:
        """The reverse derivative as a function of primals and cotangents, and arguments for it."""
        primals = self.primals()
        cotangents = self.like(self.call(*primals))
        count = len(primals)

        def f(*inputs: Any) -> Any:
            _, pull = vjp(self.call, *inputs[:count])
            return as_tuple(pull(tuple(inputs[count:])))

        return f, [*primals, *cotangents]

    def pushed(self) -> tuple[Callable[..., Any], list[Any]]:
        primals = self.primals()
        tangents = self.like(primals)
        count = len(primals)

        def f(*inputs: Any) -> Any:
            return jvp(self.call, tuple(inputs[:count]), tuple(inputs[count:]))[1]

        return f, [*primals, *tangents]

    def forward_over_reverse(self) -> None:
        f, inputs = self.pulled()
        tangents = self.like(inputs)
        _, out = jvp(f, tuple(inputs), tuple(tangents))
        for got, want in zip(out, difference(f, inputs, tangents), strict=True):
            self.compare("jvp of vjp", array_of(got), want, 10 * self.sample.tolerance)

    def reverse_over_reverse(self) -> None:
        self.transposed("vjp of vjp", *self.pulled())

    def reverse_over_forward(self) -> None:
        self.transposed("vjp of jvp", *self.pushed())

    def batched_sets(self) -> list[tuple[int, ...]]:
        """Which arguments to batch: all of them, and each alone."""
        every = tuple(self.arrays)
        return [every] if len(every) <= 1 else [every, *((i,) for i in every)]

    def batched_args(self, which: tuple[int, ...], size: int) -> list[Any]:
        """Arguments with a batch in front: the sample itself, gently varied (so that it stays in the op's domain)."""
        out = []
        for i, a in enumerate(self.sample.args):
            if i in which:
                copies = [a]
                for _ in range(size - 1):
                    wiggle = _normal(self.random, a.shape, a.dtype) * 1e-3 if a.dtype.kind in "fc" else 0
                    copies.append(a + wiggle if a.dtype.kind in "fc" else a)
                a = np.stack(copies).astype(a.dtype) if size else np.empty((0, *a.shape), a.dtype)
            out.append(a)
        return out

    def in_dims(self, which: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(0 if i in which else None for i in range(len(self.sample.args)))

    def run(self, *args: Any) -> tuple[Any, ...]:
        return as_tuple(self.apply(args))

    def batching(self) -> None:
        for which in self.batched_sets():
            args = self.batched_args(which, 3)
            got = vmap(self.invariant_run, in_dims=self.in_dims(which))(*map(wrap_array, args))
            rows = [self.invariant_run(*(wrap_array(a[r] if i in which else a) for i, a in enumerate(args))) for r in range(3)]
            for number, g in enumerate(got):
                want = np.stack([array_of(row[number]) for row in rows])
                if g.shape != want.shape:
                    raise Failure(f"{self.op.name}: vmap over arguments {which} gave shape {tuple(g.shape)}, a loop {want.shape}")
                self.compare(f"vmap over arguments {which}", array_of(g), want, 1e-8)

    def invariant_run(self, *args: Any) -> tuple[Any, ...]:
        out = self.run(*args)
        return out if self.sample.invariant is None else as_tuple(self.sample.invariant(*out))

    def no_loop(self) -> None:
        which = tuple(self.arrays)
        if not which:
            return
        f = vmap(self.run, in_dims=self.in_dims(which))
        counts = []
        for size in (2, 2, 64):
            args = [wrap_array(a) for a in self.batched_args(which, size)]
            counts.append(count_calls(f, *args))
        if counts[1] != counts[2]:
            raise Failure(f"{self.op.name}: vmap makes {counts[1]} calls for a batch of 2 and {counts[2]} for 64: there is a loop over it")

    def batched_forward(self) -> None:
        self._batched(*self.pushed(), "vmap of jvp")

    def batched_reverse(self) -> None:
        self._batched(*self.pulled(), "vmap of vjp")

    def _batched(self, f: Callable[..., Any], inputs: list[Any], name: str) -> None:
        stacks = []
        for t in inputs:
            a = array_of(t)
            stacks.append(np.stack([a, a + 1e-3 * _normal(self.random, a.shape, a.dtype)]).astype(a.dtype))
        got = as_tuple(vmap(f)(*map(wrap_array, stacks)))
        rows = [as_tuple(f(*(wrap_array(s[r]) for s in stacks))) for r in range(2)]
        for number, g in enumerate(got):
            want = np.stack([array_of(row[number]) for row in rows])
            if g.shape != want.shape:
                raise Failure(f"{self.op.name}: {name} gave shape {tuple(g.shape)}, a loop {want.shape}")
            self.compare(name, array_of(g), want, 1e-7)

    def compare(self, what: str, got: Any, want: Any, tolerance: float) -> None:
        got, want = np.asarray(got), np.asarray(want)
        finite = np.abs(want[np.isfinite(want)])
        scale = 1 + (finite.max() if finite.size else 0)
        if not np.allclose(got, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            raise Failure(f"{self.op.name} {self.sample.settings}: {what} is\n{got}\nand should be\n{want}")


# ----- numbers -------------------------------------------------------------------------------------------------------


def wrap_array(a: Any) -> Any:
    from ndgrad.tensor import Tensor

    return wrap(Tensor, a) if isinstance(a, (np.ndarray, np.generic)) else a


def array_of(t: Any) -> Any:
    return np.asarray(t._array if isinstance(t, Variable) else t)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _dtype(t: Any) -> Any:
    return array_of(t).dtype


def _kind(t: Any) -> str:
    from ndgrad.autograd.variable import np_dtype

    return str(np_dtype(t).kind)


def _normal(random: np.random.Generator, shape: Any, dtype: Any) -> Any:
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def inner(a: Any, b: Any) -> float:
    """The real inner product of two lists of arrays."""
    return float(sum(np.sum(np.real(np.conj(array_of(x)) * array_of(y))) for x, y in zip(a, b, strict=True)))


def difference(f: Callable[..., Any], primals: list[Any], tangents: list[Any], step: float = 1e-4) -> list[Any]:
    """The directional derivative by central differences of fourth order."""

    def at(h: float) -> list[Any]:
        moved = [wrap_array(np.asarray(array_of(p) + h * array_of(t))) for p, t in zip(primals, tangents, strict=True)]
        return [array_of(o) for o in as_tuple(f(*moved))]

    near = [(a - b) / (2 * step) for a, b in zip(at(step), at(-step), strict=True)]
    far = [(a - b) / (4 * step) for a, b in zip(at(2 * step), at(-2 * step), strict=True)]
    return [(4 * n - w) / 3 for n, w in zip(near, far, strict=True)]


def count_calls(f: Callable[..., Any], *args: Any) -> int:
    """How many Python and C calls running `f` makes."""
    count = 0

    def watch(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    old, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection in between would count the finalizers it runs
    sys.setprofile(watch)
    try:
        f(*args)
    finally:
        sys.setprofile(old)
        if collecting:
            gc.enable()
    return count
