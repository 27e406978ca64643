"""The op table as pages, one per family: formulas, saved values, forward mode, batching, and pictures of elementwise ops."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

from docs.reference_pages import markup
from docs.reference_pages.formula import code_of, expression_of, formula, plain
from docs.reference_pages.plot import OTHERS, plot

from ndgrad._src import ops as op_files
from ndgrad._src.core.save_plan import SavePlan
from ndgrad._src.ops.table import DATA_DEPENDENT, KINDS, NOT_DIFFERENTIABLE, RANDOM, VARIABLE, Op, table

_BATCHING = {
    "elementwise": "elementwise: ranks are aligned, then the op itself runs",
    "leading": "the op treats leading dimensions as a batch already",
    "dims": "the dimensions it works on move up by one",
}
_FORWARD_MODE = {
    "elementwise": "the same partial derivatives times the tangents",
    "linear": "linear: the op itself, applied to the tangents",
    "multilinear": "linear in each argument: one term per tangent",
}


def families() -> dict[str, list[Op]]:
    """Return family -> its ops, in order of definition. A file of ndgrad.ops gives its name, another file that defines
    ops its path (`distributed.collectives`)."""
    named: dict[str, str] = {}
    for info in pkgutil.iter_modules(op_files.__path__):
        module = importlib.import_module(f"ndgrad._src.ops.{info.name}")
        text = inspect.getsource(module)
        for value in vars(module).values():
            if isinstance(value, Op) and f'"{value.name}"' in text:  # defined in this file, not imported
                named.setdefault(value.name, info.name)
    found: dict[str, list[Op]] = {}
    for op in table.values():
        family = named.get(op.name) or _home(op)
        if family is not None:  # skips ops that a user has registered
            found.setdefault(family, []).append(op)
    return dict(sorted(found.items()))


#: Files of the language of op blocks, which define no op.
_LANGUAGE = ("_src/ops/table", "_src/ops/vocabulary", "_src/ops/deferred")


def _home(op: Op) -> str | None:
    """Return the file of the op's rules, found from its first function."""
    rules = list(op.vjp.values()) if isinstance(op.vjp, Mapping) else [op.vjp]
    for function in (op.forward, *rules, op.batch):
        code = getattr(plain(function), "__code__", None) if callable(function) else None
        path = "" if code is None else code.co_filename.replace("\\", "/").rpartition("/ndgrad/")[2].removesuffix(".py")
        if path and not path.startswith("_src/arrays/") and path not in _LANGUAGE:
            return path.removeprefix("_src/ops/").replace("/", ".")
    return None


def module_of(family: str) -> ModuleType:
    return importlib.import_module(f"ndgrad.{family}" if "." in family else f"ndgrad._src.ops.{family}")


def page(family: str, ops: list[Op], used_by: Mapping[str, list[str]], link: markup.Linker, trail: str) -> str:
    """Return the page of a family: a heading per op, with the contents of its block."""
    module = module_of(family)
    about = markup.prose(inspect.cleandoc(module.__doc__ or ""), link)
    parts = [
        f"# Ops: {family.replace('_', ' ')}",
        raw(f'{trail}{about}<p class="facts">Written in {markup.in_book("../../", source_path(module))}.</p>'),
    ]
    for op in ops:
        parts += [f"## `{op.name}`", raw(entry(op, used_by.get(op.name, []), link))]
    return "\n\n".join(parts) + "\n"


def source_path(module: ModuleType) -> str:
    """Return the file of a module, below src/."""
    path = Path(module.__file__ or "").resolve()
    return path.relative_to(Path(op_files.__file__).resolve().parents[3]).as_posix()


def raw(html: str) -> str:
    """Return HTML as a part of a Markdown page."""
    return f"````{{raw}} html\n{html}\n````"


def summary(family: str) -> str:
    return markup.first_sentence(inspect.cleandoc(module_of(family).__doc__ or ""))


