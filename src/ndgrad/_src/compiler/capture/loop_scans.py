"""The scan of a Python loop whose roles are known: its carry, its rows, and the writes after it.

See ndgrad._src.compiler.capture.python_loops.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.capture.loop_numbers import LoopNumber
from ndgrad._src.compiler.capture.loop_rounds import LoopRound, Roles, RoundContext
from ndgrad._src.compiler.capture.loop_rows import RowRead, RowWrite, as_class_of, gather_rows, row_index, scatter_rows
from ndgrad._src.compiler.capture.loop_source import UNBOUND
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.python_loops import Loop

#: Most rounds over which a row is carried.
_FARTHEST = 32


class LoopScan:
    """The scan of a part of a loop whose roles are known."""

    def __init__(self, loop: Loop, roles: Roles, values: dict[str, Any]) -> None:
        self.loop = loop
        self.roles = roles
        #: Variables at the start. Derivatives run the body again after the loop has changed them.
        self.values = dict(values)
        stop = loop.note_.stop
        #: Condition that ends the loop, a tensor; None if the number of rounds is known.
        self.stop = stop if stop is not None and isinstance(values[stop], Variable) else None
        self.part = loop.start, loop.stop, loop.period
        #: Rounds of the loops around. Their derivatives run the body after they have ended.
        self.around = RoundContext()
        self.carry: list[Any] = []
        self.rows: list[Any] = []
        count = loop.rounds
        self._evaluate()
        # Variables, then values that only the code after the loop reads.
        # Copies of arrays that are written after the loop: its derivatives read the first values.
        self.carry += [tensor_ops.clone(values[n]) if n in roles.moves else values[n] for n in roles.carried]
        self.carry += [
            tensor_ops.clone(tensor_ops.expand(wrap(cls, np.zeros((), dtype)), shape=shape))
            for cls, shape, dtype in roles.last.values()
        ]
        self.sources: dict[Any, RowRead] = {}
        self.chains: dict[Any, RowRead] = {}
        for write in roles.writes.values():
            write.places = self._places(write.array, write.position, write.number)
            if len(np.unique(write.places)) != count:
                loop.refuse("rounds write the same row of an array again")
        by_array: dict[int, list[tuple[Any, RowWrite]]] = {}
        for key, write in roles.writes.items():
            by_array.setdefault(id(write.array), []).append((key, write))
        for writes in by_array.values():
            places = np.concatenate([w.places for _, w in writes])
            if len({w.position for _, w in writes}) > 1 or len(np.unique(places)) != len(places):
                loop.refuse("two statements write the same row of an array")
        for key, read in roles.reads.items():
            self._resolve(key, read, by_array.get(id(read.array), []))
        if self.stop is not None:  # number of rounds before the end
            self.carry.append(wrap(Tensor, np.zeros((), np.int64)))
        for key, array in self._number_rows.items():
            self.rows.append(wrap(key[1], array))

    def _evaluate(self) -> None:
        """Compute the values of all numbers."""
        loop, roles = self.loop, self.roles
        keys = [*roles.number_rows]
        final = [n for n in roles.final if isinstance(roles.final[n], LoopNumber)]
        sources = [*[roles.number_rows[k].source for k in keys], *[roles.final[n].source for n in final]]
        following, first = roles.recurrences or ([], [])
        lists, last = loop.sequences.carried_values(sources, following, first, loop.rounds)
        self._number_rows = {}
        for key, found in zip(keys, lists, strict=False):
            with np.errstate(over="ignore"):
                self._number_rows[key] = np.array(found, dtype=np.float64).astype(key[2])
        self.after: dict[str, Any] = dict(zip(roles.numbers, last, strict=True))
        self.after.update({n: found[-1] for n, found in zip(final, lists[len(keys) :], strict=True)})
        self.after.update({n: v for n, v in roles.final.items() if not isinstance(v, LoopNumber)})

    def _places(self, array: Any, position: int, number: LoopNumber) -> Any:
        """Return the rows that a number stands for, counted from the beginning of the array."""
        loop = self.loop
        if number.has_carry:
            following, first = self.roles.recurrences or ([], [])
            found = loop.sequences.carried_values([number.source], following, first, loop.rounds)[0][0]
        else:
            found = loop.values(number)
        if not all(type(v) is int for v in found):
            loop.refuse("an index is not an integer")
        places = np.array(found)
        size = array.shape[position]
        if places.min() < -size or places.max() >= size:
            loop.refuse("an index is out of range")
        return np.where(places < 0, places + size, places)

    def _resolve(self, key: Any, read: RowRead, writes: list[tuple[Any, RowWrite]]) -> None:
        """Decide where the rows of a read come from: the array before the loop, or an earlier round."""
        loop = self.loop
        places = [self._places(read.array, read.position + k, number) for k, number in enumerate(read.numbers)]
        for written, write in writes:
            if write.position != read.position or len(places) != 1:
                loop.refuse("it reads an array that it writes along another dimension")
            rounds = np.full(read.array.shape[read.position], -1)
            rounds[write.places] = np.arange(len(write.places))
            source = rounds[places[0]]
            own = np.arange(len(source))
            if (source == own).any() and written[2] != loop.key_of(read.numbers[0]):
                loop.refuse("a round reads a row that it writes at an index which is equal in some rounds only")
            source = np.where(source < own, source, -1)  # rows that are written later have their first values
            distance = np.unique((own - source)[source >= 0])
            if not len(distance):
                continue
            d = int(distance[0])
            if len(distance) > 1 or (source[d:] < 0).any() or d > _FARTHEST:
                loop.refuse("rounds read rows that other rounds have written, at varying distances")
            rest = tuple([item for p, item in enumerate(read.index) if p != read.position])
            read.write, read.distance = self.roles.writes[written], d
            self.chains[key] = read
            first = [read.array[row_index(read, int(p))] for p in places[0][:d]]
            read.first = first
            self.carry += [tensor_ops.clone(as_class_of(first[d - 1 - k], read.array)) for k in range(d)]
            read.index = tuple(rest)
            read.rows = written
            return
        self.sources[key] = read
        rows = gather_rows(read, places)
        self.rows.append(tensor_ops.clone(rows) if writes else rows)

    def step(self, body: Callable[..., Any], carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Run one round on the tensors of the scan."""
        roles, loop = self.roles, self.loop
        frame = LoopRound(loop, roles, self.values)
        given = iter(carry)
        carried = {name: LoopNumber(loop, f"c{k}", True) for k, name in enumerate(roles.numbers)}
        tensors = {n: next(given) for n in roles.carried}
        for n, value in self.values.items():
            if n in tensors:
                value = tensor_ops.clone(tensors[n]) if n in roles.in_place else tensors[n]
            elif n in roles.numbers:
                value = carried[n]
            elif n in roles.last:
                value = UNBOUND
            frame.given[n] = value
        for _ in roles.last:
            next(given)
        chains: dict[Any, list[Any]] = {}
        for key, read in self.chains.items():
            chains[key] = [next(given) for _ in range(read.distance)]
            frame.rows[key] = chains[key][-1]
        left = iter(rows)
        for key in self.sources:
            frame.rows[key] = next(left)
        for key in self._number_rows:
            frame.numbers[key] = next(left)
        with self.around.resumed():
            outer = loop.start, loop.stop, loop.period
            loop.start, loop.stop, loop.period = self.part
            try:
                made = frame.run(body)
            finally:
                loop.start, loop.stop, loop.period = outer
        if {*frame.written} != {*roles.writes}:
            loop.refuse("rounds differ in the rows that they write")
        if [*map(id, [items for items, _ in frame.appended])] != [*map(id, roles.lists)]:
            loop.refuse("rounds differ in the lists that they append to")
        following = [made[n] for n in roles.carried] + [made[n] for n in roles.last]
        for key, read in self.chains.items():
            row = frame.written[read.rows]
            if read.index and any(item != slice(None) for item in read.index):
                row = row[read.index]
            following += [row, *chains[key][:-1]]
        if self.stop is not None:
            following.append(tensor_ops.add(next(given), tensor_ops.logical_not(tensors[self.stop])))
        if not all(isinstance(v, Variable) for v in following):
            loop.refuse("a variable changes its kind")
        ys = [frame.written[key] for key in roles.writes]
        ys += [frame.as_tensor(value, None) for _, value in frame.appended]
        return following, ys

    def finish(self, values: dict[str, Any], carry: Sequence[Any], stacks: Sequence[Any]) -> None:
        """Write the results to the arrays, lists and variables of the loop."""
        roles, loop = self.roles, self.loop
        count = loop.rounds
        for (_, write), stack in zip(roles.writes.items(), stacks, strict=False):
            loop.own_in_place(write.array)
            scatter_rows(write, stack)
        rows = [tensor_ops.unbind(stack, dim=0) for stack in stacks[len(roles.writes) :]]
        for t in range(count if roles.lists else 0):
            for items, column in zip(roles.lists, rows, strict=True):
                items.append(column[t])
        last = dict(zip(roles.carried, carry, strict=False))
        objects = {n: values[n] for n in roles.moves}
        for n in roles.carried:
            if n not in roles.moves:
                values[n] = last[n]
        final: dict[str, str] = {}
        for n in roles.moves:
            place = n
            for _ in range(count % count_until_repeat(roles.moves)):
                place = roles.moves[place]
            final[n] = place
        for n, place in final.items():
            loop.own_in_place(objects[place])
            objects[place][...] = last[n]
            values[n] = objects[place]
        for n, value in zip(roles.last, carry[len(roles.carried) :], strict=False):
            values[n] = value
        if self.stop is not None:
            self._select_numbers(values, carry[-1])
        values.update(self.after)

    def _select_numbers(self, values: dict[str, Any], executed: Any) -> None:
        """Set the numbers that the code after the loop reads to those of the last round before the end."""
        loop, roles = self.loop, self.roles
        found: dict[str, tuple[str, list[Any]]] = {}
        following, first = roles.recurrences or ([], [])
        for name, source, start in zip(roles.numbers, following, first, strict=True):
            found[name] = source, [start]
        for name, value in roles.final.items():
            if isinstance(value, LoopNumber):
                found[name] = value.source, [values[name]]
        found = {n: v for n, v in found.items() if n in loop.note_.live}
        if not found:
            return
        if self.part != (0, loop.count, 1):
            loop.refuse(f"{next(iter(found))} is read after a loop of several parts, whose end depends on values of tensors")
        lists, _ = loop.sequences.carried_values([source for source, _ in found.values()], following, first, loop.rounds)
        for (name, (_, start)), numbers in zip(found.items(), lists, strict=True):
            start = start if type(start[0]) is type(numbers[0]) else [numbers[0]]  # the first round assigns it
            kinds = {type(v) for v in (*start, *numbers)}
            if kinds not in ({int}, {float}):
                loop.refuse(f"{name} is a number of several kinds, whose last value depends on values of tensors")
            table = wrap(Tensor, np.array([*start, *numbers]))
            self.after[name] = loop.as_number(table[executed])


def bind_variables(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return the body with the present values of the variables that it only reads. Derivatives run it again, after the
    code behind the loop has assigned other values.
    """
    assert isinstance(body, types.FunctionType)
    cells = []
    for cell in body.__closure__ or ():
        try:
            cells.append(types.CellType(cell.cell_contents))
        except ValueError:  # no value yet
            cells.append(types.CellType())
    return types.FunctionType(body.__code__, body.__globals__, body.__name__, body.__defaults__, tuple(cells))


def count_until_repeat(moves: dict[str, str]) -> int:
    """Return the number of rounds after which a permutation of variables repeats."""
    order, now = 1, dict(moves)
    while any(n != m for n, m in now.items()):
        now = {n: moves[m] for n, m in now.items()}
        order += 1
    return order
