"""Specialised Python functions made from the table: an eager function and a node class per op.

A general function would loop over arguments, look rules up and ask what to save; at a microsecond per op that is most of
the cost. So the loop runs once, here, and writes the code it would have executed: for `mul` about what one would
write by hand. `print(op.eager.__source__)` shows it, and tracebacks do too (the source is kept in linecache).

The fast lane below takes plain tensors (and Python numbers) while no mode is active; everything else, and every
op with a variable number of arrays, goes to `dispatch`, which is complete and need not be quick.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy

from ndgrad.arrays.precision import HALF, INEXACT, has_half, in_single
from ndgrad.autograd.modes import process
from ndgrad.autograd.node import GENERAL, RULE, UNARY, MultiNode, Node, edge_node, next_sequence_number, sizes
from ndgrad.autograd.saved import FREED, Packed, RuleNode, kept_in_level, unpack_raw, without_base
from ndgrad.autograd.stake import as_number, with_numbers
from ndgrad.autograd.variable import Meta, edge, new
from ndgrad.autograd.versions import Storage, kept_storage, storage_of
from ndgrad.ops.errors import after_failure
from ndgrad.ops.table import VARIABLE, Op, parameter_names

#: Class of an argument -> the face of the result: Tensor -> Tensor, Parameter -> Tensor, Array -> Array.
FACES: dict[type[Any], type[Any]] = {}

_REAL = (numpy.dtype(numpy.float64), numpy.dtype(numpy.float32))
_PUBLIC_NAMES = {"x": "input", "y": "other"}


def public_name(arg: str) -> str:
    return _PUBLIC_NAMES.get(arg, arg)


def compile_source(name: str, source: str, scope: dict[str, Any]) -> Callable[..., Any]:
    filename = f"<ndgrad generated {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    function: Callable[..., Any] = scope[name]
    function.__source__ = source  # type: ignore[attr-defined]  # functions take attributes
    return function


def widening(op: Op, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward function that hands halves on as float32 (Note [Half precision])."""
    if op.variadic:

        def run(*arrays: Any, **settings: Any) -> Any:
            return in_single(forward, arrays, settings, op.elementwise) if has_half(arrays) else forward(*arrays, **settings)

        return run
    arrays = ", ".join(op.args)
    named = "".join(f", {s}={s}" for s in op.settings)
    settings = "{" + ", ".join(f"{s!r}: {s}" for s in op.settings) + "}"
    parameters = arrays + (", *" if op.settings else "") + "".join(f", {s}=default_{s}" for s in op.settings)
    body = [
        "try:",
        f"    half = {' or '.join(f'{a}.dtype.char in {HALF!r}' for a in op.args)}",
        "except AttributeError:  # a number, or None",
        f"    half = has_half(({arrays},))",
        "if half:",
        f"    return in_single(forward, ({arrays},), {settings}, {op.elementwise})",
        f"return forward({arrays}{named})",
    ]
    source = f"def {op.name}({parameters}):\n" + "".join(f"    {line}\n" for line in body)
    scope = {"has_half": has_half, "in_single": in_single, "forward": forward, **{f"default_{s}": d for s, d in op.settings.items()}}
    return compile_source(op.name, source, scope)


# ----- the plan: what is saved, and for whom -------------------------------------------------------------------------


