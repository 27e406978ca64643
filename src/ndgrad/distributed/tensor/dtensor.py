"""`DTensor`: a tensor that is spread over the ranks of a mesh.

A DTensor consists of a shape, placements, and this rank's local tensor, which is an ordinary tensor with an ordinary
graph. An op on DTensors looks up its plan (`planning`), redistributes its arguments by differentiable steps
(`redistribution`), and runs on the local tensors. So a backward pass is the ordinary pass over this rank's graph, in
which the steps communicate. Hooks, checkpointing, forward mode and higher derivatives work as usual. Tensors are
gathered only if a plan says so: `explain` prints it.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ndgrad._src.core.grad_mode import is_grad_enabled, no_grad
from ndgrad._src.core.modes import thread
from ndgrad._src.core.subclass import KNOWN
from ndgrad._src.core.variable import Variable, new
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.functions.data import tensor as make_tensor
from ndgrad._src.tensor.functions.index import put_into_copy
from ndgrad._src.tensor.lazy_names import METHODS
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import transport
from ndgrad.distributed.device_mesh import DeviceMesh, current_mesh
from ndgrad.distributed.tensor.checked_values import CheckedValues
from ndgrad.distributed.tensor.placements import (
    PARTIAL,
    REPLICATE,
    Divided,
    Partial,
    Placement,
    Spec,
    chunk_sizes,
    normalize_placements,
    spec_of,
)
from ndgrad.distributed.tensor.planning import Plan, plan_for, replicates_plain
from ndgrad.distributed.tensor.redistribution import redistribute_gradient, shared_gathered, steps


class DTensor(Tensor):
    """Tensor spread over the ranks of a mesh, as its placements say. Created by `distribute_tensor`,
    `DTensor.from_local` or the factories in this package.

    Args:
        args, kwargs: this rank's part, the spec of the whole (`_dtensor_spec.DTensorSpec`), and `requires_grad`. This
            is torch's internal way to make a DTensor. Other arguments raise TypeError.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Shard, distribute_tensor
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(ndgrad.arange(4.0), mesh, [Shard(0)])
    >>> (x * x).sum().full_tensor()
    tensor(14.)
    >>> ndgrad.distributed.destroy_process_group()
    """

    __slots__ = ("_local", "borrowed", "gathered", "shared_forms", "source", "spec")

    _local: Tensor
    spec: Spec
    #: True if the local tensor is a leaf of the caller (`from_local`), which a write to this tensor must not change.
    borrowed: bool
    #: Forms of the local tensor for ranks that divide its use, by dimensions of the mesh.
    shared_forms: dict[Any, Any]
    #: The local tensor before the step that gathered it, and the step, if the gradient of its shared forms may go
    #: directly to the piece (see `gather_for_module`). Else None.
    gathered: tuple[Tensor, Any] | None
    #: The same for `to_local(grad_placements=...)` of the result of `redistribute`.
    source: tuple[Tensor, Any] | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if args and isinstance(args[0], Tensor) and (len(args) > 1 or "spec" in kwargs):
            return _construct(*args, **kwargs)  # type: ignore[return-value]
        raise TypeError(
            "a DTensor is made by distribute_tensor(x, mesh, placements) or DTensor.from_local(x, mesh, placements). "
            "[nd-dtensor]"
        )

    # ----- making and reading -----

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Create a DTensor from this rank's part.

        Args:
            local_tensor: this rank's part.
            device_mesh: mesh over which the tensor is spread. The default is that of all ranks.
            placements: placement for each dimension of the mesh. The default is replicated.
            run_check: whether ranks compare shapes. Nothing is sent otherwise.
            shape: shape of the whole. The default assumes that all pieces are as long as this one.
            stride: must be None, or the strides of a contiguous tensor.
            grad_placements: placements of the gradient of `local_tensor`, if it is not placed like the tensor. Backward
                redistributes it.
        """
        mesh = current_mesh() if device_mesh is None else device_mesh
        if isinstance(local_tensor, DTensor) or not isinstance(local_tensor, Tensor):
            raise RuntimeError(
                "DTensor.from_local: the local_tensor argument only accepts torch.Tensor not DTensor: a plain tensor, "
                f"but got {type(local_tensor).__name__}. [nd-dtensor]"
            )
        given = normalize_placements(placements, mesh, local_tensor.ndim, "DTensor.from_local")
        if shape is None:
            whole = list(local_tensor.shape)
            for i, p in enumerate(given):
                if isinstance(p, Divided):
                    whole[p.dim] *= mesh.size(i)
            shape = whole
        spec = spec_of(mesh, given, tuple(int(n) for n in shape), np.dtype(local_tensor._array.dtype))
        if spec.local_shape() != tuple(local_tensor.shape):
            raise RuntimeError(
                f"DTensor.from_local: the local tensor is of shape {tuple(local_tensor.shape)}, and this rank's part "
                "of a tensor of shape "
                f"{spec.shape} as {list(given)} is of shape {spec.local_shape()}. Give the shape of the whole as "
                "shape=, and pieces as "
                "chunk cuts them. [nd-dtensor]"
            )
        if run_check:
            for i in range(mesh.ndim):
                lengths = np.zeros((mesh.size(i), len(spec.shape)), np.int64)
                transport.all_gather(mesh.get_group(i), lengths, np.array(spec.shape, np.int64).reshape(1, -1)).wait()
                if (lengths != lengths[0]).any():
                    raise RuntimeError(
                        f"DTensor.from_local: the ranks disagree on the shape: {lengths.tolist()}. [nd-dtensor]"
                    )
        if stride is not None and tuple(stride) != spec.payload.element_strides():
            raise NotImplementedError(
                f"DTensor.from_local(stride={tuple(stride)}): the whole is dense, of strides "
                f"{spec.payload.element_strides()}. Leave stride out. [nd-unsupported]"
            )
        local = _detach_view(local_tensor)
        if grad_placements is not None:
            wanted = normalize_placements(grad_placements, mesh, local.ndim, "DTensor.from_local")
            local = _with_gradient_steps(local, _gradient_spec(spec), wanted)
        made = _wrap(local, spec)
        made.borrowed = local.requires_grad and local.is_leaf
        return made

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return this rank's tensor. By default its gradients are placed like gradients of the DTensor: sharded alike,
        or replicated. If ranks use the local tensor in another way, `grad_placements` says so. For example, ranks that
        compute different things with a replicated tensor have terms of its gradient: `[Partial()]`.

        Args:
            grad_placements: placements of the gradients of the result. The default is those of gradients of the
                DTensor.

        >>> import ndgrad
        >>> from ndgrad.distributed.tensor import Partial, Replicate, distribute_tensor
        >>> ndgrad.distributed.init_process_group()
        >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(ndgrad.ones(2, requires_grad=True), mesh, [Replicate()])
        >>> x.to_local(grad_placements=[Partial()]).sum().backward()
        >>> x.grad.to_local()
        tensor([1., 1.])
        >>> ndgrad.distributed.destroy_process_group()
        """
        return self._local_for(grad_placements, "to_local")

    def _local_for(self, grad_placements: Sequence[Placement] | None, name: str) -> Tensor:
        """Return the local tensor. Its gradient is redistributed from the given placements."""
        if grad_placements is None:
            return _detach_view(self._local)
        given = normalize_placements(grad_placements, self.spec.mesh, self.ndim, name)
        wanted = self._gradient_spec()
        if self.source is not None and self._local.requires_grad:
            piece, step = self.source
            if given[step.mesh_dim] == PARTIAL and wanted.placements[step.mesh_dim].is_replicate():
                # Terms of the gradient go to the pieces by one reduce_scatter, not by an all_reduce and a choice.
                whole = shared_gathered(self._local.detach(), piece, **step.calls[0][1])
                self.shared_forms[None] = ()
                rest = (*given[: step.mesh_dim], REPLICATE, *given[step.mesh_dim + 1 :])
                return _with_gradient_steps(whole, wanted.with_placements(rest), wanted.placements)
        return _with_gradient_steps(_detach_view(self._local), wanted.with_placements(given), wanted.placements)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """Return the same tensor with other placements, using the fewest collectives; differentiable.

        Args:
            device_mesh: must be None or the mesh of the tensor.
            placements: placement for each dimension of the mesh. The default is replicated.
            async_op: accepted as in torch; has no effect, because the result is complete when the call returns.
            forward_dtype: dtype of the result, in which its elements are sent.
            backward_dtype: dtype in which backward sends gradients. The default is that of the result.

        >>> import ndgrad
        >>> from ndgrad.distributed.tensor import Replicate, Shard, distribute_tensor
        >>> ndgrad.distributed.init_process_group()
        >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
        >>> distribute_tensor(ndgrad.ones(4), mesh, [Shard(0)]).redistribute(placements=[Replicate()]).placements
        (Replicate(),)
        >>> ndgrad.distributed.destroy_process_group()
        """
        if device_mesh is not None and device_mesh != self.spec.mesh:
            raise NotImplementedError(
                f"redistribute: from {self.spec.mesh!r} to {device_mesh!r}: a DTensor stays on its mesh. Take "
                "full_tensor() and distribute it. [nd-dtensor]"
            )
        target = normalize_placements(placements, self.spec.mesh, self.ndim, "redistribute")
        source: Any = self if forward_dtype is None else self.to(forward_dtype)
        if backward_dtype is None or backward_dtype == source.dtype:
            return source._redistribute_to(target)
        after = source.spec.with_placements(target)
        return _wrap(_SentInAnotherDtype.apply(source._local, source.spec, target, backward_dtype), after)

    def _redistribute_to(self, target: tuple[Placement, ...]) -> DTensor:
        if target == self.spec.placements:
            return self
        local: Any = self._local
        found = steps(self.spec, target)
        for step in found[:-1]:
            local = step.run(local)
        made = _wrap(found[-1].run(local), self.spec.with_placements(target))
        if found[-1].gathers and local.requires_grad:
            made.source = local, found[-1]
        return made

    def gather_for_module(self, target: tuple[Placement, ...]) -> DTensor:
        """Return the tensor with other placements as an input of a module whose ranks divide the work.

        The gradient of a gathered input goes to its pieces by one reduce_scatter, past the result of this method. So
        the result has no gradient of its own once a module has used it.

        Args:
            target: placements.
        """
        found = steps(self.spec, target)
        if not found or not found[-1].gathers or not self._local.requires_grad:
            return self._redistribute_to(target)
        local: Any = self._local
        for step in found[:-1]:
            local = step.run(local)
        made = _wrap(found[-1].run(local), self.spec.with_placements(target))
        made.gathered = local, found[-1]
        return made

    def _check_own_gradient(self) -> None:
        """Keep the gradient of the tensor complete from here on, or raise if a module has used it already."""
        if (self.gathered is not None and self.shared_forms) or None in self.shared_forms:
            raise RuntimeError(
                "the gradient of a gathered tensor that a parallel module or to_local(grad_placements=...) has used: "
                "the gradient went to the pieces before they were gathered. Ask for the gradient of the tensor before "
                "it was gathered, or register the hook before the tensor is used. [nd-dtensor]"
            )
        self.gathered = self.source = None

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole tensor on every rank, as a plain tensor; differentiable. `grad_placements` says how the
        gradients of the result are placed, by default replicated (see `to_local`).

        Args:
            grad_placements: placements of the gradients of the result. The default is replicated (see `to_local`).
        """
        whole = self._redistribute_to((REPLICATE,) * self.spec.mesh.ndim)
        return whole._local_for(grad_placements, "full_tensor")

    @property
    def placements(self) -> tuple[Placement, ...]:
        """A placement for each dimension of the mesh."""
        return self.spec.placements

    @property
    def _local_tensor(self) -> Tensor:
        return self._local

    @property
    def _spec(self) -> Spec:
        return self.spec

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides of the whole, whose dimensions lie in memory in the order of the local tensor's.

        Args:
            dim: dimension. None means all of them.
        """
        steps_of_local: Any = self._local.stride()
        order = sorted(range(self.ndim), key=lambda i: (-int(steps_of_local[i]), i))
        found, step = [0] * self.ndim, 1
        for i in reversed(order):
            found[i] = step
            step *= max(self.shape[i], 1)
        return tuple(found) if dim is None else found[dim]

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh over which the tensor is spread."""
        return self.spec.mesh

    # ----- the graph, which is that of the local tensor -----

    @property
    def requires_grad(self) -> bool:
        """True if operations on the tensor are recorded."""
        return self._local.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._local.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether operations on this tensor are recorded, in place.

        Args:
            requires_grad: whether operations on the tensor are recorded.
        """
        self._local.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if backward ends here."""
        return self._local.is_leaf and not self.borrowed

    @property
    def grad_fn(self) -> Any:
        """The node of this rank's graph that computed the local tensor."""
        return self._local.grad_fn

    @property
    def grad(self) -> Any:
        """The gradient that backward has accumulated, a DTensor, or None."""
        found = self._local.grad
        return None if found is None else _wrap(found, self._gradient_spec())

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._local.grad = None
            return
        if not isinstance(value, DTensor):
            raise TypeError(
                f"the gradient of a DTensor is a DTensor, and {type(value).__name__} was assigned. "
                "Distribute it first. [nd-grad-mismatch]"
            )
        self._local.grad = value._redistribute_to(self._gradient_spec().placements)._local

    @grad.deleter
    def grad(self) -> None:
        self._local.grad = None

    def _gradient_spec(self) -> Spec:
        return _gradient_spec(self.spec)

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add the gradients of this tensor to the `.grad` of the leaves; all ranks call it together.

        Args:
            gradient: gradient of this tensor, a DTensor. May be left out for a tensor of one element.
            retain_graph: whether the graph stays for another backward pass. The default is `create_graph`.
            create_graph: whether the gradients can be differentiated again.
            inputs: leaves that get a gradient. None means all.
        """
        given = self.to_twin_gradient(gradient)
        chosen = (
            None if inputs is None else [_input_of(t) for t in ([inputs] if isinstance(inputs, Variable) else inputs)]
        )
        self._local.backward(given, retain_graph=retain_graph, create_graph=create_graph, inputs=chosen)

    def graph_twin(self, as_input: bool = False) -> Tensor:
        """Return the local tensor, whose graph is that of this tensor.

        Args:
            as_input: whether its gradient is asked for.
        """
        if as_input:
            self._check_own_gradient()
        return self._local

    def to_twin_gradient(self, gradient: Any) -> Tensor:
        """Return the gradient of the local tensor for a gradient of this tensor.

        Args:
            gradient: DTensor. None means 1, for a tensor of one element.
        """
        if gradient is None:
            if self.numel() != 1:
                raise RuntimeError(
                    "grad can be implicitly created only for scalar outputs, and this is of shape "
                    f"{tuple(self.shape)}. Give its gradient, a DTensor, or sum it. [nd-not-scalar]"
                )
            return make_tensor(np.ones(self._local.shape, self.spec.dtype), dtype=self._local.dtype)
        if not isinstance(gradient, DTensor):
            raise RuntimeError(
                "backward: the gradient of a DTensor is a DTensor. Distribute it as the tensor is. [nd-grad-mismatch]"
            )
        return gradient._redistribute_to(self._gradient_spec().placements)._local

    def from_twin_gradient(self, gradient: Tensor) -> DTensor:
        """Return the gradient of this tensor for a gradient of the local tensor.

        Args:
            gradient: gradient of the local tensor.
        """
        return _wrap(gradient, self._gradient_spec())

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook` with the complete gradient of the tensor, a DTensor; its result replaces the gradient.

        Args:
            hook: function of the gradient.
        """
        self._check_own_gradient()
        spec = self._gradient_spec()

        def on_local(gradient: Tensor) -> Any:
            answer = hook(_wrap(gradient, spec))
            return None if answer is None else answer._redistribute_to(spec.placements)._local

        return self._local.register_hook(on_local)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        """Call `hook` with this leaf after its `.grad` has been set.

        Args:
            hook: function of the leaf.
        """
        return self._local.register_post_accumulate_grad_hook(lambda _: hook(self))

    def retain_grad(self) -> None:
        """Keep the gradient of this result in `.grad`."""
        self._check_own_gradient()
        self._local.retain_grad()

    def detach(self) -> Self:
        """Return the same tensor outside the graph."""
        return _wrap(self._local.detach(), self.spec)  # type: ignore[return-value]

    def detach_(self) -> Self:
        """Take the tensor out of the graph, in place."""
        self._local.detach_()
        return self

    @property
    def data(self) -> Any:
        """The same tensor outside the graph."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        moved = value._redistribute_to(self.spec.placements)
        self._local.data = moved._local
        if moved.spec is not self.spec:  # the dtype or shape has changed
            self.spec, self._array, self.shared_forms = moved.spec, moved.spec.payload, {}
            self.gathered = self.source = None

    @property
    def device(self) -> Any:
        """The device of the elements."""
        return self._local.device

    @property
    def _version(self) -> int:
        return self._local._version

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        """True if the local tensor is contiguous.

        Args:
            args, kwargs: arguments of `Tensor.is_contiguous`.
        """
        return self._local.is_contiguous(*args, **kwargs)

    def contiguous(self, *args: Any, **kwargs: Any) -> Any:
        """Return the same tensor with a contiguous local tensor.

        Args:
            args, kwargs: arguments of `Tensor.contiguous`.
        """
        local = self._local.contiguous(*args, **kwargs)
        return self if local is self._local else _wrap(local, self.spec)

    # ----- values -----

    def _one(self, what: str) -> Tensor:
        if any(not p.is_replicate() for p in self.spec.placements):
            raise RuntimeError(
                f"{what}: not every rank has all of the tensor ({list(self.spec.placements)}). Call full_tensor() "
                "first, which sends what is "
                f"missing, on every rank: x.full_tensor().{what}(). [nd-dtensor]"
            )
        return self._local

    def item(self) -> Any:
        """Return the only element of a tensor that is whole on every rank."""
        return self._one("item").item()

    def tolist(self) -> Any:
        """Return the elements as lists, of a tensor that is whole on every rank."""
        return self._one("tolist").tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Return the elements as an array, of a tensor that is whole on every rank.

        Args:
            force: whether to detach the tensor and copy it to the host first, if needed.
        """
        return self._one("numpy").numpy(force=force)

    def __bool__(self) -> bool:
        return bool(self._one("item"))

    def __float__(self) -> float:
        return float(self._one("item"))

    def __int__(self) -> int:
        return int(self._one("item"))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self._one("numpy").detach().numpy()

    def __repr__(self, **kwargs: Any) -> str:
        return (
            f"DTensor(local_tensor={self._local!r}, device_mesh={self.spec.mesh!r}, placements={self.spec.placements})"
        )

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 and spec else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made = _wrap(self._local.detach().clone(), self.spec).requires_grad_(self.requires_grad)
            made.__dict__.update(self.__dict__)
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Implement `pickle` and `save`: this rank's part, and the mesh and placements that complete it. The ranks of
        the mesh load their own files, in a world of the same size.
        """
        spec = self.spec
        state = self._local.detach(), spec.mesh, spec.placements, spec.shape, self.requires_grad, dict(self.__dict__)
        return rebuild_dtensor, state

    # ----- writes: computed out of place, then copied into the local tensor -----

    def _begin_write(self) -> None:
        """Give the tensor a local tensor of its own before a recorded write, and forget what is derived from it."""
        if self.borrowed and is_grad_enabled():
            self._local, self.borrowed = self._local.clone(), False
        self.shared_forms, self.gathered, self.source = {}, None, None

    def _assign(self, value: Any) -> Self:
        if isinstance(value, DTensor):
            if value.shape != self.shape:
                value = value.expand(self.shape)
            value = value._redistribute_to(self.spec.placements)._local
        self._begin_write()
        self._local.copy_(value)
        return self

    def take_result(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Self:
        """Write the result of an op into this tensor.

        Args:
            op: op to run.
            args: further arguments of the op.
            settings: keyword arguments of the op.
        """
        return self._assign(op.eager(self, *args, **settings))

    def take_whole(self, whole: Tensor) -> Self:
        """Write a tensor that all ranks have computed alike, such as the result of a factory.

        Args:
            whole: tensor of the same shape.
        """
        if not isinstance(whole, DTensor):
            spec = spec_of(self.spec.mesh, (REPLICATE,) * self.spec.mesh.ndim, tuple(whole.shape), self.spec.dtype)
            whole = _wrap(whole.to(self.dtype), spec)
        return self._assign(whole)

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:
        """Copy the values of another DTensor, or a number, into this tensor.

        Args:
            src: DTensor, or number.
            non_blocking: accepted as in torch; has no effect.
        """
        if isinstance(src, Variable) and not isinstance(src, DTensor):
            raise RuntimeError(
                f"copy_: a plain tensor of shape {tuple(src.shape)} into a DTensor. Distribute it first: "
                "distribute_tensor(x, mesh, placements). [nd-dtensor]"
            )
        return self._assign(src)

    def zero_(self) -> Self:
        """Set all elements to zero."""
        self._begin_write()
        self._local.zero_()
        return self

    def fill_(self, value: Any) -> Self:
        """Set all elements to a number. Of the terms of a sum, the first rank's become the number and the others
        zero.

        Args:
            value: number, or DTensor of one element.
        """
        if isinstance(value, DTensor):
            value = value._redistribute_to((REPLICATE,) * self.spec.mesh.ndim)._local
        terms = [(i, p) for i, p in enumerate(self.spec.placements) if p.is_partial()]
        at = self.spec.mesh.get_coordinate() or [0] * self.spec.mesh.ndim
        if any(p.is_partial("product") for _, p in terms):
            raise RuntimeError("fill_: of a DTensor whose ranks hold factors. Redistribute it first. [nd-dtensor]")
        self._begin_write()
        self._local.fill_(0 if any(p.is_partial("sum") and at[i] for i, p in terms) else value)
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a part of the tensor. The value is a number or a DTensor, as is each index tensor."""
        if isinstance(value, Variable) and not isinstance(value, DTensor):
            if value.ndim:
                raise RuntimeError(
                    f"a plain tensor of shape {tuple(value.shape)} cannot be written into a DTensor. Distribute it "
                    "first: distribute_tensor(x, mesh, placements). [nd-dtensor]"
                )
            value = value.item()
        constant = value if isinstance(value, DTensor) else self.constant_alike(np.asarray(value, self.spec.dtype))
        put = constant.to(self.dtype)
        if isinstance(index, DTensor) and index.spec.dtype.kind == "b" and index.shape == self.shape:
            self._assign(tensor_ops.where(index, put, self))
            return
        items = index if isinstance(index, tuple) else (index,)
        self._assign(put_into_copy(self, items, put, accumulate=False))

    def checked_values(self) -> CheckedValues:
        """Return the values for argument checks. Answers are the same on all ranks, so all ranks must ask."""
        whole = self._redistribute_to(self._gradient_spec().placements)  # terms are not values
        mesh = self.spec.mesh
        groups = [
            mesh.get_group(i)
            for i, p in enumerate(whole.spec.placements)
            if isinstance(p, Divided) and mesh.size(i) > 1
        ]
        return CheckedValues(whole._local._array, groups, self.spec.payload.size)

    def constant_alike(self, array: Any) -> DTensor:
        """Return a constant of the library as a tensor that every rank of the mesh has.

        Args:
            array: values, the same on all ranks.
        """
        local = make_tensor(array)
        mesh = self.spec.mesh
        return _wrap(local, spec_of(mesh, (REPLICATE,) * mesh.ndim, tuple(local.shape), np.dtype(local._array.dtype)))

    def made_alike(
        self, make: Callable[..., Tensor], shape: tuple[int, ...] | None = None, keeps_terms: bool = False
    ) -> DTensor:
        """Create a tensor that is spread like this one; for a tensor of terms, a whole one. A tensor of another `shape`
        is whole too; `make` then takes the shape to create.

        Args:
            make: function that creates a tensor like a local one.
            shape: shape of the whole. The default is that of this tensor.
            keeps_terms: whether a tensor like terms consists of terms, as zeros and uninitialised values may.
        """
        spec = self.spec if keeps_terms else self._gradient_spec()
        if shape is None:
            local = make(self._local)
        elif shape == spec.shape:
            local = make(self._local, tuple(self._local.shape))
        else:
            local, spec = make(self._local, shape), spec_of(spec.mesh, (REPLICATE,) * spec.mesh.ndim, shape, spec.dtype)
        return _wrap(local, spec_of(spec.mesh, spec.placements, spec.shape, np.dtype(local._array.dtype)))

    @staticmethod
    def run_op(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Run an op with DTensors among its arguments.

        Args:
            op: op to run.
            args: arguments of the op.
            settings: keyword arguments of the op.
        """
        if thread.levels:
            raise NotImplementedError(
                f"{op.name}: a DTensor inside a transform (grad, vmap, ...), which would need to know the other ranks' "
                "parts. Use backward(), or transform a function of local tensors that calls collectives "
                "(ndgrad.distributed.nn.functional). [nd-dtensor]"
            )
        if replicates_plain():
            args = _replicate_plain(args)
        plan = plan_for(op, args, settings, DTensor)
        if plan is None:  # a plain tensor of one element
            args = _replicate_plain(args)
            plan = plan_for(op, args, settings, DTensor)
            assert plan is not None
        locals_ = [a._local if a.__class__ is DTensor else a for a in args]
        out = plan.run(args, locals_, settings)
        if out.__class__ is tuple or out.__class__ is list:
            return tuple([_wrap(o, s) for o, s in zip(out, plan.result_specs(out), strict=True)])
        outs = plan.outs
        return _wrap(out, outs[0] if outs is not None else plan.result_specs((out,))[0])


#: Methods with a trailing underscore that DTensor implements itself.
_OWN = frozenset("copy_ zero_ fill_ requires_grad_ detach_".split())


def _make_in_place(name: str) -> Any:
    """Return the in-place form of a method: copy its result into the tensor."""

    def method(self: DTensor, *args: Any, **kwargs: Any) -> DTensor:
        plain = getattr(Tensor, name[:-1], None)
        if plain is None:
            raise NotImplementedError(
                f"{name} of a DTensor: it is not known how ranks would write their parts of it. Write to_local(), "
                "which is this rank's part. [nd-dtensor]"
            )
        return self._assign(plain(self, *args, **kwargs))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""Write the result of `{name[:-1]}` to this tensor. If there is no such method, raise
    NotImplementedError.

    Args:
        args, kwargs: arguments of `Tensor.{name[:-1]}`.
    """
    return method


#: Methods that fill a tensor with random numbers: the op, and its settings in the order of the method's arguments.
_FILLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform_": ("uniform", {"low": 0.0, "high": 1.0}), "normal_": ("normal", {"mean": 0.0, "std": 1.0}),
    "log_normal_": ("log_normal", {"mean": 1.0, "std": 2.0}), "exponential_": ("exponential", {"rate": 1.0}),
    "cauchy_": ("cauchy", {"median": 0.0, "sigma": 1.0}), "geometric_": ("geometric", {"p": 0.5}),
}  # fmt: skip
_RENAMED = {"from": "low", "to": "high", "lambd": "rate"}


