"""Searches by bisection that are written inside functions of the program.

A search moves its bounds by comparisons, which have no derivative. So the derivative of its steps is not that of its
result, and nothing in the values shows it. The code does: a loop computes the middle of two bounds and assigns it to
each of them. A function with such a loop runs lifted while no derivative is involved. With one, its result is made
differentiable if it is a root of the first argument, as for named solvers. Otherwise the call raises.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dis import opmap
from types import CodeType, FunctionType, MethodType
from typing import Any

from ndgrad._src.core.detach_checks import stake_of
from ndgrad._src.core.variable import Variable
from ndgrad._src.lifting.solvers import wrap_solver

_JUMPS = frozenset(code for name, code in opmap.items() if name.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD")))
_HALVES = frozenset((2, 0.5))
#: Functions that write their second argument into the first.
_WRITERS = frozenset(("copyto", "putmask", "place"))
#: Objects that one call may reach.
_LIMIT = 2000


def guard_search(f: FunctionType, lifted: Callable[..., Any]) -> Callable[..., Any]:
    """Return `lifted`, the lifted form of `f`, unless the code of `f` is a search by bisection: then a function that
    gives no derivative of its steps."""
    line = find_search(f.__code__)
    if line is None:
        return lifted

    @functools.wraps(f)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        name = f"{f.__module__}.{f.__qualname__}"
        raise TypeError(
            f"{name} searches by bisection (line {line} of {f.__code__.co_filename}). Comparisons decide its steps, so "
            "the derivative of the steps is not that of the result. If the search solves f(x, *args) = 0, make it a "
            f"function of its own that takes f first, and write ndgrad.lift(..., implicit={f.__name__}). Otherwise "
            f"name a function with the right derivative: ndgrad.lift(..., replace={{{f.__name__}: other}}). [nd-lift]"
        )

    solve = wrap_solver(f, refuse)

    @functools.wraps(f)
    def search(*args: Any, **kwargs: Any) -> Any:
        if not reaches_derivative((args, kwargs, lifted)):
            return lifted(*args, **kwargs)
        return solve(*args, **kwargs)

    return search


# ----- code -----------------------------------------------------------------------------------------------------------


@functools.cache
def find_search(code: CodeType) -> int | None:
    """Return the line at which code halves the interval of a search; None if it does not, or has no source."""
    if not _JUMPS.intersection(code.co_code[::2]) or not any(c in _HALVES for c in code.co_consts if _is_number(c)):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.While, ast.For)):
            line = _find_halving(loop)
            if line is not None:
                return code.co_firstlineno + line - 1
    return None


def _is_number(c: object) -> bool:
    return isinstance(c, (int, float))


def _find_halving(loop: ast.While | ast.For) -> int | None:
    """Return the line in a loop that computes the middle of two bounds, if both bounds are set to it."""
    writes = [pair for statement in ast.walk(loop) for pair in _writes_of(statement)]
    for target, value in writes:
        for middle in ast.walk(value):
            bounds = _bounds_of(middle)
            if bounds is None or bounds[0] == bounds[1] or _name(target) in bounds:
                continue
            names = {_name(target), ast.dump(middle)}
            if _is_improved(_name(target), writes, bounds):
                continue
            if all(any(_name(t) == b and _mentions(v, names) for t, v in writes) for b in bounds):
                return int(middle.lineno)  # type: ignore[attr-defined]  # an expression has a line
    return None


def _is_improved(middle: str, writes: list[tuple[ast.expr, ast.expr]], bounds: tuple[str, str]) -> bool:
    """True if a loop also computes the middle in another way, such as a step of Newton's method, whose derivative is
    that of the root."""
    for target, value in writes:
        if _name(target) == middle and middle not in bounds and not isinstance(value, (ast.Name, ast.Constant)):
            halves = any(_bounds_of(part) is not None for part in ast.walk(value))
            if not halves and not (isinstance(value, ast.expr) and _name(value) in bounds):
                return True
    return False


def _writes_of(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield (target, value) of a statement. A value that is chosen between two tuples belongs to all targets."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Tuple):
                value = statement.value
                parts = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
                yield from zip(target.elts, parts, strict=False)
            else:
                yield target, statement.value
    elif isinstance(statement, ast.Call) and len(statement.args) > 1:
        called = statement.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in _WRITERS:
            yield statement.args[0], statement.args[-1]
            yield statement.args[0], statement.args[1]


def _name(target: ast.expr) -> str:
    """Return the text of a variable; a part of an array stands for the array."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return ast.dump(target).replace("Store()", "Load()")


def _mentions(value: ast.expr, names: set[str]) -> bool:
    return any(ast.dump(part) in names for part in ast.walk(value) if isinstance(part, ast.expr))


def _bounds_of(e: ast.AST) -> tuple[str, str] | None:
    """Return the two bounds if an expression is their middle: `(a + b) / 2`, `0.5 * (a + b)` or `a + (b - a) / 2`."""
    half = _halved(e)
    if isinstance(half, ast.BinOp) and isinstance(half.op, ast.Add):
        return _pair(half.left, half.right)
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add):
        for start, step in ((e.left, e.right), (e.right, e.left)):
            part = _halved(step)
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and ast.dump(part.right) == ast.dump(start):
                return _pair(start, part.left)
    return None


def _pair(a: ast.expr, b: ast.expr) -> tuple[str, str] | None:
    variables = (ast.Name, ast.Attribute, ast.Subscript)
    return (_name(a), _name(b)) if isinstance(a, variables) and isinstance(b, variables) else None


def _halved(e: ast.AST) -> ast.expr | None:
    """Return x of `x / 2`, `x * 0.5` or `0.5 * x`."""
    if not isinstance(e, ast.BinOp):
        return None
    if isinstance(e.op, ast.Div) and _equals(e.right, 2):
        return e.left
    if isinstance(e.op, ast.Mult):
        return e.left if _equals(e.right, 0.5) else e.right if _equals(e.left, 0.5) else None
    return None


def _equals(e: ast.expr, number: float) -> bool:
    return isinstance(e, ast.Constant) and _is_number(e.value) and e.value == number


# ----- values ---------------------------------------------------------------------------------------------------------


def reaches_derivative(values: Iterable[Any]) -> bool:
    """True if a derivative would be lost by plain values in place of the tensors among these values, or among those
    that they hold: items, attributes, closures and defaults."""
    pending: list[Any] = list(values)
    seen: set[int] = set()
    while pending:
        v = pending.pop()
        if isinstance(v, Variable):
            if stake_of(v) is not None:
                return True
            continue
        if id(v) in seen or len(seen) > _LIMIT:
            continue
        seen.add(id(v))
        pending.extend(_contents(v))
    return False


def _contents(v: Any) -> Iterator[Any]:
    if isinstance(v, (list, tuple, set, frozenset)):
        yield from v
    elif isinstance(v, dict):
        yield from v.values()
    elif isinstance(v, functools.partial):
        yield from (v.func, v.args, v.keywords)
    elif isinstance(v, MethodType):
        yield from (v.__self__, v.__func__)
    elif isinstance(v, FunctionType):
        yield from (v.__defaults__ or (), v.__kwdefaults__ or {})
        for cell in v.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not assigned yet
                continue
    elif "__lifted_from__" in vars(type(v)):
        yield from object.__getattribute__(v, "__dict__").values() if type(v).__dictoffset__ else ()
