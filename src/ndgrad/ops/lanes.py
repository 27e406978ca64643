"""Fast lanes of ops that take any number of arrays, or return several.

They stand beside the lane of ndgrad.ops.generate, which has one result, and are made in the same way: Python source per op, for plain
tensors while no mode is in force. Everything else goes to dispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ndgrad.arrays.precision import INEXACT
from ndgrad.autograd.modes import process
from ndgrad.autograd.node import next_sequence_number, sizes
from ndgrad.autograd.saved import without_base
from ndgrad.autograd.stake import as_number
from ndgrad.autograd.variable import Meta, edge, new
from ndgrad.autograd.versions import Storage, kept_storage, storage_of
from ndgrad.ops.errors import after_failure
from ndgrad.ops.generate import (
    FACES,
    compile_source,
    guarded,
    number_lines,
    public_name,
    read_lines,
    recover_lines,
    save_lines,
    save_plan,
    step_of,
)
from ndgrad.ops.table import Op

Lane = Callable[..., Any]


def lane_of(op: Op, slow: Lane, plain: bool) -> Lane | None:
    """The fast lane of an op, or None if it has none. `slow` takes what the lane does not know; `plain`: no mode is in force."""
    if op.shares_storage:
        return None
    if op.variadic:
        return _of_many(op, slow, plain)
    if op.view:
        return _several_views(op, slow) if len(op.args) == 1 and not plain else None
    return _several_results(op, slow, plain)


def _opening(first: str, plain: bool, to_dispatch: str) -> list[str]:
    """Lines that find the face c of the result, or leave the lane."""
    busy = "c is None" if plain else "process.busy or c is None"
    return [f"c = {first}.__class__", "if c is not Tensor:", "    c = FACES.get(c)", f"if {busy}:", f"    {to_dispatch}"]


def _settings(op: Op) -> str:
    return "{" + ", ".join(f"{s!r}: {s}" for s in op.settings) + "}"


def _made(op: Op, slow: Lane, parameters: list[str], body: list[str], **more: Any) -> Lane:
    from ndgrad._tensor import Tensor

    keywords = [f"{s}=default_{s}" for s in op.settings]
    parameters = [*parameters, *(["*"] if keywords and not parameters[-1].startswith("*") else []), *keywords]
    source = f"def {op.name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in [*number_lines(op), *body])
    scope = {
        "OP": op, "slow": slow, "sizes": sizes, "Tensor": Tensor, "FACES": FACES, "process": process, "edge": edge, "new": new, "Meta": Meta,
        "kept_storage": kept_storage, "without_base": without_base,
        "forward": op.forward_for(numpy) if op.variadic else op.bare_forward_for(numpy),
        "after_failure": after_failure, "as_number": as_number,
        "ndarray": numpy.ndarray, "NoneType": type(None),
        "next_sequence_number": next_sequence_number, "node_class": op.node_class if op.differentiable else None,
        **{f"default_{name}": value for name, value in op.settings.items()}, **more,
    }  # fmt: skip
    return compile_source(op.name, source, scope)


def _new_node(op: Op, edges: str, *more: str) -> list[str]:
    made = ["n = node_class()", "n.seq = next_sequence_number()", f"n.next = {edges}"]
    return [*made, f"n.step = {step_of(op)}", "n.extra = None", *more]


def _of_many(op: Op, slow: Lane, plain: bool) -> Lane | None:
    """The lane of an op whose last name collects any number of arrays: those that gradients flow to (cat), or those it saves (index)."""
    if not op.differentiable or op.outputs != 1 or op.view:
        return None
    plan, collecting = save_plan(op), op.args[-1]
    joined, saved = collecting in op.differentiable_args, collecting in plan.arrays
    if (joined and saved) or plan.outs:
        return None
    names = {a: public_name(a) for a in op.args[:-1]}
    given = "(" + "".join(f"{name}, " for name in names.values()) + "*xs,)"
    to_dispatch = f"return slow(OP, {given}, {_settings(op)})"
    first = next(iter(names.values()), "xs[0]")
    body = [*([] if names else ["if not xs:", f"    {to_dispatch}"]), *_opening(first, plain, to_dispatch)]
    for arg, name in names.items():
        body += read_lines(op, arg, name, name == first, to_dispatch, plan)
    body += ["arrays, edges = [], []", "for x in xs:", "    d = x.__class__", "    if d is not c and FACES.get(d) is not c:"]
    body += [f"        {to_dispatch}", "    arrays.append(x._array)"]
    edges = [f"e_{a}" for a in names if a in op.differentiable_args]
    none = [f"{e} is None" for e in edges]
    if joined:
        body += ["    edges.append(x._node if x._meta is None else edge(x))"]
        none.append("edges.count(None) == len(edges)")
    call = ", ".join([*(f"a_{a}" for a in names), "*arrays", *(f"{s}={s}" for s in op.settings)])
    body += ["try:", f"    out = forward({call})", *recover_lines("out", given, _settings(op))]
    body += ["r = new(c)", "r._array = out", "r._node = r._storage = r._meta = None"]
    body += [f"if {' and '.join(none)} or out.dtype.kind not in {INEXACT!r}:", "    return r"]
    body += _new_node(op, "(" + "".join(f"{e}, " for e in edges) + "*edges,)", "n.shape = out.shape", "n.dtype = out.dtype")
    body += save_lines(op, plan, names, first) + [f"n.{s} = {s}" for s in plan.settings]
    if saved:
        keep = [f"n.{collecting} = tuple([x if x._storage is None else without_base(x) for x in xs])"]
        keep += [f"n.{collecting}_v = tuple([version_of(x, c) for x in xs])"]
        body += guarded(plan.condition(collecting, op.differentiable_args), keep)
    for fact in ("shape", "ndim", "dtype"):
        if f"{collecting}_{fact}" in plan.facts:
            body += [f"n.{collecting}_{fact} = tuple([a.{fact} for a in arrays])"]
    return _made(op, slow, [*names.values(), "*xs"], [*body, "r._node = n", "return r"], version_of=_version_of)


def _version_of(x: Any, face: Any) -> Any:
    """The version at which a tensor is saved, by a result of the class `face`."""
    storage = kept_storage(x) if face.keeps_saved else x._storage
    return storage and storage.version


def _several_results(op: Op, slow: Lane, plain: bool) -> Lane:
    """The lane of an op that computes several arrays (sort, svd)."""
    names = [public_name(a) for a in op.args]
    to_dispatch = f"return slow(OP, ({', '.join(names)},), {_settings(op)})"
    plan = save_plan(op) if op.differentiable else None
    body = _opening(names[0], plain, to_dispatch)
    for arg, name in zip(op.args, names, strict=True):
        body += read_lines(op, arg, name, name == names[0], to_dispatch, plan)
    call = ", ".join([f"a_{a}" for a in op.args] + [f"{s}={s}" for s in op.settings])
    body += ["try:", f"    outs = forward({call})", *recover_lines("outs", f"({', '.join(names)},)", _settings(op)), "n = None"]
    if plan is not None:
        differentiable = op.differentiable_args
        made = _new_node(op, "(" + "".join(f"e_{a}, " for a in differentiable) + ")", "n.shape, n.dtype = outs[0].shape, outs[0].dtype")
        made += ["n.metadata_of_outputs = [None if i in DISCRETE else (o.shape, o.dtype) for i, o in enumerate(outs)]"]
        made += save_lines(op, plan, dict(zip(op.args, names, strict=True)), names[0]) + [f"n.{s} = {s}" for s in plan.settings]
        for out in plan.outs:
            lines = [f"n.{out} = outs[{int(out[3:])}]", f"n.{out}_s = n.{out}_v = None"]
            made += guarded(plan.condition(out, differentiable), lines)
        body += guarded(" or ".join(f"e_{a} is not None" for a in differentiable), made)
    body += ["results = []", "for number, out in enumerate(outs):", "    r = new(c)", "    r._array = out"]
    body += ["    r._node = r._storage = r._meta = None"]
    body += [f"    if n is not None and number not in DISCRETE and out.dtype.kind in {INEXACT!r}:"]
    body += ["        r._node = n", "        r._meta = meta = Meta()", "        meta.output_nr = number", "    results.append(r)"]
    if plan is not None and plan.outs:
        body += ["if n is not None and c is not Tensor:", "    for r in results:", "        kept_storage(r)"]
    return _made(op, slow, names, [*body, "return tuple(results)"], DISCRETE=op.discrete_outputs)


def _several_views(op: Op, slow: Lane) -> Lane:
    """The lane of an op that returns several views (split, chunk, unbind): what they share is found once."""
    from ndgrad.autograd.view import MULTI_OUTPUT, ViewInfo, geometry_of

    plan = save_plan(op)
    to_dispatch = f"return slow(OP, (input,), {_settings(op)})"
    body = _opening("input", False, to_dispatch)
    body += ["a = input._array", "s = input._storage or storage_of(input)", "if a.__class__ is not ndarray or s.__class__ is not Storage:"]
    body += [f"    {to_dispatch}", f"arrays = forward(a, {', '.join(f'{name}={name}' for name in op.settings)})"]
    made = _new_node(op, "(e,)", "n.metadata_of_outputs = [(x.shape, x.dtype) for x in arrays]")
    made += ["if arrays:", "    n.shape, n.dtype = n.metadata_of_outputs[0]"]
    made += [f"n.{name} = {name}" for name in plan.settings]
    made += [f"n.{name} = a.{name.rsplit('_', 1)[1]}" for name in plan.facts]
    body += ["e = input._node if input._meta is None else edge(input)", "n = None", *guarded("e is not None", made)]
    body += [f"settings, version = {_settings(op)}, s.version.number", "view = None if input._meta is None else input._meta.view"]
    body += ["if view is None:", "    base, parent, geometry = input, None, geometry_of(input)"]
    body += ["else:", "    base, parent, geometry = view.base, view.path, view.geometry", "results = []"]
    body += ["for number, array in enumerate(arrays):", "    r = new(c)", "    r._array = array", "    r._node = n", "    r._storage = s"]
    body += ["    r._meta = meta = Meta()", "    meta.output_nr = number"]
    body += ["    meta.view = ViewInfo(base, (parent, OP, settings, number), MULTI_OUTPUT, version, geometry)"]
    body += ["    results.append(r)", "return tuple(results)"]
    more = {"storage_of": storage_of, "Storage": Storage, "ViewInfo": ViewInfo, "MULTI_OUTPUT": MULTI_OUTPUT, "geometry_of": geometry_of}
    return _made(op, slow, ["input"], body, **more)
