"""ZeRO's first stage: every rank keeps the state of some parameters, updates these, and sends them to the others.

An optimizer with two numbers of state for each parameter then needs 1/n of that memory on each of n ranks. Each rank
sends its parameters in one message, and all messages are sent at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.versions import storage_of
from ndgrad.distributed import transport
from ndgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from ndgrad.distributed.groups import ProcessGroup, group_of
from ndgrad.distributed.objects import _gather_all
from ndgrad.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from ndgrad._src.tensor.tensor_class import Tensor


class _StepWithoutBatch(JoinHook):
    """Collectives of a rank that has no more batches."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Update this rank's parameters, and receive the others."""
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Divide the state of an optimizer (`optimizer_class`) among the ranks of a group. The gradients must be the same
    on all ranks, as after `DistributedDataParallel`.

    Args:
        params: parameters, or groups of parameters with their settings.
        optimizer_class: class of the optimizer on each rank.
        process_group: group that divides the state. The default is the world.
        parameters_as_bucket_view: accepted as in torch; has no effect.
        overlap_with_ddp: must be False.
        defaults: further arguments of the class.

    >>> import ndgrad
    >>> from ndgrad.distributed.optim import ZeroRedundancyOptimizer
    >>> ndgrad.distributed.init_process_group()
    >>> w = ndgrad.ones(2, requires_grad=True)
    >>> optimizer = ZeroRedundancyOptimizer([w], ndgrad.optim.SGD, lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0., 0.], requires_grad=True)
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        group = group_of(process_group)
        if group is None:
            raise ValueError(
                "ZeroRedundancyOptimizer: this process is not in process_group. Make it on the members alone. [nd-rank]"
            )
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True) is not here: gradients overlap with backward in DDP "
                "itself. [nd-unsupported]"
            )
        self.group: ProcessGroup = group
        self.optimizer_class = optimizer_class
        #: The parameters of each rank.
        self.owned: list[list[Tensor]] = [[] for _ in range(group.size())]
        #: This rank's optimizer; None if there are fewer parameters than ranks.
        self.optim: Optimizer | None = None
        self._groups_of_optim: list[int] = []
        self._states: list[Any] = []
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings, and divide them among the ranks.

        Args:
            param_group: dict with `params` and settings.

        >>> import ndgrad
        >>> from ndgrad.distributed.optim import ZeroRedundancyOptimizer
        >>> ndgrad.distributed.init_process_group()
        >>> optimizer = ZeroRedundancyOptimizer([ndgrad.ones(1, requires_grad=True)], ndgrad.optim.SGD, lr=0.5)
        >>> optimizer.add_param_group({"params": [ndgrad.ones(2, requires_grad=True)], "lr": 0.1})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.5, 0.1]
        >>> ndgrad.distributed.destroy_process_group()
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        _divide(group["params"], self.owned)
        mine = {id(p) for p in self.owned[self.group.rank()]}
        own = {**group, "params": [p for p in group["params"] if id(p) in mine]}
        if not own["params"]:
            return
        if self.optim is None:
            self.optim = self.optimizer_class([own], **self.defaults)
        else:
            self.optim.add_param_group(own)
        for key, value in self.optim.param_groups[-1].items():  # settings that the class has by default
            group.setdefault(key, value)
        self._groups_of_optim.append(len(self.param_groups) - 1)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this rank's parameters, and receive the others.

        Args:
            closure: function that computes the loss again and returns it.
        """
        Join.notify_join_context(self)
        loss = closure() if closure is not None else None
        if self.optim is not None:
            for number, own in zip(self._groups_of_optim, self.optim.param_groups, strict=True):
                own.update(
                    {k: v for k, v in self.param_groups[number].items() if k != "params"}
                )  # a schedule changes this optimizer's groups
            self.optim.step()
        self._exchange()
        return loss

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the collectives of a rank that has no more batches, for `Join`. The data parallel module comes first
        in the list of `Join`; the averages of the other ranks are then the gradients of this rank's step.

        Args:
            kwargs: settings of the other objects of the block.
        """
        return _StepWithoutBatch(self)

    @property
    def join_device(self) -> Any:
        """Device of the first parameter."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """Ranks that divide the state."""
        return self.group

    def _exchange(self) -> None:
        if self.group.size() == 1:
            return
        under_way = []
        with no_grad():
            for owner, params in enumerate(self.owned):
                for dtype in dict.fromkeys(p._array.dtype for p in params):
                    alike = [p for p in params if p._array.dtype == dtype]
                    if owner == self.group.rank():
                        flat = np.concatenate([np.asarray(p._array).reshape(-1) for p in alike])
                    else:
                        flat = np.empty(sum(p.numel() for p in alike), dtype)
                    under_way.append((owner, alike, flat, transport.broadcast(self.group, flat, owner)))
            for owner, alike, flat, pending in under_way:
                pending.wait()
                if owner == self.group.rank():
                    continue
                start = 0
                for p in alike:
                    storage_of(p)
                    p._array[...] = flat[start : start + p.numel()].reshape(tuple(p.shape))
                    storage_of(p).bump("broadcast")
                    start += p.numel()

    # ----- saving -----

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all ranks on the rank `to`, for `state_dict()`; all ranks call it.

        Args:
            to: rank in the group that gets the state.
        """
        found = _gather_all(self.group, None if self.optim is None else self.optim.state_dict())
        self._states = found if self.group.rank() == to else []

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parameters as one optimizer would, numbered in their order. Call
        `consolidate_state_dict` first.
        """
        if not self._states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to=0)` on "
                "all ranks beforehand if you "
                "meant to save the global state. [nd-data-parallel]"
            )
        numbers = {id(p): i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}
        state: dict[int, Any] = {}
        for rank, found in enumerate(self._states):
            if found is None:
                continue
            own = {id(p) for p in self.owned[rank]}
            order = [p for g in self.param_groups for p in g["params"] if id(p) in own]
            for local, p in enumerate(order):
                if local in found["state"]:
                    state[numbers[id(p)]] = found["state"][local]
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [numbers[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the result of `state_dict()`, from any number of ranks: each rank keeps the state of its parameters.

        Args:
            state_dict: result of `state_dict()`.
        """
        every = [p for g in self.param_groups for p in g["params"]]
        for mine, theirs in zip(self.param_groups, state_dict["param_groups"], strict=True):
            mine.update({k: v for k, v in theirs.items() if k != "params"})
        if self.optim is None:
            return
        own = self.optim.state_dict()
        numbers = {id(p): i for i, p in enumerate(every)}
        order = [p for g in self.optim.param_groups for p in g["params"]]
        state = {
            i: state_dict["state"][numbers[id(p)]] for i, p in enumerate(order) if numbers[id(p)] in state_dict["state"]
        }
        groups = []
        for number, g in zip(self._groups_of_optim, own["param_groups"], strict=True):
            settings = {k: v for k, v in state_dict["param_groups"][number].items() if k != "params"}
            groups.append({**g, **settings, "params": g["params"]})
        self.optim.load_state_dict({"state": state, "param_groups": groups})


def _divide(params: list[Any], owned: list[list[Any]]) -> None:
    """Give parameters to ranks so that each has about as many elements: the largest first, to the rank with the
    fewest.
    """
    held = [sum(p.numel() for p in params) for params in owned]
    for p in sorted(params, key=lambda p: -p.numel()):
        rank = held.index(min(held))
        owned[rank].append(p)
        held[rank] += p.numel()
