"""Selective checkpointing: some ops keep their results for the recomputation, the others run again.

There are two dispatch modes, one around the function and one around its recomputation. The first asks the policy about
every op and puts results to keep on a list. The second walks through the same ops and takes them from there. A result
is used once: if backward runs a second time (retain_graph), the op is computed again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.checkpoint.trace import CheckpointError
from ndgrad._src.core.op_observers import DispatchMode, InPlaceForm
from ndgrad._src.core.variable import wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.shape import detach
from ndgrad._src.ops.table import Op

#: Ops that are free to run again: the policy is not called for them.
SAC_IGNORED_OPS = frozenset((detach,))


@set_module("ndgrad.utils.checkpoint")
class CheckpointPolicy(enum.Enum):
    """Decision about an op's result: keep it, keep it on the CPU, or compute it again.

    MUST and PREFER mean the same here: nothing overrides a policy.

    >>> from ndgrad.utils.checkpoint import CheckpointPolicy
    >>> CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = frozenset((CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE))
_OFFLOADED = frozenset((CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD))


@set_module("ndgrad.utils.checkpoint")
class SelectiveCheckpointContext:
    """Argument of a policy in addition to the op and its arguments: the result (`op_output`). A policy is called in
    the forward only.

    Args:
        is_recompute: whether the function runs again. Policies are called in the first run only, so they see False.
        op_output: result of the op.

    >>> from ndgrad.utils.checkpoint import SelectiveCheckpointContext
    >>> SelectiveCheckpointContext(is_recompute=False).op_output is None
    True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Entry:
    """One op of the forward: its name, and its results if they are kept."""

    __slots__ = ("device", "name", "results", "several", "versions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.results: list[Any] | None = None

    def keep(self, answer: Any, offload: bool) -> None:
        self.several = isinstance(answer, (tuple, list))
        tensors = list(answer) if self.several else [answer]
        self.device = tensors[0].device if offload else None
        kept = []
        for t in tensors:
            storage = storage_of(t)
            same = wrap(t.__class__, t._array)
            same._storage = storage
            kept.append(same.cpu() if offload else same)
        self.results = kept
        self.versions = [k._storage and k._storage.version for k in kept]

    def take(self, allow_mutation: bool) -> Any:
        assert self.results is not None
        kept, self.results = self.results, None
        if not allow_mutation and any(
            k._storage is not None and k._storage.version is not v for k, v in zip(kept, self.versions)
        ):
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated: a result of "
                f"{self.name} was kept for the recomputation and mutated later. Use the out-of-place form "
                "of that write, or create_selective_checkpoint_contexts(..., allow_cache_entry_mutation=True). "
                "[nd-checkpoint]"
            )
        if self.device is not None:
            kept = [k.to(self.device) for k in kept]
        return tuple(kept) if self.several else kept[0]


class _CachingTorchDispatchMode(DispatchMode):
    """Mode around the forward: keeps the results selected by the policy."""

    def __init__(self, policy_fn: Callable[..., Any], storage: list[_Entry]) -> None:
        super().__init__()
        self.policy_fn = policy_fn
        self.storage = storage

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        out = func(*args, **given)
        if func in SAC_IGNORED_OPS:
            return out
        policy = self.policy_fn(SelectiveCheckpointContext(is_recompute=False, op_output=out), func, *args, **given)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(policy, CheckpointPolicy):
            raise TypeError(
                f"selective checkpoint: the policy answered {policy!r} about {func.name}. "
                "Return a CheckpointPolicy or a bool. [nd-checkpoint]"
            )
        entry = _Entry(func.name)
        # A write has no result of its own; it must run again.
        if policy in _SAVED | _OFFLOADED and not isinstance(func, InPlaceForm):
            entry.keep(out, policy in _OFFLOADED)
        self.storage.append(entry)
        return out


class _CachedTorchDispatchMode(DispatchMode):
    """Mode around the recomputation: returns kept results, and computes the others."""

    def __init__(self, storage: list[_Entry], allow_cache_entry_mutation: bool) -> None:
        super().__init__()
        self.storage = storage
        self.allow_cache_entry_mutation = allow_cache_entry_mutation
        self.position = 0

    def begin(self) -> None:
        self.position = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **given)
        if self.position >= len(self.storage) or self.storage[self.position].name != func.name:
            had = self.storage[self.position].name if self.position < len(self.storage) else "nothing more"
            raise CheckpointError(
                f"selective checkpoint: op number {self.position} of the recomputation is {func.name}, "
                f"but that of the forward was {had}. A checkpointed function must run the same ops each time. "
                "[nd-checkpoint]"
            )
        entry = self.storage[self.position]
        self.position += 1
        return func(*args, **given) if entry.results is None else entry.take(self.allow_cache_entry_mutation)


@set_module("ndgrad.utils.checkpoint")
def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[_CachingTorchDispatchMode, _CachedTorchDispatchMode]:
    """Return the two contexts of a selective checkpoint, for `context_fn`.

    A policy is called as `policy(ctx, op, *args, **kwargs)` and returns a CheckpointPolicy (or True: save). A list of
    ops, or of their names, stands for a policy that saves these.

    Args:
        policy_fn_or_list: a policy, or ops or names of ops whose results are kept.
        allow_cache_entry_mutation: whether kept results may be changed in place before backward.

    >>> import functools, ndgrad
    >>> from ndgrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x, w = ndgrad.ones(2, 2, requires_grad=True), ndgrad.ones(2, 2, requires_grad=True)
    >>> keep_products = functools.partial(create_selective_checkpoint_contexts, ["matmul"])
    >>> y = checkpoint(lambda x: (x @ w).sigmoid() @ w, x, context_fn=keep_products)
    >>> y.sum().backward()
    """
    if callable(policy_fn_or_list):
        policy = policy_fn_or_list
    elif isinstance(policy_fn_or_list, (list, tuple, set, frozenset)):
        policy = _policy_of_list(policy_fn_or_list)
    else:
        raise TypeError(
            "policy_fn_or_list must be either a function or a list of ops, but create_selective_checkpoint_contexts() "
            f"got {type(policy_fn_or_list).__name__}. [nd-type]"
        )
    storage: list[_Entry] = []
    return _CachingTorchDispatchMode(policy, storage), _CachedTorchDispatchMode(storage, allow_cache_entry_mutation)


def _policy_of_list(ops: Any) -> Callable[..., CheckpointPolicy]:
    names, overloads = set(), set()
    for op in ops:
        op = getattr(op, "_opoverload", op)
        if hasattr(op, "dispatch_rules"):  # an op of ndgrad.library, which modes see as it is
            overloads.add(op)
            continue
        # A registered function, or a packet of ndgrad.ops.aten.
        op = getattr(op, "op", op) if not isinstance(op, InPlaceForm) else op
        if not isinstance(op, (str, Op, InPlaceForm)):
            raise ValueError(
                "create_selective_checkpoint_contexts(): Expected op in `op_list` to be an OpOverload, but got "
                f"{op!r} of type {type(op).__name__}. "
                "Give ops (ndgrad.ops.aten.mm.default), or their names ('matmul'). [nd-type]"
            )
        names.add(op if isinstance(op, str) else op.name)

    def policy(ctx: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        kept = op in overloads or op.name in names
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy
