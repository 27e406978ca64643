"""From captured nodes to facts: nesting of definitions, scopes, references with their receivers, complexity.

Readers of single languages say which nodes are definitions, references, bindings of locals, comments, branches;
what follows from their positions is the same for all languages and stands here. Everything is kept as byte offsets
and walked once in order, because a Python object per node is what makes such tools slow.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count, islice
from operator import add

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from repobook.reading.facts import CALL, LINE_BITS, MEMBER, OPAQUE, SCOPED, STEP, TYPED, Facts, Finding, Symbol
from repobook.reading.rules import Rules

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
    name_start: int = -1  # where the name stands, so that it does not count as a reference
    body: int = -1  # where the body starts; the signature ends there
    scope: str = ""  # qualifier written with the name: `A::B` of `void A::B::f()`
    declaration: bool = False
    bases: str = ""
    doc: str = ""
    signature: str = ""


@dataclass(slots=True)
class Captures:
    """What a reader found in one tree, as byte offsets."""

    definitions: list[Definition] = field(default_factory=list)
    references: list[bytes] = field(default_factory=list)  # gap, name, gap, ..., name, gap
    locals: list[Span] = field(default_factory=list)  # names bound inside a function
    types: list[tuple[int, str, str]] = field(default_factory=list)  # (where, local name, its declared type)
    branches: list[Span] = field(default_factory=list)
    loops: list[Span] = field(default_factory=list)
    comments: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class Scopes:
    """Where each local symbol starts and ends, and which of them encloses a position."""

    starts: list[int]
    owners: list[int]

    def at(self, position: int) -> int:
        return self.owners[bisect_right(self.starts, position) - 1]


def line_starts(source: bytes) -> list[int]:
    return [0, *map(add, accumulate(map(len, source.split(b"\n")[:-1])), count(1))]


_NAME = re.compile(rb"\b([A-Za-z_]\w*)")


def names_outside(source: bytes, holes: list[Span], windows: Sequence[Span] = ()) -> list[bytes]:
    """The words of the source that stand in none of the holes (comments, strings, import statements), in turn with
    what stands between them: gap, word, gap, ..., word, gap.

    A window is code inside a hole: what stands in the braces of an f-string. A node object for every identifier of a
    large tree costs more than its parse; words cost a tenth of it, and a split of the text half of what matches would.
    What is a keyword and no name is told by the word.
    """
    code = bytearray(source)
    if windows:
        # Outer spans first, so that each is painted over what it stands in.
        spans = sorted([(start, -end, False) for start, end in holes] + [(start, -end, True) for start, end in windows])
        for start, end, window in spans:
            code[start:-end] = source[start:-end] if window else b" " * (-end - start)
    else:
        for start, end in holes:
            code[start:end] = b" " * (end - start)
    return _NAME.split(code)


def names_at(source: bytes, spans: list[Span]) -> list[bytes]:
    """Names that a query found, as `names_outside` gives them."""
    pieces: list[bytes] = []
    at = 0
    for start, end in spans:
        if start < at:
            continue  # the same node, captured by two patterns
        pieces += source[at:start], source[start:end]
        at = end
    pieces.append(source[at:])
    return pieces


Matches = list[tuple[int, dict[str, list[Node]]]]


class Reading:
    """One query for both halves of a language: what is captured by name, and definitions, match by match."""

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
        if above.kind == "enumerator":
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


_SIGNED = FUNCTIONS | CLASSES | {"macro", "type", "field", "variable", "enumerator", "constant", "property"}


def _visible_locals(
    captures: Captures, source: bytes, scopes: Scopes, symbols: list[Symbol]
) -> tuple[list[frozenset[bytes] | None], dict[int, dict[bytes, str]]]:
    """Per local symbol, the names bound in it and in the functions around it; and the declared types among them."""
    own: dict[int, set[bytes]] = {}
    at = scopes.at
    for start, end in captures.locals:
        owner = at(start)
        while owner and symbols[owner].kind not in FUNCTIONS:
            owner = symbols[owner].parent
        if owner in own:
            own[owner].add(source[start:end])
        else:
            own[owner] = {source[start:end]}
    types: dict[int, dict[bytes, str]] = {}
    for start, name, declared in captures.types:
        owner = at(start)
        while owner and symbols[owner].kind not in FUNCTIONS:
            owner = symbols[owner].parent
        types.setdefault(owner, {})[name.encode()] = declared
    visible: list[frozenset[bytes] | None] = [frozenset(own[0]) if 0 in own else None]
    for local in range(1, len(symbols)):
        above = visible[symbols[local].parent]
        if local in own:
            visible.append(frozenset(own[local]) | above if above else frozenset(own[local]))
        else:
            visible.append(above)
        parent = symbols[local].parent
        if parent in types:
            types[local] = {**types[parent], **types[local]} if local in types else types[parent]
    return visible, types


def collect_references(
    captures: Captures,
    source: bytes,
    lines: list[int],
    scopes: Scopes,
    facts: Facts,
    rules: Rules,
    self_names: frozenset[bytes],
    reserved: frozenset[bytes] = frozenset(),
    scoped: bool = True,
) -> None:
    """Walk all names in order of position; group them by (name, receiver); apply the rules that names trigger.

    `scoped`: the language has `a::b` and `a->b`; where it has not, `::` can stand in a slice."""
    symbols = facts.symbols
    visible, types = _visible_locals(captures, source, scopes, symbols)
    owner_class = _owner_classes(symbols)
    defined_at = iter([*sorted({d.name_start for d in captures.definitions}), _NEVER])
    defined = next(defined_at)
    plain: dict[bytes, list[int]] = {}
    by_key: dict[tuple[bytes, str], list[int]] = {}
    rule_of = rules.names
    skipped = reserved.difference(rule_of)
    watched = self_names.union(rule_of)
    findings = facts.findings
    loop_depth = _depths(captures.loops)
    scope_starts, scope_owners = [*scopes.starts, _NEVER], scopes.owners
    line_ends = [*lines[1:], _NEVER]
    scope_at = line = owner = 0
    here = 1  # the line and the enclosing symbol, packed
    # What is known inside the scope at hand: names bound there, their declared types, the class around it.
    bound, declared, own_class = visible[0] or _NONE, types.get(0, _NO_TYPES), ""
    line_end, scope_end = line_ends[0], scope_starts[1]
    chain_start, chain_known, chain_root = -1, False, b""
    pieces = captures.references
    ends = accumulate(map(len, pieces))
    words = iter(pieces)
    rows = zip(words, words, islice(pieces, 2, None, 2), islice(ends, 0, None, 2), strict=False)
    for gap, name, after, start in rows:
        before = gap[-1] if gap else _BLANK
        flags = 0
        if before not in _JOINTS:
            chain_start, chain_known, chain_root = start, True, name
            if name in skipped:
                continue
            text = ""
        else:
            if before == _DOT:
                flags, joint = MEMBER, b"."
            elif scoped and gap[-2:] == b"->":
                flags, joint = MEMBER, b"->"
            elif scoped and gap[-2:] == b"::":
                flags, joint = SCOPED, b"::"
            if not flags:
                chain_start, chain_known, chain_root, text = start, True, name, ""
                if before == _TILDE:
                    continue
            elif gap == joint and chain_known:
                if flags == SCOPED:
                    text = source[chain_start : start - 2].decode("utf-8", "replace")
                    chain_root = b""
                else:
                    text = ""  # worked out below, when the scope is known
            elif flags == MEMBER:
                chain_start, chain_known, text = start, False, OPAQUE
                if before == _DOT and gap[-2:-1].isdigit():
                    continue  # the ending of a number: `1.f`
                # A chain may be broken over lines (`a\n  .b`); what is not adjacent counts as an expression.
            else:
                text = OPAQUE if gap == joint else ""
                # `::a::b` is a name of the global scope, `A<T>::b::c` one of a scope that is not known.
                chain_known = gap != joint and gap[-3:-2] not in _CLOSED
                chain_start, chain_root = start, name if chain_known else b""
        if start >= line_end:
            line += 1
            line_end = line_ends[line]
            while start >= line_end:
                line += 1
                line_end = line_ends[line]
            here = (line + 1) | owner << LINE_BITS
        if start >= scope_end:
            scope_at += 1
            while start >= scope_starts[scope_at + 1]:
                scope_at += 1
            scope_end = scope_starts[scope_at + 1]
            owner = scope_owners[scope_at]
            here = (line + 1) | owner << LINE_BITS
            bound, declared = visible[owner] or _NONE, types.get(owner, _NO_TYPES)
            own_class = owner_class[owner]
        if flags == MEMBER and chain_known:
            # The receiver: a type where it is known, its text where it may be a module.
            if chain_root in self_names:
                text = _typed(own_class, source[chain_start + len(chain_root) : start - len(joint)])
            elif chain_root in declared:
                text = _typed(declared[chain_root], source[chain_start + len(chain_root) : start - len(joint)])
            elif chain_root in bound:
                text = OPAQUE
            else:
                text = source[chain_start : start - len(joint)].decode("utf-8", "replace")
                if "->" in text:
                    text = text.replace("->", ".")
        if start >= defined:
            while start > defined:
                defined = next(defined_at)
            if start == defined:
                continue
        first = after[0] if after else _BLANK
        if first == _PARENTHESIS or (first == _BLANK and after.startswith(b" (")):
            flags |= CALL
        if name in watched:
            if name in self_names:
                continue
            finding = rule_of[name](text, bool(flags & CALL), loop_depth, start)
            if finding is not None:
                findings.append(Finding(line + 1, finding[0], finding[1], finding[2], owner))
        if flags <= CALL and name in bound:
            continue
        if not text:
            if name in plain:
                plain[name].append(here | flags << 40)
            else:
                plain[name] = [here | flags << 40]
            continue
        found = by_key.get((name, text))
        if found is None:
            by_key[name, text] = [here | flags << 40]
        else:
            found.append(here | flags << 40)
    references = facts.references
    for name, places in plain.items():
        if name not in reserved:
            references[name.decode("utf-8", "replace"), ""] = places
    for (name, text), places in by_key.items():
        references[name.decode("utf-8", "replace"), text] = places


_NEVER = 1 << 60
_NONE: frozenset[bytes] = frozenset()
_NO_TYPES: dict[bytes, str] = {}
_BLANK, _PARENTHESIS, _DOT, _TILDE = b" (.~"
# What can end the text before a name that is not plain; and the brackets of an expression before `::`.
_JOINTS = frozenset(b".>:~")
_CLOSED = frozenset({b">", b")"})


def _typed(known: str, steps: bytes) -> str:
    """The qualifier of a member of a receiver of a known type: `.x->y` are the steps from it to the member's owner."""
    if not known:
        return OPAQUE
    if not steps:
        return TYPED + known
    if b"::" in steps:
        return OPAQUE
    rest = steps.decode("utf-8", "replace").replace("->", ".")
    return TYPED + known + rest.replace(".", STEP)


