"""check_op: one call that checks all promises of an op in the table.

Values against a reference, forward mode against finite differences, reverse mode as its transpose, second and (of
elementwise ops) third orders, batching against a loop, batched derivatives, and that batching does not loop; then the
same arguments in strided memory, without dimensions, without elements, in single precision. It is for user-registered
ops as well as for the project's own tests.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays.precision import finfo, is_inexact, result_dtype
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, Op
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad._src.transforms.transforms import jvp, vjp, vmap
from ndgrad.autograd.gradcheck.progress import Progress

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Sizes

#: The checks of one sample, in order; the last two, of third order, are for smooth elementwise ops.
CHECKS = (
    "values", "jvp", "vjp", "jvp of vjp", "vjp of vjp", "vjp of jvp", "vmap", "no loop", "vmap of jvp", "vmap of vjp",
    "jvp of jvp of vjp", "vjp of jvp of vjp",
)  # fmt: skip
THIRD_ORDER = CHECKS[-2:]


@dataclass
class Sample:
    """A call of an op: arrays (or None, or numbers), settings, and the expected value.

    Args:
        args: arguments of the op: arrays, numbers or None.
        settings: settings of the op.
        reference: function of the same arguments that returns the expected value.
        smooth: whether the second derivative exists and does not vanish by convention.
        skip: checks that are left out, with reasons.
        tolerance: tolerance relative to the scale of the numbers.
        invariant: function of the outputs through which alone values are compared.
        prepare: function that is applied to the arguments first.

    >>> import ndgrad
    >>> import numpy as np
    >>> ndgrad.testing.Sample((np.array([0.5]),), reference=np.exp).args
    (array([0.5]),)
    """

    args: tuple[Any, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    #: The op's value as a function of the same raw arguments; None if `expected` is given.
    reference: Callable[..., Any] | None = None
    #: False if the second derivative does not exist or vanishes by convention (checks of second order are skipped).
    smooth: bool = True
    #: Checks to skip, with reasons: {"vmap": "the batch rule needs at least one dimension"}.
    skip: dict[str, str] = field(default_factory=dict)
    #: Tolerance relative to the scale of the numbers.
    tolerance: float = 1e-6
    #: Values are checked only through this function of the outputs (for example for signs of eigenvectors).
    invariant: Callable[..., Any] | None = None
    #: Function applied to the arguments first (for example to make them symmetric if the op reads only one triangle).
    prepare: Callable[..., Any] | None = None


class Failure(AssertionError):
    """An op breaks a promise."""


def check_op(op: Op, *samples: Sample, seed: int = 0, variants: bool = True) -> list[str]:
    """Run every check on every sample. Return the names of those that ran, and raise a Failure at the first that fails.

    With `variants` the samples are also tried in strided memory, in single precision and over an empty batch, and those
    of an elementwise op without dimensions and without elements. A long check shows its progress on the terminal.

    Args:
        op: op of the table.
        *samples: calls to check, at least one.
        seed: seed of random directions.
        variants: whether the samples are also tried in other forms.

    Raises:
        Failure: at the first check that fails.

    >>> from ndgrad._src.ops.exponential import exp
    >>> from ndgrad.testing import Sample, check_op
    >>> len(check_op(exp, Sample((np.array([0.5, -1.0]),), reference=np.exp)))
    17
    """
    if not samples:
        raise ValueError(
            f"check_op: no sample of {op.name!r} was given. Give at least one: "
            "Sample((arrays...), reference=function). [nd-too-few]"
        )
    planned = [found for sample in samples for found in checks(op, sample, seed=seed)]
    planned += [found for sample in samples for found in more_checks(op, sample, seed=seed)] if variants else []
    with Progress(f"check_op {op.name}", len(planned)) as progress:
        for _, run in planned:
            run()
            progress.step()
    return list(dict.fromkeys(name for name, _ in planned))


def checks(op: Op, sample: Sample, *, seed: int = 0) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return the checks that apply to an op and a sample, each as a function that raises on failure."""
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
        if "no loop" not in sample.skip:
            yield "no loop", case.no_loop
        if op.vjp is not NOT_DIFFERENTIABLE and case.positions:
            for name, run in {"vmap of jvp": case.batched_forward, "vmap of vjp": case.batched_reverse}.items():
                if name not in sample.skip:
                    yield name, run
    if (
        op.elementwise
        and sample.smooth
        and op.vjp is not NOT_DIFFERENTIABLE
        and case.positions
        and "jvp of vjp" not in sample.skip
    ):
        for name, run in {"jvp of jvp of vjp": case.third_forward, "vjp of jvp of vjp": case.third_reverse}.items():
            if name not in sample.skip:
                yield name, run


