"""Formulas of the op table as MathML, which browsers typeset without any script.

There are two sources: a rule of the table (a Python expression, read from its own source), and the small part of TeX that
the pages use. An expression without a formula gives None, and the page shows the code instead.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

# ----- a rule's own source --------------------------------------------------------------------------------------------


@functools.cache
def _lambdas(path: str) -> dict[int, list[ast.Lambda | ast.FunctionDef]]:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found: dict[int, list[ast.Lambda | ast.FunctionDef]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Lambda, ast.FunctionDef)):
            line = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            found.setdefault(line, []).append(node)
    return found


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the original function, without `partial` and decorators."""
    return inspect.unwrap(getattr(function, "func", function))


def source_tree(function: Callable[..., Any]) -> ast.Lambda | ast.FunctionDef | None:
    """Return the function's part of its file; of several lambdas on a line, the one with its code."""
    function = plain(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    places = {(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None}
    for node in _lambdas(code.co_filename).get(code.co_firstlineno, ()):
        arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        body = node.body if isinstance(node, ast.Lambda) else node.body[-1]
        end = (body.end_lineno or 0, body.end_col_offset or 0)
        start = (
            (node.body.lineno, node.body.col_offset) if isinstance(node, ast.Lambda) else (node.lineno, node.col_offset)
        )
        inside = {p for p in places if start <= p < end}
        if arguments == names and (inside or isinstance(node, ast.FunctionDef)):
            return node
    return None


def expression_of(function: Callable[..., Any]) -> ast.expr | None:
    """Return the result of a rule, if it is one expression."""
    node = source_tree(function)
    if isinstance(node, ast.Lambda):
        return node.body
    if node is None:
        return None
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def code_of(function: Callable[..., Any], most: int = 24) -> str | None:
    """Return a rule's source, if it is short enough for a page."""
    node = source_tree(function)
    if node is None:
        return None
    if isinstance(node, ast.Lambda):
        return ast.unparse(node.body)
    lines = inspect.getsource(plain(function)).rstrip().splitlines()
    return "\n".join(lines) if len(lines) <= most else None


# ----- Python to MathML -----------------------------------------------------------------------------------------------

_GREEK = {
    "pi": "π",
    "alpha": "α",
    "beta": "β",
    "lambd": "λ",
    "gamma": "γ",
    "eps": "ε",
    "inf": "∞",
    "sigma": "σ",
    "mu": "μ",
    "theta": "θ",
    "lmbda": "λ",
    "phi": "φ",
}
_NAMED = {
    "LN2": "<mi>ln</mi><mn>2</mn>",
    "LN10": "<mi>ln</mi><mn>10</mn>",
    "PI": "<mi>π</mi>",
    "TWO_PI": "<mn>2</mn><mi>π</mi>",
}
#: Functions with a usual symbol or a usual name other than their own.
_FUNCTIONS = {
    "log": "ln", "gamma": "Γ", "digamma": "ψ", "zeta": "ζ", "ndtr": "Φ", "sigmoid": "σ", "maximum": "max", "minimum": "min", "sign": "sgn", "gammainc": "P",
    "lambertw": "W", "arctan2": "atan2", "igamma": "P", "hypot": "hypot",
}  # fmt: skip
#: Functions of an order and an argument, written with the order as an index.
_INDEXED = {
    "jv": "J", "yv": "Y", "iv": "I", "kv": "K", "hankel1": "H", "yn": "Y", "expn": "E", "chebyshev_polynomial": "T", "hermite_polynomial": "H",
    "hermite_e_polynomial": "He",
}  # fmt: skip
_COMPARE = {ast.Eq: "=", ast.NotEq: "≠", ast.Lt: "&lt;", ast.LtE: "≤", ast.Gt: "&gt;", ast.GtE: "≥"}


class _Unsaid(Exception):
    """The expression has no formula."""


def formula(expression: ast.expr, scope: Mapping[str, Any] | None = None) -> str | None:
    """Return the inside of a `<math>` element; None if the expression is more readable as code. `scope` has the values of
    the constants that it names."""
    if scope:
        expression = _Constants(scope).visit(copy.deepcopy(expression))
    try:
        made = _term(expression)[0]
    except _Unsaid:
        return None
    return None if len(made) > 4000 else made


def derivative(expression: ast.expr, result: str) -> ast.expr:
    """Return a rule as a mathematical expression: the tangent `t` is 1, and the op's result has the name `result`."""
    return _Derivative(result).visit(copy.deepcopy(expression))


class _Derivative(ast.NodeTransformer):
    """Puts 1 for `t`, leaves out factors of 1, and writes masks as cases."""

    def __init__(self, result: str) -> None:
        self.result = result

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "t":
            return ast.Constant(1)
        return ast.Name({"out": self.result, "g": f"bar_{self.result}"}.get(node.id, node.id))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        inside = self.visit(node.operand)
        if isinstance(node.op, ast.Invert):
            return _negate(inside)
        return ast.UnaryOp(node.op, inside)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Mult):
            for one, other in ((left, right), (right, left)):
                if _number_of(one) == 1:
                    return other
                if _number_of(one) == -1:
                    return ast.UnaryOp(ast.USub(), other)
                if _number_of(one) == 0.5:
                    return ast.BinOp(other, ast.Div(), ast.Constant(2))
                if _number_of(one) == -0.5:
                    return ast.UnaryOp(ast.USub(), ast.BinOp(other, ast.Div(), ast.Constant(2)))
        return ast.BinOp(left, node.op, right)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        arguments = [self.visit(a) for a in node.args]
        if name == "zeros_like":
            return ast.Constant(0)
        if name == "keep" and len(arguments) == 2:
            return ast.IfExp(arguments[1], arguments[0], ast.Constant(0))
        if name == "where" and len(arguments) == 3:
            return ast.IfExp(*arguments)
        if name == "logical_not":
            return _negate(arguments[0])
        return ast.Call(node.func, arguments, [])


def _number_of(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inside = _number_of(node.operand)
        return None if inside is None else -inside
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else None


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.LtE: ast.Gt, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE}


def _negate(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITE:
        return ast.Compare(node.left, [_OPPOSITE[type(node.ops[0])]()], node.comparators)
    return ast.UnaryOp(ast.Not(), node)


class _Constants(ast.NodeTransformer):
    """Replaces a module's names for numbers by the numbers."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.scope.get(node.id)
        return ast.Constant(value) if isinstance(value, (int, float)) and node.id not in _NAMED else node


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _op(sign: str, **attributes: str) -> str:
    given = "".join(f' {k}="{v}"' for k, v in attributes.items())
    return f"<mo{given}>{sign}</mo>"


def _fenced(inside: str, left: str = "(", right: str = ")") -> str:
    return _row(_op(left), inside, _op(right))


def _name(name: str) -> str:
    if name in _NAMED:
        return _row(_NAMED[name])
    if name.startswith("bar_"):
        return f"<mover>{_name(name[4:])}{_op('¯')}</mover>"
    name = _GREEK.get(name, name)
    if found := re.fullmatch(r"([a-z]+)(\d)", name):
        return f"<msub><mi>{found[1]}</mi><mn>{found[2]}</mn></msub>"
    return f"<mi>{escape(name)}</mi>"


def _term(node: ast.expr) -> tuple[str, int]:
    """Return MathML and its binding strength: 0 comparison, 1 sum, 2 product, 3 power, 4 atom."""
    match node:
        case ast.Constant(value=bool() | int() | float() | complex() as value):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            return f"<mn>{text.replace('inf', '∞')}</mn>", 4
        case ast.Name(id=name):
            return _name(name), 4
        case ast.Attribute(value=ast.Name(id="math" | "np" | "numpy" | "ops"), attr=name) if (
            name in _GREEK or name == "e"
        ):
            return _name(name), 4
        case ast.UnaryOp(op=ast.USub(), operand=inside):
            return _row(_op("−", form="prefix"), _tight(inside, 2)), 1
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=inside):
            return _row(_op("¬", form="prefix"), _tight(inside, 3)), 3
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            return _row(
                _tight(left, 1),
                _op("+" if isinstance(sign, ast.Add) else "−"),
                _tight(right, 1 if isinstance(sign, ast.Add) else 2),
            ), 1
        case ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=left), op=ast.Mult() | ast.Div() as sign, right=right):
            return _row(_op("−", form="prefix"), _tight(ast.BinOp(left, sign, right), 2)), 1
        case ast.BinOp(left=left, op=ast.Mult() as sign, right=ast.UnaryOp(op=ast.USub(), operand=right)):
            return _row(_op("−", form="prefix"), _tight(ast.BinOp(left, sign, right), 2)), 1
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            numeric = isinstance(right, ast.Constant)
            return _row(
                _tight(left, 2), _op("·" if numeric else "&#x2062;", lspace="0.1em", rspace="0.1em"), _tight(right, 2)
            ), 2
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return f"<mfrac>{_row(_term(left)[0])}{_row(_term(right)[0])}</mfrac>", 3
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return f"<msup>{_tight(left, 4)}{_row(_term(right)[0])}</msup>", 3
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return _row(_tight(left, 2), _op("&#x2062;", lspace="0.15em"), _tight(right, 2)), 2
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as sign, right=right):
            return _row(_tight(left, 1), _op("∧" if isinstance(sign, ast.BitAnd) else "∨"), _tight(right, 1)), 0
        case ast.Compare(left=left, ops=signs, comparators=rights) if all(type(sign) in _COMPARE for sign in signs):
            pairs = [(_op(_COMPARE[type(sign)]), _tight(right, 1)) for sign, right in zip(signs, rights)]
            return _row(_tight(left, 1), *(part for pair in pairs for part in pair)), 0
        case ast.IfExp(test=ast.Compare(ops=[ast.Is() | ast.IsNot()])):
            raise _Unsaid
        case ast.IfExp(test=test, body=body, orelse=other):
            return _cases(test, body, other), 4
        case ast.BoolOp(op=sign, values=values):
            return _row(_op("∧" if isinstance(sign, ast.And) else "∨").join(_tight(v, 0) for v in values)), 0
        case ast.Call(func=called, args=arguments):
            return _call(called, arguments)
    raise _Unsaid


def _cases(test: ast.expr, body: ast.expr, other: ast.expr) -> str:
    """Return a brace with a line per case. A case inside the last one is another line."""
    lines = [_case(body, test)]
    while isinstance(other, ast.IfExp):
        lines.append(_case(other.body, other.test))
        other = other.orelse
    lines.append(f"<mtr><mtd>{_row(_term(other)[0])}</mtd><mtd><mtext>otherwise</mtext></mtd></mtr>")
    return _row(_op("{", stretchy="true"), f'<mtable columnalign="left">{"".join(lines)}</mtable>')


def _case(value: ast.expr, test: ast.expr) -> str:
    return f"<mtr><mtd>{_row(_term(value)[0])}</mtd><mtd><mtext>if&#160;</mtext>{_row(_term(test)[0])}</mtd></mtr>"


def _call(called: ast.expr, arguments: list[ast.expr]) -> tuple[str, int]:
    match called:
        case ast.Attribute(value=ast.Name(id="ops" | "np" | "numpy" | "math"), attr=name) | ast.Name(id=name):
            pass
        case ast.Attribute(value=inside, attr="conj") if not arguments:
            return f"<msup>{_tight(inside, 4)}{_op('*')}</msup>", 3
        case _:
            raise _Unsaid
    if name.startswith("_") or any(isinstance(a, ast.Starred) for a in arguments):
        raise _Unsaid
    if not arguments:
        raise _Unsaid
    inner = _row(_term(arguments[0])[0])
    if name == "sqrt":
        return f"<msqrt>{inner}</msqrt>", 4
    if name == "abs":
        return _fenced(inner, "|", "|"), 4
    if name == "square":
        return f"<msup>{_tight(arguments[0], 4)}<mn>2</mn></msup>", 3
    if name == "reciprocal":
        return f"<mfrac><mn>1</mn>{inner}</mfrac>", 3
    if name == "rsqrt":
        return f"<mfrac><mn>1</mn><msqrt>{inner}</msqrt></mfrac>", 3
    if name in ("conj", "adjoint"):
        return f"<msup>{_tight(arguments[0], 4)}{_op('*') if name == 'conj' else '<mi>H</mi>'}</msup>", 3
    if name in ("floor", "ceil"):
        return _fenced(inner, *("⌊⌋" if name == "floor" else "⌈⌉")), 4
    if name == "cbrt":
        return f"<mroot>{inner}<mn>3</mn></mroot>", 4
    if name == "isfinite":
        return _row(inner, "<mtext>&#160;is finite</mtext>"), 0
    if name == "zeros_like":
        return "<mn>0</mn>", 4
    if name == "matmul" and len(arguments) == 2:
        return _term(ast.BinOp(arguments[0], ast.MatMult(), arguments[1]))
    if name in ("log2", "log10"):
        return _row(f"<msub><mi>log</mi><mn>{name[3:]}</mn></msub>", _op("&#x2061;"), _fenced(inner)), 4
    if name in ("erfinv", "ndtri"):
        return _row(f"<msup><mi>{'erf' if name == 'erfinv' else 'Φ'}</mi><mrow>{_op('−')}<mn>1</mn></mrow></msup>", _fenced(inner)), 4
    if name == "polygamma" and len(arguments) == 2:
        return _row(f"<msup><mi>ψ</mi>{_fenced(inner)}</msup>", _fenced(_term(arguments[1])[0])), 4
    if name == "betainc" and len(arguments) == 3:
        first, second, at = (_term(a)[0] for a in arguments)
        return _row(f"<msub><mi>I</mi>{at}</msub>", _fenced(_op(",", separator="true").join([first, second]))), 4
    if name in _INDEXED and len(arguments) == 2:
        return _row(f"<msub><mi>{_INDEXED[name]}</mi>{inner}</msub>", _fenced(_term(arguments[1])[0])), 4
    if name == "exp":
        return f"<msup><mi>e</mi>{inner}</msup>", 3
    if name == "where" and len(arguments) == 3:
        return _cases(arguments[0], arguments[1], arguments[2]), 4
    if name == "keep" and len(arguments) == 2:
        return _cases(arguments[1], arguments[0], ast.Constant(0)), 4
    # Settings are left out: the op is called with those of the op on the page.
    listed = [_term(a)[0] for a in arguments if not (isinstance(a, ast.Name) and a.id == "ops")]
    text = f'<mi mathvariant="normal">{escape(_FUNCTIONS.get(name, name))}</mi>'
    return _row(text, _op("&#x2061;"), _fenced(_op(",", separator="true").join(listed))), 4


def _tight(node: ast.expr, least: int) -> str:
    made, binds = _term(node)
    return made if binds >= least else _fenced(made)


# ----- the pages' TeX -------------------------------------------------------------------------------------------------

_SYMBOLS = {
    "partial": "∂", "alpha": "α", "beta": "β", "theta": "θ", "lambda": "λ", "pi": "π", "sigma": "σ", "infty": "∞", "cdot": "·", "to": "→", "in": "∈", "le": "≤",
    "ge": "≥", "ne": "≠", "approx": "≈", "times": "×", "top": "⊤", "sum": "∑", "int": "∫", "nabla": "∇", "varepsilon": "ε", "mu": "μ", "quad": "\u2003", ",": "\u2009",
    "dots": "…", "ldots": "…", "cdots": "⋯", "pm": "±", "circ": "∘", "Sigma": "Σ", "Delta": "Δ", "delta": "δ", "phi": "φ", "psi": "ψ", "gamma": "γ", "tau": "τ", "mid": "∣",
    "prod": "∏", "|": "‖", "langle": "⟨", "rangle": "⟩", "Phi": "Φ", "Psi": "Ψ", "Gamma": "Γ", "mp": "∓", "varphi": "φ",
}  # fmt: skip
_MARKS = {"bar": "¯", "overline": "¯", "hat": "^", "dot": "˙"}
_ROMAN = set("exp log ln sin cos tan det tr min max arg".split())
#: Signs with their index below them.
_UNDER = {"<mo>∑</mo>", "<mo>∏</mo>", '<mi mathvariant="normal">max</mi>', '<mi mathvariant="normal">min</mi>'}
_OPERATORS = set("·→∈≤≥≠≈×∑∫±∘∣∏‖⟨⟩∓")


def tex(source: str, display: bool = False) -> str:
    """Return a whole `<math>` element of a formula in the part of TeX that the pages use; ValueError for other TeX."""
    tokens = re.findall(r"\\text\{[^}]*\}|\\[A-Za-z]+|\\.|[0-9.]+(?<!\.)|[A-Za-z]|\S", source)
    parts, rest = _tex_row(tokens, None)
    if rest:
        raise ValueError(f"the formula {source!r} closes a group that it did not open")
    return f'<math display="{"block" if display else "inline"}">{_row(*parts)}</math>'


def _tex_row(tokens: list[str], until: str | None) -> tuple[list[str], list[str]]:
    """Return all elements up to a closing token, or to the end."""
    parts: list[str] = []
    while tokens:
        token = tokens[0]
        if token == until:
            return parts, tokens[1:]
        if token in ("^", "_"):
            script, tokens = _tex_group(tokens[1:])
            tag = "msup" if token == "^" else "munder" if parts and parts[-1] in _UNDER else "msub"
            parts.append(f"<{tag}>{parts.pop() if parts else '<mi></mi>'}{script}</{tag}>")
        else:
            made, tokens = _tex_group(tokens)
            parts.append(made)
    if until is not None:
        raise ValueError(f"a formula lacks {until!r}")
    return parts, []


def _tex_group(tokens: list[str]) -> tuple[str, list[str]]:
    """Return one token or group, and the tokens behind it."""
    if not tokens:
        raise ValueError("a formula ends where something must follow")
    token, rest = tokens[0], tokens[1:]
    if token == "{":
        parts, rest = _tex_row(rest, "}")
        return _row(*parts), rest
    if token == r"\frac":
        top, rest = _tex_group(rest)
        bottom, rest = _tex_group(rest)
        return f"<mfrac>{top}{bottom}</mfrac>", rest
    if token == r"\sqrt":
        inside, rest = _tex_group(rest)
        return f"<msqrt>{inside}</msqrt>", rest
    if token[1:] in _MARKS:
        inside, rest = _tex_group(rest)
        return f"<mover>{inside}{_op(_MARKS[token[1:]])}</mover>", rest
    if token == r"\operatorname":
        if not rest or rest[0] != "{":
            raise ValueError(f"a formula lacks braces behind {token}")
        end = rest.index("}")
        return f'<mi mathvariant="normal">{"".join(rest[1:end])}</mi>', rest[end + 1 :]
    if token.startswith(r"\text{"):
        return f"<mtext>{escape(token[6:-1]).replace(' ', '&#160;')}</mtext>", rest
    if token.startswith("\\"):
        return _tex_symbol(token[1:]), rest
    if token[0].isdigit():
        return f"<mn>{token}</mn>", rest
    if token.isalpha():
        return f"<mi>{token}</mi>", rest
    return _op({"-": "−", "<": "&lt;", ">": "&gt;", "'": "′", "&": "&amp;"}.get(token, token)), rest


def _tex_symbol(name: str) -> str:
    if name in _ROMAN:
        return f'<mi mathvariant="normal">{name}</mi>'
    if name not in _SYMBOLS:
        raise ValueError(
            f"\\{name} is no part of the TeX that these pages know: add it to docs/reference_pages/formula.py"
        )
    sign = _SYMBOLS[name]
    if sign.isspace():
        return f'<mspace width="{0.17 if name == "," else 1}em"/>'
    return _op(sign) if sign in _OPERATORS else f"<mi>{sign}</mi>"
