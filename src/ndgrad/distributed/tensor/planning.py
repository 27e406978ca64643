"""Plans for calls of ops on spread tensors: arguments to redistribute, local computation, placement of the result.

For each dimension of the mesh, a signature (`signatures`) leaves a few ways to run the op: divide one of its labels,
compute terms from terms, or let every rank compute everything. The plan takes the one that sends the fewest bytes, and
among equals the one that divides the work. Arguments that are whole everywhere stay whole. The choice depends only on
shapes, dtypes, placements and settings, so all ranks choose the same. It is cached: the second call of its kind costs a
lookup. The values of numbers (`alpha`, a learning rate) are part of the key only if a signature reads them (a padding
with zeros is linear, one with ones is not).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.distributed.tensor import signatures_of_layers, signatures_of_matrices, signatures_of_places  # noqa: F401
from ndgrad.distributed.tensor.draws import Piece, PieceGenerator, agree_on_state
from ndgrad.distributed.tensor.placements import (
    AVERAGE,
    LARGEST,
    PARTIAL,
    REPLICATE,
    SMALLEST,
    Divided,
    Partial,
    Placement,
    Shard,
    Spec,
    chunk_sizes,
    spec_of,
)
from ndgrad.distributed.tensor.redistribution import Step, cost, join_for_shares, shared, shared_gathered, steps
from ndgrad.distributed.tensor.signatures import Signature, signature


class Plan:
    """The plan for one kind of call."""

    __slots__ = (
        "draws",
        "local",
        "moves",
        "op",
        "out_placements",
        "out_shapes",
        "outs",
        "random",
        "result_shape",
        "shares",
        "sharing",
        "sizes",
        "spec",
        "still",
    )

    def __init__(
        self,
        op: Op,
        spec: Spec,
        moves: Sequence[tuple[Step, ...] | None],
        shares: Sequence[tuple[int, ...]],
        sig: Signature,
        out_placements: tuple[Placement, ...],
        sizes: dict[int, int],
        out_shapes: dict[int, int],
        draws: Piece | None = None,
        starts: dict[int, int] | None = None,
    ) -> None:
        self.op, self.spec = op, spec
        #: For random numbers: this rank's piece.
        self.draws, self.random = draws, "generator" in op.settings
        #: Per argument, the redistribution steps; None for other values.
        self.moves = tuple(moves)
        #: Per argument, the mesh dimensions whose ranks divide its use although all have it.
        self.shares = tuple(shares)
        self.still = not any(moves) and not any(shares)
        self.sharing = any(shares)
        rule = sig.local if starts is None or sig.local is None else functools.partial(sig.local, starts=starts)
        self.local = None if rule is None else functools.partial(_local, rule, sizes)
        self.sizes = sizes
        self.out_placements = out_placements
        #: Whole lengths of the result's divided dimensions.
        self.out_shapes = out_shapes
        self.result_shape = sig.result_shape
        #: Specs of the results, known after the first run.
        self.outs: tuple[Spec, ...] | None = None

    def run(self, args: Sequence[Any], locals_: list[Any], settings: dict[str, Any]) -> Any:
        """Return the local results."""
        if not self.still:
            for i, found in enumerate(self.moves):
                if found:
                    locals_[i] = self._move(locals_[i], found, self.shares[i])
            if self.sharing:
                for i, dims in enumerate(self.shares):
                    if dims and not self.moves[i] and locals_[i].requires_grad:
                        locals_[i] = self._share(args[i], locals_[i], dims)
        if self.random:
            agree_on_state(self.op, self.spec.mesh, settings.get("generator"))
            if self.draws is not None:
                settings = {**settings, "generator": PieceGenerator(settings.get("generator"), self.draws)}
        return self.op.eager(*locals_, **settings) if self.local is None else self.local(locals_, settings)

    def _move(self, t: Any, found: Sequence[Step], dims: tuple[int, ...]) -> Any:
        """Return a local tensor after redistribution, with a gradient that is summed over the ranks that share it. If
        the last step gathers for them, backward is one reduce_scatter.
        """
        *before, last = found
        for step in before:
            t = step.run(t)
        if last.gathers and last.mesh_dim in dims and t.requires_grad:
            t = join_for_shares(t, **last.calls[0][1])
            dims = tuple(d for d in dims if d != last.mesh_dim)
        else:
            t = last.run(t)
        if t.requires_grad:
            for dim in dims:
                t = shared(t, group=self.spec.mesh.get_group(dim))
        return t

    def _share(self, argument: Any, t: Any, dims: tuple[int, ...]) -> Any:
        """Return a tensor whose gradient is summed over the ranks that share it, once for all its uses."""
        known = argument.shared_forms
        if dims in known and known[dims][0] is t and known[dims][1] == t._version:
            return known[dims][2]
        out, rest = t, dims
        if argument.gathered is not None:
            piece, step = argument.gathered
            if step.mesh_dim in dims:
                out = shared_gathered(t.detach(), piece, **step.calls[0][1])
                rest = tuple(d for d in dims if d != step.mesh_dim)
        for dim in rest:
            out = shared(out, group=self.spec.mesh.get_group(dim))
        known[dims] = (t, t._version, out)
        return out

    def result_specs(self, outs: Sequence[Any]) -> tuple[Spec, ...]:
        """Return the specs of local results: their shapes, with whole lengths for divided dimensions."""
        if self.outs is not None and len(self.outs) == len(outs):
            return self.outs
        found = []
        for out in outs:
            shape = tuple(self.out_shapes.get(i, n) for i, n in enumerate(out.shape))
            if self.result_shape is not None:
                shape = self.result_shape
            found.append(spec_of(self.spec.mesh, self.out_placements, shape, np.dtype(out._array.dtype)))
        self.outs = tuple(found)
        return self.outs

    @property
    def wire(self) -> int:
        """Return the bytes that a rank sends before the op runs."""
        return sum(step.wire for found in self.moves if found for step in found)

    def words(self) -> list[str]:
        """Return a description of the plan, line by line."""
        lines = []
        for i, found in enumerate(self.moves):
            name = self.op.args[min(i, len(self.op.args) - 1)]
            for step in found or ():
                lines.append(f"{name}: {step!r}")
        for i, dims in enumerate(self.shares):
            if dims:
                name = self.op.args[min(i, len(self.op.args) - 1)]
                lines.append(
                    f"{name}: backward all_reduce of its gradient along mesh dimension {', '.join(map(str, dims))}"
                )
        lines.append(f"result: {list(self.out_placements)}")
        return lines


def _local(rule: Any, sizes: dict[int, int], args: Sequence[Any], settings: dict[str, Any]) -> Any:
    return rule(tensor_ops, args, settings, sizes)


# ----- the choice -----------------------------------------------------------------------------------------------------


def make_plan(op: Op, specs: Sequence[Spec | None], numbers: Sequence[bool], settings: dict[str, Any]) -> Plan:
    """Make the plan for arguments of these specs (None: no tensor; `numbers` marks numbers)."""
    first = _check_one_mesh(op, specs)
    mesh = first.mesh
    sig = signature(op, [None if s is None else s.shape for s in specs], settings)
    if sig is None:
        if not all(p.is_replicate() for s in specs if s is not None for p in s.placements):
            raise NotImplementedError(_no_rule(op, specs))
        sig = Signature([None if s is None else (None,) * len(s.shape) for s in specs], ())
    chosen = [_choose(op, sig, specs, numbers, dim) for dim in range(mesh.ndim)]
    targets = [tuple(wanted[i] for wanted, _ in chosen) for i in range(len(specs))]
    out_placements = tuple(result for _, result in chosen)
    moves = [None if s is None else steps(s, target) for s, target in zip(specs, targets, strict=True)]
    shares = [
        () if s is None else _shared_along(first, target, out_placements)
        for s, target in zip(specs, targets, strict=True)
    ]
    sizes, lengths = _result_sizes(sig, specs, first, out_placements)
    draws = _drawn_piece(sig, first, out_placements, lengths) if sig.draws else None
    starts = _piece_starts(sig, specs, targets) if sig.wants_starts else None
    return Plan(op, first, moves, shares, sig, out_placements, sizes, lengths, draws, starts)


def _piece_starts(
    sig: Signature, specs: Sequence[Spec | None], targets: Sequence[tuple[Placement, ...]]
) -> dict[int, int]:
    """Return the start of this rank's piece of each divided dimension, by label."""
    found: dict[int, int] = {}
    for s, labels, target in zip(specs, sig.inputs, targets, strict=True):
        if s is None or labels is None:
            continue
        coordinate = s.mesh.get_coordinate() or [0] * s.mesh.ndim
        bounds = {dim: (0, n) for dim, n in enumerate(s.shape)}
        for i, placement in enumerate(target):
            if isinstance(placement, Shard) and (label := labels[placement.dim]) is not None:
                start, stop = bounds[placement.dim]
                sizes = chunk_sizes(stop - start, s.mesh.size(i))
                start += sum(sizes[: coordinate[i]])
                bounds[placement.dim] = (start, start + sizes[coordinate[i]])
                found[label] = start
    return found


