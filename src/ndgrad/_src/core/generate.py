"""Specialised Python functions generated from the table: an eager function and a node class per op.

A general function would loop over arguments, look up rules and decide which values to save. At a microsecond per op,
that is most of the cost. So the loop runs once, here, and writes the code that it would have executed: for `mul` about
the same as handwritten code. `print(op.eager.__source__)` shows it, and so do tracebacks (the source is in linecache).

Note [Calls without recording]
Under no_grad as the only mode, such a function hands its arguments to its own `quiet` form, which is `unrecorded` with
the same answers to unusual arguments. Models spend much of their time there, and dispatch would double it.

One template, `FunctionTemplate`, covers any number of arguments and results; its steps are those of
ndgrad._src.core.record. The functions of an op differ in their checks. `eager` (and the operators and public functions)
checks for modes. `plain` assumes that no mode is in force, `unrecorded` that no_grad is the only mode. `in_level`
records in the graph of a transform. Each takes plain tensors (and Python numbers); all other calls go to `dispatch`,
which is complete and may be slow. Node classes are made in ndgrad._src.core.node_classes.

Note [Arrays on a device]
With the first array on a GPU, the code of all functions is generated again. The new code checks the class of each
array, and passes calls on device arrays to a function of the same template with the device's forward function.
`dispatch` handles mixtures.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import library
from ndgrad._src.arrays.precision import INEXACT, NARROW, has_narrow, run_in_single, run_moving
from ndgrad._src.arrays.streams import streams
from ndgrad._src.core.detach_checks import as_number, with_numbers
from ndgrad._src.core.modes import current, process
from ndgrad._src.core.node import GENERAL, RULE, UNARY, edge_node, next_sequence_number, note_stream, sizes
from ndgrad._src.core.node_routes import first_route, has_number_form, reads_part
from ndgrad._src.core.op_errors import after_failure
from ndgrad._src.core.save_plan import save_plan
from ndgrad._src.core.stored_tensors import keep_in_level, without_base
from ndgrad._src.core.variable import Meta, edge, new
from ndgrad._src.core.versions import SCALARS, Storage, kept_storage, storage_of
from ndgrad._src.core.view import DEFAULT, MULTI_OUTPUT, NO_GRAD, ViewInfo, geometry_of, make_view
from ndgrad._src.core.view_path import LONG
from ndgrad._src.ops.deferred import make_deferred, make_renewable, renew
from ndgrad._src.ops.table import Op

if TYPE_CHECKING:
    from ndgrad._src.core.variable import Variable
    from ndgrad._typing import Payload

#: Class of an argument -> tensor class of the result: Tensor -> Tensor, Parameter -> Tensor, Array -> Array.
TENSOR_TYPES: dict[type[Any], type[Any]] = {}

_REAL = (numpy.dtype(numpy.float64), numpy.dtype(numpy.float32))
#: Codes of bools and integers.
EXACT = "?bBhHiIlLqQpP"
_PUBLIC_NAMES = {"x": "input", "y": "other"}


def public_name(arg: str) -> str:
    return _PUBLIC_NAMES.get(arg, arg)


def compile_source(name: str, source: str, scope: dict[str, Any]) -> Callable[..., Any]:
    """Compile a generated function, with its source in linecache for tracebacks."""
    filename = f"<ndgrad generated {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    function: Callable[..., Any] = scope[name]
    function.__source__ = source  # type: ignore[attr-defined]  # functions take attributes
    return function


def make_widening(op: Op, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward function that computes half-precision arrays in float32 (Note [Half precision])."""
    in_single = run_moving if op.moves_values else run_in_single
    if op.variadic:

        def run(*arrays: Any, **settings: Any) -> Payload:
            return (
                in_single(forward, arrays, settings, op.elementwise)
                if has_narrow(arrays)
                else forward(*arrays, **settings)
            )

        return run
    arrays = ", ".join(op.args)
    named = "".join(f", {s}={s}" for s in op.settings)
    settings = "{" + ", ".join(f"{s!r}: {s}" for s in op.settings) + "}"
    parameters = arrays + (", *" if op.settings else "") + "".join(f", {s}=default_{s}" for s in op.settings)
    body = [
        "try:",
        f"    half = {' or '.join(f'{a}.dtype.char in {NARROW!r}' for a in op.args)}",
        "except AttributeError:  # a number, or None",
        f"    half = has_narrow(({arrays},))",
        "if half:",
        f"    return in_single(forward, ({arrays},), {settings}, {op.elementwise})",
        f"return forward({arrays}{named})",
    ]
    source = f"def {op.name}({parameters}):\n" + "".join(f"    {line}\n" for line in body)
    scope = {
        "has_narrow": has_narrow,
        "in_single": in_single,
        "forward": forward,
        **{f"default_{s}": d for s, d in op.settings.items()},
    }
    return compile_source(op.name, source, scope)