def more_checks(op: Op, sample: Sample, *, seed: int = 0) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return further checks of a sample's arguments: strided, single precision, empty, without dimensions."""
    for name, run in _variants(op, sample, _Case(op, sample, seed), seed):
        if name not in sample.skip:
            yield name, run


def _variants(op: Op, sample: Sample, case: _Case, seed: int) -> Iterator[tuple[str, Callable[[], None]]]:
    if op.batch is RANDOM or not case.arrays:
        return
    yield "strided memory", case.strided
    if case.positions and sample.prepare is None and all(sample.args[i].dtype in _SINGLE for i in case.arrays):
        yield "single precision", case.single_precision
    if op.batch is not DATA_DEPENDENT and "vmap" not in sample.skip:
        yield "empty batch", case.empty_batch
    if not op.elementwise:
        return
    if all(sample.args[i].size for i in case.arrays):
        first = tuple(a.reshape(-1)[0] if i in case.arrays else a for i, a in enumerate(sample.args))
        yield "no dimensions", lambda: _run_all(op, replace(sample, args=first), seed)
    whole = np.broadcast_shapes(*(sample.args[i].shape for i in case.arrays))
    none = tuple(np.empty((0, *whole[1:]), a.dtype) if i in case.arrays else a for i, a in enumerate(sample.args))
    yield "no elements", lambda: _run_all(op, replace(sample, args=none), seed)


def _run_all(op: Op, sample: Sample, seed: int) -> None:
    """Run every check but those of third order, on which changed shapes have no influence."""
    for name, run in checks(op, sample, seed=seed):
        if name not in THIRD_ORDER:
            run()


_SINGLE = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}


class _Direction(NamedTuple):
    """A function, its inputs, their tangents, and the result of forward mode."""

    f: Callable[..., Any]
    inputs: list[Any]
    tangents: list[Any]
    out: Any
    pushed: Any