def _drawn_piece(sig: Signature, spec: Spec, out: tuple[Placement, ...], lengths: dict[int, int]) -> Piece:
    """Return the location of this rank's piece of a result in the whole."""
    mesh = spec.mesh
    coordinate = mesh.get_coordinate() or [0] * mesh.ndim
    bounds = {dim: (0, n, n) for dim, n in lengths.items()}
    for i, placement in enumerate(out):
        if isinstance(placement, Divided):
            start, stop, length = bounds[placement.dim]
            sizes = chunk_sizes(stop - start, mesh.size(i))
            start += sum(sizes[: coordinate[i]])
            bounds[placement.dim] = (start, start + sizes[coordinate[i]], length)
    return Piece(len(sig.outputs), bounds)


def _check_one_mesh(op: Op, specs: Sequence[Spec | None]) -> Spec:
    given = [s for s in specs if s is not None]
    mesh = given[0].mesh
    for s in given[1:]:
        if s.mesh is not mesh and s.mesh != mesh:
            raise RuntimeError(
                f"Sharding propagation failed for {op.name}: the arguments lie on different meshes, {mesh!r} and "
                f"{s.mesh!r}. Put them on one: DTensor.from_local(x.to_local(), mesh, placements). [nd-dtensor]"
            )
    return given[0]