def _owner_classes(symbols: list[Symbol]) -> list[str]:
    """Per local symbol, the qualified name of the class whose method encloses it ('' where none)."""
    found = [""]
    for symbol in symbols[1:]:
        if symbol.kind in CLASSES:
            found.append(symbol.qualified)
        elif symbol.kind == "method" and symbols[symbol.parent].kind not in CLASSES:
            found.append(symbol.qualified[: -len(symbol.name)].rstrip(":."))
        else:
            found.append(found[symbol.parent])
    return found


class _depths:
    """How many of the given spans enclose a position."""

    __slots__ = ("depth", "starts")

    def __init__(self, spans: list[Span]) -> None:
        edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
        self.starts = [-1]
        self.depth = [0]
        depth = 0
        for position, step in edges:
            depth += step
            self.starts.append(position)
            self.depth.append(depth)

    def __call__(self, position: int) -> int:
        return self.depth[bisect_right(self.starts, position) - 1]


def measure(captures: Captures, scopes: Scopes, facts: Facts) -> None:
    """Cyclomatic complexity and deepest nesting of each function."""
    symbols = facts.symbols
    counts: dict[int, int] = {}
    deepest: dict[int, int] = {}
    stack: list[tuple[int, int]] = []
    at = scopes.at
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
    """The line of the first syntax error that the parser recovered from, 0 where there is none."""
    node = root
    while node.has_error:
        if node.is_error or node.is_missing:
            return node.start_point[0] + 1
        found = next((child for child in node.children if child.has_error), None)
        if found is None:
            return node.start_point[0] + 1
        node = found
    return 0