class SavePlan:
    """Which values a node of the op keeps, and which arguments' gradients need each."""

    def __init__(self, op: Op) -> None:
        self.users: dict[str, set[str]] = {}
        every = set(op.differentiable_args)
        rules = op.rules.items()
        for arg, (_, names) in rules:
            for name in names:
                self.users.setdefault(name, set()).add(arg)
        if op.joint_rule is not None:
            for name in op.joint_rule[1]:
                self.users.setdefault(name, set()).update(every)
        outs = {"out"} if op.outputs == 1 else {f"out{i}" for i in range(op.outputs)}
        grads = {"g", "gs", "t", "needs", "ops"} | {f"g{i}" for i in range(op.outputs)}
        # in the order of torch's names, in which torch packs them and unpacks them
        self.arrays = sorted((a for a in op.args if a in self.users), key=op.torch_name)
        self.outs = [o for o in sorted(outs) if o in self.users]
        looked_up = op.partial_view or op.whole_view or op.copies_part  # in gradients, by the op itself
        self.settings = [s for s in op.settings if s in self.users or (looked_up and s != "shape")]  # which every node has
        self.facts = [f"{a}_{fact}" for a in op.args for fact in ("shape", "dtype", "ndim") if f"{a}_{fact}" in self.users]
        #: whether anything but outputs is kept
        self.keeps_inputs = bool(self.arrays or self.settings or self.facts)
        known = {*op.args, *outs, *op.settings, *self.facts, *grads}
        unknown = sorted(set(self.users) - known)
        if unknown:
            raise TypeError(
                f"rules of op {op.name!r} name {', '.join(unknown)}, which is neither an array argument {op.args}, an output, "
                f"a setting {tuple(op.settings)}, a fact such as {op.args[0]}_shape, nor g, t, ops or needs"
            )

        self._positions = {a: i for i, a in enumerate(op.differentiable_args)}
        self._variadic = op.variadic
        self._needed: dict[tuple[bool, ...], tuple[list[str], list[str]]] = {}

    def needed(self, edges: tuple[Any, ...]) -> tuple[list[str], list[str]]:
        """The arguments and the outputs that the rules of the inputs with an edge name (a collecting name counts as a whole)."""
        key = tuple([e is not None for e in edges]) if not self._variadic else ()
        found = self._needed.get(key)
        if found is None:
            wanted = {a for a, i in self._positions.items() if self._variadic or key[i]}
            used = [[name for name in names if self.users[name] & wanted] for names in (self.arrays, self.outs)]
            found = self._needed[key] = (used[0], used[1])
        return found

    def slots(self) -> list[str]:
        slots = []
        for a in self.arrays:
            slots += [a, f"{a}_v"]
        for o in self.outs:
            slots += [o, f"{o}_s", f"{o}_v"]
        return slots + self.settings + self.facts

    def condition(self, name: str, differentiable: tuple[str, ...]) -> str | None:
        """When `name` must be saved: None for always, else an expression over the edges."""
        users = self.users[name]
        if len(users) == len(differentiable):
            return None
        return " or ".join(f"e_{a} is not None" for a in differentiable if a in users)


def save_plan(op: Op) -> SavePlan:
    plan = op._compiled.get("plan")
    if plan is None:
        plan = op._compiled["plan"] = SavePlan(op)
    made: SavePlan = plan
    return made


# ----- eager functions -----------------------------------------------------------------------------------------------


