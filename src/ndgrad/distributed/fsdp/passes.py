"""Which unit is gathered when, and when gradients leave: the passes of a fully sharded module, forward and backward.

Forward, units are gathered one after the other as their modules are called, and the next one, as the pass before had
it, is under way while a module computes. Backward goes through them in reverse: the hook on a module's result, or a
node that asks for what it saved, gathers the unit and sends for the one before it. When all gradients of a unit are
there its block is freed and its reduce_scatter begins; at the end of the pass the pieces become the `.grad` of the
parameters.

Collectives must come in one order on all ranks, whatever each of them computes. Gathering and scattering have a
communicator each, and each its own order, the reverse of that of calls or returns: a unit that a rank does not use in
its backward is gathered in its turn all the same, and scattered at the end of the pass, as zeros. Which parameters have
been used by any rank is one small message at the end: those that none has used keep the `.grad` that they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import wrap
from ndgrad._src.engine.callbacks import queue_callback
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import transport
from ndgrad.distributed.fsdp.unit import Place, Unit
from ndgrad.distributed.reductions import ReduceOp


class Passes:
    """Those of all units under one root module."""

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        #: the units of the forward passes whose backward comes next, in the order in which their modules were called,
        #: which is that of scattering, backwards, and returned, which is that of gathering
        self.called: list[Unit] = []
        self.returned: list[Unit] = []
        self._before: list[Unit] = []
        self._ended = False
        self._active = False
        #: how many of `returned` are still to be gathered, and of `called` to be scattered
        self._gathered = self._scattered = 0
        self._used: set[tuple[int, int]] = set()
        self._complete: set[Unit] = set()

    # ----- forward -----

    def begin_forward(self) -> None:
        """The root module is called."""
        if self._active:  # a backward pass that failed has left it
            self.restore()
            self._active = False
        if self._ended:
            self._before, self.called, self.returned, self._ended = self.called, [], [], False
            for unit in self.units:
                unit.outstanding = 0

    def enter(self, units: Sequence[Unit], recording: bool) -> None:
        """A module with these units is called outside backward."""
        for unit in units:
            unit.check()
            unit.show_wholes(self)
            if recording and unit.is_trained():
                unit.outstanding += 1
                _last(self.called, unit)
        order = self._before
        if units and units[-1] in order:
            place = order.index(units[-1]) + 1
            if place < len(order):
                order[place].begin_gather()

    def leave(self, units: Sequence[Unit]) -> None:
        """The module has returned what requires grad: backward will come here."""
        for unit in units:
            _last(self.returned, unit)

    def end_forward(self) -> None:
        """The root module has been called: what was sent for in vain is freed."""
        for unit in self.units:
            if unit.reshard_after_forward:
                unit.free()

    def is_left(self) -> bool:
        """Whether a backward pass of the units has begun, has not ended, and runs no more."""
        return self._active and thread.task is None

    def restore(self) -> None:
        """Let modules have their pieces, if a pass that failed has left them whole parameters."""
        for unit in self.units:
            unit.show_pieces()

    # ----- backward: parameters -----

    def _begin_backward(self) -> None:
        if not self._active:
            self._active = True
            self._gathered, self._scattered = len(self.returned), len(self.called)
            self._used.clear()
            self._complete.clear()
            queue_callback(self._end_backward)

    def need(self, unit: Unit) -> None:
        """Backward needs the parameters of a unit."""
        if thread.task is not None:
            self._begin_backward()
            place = self.returned.index(unit) if unit in self.returned else self._gathered
            for earlier in reversed(self.returned[place : self._gathered]):
                earlier.begin_gather()
            self._gathered = min(self._gathered, place)
            unit.finish_gather()
            if self._gathered == place and place:
                self.returned[place - 1].begin_gather()
                self._gathered = place - 1
            for other in self.units:
                other.go_on()
        unit.finish_gather()

    def unpack(self, place: Place) -> Tensor:
        """What a node has saved of a unit's block."""
        self.need(place.unit)
        found: Tensor = place.unit.tensor_at(place)
        return found

    # ----- backward: gradients -----

    def take_gradients(
        self, unit: Unit, numbers: list[int], grads: Sequence[Any], task: Any, again: bool
    ) -> Sequence[Any]:
        """The gradients of a call of a module are complete; `again`, of one that a checkpoint made."""
        if task.wanted is not None:  # of certain inputs alone: the engine gets them, now
            return self._now(unit, numbers, grads)
        self._begin_backward()
        unit.add_gradients(numbers, grads)
        if not again:
            unit.outstanding = max(unit.outstanding - 1, 0)
        if not unit.outstanding:
            self._complete.add(unit)
            if unit.reshard_after_backward:
                unit.show_pieces()
                unit.free()
            self._scatter_in_order(at_end=False)
        for other in self.units:
            other.go_on()
        return (None,) * len(numbers)

    def _scatter_in_order(self, at_end: bool) -> None:
        while self._scattered:
            unit = self.called[self._scattered - 1]
            if not at_end and unit not in self._complete:
                return
            self._scattered -= 1
            self._scatter(unit)

    def _scatter(self, unit: Unit) -> None:
        if unit.sync:
            number = self.units.index(unit)
            self._used.update((number, i) for i in unit.gradients)
            unit.begin_scatter()

    def _end_backward(self) -> None:
        """The pass has ended: averages become gradients."""
        self._active, self._ended = False, True
        for unit in reversed(self.returned[: self._gathered]):
            unit.begin_gather()  # as those ranks do whose backward got there
        self._scatter_in_order(at_end=True)
        for unit in self.units:
            if unit.reshard_after_backward:
                unit.show_pieces()
                unit.free()
        self._receive()
        late = [unit for unit in reversed(self.called) if unit.sync and unit.gradients]
        if late:  # a module that was run again by a checkpoint with a backward pass of its own
            for unit in late:
                self._scatter(unit)
            self._receive()

    def _receive(self) -> None:
        under_way = [unit for unit in reversed(self.called) if unit.is_scattering()]
        for unit in under_way:
            unit.begin_sum()
        if not under_way:
            return
        used = self._used_by_any(under_way)
        for unit in under_way:
            number = self.units.index(unit)
            for i, piece in unit.finish_scatter().items():
                if (number, i) in used:
                    unit.give(i, piece)

    def _used_by_any(self, units: list[Unit]) -> set[tuple[int, int]]:
        """The parameters that have a gradient on some rank."""
        keys = [(self.units.index(unit), i) for unit in units for i in range(len(unit.params))]
        flags = np.array([key in self._used for key in keys], np.uint8)
        for group in (units[0].scatters, units[0].replicas):
            if group is not None:
                transport.all_reduce(group, flags, ReduceOp.MAX).wait()
        return {key for key, flag in zip(keys, flags, strict=True) if flag}

    def _now(self, unit: Unit, numbers: list[int], grads: Sequence[Any]) -> Sequence[Any]:
        kept, unit.gradients = unit.gradients, {}
        unit.add_gradients(numbers, grads)
        has = set(unit.gradients)
        unit.begin_scatter()
        unit.begin_sum()
        found = unit.finish_scatter()
        unit.gradients = kept
        return [wrap(Tensor, found[i]) if i in has else None for i in numbers]


def _last(units: list[Unit], unit: Unit) -> None:
    if unit in units:
        units.remove(unit)
    units.append(unit)
