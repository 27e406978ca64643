"""Functions that run ops on the tensors of a trace: the code of eager calls, with a tracer in place of NumPy.

A Python loop of a thousand rounds is traced round by round, so the cost of an op here dominates the first call of such
a function. During a trace, the slots of a tensor are properties (see Note [Captured tensors]), which check the owner of
the tensor. A generated function checks once for each argument: a tensor over a traced array was made by this trace, so
its slots are read directly, and those of results are written directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.core.dispatch import record_any
from ndgrad._src.core.generate import FunctionTemplate, indent, make_eager
from ndgrad._src.core.variable import BareTensor
from ndgrad._src.ops.table import RANDOM

#: Ops whose results are not read.
CHECKS = frozenset(["refuse_phase"])

#: Number of traced calls of an op without a function of its own. Generating one costs as much as some twenty calls of
#: the general function.
_calls: Counter[Any] = Counter()
_FREQUENT = 20

#: Generated functions by op, for ops that are recorded or not, and with a number as the first argument or not.
_functions: dict[tuple[bool, bool], dict[Any, Callable[..., Any]]] = {
    (records, reflected): {} for records in (True, False) for reflected in (True, False)
}

_SLOTS = {name: BareTensor.__dict__[name] for name in ("_array", "_node", "_storage", "_meta")}
_NAMES = {
    "ndarray": TracedArray,
    "BareTensor": BareTensor,
    **{f"get{name}": slot.__get__ for name, slot in _SLOTS.items()},
    **{f"put{name}": slot.__set__ for name, slot in _SLOTS.items()},
}


def run_traced(tracer: Any, op: Any, args: tuple[Any, ...], settings: dict[str, Any], records: bool) -> Any:
    """Run an op on tensors if only a trace is active."""
    reflected = len(args) == 2 and (args[0].__class__ is float or args[0].__class__ is int)
    function = _functions[records, reflected].get(op)
    if function is None:
        _calls[op] += 1
        if _calls[op] <= _FREQUENT:
            return record_any(op, args, settings)
        function = _functions[records, reflected][op] = _make_function(op, records, reflected)
    return function(tracer, args[1], args[0], **settings) if reflected else function(tracer, *args, **settings)


def _make_function(op: Any, records: bool, reflected: bool) -> Callable[..., Any]:
    if op.batch is RANDOM or op.name in CHECKS or op.needs_values:

        def function(*args: Any, **settings: Any) -> Any:
            return record_any(op, args, settings)  # leads to `Tracer.__call__`
    else:
        function = make_eager(op, plain=True, unrecorded=not records, reflected=reflected, traced=(TracedLane, _NAMES))
        if hasattr(function, "__source__"):  # generated for the op by the template
            return function

    def run_reordered(tracer: Any, *args: Any, **settings: Any) -> Any:
        return function(*(args[::-1] if reflected else args), **settings)

    return run_reordered


class TracedLane(FunctionTemplate):
    """The template for tensors over traced arrays. Its functions take the tracer before the arguments."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.parameters = ["tracer", *self.parameters]

    def take(self, arg: str, name: str) -> list[str]:
        array, edge, storage = f"a_{arg}", f"e_{arg}", f"s_{arg}"
        own: list[str] = []
        outside = [f"if isinstance({array}, BareTensor):", f"    {self.leave}"]
        outside += [f"o = tracer.capture({name}, {array})", f"{array} = o._array"]
        if arg in self.differentiable:
            own += [f"{edge} = get_node({name}) if get_meta({name}) is None else edge({name})"]
            outside += [f"{edge} = edge({name})"]
        if self.saves(arg):
            own += [f"{storage} = get_storage({name}) if c is Tensor else kept_storage({name})"]
            outside += [f"{storage} = o._storage if c is Tensor else kept_storage({name})"]
        lines = [f"{array} = get_array({name})", f"if {array}.__class__ is ndarray:", *indent(own or ["pass"])]
        return [*lines, "else:", *indent(outside)]

    def place(self, array: str, first: bool) -> list[str]:
        return []  # traced arrays know their device

    def call(self) -> str:
        return f"tracer.traced(OP, ({''.join(f'{a}, ' for a in self.arrays())}), {self.settings})"

    def set_slot(self, slot: str, value: str) -> str:
        return f"put{slot}(r, {value})"
