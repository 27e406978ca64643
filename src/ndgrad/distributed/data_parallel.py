"""`DistributedDataParallel`: every rank has the whole module and a part of the batch, and the gradients are averaged.

The parameters are divided into buckets, in the order in which backward reaches them. A hook on each parameter runs as
soon as its gradient is complete and copies the gradient into its bucket. A full bucket starts its all_reduce while
backward continues, and every further hook lets MPI make progress. At the end of the pass the averages are copied back.
Every rank sends the buckets in the same order, regardless of which is full first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ndgrad._src.core.grad_mode import is_grad_enabled, no_grad
from ndgrad._src.core.node import edge_node
from ndgrad._src.core.traversal import iterate_nodes
from ndgrad._src.core.variable import Variable, edge, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.engine.callbacks import queue_callback
from ndgrad._src.foundations.devices import device as as_device
from ndgrad._src.foundations.pytree import tree_leaves, tree_map
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import transport
from ndgrad.distributed.agreement import Call, Pending
from ndgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from ndgrad.distributed.groups import ProcessGroup, group_of
from ndgrad.distributed.reductions import ReduceOp
from ndgrad.futures import Future
from ndgrad.nn.modules.module import Module

#: Size of the first bucket in MiB. It is small, so that the first message leaves early.
_FIRST = 1.0
#: Name of a collective that a registered function replaces.
_REPLACED = Call("communication hook", (), "")


class _Bucket:
    """Gradients that are sent together, as slices of one array."""

    def __init__(self, number: int, names: list[str], params: list[Tensor]) -> None:
        self.number, self.names, self.params = number, names, params
        sizes = [p.numel() for p in params]
        self.ends = list(itertools.accumulate(sizes))
        self.array = np.zeros(sum(sizes), params[0]._array.dtype)
        self.pieces = [
            self.array[end - size : end].reshape(tuple(p.shape))
            for p, size, end in zip(params, sizes, self.ends, strict=True)
        ]
        self.ready: set[int] = set()
        self.pending: Pending | None = None

    def begin(self) -> None:
        self.ready.clear()
        self.pending = None


class GradBucket:
    """Gradients that are sent together, as a function of `register_comm_hook` gets them.

    Args:
        bucket: gradients of several parameters, one after the other in an array.
        is_last: whether it is the last bucket of a backward pass.
    """

    def __init__(self, bucket: _Bucket, is_last: bool) -> None:
        self._bucket, self._is_last = bucket, is_last
        self._buffer = wrap(Tensor, bucket.array)

    def index(self) -> int:
        """Return the number of the bucket."""
        return self._bucket.number

    def buffer(self) -> Tensor:
        """Return all gradients as a tensor of one dimension, whose memory is that of the bucket."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the tensor that `buffer` returns.

        Args:
            buffer: tensor with as many elements.
        """
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradient of each parameter, as views of `buffer`."""
        ends = self._bucket.ends
        starts = [0, *ends[:-1]]
        parts = zip(starts, ends, self._bucket.params, strict=True)
        return [self._buffer[a:b].reshape(tuple(p.shape)) for a, b, p in parts]

    def parameters(self) -> list[Tensor]:
        """Return the parameters of the gradients."""
        return list(self._bucket.params)

    def is_last(self) -> bool:
        """True if it is the last bucket of a backward pass."""
        return self._is_last


