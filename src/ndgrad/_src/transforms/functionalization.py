"""functionalize: a function without its in-place writes.

The function runs in a level whose tensors hold immutable values. A write gives its target another value. If the
target is a view, the base gets a value with that part replaced, and all views of the base are taken again. So the
function keeps its meaning, while only out-of-place ops run below, where they are recorded, batched or observed. At the
end, arguments that were written to are updated, each by one copy.

The level has no graph of its own: history belongs to the values, in the levels below or in none. So autograd.grad
inside the function computes gradients of values, and requires_grad_() makes leaves of them. A leaf that is written
under no_grad, as in gradient descent, gets another value with the same accumulator. backward() is refused, as in every
transform: accumulation into .grad is a write without an out-of-place form.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.dispatch import dispatch
from ndgrad._src.core.inplace import check_memory, check_writable, write
from ndgrad._src.core.layout import copy_in_order, order_of
from ndgrad._src.core.modes import Modes, section, thread
from ndgrad._src.core.open_levels import birth_level
from ndgrad._src.core.saved import lift
from ndgrad._src.core.stored_tensors import has_history
from ndgrad._src.core.variable import (
    Meta,
    Variable,
    accumulator,
    find_recorded,
    innermost_array,
    meta_of,
    np_dtype,
    requires_grad,
    wrap,
)
from ndgrad._src.core.versions import Storage, storage_of
from ndgrad._src.core.view import make_view, replay
from ndgrad._src.core.view_path import Path, steps
from ndgrad._src.engine.backward_api import grad
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from ndgrad._src.interpreters.levels import Level, below, level_number, unwrap
from ndgrad._src.interpreters.transform_writes import bring_to, was_made_inside
from ndgrad._src.ops.fill import copy
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._src.transforms.transforms import P, R
    from ndgrad._typing import Payload


@set_module("ndgrad.func")
def functionalize(func: Callable[P, R], *, remove: str = "mutations") -> Callable[P, R]:
    """Return `func` with its in-place ops replaced by out-of-place ones. The caller still sees writes to
    arguments.

    Args:
        func: function to change. It may call `autograd.grad`, but not `backward`.
        remove: `"mutations"`, or `"mutations_and_views"` to turn views into copies too.

    >>> import ndgrad
    >>> def f(x):
    ...     y = x.sin()
    ...     z = y * y
    ...     y[0] = 0.0          # z's backward needs what is overwritten here
    ...     return (y * z).sum()
    >>> ndgrad.func.grad(ndgrad.func.functionalize(f))(ndgrad.tensor([1.0, 2.0]))
    tensor([ 0.0000, -1.0322])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize: remove is {remove!r}. Choose 'mutations' or 'mutations_and_views'. [nd-option]"
        )

    @functools.wraps(func)
    @section
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        flat, spec = tree_flatten((args, kwargs))
        with FunctionalLevel(copies_views=remove == "mutations_and_views") as level:
            wrapped: dict[int, Any] = {id(t): level.tensor(t) for t in flat if isinstance(t, Variable)}
            level.given = frozenset(wrapped)
            inside, named = tree_unflatten([wrapped.get(id(t), t) for t in flat], spec)
            result = func(*inside, **named)
            for t in tree_leaves(result):
                level.value(t)  # updates views
        result = tree_map(lambda t: unwrap(level, t), result)
        arguments = {id(t): t for t in flat if isinstance(t, Variable)}
        _write_back([(t, wrapped[number]) for number, t in arguments.items()])
        return result

    return wrapper


def _write_back(pairs: list[tuple[Any, Any]]) -> None:
    """Copy the values that the function left in its arguments to the caller's tensors."""
    written = [(t, w) for t, w in pairs if w._array is not t]
    for t, w in written:
        if w._meta.geometry:
            raise RuntimeError(
                f"functionalize: an argument of shape {tuple(t.shape)} was given another shape in place. "
                "Use the out-of-place form (transpose, squeeze, unsqueeze) and return the result. [nd-transform-write]"
            )
        if _is_leaf(w._array):
            raise RuntimeError(
                f"functionalize: requires_grad_() was called on an argument of shape {tuple(t.shape)} after a write "
                "to it, so the leaf is not the argument. Call it before, or on a clone(). [nd-transform-write]"
            )
        for other, _ in pairs:
            if other is not t and np.may_share_memory(innermost_array(other), innermost_array(t)):
                raise RuntimeError(
                    f"functionalize: an argument of shape {tuple(t.shape)} was written to, "
                    f"and another of shape {tuple(other.shape)} shares its memory, so it should have changed too. "
                    "Pass one of them, and take the view inside. [nd-transform-write]"
                )
    for t, w in written:
        write(copy, t, (lift(w._array, t.tensor_type),), {})


