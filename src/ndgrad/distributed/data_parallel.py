"""`DistributedDataParallel`: every rank has the whole module and a part of the batch, and the gradients are averaged.

The parameters are divided into buckets, in the order in which backward reaches them. A hook on each parameter runs as
soon as its gradient is complete and copies the gradient into its bucket. A full bucket starts its all_reduce while
backward continues, and every further hook lets MPI make progress. At the end of the pass the averages are copied back.
Every rank sends the buckets in the same order, regardless of which is full first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

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
from ndgrad.distributed.groups import ProcessGroup, group_of
from ndgrad.distributed.reductions import ReduceOp
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad.distributed.agreement import Pending

#: Size of the first bucket in MiB. It is small, so that the first message leaves early.
_FIRST = 1.0


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


class DistributedDataParallel(Module):
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
        self._joining: _Joining | None = None
        #: True if gradients are views of the buckets.
        self._as_views = gradient_as_bucket_view
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient. Use the module. [nd-data-parallel]"
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
        if self._joining is not None and recording:
            self._joining.enter_step(self)
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
            self._send_state(list(self.module.buffers()), 0 if self._joining is None else self._joining.first)

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
        if not enable or self.process_group.size() == 1:
            return nullcontext()
        return _Joining(self, divide_by_initial_world_size, throw_on_early_termination)

    def _shadow_backward(self) -> None:
        """Take part in the averages of one backward pass of the other ranks, with zeros."""
        sent = [
            transport.all_reduce(self.process_group, np.zeros_like(bucket.array), ReduceOp.SUM)
            for bucket in self._buckets
        ]
        for pending in sent:
            pending.wait()
        if self.find_unused_parameters:
            used = np.zeros(sum(len(b.params) for b in self._buckets), np.uint8)
            transport.all_reduce(self.process_group, used, ReduceOp.MAX).wait()

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
            np.divide(p.grad._array, self._divisor, out=bucket.pieces[i])
        bucket.ready.add(i)

    def _send_full(self) -> None:
        while self._next < len(self._buckets):
            bucket = self._buckets[self._next]
            if len(bucket.ready) < len(bucket.params):
                return
            bucket.pending = transport.all_reduce(self.process_group, bucket.array, ReduceOp.SUM)
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


class _Joining:
    """Block of `join`. The ranks exchange which of them have a batch before each step."""

    def __init__(self, net: DistributedDataParallel, by_all: bool, raises: bool) -> None:
        self._net, self._by_all, self._raises = net, by_all, raises
        #: The first rank that has a batch.
        self.first = 0
        #: The ranks that had the last batch.
        self._last: list[int] = list(range(net.process_group.size()))

    def __enter__(self) -> None:
        self._net._joining = self

    def _exchange(self, active: bool) -> list[int]:
        """Return the ranks that have a batch."""
        group = self._net.process_group
        flags = np.zeros(group.size(), np.uint8)
        transport.all_gather(group, flags, np.array([active], np.uint8)).wait()
        found = [int(r) for r in np.flatnonzero(flags)]
        if self._raises and len(found) < group.size():
            raise RuntimeError(
                f"Detected at least one rank that exhausted inputs: ranks {found} of {group.size()} have a batch. Give "
                "all ranks as many, or leave throw_on_early_termination out. [nd-data-parallel]"
            )
        return found

    def enter_step(self, net: DistributedDataParallel) -> None:
        """Begin a step of a rank that has a batch."""
        active = self._exchange(True)
        self.first, self._last = active[0], active
        net._divisor = net.process_group.size() if self._by_all else len(active)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        net = self._net
        try:
            if kind is None:
                while active := self._exchange(False):
                    self.first, self._last = active[0], active
                    if net.training:
                        net._send_buffers()
                    net._shadow_backward()
                net._send_state([*net.module.parameters(), *net.module.buffers()], self._last[0])
        finally:
            net._joining, net._divisor = None, net.process_group.size()


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