class DistributedDataParallel(Module, Joinable):
    """Wrap a module so that backward averages its gradients over the ranks. The names in its state begin with
    `module.`.

    Every rank starts from the parameters of the first. Each rank computes the loss of its part of the batch. With parts
    of equal size and a mean loss, training equals that of one process with the whole batch. With
    `gradient_as_bucket_view=True` the gradients are views of the buckets. This saves a copy, but a reference to an
    earlier `.grad` may be overwritten. With `static_graph=True` the module may have parameters without a gradient, as
    with `find_unused_parameters=True`.

    Args:
        module: module whose gradients are averaged.
        device_ids: None, or a list with the GPU of this process, to which arguments are moved.
        output_device: GPU to which results are moved. The default is the first of `device_ids`.
        dim: kept as an attribute, as in torch. Batches are not divided here.
        broadcast_buffers: whether the first rank sends its buffers before each forward in training.
        init_sync: whether the first rank sends its parameters and buffers when the object is made.
        process_group: ranks that take part. The default is all ranks.
        bucket_cap_mb: maximum size of a bucket of gradients, in megabytes. The default is 25.
        find_unused_parameters: whether some parameters may get no gradient in a backward pass.
        check_reduction: old parameter of torch without effect: unfinished reductions are always reported.
        gradient_as_bucket_view: whether gradients are views of the buckets, without a copy.
        static_graph: whether the same parameters are used in every step. They may be a part of all.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(2, 1))
    >>> net(ndgrad.ones(3, 2)).sum().backward()
    >>> net.module.bias.grad
    tensor([3.])
    >>> ndgrad.distributed.destroy_process_group()
    """

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        group = group_of(process_group)
        if group is None:
            raise ValueError(
                "DistributedDataParallel: this process is not in process_group. Make it on the members alone. [nd-rank]"
            )
        self.module = module
        self.process_group: ProcessGroup = group
        #: A static graph may leave out parameters, too.
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.static_graph, self.dim = static_graph, dim
        self.device_ids, self.output_device = _devices_of(module, device_ids, output_device)
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.require_backward_grad_sync = True
        #: The number of ranks over which gradients are averaged.
        self._divisor = group.size()
        self._by_all = True
        #: Function that replaces the average of a bucket, and its state.
        self._hook: tuple[Callable[[Any, GradBucket], Any], Any] | None = None
        #: True if gradients are views of the buckets.
        self._as_views = gradient_as_bucket_view
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient. Use the module. [nd-data-parallel]"
            )
        spread = [name for name, p in named if p.run_op is not None]
        if spread:
            raise NotImplementedError(
                f"DistributedDataParallel: the parameter {spread[0]!r} is a {type(dict(named)[spread[0]]).__name__}. "
                "Wrap a module with plain parameters, or use fully_shard on a mesh of two dimensions, of which the "
                "first holds replicas. [nd-data-parallel]"
            )
        self._buckets = _fill_buckets(named, 25.0 if bucket_cap_mb is None else float(bucket_cap_mb))
        self._places = {id(p): (bucket, i) for bucket in self._buckets for i, p in enumerate(bucket.params)}
        self._next = 0
        self._active = self._queued = False
        self._used: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        if init_sync:
            self._send_state([*module.parameters(), *module.buffers()])
        self._handles = [
            p.register_post_accumulate_grad_hook(self._on_gradient) for bucket in self._buckets for p in bucket.params
        ]

    # ----- forward -----

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module; a backward pass through its result averages the gradients.

        Args:
            *inputs, **kwargs: arguments of the module.
        """
        recording = is_grad_enabled() and self.require_backward_grad_sync
        if self._active and recording and self._next and self._next < len(self._buckets):
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one: a backward pass "
                "ended before all gradients "
                f"were there ({', '.join(self._missing())}). Pass find_unused_parameters=True, or use these parameters "
                "in every loss. [nd-data-parallel]"
            )
        if recording:
            Join.notify_join_context(self)
            self._set_divisor()
        if self.training and self.require_backward_grad_sync:
            self._send_buffers()
        if self.device_ids:
            inputs, kwargs = _move((inputs, kwargs), self.device_ids[0])
        out = self.module(*inputs, **kwargs)
        if self.output_device is not None:
            out = _move(out, self.output_device)
        if recording:
            self._begin(out)
        return out

    def _begin(self, out: Any) -> None:
        for bucket in self._buckets:
            bucket.begin()
        self._next, self._active, self._queued, self._used = 0, True, False, None
        if self.find_unused_parameters:
            roots = [edge(t) for t in tree_leaves(out) if isinstance(t, Variable) and t.requires_grad]
            reached = {
                id(getattr(node, "variable", None))
                for node in iterate_nodes(dict.fromkeys(edge_node(e) for e in roots if e is not None))
            }
            self._used = np.zeros(sum(len(b.params) for b in self._buckets), np.uint8)
            number = 0
            for bucket in self._buckets:
                for i, p in enumerate(bucket.params):
                    if id(p) in reached:
                        self._used[number] = 1
                    else:
                        self._fill(bucket, i, p)
                    number += 1

    def _send_buffers(self) -> None:
        if self.broadcast_buffers and self.process_group.size() > 1:
            self._send_state(list(self.module.buffers()), 0 if self._join is None else self._join.active[0])

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Any:
        """Return a context for training with different numbers of batches on the ranks. A rank that leaves the block
        takes part in the averages of the others, with zeros, until all have left it. Every rank then has the
        parameters of a rank that left last.

        Gradients are divided by the number of all ranks, or of those that still have batches if not
        `divide_by_initial_world_size`. With `throw_on_early_termination` all ranks raise when one has no more batches.

        Args:
            divide_by_initial_world_size: whether gradients are divided by the number of all ranks, not by that of the
                ranks with batches.
            enable: whether the context does anything.
            throw_on_early_termination: whether all ranks raise when one has no more batches.

        >>> import ndgrad
        >>> ndgrad.distributed.init_process_group()
        >>> net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(2, 1))
        >>> with net.join():
        ...     for batch in [ndgrad.ones(3, 2)]:
        ...         net(batch).sum().backward()
        >>> ndgrad.distributed.destroy_process_group()
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the collectives of a rank that has no more batches, for `Join`.

        Args:
            kwargs: settings of `Join`, of which `divide_by_initial_world_size` is read.
        """
        self._by_all = bool(kwargs.get("divide_by_initial_world_size", True))
        return _RankWithoutBatch(self)

    @property
    def join_device(self) -> Any:
        """Device of the first parameter."""
        return self._buckets[0].params[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """Ranks over which gradients are averaged."""
        return self.process_group

    def _set_divisor(self) -> None:
        if self._join is not None:
            self._divisor = self.process_group.size() if self._by_all else len(self._join.active)

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Replace the average of gradients by a function. It gets a bucket of this rank's gradients, which are not
        divided by the number of ranks, and returns a future of the values that replace them. Each bucket waits for its
        future before the next one is sent.

        Args:
            state: first argument of the function.
            hook: function of the state and a `GradBucket`, which returns a `futures.Future` of a tensor.

        >>> import ndgrad
        >>> from ndgrad.distributed.algorithms.ddp_comm_hooks import default_hooks
        >>> ndgrad.distributed.init_process_group()
        >>> net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(2, 1))
        >>> net.register_comm_hook(None, default_hooks.bf16_compress_hook)
        >>> net(ndgrad.ones(3, 2)).sum().backward()
        >>> net.module.bias.grad
        tensor([3.])
        >>> ndgrad.distributed.destroy_process_group()
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable. [nd-type]")
        if self._hook is not None:
            raise RuntimeError("register_comm_hook can only be called once. [nd-call-order]")
        annotation = getattr(hook, "__annotations__", {}).get("bucket", GradBucket)
        if annotation not in (GradBucket, "GradBucket", "dist.GradBucket"):
            raise ValueError(
                f"Communication hook: bucket annotation should be dist.GradBucket, and it is {annotation!r}. "
                "[nd-arguments]"
            )
        self._hook = hook, state

    def _send_bucket(self, bucket: _Bucket) -> Pending:
        """Start the average of a bucket, or replace it by the result of the registered function."""
        if self._hook is None:
            return transport.all_reduce(self.process_group, bucket.array, ReduceOp.SUM)
        hook, state = self._hook
        future = hook(state, GradBucket(bucket, bucket.number == len(self._buckets) - 1))
        if not isinstance(future, Future):
            raise TypeError(
                f"Communication hook: return annotation should be torch.futures.Future[torch.Tensor], and it returned "
                f"{type(future).__name__}. [nd-type]"
            )
        found = future.wait()
        found = found[0] if isinstance(found, (list, tuple)) else found
        array = found.detach()._array
        if not np.may_share_memory(array, bucket.array):
            bucket.array[...] = array
        return Pending.make_finished(self.process_group, _REPLACED)

    def _shadow_backward(self) -> None:
        """Take part in the averages of one backward pass of the other ranks, with zeros. The averages become the
        gradients, for an optimizer that divides its work among the ranks.
        """
        for bucket in self._buckets:
            bucket.array[...] = 0
        for pending in [self._send_bucket(bucket) for bucket in self._buckets]:
            pending.wait()
        used = np.full(len(self._places), not self.find_unused_parameters, np.uint8)
        if self.find_unused_parameters:
            transport.all_reduce(self.process_group, used, ReduceOp.MAX).wait()
        pieces = ((p, piece) for bucket in self._buckets for p, piece in zip(bucket.params, bucket.pieces, strict=True))
        for (p, piece), is_used in zip(pieces, used, strict=True):
            if is_used:
                self._give(p, piece)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a context in which each rank accumulates its own gradients. The first backward after it sends their
        sums.

        >>> import ndgrad
        >>> ndgrad.distributed.init_process_group()
        >>> net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(2, 1))
        >>> with net.no_sync():
        ...     net(ndgrad.ones(1, 2)).sum().backward()
        >>> ndgrad.distributed.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # ----- backward -----

    def _on_gradient(self, p: Tensor) -> None:
        """Handle the complete gradient of a parameter."""
        if not self._active or not self.require_backward_grad_sync:
            return
        bucket, i = self._places[id(p)]
        if not self._queued:
            self._queued = True
            queue_callback(self._end)
        self._fill(bucket, i, p)
        for started in self._buckets[: self._next]:
            if started.pending is not None:
                started.pending.is_completed()  # polling lets MPI make progress
        self._send_full()

    def _fill(self, bucket: _Bucket, i: int, p: Tensor) -> None:
        if p.grad is None:
            bucket.pieces[i][...] = 0
        else:  # divided before sending, so that the sum is the average
            np.divide(p.grad._array, 1 if self._hook else self._divisor, out=bucket.pieces[i])
        bucket.ready.add(i)

    def _send_full(self) -> None:
        while self._next < len(self._buckets):
            bucket = self._buckets[self._next]
            if len(bucket.ready) < len(bucket.params):
                return
            bucket.pending = self._send_bucket(bucket)
            self._next += 1

    def _missing(self) -> list[str]:
        return [name for b in self._buckets for i, name in enumerate(b.names) if i not in b.ready]

    def _end(self) -> None:
        """End the pass: the averages become the gradients."""
        self._active = False
        self._send_full()
        if self._next < len(self._buckets):
            raise RuntimeError(
                "DistributedDataParallel: backward has ended, and these parameters got no gradient: "
                f"{', '.join(self._missing())}. Gradients are "
                "averaged when all are there. Pass find_unused_parameters=True, or use these parameters in every loss. "
                "[nd-data-parallel]"
            )
        used = self._used
        if used is not None:
            transport.all_reduce(self.process_group, used, ReduceOp.MAX).wait()
        number = 0
        for bucket in self._buckets:
            assert bucket.pending is not None
            bucket.pending.wait()
            for p, piece in zip(bucket.params, bucket.pieces, strict=True):
                if used is None or used[number]:
                    self._give(p, piece)
                number += 1

    def _give(self, p: Tensor, piece: Any) -> None:
        if p.grad is None:
            from ndgrad._src.tensor.functions.data import tensor  # a parameter used only by other ranks

            p.grad = tensor(piece.copy(), dtype=p.dtype)
            return
        if self._as_views:
            if p.grad._array is not piece:
                p.grad = wrap(Tensor, piece)
            storage_of(p.grad).bump("all_reduce")
            return
        array = p.grad._array
        if not isinstance(array, np.ndarray):
            storage_of(p.grad)
            array = p.grad._array
        array[...] = piece
        storage_of(p.grad).bump("all_reduce")

    # ----- state -----

    def _send_state(self, tensors: list[Any], source: int = 0) -> None:
        """Copy the values of one rank, by default the first, to all ranks."""
        if self.process_group.size() == 1:
            return
        by_dtype: dict[Any, list[Any]] = {}
        for t in tensors:
            by_dtype.setdefault(t.dtype, []).append(t)
        with no_grad():
            for alike in by_dtype.values():
                flat = np.concatenate([np.asarray(t.detach()._array).reshape(-1) for t in alike])
                transport.broadcast(self.process_group, flat, source).wait()
                start = 0
                for t in alike:
                    if not isinstance(t._array, np.ndarray):
                        storage_of(t)
                    t._array[...] = flat[start : start + t.numel()].reshape(tuple(t.shape))
                    storage_of(t).bump("broadcast")
                    start += t.numel()


class _RankWithoutBatch(JoinHook):
    """Collectives of a rank that has no more batches."""

    def __init__(self, net: DistributedDataParallel) -> None:
        self._net = net

    def main_hook(self) -> None:
        """Take part in the averages of one step of the other ranks."""
        net = self._net
        net._set_divisor()
        if net.training:
            net._send_buffers()
        net._shadow_backward()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Give every rank the parameters of a rank that left last."""
        net = self._net
        if net._join is not None:
            net._send_state([*net.module.parameters(), *net.module.buffers()], net._join.active[0])
        net._divisor = net.process_group.size()


