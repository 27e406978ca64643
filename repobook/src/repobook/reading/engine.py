"""From captured nodes to facts: nesting of definitions, scopes, complexity. `references` finds the references.

The reader of a language decides which nodes are definitions, locals, comments and branches. The rest follows from their
positions and is the same for all languages. Everything is kept as byte offsets and walked once in order, because an
object of Python per node would cost more than the parse.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate, count
from operator import add

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from repobook.reading.facts import Facts, Symbol

Span = tuple[int, int]

FUNCTIONS = frozenset({"function", "method", "test", "binding", "registration"})
CLASSES = frozenset({"class", "struct", "union", "interface", "trait", "enum", "object"})
_SIGNATURE_LIMIT = 600


@dataclass(slots=True)
class Definition:
    start: int
    end: int
    name: str
    kind: str
    name_start: int = -1  # position of the name, which is no reference
    body: int = -1  # start of the body and end of the signature
    scope: str = ""  # qualifier written with the name: `A::B` of `void A::B::f()`
    declaration: bool = False
    bases: str = ""
    doc: str = ""
    signature: str = ""


@dataclass(slots=True)
class Captures:
    """Definitions, names and spans that a reader found in one file, as byte offsets."""

    definitions: list[Definition] = field(default_factory=list)
    references: list[bytes] = field(default_factory=list)  # gap, name, gap, ..., name, gap
    locals: list[Span] = field(default_factory=list)  # names bound inside a function
    types: list[tuple[int, str, str]] = field(default_factory=list)  # (where, local name, its declared type)
    branches: list[Span] = field(default_factory=list)
    loops: list[Span] = field(default_factory=list)
    comments: list[Span] = field(default_factory=list)
    # Members of the result of a call, by position: the first name of the receiver, and the way from it to the member.
    receivers: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    initialized: set[int] = field(default_factory=set)  # members that a constructor initialises: `x(1)` is no call
    annotated: bool = False  # a stated type holds for all assignments of its name, as in Python


@dataclass(slots=True)
class Scopes:
    """The innermost local symbol at each position."""

    starts: list[int]
    owners: list[int]

    def find_owner(self, position: int) -> int:
        return self.owners[bisect_right(self.starts, position) - 1]


def line_starts(source: bytes) -> list[int]:
    return [0, *map(add, accumulate(map(len, source.split(b"\n")[:-1])), count(1))]


Matches = list[tuple[int, dict[str, list[Node]]]]


class Reading:
    """One query for both halves of a language: nodes captured by name, and definitions, match by match."""

    def __init__(self, language: Language, names: str, definitions: str) -> None:
        self.parser = Parser(language)
        query = Query(language, names + "\n" + definitions)
        starts = [query.start_byte_for_pattern(pattern) for pattern in range(query.pattern_count)]
        self._first = bisect_right(starts, len(names))
        self._cursor = QueryCursor(query)

    def parse(self, source: bytes) -> tuple[Node, dict[str, list[Node]], Matches]:
        root = self.parser.parse(source).root_node
        found: dict[str, list[Node]] = {}
        definitions: Matches = []
        first = self._first
        for row in self._cursor.matches(root):
            if row[0] >= first:
                definitions.append(row)
                continue
            for title, nodes in row[1].items():
                known = found.get(title)
                if known is None:
                    found[title] = list(nodes)
                else:
                    known += nodes
        return root, found, definitions


def signature_text(source: bytes, start: int, stop: int) -> str:
    text = " ".join(source[start : min(stop, start + 4 * _SIGNATURE_LIMIT)].decode("utf-8", "replace").split())
    text = text.rstrip("{ :;=\\").replace("( ", "(").replace(":: ", "::")
    return text if len(text) <= _SIGNATURE_LIMIT else text[:_SIGNATURE_LIMIT] + " …"


def nest(captures: Captures, source: bytes, lines: list[int], facts: Facts, separator: str) -> Scopes:
    """Order definitions, find the parent of each and fill `facts.symbols`; returns the scopes by position."""
    definitions = captures.definitions
    definitions.sort(key=lambda d: (d.start, -d.end))
    symbols = facts.symbols
    stack: list[tuple[int, int]] = [(len(source) + 1, 0)]  # (end, local index)
    starts, owners = [0], [0]
    for definition in definitions:
        start, end = definition.start, definition.end
        while stack[-1][0] <= start:
            closed, _ = stack.pop()
            starts.append(closed)
            owners.append(stack[-1][1])
        parent = stack[-1][1]
        above = symbols[parent]
        while above.kind in _HOLDING_NOTHING:
            parent = above.parent
            above = symbols[parent]
        local = len(symbols)
        prefix = above.qualified
        if definition.scope:
            prefix = prefix + separator + definition.scope if prefix else definition.scope
        kind = definition.kind
        if kind == "function" and (above.kind in CLASSES or above.kind == "impl" or definition.scope):
            kind = "method"
        signature = definition.signature
        if not signature and kind in _SIGNED:
            signature = signature_text(source, start, definition.body if definition.body >= 0 else end)
        symbols.append(
            Symbol(
                definition.name,
                kind,
                bisect_right(lines, definition.name_start if definition.name_start >= 0 else start),
                bisect_right(lines, max(start, end - 1)),
                parent,
                prefix + separator + definition.name if prefix else definition.name,
                signature,
                definition.doc,
                definition.declaration,
                definition.bases,
                start_line=bisect_right(lines, start),
            )
        )
        if end > start:
            stack.append((end, local))
            starts.append(start)
            owners.append(local)
    while len(stack) > 1:
        closed, _ = stack.pop()
        starts.append(closed)
        owners.append(stack[-1][1])
    return Scopes(starts, owners)


# `int a, b;` declares b beside a, although both have the extent of the declaration.
_HOLDING_NOTHING = frozenset({"enumerator", "field", "variable"})
_SIGNED = FUNCTIONS | CLASSES | {"macro", "type", "field", "variable", "enumerator", "constant", "property"}


def measure(captures: Captures, scopes: Scopes, facts: Facts) -> None:
    """Cyclomatic complexity and deepest nesting of each function."""
    symbols = facts.symbols
    counts: dict[int, int] = {}
    deepest: dict[int, int] = {}
    stack: list[tuple[int, int]] = []
    at = scopes.find_owner
    for start, end in sorted(captures.branches, key=lambda span: (span[0], -span[1])):
        owner = at(start)
        while owner and symbols[owner].kind not in FUNCTIONS:
            owner = symbols[owner].parent
        counts[owner] = counts.get(owner, 0) + 1
        while stack and stack[-1][0] <= start:
            stack.pop()
        depth = 1
        for _, other in reversed(stack):
            if other != owner:
                break
            depth += 1
        stack.append((end, owner))
        if depth > deepest.get(owner, 0):
            deepest[owner] = depth
    for local, symbol in enumerate(symbols):
        if symbol.kind in FUNCTIONS and not symbol.declaration:
            symbol.complexity = counts.get(local, 0) + 1
            symbol.nesting = deepest.get(local, 0)


def innermost(definitions: list[Definition], positions: list[int]) -> list[Definition | None]:
    """For each position (in ascending order), the smallest definition that encloses it."""
    ordered = sorted(definitions, key=lambda d: (d.start, -d.end))
    stack: list[Definition] = []
    found: list[Definition | None] = []
    at = 0
    for position in positions:
        while at < len(ordered) and ordered[at].start <= position:
            while stack and stack[-1].end <= ordered[at].start:
                stack.pop()
            stack.append(ordered[at])
            at += 1
        while stack and stack[-1].end <= position:
            stack.pop()
        found.append(stack[-1] if stack else None)
    return found


def spans(nodes: list[Node]) -> list[Span]:
    """Positions in order; `QueryCursor.captures` gives its nodes in none."""
    return sorted([node.byte_range for node in nodes])


def in_order(nodes: list[Node]) -> list[Node]:
    return sorted(nodes, key=_start)


def _start(node: Node) -> int:
    return node.start_byte


def text_of(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def first_error(root: Node) -> int:
    """The line of the first syntax error that the parser recovered from, 0 where there is none.

    A token that is missing at the end of a text stands behind its last newline, where no line is."""
    if not root.has_error:
        return 0
    node = root
    while not (node.is_error or node.is_missing):
        found = next((child for child in node.children if child.has_error), None)
        if found is None:
            break
        node = found
    row, column = root.end_point
    return min(node.start_point[0] + 1, max(1, row + (column > 0)))