def _shared_along(spec: Spec, target: tuple[Placement, ...], out: tuple[Placement, ...]) -> tuple[int, ...]:
    """Return the mesh dimensions whose ranks divide the work although all of them have this argument."""
    return tuple(
        d for d in range(spec.mesh.ndim)
        if target[d].is_replicate() and not out[d].is_replicate() and spec.mesh.size(d) > 1
    )  # fmt: skip


def _result_sizes(
    sig: Signature, specs: Sequence[Spec | None], spec: Spec, out: tuple[Placement, ...]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return this rank's sizes and the whole lengths of the result's divided dimensions."""
    mesh = spec.mesh
    coordinate = mesh.get_coordinate() or [0] * mesh.ndim
    sizes: dict[int, int] = {}
    lengths: dict[int, int] = {}
    for dim, placement in enumerate(out):
        if isinstance(placement, Divided):
            at = placement.dim
            lengths[at] = _whole_length(sig, specs, sig.outputs[at] if at < len(sig.outputs) else None, at)
            sizes[at] = placement.piece_sizes(sizes.get(at, lengths[at]), mesh.size(dim))[coordinate[dim]]
    return sizes, lengths


def _whole_length(sig: Signature, specs: Sequence[Spec | None], label: int | None, at: int) -> int:
    if sig.result_shape is not None:
        return sig.result_shape[at]
    for s, labels in zip(specs, sig.inputs, strict=True):
        if s is not None and labels is not None and label in labels:
            return s.shape[labels.index(label)]
    raise AssertionError(f"no argument has a dimension of label {label} [nd-bug]")


def _choose(
    op: Op, sig: Signature, specs: Sequence[Spec | None], numbers: Sequence[bool], dim: int
) -> tuple[list[Placement], Placement]:
    """Choose placements of the arguments and the result for one dimension of the mesh."""
    best: Any = None
    for wanted, result, divided in _ways(op, sig, specs, numbers, dim):
        bytes_sent = 0
        messages = 0
        pieces_taken = 0
        for s, target in zip(specs, wanted, strict=True):
            if s is None or s.placements[dim] == target:
                continue
            sent = cost(s, (*s.placements[:dim], target, *s.placements[dim + 1 :]))
            bytes_sent += sent
            messages += sent > 0
            pieces_taken += 1
        rank = (bytes_sent, messages, not divided, pieces_taken)
        if best is None or rank < best[0]:
            best = rank, wanted, result
    assert best is not None, op.name
    return list(best[1]), best[2]


def _ways(op: Op, sig: Signature, specs: Sequence[Spec | None], numbers: Sequence[bool], dim: int) -> Iterator[Any]:
    """Yield ways to run an op along one dimension of the mesh: placements of the arguments and the result, and whether
    the work is divided. Arguments that are whole everywhere stay whole.
    """
    now = [None if s is None else s.placements[dim] for s in specs]
    if not all(p is None or p.is_replicate() for p in now):
        yield from _with_terms(sig, now, numbers)
        yield from _with_extremes(op, now)
        yield from _with_pieces(sig, specs, dim)
    yield [REPLICATE] * len(specs), REPLICATE, False


def _with_terms(sig: Signature, now: Sequence[Placement | None], numbers: Sequence[bool]) -> Iterator[Any]:
    """Yield terms of terms, if the op is linear in an argument that is a sum (or average) of terms."""
    for kind in (PARTIAL, AVERAGE):
        terms = {i for i, p in enumerate(now) if p == kind}
        for group in sig.linear:
            # A number is added to every term of an average, and to one term of a sum, which the op cannot do.
            if terms & group and (kind == AVERAGE or not any(numbers[i] for i in group if i < len(numbers))):
                yield [kind if i in group else REPLICATE for i in range(len(now))], kind, True


def _with_extremes(op: Op, now: Sequence[Placement | None]) -> Iterator[Any]:
    """Yield terms of terms whose maximum or minimum an argument is. A function that grows in an argument takes the
    maximum of its terms to the maximum of the results, and one that falls takes it to their minimum.
    """
    for i, p in enumerate(now):
        if not isinstance(p, Partial) or p not in (LARGEST, SMALLEST):
            continue
        other = SMALLEST if p == LARGEST else LARGEST
        for rising, result in ((True, p), (False, other)):
            if op.is_monotone_in(i, rising=rising):
                yield [p if k == i else REPLICATE for k in range(len(now))], result, True
        if op.extreme_of == p.reduce_op:  # the maximum of maxima
            yield [p if q == p else REPLICATE for q in now], p, True
        if len(now) == 1 and op.reduces == op.joins_pieces_by == p.reduce_op:
            yield [p], p, True


def _with_pieces(sig: Signature, specs: Sequence[Spec | None], dim: int) -> Iterator[Any]:
    """Yield one way for each label that can be divided, and that divides an argument already.

    No plan divides a dimension that no argument has divided. It would send fewer bytes, but the placement of the
    result would then depend on sizes. A program that reads `to_local()` of a result expects it as torch places it.
    """
    count = next(s.mesh for s in specs if s is not None).size(dim)
    divided: dict[tuple[int, Divided], None] = {}
    for s, found in zip(specs, sig.inputs, strict=True):
        if s is not None and found is not None and isinstance(p := s.placements[dim], Divided):
            if (label := found[p.dim]) is not None:
                divided[label, p] = None
            if (fold := sig.folds.get(p)) is not None and fold[1] % count == 0 and _is_alone(s, p, dim):
                yield [p], fold[0], True
    for label, p in sorted(divided, key=lambda one: one[0]):
        where = sig.outputs.index(label) if label in sig.outputs else None
        reduction = sig.reductions.get(label)
        strided = not isinstance(p, Shard)
        if strided and (sig.wants_starts or sig.draws or label in sig.even):
            continue  # these want one piece
        if (where is not None or reduction is not None) and _can_divide(sig, specs, label, where, reduction, count, p):
            result: Placement = p.replace_dim(where) if where is not None else Partial(reduction or "sum")
            yield _divide_label(sig, specs, label, where, p), result, True


def _is_alone(spec: Spec, placement: Divided, dim: int) -> bool:
    """True if one dimension of the mesh alone divides this dimension of the tensor."""
    return not any(isinstance(p, Divided) and p.dim == placement.dim for i, p in enumerate(spec.placements) if i != dim)


def _divide_label(
    sig: Signature, specs: Sequence[Spec | None], label: int, where: int | None, like: Divided
) -> list[Placement]:
    """Return the placements of the arguments for dividing a label."""
    wanted: list[Placement] = []
    for i, (s, found) in enumerate(zip(specs, sig.inputs, strict=True)):
        if s is None or found is None:
            wanted.append(REPLICATE)
        elif label in found:
            wanted.append(like.replace_dim(found.index(label)))
        else:
            wanted.append(PARTIAL if where is None and i in sig.added else REPLICATE)
    return wanted


def _can_divide(
    sig: Signature,
    specs: Sequence[Spec | None],
    label: int,
    where: int | None,
    reduction: str | None,
    count: int,
    like: Divided,
) -> bool:
    for s, found in zip(specs, sig.inputs, strict=True):
        if s is None or found is None or label not in found:
            continue
        length = s.shape[found.index(label)]
        others = sum(1 for p in s.placements if isinstance(p, Divided) and p.dim == found.index(label))
        if label in sig.even and (
            length % count ** max(others, 1)
            or (where is not None and (sig.result_shape or ())[where] % count ** max(others, 1))
        ):
            return False
        if reduction in ("max", "min") and 0 in like.piece_sizes(length, count):
            return False  # a maximum of no elements is undefined
        if length < 1 or length == 1:
            return False
    return True


def _no_rule(op: Op, specs: Sequence[Spec | None]) -> str:
    held = ", ".join(
        f"{op.args[min(i, len(op.args) - 1)]} {list(s.placements)}" for i, s in enumerate(specs) if s is not None
    )
    return (
        f"{op.name}: it is not known how this op can be divided among ranks, and its arguments are not whole on each "
        f"of them ({held}). Call "
        "redistribute(placements=[Replicate()] * mesh.ndim) on them first, which gathers them, or work on the pieces "
        "with to_local(). [nd-dtensor]"
    )


# ----- calls ----------------------------------------------------------------------------------------------------------

_plans: dict[Any, Plan] = {}


def plan_for(op: Op, args: Sequence[Any], settings: dict[str, Any], spread: type[Any]) -> Plan | None:
    """Return the plan of a call, from the cache or new. None if a plain tensor of one element is beside DTensors: it
    counts as replicated, as numbers do.
    """
    key: list[Any] = [op]
    for a in args:
        if a.__class__ is spread:
            key.append(a.spec)
        elif isinstance(a, Variable) and a.ndim and a.numel() == 1 and not a.requires_grad:
            return None
        else:
            key.append(None if a is None else a.__class__ if not isinstance(a, Variable) else _refuse_plain(op, a))
    if settings:
        ignored = _ignored_numbers.get(op)
        for name, value in settings.items():
            if ignored is None or name not in ignored:
                key.append(_hashable(value))
    found = _plans.get(tuple(key))
    if found is None:
        specs = [a.spec if isinstance(a, spread) else None for a in args]
        numbers = [not isinstance(a, spread) and a is not None for a in args]
        watched = _WatchedSettings(settings)
        found = make_plan(op, specs, numbers, watched)
        _plans[tuple(key)] = found
        known = _ignored_numbers.get(op)
        left = frozenset(op.number_settings if known is None else known) - watched.read
        if left != known:
            # Plans under the old keys are not found again.
            _ignored_numbers[op] = left
    return found


def forget_plans() -> None:
    """Empty the cache of plans."""
    _plans.clear()


#: Numbers that no plan of an op has read. They are left out of the keys of its plans.
_ignored_numbers: dict[Op, frozenset[str]] = {}


class _WatchedSettings(dict[str, Any]):
    """Settings of a call, and the names that were read."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def values(self) -> Any:
        self.read.update(self)
        return super().values()

    def items(self) -> Any:
        self.read.update(self)
        return super().items()


def _hashable(value: Any) -> Any:
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    if isinstance(value, (tuple, list)):
        return tuple(map(_hashable, value))
    return value


class _Implicit(threading.local):
    """True in this thread while plain tensors beside DTensors count as replicated."""

    on = False


_implicit = _Implicit()


def replicates_plain() -> bool:
    """True inside a block of `implicit_replication`."""
    return _implicit.on


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Treat plain tensors beside DTensors as replicated in this block: all ranks have the same values.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Shard, distribute_tensor
    >>> from ndgrad.distributed.tensor.experimental import implicit_replication
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> with implicit_replication():
    ...     y = distribute_tensor(ndgrad.ones(2), mesh, [Shard(0)]) + ndgrad.tensor([1.0, 2.0])
    >>> y.full_tensor()
    tensor([2., 3.])
    >>> ndgrad.distributed.destroy_process_group()
    """
    before, _implicit.on = _implicit.on, True
    try:
        yield
    finally:
        _implicit.on = before


def _refuse_plain(op: Op, a: Any) -> Any:
    if a.ndim == 0 and not a.requires_grad:
        return "number"
    raise RuntimeError(
        f"{op.name} got a plain tensor of shape {tuple(a.shape)} beside a DTensor: what the other ranks have of it is "
        "not known. Distribute "
        "it first: distribute_tensor(x, mesh, [Replicate()]) if all ranks have the same. [nd-dtensor]"
    )
