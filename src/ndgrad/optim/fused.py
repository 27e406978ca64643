"""Steps of an optimizer over the memory of all parameters of a group, in place.

An optimizer is a rule for one parameter (`Optimizer._update`), which consists of elementwise operations. Once per step
it runs on symbols (ndgrad._src.ops.formulas) instead of a parameter, its gradient and its state. The recorded
formula runs over the memory of all parameters: by a native kernel in one call, or without native kernels by NumPy's
ufuncs (ndgrad.optim.array_program). The operations are those of the rule in its order, each rounded like NumPy's, so
all paths give the same parameters to the last bit. On a GPU one kernel updates all parameters; there halves are rounded
once in a step, and other last digits may differ too.

The facts about similar parameters and states are kept as a `_Plan`. The next step only checks that they are still the
same objects over the same memory.

The ordinary path handles parameters that are not plain dense arrays of one dtype, rules with other operations, settings
that are tensors, and steps that are differentiated, traced or watched. `foreach` and `fused`, if an optimizer has it,
have torch's meaning: False for both selects the ordinary path.
"""

from __future__ import annotations

from itertools import chain, repeat
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import device_kernels, graph_recording, native_kernels
from ndgrad._src.arrays.addresses import pointer
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.placement import device_of
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import modes, process
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.core.versions import InferenceStorage, storage_of
from ndgrad._src.ops.formulas import Formula, NoFormula, Signature, Symbol
from ndgrad.optim.array_program import program

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Group, Optimizer, State

#: Cost of Python's part in the update of one parameter, in elements.
_EACH = 512
#: Key of parameters that are updated alike: the numbers in the state, the dtype, and the names of the arrays there.
_Bucket = dict[tuple[Any, ...], list[tuple[Any, Any, Any]]]


class Plans:
    """Plans of an optimizer's last steps for the parameters of its groups, by the id of a group.

    A step has the same result with and without them, so a compiled step does not depend on them.
    """

    __slots__ = ("of_group",)

    def __init__(self) -> None:
        self.of_group: dict[int, _Plan] = {}

    def __environment__(self) -> list[Any]:
        """Return nothing: a trace does not depend on it (ndgrad._src.compiler.capture.environment)."""
        return []


def update_together(optimizer: Optimizer, group: Group) -> bool:
    """Update the parameters of a group like the last step, if all of them are unchanged."""
    plan = optimizer._plans.of_group.get(id(group))
    if plan is None or not _can_fuse(optimizer, group):  # a traced step must leave nothing behind
        return False
    if plan.update(optimizer, group):
        return True
    del optimizer._plans.of_group[id(group)]
    return False


def update_alike(
    optimizer: Optimizer, group: Group, found: list[tuple[Tensor, Tensor, State]]
) -> list[tuple[Tensor, Tensor, State]]:
    """Update the parameters whose rule is a formula, and return the others. `found` has parameters with their gradients
    and states.
    """
    if not _can_fuse(optimizer, group):
        return found
    if not _is_worth_it(found):
        return found
    left: list[tuple[Tensor, Tensor, State]] = []
    buckets: _Bucket = {}
    for one in found:
        key = _kind(optimizer, *one)
        if key is None:
            left.append(one)
        else:
            buckets.setdefault(key, []).append(one)
    for alike in buckets.values():
        plan = _update(optimizer, group, alike)
        if plan is None:
            left += alike
        elif plan.lone and len(alike) == len(found):
            plan.order(optimizer, group["params"])
            optimizer._plans.of_group[id(group)] = plan
    return left


def _is_worth_it(found: list[tuple[Tensor, Tensor, State]]) -> bool:
    """True if there is enough work for kernels: always on a device."""
    work = _EACH * len(found)
    for p, _, _ in found:
        work += p._array.size
        if work >= native_kernels.SMALLEST or is_on_device(p._array):
            return True
    return False


def _can_fuse(optimizer: Optimizer, group: Group) -> bool:
    if optimizer._numbers_in_state is None or type(optimizer)._update.__module__.partition(".")[0] != "ndgrad":
        return False
    if group.get("foreach") is False and group.get("fused", False) is False:
        return False
    if process.dispatching or (process.busy and not modes().only_no_grad()):
        return False
    return not any(isinstance(v, Variable) for name, v in group.items() if name != "params")


