"""A stage of a pipeline: a part of a model on one rank that receives, computes and sends micro-batches.

A stage receives the results of the previous stage as leaves of its own graph, and sends its results on. In backward it
receives the gradients of its results and sends those of its inputs. Messages never block: the step waits for sends at
its end, and for receives when they are needed. Each message has its own tag, made of the micro-batch, the stage and the
direction, so schedules may have any order that lets every stage get its inputs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.core.variable import wrap
from ndgrad._src.engine.backward_api import backward as run_backward
from ndgrad._src.foundations.devices import device as as_device
from ndgrad._src.tensor.functions.creation import zeros_like
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import transport
from ndgrad.distributed.groups import ProcessGroup, group_of, twin_group
from ndgrad.distributed.pipelining.split_backward import SplitBackward

if TYPE_CHECKING:
    from ndgrad.distributed.agreement import Pending
    from ndgrad.nn.modules.module import Module

#: The largest number of tensors passed from a stage to the next.
_MOST = 16


class PipelineStage:
    """Stage of a pipeline: a module that takes the results of the previous stage. Rank i of the n ranks of `group` has
    stages i, i + n, ...

    The first step finds out the shapes and dtypes of inputs. Examples of the arguments and results of a micro-batch may
    be given as `input_args` and `output_args`; other shapes and dtypes then raise. The inputs are moved to `device`.

    Args:
        submodule: module of this stage.
        stage_index: number of this stage.
        num_stages: number of stages, a multiple of the number of ranks.
        device: device to which inputs are moved.
        input_args: example of the arguments of a micro-batch. Other shapes and dtypes raise an error.
        output_args: example of the results of a micro-batch. Other shapes and dtypes raise an error.
        group: group whose ranks have the stages. The default is the world.
        dw_builder: must be None.

    >>> import ndgrad
    >>> from ndgrad.distributed.pipelining import PipelineStage, Schedule1F1B
    >>> ndgrad.distributed.init_process_group()
    >>> stage = PipelineStage(ndgrad.nn.Linear(2, 1), 0, 1)
    >>> schedule = Schedule1F1B(stage, 2, loss_fn=ndgrad.nn.functional.mse_loss)
    >>> losses = []
    >>> schedule.step(ndgrad.ones(4, 2), target=ndgrad.zeros(4, 1), losses=losses).shape, len(losses)
    (ndgrad.Size([4, 1]), 2)
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any = None,
        input_args: Any = None,
        output_args: Any = None,
        group: Any = None,
        dw_builder: Any = None,
    ) -> None:
        found = group_of(group)
        if found is None:
            raise ValueError("PipelineStage: this process is not in the group. Make it on the members alone. [nd-rank]")
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages} [nd-range]")
        if num_stages % found.size():
            raise ValueError(
                f"PipelineStage: {num_stages} stages cannot be dealt to {found.size()} ranks evenly. Give a multiple "
                f"of {found.size()}. [nd-divisible]"
            )
        if stage_index % found.size() != found.rank():
            raise ValueError(
                f"PipelineStage: stage {stage_index} lies on rank {stage_index % found.size()} of the group, and this "
                f"is rank {found.rank()}: rank i has stages i, i + {found.size()}, ... [nd-rank]"
            )
        if dw_builder is not None:
            raise NotImplementedError(
                "PipelineStage(dw_builder=...): backward is not split here. Leave it out. [nd-unsupported]"
            )
        self.device = None if device is None else as_device(device)
        examples = (input_args, output_args)
        self._examples = tuple(None if e is None else [_form(t) for t in _as_list(e)] for e in examples)
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.group: ProcessGroup = twin_group(found, "pipelines")  # keeps its tags apart from the user's
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        #: Shapes and dtypes of inputs from the previous stage, known after the first micro-batch of its kind.
        self._comes: list[tuple[tuple[int, ...], str, bool]] | None = None
        self._goes: list[tuple[tuple[int, ...], str, bool]] | None = None
        self._taken: dict[int, tuple[list[Any], list[Any]]] = {}
        self._sending: list[Pending] = []
        #: Micro-batches whose backward pass has run for inputs, and not yet for parameters.
        self._divided: dict[int, SplitBackward] = {}
        #: Tensors handed over between stages on the same rank.
        self.beside: dict[tuple[int, int, str], list[Any]] = {}

    # ----- neighbours -----

    def _rank_of(self, stage: int) -> int:
        return stage % self.group.size()

    def _tag(self, stage: int, number: int, direction: int, i: int) -> int:
        return (((number + 1) * self.num_stages + stage) * 2 + direction) * _MOST + i

    def _send(self, arrays: Sequence[Any], stage: int, number: int, direction: int) -> None:
        peer = self._rank_of(stage)
        if peer == self.group.rank():
            self.beside[stage, number, "fb"[direction]] = list(arrays)
            return
        for i, array in enumerate(arrays):
            self._sending.append(transport.send(self.group, array, peer, self._tag(stage, number, direction, i)))

    def _receive(self, like: Sequence[tuple[tuple[int, ...], str, bool]], number: int, direction: int) -> list[Any]:
        """Receive from a neighbour: forward from the previous stage, backward from the next."""
        source = self.stage_index - 1 if not direction else self.stage_index + 1
        peer = self._rank_of(source)
        if peer == self.group.rank():
            return self.beside.pop((self.stage_index, number, "fb"[direction]))
        arrays = [np.empty(shape, as_dtype(dtype).numpy) for shape, dtype, _ in like]
        waits = [
            transport.receive(self.group, array, peer, self._tag(self.stage_index, number, direction, i))
            for i, array in enumerate(arrays)
        ]
        for pending in waits:
            pending.wait()
        return arrays

    # ----- one micro-batch -----

    def begin(self) -> None:
        """Begin a step: forget micro-batches and their shapes, which may change."""
        self._taken.clear()
        self._divided.clear()
        self.beside.clear()
        self._sending = []
        self._comes = self._goes = None

    def forward_one(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], recording: bool) -> Any:
        """Compute a micro-batch, and send the results on.

        Args:
            number: number of the micro-batch.
            args: arguments of the first stage.
            kwargs: keyword arguments of the module.
            recording: whether a backward pass follows.
        """
        received: list[Any] = []
        if not self.is_first:
            received = self._come_in(number, recording)
            args = tuple(received)
        elif self.device is not None:
            args = tuple(a.to(self.device) if isinstance(a, Tensor) else a for a in args)
        self._compare("argument", 0, args)
        out = self.submod(*args, **kwargs)
        outs = _as_list(out)
        self._compare("result", 1, outs)
        for t in outs if not self.is_last else ():
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"stage {self.stage_index} of {self.num_stages} returned {type(t).__name__}: what goes to the next "
                    "stage are tensors. [nd-type]"
                )
        if not self.is_last:
            self._go_out(outs, number)
        if recording:
            self._taken[number] = received, outs
        return out

    def _compare(self, what: str, which: int, found: Sequence[Any]) -> None:
        """Raise if arguments or results differ from the examples in shape or dtype."""
        wanted = self._examples[which]
        if wanted is not None and (now := [_form(t) for t in found if isinstance(t, Tensor)]) != wanted:
            raise RuntimeError(
                f"stage {self.stage_index}: its {what}s are {now}, and the examples given to PipelineStage {wanted}. "
                "[nd-shape]"
            )

    def _come_in(self, number: int, recording: bool) -> list[Any]:
        peer = self._rank_of(self.stage_index - 1)
        if self._comes is None:
            self._comes = self.beside.pop((self.stage_index, -1, "f")) if peer == self.group.rank() else self._ask(peer)
        arrays = self._receive(self._comes, number, 0)
        tensors: list[Any] = [wrap(Tensor, array) for array in arrays]
        if self.device is not None:
            tensors = [t.to(self.device) for t in tensors]
        for t, (_, _, with_gradient) in zip(tensors, self._comes, strict=True):
            t.requires_grad_(recording and with_gradient)
        return tensors

    def _ask(self, peer: int) -> list[Any]:
        """Ask the previous stage for the shapes and dtypes of its results."""
        size = np.zeros(1, np.int64)
        transport.receive(self.group, size, peer, self._tag(self.stage_index, -1, 0, 0)).wait()
        told = np.empty(int(size[0]), np.uint8)
        transport.receive(self.group, told, peer, self._tag(self.stage_index, -1, 0, 1)).wait()
        return [(tuple(shape), dtype, gradient) for shape, dtype, gradient in json.loads(told.tobytes())]

    def _go_out(self, outs: Sequence[Any], number: int) -> None:
        if len(outs) > _MOST:
            raise ValueError(
                f"stage {self.stage_index}: {len(outs)} results; at most {_MOST} go to the next stage. [nd-range]"
            )
        now = [(tuple(t.shape), t.dtype.name, bool(t.requires_grad)) for t in outs]
        peer = self._rank_of(self.stage_index + 1)
        if self._goes is None:
            self._goes = now
            told: Any = np.frombuffer(json.dumps(now).encode(), np.uint8)
            if peer == self.group.rank():
                self.beside[self.stage_index + 1, -1, "f"] = now
            else:
                self._send([np.array([told.size]), told], self.stage_index + 1, -1, 0)
        elif now != self._goes:
            raise RuntimeError(
                f"stage {self.stage_index}: micro-batch {number} gives {now}, and the first gave {self._goes}. All "
                "micro-batches of a step must give results of one shape and dtype. [nd-shape]"
            )
        self._send([np.array(t.detach()._array, order="C") for t in outs], self.stage_index + 1, number, 0)

    def backward_one(self, number: int, loss: Any = None, divisor: int = 1, divided: bool = False) -> None:
        """Run the backward pass of a micro-batch, of its loss divided by `divisor` on the last stage. Send the
        gradients of the inputs to the previous stage. If `divided`, leave the gradients of parameters to
        `backward_weights`.

        Args:
            number: number of the micro-batch.
            loss: loss of the micro-batch, on the last stage.
            divisor: number by which the loss is divided.
            divided: whether gradients of parameters are left to `backward_weights`.
        """
        received, outs = self._taken.pop(number)
        starts: list[Any] = []
        grads: list[Any] = []
        if self.is_last:
            starts = [loss / divisor if divisor != 1 else loss]
            grads = [None]
        else:
            assert self._goes is not None
            wanted = [(i, t) for i, t in enumerate(outs) if t.requires_grad]
            if wanted:
                arrays = self._receive([self._goes[i] for i, _ in wanted], number, 1)
                starts, grads = [t for _, t in wanted], [wrap(Tensor, g) for g in arrays]
        if divided and starts:
            parts = self._divided[number] = SplitBackward(starts, grads, received)
            found = iter(parts.run_inputs())
            inputs = [next(found) if t.requires_grad else None for t in received]
        else:
            if starts:
                run_backward(starts, grads)
            inputs = [t.grad for t in received]
        if self.is_first:
            return
        sent = []
        for t, grad in zip(received, inputs, strict=True):
            if t.requires_grad:
                sent.append(np.array((zeros_like(t) if grad is None else grad).detach()._array, order="C"))
        self._send(sent, self.stage_index - 1, number, 1)

    def backward_weights(self, number: int) -> None:
        """Add the gradients of parameters of a micro-batch whose inputs have theirs.

        Args:
            number: number of the micro-batch.
        """
        parts = self._divided.pop(number, None)
        if parts is not None:
            parts.run_weights(list(self.submod.parameters()))

    def finish(self) -> None:
        """End a step: wait until all sends have completed."""
        for pending in self._sending:
            pending.wait()
        self._sending = []

    def go_on(self) -> None:
        """Let MPI make progress."""
        self._sending = [pending for pending in self._sending if not pending.is_completed()]


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def _form(t: Any) -> tuple[tuple[int, ...], str]:
    return tuple(t.shape), t.dtype.name