# ----- eager functions -----------------------------------------------------------------------------------------------


def make_eager(
    op: Op,
    *,
    operator: bool = False,
    reflected: bool = False,
    public: bool = False,
    plain: bool = False,
    level: bool = False,
    unrecorded: bool = False,
    strict: bool = False,
    slow: Callable[..., Any] | None = None,
    into: Callable[..., Any] | None = None,
    on_device: bool = False,
    traced: tuple[type[FunctionTemplate], dict[str, Any]] | None = None,
) -> Callable[..., Any]:
    """Return the function that runs `op` on tensors and records it.

    `operator`: for Python's operators, which return NotImplemented for unknown operands. `reflected`: the arguments
    come in reverse order, the tensor first (`__rsub__`). `public`: takes `out=` as torch's functions do. `plain`: the
    caller knows that no mode is in force. `level`: same as `plain`, in the graph of the transform whose number is the
    keyword `level`; the keyword `made` has the payload of the result if the levels below have computed it; arguments
    of other kinds return NotImplemented. `unrecorded`: same as `plain`, without recording. `strict`: dtypes must agree
    if torch requires it. `slow`, `into`: replacements of `dispatch` (including the check of dtypes) and of `write_out`
    (see ndgrad._src.tensor.public). `on_device`: see Note [Arrays on a device]. `traced`: a template for payloads that
    are not NumPy arrays, and the names used by its lines.
    """
    from ndgrad._src.core.dispatch import dispatch, dispatch_operator, record_any  # it calls generated functions
    from ndgrad._src.core.out_argument import write_out  # it calls generated functions
    from ndgrad._src.core.promotion import require_one_dtype  # it calls generated functions

    if slow is None:
        slow = _refuse if level else dispatch_operator if operator else record_any if plain else dispatch
        if op.one_dtype and (strict or operator or public):
            slow = require_one_dtype(slow)
    if not _has_function(op, level) or (unrecorded and op.view and traced):
        return _through_dispatch(op, slow)

    def make() -> Callable[..., Any]:
        template, names = traced or (FunctionTemplate, {})
        written = template(op, reflected, public, plain, level, not unrecorded and op.differentiable, on_device)
        written.creation = "NO_GRAD" if unrecorded else ""
        scope = {**_scope(op, level), "slow": slow, "write_out": into or write_out}
        if not plain:
            scope["current"] = current
            quiet: dict[str, Any] = {"reflected": reflected, "unrecorded": True, "slow": slow}
            scope["quiet"] = make_deferred(op.name, partial(make_eager, op, plain=True, **quiet))
        devices = library.device_library
        if on_device:
            scope |= {"ndarray": devices.ndarray, "forward": op.forward_for(devices)}
        elif devices is not None:
            twin: dict[str, Any] = {"reflected": reflected, "unrecorded": unrecorded, "slow": slow}
            scope["on_device"] = make_deferred(op.name, partial(make_eager, op, plain=True, on_device=True, **twin))
            scope["DEVICE_ARRAY"] = devices.ndarray
        made = compile_source(op.name, written.source(), scope | names)
        made.__doc__ = f"op {op.name!r} on tensors"
        return made

    return make_renewable(make)