def _filler(name: str) -> Any:
    op, defaults = _FILLERS[name]

    def method(self: DTensor, *args: Any, generator: Any = None, **kwargs: Any) -> DTensor:
        given = dict(zip(defaults, args, strict=False)) | {_RENAMED.get(k, k): v for k, v in kwargs.items()}
        if len(args) > len(defaults) or given.keys() - defaults.keys():
            raise TypeError(
                f"{name}() takes {', '.join(defaults)} and generator, but got {args} {kwargs}. [nd-arguments]"
            )
        return self._assign(getattr(tensor_ops, op)(self.detach(), **defaults | given, generator=generator))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""Fill the tensor with random numbers of the distribution `{op}`. Ranks draw as one process does.

    Args:
        args, kwargs: arguments of `Tensor.{name}`: {", ".join(defaults)}.
        generator: source of random numbers. The default is the global generator.
    """
    return method


for _name in _FILLERS:
    setattr(DTensor, _name, _filler(_name))

for _name in {*dir(Tensor), *" ".join(METHODS.values()).split()}:
    if _name[-1] == "_" and _name[0] != "_" and _name not in _OWN and _name not in _FILLERS:
        setattr(DTensor, _name, _make_in_place(_name))


def _make_augmented(compute: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: self._assign(compute(self, other))


for _name, _compute in {
    "__iadd__": operator.add, "__isub__": operator.sub, "__imul__": operator.mul, "__itruediv__": operator.truediv,
    "__ipow__": operator.pow, "__ifloordiv__": operator.floordiv, "__imod__": operator.mod, "__iand__": operator.and_,
    "__ior__": operator.or_, "__ixor__": operator.xor,
}.items():  # fmt: skip
    setattr(DTensor, _name, _make_augmented(_compute))

KNOWN.add(DTensor)  # functions need not check for it: its ops dispatch themselves


def _wrap(local: Any, spec: Spec) -> DTensor:
    made: Any = new(DTensor)
    made._array, made._node, made._storage, made._meta = spec.payload, None, None, None
    made._local, made.spec, made.shared_forms, made.gathered, made.source = local, spec, {}, None, None
    made.borrowed = False
    return made


def _construct(local_tensor: Tensor, spec: Any, *, requires_grad: bool = False) -> DTensor:
    """Return the DTensor of a local tensor and a spec, without checks between ranks."""
    found: Spec = spec if isinstance(spec, Spec) else spec.to_spec()
    if local_tensor.requires_grad and not requires_grad:
        warnings.warn(
            "To construct a DTensor from a tensor that requires grad, use DTensor.from_local, which is differentiable.",
            stacklevel=3,
        )
    if found.local_shape() != tuple(local_tensor.shape):
        raise ValueError(
            f"DTensor: the local tensor is of shape {tuple(local_tensor.shape)}, and this rank's part of {found!r} is "
            f"of shape {found.local_shape()}. Give the spec of the whole. [nd-dtensor]"
        )
    return _wrap(local_tensor.detach(), found).requires_grad_(requires_grad)


def _replicate_plain(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of an op, with plain tensors as DTensors that all ranks have alike."""
    mesh = next(a for a in args if isinstance(a, DTensor)).spec.mesh
    whole = (REPLICATE,) * mesh.ndim
    return tuple(
        DTensor.from_local(a, mesh, whole) if isinstance(a, Variable) and not isinstance(a, DTensor) else a
        for a in args
    )


