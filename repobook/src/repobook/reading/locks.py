"""Lock order and exceptions: which lock is taken while another is held, and where an exception is lost or fatal."""

import re
from bisect import bisect_right

from tree_sitter import Node

from repobook.reading import engine
from repobook.reading.engine import FUNCTIONS, Scopes
from repobook.reading.facts import Facts, Finding, Symbol

_NATIVE = re.compile(
    rb"\b(?:lock_guard|unique_lock|scoped_lock|shared_lock)\b\s*(?:<[^;{}()]*>)?\s*\w+\s*[({]\s*([^;{}]*?)\s*[)}]\s*;"
)
_PYTHON = re.compile(rb"with[ \t]+([\w.]*(?i:lock|mutex)\w*)[ \t]*:")
_BEFORE_WITH = re.compile(rb"([ \t]*)(?:async[ \t]+)?")
_BRACE = re.compile(rb"[{}]")
_LAMBDA = re.compile(rb"\](?:\s*\([^()]*\))?\s*(?:mutable\s*)?(?:->[\w:<>&*\s]+)?\Z")
_BLANK_END = re.compile(rb"\n[ \t]*(?=[^\s#])")

_Held = tuple[int, int, str]  # position, function, lock


def native_locks(source: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    taken: list[_Held] = []
    if b"lock" in source:
        for match in _NATIVE.finditer(source):
            for lock in match.group(1).decode("utf-8", "replace").split(","):
                if "std::" not in lock and lock.strip():
                    taken.append(
                        (match.start(), _function(scopes.find_owner(match.start()), facts.symbols), lock.strip())
                    )
    _order([(one, two) for one, two in _pairs(taken) if _same_block(source[one[0] : two[0]])], lines, scopes, facts)


def python_locks(source: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    taken: list[_Held] = []
    margin: dict[int, int] = {}
    for match in _PYTHON.finditer(source):
        head = _BEFORE_WITH.fullmatch(source, source.rfind(b"\n", 0, match.start()) + 1, match.start())
        if head is None:
            continue
        at = match.start(1)
        taken.append((at, _function(scopes.find_owner(at), facts.symbols), match.group(1).decode("utf-8", "replace")))
        margin[at] = len(head.group(1))
    nested = [
        (one, two)
        for one, two in _pairs(taken)
        if all(len(found.group()) - 1 > margin[one[0]] for found in _BLANK_END.finditer(source, one[0], two[0]))
        and margin[two[0]] > margin[one[0]]
    ]
    _order(nested, lines, scopes, facts)


def _function(local: int, symbols: list[Symbol]) -> int:
    while local and symbols[local].kind not in FUNCTIONS:
        local = symbols[local].parent
    return local


def _pairs(taken: list[_Held]) -> list[tuple[_Held, _Held]]:
    return [
        (one, two)
        for at, two in enumerate(taken)
        for one in taken[max(0, at - 4) : at]
        if one[1] == two[1] and one[1] and one[2] != two[2] and one[0] != two[0]
    ]


def _same_block(text: bytes) -> bool:
    """True if the block at the start of a text is still open at its end. The body of a lambda, which runs later, is no
    part of it."""
    open_blocks: list[bool] = []  # True for the body of a lambda
    for match in _BRACE.finditer(text):
        if match.group() == b"{":
            open_blocks.append(_LAMBDA.search(text, 0, match.start()) is not None)
        elif not open_blocks:
            return False
        else:
            open_blocks.pop()
    return not any(open_blocks)


def _order(nested: list[tuple[_Held, _Held]], lines: list[int], scopes: Scopes, facts: Facts) -> None:
    first: dict[tuple[str, str], int] = {}
    for one, two in nested:
        first.setdefault((one[2], two[2]), bisect_right(lines, two[0]))
    for one, two in nested:
        detail = f"takes {two[2]} while it holds {one[2]}"
        other = first.get((two[2], one[2]))
        if other is not None:
            detail += f"; line {other} takes them the other way round"
        facts.findings.append(
            Finding(bisect_right(lines, two[0]), "safety", "lock order", detail, scopes.find_owner(two[0]))
        )


# ----- exceptions -------------------------------------------------------------------------------------------


def native_exceptions(found: dict[str, list[Node]], source: bytes, scopes: Scopes, facts: Facts) -> None:
    for node in engine.in_order(found.get("catch", [])):
        if engine.text_of(node, source).replace(" ", "") != "(...)" or node.parent is None:
            continue
        body = node.parent.child_by_field_name("body")
        statements = [] if body is None else [child for child in body.named_children if child.type != "comment"]
        end = "" if statements else " and drops it"
        _add(node, f"catches whatever is thrown{end}", scopes, facts)
    for node in engine.in_order(found.get("throw", [])):
        if node.named_child_count == 0:
            continue  # it passes the exception on
        symbol = facts.symbols[_function(scopes.find_owner(node.start_byte), facts.symbols)]
        where = ""
        if symbol.name.startswith("~"):
            where = "a destructor"
        elif "noexcept" in symbol.signature and "noexcept(" not in symbol.signature.replace(" ", ""):
            where = "a noexcept function"
        if where and not _is_caught(node):
            _add(node, f"throws in {where}: the program ends", scopes, facts)


def python_exceptions(found: dict[str, list[Node]], source: bytes, scopes: Scopes, facts: Facts) -> None:
    for node in engine.in_order(found.get("except", [])):
        kinds = [child for child in node.named_children if child.type not in ("block", "comment")]
        body = next((child for child in node.named_children if child.type == "block"), None)
        idle = body is not None and all(child.type in ("pass_statement", "comment") for child in body.named_children)
        name = engine.text_of(kinds[0], source) if kinds else ""
        if not name:
            _add(node, "catches everything, KeyboardInterrupt too" + (", and drops it" if idle else ""), scopes, facts)
        elif idle and name in ("Exception", "BaseException"):
            _add(node, f"drops every {name}", scopes, facts)


def _is_caught(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type not in ("function_definition", "lambda_expression"):
        if above.type == "try_statement":
            return True
        above = above.parent
    return above is not None and above.type == "lambda_expression"


def _add(node: Node, detail: str, scopes: Scopes, facts: Facts) -> None:
    facts.findings.append(
        Finding(node.start_point[0] + 1, "safety", "exception safety", detail, scopes.find_owner(node.start_byte))
    )
