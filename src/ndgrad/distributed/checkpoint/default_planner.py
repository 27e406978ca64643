"""torch's `DefaultSavePlanner` and `DefaultLoadPlanner`, which carry options: the layout of a checkpoint is fixed."""

from __future__ import annotations

from typing import Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


def _refuse_other(name: str, options: dict[str, tuple[Any, Any]]) -> None:
    for option, (given, only) in options.items():
        if given is not only:
            raise NotImplementedError(
                f"{name}({option}={given!r}): the layout of a checkpoint is fixed. Leave {option} at {only!r}. "
                "[nd-unsupported]"
            )


class DefaultSavePlanner:
    """Layout of a checkpoint for `save(planner=...)`, which is the layout without a planner.

    Args:
        flatten_state_dict: must be True: nested states are saved by the paths of their tensors.
        flatten_sharded_tensors: must be True.
        dedup_replicated_tensors: None or True: a tensor that several ranks have is saved once.
        dedup_save_to_lowest_rank: accepted as in torch; has no effect, because the first rank of a tensor saves it.
        enable_plan_caching: accepted as in torch; has no effect, because plans are not cached.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"w": ndgrad.ones(2)}, checkpoint_id=folder, planner=dcp.DefaultSavePlanner())
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        flags = {"flatten_state_dict": flatten_state_dict, "flatten_sharded_tensors": flatten_sharded_tensors}
        _refuse_other("DefaultSavePlanner", {name: (value, True) for name, value in flags.items()})
        if dedup_replicated_tensors is False:
            _refuse_other("DefaultSavePlanner", {"dedup_replicated_tensors": (False, None)})
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.dedup_save_to_lowest_rank, self.enable_plan_caching = dedup_save_to_lowest_rank, enable_plan_caching


class DefaultLoadPlanner:
    """Options of `load(planner=...)`.

    Args:
        flatten_state_dict: must be True: nested states are read by the paths of their tensors.
        flatten_sharded_tensors: must be True.
        allow_partial_load: whether names that the checkpoint does not have keep their values. They raise otherwise.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"w": ndgrad.ones(2)}, checkpoint_id=folder)
    >>> state = {"w": ndgrad.zeros(2), "v": ndgrad.zeros(1)}
    >>> dcp.load(state, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    >>> state
    {'w': tensor([1., 1.]), 'v': tensor([0.])}
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        flags = {"flatten_state_dict": flatten_state_dict, "flatten_sharded_tensors": flatten_sharded_tensors}
        _refuse_other("DefaultLoadPlanner", {name: (value, True) for name, value in flags.items()})
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load


_refuse_absent(__name__)