class FunctionalLevel(Level):
    """A level whose tensors are values."""

    __slots__ = ("copies_views", "given", "views")

    kind = "functional"

    def __init__(self, copies_views: bool) -> None:
        super().__init__()
        self.copies_views = copies_views
        # The caller's tensors, by their addresses; the caller keeps them alive.
        self.given: frozenset[int] = frozenset()
        self.views: weakref.WeakKeyDictionary[Storage, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()

    def tensor(self, value: Variable) -> Variable:
        """Return a tensor of this level."""
        t = wrap(value.tensor_type, value)
        meta = meta_of(t)
        meta.level = self.number
        meta.made_in = birth_level()
        return t

    def value(self, t: object) -> Payload:
        """Return the value of a tensor of this level; other arguments are returned unchanged."""
        if not isinstance(t, Variable):
            return t
        number = level_number(t)
        if number != self.number:
            if number > self.number or not was_made_inside(self, t):
                return t
            bring_to(self, t)
        info = meta_of(t).view
        self._look_at_lent(t if info is None else info.base)
        if info is not None and info.is_stale(t):
            self._take_again(t, info)
        if not isinstance(t._array, Variable):
            t._array = lift(t._array, t.tensor_type)
        return t._array

    # ----- ops --------------------------------------------------------------------------------------------------------

    def run(
        self,
        op: Op,
        args: tuple[Any, ...],
        settings: dict[str, Any],
        tensor_type: type[Any],
        state: Modes,
        plain: bool,
    ) -> Payload:
        # A tensor made inside is brought here on first use: views must see its writes, and graphs must not.
        values = tuple([self.value(a) for a in args])
        if all(v is a for v, a in zip(values, args, strict=True)):
            return self._run_outside(op, args, settings)
        with below(self):
            result = dispatch(op, values, settings)
        if op.outputs != 1:
            return tuple([self._result(op, args, settings, i, r) for i, r in enumerate(result)])
        return self._result(op, args, settings, 0, result)

    def _run_outside(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Payload:
        """Run an op on tensors from outside in the levels below; the ops inside its rules do not concern this level. A
        result that shares the memory of a tensor from outside also counts as one from outside."""
        with below(self):
            result = dispatch(op, args, settings)
        results = [
            r if op.shares_storage or (r._meta is not None and r._meta.view is not None) else self.tensor(r)
            for r in ((result,) if op.outputs == 1 else result)
        ]
        return results[0] if op.outputs == 1 else tuple(results)

    def _result(self, op: Any, args: tuple[Any, ...], settings: dict[str, Any], number: int, value: Any) -> Any:
        source = args[0] if args else None
        shares = op.shares_storage or (
            op.view and value._storage is not None and value._storage is self.value(source)._storage
        )
        t = self.tensor(self._take_view(value) if shares else value)
        if shares:
            make_view(t, source, op, settings, number, self.number)
            self.views.setdefault(storage_of(t), []).append(weakref.ref(t))
        return t

    def _take_view(self, view: Variable) -> Variable:
        if not self.copies_views:
            return view
        with below(self):
            return tensor_ops.clone(view)

    def run_function(self, cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a custom function on copies, since it may write to its arguments."""
        with below(self):
            values = [tensor_ops.clone(self.value(a)) if isinstance(a, Variable) else a for a in args]
            outputs, spec = tree_flatten(cls.apply(*values, **kwargs))
        made = []
        for o in outputs:
            changed = next((a for a, v in zip(args, values, strict=True) if v is o and isinstance(o, Variable)), None)
            if changed is not None:
                write(copy, changed, (o,), {})
            made.append(changed if changed is not None else self.tensor(o) if isinstance(o, Variable) else o)
        return tree_unflatten(made, spec)

    # ----- gradients --------------------------------------------------------------------------------------------------

    def grad(self, outputs: Any, inputs: Any, grad_outputs: Any, options: tuple[Any, ...]) -> Any:
        """Run autograd.grad on the values of tensors of this level; its results are values of this level."""
        values = [self._values(given) for given in (outputs, inputs, grad_outputs)]
        cotangents = (
            values[2].values() if isinstance(values[2], dict) else [values[2]] if values[2] is None else values[2]
        )
        if any(level_number(g) > self.number for g in cotangents):
            # An inner level maps over cotangents, and its ops reach the lower levels by themselves.
            found = grad(*values, *options)
        else:
            with below(self):
                found = grad(*values, *options)
        if isinstance(found, dict):
            return {name: self._as_own(g) for name, g in found.items()}
        return tuple([self._as_own(g) for g in found])

    def _values(self, given: Any) -> Any:
        if given is None:
            return None
        if isinstance(given, dict):
            return {name: self.value(t) for name, t in given.items()}
        return (
            [self.value(given)]
            if isinstance(given, Variable) or hasattr(given, "input_nr")
            else [self.value(t) for t in given]
        )

    def _as_own(self, g: Variable | None) -> Any:
        return g if g is None or level_number(g) > self.number else self.tensor(g)

    # ----- writes -----------------------------------------------------------------------------------------------------

    def write(self, target: Any, value: Any, is_new: bool) -> None:
        shape, dtype, info = tuple(target.shape), np_dtype(target), target._meta.view
        new = lift(self.value(value), target.tensor_type)  # A grad level inside this one hands down bare arrays.
        base = target if info is None else info.base
        before = self.value(base)
        renews = not thread.grad_enabled and self._is_own_leaf(base, target)
        if not renews:
            if not thread.grad_enabled and _requires_grad(before):
                raise _history_error("a write under no_grad", base)
            check_writable(before, "copy_")
            if not getattr(innermost_array(before).flags, "writeable", True):
                check_memory("copy_", innermost_array(before))
        with below(self):
            if np_dtype(new) != dtype:
                new = tensor_ops.cast(new, dtype=dtype)
            if tuple(new.shape) != shape:
                new = tensor_ops.expand(new, shape=shape)
            if not is_new:
                new = tensor_ops.clone(new)  # A result must not share the memory of an argument.
            new = new if info is None else _replace_part(before, info.path, new)
            # The value gets the memory order of the tensor, so that later reshapes are views or copies as before.
            order = order_of(before)
            base._array = new if order_of(new) == order else copy_in_order(new, order)
        if renews:
            _renew_leaf(find_recorded(before), find_recorded(base._array))
        if base._meta.lent is not None:  # the written value has no derivative
            base._meta.lent[...] = innermost_array(base._array)
        storage = storage_of(target)
        storage.bump("copy_")
        self._take_views_again(storage)

    def _take_views_again(self, storage: Storage) -> None:
        """Update views at once, not on their next use: a view may be read without an op."""
        known = self.views.get(storage, [])
        known[:] = [ref for ref in known if ref() is not None]
        for ref in known:
            view = ref()
            info = None if view is None else view._meta.view
            if info is not None and level_number(info.base) == self.number:  # not brought to an inner level
                self._take_again(view, info)

    def _is_own_leaf(self, base: Variable, target: Variable) -> bool:
        """True if a tensor is a leaf made by the function and `target`, which is to be written, is its only
        view."""
        leaf = find_recorded(base)
        if not _is_leaf(leaf) or level_number(leaf):
            return False
        held, open_ones = (
            {id(base._array), id(leaf)},
            [level for level in thread.levels if isinstance(level, FunctionalLevel)],
        )
        if any(held & level.given for level in open_ones):
            return False
        return all(view is None or view is target for view in (ref() for ref in self.views.get(storage_of(base), [])))

    def _look_at_lent(self, base: Any) -> None:
        """Adopt values that NumPy has written to lent memory whose values this tensor holds."""
        lent = base._meta.lent
        if lent is None or level_number(base) != self.number or _same_values(lent, innermost_array(base)):
            return
        if has_history(base._array):
            raise _history_error("a write of NumPy's", base)
        base._array = lift(lent.copy(), base.tensor_type)
        storage = storage_of(base)
        storage.bump("a write of NumPy's")
        self._take_views_again(storage)

    def _take_again(self, view: Any, info: Any) -> None:
        if _is_leaf(view._array):
            raise RuntimeError(
                f"functionalize: a write changes a detached tensor of shape {tuple(view.shape)} that requires grad and "
                "shares the memory. Call requires_grad_() on a clone() of it. [nd-transform-write]"
            )
        info.check_geometry(view)
        base = self.value(info.base)
        with below(self):
            taken = replay(base, info.path)
        view._array = self._take_view(taken)
        info.version = view._storage.version.number


def _same_values(a: Payload, b: Payload) -> bool:
    """True if two arrays of one shape hold the same values."""
    return bool(np.all((a == b) | ((a != a) & (b != b))))


def _requires_grad(t: object) -> bool:
    """True if a value has a history in the graph of any level."""
    while isinstance(t, Variable):
        if requires_grad(t):
            return True
        t = t._array
    return False


def _is_leaf(t: object) -> bool:
    """True if a value is a leaf of a graph."""
    return isinstance(t, Variable) and t._node is None and t._meta is not None and t._meta.requires_grad


def _renew_leaf(old: Any, new: Any) -> None:
    """Replace the leaf `old` by `new`, a constant with other values. Gradients of both arrive at one accumulator,
    as if `old` had been written."""
    node = accumulator(old)
    new._meta, old._meta = old._meta, Meta()
    old._meta.requires_grad, old._meta.accumulator = True, new._meta.accumulator
    new._meta.leaf_accumulator = node
    node.variable = new


def _history_error(what: str, t: Variable) -> RuntimeError:
    return RuntimeError(
        f"functionalize: {what} changes the values of a tensor of shape {tuple(t.shape)} and not its history, "
        "which no out-of-place op does. Write to a clone(). [nd-transform-write]"
    )


# ----- values with a replaced part ------------------------------------------------------------------------------------


def _replace_part(base: Variable, path: Path, part: Variable) -> Variable:
    """Return `base` with the part at the end of `path` replaced."""
    way, parents = steps(path), [base]
    for _, op, settings, number in way[:-1]:
        made = op(parents[-1], **settings)
        parents.append(made if op.outputs == 1 else made[number])
    for step, parent in zip(reversed(way), reversed(parents), strict=True):
        part = _invert_view(parent, step, part)
    return part


def _invert_view(parent: Variable, step: Path, part: Variable) -> Variable:
    """Return `parent` with the part shown by one view op replaced."""
    _, op, settings, number = step
    if op.name == "real":
        return tensor_ops.complex(part, tensor_ops.imag(parent))
    if op.name == "imag":
        return tensor_ops.complex(tensor_ops.real(parent), part)
    if op.name == "view_as_real":
        return tensor_ops.view_as_complex(part)
    if op.name == "view_as_complex":
        return tensor_ops.view_as_real(part)
    if op.view and op.movement == "reshape":
        return tensor_ops.reshape(part, shape=tuple(parent.shape))
    if op.name == "detach" and not has_history(parent):
        return part
    if op.shares_storage:
        raise _history_error(f"a write to the result of {op.name}()", parent)
    shape = tuple(parent.shape)
    places = np.arange(int(np.prod(shape))).reshape(shape)
    shown = op.forward_for(np)(places, **settings)
    shown = (shown if op.outputs == 1 else shown[number]).reshape(-1)
    if len(shown) != len(np.unique(shown)):
        raise RuntimeError(
            f"functionalize: a write to a tensor of shape {tuple(part.shape)} with several elements at one position "
            "in memory (expand, unfold). clone() it first, and write the clone. [nd-shared-memory]"
        )
    flat = tensor_ops.scatter(
        tensor_ops.reshape(parent, shape=(-1,)), lift(shown), tensor_ops.reshape(part, shape=(-1,)), dim=0
    )
    return tensor_ops.reshape(flat, shape=shape)
