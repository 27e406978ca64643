"""A failing program made short: whatever can be left out while it still fails in the same way is left out.

Works on the syntax tree, so it knows nothing of the grammar: statements are deleted, loops and branches give way to
their bodies, names to what they stand for, expressions to their own parts and to numbers. Steps are taken blindly: a
source that makes no sense any more does not fail in the same way.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

MOST_TRIES = 1500


def minimise(source: str, fails: Callable[[str], bool]) -> str:
    """A shorter source for which `fails` still holds."""
    tries, progress = 0, True
    while progress:
        progress = False
        for candidate in shorter(source):
            tries += 1
            if tries > MOST_TRIES:
                return source
            if fails(candidate):
                source, progress = candidate, True
                break
    return source


def shorter(source: str) -> Iterator[str]:
    """All sources that are one step shorter, the largest steps first."""
    tree = ast.parse(source)
    seen = {source}
    for edit in (without_statement, hoisted, simplified, inlined):
        for number in range(sum(1 for _ in ast.walk(tree))):
            changed = copy.deepcopy(tree)
            for text in edit(changed, list(ast.walk(changed))[number]):
                if text not in seen and (len(text) < len(source) or edit is inlined):
                    seen.add(text)
                    yield text


def text_of(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def blocks(node: ast.AST) -> list[list[ast.stmt]]:
    return [block for name in ("body", "orelse") if isinstance(block := getattr(node, name, None), list)]


def without_statement(tree: ast.Module, node: ast.AST) -> Iterator[str]:
    """Each statement of a block deleted, from the last to the first."""
    for block in blocks(node):
        for i in reversed(range(len(block))):
            if len(block) > 1 or block is getattr(node, "orelse", None):
                gone = block.pop(i)
                yield text_of(tree)
                block.insert(i, gone)


def hoisted(tree: ast.Module, node: ast.AST) -> Iterator[str]:
    """A loop, branch or inner function replaced by its body."""
    for block in blocks(node):
        for i, statement in enumerate(block):
            if isinstance(statement, (ast.For, ast.While, ast.If)):
                for body in blocks(statement):
                    if body:
                        start: list[ast.stmt] = []
                        if isinstance(statement, ast.For):  # the first turn
                            first = ast.Call(ast.Name("next"), [ast.Call(ast.Name("iter"), [statement.iter], [])], [])
                            start = [
                                ast.Assign([statement.target], ast.Constant(0)),
                                ast.Assign([statement.target], first),
                            ]
                        for begin in [[s] for s in start] or [[]]:
                            block[i : i + 1] = [*begin, *body]
                            yield text_of(tree)
                            block[i : i + len(begin) + len(body)] = [statement]


def simplified(tree: ast.Module, node: ast.AST) -> Iterator[str]:
    """Each expression under a node replaced by a number or by one of its own parts."""
    for field, value in ast.iter_fields(node):
        items = value if isinstance(value, list) else [value]
        for i, item in enumerate(items):
            if not isinstance(item, ast.expr) or isinstance(getattr(item, "ctx", None), ast.Store) or field == "func":
                continue
            parts = [part for part in ast.iter_child_nodes(item) if isinstance(part, ast.expr)]
            if isinstance(item, ast.Call):
                parts += [keyword.value for keyword in item.keywords]
            smaller: list[ast.expr] = [ast.Constant(2.0), *parts] if not isinstance(item, ast.Constant) else []
            for part in smaller:
                put(node, field, value, i, part)
                yield text_of(tree)
            put(node, field, value, i, item)
        if isinstance(value, list) and len(value) > 1 and isinstance(value[0], (ast.expr, ast.keyword)):
            for i in range(len(value)):
                gone = value.pop(i)
                yield text_of(tree)
                value.insert(i, gone)
        elif isinstance(value, list) and value and isinstance(value[0], ast.keyword):
            gone = value.pop()
            yield text_of(tree)
            value.append(gone)


def put(node: ast.AST, field: str, value: object, i: int, item: ast.expr) -> None:
    if isinstance(value, list):
        value[i] = item
    else:
        setattr(node, field, item)


def inlined(tree: ast.Module, node: ast.AST) -> Iterator[str]:
    """A name that is assigned once and used once replaced by what it stands for."""
    for block in blocks(node):
        for i, statement in enumerate(block):
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
                continue
            name = statement.targets[0].id
            uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
            if len(uses) != 2 or len(block) == 1:
                continue
            del block[i]
            yield text_of(Inline(name, statement.value).visit(copy.deepcopy(tree)))
            block.insert(i, statement)


class Inline(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.value if node.id == self.name else node