def _kind(optimizer: Optimizer, p: Any, grad: Any, state: State) -> tuple[Any, ...] | None:
    """Return the key of parameters that can be updated together, or None if kernels do not support the parameter."""
    array = p._array
    if not _plain(p, array, True) or not _plain(grad, array, False):
        return None
    key: list[Any] = [array.dtype, device_of(array)]
    numbers: Any = optimizer._numbers_in_state
    for name, value in state.items():
        key.append(name)
        if name in numbers:
            if not isinstance(value, Variable) or not isinstance(value._array, (np.ndarray, np.generic)):
                return None
            key.append(value._array.item())
        elif not _plain(value, array, True):
            return None
    return tuple(key)


def _plain(t: Any, like: Any, written: bool) -> bool:
    """True if a tensor is a dense array like another one."""
    if t.__class__ not in TENSOR_TYPES:
        return False
    array = t._array
    if array.__class__ is not like.__class__ or array.dtype != like.dtype or array.shape != like.shape:
        return False
    if t._storage.__class__ is InferenceStorage:
        return False
    if is_on_device(array):
        return device_kernels.kernels() is not None and array.size > 0 and native_kernels.is_dense(array)
    if array.__class__ is not np.ndarray or not native_kernels.has_kernels(array.dtype):
        return False
    return bool(array.flags.carray) if written else native_kernels.is_dense(array)


class _Written:
    """The rule of an optimizer as a formula, for parameters with similar states."""

    def __init__(self, optimizer: Optimizer, group: Group, like: State) -> None:
        numbers: Any = optimizer._numbers_in_state
        self.formula = Formula()
        p, grad = self.formula.input(), self.formula.input()
        state: Any = {name: value if name in numbers else self.formula.input() for name, value in like.items()}
        #: The arrays of the state that the rule reads.
        self.names = [name for name in state if name not in numbers]
        before = {"": p.number, **{name: state[name].number for name in self.names}}
        optimizer._update(p, -grad if group.get("maximize") else grad, state, group)  # type: ignore[arg-type]
        after = {"": p, **{name: value for name, value in state.items() if isinstance(value, Symbol)}}
        #: The values it writes: the parameter (""), and arrays of the state, some of them new.
        self.changed = [name for name, symbol in after.items() if before.get(name) != symbol.number]
        self.signature = self.formula.signature([after[name] for name in self.changed])
        #: The numbers of the state afterwards.
        self.numbers = {name: state[name] for name in numbers if name in state}


    @property
    def targets(self) -> tuple[int | None, ...]:
        """Return, for each output, the input in the same memory."""
        inputs = {"": 0, **{name: place for place, name in enumerate(self.names, 2)}}
        return tuple([inputs.get(name) for name in self.changed])


def _update(optimizer: Optimizer, group: Group, alike: list[tuple[Any, Any, Any]]) -> _Plan | None:
    """Update similar parameters; return None without any change if the rule is no formula."""
    try:
        rule = _Written(optimizer, group, alike[0][2])
        made: list[tuple[Any, str, Any]] = []
        rows: list[_Row] = []
        sets: list[list[Any]] = []
        for p, g, state in alike:
            tensors = {"": p, **{name: state[name] for name in rule.names}}
            for name in rule.changed:
                if name not in tensors:
                    tensors[name] = wrap(
                        TENSOR_TYPES[p.__class__], library_of(p._array).empty(p._array.shape, p._array.dtype)
                    )
                    made.append((state, name, tensors[name]))
            written = [tensors[name] for name in rule.changed]
            inputs = [p._array, g._array, *(state[name]._array for name in rule.names)]
            sets.append([*(t._array for t in written), *inputs])
            rows.append(_Row(p, p._array, state, [(t, t._array) for t in written]))
        if _overlap(len(rule.changed), sets):
            return None
        plan = _Plan(optimizer, rule, rows, sets)
        plan.run(optimizer, group, rule, [g._array for _, g, _ in alike])
    except NoFormula:
        return None
    for state, name, t in made:
        state[name] = t
    for row in rows:
        if row.state:
            optimizer.state[row.p] = row.state
    if made:
        plan.lone = False  # the next step reads them too
    return plan


class _Row(NamedTuple):
    """A parameter and the tensors that a step writes, each with its array."""

    p: Any
    array: Any
    state: Any
    written: list[tuple[Any, Any]]


