"""Parameters of one module that are gathered, used and freed together, and the reduction of their gradients.

Between uses a rank has its piece of each parameter, a DTensor. For a forward or backward pass of the module, one
message gathers the pieces into one block of memory that holds all parameters whole. One reduce_scatter sends the
gradients back, and each rank gets its pieces of the average. The message of a rank is the concatenation of its pieces.

Note [Gathered memory]
A graph must not keep whole parameters alive between forward and backward, or no memory would be saved. So the tensors
that a module sees are results of one node (`_Gathered`), which holds no values. Saved tensors in the block's memory,
views included, are packed into a place (`Place`): an offset, a shape and strides in a block that is gathered again for
backward. A place records the version of its values: if a parameter has been written in between, backward raises, as it
does for any tensor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.core.grad_mode import is_grad_enabled, no_grad
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import wrap
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import transport
from ndgrad.distributed.reductions import ReduceOp
from ndgrad.distributed.tensor.dtensor import DTensor

if TYPE_CHECKING:
    from ndgrad._typing import Payload
    from ndgrad.distributed.agreement import Pending
    from ndgrad.distributed.fsdp.passes import Passes
    from ndgrad.distributed.groups import ProcessGroup
    from ndgrad.distributed.tensor.placements import Spec
    from ndgrad.nn.modules.module import Module

#: Alignment of parameters in a block, in bytes.
_ALIGNED = 64


class Sharded:
    """A parameter: the modules that hold it, and this rank's piece of it. The divided tensor is the parameter itself.
    If that is spread over another mesh (tensor parallel), it is this rank's part of it, and modules see a DTensor
    (`seen`).
    """

    def __init__(
        self,
        name: str,
        homes: list[tuple[Module, str]],
        value: DTensor,
        dim: int,
        sizes: tuple[int, ...],
        seen: Spec | None = None,
    ) -> None:
        self.name, self.homes, self.value = name, homes, value
        #: Mark of the whole parameter. Pieces of one parameter have the same.
        self.origin: object = self
        #: Shape of the divided tensor.
        self.shape = tuple(value.shape if seen is None else seen.local_shape())
        self._seen = seen
        #: The divided dimension, and the size of each rank's piece.
        self.dim, self.sizes = dim, sizes
        ends = [0, *itertools.accumulate(sizes)]
        before = (slice(None),) * dim
        self._shown: Any = value
        self.indices = [(*before, slice(ends[r], ends[r + 1])) for r in range(len(sizes))]
        self.shapes = [(*self.shape[:dim], n, *self.shape[dim + 1 :]) for n in sizes]
        self.counts = [math.prod(s) for s in self.shapes]

    @property
    def local(self) -> Tensor:
        """Return this rank's piece."""
        return self.value._local

    def stamp(self) -> tuple[Any, int]:
        """Return a stamp that tells the present values from later ones."""
        local = self.local
        return local._array, local._version

    def put_whole(self, whole: Tensor) -> None:
        """Give the modules the gathered parameter."""
        seen = self._seen
        self.put(whole if seen is None else DTensor.from_local(whole, seen.mesh, seen.placements, shape=seen.shape))

    def put(self, value: Any) -> None:
        """Give the modules this tensor as the parameter."""
        self._shown = value
        for module, name in self.homes:
            module._parameters[name] = value

    def check(self) -> None:
        """Raise if the modules have been given another parameter, which would be lost. A parameter that is spread alike
        replaces this one.
        """
        for module, name in self.homes:
            now: Any = module._parameters.get(name)
            if now is self._shown:
                continue
            spread = getattr(now, "spec", None)
            own = self.value.spec
            if spread is None or spread.shape != own.shape or spread.placements != own.placements:
                raise RuntimeError(
                    f"the parameter {self.name!r} of a fully sharded module was replaced by another, which is not "
                    f"spread as it was, {list(self.value.placements)}. Write its values instead (copy_, "
                    "load_state_dict, set_model_state_dict), or replace it before fully_shard. [nd-data-parallel]"
                )
            self.value = now
            self.put(now)


class Place(NamedTuple):
    """A saved tensor inside a block (see Note [Gathered memory])."""

    unit: Unit
    stamps: tuple[tuple[Any, int], ...]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


