"""Schedules: the order of forward and backward passes of micro-batches through a rank's stages.

A schedule is a list of actions for each rank. It is made before anything runs, so it can be inspected (`actions_of`)
and checked without ranks. GPipe computes all forward passes and then all backward passes. 1F1B starts each backward
pass as early as possible, so a rank keeps the graphs of at most as many micro-batches as there are stages from it to
the end. Interleaved 1F1B gives a rank several stages of a few layers each, and shortens the time in which ranks wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ndgrad._src.core.grad_mode import is_grad_enabled, no_grad
from ndgrad._src.foundations.pytree import tree_map
from ndgrad._src.tensor.functions.join import cat
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from ndgrad.distributed.pipelining.stage import PipelineStage


class Action(NamedTuple):
    """A forward ("F") or backward ("B") pass of a micro-batch through a stage. A backward pass may be divided into the
    gradients of inputs ("I") and of weights ("W").
    """

    kind: str
    stage: int
    number: int

    def __repr__(self) -> str:
        return f"{self.stage}{self.kind}{self.number}"


# ----- orders ---------------------------------------------------------------------------------------------------------


def gpipe(rank: int, ranks: int, stages_per_rank: int, count: int) -> list[Action]:
    """Return all forward passes, then all backward passes.

    >>> from ndgrad.distributed.pipelining.schedules import gpipe
    >>> gpipe(0, 2, 1, 2)
    [0F0, 0F1, 0B0, 0B1]
    """
    stages = [rank + i * ranks for i in range(stages_per_rank)]
    forward = [Action("F", s, m) for s in stages for m in range(count)]
    return forward + [Action("B", s, m) for s in reversed(stages) for m in range(count)]


def one_forward_one_backward(rank: int, ranks: int, stages_per_rank: int, count: int) -> list[Action]:
    """Return as many forward passes as there are stages after this one, then backward and forward passes in turn.

    >>> from ndgrad.distributed.pipelining.schedules import one_forward_one_backward
    >>> one_forward_one_backward(0, 2, 1, 3)
    [0F0, 0F1, 0B0, 0F2, 0B1, 0B2]
    """
    assert stages_per_rank == 1
    ahead = min(ranks - rank, count)
    found = [Action("F", rank, m) for m in range(ahead)]
    for m in range(count):
        found.append(Action("B", rank, m))
        if m + ahead < count:
            found.append(Action("F", rank, m + ahead))
    return found


def interleaved(rank: int, ranks: int, stages_per_rank: int, count: int) -> list[Action]:
    """Return 1F1B over several stages of a rank: rounds of micro-batches go through its first stage, then its second,
    and so on; backward goes through its last stage first.

    >>> from ndgrad.distributed.pipelining.schedules import interleaved
    >>> interleaved(1, 2, 2, 2)
    [1F0, 1F1, 3F0, 3B0, 3F1, 3B1, 1B0, 1B1]
    """
    total = count * stages_per_rank
    rounds = ranks if count % ranks == 0 else count
    ahead = min((stages_per_rank - 1) * rounds + 2 * (ranks - rank - 1), total - 1)

    def action_at(step: int, kind: str) -> Action:
        block, inside = divmod(step, rounds * stages_per_rank)
        local, offset = divmod(inside, rounds)
        if kind == "B":
            local = stages_per_rank - 1 - local
        return Action(kind, rank + local * ranks, block * rounds + offset)

    found = [action_at(step, "F") for step in range(ahead)]
    for step in range(total - ahead):
        found += [action_at(step + ahead, "F"), action_at(step, "B")]
    return found + [action_at(step, "B") for step in range(total - ahead, total)]


def zero_bubble(rank: int, ranks: int, stages_per_rank: int, count: int) -> list[Action]:
    """Return `interleaved` with divided backward passes: gradients of inputs come first, since the rank before waits
    for them. Those of weights follow `rank` passes later and fill the time in which the rank would wait.

    >>> from ndgrad.distributed.pipelining.schedules import zero_bubble
    >>> zero_bubble(1, 2, 1, 3)
    [1F0, 1I0, 1F1, 1I1, 1W0, 1F2, 1I2, 1W1, 1W2]
    """
    found: list[Action] = []
    waiting: list[Action] = []
    for action in interleaved(rank, ranks, stages_per_rank, count):
        if action.kind == "F":
            found.append(action)
            continue
        found.append(action._replace(kind="I"))
        waiting.append(action._replace(kind="W"))
        if len(waiting) > rank:
            found.append(waiting.pop(0))
    return found + waiting


# ----- running them ---------------------------------------------------------------------------------------------------


class _Schedule(ABC):
    """Base class: run micro-batches through the stages of this rank."""

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if n_microbatches < 1:
            raise ValueError(
                f"a pipeline needs at least one micro-batch, and n_microbatches is {n_microbatches}. [nd-range]"
            )
        ranks = stages[0].group.size()
        indices = [s.stage_index for s in stages]
        wanted = [stages[0].group.rank() + i * ranks for i in range(stages[0].num_stages // ranks)]
        if sorted(indices) != wanted or any(s.group is not stages[0].group for s in stages):
            raise ValueError(
                f"{type(self).__name__}: this rank has the stages {wanted} of {stages[0].num_stages}, but got "
                f"{indices}. Give all stages of the rank, of one group. [nd-rank]"
            )
        self._specs = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        self._stages = {s.stage_index: s for s in stages}
        self._group = stages[0].group
        self._count, self._loss_fn, self._scale_grads = n_microbatches, loss_fn, scale_grads
        self._actions = self.actions_of(self._group.rank())
        beside = stages[0].beside
        for s in stages:
            s.beside = beside  # one table for all stages of the rank

    @abstractmethod
    def actions_of(self, rank: int) -> list[Action]:
        """Return the actions of a rank, in order."""

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Run one batch, forward and backward; gradients are added to those of the parameters. The rank with the first
        stage gives the arguments, the rank with the last stage the target. The last rank gets the concatenated results,
        and the losses of the micro-batches in `losses`. Without a loss function, or under `no_grad`, there is no
        backward. Gradients are divided by the number of micro-batches, as for the mean of their losses.

        Gradients are divided by the number of micro-batches, as the mean of their losses has it."""
        recording = is_grad_enabled() and self._loss_fn is not None
        return self._run(args, kwargs, target, losses, return_outputs, recording)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Run one batch, forward only."""
        with no_grad():
            return self._run(args, kwargs, target, losses, return_outputs, False)

    def _run(
        self, args: Any, kwargs: Any, target: Any, losses: list[Any] | None, return_outputs: bool, recording: bool
    ) -> Any:
        last = next((s for s in self._stages.values() if s.is_last), None)
        of_args, of_kwargs, of_outputs = self._specs
        # Ranks without the first stage give no positional arguments.
        of_args = of_args if args else None
        pieces = list(zip(*split_args_kwargs_into_chunks(args, kwargs, self._count, of_args, of_kwargs), strict=True))
        targets = [t[0] for t in split_args_kwargs_into_chunks((target,), None, self._count)[0]]
        if last is not None and self._loss_fn is not None and target is None:
            raise ValueError("the rank of the last stage computes the loss: give it target=... [nd-arguments]")
        outs: list[Any] = [None] * self._count
        found: list[Any] = [None] * self._count
        for stage in self._stages.values():
            stage.begin()
        for action in self._actions:
            stage = self._stages[action.stage]
            if action.kind == "F":
                given = pieces[action.number] if stage.is_first else ((), pieces[action.number][1])
                out = stage.forward_one(action.number, *given, recording)
                if stage.is_last:
                    outs[action.number] = out
                    if self._loss_fn is not None:
                        found[action.number] = self._loss_fn(out, targets[action.number])
            elif recording and action.kind == "W":
                stage.backward_weights(action.number)
            elif recording:
                divisor = self._count if self._scale_grads else 1  # for a mean over micro-batches
                loss = found[action.number] if stage.is_last else None
                stage.backward_one(action.number, loss, divisor, divided=action.kind == "I")
            stage.go_on()
        for stage in self._stages.values():
            stage.finish()
        if last is None:
            return None
        if losses is not None and self._loss_fn is not None:
            losses[:] = [loss.detach() for loss in found]
        if not return_outputs:
            return None
        if of_outputs is None:
            return _join_outputs(outs)
        detached = [tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, out) for out in outs]
        return merge_chunks(detached, of_outputs)


def _join_outputs(outs: list[Any]) -> Any:
    if isinstance(outs[0], (tuple, list)):
        return tuple(_join_outputs([out[i] for out in outs]) for i in range(len(outs[0])))
    if not isinstance(outs[0], Tensor) or outs[0].ndim == 0:
        return outs
    return cat([out.detach() for out in outs])


class PipelineScheduleSingle(_Schedule):
    """Base class of schedules with one stage per rank.

    Args:
        stage: stage of this rank.
        n_microbatches: number of micro-batches of a step.
        loss_fn: function of a result and its target.
        args_chunk_spec: `TensorChunkSpec` of each argument (see `microbatch.split_args_kwargs_into_chunks`).
        kwargs_chunk_spec: the same by name.
        output_merge_spec: `TensorChunkSpec` of each result (see `microbatch.merge_chunks`).
        scale_grads: whether gradients are divided by the number of micro-batches.
    """

    _order: Callable[..., list[Action]]

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )

    def actions_of(self, rank: int) -> list[Action]:
        """Return the actions of a rank, in order."""
        return type(self)._order(rank, self._group.size(), 1, self._count)


class ScheduleGPipe(PipelineScheduleSingle):
    """Run all forward passes, then all backward passes. The graphs of all micro-batches are alive in between.

    >>> import ndgrad
    >>> from ndgrad.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> ndgrad.distributed.init_process_group()
    >>> ScheduleGPipe(PipelineStage(ndgrad.nn.ReLU(), 0, 1), 2).step(ndgrad.ones(2, 3)).shape
    ndgrad.Size([2, 3])
    >>> ndgrad.distributed.destroy_process_group()
    """

    _order = staticmethod(gpipe)


class Schedule1F1B(PipelineScheduleSingle):
    """Run forward and backward in turn: at most as many graphs as there are stages are alive.

    >>> import ndgrad
    >>> from ndgrad.distributed.pipelining import PipelineStage, Schedule1F1B
    >>> ndgrad.distributed.init_process_group()
    >>> Schedule1F1B(PipelineStage(ndgrad.nn.ReLU(), 0, 1), 2).actions_of(0)
    [0F0, 0B0, 0F1, 0B1]
    >>> ndgrad.distributed.destroy_process_group()
    """

    _order = staticmethod(one_forward_one_backward)


class PipelineScheduleMulti(_Schedule):
    """Base class of schedules with several stages per rank.

    Args:
        stages: stages of this rank.
        n_microbatches: number of micro-batches of a step.
        loss_fn: function of a result and its target.
        args_chunk_spec: `TensorChunkSpec` of each argument (see `microbatch.split_args_kwargs_into_chunks`).
        kwargs_chunk_spec: the same by name.
        output_merge_spec: `TensorChunkSpec` of each result (see `microbatch.merge_chunks`).
        use_full_backward: None, or what the schedule decides by itself.
        scale_grads: whether gradients are divided by the number of micro-batches.
    """

    _order: Callable[..., list[Action]]

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        use_full_backward: bool | None = None,
        scale_grads: bool = True,
    ) -> None:
        if use_full_backward is not None and use_full_backward == (type(self)._order is zero_bubble):
            raise ValueError(
                f"{type(self).__name__}(use_full_backward={use_full_backward}): the schedule decides this. Leave it "
                "out. [nd-arguments]"
            )
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )

    def actions_of(self, rank: int) -> list[Action]:
        """Return the actions of a rank, in order."""
        return type(self)._order(rank, self._group.size(), len(self._stages), self._count)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """Run 1F1B on ranks with several stages each, in turn.

    >>> import ndgrad
    >>> from ndgrad.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
    >>> ndgrad.distributed.init_process_group()
    >>> stages = [PipelineStage(ndgrad.nn.Linear(2, 2), i, 2) for i in range(2)]
    >>> schedule = ScheduleInterleaved1F1B(stages, 2, loss_fn=lambda out, target: (out - target).square().mean())
    >>> schedule.step(ndgrad.ones(4, 2), target=ndgrad.zeros(4, 2)).shape
    ndgrad.Size([4, 2])
    >>> ndgrad.distributed.destroy_process_group()
    """

    _order = staticmethod(interleaved)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Run GPipe on ranks with several stages each: all micro-batches go through a stage before the next one."""

    _order = staticmethod(gpipe)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """Run interleaved 1F1B with divided backward passes: ranks compute gradients of weights while they would wait.

    >>> import ndgrad
    >>> from ndgrad.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
    >>> ndgrad.distributed.init_process_group()
    >>> stages = [PipelineStage(ndgrad.nn.Linear(2, 2), i, 2) for i in range(2)]
    >>> schedule = ScheduleInterleavedZeroBubble(stages, 2, loss_fn=lambda out, target: (out - target).square().mean())
    >>> schedule.step(ndgrad.ones(4, 2), target=ndgrad.zeros(4, 2)).shape
    ndgrad.Size([4, 2])
    >>> ndgrad.distributed.destroy_process_group()
    """

    _order = staticmethod(zero_bubble)


def get_schedule_class(schedule_name: str) -> type[_Schedule]:
    """Return the class of a schedule by its name, in any case, such as `"1F1B"` or `"gpipe"`.

    Args:
        schedule_name: name of the class, with or without `Schedule` in front.

    >>> from ndgrad.distributed.pipelining.schedules import get_schedule_class
    >>> get_schedule_class("1f1b").__name__
    'Schedule1F1B'
    """
    found = {name.removeprefix("schedule"): cls for name, cls in _BY_NAME.items()} | _BY_NAME
    if schedule_name.lower() not in found:
        raise ValueError(
            f"Unknown schedule name '{schedule_name}'. The valid options are "
            f"{sorted(c.__name__ for c in _BY_NAME.values())}. [nd-option]"
        )
    return found[schedule_name.lower()]


_PipelineSchedule = _Schedule  # torch's name

_BY_NAME: dict[str, type[_Schedule]] = {
    cls.__name__.lower(): cls
    for cls in (
        ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble,
        PipelineScheduleSingle, PipelineScheduleMulti,
    )
}  # fmt: skip
