"""Source form of Python loops: code in which a `for` loop can run as one traced round.

A trace executes a Python loop round by round, which takes milliseconds for each. So while a function is traced, its code
is replaced by code in which each loop can be run from a function of one round:

    for i in range(n):            plan = roll(range(n))
        u[i] = f(u[i - 1])        if plan is None:
                                      the loop as written
                                  else:
                                      def body(item, i, u):
                                          i = item
                                          plan.set(f(plan.get(u, i - 1)), u, i)
                                          return i, u
                                      i, u = plan.run(body, (i, u))

`ndgrad._src.compiler.capture.python_loops` has the plan. Outside of a trace, and in other threads, `roll` returns None.
A `while` loop has a second function, for its condition.

Note [Bodies without jumps]
Values of tensors may decide what a round does, and then both sides of an `if` become functions of the variables that
they assign. So a body must not jump. The code behind an `if` with a `continue` moves into its other side. A `break`
becomes a variable, and a round does nothing once it is true:

    for x in xs:                  def body(item, s, x, stop):
        if x < 0:                     def rest(s, x, stop):
            continue                      x = item
        s = s + x                         def nothing(s, stop): return s, stop
        if s > 9:                         def add(s, stop):
            break                             s = s + x
                                              def leave(stop): return (True,)
                                              def stay(stop): return (stop,)
                                              (stop,) = plan.choose(s > 9, leave, stay, (stop,))
                                              return s, stop
                                          s, stop = plan.choose(x < 0, nothing, add, (s, stop))
                                          return s, x, stop
                                      return plan.choose(plan.negate(stop), rest, ...)

Note [The source is the code]
The source in the file may be newer than the function, and decorators may have changed the code. So the source is
compiled unchanged first, and must give the function's bytecode. Otherwise its loops are traced round by round.
"""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import gc
import inspect
import itertools
import linecache
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ndgrad._src.compiler.capture.looked_up_names import codes_in
from ndgrad._src.compiler.capture.replaced_code import CodeOrigin
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.locks import make_lock

_PACKAGE = str(Path(__file__).parents[3]) + os.sep
#: Constant in the new source in whose place `code.replace` puts the object that rolls up loops.
_MARK = "ndgrad: roll up loops"

#: Statements that a body of one round cannot contain, with the reason for `explain`.
_REFUSED: dict[type[ast.AST], str] = {
    ast.Return: "it returns from inside the loop",
    ast.Yield: "it yields",
    ast.YieldFrom: "it yields",
    ast.Await: "it awaits",
    ast.Try: "it has a try statement",
    ast.TryStar: "it has a try statement",
    ast.With: "it has a with statement",
    ast.AsyncWith: "it has a with statement",
    ast.AsyncFor: "it has an async loop",
    ast.Global: "it assigns a global variable",
    ast.Nonlocal: "it assigns a variable of an enclosing function",
    ast.Import: "it imports a module",
    ast.ImportFrom: "it imports a module",
    ast.FunctionDef: "it defines a function",
    ast.AsyncFunctionDef: "it defines a function",
    ast.ClassDef: "it defines a class",
    ast.Delete: "it deletes a name",
    ast.Match: "it has a match statement",
    ast.Raise: "it raises",
    ast.Assert: "it has an assertion",
}


#: Names by which a function can see its own variables or code. Rewritten code has more variables.
_LOOKS_AT_FRAMES = frozenset([
    "locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "inspect", "f_locals", "f_code", "__code__",
])  # fmt: skip