def entry(op: Op, used_by: list[str], link: markup.Linker) -> str:
    """Return the contents of the table for one op."""
    parts = [f'<span id="op-{op.name}"></span>']
    picture = plot(op)
    if picture is not None:
        others = f", the other argument at {OTHERS}" if len(op.args) > 1 else ""
        caption = f'<span class="curve">{op.name}</span>' + (
            ' and <span class="slope">its derivative</span>' if op.differentiable else ""
        )
        parts.append(
            f'<figure class="op-plot">{picture}<figcaption>{caption} over {op.args[0]}{others}</figcaption></figure>'
        )
    settings = ", ".join(f"<code>{name}={escape(repr(value))}</code>" for name, value in op.settings.items())
    facts = [
        ("Arguments", ", ".join(f"<code>{a}</code>" for a in op.args) + (" and further arguments" if op.variadic else ""))
    ]
    facts += [("Settings", settings)] if settings else []
    facts += [("Computes", _computes(op))]
    if op.differentiable:
        facts += [*_derivatives(op), ("Saved for backward", _list_saved(op))]
    else:
        facts += [("Derivative", "none: its result is discrete, or does not depend smoothly on its arguments")]
    forward_mode = _forward_mode(op)
    facts += [("Forward mode", forward_mode)] if forward_mode else []
    facts += [("Under vmap", _batching(op))]
    if op.kind is not None:
        facts.append(("A zero gradient means", KINDS[op.kind]))
    notes = [word for word, holds in (("a view of its first argument", op.view), ("has an in-place form", op.inplace),
                                      ("piecewise linear", op.piecewise_linear)) if holds]  # fmt: skip
    if op.outputs != 1:
        notes.append("several results" if op.outputs == VARIABLE else f"{op.outputs} results")
    facts += [("Also", ", ".join(notes))] if notes else []
    if op.differentiable:
        facts.append(("Node", f"<code>{op.backward_name}</code>"))
    if used_by:
        facts.append(
            (
                "Used by",
                ", ".join(markup.code(name, link) for name in used_by[:10])
                + (" and others" if len(used_by) > 10 else ""),
            )
        )
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts)
    return "\n".join([*parts, f'<dl class="op">{rows}</dl>'])


def _computes(op: Op) -> str:
    if isinstance(op.forward, str):
        return f"<code>{op.forward}</code> of the array library"
    if op.ufunc is not None:
        return f"<code>{op.ufunc.__name__}</code> of the array library"
    return _rule(op.forward)


def _derivatives(op: Op) -> list[tuple[str, str]]:
    if op.joint_rule is not None:
        return [("Gradients, all together", _rule(op.joint_rule[0]))]
    word = "Derivative in" if op.elementwise else "Gradient of"
    return [(f"{word} <code>{a}</code>", _rule(rule, typeset=True)) for a, (rule, _) in op.written_rules.items()]


def _rule(function: Callable[..., Any] | Any, typeset: bool = False) -> str:
    """Return a rule as a formula, or as its code."""
    expression = expression_of(function)
    made = formula(expression, vars_of(function)) if typeset and expression is not None else None
    if made is not None:
        return f"<math>{made}</math>"
    code = code_of(function)
    if code is None:
        return f"<code>{escape(str(getattr(getattr(function, 'func', function), '__qualname__', function)))}</code>, in the source"
    return f"<code>{escape(code)}</code>" if "\n" not in code and len(code) < 120 else markup.session(code)


def vars_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    return getattr(plain(function), "__globals__", {})


def _list_saved(op: Op) -> str:
    plan = SavePlan(op)
    names = [*(a for a in op.args if a in plan.arrays), *plan.outs]
    return ", ".join(f"<code>{name}</code>" for name in names) if names else "no array"


def _forward_mode(op: Op) -> str:
    if isinstance(op.jvp, str):
        return _FORWARD_MODE.get(op.jvp, op.jvp)
    if op.jvp is NOT_DIFFERENTIABLE:
        return ""
    return "its own rules" if op.jvp is not None else ""


def _batching(op: Op) -> str:
    if isinstance(op.batch, str):
        return _BATCHING.get(op.batch, op.batch)
    if op.batch is DATA_DEPENDENT:
        return "raises: the shape of its result depends on values"
    if op.batch is RANDOM:
        return "given by <code>randomness</code>"
    return "its own rule, without a loop"
