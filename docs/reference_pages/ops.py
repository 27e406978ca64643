"""The op table as pages, one per family: formulas, saved values, forward mode, batching, and pictures of elementwise ops."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

from docs.reference_pages import markup
from docs.reference_pages.formula import code_of, derivative, expression_of, formula, plain, tex
from docs.reference_pages.mathematics import SLOPES, TEX, VALUES
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


#: Public name -> the first sentence about it.
Describe = Callable[[str], str]

_NOTATION = (
    "The formula of an op is its value; ∂ stands for its partial derivatives, which hold element by element. For other ops a bar marks gradients: "
    "<math><mover><mi>y</mi><mo>¯</mo></mover></math> is the gradient of the result, and <math><mover><mi>x</mi><mo>¯</mo></mover></math> "
    "the gradient of the argument."
)


def page(
    family: str, ops: list[Op], used_by: Mapping[str, list[str]], link: markup.Linker, trail: str, describe: Describe
) -> str:
    """Return the page of a family: a heading per op, ops behind public functions first."""
    module = module_of(family)
    about = markup.prose(inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0], link)
    parts = [
        f"# Ops: {family.replace('_', ' ')}",
        raw(f'{trail}{about}<p class="facts">{_NOTATION} The code is in {markup.in_book("../../", source_path(module))}.</p>'),
    ]
    public = [op for op in ops if used_by.get(op.name)]
    inner = [op for op in ops if not used_by.get(op.name)]
    for op in public:
        parts += [f"## `{op.name}`", raw(entry(op, used_by[op.name], link, describe))]
    if inner and public:
        parts += ["## Ops in the rules of others", "No public function calls these ops. Rules and compiled programs do."]
    level = "###" if public else "##"
    for op in inner:
        parts += [f"{level} `{op.name}`", raw(entry(op, [], link, describe))]
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


def entry(op: Op, used_by: list[str], link: markup.Linker, describe: Describe) -> str:
    """Return the contents of the table for one op: formulas, the picture of an elementwise op, then facts."""
    parts = [f'<span id="op-{op.name}"></span>']
    picture = plot(op)
    if picture is not None:
        others = f", the other argument at {OTHERS}" if len(op.args) > 1 else ""
        caption = f'<span class="curve">{op.name}</span>' + (
            ' and <span class="slope">its derivative</span>' if op.differentiable else ""
        )
        picture = f'<figure class="op-plot">{picture}<figcaption>{caption} over {op.args[0]}{others}</figcaption></figure>'
    sentence = _describe(op, used_by, describe)
    if sentence:
        parts.append(f"<p>{markup.inline(sentence, link)}</p>")
    lines = [_value(op), *_derivatives(op)]
    shown = "".join(f"<div>{line}</div>" for line in lines if line)
    parts.append(f'<div class="op-view"><div class="op-math">{shown}</div>{picture or ""}</div>')
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _facts(op, used_by, link))
    return "\n".join([*parts, f'<dl class="op">{rows}</dl>'])


def _facts(op: Op, used_by: list[str], link: markup.Linker) -> list[tuple[str, str]]:
    settings = ", ".join(f"<code>{name}={escape(repr(value))}</code>" for name, value in op.settings.items())
    facts = []
    if used_by:
        more = " and others" if len(used_by) > 10 else ""
        facts.append(("Called by", ", ".join(markup.code(name, link) for name in used_by[:10]) + more))
    listed = ", ".join(f"<code>{a}</code>" for a in op.args) + (" and further arguments" if op.variadic else "")
    facts.append(("Arguments", listed + (f"; settings {settings}" if settings else "")))
    if op.differentiable:
        facts.append(("Saved for backward", _list_saved(op)))
    forward_mode = _forward_mode(op)
    facts += [("Forward mode", forward_mode)] if forward_mode else []
    facts += [("Under vmap", _batching(op))]
    if op.kind is not None:
        facts.append(("A zero gradient means", KINDS[op.kind]))
    notes = [word for word, holds in (("a view of its first argument", op.view), ("has an in-place form", op.inplace),
                                      ("piecewise linear", op.piecewise_linear)) if holds]  # fmt: skip
    if op.outputs != 1:
        notes.append("several results" if op.outputs == VARIABLE else f"{op.outputs} results")
    if op.differentiable:
        notes.append(f"node <code>{op.backward_name}</code>")
    facts += [("Also", ", ".join(notes))] if notes else []
    facts.append(("Code", _code(op)))
    return facts


def _code(op: Op) -> str:
    """Return a link to the file of an op, with the line of its block."""
    family = _families_by_op(len(table))[op.name]
    path = source_path(module_of(family))
    lines = inspect.getsource(module_of(family)).splitlines()
    line = next((n for n, text in enumerate(lines, 1) if f'"{op.name}"' in text), None)
    return markup.in_book("../../", path) + (f", line {line}" if line else "")


@functools.cache
def _families_by_op(count: int) -> dict[str, str]:
    """Return the family of each op, for a table of `count` ops: packages may add ops when they are imported."""
    return {op.name: family for family, ops in families().items() for op in ops}


def _describe(op: Op, used_by: list[str], describe: Describe) -> str:
    """Return a sentence about an op: that of the public function of its name, or that of its own code."""
    for name in used_by:
        if name.rpartition(".")[2] in (op.name, op.known_as):
            return describe(name)
    for function in (op.body.function if op.body is not None else None, op.forward):
        text = inspect.getdoc(plain(function)) if callable(function) and hasattr(plain(function), "__code__") else None
        if text:
            return markup.first_sentence(text)
    return describe(used_by[0]) if len(used_by) == 1 else ""


def result_name(op: Op) -> str:
    """Return the letter of an op's result in formulas."""
    return next(name for name in ("y", "z", "w") if name not in op.args)


