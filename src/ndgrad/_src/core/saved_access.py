"""Users' access to saved values: `grad_fn._saved_self`, `grad_fn._raw_saved_self`, and hooks on one saved value.

A node keeps a value under the name in its rules (`x`, `out`). Users see it under torch's name (`_saved_self`,
`_saved_result`) and under its own (`_saved_x`). Reading an attribute unpacks the value: an input is the same tensor
object that was saved. A result is a new tensor with its history, because the node cannot hold the tensor that holds the
node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.node import GENERAL
from ndgrad._src.core.saved import lift, unpack_tensor
from ndgrad._src.core.saved_errors import freed_error
from ndgrad._src.core.stored_tensors import FREED, Packed
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.core.saved import RuleNode
    from ndgrad._typing import FunctionNode, Payload

_NUMBERS = (bool, int, float, complex)

_FACTS = {"shape": "sym_sizes", "dtype": "scalar_type", "ndim": "dim"}

#: Op -> suffix of `_saved_` -> the node's own name.
_shown: dict[Any, dict[str, str]] = {}


def shown_names(node: RuleNode | type[RuleNode]) -> dict[str, str]:
    """Return the public names of a node's saved values, torch's before ours, each with the node's own name."""
    found = _shown.get(node.op)
    if found is None:
        op, plan = node.op, node.plan
        found = {}
        for name in plan.arrays + plan.outs + plan.settings:
            found[op.saved_names.get(name) or _result(name) or op.torch_name(name)] = name
        for name in plan.facts:
            arg, fact = name.rsplit("_", 1)
            found[f"{op.torch_name(arg)}_{_FACTS[fact]}"] = name
        for name in plan.arrays + plan.outs + plan.settings + plan.facts:
            found.setdefault(name, name)
        _shown[op] = found
    return found


def _result(name: str) -> str | None:
    return f"result{name[3:]}" if name.startswith("out") and name[3:].isdigit() else None


def saved_attribute(node: RuleNode, attribute: str) -> Any:
    """Return the value of `node._saved_...` or `node._raw_saved_...`."""
    raw = attribute.startswith("_raw_saved_")
    name = shown_names(node)[attribute.removeprefix("_raw").removeprefix("_saved_")]
    if name not in node.plan.arrays and name not in node.plan.outs:
        return getattr(node, name)
    value = slot(node, name)
    if value.__class__ is tuple:
        parts = tuple(SavedTensor._make(RuleSlot(node, name, i)) for i in range(len(value)))
        return parts if raw else tuple(p.unpack() for p in parts)
    handle = SavedTensor._make(RuleSlot(node, name, None))
    return handle if raw else handle.unpack()


def saved_attributes(node: RuleNode | type[RuleNode]) -> list[str]:
    """Return the attributes of a node, or node class, for its saved values."""
    plan = node.plan
    out = []
    for shown, name in shown_names(node).items():
        out.append(f"_saved_{shown}")
        if name in plan.arrays or name in plan.outs:
            out.append(f"_raw_saved_{shown}")
    return sorted(out)


class _Shown:
    """One `_saved_` attribute of a node class.

    A `__getattr__` on the class would also work, but it slows down every attribute access of every node, and so
    backward.
    """

    __slots__ = ("attribute",)

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute

    def __get__(self, node: RuleNode, owner: type[Any] | None = None) -> Any:
        return self if node is None else saved_attribute(node, self.attribute)


def show_saved(cls: type[Any]) -> None:
    """Give a node class the attributes through which users read the saved values of its nodes."""
    for attribute in saved_attributes(cls):
        setattr(cls, attribute, _Shown(attribute))


def slot(node: RuleNode, name: str) -> Payload:
    """Return the value that a node holds under a name; None if no requested gradient needs it."""
    try:
        return object.__getattribute__(node, name)
    except AttributeError:
        return None


# ----- one saved value ------------------------------------------------------------------------------------------------


