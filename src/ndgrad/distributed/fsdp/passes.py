"""Order of gathering units and sending gradients in the passes of a fully sharded module, forward and backward.

In forward, units are gathered in the order of their modules' calls. While a module computes, the next unit of the
previous pass's order is already under way. Backward goes through the units in reverse: the hook on a module's result,
or a node that reads its saved tensors, gathers the unit and starts the one before it. When all gradients of a unit are
complete, its block is freed and its reduce_scatter begins. At the end of the pass the pieces become the `.grad` of the
parameters.

Collectives must come in one order on all ranks, whatever each rank computes. Gathering and scattering have one
communicator each. Their orders are the reverse of the order of returns and of calls. A unit that a rank does not use in
its backward is still gathered in its turn, and scattered as zeros at the end of the pass. One small message at the end
tells which parameters any rank has used. Parameters that no rank has used keep their `.grad`.
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
from ndgrad.distributed.traffic import uncounted


class Passes:
    """The passes of all units under one root module."""

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        #: Units of the forward passes whose backward comes next. `called` is ordered by calls; scattering follows it
        #: backwards. `returned` is ordered by returns; gathering follows it backwards.
        self.called: list[Unit] = []
        self.returned: list[Unit] = []
        self._before: list[Unit] = []
        self._ended = False
        self._active = False
        #: Numbers of units in `returned` not yet gathered, and in `called` not yet scattered.
        self._gathered = self._scattered = 0
        self._used: set[tuple[int, int]] = set()
        self._complete: set[Unit] = set()

    # ----- forward -----

    def begin_forward(self) -> None:
        """Start a forward pass: the root module is called."""
        if self._active:  # left active by a failed backward pass
            self.restore()
            self._active = False
        if self._ended:
            self._before, self.called, self.returned, self._ended = self.called, [], [], False
            for unit in self.units:
                unit.outstanding = 0

    def enter(self, units: Sequence[Unit], recording: bool) -> None:
        """Prepare the units of a module that is called outside backward."""
        for unit in units:
            unit.check()
            unit.show_wholes(self)
            if recording and unit.is_trained():
                unit.outstanding += 1
                _last(self.called, unit)
        order = self._before
        chosen = units[-1].next_in_forward if units else []
        for unit in chosen:
            unit.begin_gather()
        if not chosen and units and units[-1] in order:
            place = order.index(units[-1]) + 1
            if place < len(order):
                order[place].begin_gather()

    def leave(self, units: Sequence[Unit]) -> None:
        """Note that the module has returned a result that requires grad, so that backward will come here."""
        for unit in units:
            _last(self.returned, unit)

    def end_forward(self) -> None:
        """End a forward pass of the root module: free units that were gathered in vain."""
        for unit in self.units:
            if unit.reshard_after_forward:
                unit.free()

    def is_left(self) -> bool:
        """True if a backward pass of the units has begun, has not ended, and no longer runs."""
        return self._active and thread.task is None

    def restore(self) -> None:
        """Give modules their pieces, if a failed pass has left whole parameters in them."""
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
        """Gather a unit for backward."""
        if thread.task is not None:
            self._begin_backward()
            place = self.returned.index(unit) if unit in self.returned else self._gathered
            for earlier in reversed(self.returned[place : self._gathered]):
                earlier.begin_gather()
            self._gathered = min(self._gathered, place)
            unit.finish_gather()
            if self._gathered == place and place:
                chosen = [self.returned.index(u) for u in unit.next_in_backward if u in self.returned]
                ahead = min(chosen) if chosen else place - 1
                for earlier in reversed(self.returned[ahead:place]):
                    earlier.begin_gather()
                self._gathered = min(ahead, place)
            for other in self.units:
                other.go_on()
        unit.finish_gather()

    def unpack(self, place: Place) -> Tensor:
        """Return the saved tensor at a place of a unit's block."""
        self.need(place.unit)
        found: Tensor = place.unit.tensor_at(place)
        return found

    # ----- backward: gradients -----

    def take_gradients(
        self, unit: Unit, numbers: list[int], grads: Sequence[Any], task: Any, again: bool
    ) -> Sequence[Any]:
        """Take the complete gradients of a module call; `again` for a call that a checkpoint repeated."""
        if task.wanted is not None:  # only for certain inputs: the engine needs them now
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
        """End the pass: averages become gradients."""
        self._active, self._ended = False, True
        for unit in reversed(self.returned[: self._gathered]):
            unit.begin_gather()  # matches the ranks whose backward got there
        self._scatter_in_order(at_end=True)
        for unit in self.units:
            if unit.reshard_after_backward:
                unit.show_pieces()
                unit.free()
        self._receive()
        late = [unit for unit in reversed(self.called) if unit.sync and unit.gradients]
        if late:  # a module rerun by a checkpoint with its own backward pass
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
        """Return the parameters that have a gradient on some rank."""
        keys = [(self.units.index(unit), i) for unit in units for i in range(len(unit.params))]
        flags = np.array([key in self._used for key in keys], np.uint8)
        with uncounted():  # an agreement of the ranks, like those of every collective
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