class _Case:
    def __init__(self, op: Op, sample: Sample, seed: int) -> None:
        self.op, self.sample = op, sample
        self.directions: dict[str, _Direction] = {}
        self.random = np.random.default_rng(seed)
        self.arrays = [i for i, a in enumerate(sample.args) if isinstance(a, (np.ndarray, np.generic))]
        smooth = op.differentiable_positions(len(sample.args))
        self.positions = [i for i in self.arrays if is_inexact(sample.args[i].dtype) and i in smooth]

    # ----- running the op -----

    def call(self, *differentiable: Any) -> Any:
        """Return the op as a function of its differentiable arguments: tensors in, a tuple of differentiable tensors
        out.
        """
        args = [wrap_array(a) for a in self.sample.args]
        for i, t in zip(self.positions, differentiable, strict=True):
            args[i] = t
        return self.smooth_outputs(self.apply(args))

    def apply(self, args: Any) -> Any:
        """Apply the op to tensors, after the sample's preparation."""
        prepared = args if self.sample.prepare is None else as_tuple(self.sample.prepare(*args))
        return self.op(*prepared, **self.sample.settings)

    def smooth_outputs(self, out: Payload) -> tuple[Any, ...]:
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
            raise Failure(f"{self.op.name}: a sample has no reference to compare values with [nd-op-check]")
        expected = reference(*self.sample.args, **self.sample.settings)
        got = self.apply([wrap_array(a) for a in self.sample.args])
        if self.sample.invariant is not None:
            got = as_tuple(self.sample.invariant(*as_tuple(got)))
            expected = as_tuple(self.sample.invariant(*[wrap_array(np.asarray(e)) for e in as_tuple(expected)]))
        for e, g in zip(as_tuple(expected), as_tuple(got), strict=True):
            e = array_of(e)
            if g.shape != e.shape or array_of(g).dtype != e.dtype:
                raise Failure(
                    f"{self.op.name}: "
                    f"shape {tuple(g.shape)} {array_of(g).dtype}, expected {e.shape} {e.dtype} [nd-op-check]"
                )
            self.compare("value", array_of(g), e, 1e-9)

    def forward(self) -> None:
        self.against_differences("jvp", "value", self.sample.tolerance)

    def reverse(self) -> None:
        self.check_transpose("vjp", "value")

    def direction(self, which: str) -> _Direction:
        """Return forward mode of the op's value or of one of its derivatives, computed once for differences and for the
        transpose.
        """
        if which not in self.directions:
            made = {"value": self.value, "pulled": self.pulled, "pushed": self.pushed, "third": self.third}
            f, inputs = made[which]()
            tangents = self.like(inputs)
            self.directions[which] = _Direction(f, inputs, tangents, *jvp(f, tuple(inputs), tuple(tangents)))
        return self.directions[which]

    def against_differences(self, name: str, which: str, tolerance: float) -> None:
        """Compare with a central difference; if that is not accurate enough, one of fourth order decides."""
        f, inputs, tangents, _, pushed = self.direction(which)
        made = [array_of(got) for got in pushed]
        near = central_difference(f, inputs, tangents, _STEP)
        if all(_close(got, want, tolerance) for got, want in zip(made, near, strict=True)):
            return
        far = central_difference(f, inputs, tangents, 2 * _STEP)
        for got, n, w in zip(made, near, far, strict=True):
            self.compare(name, got, (4 * n - w) / 3, tolerance)

    def check_transpose(self, name: str, which: str) -> None:
        """Check that Re<g, jvp(t)> equals Re<vjp(g), t> for random t and g."""
        f, primals, tangents, out, pushed = self.direction(which)
        cotangents = tuple(self.like(out))
        _, pull = vjp(f, *primals)
        pulled = pull(cotangents)
        left, right = inner(cotangents, pushed), inner(as_tuple(pulled), tangents)
        scale = (
            sum(np.sum(np.abs(array_of(a) * array_of(b))) for a, b in zip(as_tuple(pulled), tangents, strict=True))
            + 1e-12
        )
        scale = max(
            scale,
            float(np.sum([np.sum(np.abs(array_of(a) * array_of(b))) for a, b in zip(cotangents, pushed, strict=True)])),
        )
        if not abs(left - right) <= 1e-8 * scale:
            raise Failure(
                f"{self.op.name}: {name} is not the transpose of the forward rule: "
                f"<g, Jt> = {left}, <J'g, t> = {right} [nd-op-check]"
            )
        for p, g in zip(primals, as_tuple(pulled), strict=True):
            if tuple(p.shape) != tuple(g.shape) or _dtype(p) != _dtype(g):
                raise Failure(
                    f"{self.op.name}: {name} gave a gradient {tuple(g.shape)} {_dtype(g)} for "
                    f"{tuple(p.shape)} {_dtype(p)} [nd-op-check]"
                )

    def value(self) -> tuple[Callable[..., Any], list[Any]]:
        return self.call, self.primals()

    def pulled(self) -> tuple[Callable[..., Any], list[Any]]:
        """Return the reverse derivative as a function of primals and cotangents, and arguments for it."""
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
        self.against_differences("jvp of vjp", "pulled", 10 * self.sample.tolerance)

    def reverse_over_reverse(self) -> None:
        self.check_transpose("vjp of vjp", "pulled")

    def reverse_over_forward(self) -> None:
        self.check_transpose("vjp of jvp", "pushed")

    def third(self) -> tuple[Callable[..., Any], list[Any]]:
        """Return the directional derivative of the reverse derivative, as a function of all its inputs."""
        f, inputs = self.pulled()
        count = len(inputs)

        def g(*everything: Any) -> Any:
            return jvp(f, tuple(everything[:count]), tuple(everything[count:]))[1]

        return g, [*inputs, *self.like(inputs)]

    def third_forward(self) -> None:
        self.against_differences("jvp of jvp of vjp", "third", 100 * self.sample.tolerance)

    def third_reverse(self) -> None:
        self.check_transpose("vjp of jvp of vjp", "third")

    # ----- other arguments -----

    def all_of(self, args: Any) -> list[Any]:
        """Return value, tangents and gradients for given arguments and fixed directions, as arrays."""
        tensors = [wrap_array(a) for a in args]
        found = [array_of(o) for o in as_tuple(self.invariant_run(*tensors))]
        if self.op.vjp is NOT_DIFFERENTIABLE or not self.positions or {"jvp", "vjp"} & set(self.sample.skip):
            return found

        def f(*smooth: Any) -> Any:
            given = list(tensors)
            for i, t in zip(self.positions, smooth, strict=True):
                given[i] = t
            return self.smooth_outputs(self.apply(given))

        self.random = np.random.default_rng(0)
        primals = [tensors[i] for i in self.positions]
        out, pushed = jvp(f, tuple(primals), tuple(self.like(primals)))
        pulled = vjp(f, *primals)[1](tuple(self.like(out)))
        return [*found, *map(array_of, pushed), *map(array_of, as_tuple(pulled))]

    def strided(self) -> None:
        """Check that memory with gaps gives the same results."""
        args = [_with_gaps(a) if i in self.arrays else a for i, a in enumerate(self.sample.args)]
        for got, want in zip(self.all_of(args), self.all_of(self.sample.args), strict=True):
            self.compare("in strided memory, a value or derivative", got, want, 1e-9)

    def single_precision(self) -> None:
        """Check that in single precision, values and derivatives are single and close to those in double precision."""
        args = [
            a.astype(_SINGLE[a.dtype]) if i in self.arrays and a.dtype in _SINGLE else a
            for i, a in enumerate(self.sample.args)
        ]
        double = [a.astype(result_dtype(a, np.float64)) if i in self.positions else a for i, a in enumerate(args)]
        for got, want in zip(self.all_of(args), self.all_of(double), strict=True):
            if want.dtype in _SINGLE and got.dtype != _SINGLE[want.dtype]:
                raise Failure(f"{self.op.name}: arguments in single precision gave {got.dtype} [nd-op-check]")
            self.compare("in single precision, a value or derivative", got, want, 2e-3)

    def empty_batch(self) -> None:
        which = tuple(self.arrays)
        got = vmap(self.run, in_dims=self.in_dims(which))(*map(wrap_array, self.batched_args(which, 0)))
        for number, (g, one) in enumerate(zip(got, self.run(*map(wrap_array, self.sample.args)), strict=True)):
            if tuple(g.shape) != (0, *one.shape):
                raise Failure(
                    f"{self.op.name}: vmap over an empty batch gave shape {tuple(g.shape)} for output "
                    f"{number}, not {(0, *one.shape)} [nd-op-check]"
                )

    def batched_sets(self) -> list[tuple[int, ...]]:
        """Return sets of arguments to batch: all of them, and each alone."""
        every = tuple(self.arrays)
        return [every] if len(every) <= 1 else [every, *((i,) for i in every)]

    def batched_args(self, which: tuple[int, ...], size: int) -> list[Any]:
        """Return arguments with a batch in front: the sample itself, varied slightly (so that it stays in the op's
        domain).
        """
        out = []
        for i, a in enumerate(self.sample.args):
            if i in which:
                batch = np.repeat(np.asarray(a)[None], size, axis=0)
                if is_inexact(a.dtype):
                    batch[1:] += (_normal(self.random, batch[1:].shape, a.dtype) * 1e-3).astype(a.dtype)
                a = batch
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
            rows = [
                self.invariant_run(*(wrap_array(a[r] if i in which else a) for i, a in enumerate(args)))
                for r in range(3)
            ]
            for number, g in enumerate(got):
                want = np.stack([array_of(row[number]) for row in rows])
                if g.shape != want.shape:
                    raise Failure(
                        f"{self.op.name}: "
                        f"vmap over arguments {which} gave shape {tuple(g.shape)}, a loop {want.shape} [nd-op-check]"
                    )
                self.compare(f"vmap over arguments {which}", array_of(g), want, 1e-8)

    def invariant_run(self, *args: Any) -> tuple[Any, ...]:
        out = self.run(*args)
        return out if self.sample.invariant is None else as_tuple(self.sample.invariant(*out))

    def no_loop(self) -> None:
        which = tuple(self.arrays)
        if not which:
            return
        f = vmap(self.run, in_dims=self.in_dims(which))
        sizes = (2, 64)
        few, many = ([wrap_array(a) for a in self.batched_args(which, size)] for size in sizes)
        for args in (few, many):
            f(*args)  # work done once, or once for each shape, is no loop
        # A single run may also make room in a table, or do other work that is due now.
        counts = [min(count_calls(f, *args) for _ in range(2)) for args in (few, many)]
        # A loop makes a call for each further sample. Another path for larger arrays makes a few more or fewer in all.
        if 2 * (counts[1] - counts[0]) >= sizes[1] - sizes[0]:
            raise Failure(
                f"{self.op.name}: vmap makes {counts[0]} calls for a batch of 2 and {counts[1]} for 64: "
                "there is a loop over it [nd-op-check]"
            )

    def batched_forward(self) -> None:
        self._check_batched(*self.pushed(), "vmap of jvp")

    def batched_reverse(self) -> None:
        self._check_batched(*self.pulled(), "vmap of vjp")

    def _check_batched(self, f: Callable[..., Any], inputs: list[Any], name: str) -> None:
        stacks = []
        for t in inputs:
            a = array_of(t)
            stacks.append(np.stack([a, a + 1e-3 * _normal(self.random, a.shape, a.dtype)]).astype(a.dtype))
        got = as_tuple(vmap(f)(*map(wrap_array, stacks)))
        rows = [as_tuple(f(*(wrap_array(s[r]) for s in stacks))) for r in range(2)]
        for number, g in enumerate(got):
            want = np.stack([array_of(row[number]) for row in rows])
            if g.shape != want.shape:
                raise Failure(f"{self.op.name}: {name} gave shape {tuple(g.shape)}, a loop {want.shape} [nd-op-check]")
            self.compare(name, array_of(g), want, 1e-7)

    def compare(self, what: str, got: Payload, want: Payload, tolerance: float) -> None:
        if not _close(got, want, tolerance):
            raise Failure(
                f"{self.op.name} {self.sample.settings}: {what} is\n{got}\nand should be\n{want} [nd-op-check]"
            )