class _Plan:
    """Parameters that are updated together, and their memory.

    The check for changes since the last step handles all parameters at once, list by list. For a hundred parameters, a
    Python loop would take longer than the update itself.
    """

    def __init__(self, optimizer: Optimizer, rule: _Written, rows: list[_Row], sets: list[list[Any]]) -> None:
        self.rows = rows
        self.changed = rule.changed
        self.names = rule.names
        #: Index of the gradient in a set.
        self.place = len(rule.changed) + 1
        #: The arrays of each parameter that are written and read; the gradient is not kept.
        self.sets = sets
        self.dtype = rows[0].array.dtype
        self.kernels = native_kernels.step_kernels(rows[0].array)
        self.signature: Signature | None = None
        self.prepare(rule)
        if self.kernels is not None:
            self.table, self.chunks = self.kernels.formula_memory(sets)
        for arrays in sets:
            arrays[self.place] = None
        self.written = [t for row in rows for t, _ in row.written]
        self.arrays = [a for row in rows for _, a in row.written]
        self.own = {id(a) for a in self.arrays}
        #: True if no written array is a part of another.
        self.lone = all(a.base is None for a in self.arrays)

    def order(self, optimizer: Optimizer, params: list[Any]) -> None:
        """Note the expected state of the next step: the parameters of the group, of which some may have had no
        gradient, and the contents of the others' states.
        """
        numbers: Any = optimizer._numbers_in_state
        self.params = list(params)
        self.updated = [row.p for row in self.rows]
        self.states = [row.state for row in self.rows]
        updated = {id(p) for p in self.updated}
        self.idle = [p for p in params if id(p) not in updated]
        self.keys = [*chain.from_iterable(self.states)]
        self.numbers = [name for name in self.states[0] if name in numbers]
        self.shapes = [row.array.shape for row in self.rows]
        #: Tensors that must keep their arrays.
        self.tensors: list[Any] = [*self.updated]
        self.held: dict[str, list[Any]] = {}
        for name in self.states[0]:
            if name not in numbers:
                self.held[name] = [state[name] for state in self.states]
                self.tensors += self.held[name]
        self.memory = [t._array for t in self.tensors]

    def prepare(self, rule: _Written) -> None:
        """Generate the code for a rule, which may change in the next step; raise NoFormula if there is none."""
        if rule.signature == self.signature:
            return
        if self.kernels is None or not self.kernels.has_formula(rule.signature, self.dtype):
            if is_on_device(self.rows[0].array):
                raise NoFormula(f"{rule.signature} on a device")
            self.kernels = None
            self.program = program(rule.signature, rule.targets, self.dtype)
        self.signature = rule.signature

    def update(self, optimizer: Optimizer, group: Group) -> bool:
        """Run the next step if nothing has changed; otherwise change nothing."""
        gradients = self._gradients(optimizer, group["params"])
        if gradients is None:
            return False
        if self.kernels is not None:
            self.kernels.rouse(self.chunks)  # while the rule is recorded
        try:
            rule = _Written(optimizer, group, self.rows[0].state)
            if rule.changed != self.changed or rule.names != self.names:
                return False
            self.prepare(rule)
        except NoFormula:
            return False
        self.run(optimizer, group, rule, gradients)
        return True

    def _gradients(self, optimizer: Optimizer, params: list[Any]) -> list[Any] | None:
        """Return the gradients, if no parameter or state has been replaced or moved since the last step."""
        states = [optimizer.state.get(p) for p in self.updated]
        if not _are(params, self.params) or any(p.grad is not None for p in self.idle):
            return None
        if not (_are(states, self.states) if self.keys else not any(states)):  # a rule without state leaves none
            return None
        if [*chain.from_iterable(self.states)] != self.keys:
            return None
        if not all(_are([state[name] for state in self.states], tensors) for name, tensors in self.held.items()):
            return None
        if not _are([t._array for t in self.tensors], self.memory):
            return None
        if not all(_one_number([state[name] for state in self.states]) for name in self.numbers):
            return None
        gradients = [p.grad for p in self.updated]
        if not TENSOR_TYPES.keys() >= {*map(type, gradients)}:  # None has no such class
            return None
        if InferenceStorage in map(type, [g._storage for g in gradients]):
            return None
        found = [g._array for g in gradients]
        return found if self._are_alike(found) else None

    def _are_alike(self, gradients: list[Any]) -> bool:
        """True if gradients have the memory layout of their parameters, without sharing their memory."""
        like = self.memory[0].__class__
        return (
            all(map(is_, map(type, gradients), repeat(like)))
            and all(map(is_, [g.dtype for g in gradients], repeat(self.dtype)))
            and [g.shape for g in gradients] == self.shapes
            and all(map(native_kernels.is_dense, gradients))
            and self.own.isdisjoint(map(id, gradients))
            and self.own.isdisjoint(map(id, [g.base for g in gradients]))
        )

    def run(self, optimizer: Optimizer, group: Group, rule: _Written, gradients: list[Any]) -> None:
        """Run a rule on the memory of all parameters, and set versions and numbers accordingly."""
        if graph_recording.active is not None:
            self._record(optimizer, group, rule, gradients)
            return
        storages = [t._storage or storage_of(t) for t in self.written]
        if True in [storage.keeps for storage in storages]:
            for storage, array in zip(storages, self.arrays, strict=True):
                storage.store_before_write(array)
        if self.kernels is not None:
            self.kernels.formula_in_place(
                rule.signature, rule.formula.numbers, self.dtype, self.table, self.chunks, self.place, gradients
            )
        else:
            for arrays, g in zip(self.sets, gradients, strict=True):
                arrays[self.place] = g
            try:
                self.program(self.sets, rule.formula.numbers)
            finally:
                for arrays in self.sets:
                    arrays[self.place] = None
        self._leave(optimizer, rule, storages)

    def _record(self, optimizer: Optimizer, group: Group, rule: _Written, gradients: list[Any]) -> None:
        """Record a step. Values that depend on the step count, or on settings that may change, are computed before each
        replay.
        """
        signature, recorded = self.signature, graph_recording.active
        assert recorded is not None
        numbers = self.kernels.later_numbers(len(rule.formula.numbers))
        self.kernels.formula_in_place(
            signature, numbers, self.dtype, self.table, self.chunks, self.place, gradients
        )
        storages = [t._storage or storage_of(t) for t in self.written]

        def prepare() -> None:
            now = _Written(optimizer, group, self.rows[0].state)
            if now.signature != signature:
                raise RuntimeError(
                    f"{type(optimizer).__name__} was recorded in a CUDA graph, and its rule is another one now. Record "
                    "the step anew. [nd-cuda-graph]"
                )
            numbers.host[:] = now.formula.numbers
            numbers.send()
            self._leave(optimizer, now, storages)

        recorded.before_replay.append(prepare)
        recorded.kept += [self, gradients]

    def _leave(self, optimizer: Optimizer, rule: _Written, storages: list[Any]) -> None:
        """Set versions and numbers after a step."""
        writer = f"{type(optimizer).__name__}.step"
        for storage in storages:
            storage.bump(writer)
        for name, t in rule.numbers.items():
            value = t._array
            for row in self.rows:
                row.state[name] = wrap(t.__class__, np.array(value))


def _are(now: list[Any], then: list[Any]) -> bool:
    """True if both lists hold the same objects; comparing tensors with == would compare their values."""
    return len(now) == len(then) and all(map(is_, now, then))


def _one_number(tensors: list[Any]) -> bool:
    """True if all parameters have the same number in their states."""
    try:
        return len({t._array.item() for t in tensors}) == 1
    except (AttributeError, ValueError):  # no tensor, or not of one element
        return False


def _overlap(outputs: int, sets: list[list[Any]]) -> bool:
    """True if written memory may also belong to another array, as for a parameter that occurs twice."""
    written = [a for arrays in sets for a in arrays[:outputs]]
    read = [arrays[outputs + 1] for arrays in sets]
    own = {id(a) for a in written}
    if len(own) < len(written) or any(id(g) in own for g in read):
        return True
    if all(a.base is None for a in (*written, *read)):
        return False
    places = sorted([(pointer(a), a.nbytes, True) for a in written] + [(pointer(g), g.nbytes, False) for g in read])
    end, ends_written = 0, False
    for start, size, writes in places:
        if start < end and (writes or ends_written):
            return True
        if start + size > end:
            end, ends_written = start + size, writes
    return False
