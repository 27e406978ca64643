"""`FullyShardedDataParallel`, the older class of torch: a wrapper whose module is divided by `fully_shard`.

The parameters are DTensors, as with `use_orig_params=True`. A wrapper adds nothing to the names in a state.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.fsdp.fully_shard import FSDPModule, MixedPrecisionPolicy, fully_shard
from ndgrad.distributed.fsdp.wrap import CustomPolicy
from ndgrad.distributed.groups import ProcessGroup, get_rank, new_group, world_group
from ndgrad.distributed.tensor.dtensor import DTensor, distribute_tensor
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import Parameter
from ndgrad.nn.utils import clip_grad_norm_

if TYPE_CHECKING:
    from ndgrad._typing import Dtype

_INNER = "_fsdp_wrapped_module"


class ShardingStrategy(enum.Enum):
    """Division of parameters, gradients and state: ZeRO-3, ZeRO-2, none, and the first two within the second dimension
    of a mesh.
    """

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """torch's hints of speed; backward always requests the parameters of one module ahead."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


class StateDictType(enum.Enum):
    """Form of the tensors in a state: whole, or DTensors."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclass
class CPUOffload:
    """Option that moves parameters to the host between uses. They are there already.

    Args:
        offload_params: whether parameters move. True raises an error for a module on a GPU.
    """

    offload_params: bool = False


@dataclass
class MixedPrecision:
    """Dtypes in which a module computes and communicates: see `MixedPrecisionPolicy`.

    Args:
        param_dtype: dtype of gathered parameters. None keeps theirs.
        reduce_dtype: dtype of the sum of gradients. None means that of the gathered parameters.
        buffer_dtype: dtype to which buffers are converted once.
        keep_low_precision_grads: accepted as in torch; has no effect, because gradients have the dtype of parameters.
        cast_forward_inputs: whether arguments of forward are converted to `param_dtype`.
        cast_root_forward_inputs: same as `cast_forward_inputs`.
    """

    param_dtype: Dtype = None
    reduce_dtype: Dtype = None
    buffer_dtype: Dtype = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclass
class FullStateDictConfig:
    """Options of states of whole tensors.

    Args:
        offload_to_cpu: whether tensors are copied to the host.
        rank0_only: whether only the first rank gets the tensors.
    """

    offload_to_cpu: bool = False
    rank0_only: bool = False


@dataclass
class ShardedStateDictConfig:
    """Options of states of DTensors.

    Args:
        offload_to_cpu: accepted as in torch; has no effect, because pieces stay on their device.
    """

    offload_to_cpu: bool = False


class FullyShardedDataParallel(Module):
    """Wrap a module so that its parameters, gradients and optimizer state are divided among the ranks.

    Every rank starts from the parameters of the first, and computes the loss of its part of the batch; gradients are
    averaged. `auto_wrap_policy` (`distributed.fsdp.wrap`) selects submodules that are gathered separately. Create the
    optimizer from the wrapper's parameters. New programs call `fully_shard`, which needs no wrapper.

    Args:
        module: module to divide.
        process_group: group whose ranks divide the module. The default is the world.
        sharding_strategy: parts that are divided. The default is `ShardingStrategy.FULL_SHARD`.
        cpu_offload: None, or an option that raises an error for a module on a GPU.
        auto_wrap_policy: function or policy that selects submodules to gather separately.
        backward_prefetch: accepted as in torch; has no effect, because backward always requests the parameters of one
            module ahead.
        mixed_precision: dtypes of computing and communicating.
        ignored_modules: modules whose parameters stay whole.
        param_init_fn: function that initialises modules on the meta device.
        device_id: device to which the module is moved first.
        sync_module_states: accepted as in torch; has no effect, because every rank starts from the first one's
            parameters.
        forward_prefetch: accepted as in torch; has no effect.
        limit_all_gathers: accepted as in torch; has no effect.
        use_orig_params: accepted as in torch; has no effect, because parameters are never flattened.
        ignored_states: parameters or modules that stay whole.
        device_mesh: mesh of one dimension, or of two, of which the first holds replicas, instead of `process_group`.

    >>> import ndgrad
    >>> from ndgrad.distributed.fsdp import FullyShardedDataParallel
    >>> ndgrad.distributed.init_process_group()
    >>> net = FullyShardedDataParallel(ndgrad.nn.Linear(2, 1))
    >>> net(ndgrad.ones(3, 2)).sum().backward()
    >>> sorted(net.state_dict()), net.clip_grad_norm_(1.0) > 1
    (['bias', 'weight'], tensor(True))
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: Any = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if cpu_offload is not None and cpu_offload.offload_params and device_id is not None:
            raise NotImplementedError(
                "FullyShardedDataParallel(cpu_offload=CPUOffload(True)): the pieces stay on their device. Leave it "
                "out. [nd-unsupported]"
            )
        strategy = ShardingStrategy.FULL_SHARD if sharding_strategy is None else sharding_strategy
        ignored = _ignored_parameters(ignored_modules, ignored_states)
        if device_id is not None:
            module.to(device_id if not isinstance(device_id, int) else f"cuda:{device_id}")
        _initialize(module, param_init_fn)
        mesh = _mesh_for(strategy, process_group, device_mesh)
        settings = {
            "sharding_strategy": strategy, "mixed_precision": mixed_precision, "ignored_states": ignored,
            "device_mesh": mesh,
        }  # fmt: skip
        if auto_wrap_policy is not None:
            skipped = {m for part in ignored_modules or () for m in part.modules()}
            _wrap_parts(module, auto_wrap_policy, skipped, settings, {})
        self.sharding_strategy, self.mixed_precision = strategy, mixed_precision
        #: Form of the state, and its options.
        self._state_form: tuple[StateDictType, Any] = (StateDictType.FULL_STATE_DICT, FullStateDictConfig())
        keeps = strategy in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)
        given = mixed_precision or MixedPrecision()
        policy = MixedPrecisionPolicy(
            given.param_dtype, given.reduce_dtype, None, given.cast_forward_inputs or given.cast_root_forward_inputs
        )
        if given.buffer_dtype is not None:
            for part in module.modules():
                for key, b in part._buffers.items():
                    if b is not None and b.is_floating_point():
                        part._buffers[key] = b.to(given.buffer_dtype)
        self.add_module(
            _INNER,
            fully_shard(module, mesh=mesh, reshard_after_forward=not keeps, mp_policy=policy, ignored_params=ignored)
            if not isinstance(module, FSDPModule)
            else module,
        )

    @property
    def module(self) -> Any:
        """The wrapped module."""
        return self._modules[_INNER]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            inner = self.__dict__.get("_modules", {}).get(_INNER)
            if inner is None:
                raise
            return getattr(inner, name)

    def __getitem__(self, key: int) -> Any:
        """Return a part of a wrapped `Sequential` or `ModuleList`."""
        return self.module[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module with whole parameters.

        Args:
            args, kwargs: arguments of the module.
        """
        return self.module(*args, **kwargs)

    # ----- training -----

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the wrappers in a module; with `root_only`, those that are in no other wrapper.

        Args:
            module: module to search.
            root_only: whether wrappers inside other wrappers are left out.
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inner = {id(i) for m in found for i in m.modules() if i is not m}
        return [m for m in found if id(m) not in inner] if root_only else found

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a context in which each rank accumulates its own gradients. The first backward after it sends their
        sums.
        """
        units = [unit for m in self.modules() if isinstance(m, FSDPModule) for unit in m._fsdp_state.units]
        before = [unit.sync for unit in units]
        try:
            for unit in units:
                unit.sync = False
            yield
        finally:
            for unit, sync in zip(units, before, strict=True):
                unit.sync = sync

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients so that their norm over all ranks is at most `max_norm`; return the norm.

        Args:
            max_norm: largest norm of all gradients together.
            norm_type: order of the norm.
        """
        norm = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Return a context in which the modules have their whole parameters; all ranks enter it. Changes are kept if
        `writeback`. With `rank0_only` the other ranks keep their pieces. With `with_grads` the parameters have whole
        gradients.

        Args:
            module: module with wrappers.
            recurse: whether wrappers at any depth are included, instead of the module and its children.
            writeback: whether changes are kept. It cannot be combined with `rank0_only`.
            rank0_only: whether only the first rank gets whole parameters.
            offload_to_cpu: whether whole parameters are copied to the host.
            with_grads: whether parameters have whole gradients.

        >>> import ndgrad
        >>> from ndgrad.distributed.fsdp import FullyShardedDataParallel
        >>> ndgrad.distributed.init_process_group()
        >>> net = FullyShardedDataParallel(ndgrad.nn.Linear(2, 1))
        >>> with FullyShardedDataParallel.summon_full_params(net):
        ...     _ = net.module.weight.data.fill_(2.0)
        >>> net.module.weight.full_tensor()
        tensor([[2., 2.]], grad_fn=<JoinPiecesBackward0>)
        >>> ndgrad.distributed.destroy_process_group()
        """
        if rank0_only and writeback:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported [nd-unsupported]")
        parts = list(module.modules()) if recurse else [module, *module.children()]
        params = [p for m in parts if isinstance(m, FSDPModule) for unit in m._fsdp_state.units for p in unit.params]
        shown = []
        with no_grad():
            for p in params:
                whole: Any = Parameter(p.value.detach().full_tensor().clone(), p.value.requires_grad)
                if offload_to_cpu:
                    whole = Parameter(whole.detach().cpu(), p.value.requires_grad)
                if with_grads and p.value.grad is not None:
                    whole.grad = p.value.grad.full_tensor()
                if not rank0_only or get_rank() == 0:
                    _give(p, whole)
                shown.append((p, whole))
        try:
            yield
        finally:
            for p, whole in shown:
                _give(p, p.value)
                if writeback:
                    with no_grad():
                        p.value.take_whole(whole.detach())

    # ----- states -----

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Return the parameters with their names, which do not show the wrappers.

        Args:
            args: arguments of the same method of `Module`.
            kwargs: arguments of the same method of `Module`.
        """
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_INNER}.", ""), p

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> list[tuple[Any, tuple[StateDictType, Any]]]:
        """Choose the form of the tensors in `state_dict()`; return the former choices.

        Args:
            module: module with wrappers.
            state_dict_type: form of the tensors in a state.
            state_dict_config: options of this form.
            optim_state_dict_config: options of this form, if `state_dict_config` is None.
        """
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError(
                "StateDictType.LOCAL_STATE_DICT: there are no flat parameters here. Use SHARDED_STATE_DICT. "
                "[nd-unsupported]"
            )
        full = state_dict_type is StateDictType.FULL_STATE_DICT
        config = state_dict_config or optim_state_dict_config
        if config is None:
            config = FullStateDictConfig() if full else ShardedStateDictConfig()
        before = []
        for m in FullyShardedDataParallel.fsdp_modules(module):
            before.append((m, m._state_form))
            m._state_form = (state_dict_type, config)
        return before

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """Return a context in which `state_dict()` has tensors of this form.

        Args:
            module: module with wrappers.
            state_dict_type: form of the tensors in a state.
            state_dict_config: options of this form.
            optim_state_dict_config: options of this form, if `state_dict_config` is None.
        """
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for m, form in before:
                m._state_form = form

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return the state, under the names of the plain module. All ranks call it: by default tensors are whole.

        Args:
            args: arguments of `Module.state_dict` by position.
            destination: dict that receives the state.
            prefix: beginning of all names.
            keep_vars: whether tensors stay in the graph.
        """
        own = self.module.state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        kind, config = self._state_form
        if kind is StateDictType.FULL_STATE_DICT:
            for name, value in list(own.items()):
                if isinstance(value, DTensor) and name.startswith(prefix):
                    whole = value.detach().full_tensor()
                    own[name] = whole.cpu() if config.offload_to_cpu else whole
        if getattr(config, "rank0_only", False) and get_rank() != 0:
            for name in [n for n in own if n.startswith(prefix)]:
                del own[name]
        return own

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Load a state of whole tensors or of DTensors, under the names of the plain module.

        Args:
            state_dict: state, under the names of the plain module.
            strict: whether missing and unknown names raise an error.
            assign: whether tensors replace those of the module, instead of being copied.
        """
        self.module._restore_pieces()
        real = [
            (f"{place}.{key}", value)
            for place, part in self.named_modules()
            for key, value in (*part._parameters.items(), *part._buffers.items())
        ]
        own = {name.replace(f"{_INNER}.", ""): (name, value) for name, value in real}
        given = {
            own[name][0] if name in own else name: _place_like(value, own[name][1]) if name in own else value
            for name, value in state_dict.items()
        }
        return super().load_state_dict(given, strict, assign)

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """Return the state of an optimizer by the names of parameters, in the form chosen for the model.

        Args:
            model: module with wrappers.
            optim: optimizer of its parameters.
            optim_state_dict: must be None: the optimizer's own state is taken.
            group: must be None.
        """
        if optim_state_dict is not None or group is not None:
            raise NotImplementedError(
                "optim_state_dict(optim_state_dict=, group=) is not here: the optimizer's own state is taken. "
                "[nd-unsupported]"
            )
        from ndgrad.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict  # loads files

        root = FullyShardedDataParallel.fsdp_modules(model)
        full = not root or root[0]._state_form[0] is StateDictType.FULL_STATE_DICT
        return get_optimizer_state_dict(model, optim, options=StateDictOptions(full_state_dict=full))

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False,
        load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return a state of `optim_state_dict` in the form that the optimizer's `load_state_dict` takes. With
        `load_directly` the optimizer loads it.

        Args:
            model: module with wrappers.
            optim: optimizer of its parameters.
            optim_state_dict: state by the names of parameters.
            is_named_optimizer: must be False.
            load_directly: whether the optimizer loads the state.
            group: must be None.
        """
        if is_named_optimizer or group is not None:
            raise NotImplementedError(
                "optim_state_dict_to_load(is_named_optimizer=, group=) is not here. Leave them out. [nd-unsupported]"
            )
        from ndgrad.distributed.checkpoint.state_dict import set_optimizer_state_dict  # loads files

        before = optim.state_dict()
        set_optimizer_state_dict(model, optim, optim_state_dict)
        made: dict[str, Any] = optim.state_dict()
        if not load_directly and before["state"]:
            optim.load_state_dict(before)
        return made


def _give(p: Any, value: Any) -> None:
    for home, key in p.homes:
        home._parameters[key] = value


def _place_like(value: Any, like: Any) -> Any:
    if isinstance(like, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor):
        return distribute_tensor(value.detach(), like.device_mesh, like.placements, src_data_rank=None)
    return value


def _ignored_parameters(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> list[Any]:
    found = [p for m in modules or () for p in m.parameters()]
    for state in states or ():
        found.extend(state.parameters() if isinstance(state, Module) else [state])
    return found


def _initialize(module: Module, param_init_fn: Callable[[Module], None] | None) -> None:
    """Give values to parameters without values, on the meta device."""
    for part in module.modules():
        if any(t is not None and t.is_meta for t in (*part._parameters.values(), *part._buffers.values())):
            if param_init_fn is not None:
                param_init_fn(part)
                continue
            part.to_empty(device="cpu", recurse=False)
            with suppress(AttributeError):
                part.reset_parameters()  # a method of most layers


def _mesh_for(strategy: ShardingStrategy, process_group: Any, mesh: DeviceMesh | None) -> DeviceMesh:
    """Return the mesh over which a strategy divides: its last dimension divides, a first one has replicas."""
    hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
    if mesh is not None:
        if hybrid != (mesh.ndim == 2) and strategy is not ShardingStrategy.NO_SHARD:
            raise ValueError(
                f"FullyShardedDataParallel: {strategy} takes a mesh of {2 if hybrid else 1} dimensions, and it is "
                f"{mesh!r}. [nd-dtensor]"
            )
        return mesh
    if hybrid:
        if not isinstance(process_group, tuple):
            raise ValueError(
                "FullyShardedDataParallel: HYBRID_SHARD takes a device_mesh of two dimensions, or the pair of the "
                "group that divides and the group of replicas. [nd-arguments]"
            )
        divides, replicas = process_group
        ranks = [[r + d for d in _offsets(divides)] for r in replicas.ranks]
        return DeviceMesh.from_group([replicas, divides], "cpu", mesh=ranks)
    group: ProcessGroup = world_group() if process_group is None else process_group
    if strategy is ShardingStrategy.NO_SHARD:
        alone = new_group([get_rank()], use_local_synchronization=True)
        return DeviceMesh.from_group([group, alone], "cpu", mesh=[[r] for r in group.ranks])
    return DeviceMesh.from_group(group, "cpu")


def _offsets(group: ProcessGroup) -> list[int]:
    return [r - get_rank() for r in group.ranks]


def _wrap_parts(
    module: Module, policy: Any, skipped: set[Module], settings: dict[str, Any], known: dict[int, Module]
) -> int:
    """Wrap the submodules that a policy selects, from the inside out; return the number of parameters wrapped."""
    wrapped = 0
    for name, child in list(module.named_children()):
        if child in skipped or isinstance(child, FullyShardedDataParallel):
            continue
        if id(child) in known:
            setattr(module, name, known[id(child)])
            continue
        count = sum(p.numel() for p in child.parameters())
        custom = isinstance(policy, CustomPolicy)
        inside = 0
        if custom or policy(module=child, recurse=True, nonwrapped_numel=count):
            inside = _wrap_parts(child, policy, skipped, settings, known)
        more = policy.settings_of(child) if custom else {}
        selected = more is not None if custom else policy(module=child, recurse=False, nonwrapped_numel=count - inside)
        if selected:
            made = FullyShardedDataParallel(child, **{**settings, **(more or {})})
            known[id(child)] = made
            setattr(module, name, made)
            inside = count
        wrapped += inside
    return wrapped