def _gradient_spec(spec: Spec) -> Spec:
    """Return the spec of a tensor's gradient. The gradient of terms is replicated."""
    return spec.with_placements(tuple(REPLICATE if p.is_partial() else p for p in spec.placements))


def _with_gradient_steps(t: Tensor, given: Spec, wanted: tuple[Placement, ...]) -> Tensor:
    """Return the tensor, with a gradient that backward redistributes from `given` to `wanted`."""
    calls = tuple(call for step in steps(given, wanted) for call in step.calls)
    return redistribute_gradient(t, calls=calls) if calls and t.requires_grad else t


class _SentInAnotherDtype(Function):
    """A redistribution whose gradient is sent in a dtype of its own."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, spec: Spec, target: tuple[Placement, ...], dtype: Any) -> Tensor:
        if any(p.is_partial() and not p.is_partial("sum") for p in (*spec.placements, *target)):
            raise NotImplementedError(
                f"redistribute(backward_dtype=...): from {list(spec.placements)} to {list(target)}. Gradients of terms "
                "are sent in another dtype for sums only. [nd-unsupported]"
            )
        ctx.given, ctx.wanted, ctx.dtype = _gradient_spec(spec.with_placements(target)), _gradient_spec(spec), dtype
        for step in steps(spec, target):
            local = step.run(local)
        return local

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        sent = gradient.to(ctx.dtype)
        given = spec_of(ctx.given.mesh, ctx.given.placements, ctx.given.shape, np.dtype(sent._array.dtype))
        for step in steps(given, ctx.wanted.placements):
            sent = step.run(sent)
        return sent.to(gradient.dtype), None, None, None


def rebuild_dtensor(
    local: Tensor,
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    shape: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any],
) -> DTensor:
    """Return the DTensor of a pickle."""
    made = _wrap(local, spec_of(mesh, placements, shape, np.dtype(local._array.dtype))).requires_grad_(requires_grad)
    made.__dict__.update(attributes)
    return made


def _detach_view(t: Any) -> Any:
    """Return the tensor itself if it has a history, else another one over the same memory. So `requires_grad_` of one
    does not affect the other.
    """
    return t if t.requires_grad else t.detach()


def _input_of(t: Any) -> Any:
    return t.graph_twin(as_input=True) if isinstance(t, DTensor) else t


# ----- making them ----------------------------------------------------------------------------------------------------


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Spread a tensor as `placements` say. The first rank of the mesh sends its values to the others, unless
    `src_data_rank` is None. A leaf that requires grad becomes another leaf.

    Args:
        tensor: leaf to spread.
        device_mesh: mesh over which the tensor is spread. The default is that of all ranks.
        placements: placement for each dimension of the mesh. The default is replicated.
        src_data_rank: position in the mesh of the rank whose values are sent. None takes each rank's own values.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Shard, distribute_tensor
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> distribute_tensor(ndgrad.ones(4, 2), mesh, [Shard(0)]).shape
    ndgrad.Size([4, 2])
    >>> ndgrad.distributed.destroy_process_group()
    """
    mesh = current_mesh() if device_mesh is None else device_mesh
    if not isinstance(tensor, DTensor) and not tensor.is_leaf:
        raise RuntimeError(
            "distribute_tensor should be used to distribute leaf tensors: this tensor was computed from others that "
            "require grad, and the copy would not know. Use "
            "DTensor.from_local(x, mesh, [Replicate()]).redistribute(placements=...), which is differentiable. "
            "[nd-dtensor]"
        )
    given = normalize_placements(placements, mesh, tensor.ndim, "distribute_tensor")
    if isinstance(tensor, DTensor):
        if tensor.spec.mesh != mesh or tensor.spec.placements != given:
            what = "device mesh" if tensor.spec.mesh != mesh else "placements"
            raise ValueError(
                f"Cannot distribute a DTensor to a different {what}: the tensor is spread already, as "
                f"{list(tensor.placements)} over {tensor.spec.mesh!r}. Use redistribute(placements=...). [nd-dtensor]"
            )
        return tensor
    if any(p.is_partial("product") for p in given):
        raise ValueError(f"distribute_tensor: {list(given)}. No factors of a tensor are known. [nd-dtensor]")
    with no_grad():
        spec = spec_of(mesh, (REPLICATE,) * mesh.ndim, tuple(tensor.shape), np.dtype(tensor._array.dtype))
        if mesh.get_coordinate() is None:
            spec = spec.with_placements(given)
            made = _wrap(tensor.new_empty(spec.local_shape()), spec)
        elif tensor.is_meta:  # the piece is made without the whole
            made = _wrap(tensor.detach(), spec)._redistribute_to(given)
        else:
            if src_data_rank is None or type(tensor._array) is not np.ndarray:
                whole = tensor.detach().clone()
                if src_data_rank is not None:
                    whole = _send_whole(whole, mesh, src_data_rank)
                made = _wrap(whole, spec)._redistribute_to(given)
            else:
                made = _send_pieces(tensor.detach(), spec, given, src_data_rank)
        made = _wrap(made._local.detach(), made.spec)
    made.requires_grad_(tensor.requires_grad)
    if tensor.__dict__.get("_is_param") or type(tensor).__name__ == "Parameter":
        made.__dict__["_is_param"] = True
    return made