library.on_second_library.append(renew)


def _has_function(op: Op, level: bool) -> bool:
    """True if a function is generated for the op; otherwise all of its calls go to dispatch."""
    if op.shares_storage:
        return False
    if level:
        return op.outputs == 1 and not op.variadic
    if not op.variadic:
        return op.outputs == 1 or not op.view or len(op.args) == 1
    if not op.differentiable or op.outputs != 1 or op.view:
        return False
    plan, collecting = save_plan(op), op.args[-1]
    return not plan.outs and not (collecting in op.differentiable_args and collecting in plan.arrays)


def _scope(op: Op, level: bool) -> dict[str, Any]:
    """Return the global names of a generated function."""
    from ndgrad._src.core.promotion import makes_floats, run_in_default_dtype  # it calls generated functions
    from ndgrad._src.core.record import fact, payload_dtype, shares_memory
    from ndgrad._src.foundations.registry import Tensor  # the class lies above the core

    node_class = None if not op.differentiable else op.level_node_class if level else op.node_class
    forward = op.forward_for(numpy) if level else op.bare_forward_for(numpy)
    return {
        "OP": op, "forward": forward, "node_class": node_class, "DISCRETE": op.discrete_outputs,
        "Tensor": Tensor, "TENSOR_TYPES": TENSOR_TYPES, "process": process, "SIZES": sizes,
        "after_failure": after_failure, "as_number": as_number, "NoneType": type(None), "ndarray": numpy.ndarray,
        "F64": _REAL[0], "F32": _REAL[1], "run_in_default_dtype": run_in_default_dtype, "makes_floats": makes_floats,
        "new": new, "Meta": Meta, "edge": edge, "edge_node": edge_node, "next_sequence_number": next_sequence_number,
        "fact": fact, "payload_dtype": payload_dtype, "shares_memory": shares_memory, "version_of": _version_of,
        "without_base": without_base, "keep_in_level": keep_in_level, "kept_storage": kept_storage,
        "SCALARS": SCALARS,
        "storage_of": storage_of, "Storage": Storage,
        "make_view": make_view, "ViewInfo": ViewInfo, "DEFAULT": DEFAULT, "MULTI_OUTPUT": MULTI_OUTPUT,
        "NO_GRAD": NO_GRAD,
        "geometry_of": geometry_of, "streams": streams, "note_stream": note_stream,
        **{f"default_{s}": d for s, d in op.settings.items()},
    }  # fmt: skip


def _version_of(x: Variable, tensor_type: type[Any]) -> Any:
    """Return the version of a tensor saved for a result of class `tensor_type`."""
    storage = x._storage
    if tensor_type.keeps_saved and not (storage is None and x._array.__class__ in SCALARS):
        storage = kept_storage(x)
    return storage and storage.version