def make_eager(
    op: Op,
    *,
    operator: bool = False,
    reflected: bool = False,
    public: bool = False,
    plain: bool = False,
    level: bool = False,
    slow: Callable[..., Any] | None = None,
    into: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The function that runs `op` on tensors and records it.

    `operator`: for Python's operators, which answer NotImplemented to what they do not know. `reflected`: the arguments
    come in reverse order, the tensor first (`__rsub__`). `public`: takes `out=` as torch's functions do. `plain`: the caller
    knows that no mode is in force. `level`: as `plain`, in the graph of a transform, whose number is given with the keyword
    `level`; the payload of the result comes with the keyword `made` if the levels below have computed it; the answer to arguments
    of other kinds is NotImplemented. `slow`, `into`: what takes the place of `dispatch` and of `write_out` (see ndgrad.api.public).
    """
    from ndgrad.autograd.dispatch import dispatch, dispatch_operator, record_any
    from ndgrad.autograd.inplace import write_out
    from ndgrad.autograd.record import fact as fact_of
    from ndgrad.autograd.record import payload_dtype, shares_memory
    from ndgrad.autograd.view import DEFAULT, ViewInfo, geometry_of, make_view

    if slow is None:
        slow = _refuse if level else dispatch_operator if operator else record_any if plain else dispatch
    if op.variadic or op.outputs != 1 or op.shares_storage:
        from ndgrad.ops.lanes import lane_of

        return (None if level else lane_of(op, slow, plain)) or _through_dispatch(op, slow)
    from ndgrad._tensor import Tensor

    args = [public_name(a) for a in op.args]
    keywords = [f"{s}=default_{s}" for s in op.settings] + (["out=None"] if public else []) + (["level", "made=None"] if level else [])
    parameters = (args[::-1] if reflected else args) + (["*"] if keywords else []) + keywords
    settings = "{" + ", ".join(f"{s!r}: {s}" for s in op.settings) + "}"
    to_dispatch = f"return slow(OP, ({', '.join(args)},), {settings})"
    body = number_lines(op)
    if public:
        body += ["if out is not None:", f"    return write_out(OP, ({', '.join(args)},), {settings}, out)"]
    first = parameters[0]
    body += [f"c = {first}.__class__", "if c is not Tensor:", "    c = FACES.get(c)"]
    body += ["if c is None:" if plain else "if process.busy or c is None:", "    " + to_dispatch]
    differentiable = op.differentiable_args
    plan = save_plan(op) if op.differentiable else None
    for arg, name in sorted(zip(op.args, args, strict=True), key=lambda pair: pair[1] != first):
        body += read_lines(op, arg, name, first == name, to_dispatch, plan, checks_halves=not level)
    if op.rounds_numbers:
        weak = f"({' or '.join(f'a_{a}.__class__ is float' for a, name in zip(op.args, args, strict=True) if name != first)})"
        array = f"a_{next(a for a, name in zip(op.args, args, strict=True) if name == first)}"
        body += [f"if {weak}{' and made is None' if level else ''} and {array}.dtype.char == 'E':", "    " + to_dispatch]
    if op.view:
        # a NumPy scalar has no memory to view: dispatch gives it some
        body += [f"if a_{op.args[0]}.__class__ is not ndarray:", "    " + to_dispatch]
    call = ", ".join([f"a_{a}" for a in op.args] + [f"{s}={s}" for s in op.settings])
    run = f"forward({call})"
    if level and differentiable:
        ours = [f"    if e_{a} is not None and edge_node(e_{a}).level != level:\n            e_{a} = None" for a in differentiable]
        body += ["if made is not None:", *ours]
        run = f"{run} if made is None else made"
    body += ["try:", f"    out = {run}", *recover_lines("out", f"({', '.join(args)},)", settings)]
    body += ["r = new(c)", "r._array = out", "r._storage = None", "r._meta = None"]
    if op.view:
        body += _view_lines(public_name(op.args[0]), op.args[0], settings, level)
    if differentiable:
        assert plan is not None
        none = " and ".join(f"e_{a} is None" for a in differentiable)
        if op.may_be_discrete:
            none = f"({none}) or {'payload_dtype(out)' if level else 'out.dtype'}.kind not in {INEXACT!r}"
        body += [f"if {none}:", "    r._node = None", "    return r"]
        edges = ", ".join(f"e_{a}" for a in differentiable)
        body += ["n = node_class()", "n.seq = next_sequence_number()", f"n.next = ({edges},)"] + (["n.level = level"] if level else [])
        step = "u" if _has_number_form(op) and not reflected else str(first_step(op)) if level else step_of(op)
        facts = ["n.shape = out.shape", "n.dtype = out.dtype"]
        if level:
            of_payload = "n.shape, n.dtype = tuple(out.shape), payload_dtype(out)"
            facts = ["if made is None:", *(f"    {line}" for line in facts), "else:", f"    {of_payload}"]
        body += [*facts, f"n.step = {step}", "n.extra = None"]
        body += save_lines(op, plan, dict(zip(op.args, args, strict=True)), first, level)
        for out in plan.outs:
            lines = [f"n.{out} = out", f"n.{out}_s = None", f"n.{out}_v = None"]
            body += guarded(plan.condition(out, differentiable), lines)
        body += [f"n.{s} = {s}" for s in plan.settings]
        body += ["r._node = n"]
        if plan.outs:
            body += ["if c is not Tensor:", "    kept_storage(r)"]
        body += ["return r"]
    else:
        body += ["r._node = None", "return r"]
    source = f"def {op.name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    scope = {
        "OP": op,
        "slow": slow,
        "write_out": into or write_out,
        "sizes": sizes,
        "Tensor": Tensor,
        "FACES": FACES,
        "process": process,
        "edge": edge,
        "new": new,
        "kept_storage": kept_storage,
        "without_base": without_base,
        "kept_in_level": kept_in_level,
        "next_sequence_number": next_sequence_number,
        "forward": op.forward_for(numpy) if level else op.bare_forward_for(numpy),
        "after_failure": after_failure,
        "as_number": as_number,
        "fact": fact_of,
        "node_class": None if not differentiable else op.level_node_class if level else op.node_class,
        "NoneType": type(None),
        "ndarray": numpy.ndarray,
        "edge_node": edge_node,
        "payload_dtype": payload_dtype,
        "shares_memory": shares_memory,
        "make_view": make_view,
        "storage_of": storage_of,
        "Storage": Storage,
        "Meta": Meta,
        "ViewInfo": ViewInfo,
        "DEFAULT": DEFAULT,
        "geometry_of": geometry_of,
        **{f"default_{s}": d for s, d in op.settings.items()},
    }
    made = compile_source(op.name, source, scope)
    made.__doc__ = f"op {op.name!r} on tensors"
    return made


def _view_lines(source: str, arg: str, settings: str, level: bool) -> list[str]:
    """Lines that make a view of result `r` if it shares memory with its source. The commonest case of `make_view` is written out."""
    general = ["    r._node = None", f"    make_view(r, {source}, OP, {settings})"]
    if level:
        return [f"if shares_memory(out, a_{arg}):", *general]
    return [
        f"s = {source}._storage or storage_of({source})",
        f"if s.__class__ is Storage and out.base is (a_{arg} if a_{arg}.base is None else a_{arg}.base):",
        "    r._storage = s",
        "    r._meta = meta = Meta()",
        f"    view = None if {source}._meta is None else {source}._meta.view",
        "    if view is None:",
        f"        meta.view = ViewInfo({source}, (None, OP, {settings}, 0), DEFAULT, s.version.number, geometry_of({source}))",
        "    else:",
        f"        meta.view = ViewInfo(view.base, (view.path, OP, {settings}, 0), view.creation, s.version.number, view.geometry)",
        f"elif shares_memory(out, a_{arg}):",
        *general,
    ]


def number_lines(op: Op) -> list[str]:
    """Lines that make numbers of what is given for settings that are numbers (see `as_number`)."""
    lines = []
    for s in op.number_settings:
        lines += [f"if {s}.__class__ is not float and {s}.__class__ is not int:", f"    {s} = as_number(OP.name, {s!r}, {s})"]
    return lines


def _refuse(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return NotImplemented


def recover_lines(out: str, args: str, settings: str) -> list[str]:
    """Lines for a forward that has failed."""
    retry = f"    {out} = after_failure(OP, {args}, {settings}, error)"
    return ["except (AttributeError, NotImplementedError, TypeError, ValueError) as error:", retry]


def read_lines(
    op: Op, arg: str, public: str, is_first: bool, to_dispatch: str, plan: SavePlan | None, checks_halves: bool = True
) -> list[str]:
    """Lines that take an argument apart: a_ its array, e_ its gradient edge, s_ its storage. Halves leave the lane, if the op's forward
    function does not take them as they are."""
    take = [f"a_{arg} = {public}._array"]
    if checks_halves and not op.halves:
        take += [f"if a_{arg}.dtype.char in {HALF!r}:", "    " + to_dispatch]
    numbers = [f"a_{arg} = {public}"]
    if arg in op.differentiable_args:
        take += [f"e_{arg} = {public}._node if {public}._meta is None else edge({public})"]
        numbers += [f"e_{arg} = None"]
    if plan is not None and arg in plan.arrays:
        take += [f"s_{arg} = {public}._storage if c is Tensor else kept_storage({public})"]
        numbers += [f"s_{arg} = None"]
    if is_first:
        return take
    body = [f"d = {public}.__class__", "if d is c or FACES.get(d) is c:", *(f"    {line}" for line in take)]
    if _has_number_form(op):
        body += [f"    u = {RULE}"]
        numbers += [f"u = {UNARY}"]
    if op.elementwise:
        body += ["elif d is float or d is int:", *(f"    {line}" for line in numbers)]
    elif arg in op.optional_args:
        body += ["elif d is NoneType:", *(f"    {line}" for line in numbers)]
    return [*body, "else:", "    " + to_dispatch]


def save_lines(op: Op, plan: SavePlan, names: dict[str, str], first: str, level: bool = False) -> list[str]:
    """Lines that give node `n` what its rules name of the arguments (here under `names`), once `read_lines` have taken them apart.

    `first` is the name of one that is a tensor for sure.
    """
    body = []
    for arg, name in names.items():
        if arg in plan.arrays:
            # a view always has a storage
            without = f"kept_in_level({name}, level)" if level else f"without_base({name})"
            lines = [f"n.{arg} = {name} if s_{arg} is None else {without}", f"n.{arg}_v = s_{arg} and s_{arg}.version"]
            body += guarded(plan.condition(arg, op.differentiable_args), lines)
        for fact in ("shape", "ndim", "dtype"):
            if f"{arg}_{fact}" in plan.facts:
                may_be_number = op.elementwise and name != first
                body += [f"n.{arg}_{fact} = " + (f"fact({name}, {fact!r})" if level or may_be_number else f"a_{arg}.{fact}")]
    return body


def guarded(condition: str | None, lines: list[str]) -> list[str]:
    return lines if condition is None else [f"if {condition}:", *(f"    {line}" for line in lines)]


def _through_dispatch(op: Op, slow: Callable[..., Any]) -> Callable[..., Any]:
    defaults = op.settings

    def eager(*args: Any, **settings: Any) -> Any:
        return slow(op, args, with_numbers(op, {**defaults, **settings}) if defaults else settings)

    eager.__name__ = op.name
    return eager


# ----- node classes --------------------------------------------------------------------------------------------------


def make_node_class(op: Op) -> type[Node]:
    """The node class of an op: slots for what its rules name, and `apply` on raw arrays."""
    from ndgrad.autograd.saved_access import show_saved  # not before the first graph

    plan = save_plan(op)
    base: tuple[type[Any], ...] = (RuleNode, MultiNode) if op.outputs != 1 else (RuleNode,)
    members: dict[str, Any] = {
        "__slots__": tuple(plan.slots()),
        "__module__": "ndgrad.autograd",
        "op": op,
        "plan": plan,
        "outputs": op.outputs,
        "first_step": first_step(op),
    }
    if reads_part(op):
        members["reads"] = True
    if op.view and (op.partial_view or op.whole_view):
        members["passes_parts"] = True
    if op.consumes:
        members["consumes"] = True
    cls: type[Node] = type(op.backward_name, base, members)
    if op.outputs != VARIABLE and not op.variadic:
        cls.apply = _make_apply(op, plan)  # type: ignore[method-assign]  # written by generated code
    elif joins(op):
        cls.apply = _make_apply_of_many(op, plan)  # type: ignore[method-assign]  # written by generated code
    elif _returns_parts(op):
        cls.apply = _make_apply_of_parts(op, plan)  # type: ignore[method-assign]  # written by generated code
    if first_step(op) == UNARY or _has_number_form(op):
        cls.apply_one = _make_apply(op, plan, one=True)  # type: ignore[attr-defined]  # written by generated code
    cls.release = _make_release(plan)  # type: ignore[method-assign, assignment]  # written by generated code
    show_saved(cls)
    return cls


def _make_release(plan: SavePlan) -> Callable[[Any], None]:
    held = plan.arrays + plan.outs
    body = "".join(f"    n.{name} = FREED\n" for name in held) or "    pass\n"
    return compile_source("release", f"def release(n):\n{body}", {"FREED": FREED})


def first_step(op: Op) -> int:
    """What `Node.step` starts as (see ndgrad.autograd.node)."""
    if _returns_parts(op):
        return RULE
    if op.outputs != 1 or op.consumes or reads_part(op):
        return GENERAL
    unary = op.elementwise and len(op.args) == 1 and not op.variadic and op.jvp == "elementwise"
    return UNARY if unary else RULE


def step_of(op: Op) -> str:
    """The expression for `Node.step` of a node outside transforms: see Sizes in ndgrad.autograd.node."""
    if op.differentiable and reads_part(op) and op.outputs == 1:
        return f"{RULE} if a_{op.args[0]}.size < sizes.small_read else {GENERAL}"
    return str(first_step(op))


def reads_part(op: Op) -> bool:
    """Whether the op reads a part of its input, to whose gradient its own is added in place (see ndgrad.autograd.parts)."""
    return op.partial_view or op.copies_part is not None or op.adjoint_write is not None


def joins(op: Op) -> bool:
    """Whether the op makes one array of any number of them, and saves none (cat, stack)."""
    if not op.variadic or op.outputs != 1 or len(op.args) != 1 or op.view or op.joint_rule is None:
        return False
    plan = save_plan(op)
    return not plan.arrays and not plan.outs


def _returns_parts(op: Op) -> bool:
    """Whether the op has any number of outputs, and one rule that needs nothing but their gradients (split, unbind)."""
    if op.outputs != VARIABLE or len(op.args) != 1 or op.joint_rule is not None or not op.differentiable:
        return False
    plan = save_plan(op)
    return not plan.arrays and not plan.outs


def _has_number_form(op: Op) -> bool:
    """Whether the op, with a Python number as second argument, is as good as an op of one argument."""
    return op.elementwise and len(op.args) == 2 and not op.variadic and op.jvp == "elementwise" and op.outputs == 1 and len(op.rules) == 2


def _make_apply(op: Op, plan: SavePlan, one: bool = False) -> Callable[..., Any]:
    """`apply` on raw arrays: read what was saved, run the rules of the inputs that need a gradient.

    With `one`, only the first argument has a gradient, and it is returned bare.
    """
    from ndgrad._tensor import Tensor

    differentiable = op.differentiable_args[:1] if one else op.differentiable_args
    body = [", ".join(f"e_{a}" for a in differentiable) + ", = n.next"] if len(differentiable) > 1 else []
    scope: dict[str, Any] = {"Tensor": Tensor, "FREED": FREED, "Packed": Packed, "unpack_raw": unpack_raw}
    scope["F64"], scope["F32"] = _REAL
    scope["HALF"], scope["general"] = HALF, RuleNode.apply
    used = set(op.rules[differentiable[0]][1]) if one else set(plan.users)
    for name in plan.arrays:
        if name in used:
            body += guarded(None if one else plan.condition(name, differentiable), _read_saved_input(name))
    for name in plan.outs:
        if name in used:
            body += guarded(None if one else plan.condition(name, differentiable), _read_saved_output(name))
    # elementwise rules are free of conjugates: see the table's manual
    conjugate = op.joint_rule is None and op.jvp == "elementwise"
    widens = ["if d.char in HALF:", f"    return general(n, g, ops, keep){'[0]' if one else ''}"]
    if conjugate:
        widens = ["d = n.dtype", "c = False", *guarded("d is not F64 and d is not F32", [*widens, "c = d.kind == 'c'"])]
        body = [*widens, *body]
    elif plan.arrays or plan.outs:
        body = ["d = n.dtype", *guarded("d is not F64 and d is not F32", widens), *body]
    several = [] if op.outputs == 1 else [f"g{i}" for i in range(op.outputs)]
    if several:
        body.append( ", ".join(several) + ", = g")
    where = {**{n: n for n in [*plan.arrays, *plan.outs, *several, "g", "ops"]}, "t": "g"}
    where |= {s: f"n.{s}" for s in plan.settings + plan.facts}
    held = plan.arrays + plan.outs
    release = ["if not keep:", *(f"    n.{name} = FREED" for name in held)] if held else []
    if op.joint_rule is not None:
        rule, names = op.joint_rule
        scope["rule"] = rule
        needs = "(" + "".join(f"e_{a} is not None, " for a in differentiable) + ")"
        body += [f"out = rule({', '.join(needs if name == 'needs' else where[name] for name in names)})"]
        body += [*release, "return out"]
    else:
        if conjugate:
            body += ["if c:", "    g = g.conj()"]
        rules = op.rules
        if op.shared is not None and not one:
            rules = op.written_rules
            where["shared"] = "shared"
            scope["common"] = op.shared
            body += [f"shared = {_call(op.shared, 'common', [where[name] for name in parameter_names(op.shared)])}"]
        for a in reversed(differentiable) if op.consumes else differentiable:
            rule, names = rules[a]
            scope[f"rule_{a}"] = rule
            call = _call(rule, f"rule_{a}", [where[name] for name in names])
            body += [f"g_{a} = {call} if e_{a} is not None else None" if len(differentiable) > 1 else f"g_{a} = {call}"]
        body += release
        pack = _bare if one else _tuple
        if conjugate:
            body += ["if c:", f"    return {pack(f'g_{a} if g_{a} is None else g_{a}.conj()' for a in differentiable)}"]
        body += [f"return {pack(f'g_{a}' for a in differentiable)}"]
    source = "def apply(n, g, ops, keep=True):\n" + "".join(f"    {line}\n" for line in body)
    return compile_source("apply", source, scope)


def _make_apply_of_parts(op: Op, plan: SavePlan) -> Callable[..., Any]:
    """`apply` for an op that returns parts: zeros for the parts that had no gradient, then the rule."""
    rule, names = op.rules[op.args[0]]
    where = {"gs": "gs", "ops": "ops"} | {s: f"n.{s}" for s in plan.settings + plan.facts}
    body = ["for g in gs:", "    if g is None:", "        gs = n.with_zeros(gs, ops.np.zeros)", "        break"]
    body += [f"return (rule({', '.join(where[name] for name in names)}),)"]
    source = "def apply(n, gs, ops, keep=True):\n" + "".join(f"    {line}\n" for line in body)
    return compile_source("apply", source, {"rule": rule})


def _make_apply_of_many(op: Op, plan: SavePlan) -> Callable[..., Any]:
    """`apply` for an op that joins arrays: one rule for all of them."""
    assert op.joint_rule is not None
    rule, names = op.joint_rule
    where = {"g": "g", "ops": "ops", "needs": "tuple([e is not None for e in n.next])"} | {s: f"n.{s}" for s in plan.settings + plan.facts}
    source = f"def apply(n, g, ops, keep=True):\n    return rule({', '.join(where[name] for name in names)})\n"
    return compile_source("apply", source, {"rule": rule})


#: Rules so short that a call would cost more than they do: the body takes the call's place in the generated code.
_SHORT: list[tuple[Any, str]] = [
    ((lambda a: a).__code__, "{0}"),
    ((lambda a: -a).__code__, "-{0}"),
    ((lambda a, b: a * b).__code__, "{0} * {1}"),
    ((lambda a, b: a / b).__code__, "{0} / {1}"),
    ((lambda a, b: a - a * b * b).__code__, "{0} - {0} * {1} * {1}"),
]


def _call(rule: Callable[..., Any], function: str, arguments: list[str]) -> str:
    """The expression that runs a rule: its body if that is short and known, else a call."""
    code = getattr(rule, "__code__", None)
    for short, text in _SHORT:
        if code is not None and code.co_code == short.co_code and code.co_argcount == short.co_argcount:
            return text.format(*arguments)
    return f"{function}({', '.join(arguments)})"


def _bare(parts: Any) -> str:
    (only,) = parts
    return str(only)


def _tuple(parts: Any) -> str:
    return "(" + "".join(f"{p}, " for p in parts) + ")"


def _read_saved_input(name: str) -> list[str]:
    return [
        f"{name} = n.{name}",
        f"if {name}.__class__ is Tensor:",
        f"    s = {name}._storage",
        f"    {name} = {name}._array if s is None or s.version is n.{name}_v else unpack_raw(n, {name!r})",
        f"elif {name}.__class__ is not float:",
        f"    {name} = unpack_raw(n, {name!r})",
    ]


def _read_saved_output(name: str) -> list[str]:
    return [
        f"{name} = n.{name}",
        f"s = n.{name}_s",
        f"if s is not None and s.version is not n.{name}_v or {name}.__class__ is Packed:",
        f"    {name} = unpack_raw(n, {name!r})",
    ]