def _send_pieces(whole: Tensor, spec: Spec, target: tuple[Placement, ...], source: int) -> DTensor:
    """Spread the tensor of the rank at position `source` of each line of the mesh. For each dimension of the mesh, that
    rank sends each rank its piece if the tensor is sharded there, else all of its part.
    """
    mesh = spec.mesh
    array, now = np.array(whole._array, order="C"), spec
    for i, placement in enumerate(target):
        group, count = mesh.get_group(i), mesh.size(i)
        root = source if source < count else 0
        if isinstance(placement, Divided) and count > 1:
            now = now.with_placements((*now.placements[:i], placement, *now.placements[i + 1 :]))
            order = now.order(i)
            array = array if order is None else np.take(array, np.asarray(order), axis=placement.dim)
            array = _scatter(array, group, placement.dim, now.sizes(i), root)
        elif count > 1:
            transport.broadcast(group, array, root).wait()
    sharded = tuple(p if isinstance(p, Divided) else REPLICATE for p in target)
    return _wrap(make_tensor(array, dtype=whole.dtype), spec.with_placements(sharded))._redistribute_to(target)


def _scatter(array: Any, group: Any, dim: int, sizes: tuple[int, ...], root: int) -> Any:
    """Return this rank's piece of the array of the rank `root`. Messages are as long as the longest piece."""
    shape = (*array.shape[:dim], max(sizes), *array.shape[dim + 1 :])
    mine = np.empty(shape, array.dtype)
    pieces = None
    if group.rank() == root:
        pieces = np.zeros((len(sizes), *shape), array.dtype)
        start = 0
        for k, n in enumerate(sizes):
            whole: tuple[slice, ...] = (slice(None),) * dim
            pieces[k][(*whole, slice(n))] = array[(*whole, slice(start, start + n))]
            start += n
    transport.scatter(group, mine, pieces, root).wait()
    return np.ascontiguousarray(mine[(*(slice(None),) * dim, slice(sizes[group.rank()]))])


