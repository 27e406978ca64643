"""The compiler's own ops, which stand for several of the table's: no user calls them, and no rule differentiates them.

    pieces      a sum of arrays of which each is a part somewhere and zero elsewhere
    overlaid    an array of which parts are written over, one after another
    assembled   an array of parts that do not meet
    loop        a program that is run again and again
    branch      one of two programs
    while       a program that is run for as long as it gives True
    sweeps      the same, and others that go to and fro through its rounds
    take_slices, add_slices, put_slices    slices that an index names, read, added to or written over
    attention_kept, attention_gradients    attention with what its gradients need besides; and these, on a device
    muladd      a b + c, rounded once where the processor can
    interleaved an op of complex numbers, whose arguments and results are pairs of real ones

They are in no table; `op_named` finds them beside those that are.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.meta import MetaArray
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.ops.attention import pull_back
from ndgrad._src.ops.table import VARIABLE
from ndgrad._src.ops.vocabulary import find


class CompilerOp:
    """An op of programs alone. It has what the compiler asks of an op of the table."""

    view = shares_storage = elementwise = needs_values = rounds_numbers = False
    #: what its programs do is asked of them (see `ndgrad._src.compiler.lower.float_errors.may_raise`)
    compares = moves_values = may_raise = False
    batch = None

    def __init__(
        self, name: str, forward: Callable[..., Any], outputs: int = 1, programs: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.forward = forward
        self.outputs = outputs
        #: settings that are programs; each has the name of its setting, and there may be more of them. Where a program runs, they
        #: may be given as functions.
        self.programs = programs

    def forward_for(self, library: Any) -> Callable[..., Any]:
        """Its function of NumPy's arrays, the only ones that a program has."""
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


#: The sum of embed(part, shape, index) over parts, in their order. `common` is the index of what all parts
#: cover: a sum of negative zeros is one there, and 0. wherever some part adds zeros. So elements start at -0.
#: there, and at 0. elsewhere.
pieces = CompilerOp("pieces", _pieces)


def _overlaid(x: Any, *parts: Any, index: tuple[Any, ...]) -> Any:
    out = library_of(x).array(x)
    for part, place in zip(parts, index, strict=True):
        out[place] = part
    return out


#: x with parts written over it, in their order.
overlaid = CompilerOp("overlaid", _overlaid)


