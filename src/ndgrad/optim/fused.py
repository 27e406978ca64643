"""Steps of an optimizer by native kernels: all parameters of a group in one call, in place.

An optimizer is a rule for one parameter (`Optimizer._update`), which is written in elementwise operations. It is
run once per step on symbols (ndgrad.arrays.formulas) in the place of a parameter, its gradient and its state; the
formula that this leaves is compiled when it is new, and run over the memory of all parameters. The operations are
those of the rule in its order, each rounded as NumPy rounds it, so that parameters are the same to the last bit
with kernels and without.

Parameters that are not plain dense arrays of one dtype, rules that do other things, settings that are tensors and steps
that are differentiated, traced or watched go the ordinary way. `foreach` and `fused` are taken as torch takes them:
False for both asks for the ordinary way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad.arrays import native
from ndgrad.arrays.formulas import Formula, NoFormula, Symbol
from ndgrad.autograd.generate import FACES
from ndgrad.autograd.modes import modes, process
from ndgrad.autograd.variable import Variable, wrap
from ndgrad.autograd.versions import InferenceStorage, storage_of

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Group, Optimizer, State

#: What Python's part in the update of one parameter is worth, in elements.
_EACH = 512
#: What is updated alike: the numbers in its state, its dtype, and the names of the arrays there.
_Bucket = dict[tuple[Any, ...], list[tuple[Any, Any, Any]]]


def update_natively(
    optimizer: Optimizer, group: Group, found: list[tuple[Tensor, Tensor, State]]
) -> list[tuple[Tensor, Tensor, State]]:
    """Update those parameters that kernels can; the others are returned. `found` has parameters with
    their gradients and states."""
    if not _wanted(optimizer, group):
        return found
    work = _EACH * len(found)
    for p, _, _ in found:
        work += p._array.size
    if work < native.SMALLEST:
        return found
    kernels = native.kernels()
    if kernels is None:
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
        if not _update(optimizer, kernels, group, alike):
            left += alike
    return left


def _wanted(optimizer: Optimizer, group: Group) -> bool:
    if optimizer._numbers_in_state is None or type(optimizer)._update.__module__.partition(".")[0] != "ndgrad":
        return False
    if group.get("foreach") is False and group.get("fused") is False:
        return False
    if process.dispatching or (process.busy and not modes().only_no_grad()):
        return False
    return not any(isinstance(v, Variable) for name, v in group.items() if name != "params")


def _kind(optimizer: Optimizer, p: Any, grad: Any, state: State) -> tuple[Any, ...] | None:
    """What must be alike for parameters to be updated together; None for those that kernels do not take."""
    array = p._array
    if not _plain(p, array, True) or not _plain(grad, array, False):
        return None
    key: list[Any] = [array.dtype]
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
    """Whether a tensor is a dense array like another one."""
    if t.__class__ not in FACES:
        return False
    array = t._array
    if (
        array.__class__ is not np.ndarray
        or array.dtype != like.dtype
        or array.shape != like.shape
        or not native.has_kernels(array.dtype)
    ):
        return False
    if t._storage.__class__ is InferenceStorage:
        return False
    return bool(array.flags.carray) if written else native.is_dense(array)


class _Written:
    """The rule of an optimizer as a formula, for parameters whose states are alike."""

    def __init__(self, optimizer: Optimizer, group: Group, like: State) -> None:
        numbers: Any = optimizer._numbers_in_state
        self.formula = Formula()
        p, grad = self.formula.input(), self.formula.input()
        state: Any = {name: value if name in numbers else self.formula.input() for name, value in like.items()}
        #: the arrays of the state that the rule is given
        self.names = [name for name in state if name not in numbers]
        before = {"": p.number, **{name: state[name].number for name in self.names}}
        optimizer._update(p, -grad if group.get("maximize") else grad, state, group)  # type: ignore[arg-type]
        after = {"": p, **{name: value for name, value in state.items() if isinstance(value, Symbol)}}
        #: what it writes: the parameter (""), and arrays of the state, some of them new
        self.changed = [name for name, symbol in after.items() if before.get(name) != symbol.number]
        self.signature = self.formula.signature([after[name] for name in self.changed])
        #: the numbers of the state afterwards
        self.numbers = {name: state[name] for name in numbers if name in state}


def _update(optimizer: Optimizer, kernels: Any, group: Group, alike: list[tuple[Any, Any, Any]]) -> bool:
    """Update parameters that are alike; False, and nothing changed, if the rule is no formula."""
    try:
        rule = _Written(optimizer, group, alike[0][2])
    except NoFormula:
        return False
    written: list[Any] = []
    made: list[tuple[Any, str, Any]] = []
    tables: list[tuple[list[Any], list[Any]]] = []
    for p, g, state in alike:
        tensors = {"": p, **{name: state[name] for name in rule.names}}
        for name in rule.changed:
            if name not in tensors:
                tensors[name] = wrap(FACES[p.__class__], np.empty(p._array.shape, p._array.dtype))
                made.append((state, name, tensors[name]))
            else:
                written.append(tensors[name])
        inputs = [p._array, g._array, *(state[name]._array for name in rule.names)]
        tables.append(([tensors[name]._array for name in rule.changed], inputs))
    if _overlap(tables):
        return False
    storages = [t._storage or storage_of(t) for t in written]
    for t, storage in zip(written, storages, strict=True):
        storage.before_write(t._array)
    kernels.formula_in_place(rule.signature, rule.formula.numbers, tables)
    writer = f"{type(optimizer).__name__}.step"
    for storage in storages:
        storage.bump(writer)
    for state, name, t in made:
        state[name] = t
    for p, _, state in alike:
        for name, t in rule.numbers.items():
            state[name] = wrap(t.__class__, np.array(t._array))
        if state:
            optimizer.state[p] = state
    return True


def _overlap(tables: list[tuple[list[Any], list[Any]]]) -> bool:
    """Whether memory that is written may be some other array's too, as with a parameter that is there twice."""
    written = [a for outputs, _ in tables for a in outputs]
    read = [inputs[1] for _, inputs in tables]
    own = {id(a) for a in written}
    if len(own) < len(written) or any(id(g) in own for g in read):
        return True
    if all(a.base is None for a in written):
        return False
    places = sorted([(a.__array_interface__["data"][0], a.nbytes, True) for a in written]
                    + [(g.__array_interface__["data"][0], g.nbytes, False) for g in read])  # fmt: skip
    end, ends_written = 0, False
    for start, size, writes in places:
        if start < end and (writes or ends_written):
            return True
        if start + size > end:
            end, ends_written = start + size, writes
    return False