def _devices_of(module: Module, device_ids: Any, output_device: Any) -> tuple[list[Any] | None, Any]:
    """Return the GPU of a module's inputs, in a list, and the device of its results. A module on the CPU has none."""
    kinds = {p.device.type for p in module.parameters()}
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError(
            f"device_ids can only be None or contain a single element: one process uses one device, and it is "
            f"{device_ids}. [nd-data-parallel]"
        )
    if (device_ids or output_device is not None) and "cpu" in kinds:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with modules on GPUs, but got "
            f"device_ids {device_ids}, output_device {output_device}, and parameters on {sorted(kinds)}. Leave them "
            "out. [nd-data-parallel]"
        )
    return ([_as_gpu(device_ids[0])] if device_ids else None), (
        None if output_device is None else _as_gpu(output_device)
    )


def _as_gpu(device: Any) -> Any:
    return as_device("cuda", device) if isinstance(device, int) else as_device(device)


def _move(values: Any, device: Any) -> Any:
    return tree_map(lambda t: t.to(device) if isinstance(t, Variable) else t, values)


def _fill_buckets(named: list[tuple[str, Any]], cap: float) -> list[_Bucket]:
    """Divide parameters into buckets of size `cap`, in the order in which backward reaches them."""
    buckets: list[_Bucket] = []
    names: list[str] = []
    params: list[Any] = []
    held = 0
    limit = min(_FIRST, cap) * 2**20
    for name, p in reversed(named):
        nbytes = p.numel() * p._array.dtype.itemsize
        if params and (held + nbytes > limit or p._array.dtype != params[0]._array.dtype):
            buckets.append(_Bucket(len(buckets), names, params))
            names, params, held, limit = [], [], 0, int(cap * 2**20)
        names, params, held = [*names, name], [*params, p], held + nbytes
    buckets.append(_Bucket(len(buckets), names, params))
    return buckets