class Unit:
    """Parameters of one dtype that are gathered and freed together."""

    def __init__(
        self,
        name: str,
        params: list[Sharded],
        groups: tuple[ProcessGroup, ProcessGroup, ProcessGroup | None],
        dtypes: tuple[Any, Any],
    ) -> None:
        self.name, self.params = name, params
        #: Groups for gathering, for scattering, and for summing over replicas.
        self.gathers, self.scatters, self.replicas = groups
        self._dtypes = dtypes
        self.reshard_after_forward = self.reshard_after_backward = self.sync = True
        self._measure()
        #: Units to start gathering when this one is used, if not those that follow by themselves.
        self.next_in_forward: list[Unit] = []
        self.next_in_backward: list[Unit] = []
        #: Divisor of sums of gradients, if it is not the number of ranks.
        self.divide_factor: float | None = None
        #: True if gradients are summed over replicas, and this rank's pieces of earlier gradients that were not.
        self.sums_replicas = True
        self._unsummed: tuple[list[int], Any] | None = None
        #: Function that gets the averages before they become gradients.
        self.reduced_hook: Callable[[Tensor], None] | None = None
        self.block: Any = None
        self._stamps: tuple[tuple[Any, int], ...] = ()
        self._gathering: tuple[Pending, Any] | None = None
        #: Number of forward passes whose backward has not run yet.
        self.outstanding = 0
        #: This rank's whole gradients that have not been sent, by parameter number.
        self.gradients: dict[int, Payload] = {}
        self._scattering: tuple[Pending, Any, list[int]] | None = None
        self._summing: Pending | None = None

    def _measure(self) -> None:
        """Compute the layout of parameters in a block, and the dtypes of messages for them and their gradients."""
        self.dtype = np.dtype(self.params[0].local._array.dtype)
        param, reduce = self._dtypes
        self.gather_dtype = self.dtype if param is None else param
        self.reduce_dtype = self.gather_dtype if reduce is None else reduce
        self.offsets: list[int] = []
        end = 0
        for p in self.params:
            self.offsets.append(end)
            end += -(-math.prod(p.shape) * self.gather_dtype.itemsize // _ALIGNED) * _ALIGNED
        self.nbytes = max(end, 1)

    def check(self) -> None:
        """Check the parameters before use: they may have been replaced, or have another dtype now."""
        for p in self.params:
            p.check()
        empty = [p.name for p in self.params if p.local.is_meta]
        if empty:
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before training, but the following were still "
                f"on meta device: {empty}. Call module.to_empty(device='cpu'), then reset_parameters() on each module "
                "to initialise values. [nd-meta]"
            )
        if self.params[0].local._array.dtype != self.dtype:
            self.free()
            self._measure()

    def __repr__(self) -> str:
        return f"<Unit {self.name}: {len(self.params)} parameters>"

    # ----- gathering -----

    def stamps(self) -> tuple[tuple[Any, int], ...]:
        """Return stamps that tell the parameters' present values from later ones."""
        return tuple(p.stamp() for p in self.params)

    def _is_present(self, stamps: tuple[tuple[Any, int], ...]) -> bool:
        return len(stamps) == len(self.params) and all(
            array is p.local._array and version == p.local._version
            for (array, version), p in zip(stamps, self.params, strict=True)
        )

    def begin_gather(self) -> None:
        """Start to gather the pieces, unless this has happened already."""
        if (self.block is not None or self._gathering is not None) and self._is_present(self._stamps):
            return
        self.free()
        self._stamps = self.stamps()
        counts = [sum(p.counts[r] for p in self.params) for r in range(self.gathers.size())]
        mine = [np.asarray(p.local._array).reshape(-1) for p in self.params]
        sent = (mine[0] if len(mine) == 1 else np.concatenate(mine)).astype(self.gather_dtype, copy=False)
        received = np.empty(sum(counts), self.gather_dtype)
        self._gathering = transport.all_gather_uneven(self.gathers, received, sent, counts), received

    def finish_gather(self) -> None:
        """Wait until all parameters are whole in the block."""
        self.begin_gather()
        if self._gathering is None:
            return
        pending, received = self._gathering
        pending.wait()
        self._gathering = None
        self.block = np.empty(self.nbytes, np.uint8)
        start = 0
        wholes = [self.whole(i) for i in range(len(self.params))]
        for rank in range(self.gathers.size()):
            for p, whole in zip(self.params, wholes, strict=True):
                whole[p.indices[rank]] = received[start : start + p.counts[rank]].reshape(p.shapes[rank])
                start += p.counts[rank]

    def go_on(self) -> None:
        """Let MPI make progress: it does so only when it is polled."""
        if self._gathering is not None:
            self._gathering[0].is_completed()
        if self._scattering is not None:
            self._scattering[0].is_completed()
        if self._summing is not None:
            self._summing.is_completed()

    def whole(self, i: int) -> Payload:
        """Return a whole parameter in the block."""
        return np.ndarray(self.params[i].shape, self.gather_dtype, self.block, self.offsets[i])

    def free(self) -> None:
        """Free the block; this rank keeps its pieces."""
        if self._gathering is not None:
            self._gathering[0].wait()
        self.block = self._gathering = None

    # ----- what modules see -----

    def show_wholes(self, passes: Passes) -> None:
        """Give the modules whole parameters, as results of a graph node."""
        self.finish_gather()
        trained = [i for i, p in enumerate(self.params) if p.value.requires_grad] if is_grad_enabled() else []
        wholes: dict[int, Any] = {}
        if trained:
            again = thread.task is not None
            made = _Gathered.apply(self, passes, trained, again, *(self.params[i].local for i in trained))
            wholes = dict(zip(trained, made, strict=True))
        for i, p in enumerate(self.params):
            p.put_whole(wholes[i] if i in wholes else wrap(Tensor, self.whole(i)))

    def is_trained(self) -> bool:
        """True if any of the parameters requires grad."""
        return any(p.value.requires_grad for p in self.params)

    def show_pieces(self) -> None:
        """Give the modules their pieces, as DTensors."""
        for p in self.params:
            p.put(p.value)

    # ----- what graphs keep -----

    def place_of(self, t: Any) -> Place | None:
        """Return the place of a tensor in the block, or None if it lies elsewhere."""
        array, block = t._array, self.block
        if block is None or not isinstance(array, np.ndarray) or not array.size:
            return None
        begin, at = block.__array_interface__["data"][0], array.__array_interface__["data"][0]
        if not begin <= at < begin + self.nbytes:
            return None
        return Place(self, self._stamps, at - begin, array.shape, array.strides, array.dtype)

    def tensor_at(self, place: Place) -> Any:
        """Return a saved tensor from the block, which has been gathered again."""
        if not self._is_present(place.stamps):
            changed = [
                p.name
                for p, (array, version) in zip(self.params, place.stamps, strict=True)
                if array is not p.local._array or version != p.local._version
            ]
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: the "
                f"sharded parameters {', '.join(changed)} were written between forward and backward. Call backward() "
                "before optimizer.step(), and forward again after it. [nd-overwritten]"
            )
        return wrap(Tensor, np.ndarray(place.shape, place.dtype, self.block, place.offset, place.strides))

    # ----- gradients -----

    def add_gradients(self, numbers: Sequence[int], grads: Sequence[Any]) -> None:
        """Add to this rank's whole gradients, which are kept until they are sent.

        Sums have the wider dtype of computing and reducing: sums in bfloat16 would lose the small gradients of later
        microbatches. A single gradient is not copied.
        """
        for i, g in zip(numbers, grads, strict=True):
            if g is None:
                continue
            array = np.asarray((g.to_dense() if g.is_sparse else g).detach()._array)
            if i in self.gradients:
                wide = np.promote_types(array.dtype, self.reduce_dtype)
                array = self.gradients[i].astype(wide, copy=False) + array.astype(wide, copy=False)
            self.gradients[i] = array

    def begin_scatter(self) -> None:
        """Start the reduce_scatter: every rank gets its pieces of the sum. A missing gradient counts as 0."""
        numbers = [i for i, p in enumerate(self.params) if p.value.requires_grad or i in self.gradients]
        params = [self.params[i] for i in numbers]
        counts = [sum(p.counts[r] for p in params) for r in range(self.scatters.size())]
        sent = np.zeros(sum(counts), self.reduce_dtype)
        start = 0
        for rank in range(self.scatters.size()):
            for i, p in zip(numbers, params, strict=True):
                if i in self.gradients:
                    sent[start : start + p.counts[rank]] = self.gradients[i][p.indices[rank]].reshape(-1)
                start += p.counts[rank]
        self.gradients = {}
        if (before := self._divisors()[0]) != 1:
            sent /= before
        out = np.empty(counts[self.scatters.rank()], self.reduce_dtype)
        pending = transport.reduce_scatter_uneven(self.scatters, out, sent, counts, ReduceOp.SUM)
        self._scattering = pending, out, numbers

    def begin_sum(self) -> None:
        """Start the sum over replicas, if there are any, after the scatter."""
        if self.replicas is None or self._scattering is None:
            return
        pending, out, numbers = self._scattering
        pending.wait()
        if self._unsummed is not None:
            earlier, pieces = self._unsummed
            if earlier != numbers:
                raise RuntimeError(
                    f"{self.name}: other parameters require grad now than in the backward passes without "
                    "set_requires_all_reduce, whose gradients are kept. [nd-call-order]"
                )
            out += pieces
            self._unsummed = None
        if self.sums_replicas:
            self._summing = transport.all_reduce(self.replicas, out, ReduceOp.SUM)
        else:
            self._unsummed = numbers, out

    def finish_scatter(self) -> dict[int, Payload]:
        """Return this rank's pieces of the average, by parameter number."""
        assert self._scattering is not None
        pending, out, numbers = self._scattering
        (self._summing or pending).wait()
        self._scattering = self._summing = None
        if self._unsummed is not None:  # this rank keeps the pieces until a backward pass sums them over replicas
            return {}
        out = out / self._divisors()[1]
        if self.reduced_hook is not None:
            with no_grad():
                self.reduced_hook(wrap(Tensor, out))
        out = out.astype(self.dtype, copy=False)
        found, start, rank = {}, 0, self.scatters.rank()
        for i in numbers:
            p = self.params[i]
            found[i] = out[start : start + p.counts[rank]].reshape(p.shapes[rank])
            start += p.counts[rank]
        return found

    def _divisors(self) -> tuple[int, float]:
        """Return the divisors of an average before and after its sum.

        Sums in float16 overflow at 65504, and quotients underflow. About the root of the divisor comes before the sum.
        """
        count: float = self.scatters.size() * (1 if self.replicas is None else self.replicas.size())
        count = count if self.divide_factor is None else self.divide_factor
        before = 1
        while self.reduce_dtype == np.float16 and before * before < count:
            before *= 2
        return before, count / before

    def is_scattering(self) -> bool:
        """True if a scatter is in progress."""
        return self._scattering is not None

    def give(self, i: int, piece: Payload) -> None:
        """Add a piece of the average to the gradient of a parameter, and call its hooks."""
        local: Any = self.params[i].local
        with no_grad():
            if local.grad is None:
                local.grad = wrap(Tensor, piece)
            else:
                local.grad.add_(wrap(Tensor, piece))
        for hook in list((local._post_accumulate_grad_hooks or {}).values()):
            hook(local)


class _Gathered(Function):
    """Graph node from pieces to whole parameters; its backward takes over the gradients."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, passes: Passes, numbers: list[int], again: bool, *pieces: Any) -> Any:
        ctx.unit, ctx.passes, ctx.numbers, ctx.again = unit, passes, numbers, again
        ctx.set_materialize_grads(False)
        return tuple(wrap(Tensor, unit.whole(i)) for i in numbers)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if is_grad_enabled():
            raise NotImplementedError(
                f"backward(create_graph=True) through the fully sharded module {ctx.unit.name!r}: its gradients are "
                "averaged outside the graph. Use DistributedDataParallel's module, or DTensors, for higher "
                "derivatives. [nd-no-derivative]"
            )
        task: Any = thread.task
        return (None,) * 4 + tuple(ctx.passes.take_gradients(ctx.unit, ctx.numbers, grads, task, ctx.again))
