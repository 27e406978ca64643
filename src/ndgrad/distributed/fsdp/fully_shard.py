"""`fully_shard`: modules whose parameters, gradients and optimizer state are divided among the ranks (ZeRO 2 and 3).

The class of a module becomes a new subclass of `FSDPModule` and of its old class. A call of the module gathers the
parameters before and frees them afterwards. Units (`unit`) and their passes (`passes`) do everything else.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_numpy_dtype
from ndgrad._src.core.grad_mode import enable_grad, is_grad_enabled, no_grad
from ndgrad._src.core.modes import thread
from ndgrad._src.core.saved_hooks import saved_tensors_hooks
from ndgrad._src.core.variable import wrap
from ndgrad._src.foundations.pytree import tree_leaves, tree_map
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import transport
from ndgrad.distributed.device_mesh import DeviceMesh, current_mesh
from ndgrad.distributed.fsdp.passes import Passes
from ndgrad.distributed.fsdp.unit import Place, Sharded, Unit
from ndgrad.distributed.groups import ProcessGroup, get_rank, twin_group
from ndgrad.distributed.tensor.dtensor import DTensor
from ndgrad.distributed.tensor.placements import REPLICATE, Placement, Shard, chunk_sizes
from ndgrad.nn.modules.container import ModuleDict, ModuleList
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from ndgrad._typing import Dtype


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes in which a fully sharded module computes and communicates. Pieces, gradients and the optimizer's state
    keep the dtype of the parameters.

    Args:
        param_dtype: dtype of gathered parameters. None keeps theirs.
        reduce_dtype: dtype of the sum of gradients. None means that of the gathered parameters.
        output_dtype: dtype of results. None keeps theirs.
        cast_forward_inputs: whether arguments of forward are converted to `param_dtype`.

    >>> from ndgrad.distributed.fsdp import MixedPrecisionPolicy
    >>> MixedPrecisionPolicy(param_dtype=ndgrad.bfloat16, reduce_dtype=ndgrad.float32).cast_forward_inputs
    True
    """

    param_dtype: Dtype = None
    reduce_dtype: Dtype = None
    output_dtype: Dtype = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Policy of `fully_shard` that moves nothing: pieces stay on the device of the mesh.

    >>> from ndgrad.distributed.fsdp import OffloadPolicy, fully_shard
    >>> OffloadPolicy()
    OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Policy of `fully_shard` that keeps pieces, gradients and the optimizer's state on the host. On a mesh of the CPU
    they are there already.

    Args:
        pin_memory: whether pieces lie in page-locked memory. Has no effect on a mesh of the CPU.

    >>> from ndgrad.distributed.fsdp import CPUOffloadPolicy
    >>> CPUOffloadPolicy(pin_memory=False)
    CPUOffloadPolicy(pin_memory=False)
    """

    pin_memory: bool = True


class UnshardHandle:
    """Handle of parameters that are being gathered, from `unshard(async_op=True)`.

    Args:
        state: state of the fully sharded module.
    """

    def __init__(self, state: _State) -> None:
        self._state: _State | None = state

    def wait(self) -> None:
        """Wait until the module has its whole parameters."""
        if self._state is not None:
            self._state.show_wholes()
            self._state = None


class FSDPModule:
    """Methods that `fully_shard` adds to a module."""

    _fsdp_state: _State

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp_state.call(self, super().__call__, args, kwargs)  # type: ignore[misc]  # Module comes after it

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """Return the parameters with their names; between passes these are the pieces.

        Args:
            args: arguments of the same method of `Module`.
            kwargs: arguments of the same method of `Module`.
        """
        self._restore_pieces()
        return super().named_parameters(*args, **kwargs)  # type: ignore[misc]  # Module comes after it

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state, with the pieces of parameters as DTensors.

        Args:
            args: arguments of the same method of `Module`.
            kwargs: arguments of the same method of `Module`.
        """
        self._restore_pieces()
        return super().state_dict(*args, **kwargs)  # type: ignore[misc]  # Module comes after it

    def _restore_pieces(self) -> None:
        """Restore the pieces if a failed backward pass has left whole parameters in the modules."""
        passes = self._fsdp_state.passes
        if passes is not None and passes.is_left():
            passes.restore()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the module's parameters, as forward does by itself; with `async_op`, only start to gather.

        Args:
            async_op: whether to return a handle at once, instead of waiting.
        """
        state = self._fsdp_state
        for unit in state.units:
            unit.begin_gather()
        handle = UnshardHandle(state)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Free the module's whole parameters, as the passes do by themselves."""
        for unit in self._fsdp_state.units:
            unit.show_pieces()
            unit.free()

    def _states(self, recurse: bool) -> Iterable[_State]:
        if not recurse:
            return [self._fsdp_state]
        return _states_in([self])

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward sends gradients. If not, each rank accumulates its whole gradients until a backward pass
        sends them. This is useful for micro-batches.

        Args:
            requires_gradient_sync: whether backward sends gradients.
            recurse: whether submodules are included.

        >>> import ndgrad
        >>> from ndgrad.distributed.fsdp import fully_shard
        >>> ndgrad.distributed.init_process_group()
        >>> net = fully_shard(ndgrad.nn.Linear(2, 1))
        >>> for last in (False, True):
        ...     net.set_requires_gradient_sync(last)
        ...     net(ndgrad.ones(3, 2)).sum().backward()
        >>> net.bias.grad.full_tensor()
        tensor([6.])
        >>> ndgrad.distributed.destroy_process_group()
        """
        for state in self._states(recurse):
            for unit in state.units:
                unit.sync = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accept torch's call without effect: every backward that sends gradients waits for them at its end.

        Args:
            is_last_backward: accepted as in torch; has no effect.
        """

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether backward sums gradients over replicas, on a mesh of two dimensions. If not, the ranks of one
        replica reduce theirs and keep the pieces, which the next backward that sums adds.

        Args:
            requires_all_reduce: whether backward sums gradients over replicas.
            recurse: whether submodules are included.
        """
        for state in self._states(recurse):
            for unit in state.units:
                unit.sums_replicas = requires_all_reduce

    def set_all_reduce_hook(self, hook: Callable[[Tensor], None], *, stream: Any = None) -> None:
        """Call a function with the averages of gradients before they become `.grad`. It may change them in place, for
        example reduce them over further ranks.

        Args:
            hook: function of this rank's pieces of the averages, in a tensor of one dimension.
            stream: must be None, because gradients are on the host.

        >>> import ndgrad
        >>> from ndgrad.distributed.fsdp import fully_shard
        >>> ndgrad.distributed.init_process_group()
        >>> net = fully_shard(ndgrad.nn.Linear(2, 1))
        >>> net.set_all_reduce_hook(lambda pieces: pieces.mul_(2.0))
        >>> net(ndgrad.ones(3, 2)).sum().backward()
        >>> net.bias.grad.full_tensor()
        tensor([6.])
        >>> ndgrad.distributed.destroy_process_group()
        """
        if stream is not None:
            raise NotImplementedError(
                "set_all_reduce_hook(stream=...): gradients are on the host. Leave it out. [nd-unsupported]"
            )
        for unit in self._fsdp_state.units:
            unit.reduced_hook = hook

    def set_reshard_after_forward(self, reshard_after_forward: bool, *, recurse: bool = True) -> None:
        """Set whether parameters are freed between forward and backward.

        Args:
            reshard_after_forward: whether parameters are freed after forward.
            recurse: whether submodules are included.
        """
        for state in self._states(recurse):
            state.reshard_after_forward = reshard_after_forward
            for unit in state.units:
                unit.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether parameters are freed after backward. If not, the next forward does not gather them, unless they
        are written.

        Args:
            reshard_after_backward: whether parameters are freed after backward.
            recurse: whether submodules are included.
        """
        for state in self._states(recurse):
            for unit in state.units:
                unit.reshard_after_backward = reshard_after_backward


    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Set the modules whose parameters begin to be gathered when this module's forward begins. The default is the
        module that came next in the forward pass before.

        Args:
            modules: fully sharded modules, in the order of their gathering. An empty list restores the default.

        >>> import ndgrad
        >>> from ndgrad.distributed.fsdp import fully_shard
        >>> ndgrad.distributed.init_process_group()
        >>> net = ndgrad.nn.Sequential(*(fully_shard(ndgrad.nn.Linear(2, 2)) for _ in range(3)))
        >>> _ = fully_shard(net)
        >>> net[0].set_modules_to_forward_prefetch([net[1], net[2]])
        >>> net(ndgrad.ones(1, 2)).shape
        ndgrad.Size([1, 2])
        >>> ndgrad.distributed.destroy_process_group()
        """
        _check_all_sharded("set_modules_to_forward_prefetch", modules)
        for unit in self._fsdp_state.units:
            unit.next_in_forward = [u for m in modules for u in m._fsdp_state.units]

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Set the modules whose parameters begin to be gathered when this module's backward begins. Gathering keeps the
        reverse order of forward, so modules between them are gathered too. The default is the module before this one.

        Args:
            modules: fully sharded modules. An empty list restores the default.
        """
        _check_all_sharded("set_modules_to_backward_prefetch", modules)
        for unit in self._fsdp_state.units:
            unit.next_in_backward = [u for m in modules for u in m._fsdp_state.units]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Set the number by which sums of gradients are divided. The default is the number of ranks.

        Args:
            factor: divisor.
        """
        if factor <= 0:
            raise ValueError(f"set_gradient_divide_factor({factor}): a divisor is positive. [nd-option]")
        for unit in self._fsdp_state.units:
            unit.divide_factor = factor


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Gather the parameters of a fully sharded module during another method, too, as `forward` does. Nothing changes
    for other modules.

    Args:
        module: module.
        method_name: name of the method.

    >>> import ndgrad
    >>> from ndgrad.distributed.fsdp import fully_shard, register_fsdp_forward_method
    >>> class Net(ndgrad.nn.Linear):
    ...     def features(self, x):
    ...         return self(x).relu()
    >>> ndgrad.distributed.init_process_group()
    >>> net = fully_shard(Net(2, 3))
    >>> register_fsdp_forward_method(net, "features")
    >>> net.features(ndgrad.ones(1, 2)).shape
    ndgrad.Size([1, 3])
    >>> ndgrad.distributed.destroy_process_group()
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(
            f"register_fsdp_forward_method: {type(module).__name__} has no method {method_name!r}. [nd-key]"
        )
    method = getattr(type(module), method_name, None)
    if method is None:
        raise ValueError(
            f"register_fsdp_forward_method: {method_name!r} is an attribute of this {type(module).__name__}, and no "
            "method of its class. [nd-type]"
        )

    @functools.wraps(method)
    def gathering(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp_state.call(self, functools.partial(method, self), args, kwargs)

    object.__setattr__(module, method_name, types.MethodType(gathering, module))


def _states_in(modules: Iterable[Any]) -> list[_State]:
    """Return the states of the fully sharded modules in these modules. A state may belong to several of them."""
    found = (part._fsdp_state for module in modules for part in module.modules() if isinstance(part, FSDPModule))
    return list({id(state): state for state in found}.values())


def _check_shared(modules: Sequence[Module]) -> None:
    """Raise if two units have pieces of one parameter, which would be trained apart."""
    owners: dict[int, tuple[Unit, str]] = {}
    for state in _states_in(modules):
        for unit in state.units:
            for p in unit.params:
                unit_before, name = owners.setdefault(id(p.origin), (unit, p.name))
                if unit_before is not unit:
                    raise ValueError(
                        f"fully_shard: the parameter {p.name!r} of {unit.name} is already managed by another fully "
                        f"sharded module: it was {name!r} of {unit_before.name}. Divide modules that share parameters "
                        "together: fully_shard([first, second]). [nd-call-order]"
                    )


def _check_all_sharded(name: str, modules: Sequence[Any]) -> None:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise TypeError(
                f"{name} takes fully sharded modules, but got {type(module).__name__}. Call fully_shard on it first. "
                "[nd-type]"
            )


class _State:
    """State of a fully sharded module, or of several that are one unit: units and settings."""

    def __init__(
        self, modules: Sequence[Module], units: list[Unit], policy: MixedPrecisionPolicy, reshard: bool | None
    ) -> None:
        self.modules, self.units, self.policy = modules, units, policy
        #: Modules that have not been called since the parameters were gathered for the first of them.
        self._waiting = {id(m) for m in modules}
        self.reshard_after_forward = reshard
        self.passes: Passes | None = None
        self._is_root = False
        self._depth = 0

    def _passes(self) -> Passes:
        """Return the passes of the module's root: the first module that is called is the root."""
        if self.passes is None:
            _check_shared(self.modules)
            if len(self.modules) > 1:
                raise RuntimeError(
                    f"FSDP requires a single root module but got {[type(m).__name__ for m in self.modules]}. Call "
                    "fully_shard on the module that holds them, too. [nd-call-order]"
                )
            states = _states_in(self.modules)
            passes = Passes([unit for state in states for unit in state.units])
            for state in states:
                state.passes, state._is_root = passes, state is self
                reshard = state.reshard_after_forward
                for unit in state.units:
                    # The root keeps its parameters by default: its backward starts right after its forward.
                    unit.reshard_after_forward = state is not self if reshard is None else reshard
        return self.passes  # type: ignore[return-value]  # set just now

    def show_wholes(self) -> None:
        """Give the module its whole parameters."""
        whole = len(self.modules) > 1 and self.passes is None  # the root, which has the order of passes, is not known
        passes = Passes(self.units) if whole else self._passes()
        for unit in self.units:
            unit.show_wholes(passes)

    def call(self, module: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module with whole parameters."""
        if thread.levels:
            raise NotImplementedError(
                f"a fully sharded {type(module).__name__} inside a transform (grad, vmap, ...): its parameters "
                "are gathered outside of it. Use backward(). [nd-in-transform]"
            )
        if self._depth:  # the module calls itself
            return forward(*args, **kwargs)
        passes = self._passes()
        again = thread.task is not None  # a checkpoint reruns it inside backward, which frees its parameters
        if self._is_root and not again:
            passes.begin_forward()
        args, kwargs = self._cast((args, kwargs), self.policy.param_dtype if self.policy.cast_forward_inputs else None)
        self._depth += 1
        try:
            if again:
                for unit in self.units:
                    passes.need(unit)
                self.show_wholes()
            else:
                passes.enter(self.units, is_grad_enabled())
            packed = [unit for unit in self.units if unit.reshard_after_forward]
            with _Packing(packed, passes) if packed else nullcontext():
                out = forward(*args, **kwargs)
        finally:
            self._depth -= 1
            if not again:
                self._waiting.discard(id(module))
            last = not self._waiting  # modules that are not called are waited for until the root's forward ends
            if last:
                self._waiting = {id(m) for m in self.modules}
            for unit in self.units:
                unit.show_pieces()
                if unit.reshard_after_forward and last and not again:
                    unit.free()
            if self._is_root and not again:
                passes.end_forward()
        out = self._cast(out, self.policy.output_dtype)
        if is_grad_enabled() and not again:
            self._watch(out, passes)
        return out

    def _watch(self, out: Any, passes: Passes) -> None:
        """Notice the start of the module's backward: the gradient of a result is known."""

        def begin(gradient: Tensor) -> None:
            for unit in reversed(self.units):
                passes.need(unit)
                with enable_grad():  # for checkpoints inside the module, which rerun parts of it
                    unit.show_wholes(passes)

        found = [t for t in tree_leaves(out) if isinstance(t, Tensor) and t.requires_grad and not t.is_leaf]
        for t in found:
            t.register_hook(begin)
        if found:
            passes.leave(self.units)

    @staticmethod
    def _cast(values: Any, dtype: Any) -> Any:
        if dtype is None:
            return values
        return tree_map(lambda t: t.to(dtype) if isinstance(t, Tensor) and t.is_floating_point() else t, values)


class _Packing(saved_tensors_hooks):
    """Saved-tensor hooks that save a gathered parameter as its place in its unit. Surrounding hooks save the rest."""

    def __init__(self, units: list[Unit], passes: Passes) -> None:
        self.units, self.passes = units, passes
        super().__init__(self._pack, self._unpack)

    def begin(self) -> None:
        super().begin()
        self.outer = thread.saved_hooks[-1] if thread.saved_hooks else None
        self.level = None if self.outer is None else self.outer[2]

    def _pack(self, t: Any) -> Any:
        for unit in self.units:
            place = unit.place_of(t)
            if place is not None:
                return place
        return t if self.outer is None else _Around(self.outer[0](t), self.outer[1])

    def _unpack(self, packed: Any) -> Any:
        if isinstance(packed, Place):
            return self.passes.unpack(packed)
        return packed.unpack(packed.value) if isinstance(packed, _Around) else packed


@dataclass(frozen=True)
class _Around:
    """A saved tensor packed by the surrounding hooks."""

    value: Any
    unpack: Callable[[Any], Any]


# ----- making them ----------------------------------------------------------------------------------------------------

_classes: dict[type[Any], type[Any]] = {}


def _class_of(cls: type[Any]) -> type[Any]:
    if cls not in _classes:
        _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__})
    return _classes[cls]


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | None = None,
    shard_placement_fn: Callable[[Any], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: Any = None,
    ignored_params: Iterable[Any] | None = None,
) -> Any:
    """Divide a module's parameters among the ranks, in place, and return the module. Call it on submodules first: each
    is then gathered separately. Call it on the whole module last, and create the optimizer afterwards.

    With `reshard_after_forward=True` parameters are gathered for forward, freed, and gathered again for backward
    (ZeRO-3); with False they stay until backward has used them (ZeRO-2). By default only the root module keeps them.
    Every rank starts from the parameters of the first one of the mesh. On a mesh with two dimensions, the second
    divides and the first holds replicas. Layers that `parallelize_module` has divided over another dimension are
    divided once more.

    Args:
        module: module to divide, or list of modules whose parameters are gathered together. The module that holds
            them must be divided too.
        mesh: mesh of one dimension, or of two, of which the first holds replicas. The default is that of all ranks.
        reshard_after_forward: whether parameters are freed between forward and backward. None means all but the root's.
        shard_placement_fn: function of a parameter that returns the `Shard` of its division, or None for the first
            dimension.
        mp_policy: dtypes of computing and communicating.
        offload_policy: None, `OffloadPolicy()`, or on a mesh of the CPU `CPUOffloadPolicy()`: pieces stay where they
            are.
        ignored_params: parameters that stay whole.

    >>> import ndgrad
    >>> from ndgrad.distributed.fsdp import fully_shard
    >>> ndgrad.distributed.init_process_group()
    >>> net = ndgrad.nn.Sequential(ndgrad.nn.Linear(4, 8), ndgrad.nn.ReLU(), ndgrad.nn.Linear(8, 1))
    >>> for layer in (net[0], net[2]):
    ...     _ = fully_shard(layer)
    >>> _ = fully_shard(net)
    >>> optimizer = ndgrad.optim.Adam(net.parameters())
    >>> net(ndgrad.ones(3, 4)).sum().backward()
    >>> optimizer.step()
    >>> net[0].weight.placements
    (Shard(dim=0),)
    >>> ndgrad.distributed.destroy_process_group()
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    _check_modules(modules)
    over = current_mesh() if mesh is None else mesh
    if over.ndim > 2:
        raise ValueError(
            f"fully_shard expects a 1D or 2D DeviceMesh but got {over!r}. Of two dimensions, the first has replicas. "
            "[nd-dtensor]"
        )
    if isinstance(offload_policy, CPUOffloadPolicy) and over.device_type != "cpu":
        raise NotImplementedError(
            f"fully_shard(offload_policy=CPUOffloadPolicy()): pieces stay on the device of the mesh, {over!r}. Leave "
            "the policy out, or use a mesh of the CPU. [nd-unsupported]"
        )
    if offload_policy is not None and not isinstance(offload_policy, OffloadPolicy):
        raise TypeError(
            f"fully_shard(offload_policy=...) takes an OffloadPolicy, but got {type(offload_policy).__name__}. "
            "[nd-type]"
        )
    policy = MixedPrecisionPolicy() if mp_policy is None else mp_policy
    found = _parameters_of(modules, over, {id(p) for p in ignored_params or ()})
    sharded = [_shard_parameter(name, homes, p, over, shard_placement_fn) for name, homes, p in found]
    group = over.get_group(over.ndim - 1)
    replicas = over.get_group(0) if over.ndim == 2 else None
    groups = twin_group(group, "gathers"), twin_group(group, "scatters"), replicas
    dtypes = _numpy_dtype(policy.param_dtype), _numpy_dtype(policy.reduce_dtype)
    by_dtype: dict[Any, list[Sharded]] = {}
    for p in sharded:
        by_dtype.setdefault(p.local._array.dtype, []).append(p)
    label = ", ".join(type(m).__name__ for m in modules)
    # A policy applies to real floating dtypes; bfloat16 has a kind of its own.
    units = [
        Unit(label, alike, groups, (None, None) if kind.kind in "ciub" else dtypes) for kind, alike in by_dtype.items()
    ]
    state = _State(modules, units, policy, reshard_after_forward)
    for part in modules:
        part.__class__ = _class_of(type(part))
        part.__dict__["_fsdp_state"] = state
    return module


def _check_modules(modules: Sequence[Any]) -> None:
    if not modules:
        raise ValueError("fully_shard: the list of modules is empty. [nd-arguments]")
    for module in modules:
        if not isinstance(module, Module):
            raise TypeError(f"fully_shard takes a module, but got {type(module).__name__}. [nd-type]")
        if isinstance(module, FSDPModule):
            raise ValueError(f"fully_shard: this {type(module).__name__} is fully sharded already. [nd-call-order]")
        if isinstance(module, (ModuleList, ModuleDict)):
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {type(module).__name__}. Call "
                "it on their modules. [nd-type]"
            )
        if any(other is not module and module in other.modules() for other in modules if isinstance(other, Module)):
            raise ValueError(
                f"fully_shard: {type(module).__name__} is inside another module of the list. Leave it out. "
                "[nd-call-order]"
            )


def _numpy_dtype(dtype: Dtype) -> np.dtype[Any] | None:
    return None if dtype is None else as_numpy_dtype(dtype)


def _parameters_of(
    modules: Sequence[Module], mesh: DeviceMesh, ignored: set[int]
) -> list[tuple[str, list[tuple[Module, str]], Any]]:
    """Return the parameters that belong to no fully sharded submodule, with all modules that hold them."""
    taken = {
        id(p.value)
        for module in modules
        for part in module.modules()
        if isinstance(part, FSDPModule)
        for unit in part._fsdp_state.units
        for p in unit.params
    }
    found: dict[int, tuple[str, list[tuple[Module, str]], Any]] = {}
    for prefix, part in (named for module in modules for named in module.named_modules()):
        for key, p in part._parameters.items():
            if p is None or id(p) in ignored or id(p) in taken:
                continue
            name = f"{prefix}.{key}" if prefix else key
            _check(name, p, mesh)
            found.setdefault(id(p), (name, [], p))[1].append((part, key))
    return list(found.values())


def _check(name: str, p: Any, mesh: DeviceMesh) -> None:
    if is_lazy(p):
        raise ValueError(
            f"fully_shard: the parameter {name!r} has no shape yet. Call the module once before. [nd-lazy]"
        )
    if p.ndim == 0:
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1. "
            "[nd-ndim]"
        )
    if isinstance(p, DTensor):
        crossing = set(p.device_mesh._ranks.flat) & set(mesh._ranks.flat) == {get_rank()}
        if mesh.ndim != 1 or p.device_mesh.ndim != 1 or not crossing or p.placements[0].is_partial():
            raise NotImplementedError(
                f"fully_shard: the parameter {name!r} is already a DTensor, {list(p.placements)} on "
                f"{p.device_mesh!r}. It can be divided over {mesh!r} too only if both are dimensions of one mesh, "
                'such as mesh["model"] and mesh["data"]. [nd-dtensor]'
            )


def _shard_parameter(
    name: str,
    homes: list[tuple[Module, str]],
    p: Any,
    mesh: DeviceMesh,
    placement: Callable[[Any], Shard | None] | None,
) -> Sharded:
    """Divide a parameter among the ranks; its modules get this rank's piece."""
    wanted = (placement(p) if placement is not None else None) or Shard(0)
    dim = wanted.dim % p.ndim
    group: ProcessGroup = mesh.get_group(mesh.ndim - 1)
    seen = p.spec if isinstance(p, DTensor) else None
    with no_grad():
        own: Tensor = (p.to_local() if isinstance(p, DTensor) else p).detach()
        sizes = chunk_sizes(own.shape[dim], group.size())
        if own.is_meta:  # `to_empty` allocates this rank's piece; no rank ever has the whole
            local = own.new_empty((*own.shape[:dim], sizes[group.rank()], *own.shape[dim + 1 :]))
        else:
            whole = np.array(own._array)
            for i in reversed(range(mesh.ndim)):
                transport.broadcast(mesh.get_group(i), whole, 0).wait()
            start = sum(sizes[: group.rank()])
            index = (slice(None),) * dim + (slice(start, start + sizes[group.rank()]),)
            local = wrap(Tensor, whole[index].copy())
        placements: list[Placement] = [*[REPLICATE] * (mesh.ndim - 1), Shard(dim)]
        if seen is not None:  # the outer mesh comes first: this divides the parts of an already spread parameter
            placements, mesh = [seen.placements[0], Shard(dim)], _both(seen.mesh, mesh)
        value: Any = DTensor.from_local(local, mesh, placements, shape=tuple(p.shape))
    value = Parameter(value, p.requires_grad)
    made = Sharded(name, homes, value, dim, sizes, seen)
    made.origin = p.__dict__.setdefault("_sharded_origin", object())
    made.put(value)
    return made


#: Two-dimensional meshes built from two one-dimensional ones, by their groups.
_crossed: dict[tuple[int, int], DeviceMesh] = {}


def _both(first: DeviceMesh, second: DeviceMesh) -> DeviceMesh:
    """Return the two-dimensional mesh whose lines through this rank are `first` and `second`."""
    groups = first.get_group(), second.get_group()
    key = id(groups[0]), id(groups[1])  # the mesh holds the groups, so their ids stay unique
    if key not in _crossed:
        lines = np.empty((groups[1].size(), groups[0].size()), np.int64)
        transport.all_gather(groups[1], lines, np.ascontiguousarray(first._ranks)).wait()
        names = None
        if first.mesh_dim_names is not None and second.mesh_dim_names is not None:
            names = (first.mesh_dim_names[0], second.mesh_dim_names[0])
        _crossed[key] = DeviceMesh(second.device_type, lines.T.copy(), mesh_dim_names=names, _groups=groups)
    return _crossed[key]