class Unbound:
    """Marks a variable without a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "unbound"


UNBOUND = Unbound()


class RewrittenCode:
    """Code and its form with rolled loops."""

    def __init__(self, old: types.CodeType, new: types.CodeType, loops: Any) -> None:
        self.old = old
        self.new = new
        #: Object that the new code calls.
        self.loops = loops
        #: Number of traces that use it now.
        self.uses = 0


class LoopLog:
    """Loops that a function runs in a trace: those rolled up, and those that are not, with reasons."""

    def __init__(self) -> None:
        #: Reasons, and numbers of rounds, by file and line.
        self.refused: dict[str, str] = {}
        self.rolled: dict[str, int] = {}
        #: Number of rounds of `while` loops that run as written.
        self.rounds: dict[str, int] = {}
        #: Code of the functions with loops.
        self.codes: Sequence[RewrittenCode] = ()
        #: Loops that this trace has begun to roll up; and those whose rounds run now, the innermost last.
        self.begun: list[str] = []
        self.running: list[str] = []
        #: Reason why no loop is rolled up; None if they are.
        self.is_off: str | None = None

    def begin(self, codes: Sequence[RewrittenCode]) -> None:
        """Note that a trace begins in which functions have this code."""
        self.codes = codes
        self.begun, self.running = [], []
        self.rolled, self.rounds = {}, {}

    def blame(self, reason: str) -> bool:
        """Refuse the loops that may have caused a graph break, so that another trace decides without them. Return
        False if this trace has rolled up none.
        """
        for where in self.running[-1:] or self.begun:
            self.refused.setdefault(where, reason)
        return bool(self.begun)


#: Code by identity, with its new form; None if it has no loops, or if its source is not known.
_known: dict[int, tuple[types.CodeType, RewrittenCode | None]] = {}
_lock = make_lock()


def rewrite_code(code: types.CodeType, make_loops: Callable[[list[LoopNote]], Any]) -> RewrittenCode | None:
    """Return the code of a function with loops that can be rolled up; None if there are none."""
    known = _known.get(id(code))
    if known is None or known[0] is not code:
        make_room(_known, 4096)
        try:
            new = _rewrite(code, make_loops)
        except (OSError, SyntaxError, ValueError, TypeError, RecursionError, IndexError):
            new = None
        known = _known[id(code)] = code, new
    return known[1]


def may_have_loops(code: types.CodeType) -> bool:
    """True for code of a function outside of ndgrad that has a loop."""
    if code.co_filename.startswith((_PACKAGE, "<")) and not code.co_filename.startswith("<ipython"):
        return False
    if code.co_name.startswith("<") or code.co_flags & (
        inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    ):
        return False
    return any(not _LOOPS.isdisjoint(part.co_code[::2]) for part in codes_in(code))


#: Instructions that jump backwards.
_LOOPS = frozenset([op for name, op in dis.opmap.items() if "BACKWARD" in name])


@contextmanager
def installing(
    codes: Sequence[RewrittenCode], own: dict[int, types.CodeType], reached: Iterable[Any]
) -> Iterator[None]:
    """Context in which functions have rewritten code. `own` gets the new code by identity. `reached` are objects among
    which functions with this code may be.
    """
    if not codes:
        yield
        return
    for made in codes:
        own.update({id(part): part for part in codes_in(made.new)})
    used: list[RewrittenCode] = []
    try:
        with _lock:
            for made in codes:
                used.append(made)
                made.uses += 1
            _replace({id(made.old): made.new for made in codes}, [made.old for made in codes], reached)
        yield
    finally:
        with _lock:
            done = []
            while used:
                made = used.pop()
                made.uses -= 1
                if not made.uses:
                    done.append(made)
            try:
                _restore(done, reached)
            except BaseException:  # such as a KeyboardInterrupt at this point
                _restore(done, reached)
                raise


def _restore(codes: Sequence[RewrittenCode], reached: Iterable[Any]) -> None:
    _replace({id(made.new): made.old for made in codes}, [made.new for made in codes], reached)


def _replace(by: dict[int, types.CodeType], codes: Sequence[types.CodeType], reached: Iterable[Any]) -> None:
    """Give other code to all functions that have some code. Copies of a function, such as lifted ones, share it. The
    collector finds them; it does not know functions that `gc.freeze` has hidden, so those reached are visited as well.
    """
    for f in (*reached, *(gc.get_referrers(*codes) if codes else ())):
        if isinstance(f, types.FunctionType):
            code = by.get(id(f.__code__))
            if code is not None:
                f.__code__ = code


# ----- compiling ------------------------------------------------------------------------------------------------------


def _rewrite(code: types.CodeType, make_loops: Callable[[list[LoopNote]], Any]) -> RewrittenCode | None:
    if any(_LOOKS_AT_FRAMES.intersection(part.co_names) for part in codes_in(code)):
        return None
    module = _module_around(code)
    if module is None:
        return None
    made = _find_code(_compile(module, code), code)
    if made is None or not _is_same(made, code):
        return None  # see Note [The source is the code]
    function = _find_function(module, code)
    assert function is not None
    rewriter = _Rewriter(function, Path(code.co_filename).name)
    body = rewriter.run()
    if body is None:
        return None
    function.body = body
    new = _find_code(_compile(module, code), code)
    if new is None or new.co_freevars != code.co_freevars or new.co_flags != code.co_flags:
        return None
    loops = make_loops(rewriter.notes)
    return RewrittenCode(code, _fill(new, loops, CodeOrigin(code)), loops)


def _module_around(code: types.CodeType) -> ast.Module | None:
    """Return the statement of a source file that defines a function, after the imports of the file.

    The compiler treats attributes of imported names in a way of its own, so the imports matter.
    """
    tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    for top in tree.body:
        if _find_function(top, code) is not None:
            inside = {id(n) for n in ast.walk(top)}
            imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) and id(n) not in inside]
            scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            local = {id(n) for scope in ast.walk(tree) if isinstance(scope, scopes) for n in ast.walk(scope)}
            return ast.Module([*[n for n in imports if id(n) not in local], top], [])
    return None


def _find_function(tree: ast.AST, code: types.CodeType) -> ast.FunctionDef | None:
    """Return the definition of a function."""
    for n in ast.walk(tree):
        if isinstance(n, ast.FunctionDef) and n.name == code.co_name:
            if min([n.lineno, *[d.lineno for d in n.decorator_list]]) == code.co_firstlineno:
                return n
    return None


def _compile(module: ast.Module, code: types.CodeType) -> types.CodeType:
    flags = code.co_flags & __future__.annotations.compiler_flag
    return compile(ast.fix_missing_locations(module), code.co_filename, "exec", flags, dont_inherit=True)


def _find_code(module: types.CodeType, code: types.CodeType) -> types.CodeType | None:
    """Return the code of the same function in a compiled module."""
    for c in codes_in(module):
        if c.co_qualname == code.co_qualname and c.co_firstlineno == code.co_firstlineno:
            return c
    return None


def _is_same(made: types.CodeType, code: types.CodeType) -> bool:
    """True if two code objects do the same."""
    if (
        made.co_code != code.co_code
        or made.co_names != code.co_names
        or made.co_varnames != code.co_varnames
        or made.co_freevars != code.co_freevars
        or made.co_cellvars != code.co_cellvars
        or made.co_flags & ~inspect.CO_NESTED != code.co_flags & ~inspect.CO_NESTED
        or made.co_exceptiontable != code.co_exceptiontable
        or len(made.co_consts) != len(code.co_consts)
    ):
        return False
    for a, b in zip(made.co_consts, code.co_consts, strict=True):
        if type(a) is not type(b):
            return False
        if isinstance(a, types.CodeType):
            if not _is_same(a, b):
                return False
        elif isinstance(a, str) and "<locals>" in a:
            continue  # a qualified name
        elif repr(a) != repr(b):
            return False
    return True


def _fill(code: types.CodeType, loops: Any, origin: CodeOrigin) -> types.CodeType:
    """Return code in which an object replaces the mark, and which names its origin."""
    constants: list[Any] = []
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            c = _fill(c, loops, origin)
        elif isinstance(c, str) and c == _MARK:
            c = loops
        constants.append(c)
    return code.replace(co_consts=(*constants, origin))


# ----- rewriting ------------------------------------------------------------------------------------------------------


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _helper(name: str) -> ast.Attribute:
    """Return an attribute of the object that rolls up loops."""
    return ast.Attribute(_load("_nd_loops"), name, ast.Load())


def _call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])


def _method(plan: str, name: str, *arguments: ast.expr) -> ast.Call:
    return _call(ast.Attribute(_load(plan), name, ast.Load()), *arguments)


class LoopNote:
    """A loop of a source file."""

    __slots__ = ("assigned", "live", "names", "reason", "stop", "temporary", "where")

    def __init__(
        self,
        where: str,
        reason: str | None,
        names: tuple[str, ...],
        live: frozenset[str],
        temporary: frozenset[str],
        assigned: frozenset[str],
        stop: str | None,
    ) -> None:
        #: File and line.
        self.where = where
        #: Reason why its source cannot be a body of one round; None if it can.
        self.reason = reason
        #: Variables that it assigns or whose elements it sets, and those that the rest of the function reads.
        self.names = names
        self.live = live
        #: Variables that each round assigns before it reads them, and all that it assigns.
        self.temporary = temporary
        self.assigned = assigned
        #: Variable that a `break` sets; None without one.
        self.stop = stop


class _Rewriter:
    """Rewrites the loops of a function."""

    def __init__(self, function: ast.FunctionDef, file: str) -> None:
        self.function = function
        self.file = file
        self.notes: list[LoopNote] = []
        self._count = itertools.count()
        #: Number of loops around the current statement.
        self._depth = 0

    def run(self) -> list[ast.stmt] | None:
        """Return the body of the function with its loops rewritten; None if it has none."""
        body = self._statements(self.function.body, None)
        start = ast.Assign([_store("_nd_loops")], ast.Constant(_MARK))
        return [ast.copy_location(start, self.function.body[0]), *body] if self.notes else None

    def _statements(self, statements: Sequence[ast.stmt], plan: str | None) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for s in statements:
            made = self._statement(s, plan)
            for m in made:
                if not hasattr(m, "lineno"):
                    ast.copy_location(m, s)
            found += made
        return found

    def _statement(self, s: ast.stmt, plan: str | None) -> list[ast.stmt]:
        if isinstance(s, (ast.For, ast.While)):
            return self._loop(s, plan)
        if plan is not None:
            if isinstance(s, ast.If):
                return self._if(s, plan)
            if isinstance(s, ast.Assign):
                return self._assign(s, plan)
            if isinstance(s, ast.AugAssign):
                return self._augmented(s, plan)
            if isinstance(s, ast.Expr) and _is_append(s.value):
                call = s.value
                assert isinstance(call, ast.Call)
                assert isinstance(call.func, ast.Attribute)
                return [ast.Expr(_method(plan, "append", self._expression(call.func.value, plan), self._expression(call.args[0], plan)))]
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return [s]
        made = copy.copy(s)
        for field, value in ast.iter_fields(s):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(made, field, self._statements(value, plan))
            elif isinstance(value, list) and value and isinstance(value[0], ast.ExceptHandler):
                handlers = []
                for h in value:
                    handler = copy.copy(h)
                    handler.body = self._statements(h.body, plan)
                    handlers.append(handler)
                setattr(made, field, handlers)
            elif plan is not None and isinstance(value, ast.expr):
                setattr(made, field, self._expression(value, plan))
        return [made]

    def _if(self, s: ast.If, plan: str) -> list[ast.stmt]:
        """Rewrite an `if`: the plan runs one of two functions, or both."""
        names = _stored_names(s)
        k = next(self._count)
        sides = [self._function(f"_nd_{which}{k}", names, body, plan) for which, body in (("then", s.body), ("else", s.orelse))]
        return [*sides, self._choose(plan, _test(s.test, plan), f"_nd_then{k}", f"_nd_else{k}", names)]

    def _choose(self, plan: str, test: ast.expr, first: str, second: str, names: Sequence[str]) -> ast.stmt:
        call = _method(plan, "choose", test, _load(first), _load(second), ast.Tuple([_load(n) for n in names], ast.Load()))
        if not names:
            return ast.Expr(call)
        return ast.Assign([ast.Tuple([_store(n) for n in names], ast.Store())], call)

    def _function(self, name: str, names: Sequence[str], body: Sequence[ast.stmt], plan: str) -> ast.FunctionDef:
        """Return the definition of a function from values of variables to their values after some statements."""
        return _define(name, names, [*self._statements(body, plan), ast.Return(ast.Tuple([_load(n) for n in names], ast.Load()))])

    def _expression(self, e: ast.expr, plan: str) -> ast.expr:
        return ast.fix_missing_locations(ast.copy_location(_Reads(plan).visit(copy.deepcopy(e)), e))

    def _assign(self, s: ast.Assign, plan: str) -> list[ast.stmt]:
        """Rewrite an assignment: elements are set by the plan."""
        if not any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for t in s.targets for n in ast.walk(t)):
            made = copy.copy(s)
            made.value = self._expression(s.value, plan)
            return [made]
        found: list[ast.stmt] = []
        value: ast.expr = self._expression(s.value, plan)
        name = f"_nd_value{next(self._count)}"
        found.append(ast.Assign([_store(name)], value))
        for target in s.targets:
            later: list[ast.stmt] = []
            plain = self._split_target(target, plan, later)
            if plain is None:
                assert isinstance(target, ast.Subscript)
                found.append(self._set(_load(name), target, plan))
            else:
                found += [ast.Assign([plain], _load(name)), *later]
        return found

    def _split_target(self, target: ast.expr, plan: str, later: list[ast.stmt]) -> ast.expr | None:
        """Return a target with names in place of elements, which `later` sets; None if it is an element itself."""
        if isinstance(target, ast.Subscript):
            return None
        made = copy.copy(target)
        if isinstance(target, (ast.Tuple, ast.List)):
            parts: list[ast.expr] = []
            for t in target.elts:
                plain = self._split_target(t, plan, later)
                if plain is None:
                    name = f"_nd_value{next(self._count)}"
                    assert isinstance(t, ast.Subscript)
                    later.append(self._set(_load(name), t, plan))
                    plain = _store(name)
                parts.append(plain)
            assert isinstance(made, (ast.Tuple, ast.List))
            made.elts = parts
        return made

    def _set(self, value: ast.expr, target: ast.Subscript, plan: str) -> ast.stmt:
        return ast.Expr(_method(plan, "set", value, self._expression(target.value, plan), _index(self._expression(target.slice, plan))))

    def _augmented(self, s: ast.AugAssign, plan: str) -> list[ast.stmt]:
        value = self._expression(s.value, plan)
        if isinstance(s.target, ast.Name):
            made = copy.copy(s)
            made.value = value
            return [ast.Assign([_store(s.target.id)], _method(plan, "own", _load(s.target.id))), made]
        if isinstance(s.target, ast.Subscript):
            operation = ast.Constant(type(s.op).__name__)
            base, index = self._expression(s.target.value, plan), _index(self._expression(s.target.slice, plan))
            return [ast.Expr(_method(plan, "change", operation, base, index, value))]
        made = copy.copy(s)
        made.value = value
        return [made]

    def _loop(self, s: ast.For | ast.While, plan: str | None) -> list[ast.stmt]:
        reason = _refuse(s)
        stop = f"_nd_stop{next(self._count)}" if _has_break(s.body) else None
        body: list[ast.stmt] = []
        if reason is None:
            try:
                body = _without_jumps(s.body, stop)
            except _TooMany:
                reason = "its breaks and continues are too many"
        names = _stored_names(s)
        shared = [n for n in names if n in _names_of_other_scopes(self.function, s)]
        if reason is None and shared:
            reason = f"it assigns {shared[0]}, which functions around or inside use as well"
        used = _names_outside(self.function, s)
        if isinstance(s, ast.While):
            used |= {n.id for n in ast.walk(s.test) if isinstance(n, ast.Name)}
        temporary = frozenset(n for n in names if _is_temporary(s, n))
        if self._depth:  # another execution of the loop may read them
            used |= {n for n in names if n not in temporary}
        live = frozenset(n for n in names if n in used)
        names = names if stop is None else [*names, stop]
        assigned = frozenset(n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        note = LoopNote(f"{self.file}:{s.lineno}", reason, tuple(names), live, temporary, assigned, stop)
        number = len(self.notes)
        self.notes.append(note)
        head = self._items(s.iter, plan) if isinstance(s, ast.For) else None
        self._depth += 1
        try:
            return self._loop_of(s, body, plan, note, number, head)
        finally:
            self._depth -= 1

    def _loop_of(
        self, s: ast.For | ast.While, body: list[ast.stmt], plan: str | None, note: LoopNote, number: int, head: ast.expr | None
    ) -> list[ast.stmt]:
        names, stop = note.names, note.stop
        if note.reason is not None:
            made = copy.copy(s)
            note_loop = _helper("note") if head is not None else _helper("note_while")
            if isinstance(made, ast.For):
                assert head is not None
                made.iter = _call(note_loop, head, ast.Constant(number))
            elif isinstance(s, ast.While):
                made.test = ast.BoolOp(ast.And(), [_call(note_loop, ast.Constant(number)), s.test if plan is None else self._expression(s.test, plan)])
            # A refused body jumps as written, so an outer plan cannot look into it.
            made.body = self._statements(s.body, None)
            made.orelse = self._statements(s.orelse, plan)
            return self._place_at(s, [made])
        k = next(self._count)
        own, it, step, out, holds = f"_nd_plan{k}", f"_nd_items{k}", f"_nd_body{k}", f"_nd_out{k}", f"_nd_test{k}"
        plain = copy.copy(s)
        if plan is None:
            plain.body = self._statements(s.body, None)
        else:
            plain.body = self._statements(body, plan)
            if stop is not None:
                plain.body.append(ast.If(_load(stop), [ast.Break()], []))
        if isinstance(plain, ast.For):
            plain.iter = _load(it)
        elif isinstance(plain, ast.While) and plan is not None:
            plain.test = self._expression(plain.test, plan)
        plain.orelse = self._statements(s.orelse, plan)
        rolled: list[ast.stmt] = []
        if isinstance(s, ast.For):
            item = f"_nd_item{k}"
            rounds = [ast.copy_location(ast.Assign([s.target], _load(item)), s), *body]
            if stop is None:
                made_body = [*self._statements(rounds, own), _return(names)]
            else:
                first, second = f"_nd_go{k}", f"_nd_stay{k}"
                made_body = [
                    self._function(first, names, rounds, own),
                    _define(second, names, [_return(names)]),
                    self._choose(own, _method(own, "negate", _load(stop)), first, second, names),
                    _return(names),
                ]
            rolled.append(_define(step, [item, *names], made_body))
        elif isinstance(s, ast.While):
            going = _test(s.test, own)
            if stop is not None:
                going = _method(own, "both", _method(own, "negate", _load(stop)), _lazy(going))
            rolled.append(_define(step, names, [*self._statements(body, own), _return(names)]))
            rolled.append(_define(holds, names, [ast.Return(going)]))
        values: list[ast.expr] = []
        for j, n in enumerate(names):
            if n == stop:
                values.append(ast.Constant(False))
                continue
            value = f"_nd_start{k}_{j}"
            handler = ast.ExceptHandler(_helper("name_error"), None, [ast.Assign([_store(value)], _helper("unbound"))])
            rolled.append(ast.Try([ast.Assign([_store(value)], _load(n))], [handler], [], []))
            values.append(_load(value))
        functions = [_load(step)] if isinstance(s, ast.For) else [_load(step), _load(holds)]
        run = "run" if isinstance(s, ast.For) else "run_while"
        rolled.append(ast.Assign([_store(out)], _method(own, run, *functions, ast.Tuple(values, ast.Load()))))
        for j, n in enumerate(names):
            part = ast.Subscript(_load(out), ast.Constant(j), ast.Load())
            if n == stop:
                rolled.append(ast.Assign([_store(n)], part))
                continue
            test = ast.Compare(part, [ast.IsNot()], [_helper("unbound")])
            rolled.append(ast.If(test, [ast.Assign([_store(n)], copy.deepcopy(part))], []))
        if s.orelse:
            rolled += self._statements(s.orelse, plan) if stop is None else [
                ast.If(ast.UnaryOp(ast.Not(), _load(stop)), self._statements(s.orelse, plan), [])
            ]
        found: list[ast.stmt] = []
        if stop is not None:
            found.append(ast.Assign([_store(stop)], ast.Constant(False)))
        if head is not None:
            found.append(ast.Assign([_store(it)], head))
            roll = _call(_helper("roll"), _load(it), ast.Constant(number))
        else:
            roll = _call(_helper("roll_while"), ast.Constant(number))
        found.append(ast.Assign([_store(own)], roll))
        found.append(ast.If(ast.Compare(_load(own), [ast.Is()], [ast.Constant(None)]), [plain], rolled))
        return self._place_at(s, found)

    @staticmethod
    def _place_at(s: ast.stmt, found: list[ast.stmt]) -> list[ast.stmt]:
        """Give statements without a place in the source that of another one."""
        for statement in found:
            ast.copy_location(statement, s)
            for node in ast.walk(statement):
                if isinstance(node, (ast.expr, ast.stmt, ast.arg, ast.ExceptHandler)) and not hasattr(node, "lineno"):
                    ast.copy_location(node, s)
        return found

    def _items(self, e: ast.expr, plan: str | None) -> ast.expr:
        """Rewrite calls of zip, enumerate and reversed in the head of a loop, so that their arguments are known."""
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id in ("zip", "enumerate", "reversed"):
            if not any(isinstance(a, ast.Starred) for a in e.args) and all(k.arg in ("start", "strict") for k in e.keywords):
                arguments = [self._items(a, plan) for a in e.args]
                return ast.Call(_helper("items"), [_load(e.func.id), *arguments], e.keywords)
        return e if plan is None else self._expression(e, plan)


class _Reads(ast.NodeTransformer):
    """Lets a plan read elements."""

    def __init__(self, plan: str) -> None:
        self.plan = plan

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or any(isinstance(n, ast.Starred) for n in ast.walk(node.slice)):
            return self.generic_visit(node)
        made = _method(self.plan, "get", self.visit(node.value), _index(self.visit(node.slice)))
        return ast.copy_location(made, node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if _binds_names(node):
            return self.generic_visit(node)
        test = _test(node.test, self.plan)
        made = _method(self.plan, "select", test, _lazy(self.visit(node.body)), _lazy(self.visit(node.orelse)))
        return ast.copy_location(made, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        made = self.generic_visit(node)
        assert isinstance(made, ast.Call)
        if isinstance(made.func, ast.Name) and made.func.id in ("min", "max") and not made.keywords and len(made.args) > 1:
            if not any(isinstance(a, ast.Starred) for a in made.args):
                return ast.copy_location(_method(self.plan, "extreme", made.func, *made.args), node)
        return made

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


def _binds_names(e: ast.expr) -> bool:
    return any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for n in ast.walk(e))


def _lazy(e: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), e)


def _test(e: ast.expr, plan: str) -> ast.expr:
    """Return a condition whose parts the plan combines: values of tensors may decide them."""
    if not _binds_names(e):
        if isinstance(e, ast.BoolOp):
            name = "both" if isinstance(e.op, ast.And) else "either"
            made = _test(e.values[0], plan)
            for other in e.values[1:]:
                made = _method(plan, name, made, _lazy(_test(other, plan)))
            return ast.copy_location(made, e)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            return ast.copy_location(_method(plan, "negate", _test(e.operand, plan)), e)
        if isinstance(e, ast.Compare) and len(e.ops) > 1 and all(type(op).__name__ in _COMPARED for op in e.ops):
            symbols = ast.Constant("|".join(type(op).__name__ for op in e.ops))
            parts = [_lazy(_test(x, plan)) for x in (e.left, *e.comparators)]
            return ast.copy_location(_method(plan, "compare", symbols, *parts), e)
    return ast.fix_missing_locations(ast.copy_location(_Reads(plan).visit(copy.deepcopy(e)), e))


_COMPARED = frozenset(["Lt", "LtE", "Gt", "GtE", "Eq", "NotEq"])


def _return(names: Sequence[str]) -> ast.stmt:
    return ast.Return(ast.Tuple([_load(n) for n in names], ast.Load()))


def _define(name: str, names: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """Return the definition of a function with these parameters."""
    made = ast.FunctionDef(name, ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, []), body, [])
    if "type_params" in ast.FunctionDef._fields:
        made.type_params = []  # type: ignore[attr-defined]
    return made


#: Most statements of a body without jumps.
_MOST_STATEMENTS = 300


class _TooMany(Exception):
    """A body without jumps would repeat too much of its code."""


def _without_jumps(statements: Sequence[ast.stmt], stop: str | None) -> list[ast.stmt]:
    """Return a body that ends at its last statement (see Note [Bodies without jumps])."""
    left = _MOST_STATEMENTS

    def convert(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        nonlocal left
        found: list[ast.stmt] = []
        for k, s in enumerate(statements):
            left -= 1
            if left < 0:
                raise _TooMany
            if isinstance(s, ast.Continue):
                break
            if isinstance(s, ast.Break):
                assert stop is not None
                found.append(ast.copy_location(ast.Assign([_store(stop)], ast.Constant(True)), s))
                break
            if _has_jump([s]):
                if not isinstance(s, ast.If):
                    raise _TooMany
                made = copy.copy(s)
                made.body = convert([*s.body, *statements[k + 1 :]])
                made.orelse = convert([*s.orelse, *statements[k + 1 :]])
                found.append(made)
                break
            found.append(s)
        return found or [ast.copy_location(ast.Pass(), statements[0])] if statements else []

    return convert(statements)


def _index(e: ast.expr) -> ast.expr:
    """Return an index as an expression."""
    if isinstance(e, ast.Slice):
        parts = [ast.Constant(None) if p is None else p for p in (e.lower, e.upper, e.step)]
        return _call(_helper("slice"), *parts)
    if isinstance(e, ast.Tuple):
        return ast.Tuple([_index(x) for x in e.elts], ast.Load())
    return e


def _is_append(e: ast.expr) -> bool:
    return (
        isinstance(e, ast.Call)
        and isinstance(e.func, ast.Attribute)
        and e.func.attr == "append"
        and len(e.args) == 1
        and not e.keywords
        and not isinstance(e.args[0], ast.Starred)
    )


def _refuse(loop: ast.For | ast.While) -> str | None:
    """Return the reason why the body of a loop cannot be a function of one round."""
    for s in loop.body:
        for n in ast.walk(s):
            reason = _REFUSED.get(type(n))
            if reason is not None:
                return f"{reason} (line {getattr(n, 'lineno', loop.lineno)})"
            if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load):
                return f"it sets the attribute {n.attr} (line {n.lineno})"
            if isinstance(n, ast.Name) and n.id.startswith("_nd_"):
                return "it uses a reserved name"
            if isinstance(n, ast.Expr) and not _is_append(n.value) and not isinstance(n.value, ast.Constant):
                return f"it calls a function for its effect (line {n.lineno})"
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("locals", "super", "vars", "eval", "exec", "globals", "print"):
                return f"it calls {n.func.id} (line {n.lineno})"
    return None


def _has_break(statements: Sequence[ast.stmt]) -> bool:
    return _has_jump(statements, (ast.Break,))


def _has_jump(statements: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...] = (ast.Break, ast.Continue)) -> bool:
    """True if statements leave the loop around them, or its round."""
    for s in statements:
        if isinstance(s, kinds):
            return True
        if isinstance(s, (ast.For, ast.While)):
            if _has_jump(s.orelse, kinds):
                return True
            continue
        for _, value in ast.iter_fields(s):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt) and _has_jump(value, kinds):
                return True
    return False


def _stored_names(loop: ast.stmt) -> list[str]:
    """Return the variables that a statement assigns, or whose elements it sets, in order."""
    found: dict[str, None] = {}
    for n in ast.walk(loop):
        if isinstance(n, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)):
            continue
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            found[n.id] = None
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store):
            base = n.value
            while isinstance(base, ast.Subscript):
                base = base.value
            if isinstance(base, ast.Name):
                found[base.id] = None
    for n in ast.walk(loop):  # comprehensions have variables of their own
        if isinstance(n, ast.comprehension):
            for t in ast.walk(n.target):
                if isinstance(t, ast.Name) and not _is_stored_elsewhere(loop, t):
                    found.pop(t.id, None)
    return sorted(found)


def _is_stored_elsewhere(loop: ast.stmt, name: ast.Name) -> bool:
    inside = {id(t) for n in ast.walk(loop) if isinstance(n, ast.comprehension) for t in ast.walk(n.target)}
    return any(
        isinstance(n, ast.Name) and n.id == name.id and isinstance(n.ctx, ast.Store) and id(n) not in inside
        for n in ast.walk(loop)
    )


def _is_temporary(loop: ast.For | ast.While, name: str) -> bool:
    """True if each round assigns a variable before it reads it."""
    head = loop.target if isinstance(loop, ast.For) else loop.test
    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(head)):
        return isinstance(loop, ast.For)
    for s in loop.body:
        if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(s)):
            reads = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(s))
            targets = [n for t in s.targets for n in ast.walk(t)] if isinstance(s, ast.Assign) else []
            return not reads and any(isinstance(n, ast.Name) and n.id == name for n in targets)
    return False


def _names_of_other_scopes(function: ast.FunctionDef, loop: ast.stmt) -> set[str]:
    """Return the names that functions around a function, or inside it but outside of a loop, may read at any time. A
    body of one round has variables of its own, which those functions would not see.
    """
    inside = {id(n) for n in ast.walk(loop)}
    scopes = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.GeneratorExp)
    found: set[str] = set()
    for n in ast.walk(function):
        if isinstance(n, (ast.Global, ast.Nonlocal)):
            found.update(n.names)
        elif isinstance(n, scopes) and n is not function and id(n) not in inside:
            found.update(m.id for m in ast.walk(n) if isinstance(m, ast.Name))
    return found


def _names_outside(function: ast.FunctionDef, loop: ast.stmt) -> set[str]:
    """Return the names that a function reads outside of a loop."""
    inside = {id(n) for n in ast.walk(loop)}
    return {
        n.id
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Load, ast.Del)) and id(n) not in inside
    }