# ----- numbers -------------------------------------------------------------------------------------------------------


def wrap_array(a: Payload) -> Payload:
    return wrap(Tensor, a) if isinstance(a, (np.ndarray, np.generic)) else a


def array_of(t: Payload) -> Payload:
    return np.asarray(t._array if isinstance(t, Variable) else t)


def as_tuple(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _with_gaps(a: Payload) -> Payload:
    """Return the same values in memory with gaps between them."""
    wide = np.zeros((*a.shape, 2), a.dtype)
    wide[..., 0] = a
    return wide[..., 0]


def _dtype(t: Payload) -> Any:
    return array_of(t).dtype


def _kind(t: Payload) -> str:
    return str(np_dtype(t).kind)


def _normal(random: np.random.Generator, shape: Sizes, dtype: np.dtype[Any]) -> Payload:
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def inner(a: Payload, b: Any) -> float:
    """Return the real inner product of two lists of arrays."""
    return float(sum(np.sum(np.real(np.conj(array_of(x)) * array_of(y))) for x, y in zip(a, b, strict=True)))


def _close(got: Payload, want: Payload, tolerance: float) -> bool:
    """True if values agree to a tolerance, or to a few roundings of their dtype: processors round exp and log
    differently."""
    got, want = np.asarray(got), np.asarray(want)
    if is_inexact(got.dtype):
        tolerance = max(tolerance, 8 * float(finfo(got.dtype).eps))
    finite = np.abs(want[np.isfinite(want)])
    scale = 1 + (finite.max() if finite.size else 0)
    return np.allclose(got, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


#: Step of differences: their truncation error, of its square, and their rounding error are far below every tolerance.
_STEP = 1e-4


def central_difference(f: Callable[..., Any], primals: list[Any], tangents: list[Any], step: float) -> list[Any]:
    """Return the directional derivative, from one value on either side."""

    def evaluate_at(h: float) -> list[Any]:
        moved = [wrap_array(np.asarray(array_of(p) + h * array_of(t))) for p, t in zip(primals, tangents, strict=True)]
        return [array_of(o) for o in as_tuple(f(*moved))]

    return [(a - b) / (2 * step) for a, b in zip(evaluate_at(step), evaluate_at(-step), strict=True)]


def count_calls(f: Callable[..., Any], *args: Any) -> int:
    """Return the number of Python and C calls of running `f`."""
    count = 0

    def watch(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    old, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection in between would count finalizers
    sys.setprofile(watch)
    try:
        f(*args)
    finally:
        sys.setprofile(old)
        if collecting:
            gc.enable()
    return count
