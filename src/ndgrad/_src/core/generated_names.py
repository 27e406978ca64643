"""Names that generated code uses itself, which an op's arguments and settings must not use.

An op's names become parameters, variables and attributes in the functions that ndgrad._src.core.generate and
ndgrad._src.core.node_classes write. A name that these functions use themselves would be overwritten, and the only
symptom would be a wrong gradient. So the names are read from the functions generated for some ops of the table, of
every kind. A test checks that the functions of the other ops use no more names.
"""

from __future__ import annotations

import functools
import importlib
import keyword
from collections.abc import Callable, Iterator
from symtable import symtable
from typing import Any

from ndgrad._src.core.generate import make_eager, public_name
from ndgrad._src.core.node import MultiNode
from ndgrad._src.core.save_plan import save_plan
from ndgrad._src.core.saved import RuleNode
from ndgrad._src.ops.table import Op, table

#: Prefixes and suffixes of argument names in generated code, and prefixes of setting names.
_BEFORE_ARGUMENTS = ("a_", "e_", "s_", "g_", "rule_", "many_")
_AFTER_ARGUMENTS = ("_s", "_v", "_shape", "_ndim", "_dtype", "_t")
_BEFORE_SETTINGS = ("default_",)
#: Parameters of rules other than arguments and settings, and first parameters of functions for arrays and tensors.
_OF_RULES = frozenset(["t", "g", "gs", "ts", "ops", "needs", "shared", "batched", "out", "np", "self"])
#: Example ops for each kind of function, with their files. Their functions provide the names.
_EXAMPLES = {
    "one": {
        "mul": "arithmetic", "exp": "exponential", "sum": "reduce", "addmm": "product", "where": "selection",
        "logaddexp": "exponential",
        "rms_norm": "normalization", "gather": "gather",
    },
    "view": {"transpose": "shape", "reshape": "shape", "select": "split"},
    "many": {"cat": "join", "index": "index"},
    "views": {"unbind": "split"},
    "several": {"max": "extremum", "native_batch_norm": "normalization", "attention_with_logs": "attention"},
}  # fmt: skip


def kind_of(op: Op) -> str:
    """Return the kind of an op's generated function."""
    if op.variadic:
        return "many"
    if op.outputs != 1:
        return "views" if op.view else "several"
    return "view" if op.view else "one"


def check_names(op: Op) -> None:
    """Raise if the generated code of an op already uses the name of an argument or setting."""
    arguments, settings = list(op.args), list(op.settings)
    for name in (*arguments, *settings):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(
                f"{name!r} cannot name an argument or a setting. Choose an identifier that is not a keyword. "
                "[nd-op-block]"
            )
    for name in (*arguments, *settings):
        for what, used in _uses(op, name):
            if name in used or public_name(name) in used:
                called = "argument" if name in arguments else "setting"
                raise ValueError(
                    f"the {called} {name!r} has the name of {what}. Choose another, {name}_ for example. [nd-op-block]"
                )


def _uses(op: Op, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the names in use for an op other than the argument or setting `name`, each set with a description."""
    others = [*op.args, *op.settings]
    others.remove(name)
    yield "another argument or setting", {*others, *map(public_name, others)}
    yield (
        "something that rules are given",
        _OF_RULES | {f"{word}{i}" for word in ("g", "out") for i in range(op.outputs)},
    )
    arguments = [n for n in others if n in op.args]
    derived = {before + n for n in arguments for before in _BEFORE_ARGUMENTS} | {
        n + after for n in arguments for after in _AFTER_ARGUMENTS
    }
    derived |= {before + n for n in others if n in op.settings for before in _BEFORE_SETTINGS}
    yield "something that belongs to another argument or setting", derived
    eager, apply = names_of_kind(kind_of(op))
    # In the forward, an argument is read under its public name, and a collecting argument under a fixed name. In the
    # backward, both are read under their own names.
    if public_name(name) == name and not (op.variadic and name == op.args[-1]):
        yield "a variable in the code that is generated for the op", eager
    if name in op.args:
        yield "a variable in the code that is generated for its backward", apply
    if op.differentiable and name in save_plan(op).slots():
        yield "an attribute of nodes, where it would be saved", dir(MultiNode) + dir(RuleNode)


@functools.cache
def names_of_kind(kind: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names in eager functions for ops of a kind, and in the functions of their nodes."""
    # The examples of views have one argument. A view of several arguments uses the names of other ops of one argument.
    examples = _EXAMPLES[kind] | _EXAMPLES["one"] if kind == "view" else _EXAMPLES[kind]
    for file in examples.values():
        importlib.import_module(f"ndgrad._src.ops.{file}")  # files of ops are loaded on first use
    found = [own_names(table[name]) for name in examples]
    return frozenset().union(*(eager for eager, _ in found)), frozenset().union(*(apply for _, apply in found))


def own_names(op: Op) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names in the code generated for an op that do not derive from the op's own names."""
    eager: list[Callable[..., Any]] = [op.eager, op.plain, op.unrecorded, make_eager(op, public=True)]
    if kind_of(op) in ("one", "view"):
        eager += [op.in_level, make_eager(op, operator=True)]
    apply = []
    if op.differentiable:
        node = op.node_class
        apply = [f for n in ("apply", "apply_one", "release") if (f := getattr(node, n, None)) is not None]
    derived = {before + a for a in op.args for before in _BEFORE_ARGUMENTS} | {f"default_{s}" for s in op.settings}
    outs = {f"out{i}" for i in range(op.outputs)} | {f"g{i}" for i in range(op.outputs)}
    known = {*op.args, *map(public_name, op.args), *op.settings, *derived, *outs, op.name}
    return _variables(eager) - known, _variables(apply) - known


def _variables(functions: list[Callable[..., Any]]) -> frozenset[str]:
    sources = [source for f in functions if (source := getattr(f, "__source__", None)) is not None]
    scopes = [symtable(source, "<ndgrad generated>", "exec") for source in sources]
    found: set[str] = set()
    while scopes:
        scope = scopes.pop()
        found.update(scope.get_identifiers())
        scopes += scope.get_children()
    return frozenset(found)