class FunctionTemplate:
    """Source of an op's function, with the steps of ndgrad._src.core.record: class, forward, wrap, edges, node.

    `creation` is the origin of all views that the function makes; "" if it depends on their source.

    In the source, an argument `x` is split into a_x, its array, e_x, its gradient edge, and s_x, its storage; c is the
    class of the results, n the node, r a result. A single result is made line by line; several are made in a loop.
    """

    creation = ""

    def __init__(self, op: Op, reflected: bool, public: bool, plain: bool, level: bool, records: bool, device: bool):
        self.op, self.public, self.plain, self.level = op, public, plain, level
        self.on_device = device
        #: True if some arrays may be on a device and this function is not for them
        self.beside_devices = not device and library.device_library is not None
        self.plan = save_plan(op) if records else None
        self.differentiable = op.differentiable_args if records else ()
        #: fixed arguments (without the collecting argument) -> parameter names
        self.names = {a: public_name(a) for a in (op.args[:-1] if op.variadic else op.args)}
        self.collecting = op.args[-1] if op.variadic else None
        names = list(self.names.values())
        self.parameters = names[::-1] if reflected else [*names, *(["*xs"] if op.variadic else [])]
        #: an argument that must be a tensor, otherwise the call goes to dispatch
        self.first = self.parameters[0] if names else "xs[0]"
        self.first_array = f"a_{next((a for a, name in self.names.items() if name == self.first), None)}"
        self.given = "(" + "".join(f"{p}, " for p in [*names, *(["*xs"] if op.variadic else [])]) + ")"
        self.settings = "{" + ", ".join(f"{s!r}: {s}" for s in op.settings) + "}"
        self.leave = f"return slow(OP, {self.given}, {self.settings})"
        self.numbers = records and has_number_form(op) and not reflected
        self.promoted = {op.args[i] for i in op.promotes}
        #: the array whose dtype the other promoted arguments must share: the first one, or that of another argument if
        #: the first takes no part (the condition of `where`), which may be a number
        self.leading = self._leading()

    def _leading(self) -> str:
        read = sorted(self.names.items(), key=lambda pair: pair[1] != self.first)
        return next((f"a_{arg}" for arg, _ in read if arg in self.promoted), self.first_array)

    def source(self) -> str:
        """Return the source of the function."""
        keywords = [f"{s}=default_{s}" for s in self.op.settings] + (["out=None"] if self.public else [])
        keywords += ["level", "made=None"] if self.level else []
        rest = [] if self.op.variadic else ["*more"] if self.public else ["*"] if keywords else []
        parameters = self.parameters + rest + keywords
        body = [*number_lines(self.op), *self.tensor_type(), *self.read_arguments(), *self.forward()]
        body += self.one_result() if self.op.outputs == 1 else self.several_results()
        return f"def {self.op.name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)

    # ----- class of results -----

    def tensor_type(self) -> list[str]:
        """Return lines that find the class c of the results, or call dispatch."""
        body: list[str] = []
        if self.public and not self.op.variadic:  # an argument too many: the call of a bound method, or an error
            body += ["if more:", f"    return slow(OP, {self.given} + more, {self.settings} | {{'out': out}})"]
        if self.public:
            body += ["if out is not None:", f"    return write_out(OP, {self.given}, {self.settings}, out)"]
        if self.first == "xs[0]":
            body += ["if not xs:", f"    {self.leave}"]
        body += [f"c = {self.first}.__class__", "if c is not Tensor:", "    c = TENSOR_TYPES.get(c)"]
        if self.plain:
            return [*body, "if c is None:", f"    {self.leave}"]
        calls = [*self.parameters, *(f"{s}={s}" for s in self.op.settings)]
        body += ["if process.busy or c is None:"]
        # The scope is not kept in a variable, because a stored traceback would keep the mode alive.
        body += ["    if c is not None and current().quiet and len(process.busy) == 1 and not process.dispatching:"]
        return [*body, f"        return quiet({', '.join(calls)})", f"    {self.leave}"]

    # ----- parts of the arguments -----

    def read_arguments(self) -> list[str]:
        """Return lines that split all arguments into their parts."""
        body = []
        for arg, name in sorted(self.names.items(), key=lambda pair: pair[1] != self.first):
            body += self.read_argument(arg, name)
        if self.collecting is not None:
            body += [
                "arrays, edges = [], []",
                "for x in xs:",
                "    d = x.__class__",
                "    if d is not c and TENSOR_TYPES.get(d) is not c:",
            ]
            body += [f"        {self.leave}", "    a = x._array", *indent(self.place("a", first=False))]
            if not self.op.halves and not self.on_device:
                body += [f"    if {_has_dtype('a', NARROW)}:", f"        {self.leave}"]
            body += ["    arrays.append(a)"]
            if self.joins():
                body += ["    edges.append(x._node if x._meta is None else edge(x))"]
        if self.op.view:
            # A NumPy scalar has no memory to view: dispatch converts it to an array.
            body += [f"if {self.first_array}.__class__ is not ndarray:", f"    {self.leave}"]
        if self.op.view and self.op.outputs != 1:
            source = self.first
            body += [
                f"s = {source}._storage or storage_of({source})",
                "if s.__class__ is not Storage:",
                f"    {self.leave}",
            ]
        return body

    def read_argument(self, arg: str, name: str) -> list[str]:
        """Return lines that split an argument. Half precision goes to dispatch, unless the forward supports it."""
        op = self.op
        take, number = self.take(arg, name), [f"a_{arg} = {name}"]
        if not self.level and not op.halves and not self.on_device:
            take += [f"if {_has_dtype(f'a_{arg}', NARROW)}:", f"    {self.leave}"]
        number += [f"e_{arg} = None"] if arg in self.differentiable else []
        number += [f"s_{arg} = None"] if self.saves(arg) and self.may_be_number(arg, name) else []
        if name == self.first:
            return take
        if self.numbers:
            take += [f"u = {RULE}"]
            number += [f"u = {UNARY}"]
        # NumPy returns float32 for bfloat16 and a Python float; NumPy 2.0 also for bfloat16 and a Python integer.
        rounding = "E" if op.rounds_numbers and not self.on_device else ""
        leaving, leading = "", self.leading
        is_led = f"a_{arg}" != leading
        if arg in self.promoted and is_led and not self.level:
            # torch's tensor class only (see ndgrad._src.core.promotion)
            leaving = EXACT
            take += [f"if c is Tensor and {self.promotes_beside(f'a_{arg}')}:", f"    {self.leave}"]
        refused = [f"dt.char in {rounding!r}"] if rounding else []
        refused += [f"d is float and dt.char in {leaving!r}"] if leaving else []
        if refused and is_led:
            rare = ("made is None and " if self.level else "") + _has_rare_dtype(leading)
            if leading != self.first_array:  # two numbers, or a payload without a dtype
                number += [f"if {leading}.__class__ is not ndarray:", f"    {self.leave}"]
            number += [f"if {rare} and ({' or '.join(refused)}):", f"    {self.leave}"]
        body = [f"d = {name}.__class__", "if d is c or TENSOR_TYPES.get(d) is c:", *indent(take)]
        if op.elementwise:
            body += ["elif d is float or d is int:", *indent(number)]
        elif arg in op.optional_args:
            body += ["elif d is NoneType:", *indent(number)]
        return [*body, "else:", f"    {self.leave}"]

    def promotes_beside(self, array: str) -> str:
        """Return a condition that is false if the leading array alone gives the dtype of the result.

        A bool array beside a common floating-point one does not change it.
        """
        first, leading = self.first_array, self.leading
        if leading == first:
            quick_to_tell = f"({first}.__class__ is ndarray or {array}.__class__ is not {first}.__class__)"
            differs = f"{quick_to_tell} and {array}.dtype is not {first}.dtype"
            if not self.op.elementwise:
                return differs
            return f"{differs} and ({array}.dtype.char != '?' or {_has_rare_dtype(first)})"
        is_number = f"{leading}.__class__ is float or {leading}.__class__ is int"
        beside_number = f"not ({is_number}) or {_has_rare_dtype(array)}"
        return f"({array}.dtype is not {leading}.dtype if {leading}.__class__ is ndarray else {beside_number})"

    def take(self, arg: str, name: str) -> list[str]:
        """Return lines that split a tensor."""
        lines = [f"a_{arg} = {name}._array", *self.place(f"a_{arg}", name == self.first)]
        if arg in self.differentiable:
            lines += [f"e_{arg} = {name}._node if {name}._meta is None else edge({name})"]
        if self.saves(arg) and self.may_be_number(arg, name):
            lines += [f"s_{arg} = {name}"]  # until `save` replaces it by the storage
        return lines

    def may_be_number(self, arg: str, name: str) -> bool:
        """True if the function takes a number or None in place of the tensor."""
        return name != self.first and (self.op.elementwise or arg in self.op.optional_args)

    def saves(self, arg: str) -> bool:
        """True if the rules need the array of an argument."""
        return self.plan is not None and arg in self.plan.arrays

    def place(self, array: str, first: bool) -> list[str]:
        """Return lines that pass the call on if an array is of another array library."""
        if self.on_device:
            return [f"if {array}.__class__ is not ndarray:", f"    {self.leave}"]
        if not self.beside_devices:
            return []
        calls = [*self.parameters, *(f"{s}={s}" for s in self.op.settings)]
        hand_over = f"return on_device({', '.join(calls)})"
        leave = hand_over if first and not self.level else self.leave
        return [f"if {array}.__class__ is DEVICE_ARRAY:", f"    {leave}"]

    # ----- forward -----

    def forward(self) -> list[str]:
        """Return lines that run the op on arrays."""
        op, run, body = self.op, self.call(), []
        if self.level and self.differentiable:
            ours = [
                f"if e_{a} is not None and edge_node(e_{a}).level != level:\n            e_{a} = None"
                for a in self.differentiable
            ]
            body = guard("made is not None", ours)
            run = f"{run} if made is None else made"
        out = "out" if op.outputs == 1 else "outs"
        body += ["try:", f"    {out} = {run}"]
        memory = "MemoryError, " if self.on_device else ""
        body += [f"except (AttributeError, {memory}NotImplementedError, TypeError, ValueError) as error:"]
        body += [f"    {out} = after_failure(OP, {self.given}, {self.settings}, error)"]
        if op.variadic and self.promoted and not self.level:  # torch's tensor class (see ndgrad._src.core.promotion)
            body += ["if c is Tensor and out.dtype is not arrays[0].dtype:", f"    {self.leave}"]
        return body

    def arrays(self) -> list[str]:
        return [*(f"a_{a}" for a in self.names), *(["*arrays"] if self.collecting is not None else [])]

    def call(self) -> str:
        """Return the expression that runs the op on arrays."""
        return f"forward({', '.join([*self.arrays(), *(f'{s}={s}' for s in self.op.settings)])})"

    # ----- one result -----

    def set_slot(self, slot: str, value: str) -> str:
        """Return the line that sets a slot of the result."""
        return f"r.{slot} = {value}"

    def one_result(self) -> list[str]:
        """Return lines that make and return the tensor of a single result."""
        op = self.op
        body = ["r = new(c)", self.set_slot("_array", "out")]
        body += [self.set_slot("_storage", "None"), self.set_slot("_meta", "None")]
        if op.view:
            body += _view_lines(self.first, self.first_array, self.settings, self.level, self.creation)
        if self.plan is None:
            return [*body, *self.narrow(), self.set_slot("_node", "None"), "return r"]
        none = " and ".join(
            [f"{e} is None" for e in self.fixed_edges()] + (["edges.count(None) == len(edges)"] if self.joins() else [])
        )
        if op.may_be_discrete or op.variadic:
            none = f"({none}) or {'payload_dtype(out)' if self.level else 'out.dtype'}.kind not in {INEXACT!r}"
        unrecorded = [*self.narrow(), self.set_slot("_node", "None"), "return r"]
        body += [f"if {none}:", *indent(unrecorded), *self.node(), self.set_slot("_node", "n")]
        if self.plan.outs:
            body += ["if c is not Tensor:", "    kept_storage(r)"]
        return [*body, "return r"]

    def narrow(self) -> list[str]:
        """Return lines that convert floats computed from integers to the default dtype, for torch's tensor class.

        Such results are never recorded.
        """
        first = self.first_array
        if not self.op.narrows or self.level or self.op.variadic:
            return []
        arrays = "".join(f"a_{a}, " for a in self.names)
        ask = f"c is Tensor and {_has_dtype(first, EXACT)} and makes_floats(({arrays}), out)"
        return [f"if {ask}:", f"    return run_in_default_dtype(OP, {self.given}, {self.settings})"]

    # ----- several results -----

    def several_results(self) -> list[str]:
        """Return lines that make and return the tensors of several results."""
        op, plan = self.op, self.plan
        body = ["n = None"]
        if plan is not None:
            body += guard(" or ".join(f"{e} is not None" for e in self.fixed_edges()), self.node())
        made = ["r = new(c)", "r._array = out"]
        if op.view:  # data that the views share are computed once
            source = self.first
            body += [f"settings, version = {self.settings}, s.version.number"]
            body += [f"view = None if {source}._meta is None else {source}._meta.view"]
            shared = "base, parent, depth, geometry"
            body += ["if view is None:", f"    {shared} = {source}, None, 1, geometry_of({source})"]
            body += ["else:", f"    {shared} = view.base, view.path, view.depth + 1, view.geometry"]
            made += ["r._node = n", "r._storage = s", "r._meta = meta = Meta()", "meta.output_nr = number"]
            made += ["path = (parent, OP, settings, number)"]
            creation = self.creation or "MULTI_OUTPUT"
            made += [f"meta.view = ViewInfo(base, path, {creation}, version, geometry, depth)"]
        else:
            made += ["r._node = r._storage = r._meta = None"]
            numbered = ["r._node = n", "r._meta = meta = Meta()", "meta.output_nr = number"]
            made += guard(f"n is not None and number not in DISCRETE and out.dtype.kind in {INEXACT!r}", numbered)
        body += ["results = []", "for number, out in enumerate(outs):", *indent([*made, "results.append(r)"])]
        if plan is not None and plan.outs:
            body += ["if n is not None and c is not Tensor:", "    for r in results:", "        kept_storage(r)"]
        return [*body, "return tuple(results)"]

    # ----- edges and node -----

    def joins(self) -> bool:
        """True if the collecting argument is differentiable."""
        return self.collecting in self.differentiable

    def fixed_edges(self) -> list[str]:
        return [f"e_{a}" for a in self.names if a in self.differentiable]

    def node(self) -> list[str]:
        """Return lines that make node n, as `make_node` does, and save the values that its rules name."""
        op = self.op
        edges = "".join(f"{e}, " for e in [*self.fixed_edges(), *(["*edges"] if self.joins() else [])])
        body = ["n = node_class()", "n.seq = next_sequence_number()", f"n.next = ({edges})"]
        route = "u" if self.numbers else str(first_route(op))
        if reads_part(op) and op.outputs == 1 and not self.level:
            route = f"{RULE} if {self.first_array}.size < SIZES.small_read else {GENERAL}"
        body += [f"n.route = {route}", "n.extra = None"]
        facts = ["n.shape = out.shape", "n.dtype = out.dtype"]
        if op.outputs != 1:
            facts = [
                "n.metadata_of_outputs = [None if i in DISCRETE else (o.shape, o.dtype) for i, o in enumerate(outs)]"
            ]
            facts += ["if outs:", "    n.shape, n.dtype = outs[0].shape, outs[0].dtype"]
        elif self.level:
            of_payload = ["n.shape, n.dtype = tuple(out.shape), payload_dtype(out)"]
            facts = ["n.level = level", *guard("made is None", facts), "else:", *indent(of_payload)]
        body += facts + self.save()
        return body + guard("streams.current is not None", ["note_stream(n)"]) if self.on_device else body

    def save(self) -> list[str]:
        """Return lines that save in node n the values that its rules name."""
        op, plan = self.op, self.plan
        assert plan is not None
        body = []
        for arg, name in self.names.items():
            if arg in plan.arrays:  # a view always has a storage
                without = f"keep_in_level({name}, level)" if self.level else f"without_base({name})"
                # Only a saved tensor needs its storage: most results of code without gradients never have one.
                # A NumPy scalar without a storage cannot be written: see Note [Saved scalars].
                unshared = f"c is Tensor or (a_{arg}.__class__ in SCALARS and {name}._storage is None)"
                storage = [f"s_{arg} = {name}._storage if {unshared} else kept_storage({name})"]
                kept = [
                    *(guard(f"s_{arg} is not None", storage) if self.may_be_number(arg, name) else storage),
                    f"n.{arg} = {name} if s_{arg} is None else {without}",
                    f"n.{arg}_v = s_{arg} and s_{arg}.version",
                ]
                body += guard(plan.condition(arg, self.differentiable), kept)
            looked_up = self.level or (op.elementwise and name != self.first)  # a payload, or possibly a number
            for fact in plan.facts_of(arg):
                body += [f"n.{arg}_{fact} = " + (f"fact({name}, {fact!r})" if looked_up else f"a_{arg}.{fact}")]
        collecting = self.collecting
        if collecting in plan.arrays:
            kept = [f"n.{collecting} = tuple([x if x._storage is None else without_base(x) for x in xs])"]
            kept += [f"n.{collecting}_v = tuple([version_of(x, c) for x in xs])"]
            body += guard(plan.condition(collecting, self.differentiable), kept)
        if collecting is not None:
            body += [f"n.{collecting}_{fact} = tuple([a.{fact} for a in arrays])" for fact in plan.facts_of(collecting)]
        for out in plan.outs:
            kept = [
                f"n.{out} = {'out' if op.outputs == 1 else f'outs[{int(out[3:])}]'}",
                f"n.{out}_s = None",
                f"n.{out}_v = None",
            ]
            body += guard(plan.condition(out, self.differentiable), kept)
        return body + [f"n.{s} = {s}" for s in plan.settings]


