"""Break a module in many small ways, and find what only the tests that are about to be removed notice.

    python -m tests.mutants ndgrad._src.core.hooks --old tests/torch_parity/old_hooks.py --new tests/core/test_hooks.py
    python -m tests.mutants ndgrad._src.engine.engine:run_leaf,run_node --most 30 --old ... --new ...

A mutant negates a condition, leaves out a statement, or returns None. `--old` names the tests before the removal (`git show` writes them to
a file), `--new` all tests that remain for the behaviour. A line `only old` is a reason to keep a test, or to add one.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

#: Seconds after which the tests of a mutant count as failed: the mutant may not end.
PATIENCE = 120

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(body: list[ast.stmt], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Function]]:
    """Yield the functions and methods of a module with their qualified names as tuples."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, (*path, node.name))
        elif isinstance(node, Function):
            yield (*path, node.name), node


def mutations(function: Function) -> Iterator[tuple[int, str, Callable[[], Callable[[], None]]]]:
    """Yield the line of a mutation, its kind, and a function that applies it and returns a function that undoes it."""

    def replace(owner: Any, field: Any, new: ast.AST) -> Callable[[], Callable[[], None]]:
        def apply() -> Callable[[], None]:
            old = owner[field] if isinstance(owner, list) else getattr(owner, field)
            ast.fix_missing_locations(ast.copy_location(new, old))
            put = owner.__setitem__ if isinstance(owner, list) else lambda name, value: setattr(owner, name, value)
            put(field, new)
            return lambda: put(field, old)

        return apply

    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.IfExp)):
            yield node.lineno, "negated", replace(node, "test", ast.UnaryOp(ast.Not(), node.test))
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node.lineno, "returns None", replace(node, "value", ast.Constant(None))
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            for i, statement in enumerate(statements if isinstance(statements, list) else ()):
                targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
                is_call = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
                is_write = isinstance(statement, (ast.Assign, ast.AugAssign)) and not isinstance(targets[0], ast.Name)
                if is_call or is_write:
                    yield statement.lineno, "left out", replace(statements, i, ast.Pass())


def code_of(code: CodeType, path: tuple[str, ...]) -> CodeType | None:
    """Return the code of a function of a compiled module."""
    for name in path:
        found = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name]
        if not found:
            return None
        code = found[-1]
    return code


def live_function(module: Any, path: tuple[str, ...]) -> FunctionType | None:
    """Return the function object that the program calls, behind static methods and wrappers."""
    found = module
    for name in path:
        found = vars(found).get(name)
    found = getattr(found, "__func__", found)
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return found if isinstance(found, FunctionType) else None


def passes(files: list[str], function: FunctionType | None = None, code: CodeType | None = None) -> bool:
    """Run test files in a fork of this process, in which the function has other code."""
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        signal.alarm(PATIENCE)
        status = 1
        try:
            if function is not None and code is not None:
                function.__code__ = code
            status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", *files])
        finally:
            os._exit(int(status))
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", help="module, and after a colon the functions to break, separated by commas")
    parser.add_argument("--old", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--new", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--most", type=int, default=80, help="number of mutants, spread over the module")
    given = parser.parse_args()
    name, _, wanted = given.module.partition(":")
    module = importlib.import_module(name)
    path = str(module.__file__)
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    chosen = [(p, m) for p, f in functions(tree.body) if not wanted or p[-1] in wanted.split(",") for m in mutations(f)]
    chosen = chosen[:: max(1, -(-len(chosen) // given.most))]
    if not passes(given.old + given.new):
        raise SystemExit("the tests fail without a mutant")
    noticed = missed = 0
    for place, (line, kind, apply) in chosen:
        function = live_function(module, place)
        undo = apply()
        code = code_of(compile(tree, path, "exec", dont_inherit=True), place)
        undo()
        if function is None or code is None or code.co_freevars != function.__code__.co_freevars or passes(given.old, function, code):
            continue
        noticed += 1
        if passes(given.new, function, code):
            missed += 1
            print(f"only old: {path}:{line} {kind} in {'.'.join(place)}", flush=True)
    print(f"{len(chosen)} mutants; {noticed} fail the old tests, {missed} of them no new one")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
