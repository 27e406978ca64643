"""Node classes made from the table: slots for the values that an op's rules name, and `apply`, the rules on raw arrays.

As in ndgrad._src.core.generate, the code is written once per op, for the path of an ordinary backward. The other paths
use the methods of `RuleNode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ndgrad._src.arrays import library, native_kernels
from ndgrad._src.arrays.precision import HALF
from ndgrad._src.core.generate import _REAL, TENSOR_TYPES, compile_source, guard, indent
from ndgrad._src.core.native_rules import make_device_rule, make_native_rule
from ndgrad._src.core.node import UNARY, MultiNode, Node
from ndgrad._src.core.node_routes import first_route, has_number_form, joins, reads_part, returns_parts
from ndgrad._src.core.op_errors import raise_for_node
from ndgrad._src.core.save_plan import SavePlan, save_plan
from ndgrad._src.core.saved import RuleNode, unpack_raw
from ndgrad._src.core.saved_access import show_saved
from ndgrad._src.core.stored_tensors import FREED, Packed
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.kernel_error import KernelError
from ndgrad._src.ops.table import VARIABLE, Op, parameter_names


def make_node_class(op: Op) -> type[Node]:
    """Make the node class of an op: slots for the values that its rules name, and `apply` on raw arrays."""
    plan = save_plan(op)
    base: tuple[type[Any], ...] = (RuleNode, MultiNode) if op.outputs != 1 else (RuleNode,)
    members: dict[str, Any] = {
        "__slots__": tuple(plan.slots()),
        "__module__": "ndgrad.autograd",
        "op": op,
        "plan": plan,
        "outputs": op.outputs,
        "first_route": first_route(op),
    }
    if reads_part(op):
        members["reads"] = True
    if op.view and (op.partial_view or op.whole_view):
        members["passes_parts"] = True
    if op.consumes:
        members["consumes"] = True
    if op.takes_undefined:
        members["materialize_grads"] = False
    cls: type[Node] = type(op.backward_name, base, members)
    if op.outputs != VARIABLE and not op.variadic:
        _give_rules(cls, op, plan)
        if library.device_library is None:
            _before_devices.append((cls, op, plan))
    elif joins(op):
        cls.apply = _make_apply_of_many(op, plan)  # type: ignore[method-assign]  # written by generated code
    elif returns_parts(op):
        cls.apply = _make_apply_of_parts(op, plan)  # type: ignore[method-assign]  # written by generated code
    cls.release = _make_release(plan)  # type: ignore[method-assign, assignment]  # written by generated code
    show_saved(cls)
    return cls


def _give_rules(cls: type[Any], op: Op, plan: SavePlan) -> None:
    """Write `apply`, and `apply_one` if only the first argument may have a gradient."""
    cls.apply = Apply(op, plan, one=False).make()
    if first_route(op) == UNARY or has_number_form(op):
        cls.apply_one = Apply(op, plan, one=True).make()


#: Classes made before the first array on a device (Note [Arrays on a device], ndgrad._src.core.generate).
_before_devices: list[tuple[Any, Op, SavePlan]] = []


def _give_rules_again() -> None:
    while _before_devices:
        _give_rules(*_before_devices.pop())


library.on_second_library.append(_give_rules_again)


def _make_release(plan: SavePlan) -> Callable[[Any], None]:
    held = plan.arrays + plan.outs
    body = "".join(f"    n.{name} = FREED\n" for name in held) or "    pass\n"
    return compile_source("release", f"def release(n):\n{body}", {"FREED": FREED})


class Apply:
    """Source of `apply` on raw arrays: read saved values, run the rules of the inputs that need a gradient.

    In the source, n is the node and g the gradient, or a list of them for several outputs; e_x is the edge of an
    argument x, g_x its gradient, and x its saved value. With `one`, only the first argument has a gradient, which is
    returned without a tuple.
    """

    def __init__(self, op: Op, plan: SavePlan, one: bool, on_device: bool = False) -> None:
        self.op, self.plan, self.one, self.on_device = op, plan, one, on_device
        self.differentiable = op.differentiable_args[:1] if one else op.differentiable_args
        #: elementwise rules omit conjugates: see the table's manual
        self.conjugates = op.joint_rule is None and op.jvp == "elementwise"
        several = [] if op.outputs == 1 else [f"g{i}" for i in range(op.outputs)]
        self.unpack = [", ".join(several) + ", = g"] if several else []
        held = plan.arrays + plan.outs
        #: parameter name of a rule -> its expression in the source
        self.where = {
            **{n: n for n in [*held, *several, "g", "ops"]},
            "t": "g",
            **{s: f"n.{s}" for s in plan.settings + plan.facts},
        }
        self.where["needs"] = _tuple(f"e_{a} is not None" for a in self.differentiable)
        self.release = guard("not keep", [f"n.{name} = FREED" for name in held]) if held else []
        self.general = f"return general(n, g, ops, keep){'[0]' if one else ''}"
        self.scope: dict[str, Any] = {}

    def make(self) -> Callable[..., Any]:
        edges = (
            [", ".join(f"e_{a}" for a in self.differentiable) + ", = n.next"] if len(self.differentiable) > 1 else []
        )
        body = [*self.place(), *self.precision(), *edges, *self.saved(), *self.unpack]
        body += self.joint_rule() if self.op.joint_rule is not None else self.rules()
        if library.device_library is not None:  # a device runs out of memory more often than the host
            body = ["try:", *indent(body), "except MemoryError as error:", "    raise_for_node(n, error)"]
            body += ["except KernelError:  # the general form warns, and uses CuPy's kernels", f"    {self.general}"]
        scope: dict[str, Any] = {"Tensor": registry.Tensor}
        scope |= {
            "TENSOR_TYPES": TENSOR_TYPES,
            "FREED": FREED,
            "Packed": Packed,
            "unpack_raw": unpack_raw,
            "HALF": HALF,
            "raise_for_node": raise_for_node,
            "KernelError": KernelError,
            **self.scope,
        }
        scope |= {"F64": _REAL[0], "F32": _REAL[1], "general": RuleNode.apply}
        return compile_source(
            "apply", "def apply(n, g, ops, keep=True):\n" + "".join(f"    {line}\n" for line in body), scope
        )

    def place(self) -> list[str]:
        """Return lines that pass gradients on a device to rules that are kernels there."""
        if self.on_device or library.device_library is None or not (self.conjugates or self.op.halves_on_device):
            return []
        self.scope["DEVICE_ARRAY"] = library.device_library.ndarray
        self.scope["on_device"] = Apply(self.op, self.plan, self.one, on_device=True).make()
        first = "g" if self.op.outputs == 1 else "g[0]"
        return [f"if {first}.__class__ is DEVICE_ARRAY:", "    return on_device(n, g, ops, keep)"]

    def precision(self) -> list[str]:
        """Return lines that pass half precision to the general form, and set c to True for complex numbers."""
        leave = ["if d.char in HALF:", f"    {self.general}"]
        if self.on_device:
            return ["if n.dtype.kind == 'c':", f"    {self.general}"] if self.conjugates else []
        if self.conjugates:
            return [
                "d = n.dtype",
                "c = False",
                *guard("d is not F64 and d is not F32", [*leave, "c = d.kind == 'c'"]),
            ]
        return (
            ["d = n.dtype", *guard("d is not F64 and d is not F32", leave)]
            if self.plan.arrays or self.plan.outs
            else []
        )

    def saved(self) -> list[str]:
        """Return lines that read the values named by the rules of the inputs with an edge."""
        plan, body = self.plan, []
        used = set(self.op.rules[self.differentiable[0]][1]) if self.one else set(plan.users)
        for name in plan.arrays + plan.outs:
            if name in used:
                lines = _read_saved_input(name) if name in plan.arrays else _read_saved_output(name)
                body += guard(None if self.one else plan.condition(name, self.differentiable), lines)
        return body

    def joint_rule(self) -> list[str]:
        """Return lines that run one rule for all inputs."""
        assert self.op.joint_rule is not None
        self.scope["rule"], names = self.op.joint_rule
        return [f"out = rule({', '.join(self.where[name] for name in names)})", *self.release, "return out"]

    def rules(self) -> list[str]:
        """Return lines that run a rule for each input with an edge."""
        op, where = self.op, self.where
        if self.on_device and self.conjugates:
            return self.kernels()
        rules, body = op.rules, ["if c:", "    g = g.conj()"] if self.conjugates else []
        if op.shared is not None and not self.one:
            rules, where["shared"], self.scope["common"] = op.written_rules, "shared", op.shared
            body += [f"shared = {_call(op.shared, 'common', [where[name] for name in parameter_names(op.shared)])}"]
        for a in reversed(self.differentiable) if op.consumes else self.differentiable:
            self.scope[f"rule_{a}"], names = rules[a]
            given = [where[name] for name in names]
            call = _call(rules[a][0], f"rule_{a}", given)
            if self.conjugates and call.startswith("rule_") and "shared" not in names:
                self.scope[f"many_{a}"] = make_native_rule(rules[a][0], names)
                call = f"({call} if g.size < {native_kernels.SMALLEST} else many_{a}({', '.join(given)}))"
            body += [f"g_{a} = {call}" + (f" if e_{a} is not None else None" if len(self.differentiable) > 1 else "")]
        body += self.release
        pack = _bare if self.one else _tuple
        if self.conjugates:
            body += [
                "if c:",
                f"    return {pack(f'g_{a} if g_{a} is None else g_{a}.conj()' for a in self.differentiable)}",
            ]
        return [*body, f"return {pack(f'g_{a}' for a in self.differentiable)}"]

    def kernels(self) -> list[str]:
        """Return lines that run the rules as kernels on a device, if all of them have one."""
        body, pack = [], _bare if self.one else _tuple
        for a in self.differentiable:
            rule, names = self.op.rules[a]
            self.scope[f"rule_{a}"] = make_device_rule(rule, names)
            wanted = None if len(self.differentiable) == 1 else f"e_{a} is not None"
            lines = [f"g_{a} = rule_{a}({', '.join(self.where[name] for name in names)})"]
            lines += [f"if g_{a} is None:", f"    {self.general}"]
            body += [*([] if wanted is None else [f"g_{a} = None"]), *guard(wanted, lines)]
        return [*body, *self.release, f"return {pack(f'g_{a}' for a in self.differentiable)}"]


def _make_apply_of_parts(op: Op, plan: SavePlan) -> Callable[..., Any]:
    """Make `apply` for an op that returns parts: zeros for parts without a gradient, then the rule."""
    rule, names = op.rules[op.args[0]]
    where = {"gs": "gs", "ops": "ops"} | {s: f"n.{s}" for s in plan.settings + plan.facts}
    body = ["for g in gs:", "    if g is None:", "        gs = n.with_zeros(gs, ops.np.zeros)", "        break"]
    body += [f"return (rule({', '.join(where[name] for name in names)}),)"]
    source = "def apply(n, gs, ops, keep=True):\n" + "".join(f"    {line}\n" for line in body)
    return compile_source("apply", source, {"rule": rule})


def _make_apply_of_many(op: Op, plan: SavePlan) -> Callable[..., Any]:
    """Make `apply` for an op that joins arrays: one rule for all of them."""
    assert op.joint_rule is not None
    rule, names = op.joint_rule
    where = {"g": "g", "ops": "ops", "needs": "tuple([e is not None for e in n.next])"} | {
        s: f"n.{s}" for s in plan.settings + plan.facts
    }
    source = f"def apply(n, g, ops, keep=True):\n    return rule({', '.join(where[name] for name in names)})\n"
    return compile_source("apply", source, {"rule": rule})


#: Rules that are cheaper than a call: the generated code contains their bodies instead of calls.
_SHORT: list[tuple[Any, str]] = [
    ((lambda a: a).__code__, "{0}"),
    ((lambda a: -a).__code__, "-{0}"),
    ((lambda a, b: a * b).__code__, "{0} * {1}"),
    ((lambda a, b: a / b).__code__, "{0} / {1}"),
    ((lambda a, b: a - a * b * b).__code__, "{0} - {0} * {1} * {1}"),
]


def _call(rule: Callable[..., Any], function: str, arguments: list[str]) -> str:
    """Return the expression that runs a rule: its body if that is short and known, otherwise a call."""
    code = getattr(rule, "__code__", None)
    for short, text in _SHORT:
        if code is not None and code.co_code == short.co_code and code.co_argcount == short.co_argcount:
            return text.format(*arguments)
    return f"{function}({', '.join(arguments)})"


def _bare(parts: Iterable[str]) -> str:
    (only,) = parts
    return str(only)


def _tuple(parts: Iterable[str]) -> str:
    return "(" + "".join(f"{p}, " for p in parts) + ")"


def _read_saved_input(name: str) -> list[str]:
    """Return lines that read a number, or a saved tensor with unchanged memory; `unpack_raw` reads all other values."""
    kind = f"{name}.__class__"
    return [
        f"{name} = n.{name}",
        f"if {kind} is Tensor or ({kind} is not float and {kind} in TENSOR_TYPES):",
        f"    s = {name}._storage",
        f"    {name} = {name}._array if s is None or s.version is n.{name}_v else unpack_raw(n, {name!r})",
        f"elif {kind} is not float:",
        f"    {name} = unpack_raw(n, {name!r})",
    ]


def _read_saved_output(name: str) -> list[str]:
    return [
        f"{name} = n.{name}",
        f"s = n.{name}_s",
        f"if s is not None and s.version is not n.{name}_v or {name}.__class__ is Packed:",
        f"    {name} = unpack_raw(n, {name!r})",
    ]
