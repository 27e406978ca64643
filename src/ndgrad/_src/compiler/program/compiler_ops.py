"""The compiler's own ops, each a combination of several ops of the table. Users do not call them, and no rule
differentiates them.

    pieces      a sum of arrays, each a part at some index and zero elsewhere
    overlaid    an array with parts overwritten, one after another
    assembled   an array of disjoint parts
    loop        a program that is run repeatedly
    branch      one of two programs
    while       a program that is run as long as it returns True
    sweeps      the same, followed by programs that go back and forth through its rounds
    take_slices, add_slices, put_slices    slices selected by an index: read, added to or overwritten
    attention_kept, attention_gradients    attention with data that its gradients need; and these, on a device
    muladd      a b + c, rounded once if the processor can do that
    interleaved an op on complex numbers, whose arguments and results are pairs of real ones

They are not in the table. `op_named` finds them as well as the ops of the table.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import accumulate, islice, pairwise
from typing import Any, ClassVar, Unpack

import numpy as np

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.meta import MetaArray
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.ops.attention import pull_back
from ndgrad._src.ops.table import VARIABLE, Facts, OpFacts
from ndgrad._src.ops.vocabulary import find


class CompilerOp(OpFacts):
    """An op that exists in programs only. It has the attributes that the compiler needs of an op of the table."""

    view = shares_storage = elementwise = needs_values = rounds_numbers = False
    batch = body = None
    settings: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        outputs: int = 1,
        programs: tuple[str, ...] = (),
        **facts: Unpack[Facts],
    ) -> None:
        self.name = name
        self.forward = forward
        self.outputs = outputs
        #: Settings that are programs, each named like its setting; there may be more of them. When a program runs, they
        #: may be given as functions.
        self.programs = programs
        self.set_facts(facts)

    def forward_for(self, library: Any) -> Callable[..., Any]:
        """Return its function of NumPy arrays. Programs have no other arrays."""
        return self.forward

    def __repr__(self) -> str:
        return f"<op {self.name} of the compiler>"


# ----- parts ----------------------------------------------------------------------------------------------------------


def _pieces(*parts: Any, shape: tuple[int, ...], index: tuple[Any, ...], common: tuple[Any, ...] | None) -> Any:
    out = library_of(parts[0]).zeros(shape, parts[0].dtype)
    if common is not None and out.dtype.kind == "f":
        out[common] = -0.0
    for part, place in zip(parts, index, strict=True):
        out[place] += part
    return out


#: The sum of embed(part, shape, index) over parts, in order. `common` is the index covered by all parts. A sum of
#: negative zeros is -0. there, and 0. at elements where some part adds zeros. So elements start at -0. in `common`, and
#: at 0. elsewhere.
pieces = CompilerOp("pieces", _pieces, movement="scatter")


def _overlaid(x: Any, *parts: Any, index: tuple[Any, ...]) -> Any:
    out = library_of(x).array(x)
    for part, place in zip(parts, index, strict=True):
        out[place] = part
    return out


#: x overwritten by parts, in order.
overlaid = CompilerOp("overlaid", _overlaid, movement="overwrite")


def _assembled(*parts: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    out = library_of(parts[0]).zeros(shape, parts[0].dtype)
    for part, place in zip(parts, index, strict=True):
        out[place] = part
    return out


#: Disjoint parts, and zeros elsewhere.
assembled = CompilerOp("assembled", _assembled, movement="join")

# ----- slices ---------------------------------------------------------------------------------------------------------


def _take_slices(x: Any, index: Any, *, dim: int) -> Any:
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    if isinstance(x, MetaArray):
        return MetaArray(shape, x.dtype)
    return np.take(x, index, axis=dim, mode="clip")


#: The slices of x along a dimension that an int64 index selects. The dimensions of the index replace that dimension.
#: Numbers out of range are clipped; code that emits the op adds a check.
take_slices = CompilerOp("take_slices", _take_slices, movement="gather")


def _add_slices(x: Any, index: Any, *, dim: int, length: int) -> Any:
    rest = x.shape[dim + index.ndim :]
    if isinstance(x, MetaArray):
        return MetaArray((*x.shape[:dim], length, *rest), x.dtype)
    out = np.zeros((length, *x.shape[:dim], *rest), x.dtype)
    places = np.clip(index, 0, length - 1).reshape(-1)
    np.add.at(out, places, np.moveaxis(x.reshape(*x.shape[:dim], places.size, *rest), dim, 0))
    return np.moveaxis(out, 0, dim)


#: Transpose of take_slices: the slices of x are added to zeros with `length` along the dimension.
add_slices = CompilerOp("add_slices", _add_slices, movement="scatter")


def _put_slices(x: Any, y: Any, index: Any, *, dim: int, adds: bool) -> Any:
    if isinstance(x, MetaArray):
        return MetaArray(x.shape, x.dtype)
    out = np.array(x)
    places = np.clip(index, 0, x.shape[dim] - 1).reshape(-1)
    lines = np.moveaxis(out, dim, 0)
    new = np.moveaxis(y.reshape(*x.shape[:dim], places.size, *x.shape[dim + 1 :]), dim, 0)
    if adds:
        np.add.at(lines, places, new)
    else:
        lines[places] = new
    return out


#: x with slices of y added to, or written over, its slices along a dimension, in the order of the index.
put_slices = CompilerOp("put_slices", _put_slices, movement="scatter")

# ----- attention ------------------------------------------------------------------------------------------------------


def _attention_kept(q: Any, k: Any, v: Any, *, is_causal: bool, scale: float) -> tuple[Any, ...]:
    kernels = native_kernels.attention_kernels(q, k, v, None)
    if hasattr(kernels, "attention_kept"):
        found: tuple[Any, ...] = kernels.attention_kept(q, k, v, is_causal, scale)
        return found
    library = library_of(q)
    out = find("attention").forward_for(library)(q, k, v, None, is_causal=is_causal, scale=scale)
    return out, library.zeros(q.shape[:-1], np.float32)


#: attention(q, k, v) without a mask, and data that speed up its gradients.
attention_kept = CompilerOp("attention_kept", _attention_kept, 2)


def _attention_gradients(g: Any, q: Any, k: Any, v: Any, *kept: Any, is_causal: bool, scale: float) -> tuple[Any, ...]:
    kernels = native_kernels.attention_kernels(q, k, v, None)
    if kept and hasattr(kernels, "gradients_of_kept"):
        found: tuple[Any, ...] = kernels.gradients_of_kept(g, q, k, v, *kept, is_causal, scale)
        return found
    return pull_back(library_of(q), g, q, k, v, None, is_causal, scale, (True, True, True, False))[:3]


#: Gradients of attention(q, k, v) without a mask, in q, k and v; from the data of `attention_kept`, if given.
attention_gradients = CompilerOp("attention_gradients", _attention_gradients, 3)

# ----- complex numbers ------------------------------------------------------------------------------------------------


#: a b + c. A complex product has two of them, as in NumPy: rounded once if the processor can do that.
muladd = CompilerOp("muladd", lambda a, b, c: a * b + c, cost=1)
muladd.elementwise = True


def as_pairs(z: Any) -> Any:
    """Return a complex array as real and imaginary parts in a last dimension of two; a view if the array is in C order.
    """
    z = np.asarray(z, order="C")
    return z.reshape(*z.shape, 1).view(z.real.dtype)


def as_complex(pairs: Any) -> Any:
    """Return pairs as complex numbers; a view if they are adjacent in memory."""
    if pairs.strides[-1] != pairs.itemsize or not pairs.flags.aligned:
        pairs = pairs.copy()
    return pairs.view(np.result_type(pairs.dtype, np.complex64))[..., 0]


def _interleaved(*arguments: Any, op: str, given: tuple[int, ...], made: tuple[int, ...], **settings: Any) -> Any:
    from ndgrad._src.compiler.program.replay import forward_of  # avoids an import cycle

    known = op_named(op)
    arrays = [as_complex(a) if i in given else a for i, a in enumerate(arguments)]
    out = forward_of(known)(*arrays, **settings)
    results = (out,) if known.outputs == 1 else out
    return tuple([as_pairs(a) if i in made else a for i, a in enumerate(results)])


#: The result of an op by name, for complex arguments at positions `given` and complex results at positions `made`. Here
#: both are pairs: the last dimension holds real and imaginary parts (see ndgrad._src.compiler.passes.complex_parts).
interleaved = CompilerOp("interleaved", _interleaved, VARIABLE)

# ----- loop -----------------------------------------------------------------------------------------------------------


#: A program inside another one: the program itself, to run on NumPy, or a function compiled from it.
Runs = Program | Callable[[list[Any]], list[Any]]


def _running(program: Runs) -> Callable[[list[Any]], list[Any]]:
    return _replay(program) if isinstance(program, Program) else program


@functools.lru_cache(maxsize=256)
def _replay(body: Program) -> Callable[[list[Any]], list[Any]]:
    from ndgrad._src.compiler.program.replay import Replay  # avoids an import cycle

    return Replay(body)


#: Number of rounds that NumPy runs of a loop whose results are not used; None for all.
most_rounds: ContextVar[int | None] = ContextVar("ndgrad_most_rounds", default=None)


def _loop(
    *arrays: Any, body: Runs, count: int, carried: int, invariant: int, reads: tuple[tuple[int, int], ...], last: int
) -> tuple[Any, ...]:
    run = _running(body)
    state = list(arrays[:carried])
    fixed = arrays[carried : carried + invariant]
    sequences = list(zip(arrays[carried + invariant :], reads, strict=True))
    stacks: list[Any] = []
    out: list[Any] = []
    most = most_rounds.get()
    rounds = count if most is None else min(count, most)
    for t in range(rounds):
        out = run([*state, *fixed, *[array[start + step * t] for array, (start, step) in sequences]])
        state = out[:carried]
        if not t:
            stacks = [np.empty((count, *np.shape(a)), a.dtype) for a in out[carried + last :]]
        for stack, a in zip(stacks, out[carried + last :], strict=True):
            stack[t] = a
    for stack in stacks if rounds < count else ():
        stack[rounds:] = stack[rounds - 1]
    return (*state, *out[carried : carried + last], *stacks)


#: Run `body` `count` times. Arguments: `carried` initial values, `invariant` constant values, and arrays. Round t reads
#: row start + step * t of each array, as `reads` gives. The body takes as many arguments. It returns the next carried
#: values, then `last` values needed from the last round only, then values needed from every round. Results: these, in
#: this order. The values of all rounds are in an array with a row for each.
loop = CompilerOp("loop", _loop, VARIABLE, ("body",))

# ----- control flow ---------------------------------------------------------------------------------------------------


def _branch(condition: Any, *arrays: Any, on_true: Runs, on_false: Runs) -> tuple[Any, ...]:
    return tuple(_running(on_true if condition else on_false)(list(arrays)))


#: The results of one of two programs with the same arguments.
branch = CompilerOp("branch", _branch, VARIABLE, ("on_true", "on_false"))


def _rounds(state: list[Any], fixed: list[Any], body: Runs) -> Iterator[list[Any]]:
    """Yield the carried values before each round, and after the last."""
    run = _running(body)
    while True:
        yield state
        if not state[-1]:
            return
        state = run([*state, *fixed])


def _run_while(*arrays: Any, body: Runs, carried: int, invariant: int, most: int | None = None) -> tuple[Any, ...]:
    rounds = _rounds(list(arrays[:carried]), list(arrays[carried:]), body)
    (last,) = deque(rounds if most is None else islice(rounds, most + 1), maxlen=1)
    return tuple(last)


#: Run `body` while the last carried value is True, or for `most` rounds. It takes the `carried` values and the
#: `invariant` ones, which are constant, and returns the next carried values. The results are the last carried values.
run_while = CompilerOp("while", _run_while, VARIABLE, ("body",))


def _sweeps(
    *arrays: Any, body: Runs, carried: tuple[int, ...], reads: tuple[tuple[int, ...], ...], **more: Runs
) -> tuple[Any, ...]:
    ends = [0, *accumulate(carried)]
    starts, fixed = [list(arrays[a:b]) for a, b in pairwise(ends)], list(arrays[ends[-1] :])
    *states, last = _rounds(starts[0], fixed, body)
    kept = {number for some in reads for number in some}
    rows = [[a if i in kept else None for i, a in enumerate(state)] for state in states]
    del states
    found = last
    for number, (state, read) in enumerate(zip(starts[1:], reads, strict=True), start=1):
        run, n = _running(more[f"sweep{number}"]), carried[number]
        for row in reversed(rows) if number % 2 else rows:
            made = run([*state, *[row[i] for i in read], *fixed])
            row += [a if i in kept else None for i, a in enumerate((*state, *made[n:]), start=len(row))]
            state = made[:n]
        found += state
    return tuple(found)


#: Run a `while` with `carried[0]` values, then go through its rounds again, once for each further program `sweep1`,
#: `sweep2`, ...: from the last round to the first, then forward, and so on. A sweep takes `carried` values of its own,
#: the rows that it `reads` of those that earlier sweeps have left in this round (their carried values and their further
#: outputs), and the constant values. It returns its next carried values and its further outputs. Results: the last
#: carried values of each.
sweeps = CompilerOp("sweeps", _sweeps, VARIABLE, ("body",))

_SLICES = (take_slices, add_slices, put_slices)
_ATTENTION = (attention_kept, attention_gradients)
_CONTROL = (loop, branch, run_while, sweeps)
OPS = {op.name: op for op in (pieces, overlaid, assembled, *_SLICES, *_ATTENTION, muladd, interleaved, *_CONTROL)}


@functools.cache
def op_named(name: str) -> Any:
    """Return the op of a name, from the table or from the compiler's own ops."""
    return OPS[name] if name in OPS else find(name)