def _has_rare_dtype(array: str) -> str:
    """Return a condition that is false for the common dtypes. It binds the dtype to `dt`."""
    return f"(dt := {array}.dtype) is not F64 and dt is not F32"


def _has_dtype(array: str, chars: str) -> str:
    """Return a condition that holds for arrays of some dtypes, given by their codes. They exclude the common dtypes."""
    return f"{_has_rare_dtype(array)} and dt.char in {chars!r}"


def _view_lines(source: str, array: str, settings: str, level: bool, creation: str) -> list[str]:
    """Return lines that make result `r` a view if it shares memory with its source.

    The most common case of `make_view` is inlined.
    """
    if level:
        in_level = f"    make_view(r, {source}, OP, {settings}, 0, level)"
        return [f"if shares_memory(out, {array}):", "    r._node = None", in_level, "    r._meta.level = level"]
    general = ["    r._node = None", f"    make_view(r, {source}, OP, {settings})"]
    first, later = creation or "DEFAULT", creation or "view.creation"
    return [
        f"s = {source}._storage or storage_of({source})",
        f"if s.__class__ is Storage and out.base is ({array} if {array}.base is None else {array}.base):",
        "    r._storage = s",
        "    r._meta = meta = Meta()",
        f"    view = None if {source}._meta is None else {source}._meta.view",
        "    if view is None:",
        (
            f"        meta.view = ViewInfo({source}, (None, OP, {settings}, 0), {first}, s.version.number, "
            f"geometry_of({source}))"
        ),
        f"    elif (depth := view.depth + 1) < {LONG}:",
        (
            f"        meta.view = ViewInfo(view.base, (view.path, OP, {settings}, 0), {later}, "
            "s.version.number, view.geometry, depth)"
        ),
        "    else:",
        *indent(general),
        f"elif shares_memory(out, {array}):",
        *general,
    ]


def number_lines(op: Op) -> list[str]:
    """Return lines that convert the values of numeric settings to numbers (see `as_number`)."""
    lines = []
    for s in op.number_settings:
        lines += [
            f"if {s}.__class__ is not float and {s}.__class__ is not int:",
            f"    {s} = as_number(OP.name, {s!r}, {s})",
        ]
    return lines


def _refuse(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return NotImplemented


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def guard(condition: str | None, lines: list[str]) -> list[str]:
    return lines if condition is None else [f"if {condition}:", *indent(lines)]


def _through_dispatch(op: Op, slow: Callable[..., Any]) -> Callable[..., Any]:
    defaults = op.settings

    def eager(*args: Any, **settings: Any) -> Any:
        return slow(op, args, with_numbers(op, {**defaults, **settings}) if defaults else settings)

    eager.__name__ = op.name
    return eager