def _value(op: Op) -> str:
    """Return the op's value as a formula: as declared, from its body, or as a call."""
    if op.name in TEX:
        return tex(TEX[op.name][0], display=True)
    expression = value_expression(op)
    made = formula(expression) if expression is not None else None
    if made is None:
        names = [*op.args] if not op.variadic else [*op.args[:-1], "…"]
        made = formula(ast.Call(ast.Name(op.name), [ast.Name(name) for name in names], []))
    return _equation(result_name(op), made or "")


def value_expression(op: Op) -> ast.expr | None:
    """Return the value of an op as an expression of its arguments; None if only its code tells."""
    if op.name in VALUES:
        return ast.parse(VALUES[op.name], mode="eval").body
    return expression_of(op.body.function) if op.body is not None else None


def slope_expression(op: Op, argument: str) -> ast.expr | None:
    """Return the partial derivative of an elementwise op, or the gradient of an argument of another op."""
    if argument in SLOPES.get(op.name, {}):
        return ast.parse(SLOPES[op.name][argument], mode="eval").body
    rule = op.written_rules[argument][0]
    found = expression_of(rule)
    return None if found is None else derivative(found, result_name(op))


def _derivatives(op: Op) -> list[str]:
    """Return a line for the derivative in each argument: a formula, or words."""
    if not op.differentiable:
        return ["No derivative: the result is discrete, or does not depend smoothly on the arguments."]
    if op.name in TEX:
        return [tex(text, display=True) for text in TEX[op.name][1].values()]
    if op.joint_rule is not None:
        words = _words(op.joint_rule[0])
        return [f"Gradients of all arguments: {words}."] if words else ["One function computes the gradients of all arguments; see its code."]
    return [_derivative(op, argument) for argument in op.written_rules]


def _derivative(op: Op, argument: str) -> str:
    result, rule = result_name(op), op.written_rules[argument][0]
    if _raises(rule):
        return f"In <code>{argument}</code>: no derivative; asking for it raises."
    expression = slope_expression(op, argument)
    made = None if expression is None else formula(expression, {} if argument in SLOPES.get(op.name, {}) else vars_of(rule))
    is_gradient = expression is not None and any(isinstance(n, ast.Name) and n.id.startswith("bar_") for n in ast.walk(expression))
    if made is not None and op.elementwise and not is_gradient:
        return _equation(("∂", result, argument), made)
    if made is not None:
        return _equation(f"bar_{argument}", made)
    words = _words(rule)
    start = f"Derivative in <code>{argument}</code>" if op.elementwise else f"Gradient of <code>{argument}</code>"
    return f"{start}: {words}." if words else f"{start}: see the code."


def _raises(rule: Callable[..., Any]) -> bool:
    """True for a rule that only refuses."""
    code = code_of(rule) or ""
    return "no_derivative(" in code and "\n" not in code


def _words(rule: Callable[..., Any]) -> str:
    """Return the first sentence of a rule's docstring, without its verb."""
    text = markup.first_sentence(inspect.getdoc(plain(rule)) or "") if hasattr(plain(rule), "__code__") else ""
    return markup.inline(text.removeprefix("Return ").rstrip("."), lambda name: None)


def _equation(left: str | tuple[str, str, str], right: str) -> str:
    if isinstance(left, tuple):
        sign, result, argument = left
        top, bottom = (formula(ast.Name(name)) or "" for name in (result, argument))
        shown = f"<mfrac><mrow><mo>{sign}</mo>{top}</mrow><mrow><mo>{sign}</mo>{bottom}</mrow></mfrac>"
    else:
        shown = formula(ast.Name(left)) or ""
    return f'<math display="block"><mrow>{shown}<mo>=</mo>{right}</mrow></math>'


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