def _assembled(*parts: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    out = library_of(parts[0]).zeros(shape, parts[0].dtype)
    for part, place in zip(parts, index, strict=True):
        out[place] = part
    return out


#: Parts that do not meet, and zeros where there is none.
assembled = CompilerOp("assembled", _assembled)

# ----- slices ---------------------------------------------------------------------------------------------------------


def _take_slices(x: Any, index: Any, *, dim: int) -> Any:
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    if isinstance(x, MetaArray):
        return MetaArray(shape, x.dtype)
    return np.take(x, index, axis=dim, mode="clip")


#: The slices of x along a dimension that an index of int64 names; it stands in the place of the dimension. What lies
#: outside is brought to the nearest end: whoever emits it has that checked.
take_slices = CompilerOp("take_slices", _take_slices)


def _add_slices(x: Any, index: Any, *, dim: int, length: int) -> Any:
    rest = x.shape[dim + index.ndim :]
    if isinstance(x, MetaArray):
        return MetaArray((*x.shape[:dim], length, *rest), x.dtype)
    out = np.zeros((length, *x.shape[:dim], *rest), x.dtype)
    places = np.clip(index, 0, length - 1).reshape(-1)
    np.add.at(out, places, np.moveaxis(x.reshape(*x.shape[:dim], places.size, *rest), dim, 0))
    return np.moveaxis(out, 0, dim)


#: Its transpose: zeros, with `length` along the dimension, to whose slices those of x are added.
add_slices = CompilerOp("add_slices", _add_slices)


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


#: x, to whose slices along a dimension those of y are added, or which they replace, in the order of the index.
put_slices = CompilerOp("put_slices", _put_slices)

# ----- attention ------------------------------------------------------------------------------------------------------


def _attention_kept(q: Any, k: Any, v: Any, *, is_causal: bool, scale: float) -> tuple[Any, ...]:
    kernels = native_kernels.attention_kernels(q, k, v, None)
    if hasattr(kernels, "attention_kept"):
        found: tuple[Any, ...] = kernels.attention_kept(q, k, v, is_causal, scale)
        return found
    library = library_of(q)
    out = find("attention").forward_for(library)(q, k, v, None, is_causal=is_causal, scale=scale)
    return out, library.zeros(q.shape[:-1], np.float32)


#: attention(q, k, v), without a mask, and what its gradients are quicker with.
attention_kept = CompilerOp("attention_kept", _attention_kept, 2)


def _attention_gradients(g: Any, q: Any, k: Any, v: Any, *kept: Any, is_causal: bool, scale: float) -> tuple[Any, ...]:
    kernels = native_kernels.attention_kernels(q, k, v, None)
    if kept and hasattr(kernels, "gradients_of_kept"):
        found: tuple[Any, ...] = kernels.gradients_of_kept(g, q, k, v, *kept, is_causal, scale)
        return found
    return pull_back(library_of(q), g, q, k, v, None, is_causal, scale, (True, True, True, False))[:3]


#: The gradients of attention(q, k, v), without a mask, in q, k and v; from what `attention_kept` gave, if that is there.
attention_gradients = CompilerOp("attention_gradients", _attention_gradients, 3)

# ----- complex numbers ------------------------------------------------------------------------------------------------


#: a b + c. A product of complex numbers has two of them, as NumPy's has: rounded once where the processor can do that.
muladd = CompilerOp("muladd", lambda a, b, c: a * b + c)
muladd.elementwise = True


def as_pairs(z: Any) -> Any:
    """A complex array as real and imaginary parts side by side, in a last dimension of two; a view of one in C order."""
    z = np.asarray(z, order="C")
    return z.reshape(*z.shape, 1).view(z.real.dtype)


def as_complex(pairs: Any) -> Any:
    """Pairs as the complex numbers that they are; a view where they lie side by side."""
    if pairs.strides[-1] != pairs.itemsize or not pairs.flags.aligned:
        pairs = pairs.copy()
    return pairs.view(np.result_type(pairs.dtype, np.complex64))[..., 0]


def _interleaved(*arguments: Any, op: str, given: tuple[int, ...], made: tuple[int, ...], **settings: Any) -> Any:
    from ndgrad._src.compiler.program.replay import forward_of  # which runs ops, these among them

    known = op_named(op)
    arrays = [as_complex(a) if i in given else a for i, a in enumerate(arguments)]
    out = forward_of(known)(*arrays, **settings)
    results = (out,) if known.outputs == 1 else out
    return tuple([as_pairs(a) if i in made else a for i, a in enumerate(results)])


#: What an op of this name gives for complex arguments, at the places `given`, and with complex results at the places
#: `made`. Here they are pairs: the last dimension holds real and imaginary parts (see ndgrad._src.compiler.passes.complex_parts).
interleaved = CompilerOp("interleaved", _interleaved, VARIABLE)

# ----- loop -----------------------------------------------------------------------------------------------------------


#: How a program inside another one is run: as it is, on NumPy, or by what was made of it.
Runs = Program | Callable[[list[Any]], list[Any]]


def _running(program: Runs) -> Callable[[list[Any]], list[Any]]:
    return _replay(program) if isinstance(program, Program) else program


@functools.lru_cache(maxsize=256)
def _replay(body: Program) -> Callable[[list[Any]], list[Any]]:
    from ndgrad._src.compiler.program.replay import Replay  # which runs ops, these among them

    return Replay(body)


def _loop(
    *arrays: Any, body: Runs, count: int, carried: int, invariant: int, reads: tuple[tuple[int, int], ...], last: int
) -> tuple[Any, ...]:
    run = _running(body)
    state = list(arrays[:carried])
    fixed = arrays[carried : carried + invariant]
    sequences = list(zip(arrays[carried + invariant :], reads, strict=True))
    stacks: list[Any] = []
    out: list[Any] = []
    for t in range(count):
        out = run([*state, *fixed, *[array[start + step * t] for array, (start, step) in sequences]])
        state = out[:carried]
        if not t:
            stacks = [np.empty((count, *np.shape(a)), a.dtype) for a in out[carried + last :]]
        for stack, a in zip(stacks, out[carried + last :], strict=True):
            stack[t] = a
    return (*state, *out[carried : carried + last], *stacks)


#: Run `body` `count` times. Arguments: `carried` values that it starts with, `invariant` values that stay, and arrays
#: of which round t is given row start + step * t, as `reads` says for each. The body takes as many; it gives the next
#: of what is carried, then `last` values of which the last round's are wanted, then values of which every round's is,
#: in an array with a row for each. Results: these, in this order.
loop = CompilerOp("loop", _loop, VARIABLE, ("body",))

# ----- values decide --------------------------------------------------------------------------------------------------


def _branch(condition: Any, *arrays: Any, on_true: Runs, on_false: Runs) -> tuple[Any, ...]:
    return tuple(_running(on_true if condition else on_false)(list(arrays)))


#: What one of two programs gives, both of which take the same arguments.
branch = CompilerOp("branch", _branch, VARIABLE, ("on_true", "on_false"))


def _rounds(state: list[Any], fixed: list[Any], body: Runs) -> Iterator[list[Any]]:
    """What is carried before each round, and after the last."""
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


#: Run `body` for as long as the last of what is carried is True, or `most` rounds. It takes the `carried` values and
#: the `invariant` ones, which stay, and gives the next of what is carried; the last of it are the results.
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


#: Run a `while` of `carried[0]` values, and go through its rounds again, once for each further program `sweep1`,
#: `sweep2`, ...: from the last round to the first, then forward, and so on. A sweep takes `carried` values of its own, the
#: rows that it `reads` of what earlier sweeps have left in this round (the values that each was given, and what it has made
#: besides), and the values that stay; it gives the next of what it carries, and what it makes besides. Results: the last
#: of what each carries.
sweeps = CompilerOp("sweeps", _sweeps, VARIABLE, ("body",))

_SLICES = (take_slices, add_slices, put_slices)
_ATTENTION = (attention_kept, attention_gradients)
_CONTROL = (loop, branch, run_while, sweeps)
OPS = {op.name: op for op in (pieces, overlaid, assembled, *_SLICES, *_ATTENTION, muladd, interleaved, *_CONTROL)}


@functools.cache
def op_named(name: str) -> Any:
    """The op of a name, one of the table's or of the compiler's own."""
    return OPS[name] if name in OPS else find(name)