class RuleSlot:
    """Location of one saved value in the node of an op."""

    def __init__(self, node: RuleNode, name: str, position: int | None) -> None:
        self.node, self.name, self.position = node, name, position

    def read_value(self) -> Payload:
        value = slot(self.node, self.name)
        return value if self.position is None else value[self.position]

    def write_value(self, value: Payload) -> None:
        if self.position is not None:
            parts = list(slot(self.node, self.name))
            parts[self.position] = value
            value = tuple(parts)
        setattr(self.node, self.name, value)

    def unpack(self) -> Variable | None:
        edges = self.node.edges_by_argument().get(self.name)
        value = unpack_tensor(self.node, self.name, edges)
        if self.position is not None:
            value = value[self.position]
        if self.is_output():
            storage_of(value)  # one storage for this tensor and the result itself, so that both see writes
        # A number is a 0-d tensor here as in torch, except an exponent, which torch keeps as a number.
        return value if not isinstance(value, _NUMBERS) or self.name == "exponent" else lift(np.asarray(value))

    def bare(self, value: Payload) -> Variable:
        """Return the value as passed to a pack hook."""
        if isinstance(value, Variable) and self.name not in self.node.plan.outs:
            return value.detach()
        if isinstance(value, _NUMBERS):
            return lift(np.asarray(value))
        made = wrap(self.node.tensor_type(), value)
        made._storage = getattr(self.node, self.name + "_s")
        return made

    def is_output(self) -> bool:
        return self.name in self.node.plan.outs


class FunctionSlot:
    """Location of one saved tensor in the node of a custom function."""

    def __init__(self, node: FunctionNode, position: int) -> None:
        self.node, self.position = node, position

    def _saved(self) -> Any:
        saved = self.node.__dict__["_saved"]
        return FREED if saved is FREED else saved[self.position]

    def read_value(self) -> Payload:
        saved = self._saved()
        return saved if saved is None or saved is FREED else saved.tensor

    def write_value(self, value: Variable | Packed) -> None:
        self._saved().tensor = value

    def unpack(self) -> Variable | None:
        if self._saved() is FREED:
            raise freed_error(self.node)
        return self.node._unpack(self._saved())

    def bare(self, value: Variable) -> Variable:
        return value.detach()

    def is_output(self) -> bool:
        return bool(self._saved().kind == "output")


def function_slots(node: FunctionNode, count: int) -> tuple[SavedTensor, ...]:
    return tuple(SavedTensor._make(FunctionSlot(node, i)) for i in range(count))


@set_module("ndgrad.autograd")
class SavedTensor:
    """One saved value of a node, as returned by `grad_fn._raw_saved_self`.

    Args:
        *args: refused: only nodes make objects of this class.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x.exp()
    >>> y.grad_fn._raw_saved_result.register_hooks(lambda t: t.numpy().astype("float32"), ndgrad.tensor)
    >>> y.grad_fn._saved_result.dtype
    ndgrad.float32
    """

    __slots__ = ("_slot",)
    _slot: Any

    def __init__(self, *args: Any) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden. "
            "Read one from a node: grad_fn._raw_saved_self. [nd-saved-hook]"
        )

    @staticmethod
    def _make(slot: RuleSlot | FunctionSlot) -> SavedTensor:
        made = object.__new__(SavedTensor)
        made._slot = slot
        return made

    def unpack(self) -> Variable | None:
        """Return the saved value as a tensor, through the unpack hook if there is one."""
        value = self._slot.read_value()
        return None if value is None else self._slot.unpack()

    def register_hooks(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any] | None = None) -> None:
        """Pack the saved value now with `pack_hook`, and unpack it with `unpack_hook` at every use.

        Args:
            pack_hook: function of the saved tensor, whose result is kept in its place.
            unpack_hook: function of that result, which returns the tensor.
        """
        from ndgrad._src.core.saved_hooks import run_pack  # rarely needed

        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError(
                "register_hooks(): incompatible function arguments: it takes two functions, not "
                f"{type(pack_hook).__name__} and {type(unpack_hook).__name__}. Pass a pack hook and an unpack hook. "
                "[nd-saved-hook]"
            )
        value = self._slot.read_value()
        if value is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden: there is nothing to pack. "
                "[nd-saved-hook]"
            )
        if value is FREED:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed by backward() or grad(). "
                "Register the hooks before, or pass retain_graph=True. [nd-freed-graph]"
            )
        if value.__class__ is Packed and value.checksum is not None:
            value = value.packed
        if value.__class__ is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Only one pair of hooks is allowed at a time: compose the functions. [nd-saved-hook]"
            )
        bare = self._slot.bare(value)
        made = Packed(run_pack(pack_hook, bare, None), unpack_hook, is_output=self._slot.is_output())
        made.watch(bare, self._slot.node.level)
        self._slot.write_value(made)
        self._slot.node.route = max(self._slot.node.route, GENERAL)

    @property
    def data(self) -> Any:
        """The stored object: the packed object if there are hooks, otherwise the tensor."""
        value = self._slot.read_value()
        return value.packed if value.__class__ is Packed and value.checksum is None else self.unpack()

    @property
    def unpack_hook(self) -> Callable[..., Any] | None:
        """The hook that unpacks the value, or None."""
        value = self._slot.read_value()
        return value.unpack_hook if value.__class__ is Packed else None