def _send_whole(whole: Tensor, mesh: DeviceMesh, source: int) -> Tensor:
    """Copy a tensor from the rank at position `source` of each line of the mesh to the others."""
    array = whole._array if isinstance(whole._array, np.ndarray) else np.asarray(whole._array)
    for dim in reversed(range(mesh.ndim)):
        transport.broadcast(mesh.get_group(dim), array, source if source < mesh.size(dim) else 0).wait()
    return make_tensor(array, dtype=whole.dtype)


def distribute_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Any = None,
    input_fn: Any = None,
    output_fn: Any = None,
) -> Any:
    """Turn a module's parameters and buffers into DTensors, by `partition_fn(name, submodule, mesh)`. Parameters that
    it leaves unchanged are replicated.

    Args:
        module: module to change.
        device_mesh: mesh over which the tensor is spread. The default is that of all ranks.
        partition_fn: function of a submodule's name, the submodule and the mesh, which replaces parameters by DTensors.
        input_fn: function of the module, its arguments and the mesh, which returns new arguments.
        output_fn: function of the module, its result and the mesh, which returns a new result.
    """
    from ndgrad.nn.parameter import Parameter  # modules are loaded by programs that have one

    mesh = current_mesh() if device_mesh is None else device_mesh
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, p in list(part._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                part._parameters[key] = Parameter(
                    distribute_tensor(p.detach(), mesh, [REPLICATE] * mesh.ndim), p.requires_grad
                )
        for key, b in list(part._buffers.items()):
            if b is not None and not isinstance(b, DTensor):
                part._buffers[key] = distribute_tensor(b, mesh, [REPLICATE] * mesh.ndim)
    if input_fn is not None:
        if _takes_module(input_fn, "input_fn", "inputs"):
            module.register_forward_pre_hook(lambda m, args: input_fn(m, args, mesh))
        else:
            module.register_forward_pre_hook(lambda m, args: input_fn(args, mesh))
    if output_fn is not None:
        if _takes_module(output_fn, "output_fn", "outputs"):
            module.register_forward_hook(lambda m, args, out: output_fn(m, out, mesh))
        else:
            module.register_forward_hook(lambda m, args, out: output_fn(out, mesh))
    return module


def _takes_module(function: Any, name: str, values: str) -> bool:
    """True if a function takes the module before the values and the mesh. Warn about the older form without it."""
    count = len(inspect.signature(function).parameters)
    if count not in (2, 3):
        raise ValueError(
            f"distribute_module: {name} should take 3 arguments (module, {values}, device_mesh), but got {count} "
            "arguments! [nd-arguments]"
        )
    if count == 2:
        warnings.warn(
            f"Deprecating {name} that takes two arguments ({values}, device_mesh), please use {name} that takes in "
            f"(module, {values}, device_mesh) instead!",
            FutureWarning,
            stacklevel=4,
        )
    return count == 3


def explain(function: Any, *args: Any, **kwargs: Any) -> str:
    """Describe the messages and ops of a call on DTensors. For each op: the collectives before it with their bytes, the
    all_reduces of its backward, and the placements of its result.

    Args:
        function: function to call.
        args, kwargs: its arguments.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Shard, distribute_tensor, explain
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(ndgrad.ones(4, 2), mesh, [Shard(0)])
    >>> print(explain(lambda x: x.exp().sum(), x))
    exp float32[4, 2]
        result: [Shard(dim=0)]
    sum_all float32[4, 2]
        result: [Partial(sum)]
    0 bytes are sent
    >>> ndgrad.distributed.destroy_process_group()
    """
    seen: list[tuple[Op, Sequence[Any], Plan]] = []
    before = DTensor.run_op

    def watch(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        if (plan := plan_for(op, args, settings, DTensor)) is not None:
            seen.append((op, args, plan))
        return before(op, args, settings)

    DTensor.run_op = staticmethod(watch)  # type: ignore[method-assign]
    try:
        function(*args, **kwargs)
    finally:
        DTensor.run_op = staticmethod(before)  # type: ignore[method-assign]
    lines = []
    for op, given, plan in seen:
        shapes = ", ".join(f"{a.spec.dtype.name}{list(a.shape)}" for a in given if isinstance(a, DTensor))
        lines.append(f"{op.name} {shapes}")
        lines.extend(f"    {line}" for line in plan.words())
    lines.append(f"{sum(plan.wire for _, _, plan in seen)} bytes are sent")
    return "\n".join(lines)


def _factory(function: Callable[..., Any], random: bool) -> Callable[..., DTensor]:
    def make(
        *size: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, **kwargs: Any
    ) -> DTensor:
        mesh = current_mesh() if device_mesh is None else device_mesh
        if "size" in kwargs:
            size = (*size, kwargs.pop("size"))
        shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
        given = normalize_placements(placements, mesh, len(shape), function.__name__)
        if any(p.is_partial() for p in given):
            raise ValueError(
                f"{function.__name__}: a new tensor is whole or sharded, and no sum of terms: {list(given)}. "
                "[nd-dtensor]"
            )
        requires_grad = kwargs.pop("requires_grad", False)
        probe = function((0,), **kwargs)
        spec = spec_of(mesh, given, shape, np.dtype(probe._array.dtype))
        if random and mesh.get_coordinate() is not None:
            # All ranks draw the whole from the same generator and keep their part, as one process does.
            whole = _wrap(function(shape, **kwargs), spec.with_placements((REPLICATE,) * mesh.ndim))
            return whole._redistribute_to(given).detach().requires_grad_(requires_grad)
        return _wrap(function(spec.local_shape(), **kwargs), spec).requires_grad_(requires_grad)

    make.__name__ = make.__qualname__ = function.__name__
    make.__doc__ = f"""Return a DTensor of this size, with elements as in `ndgrad.{function.__name__}`.

    Args:
        size: shape of the tensor, as numbers or as one sequence.
        device_mesh: mesh over which the tensor is spread. The default is that of all ranks.
        placements: placement for each dimension of the mesh, sharded or replicated. The default is replicated.
        kwargs: `dtype`, `requires_grad` and other arguments of `ndgrad.{function.__name__}`.
    """
    return make


__all__ = ["DTensor", "Partial", "chunk_sizes", "distribute_module", "distribute_tensor", "explain"]
