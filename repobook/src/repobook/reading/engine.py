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

from repobook.reading.facts import (
    ARROW,
    ASSIGNED,
    CALL,
    LINE_BITS,
    MEMBER,
    OPAQUE,
    RESULT,
    SCOPE,
    SCOPED,
    STEP,
    TYPED,
    Facts,
    Finding,
    Symbol,
)
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
    # Members of the result of a call, by position: the first name of the receiver, and the way from it to the member.
    receivers: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    initialized: set[int] = field(default_factory=set)  # members that a constructor initialises: `x(1)` is no call
    annotated: bool = False  # a stated type holds for all assignments of its name, as in Python


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


def _visible_locals(
    captures: Captures, source: bytes, scopes: Scopes, symbols: list[Symbol]
) -> tuple[list[frozenset[bytes] | None], dict[int, dict[bytes, str]]]:
    """Per local symbol, the names bound in it and in the functions around it; and the declared types among them."""
    own: dict[int, set[bytes]] = {}
    at = scopes.at
    for start, end in captures.locals:
        owner = _function_at(at(start), symbols)
        if owner in own:
            own[owner].add(source[start:end])
        else:
            own[owner] = {source[start:end]}
    types = _declared_types(captures, source, scopes, symbols, own)
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


def _declared_types(
    captures: Captures, source: bytes, scopes: Scopes, symbols: list[Symbol], own: dict[int, set[bytes]]
) -> dict[int, dict[bytes, str]]:
    """Per function, the types of its local names. A name that two blocks declare with different types has none."""
    at = scopes.at
    declared_times: dict[tuple[int, bytes], int] = {}
    typed = {name.encode() for _, name, declared in captures.types if not captures.annotated or declared[0] == RESULT}
    for start, end in captures.locals:
        if source[start:end] in typed:
            key = (_function_at(at(start), symbols), source[start:end])
            declared_times[key] = declared_times.get(key, 0) + 1
    types: dict[int, dict[bytes, str]] = {}
    typed_times: dict[tuple[int, bytes], int] = {}
    unsure: set[tuple[int, bytes]] = set()
    for start, text, declared in sorted(captures.types):
        owner, name = _function_at(at(start), symbols), text.encode()
        known = types.setdefault(owner, {})
        if declared.startswith(RESULT):
            declared = _result_type(declared, owner, types, symbols, own)
        key = (owner, name)
        if name in typed:
            typed_times[key] = typed_times.get(key, 0) + 1
        if not declared or known.get(name, declared) != declared:
            unsure.add(key)
        known[name] = declared
    for owner, name in unsure:
        types[owner].pop(name, None)
    for key, times in typed_times.items():
        if declared_times.get(key, 0) > times:
            types[key[0]].pop(key[1], None)
    return types


def _function_at(owner: int, symbols: list[Symbol]) -> int:
    """The function around a symbol, 0 outside of all."""
    while owner and symbols[owner].kind not in FUNCTIONS:
        owner = symbols[owner].parent
    return owner


def _result_type(
    declared: str, owner: int, types: dict[int, dict[bytes, str]], symbols: list[Symbol], own: dict[int, set[bytes]]
) -> str:
    """The type of `auto x = a.f()` as a way from the type of a: `=a.f()` -> `A|f()`; "" for an unknown local.

    A function that is a local itself can be any."""
    root, dot, steps = declared.removeprefix(RESULT).partition(".")
    way = dot.replace(".", STEP) + steps.replace(".", STEP)
    name = root.removesuffix("()").encode()
    called = root.endswith(")")
    while True:
        known = types.get(owner, _NO_TYPES).get(name)
        if known and not called:
            return known + way
        if name in own.get(owner, ()):
            return ""
        if not owner:
            return root + way if called else root + dot + steps  # of a module, perhaps
        owner = _function_at(symbols[owner].parent, symbols)


# Access flag, qualifier and length of the joint of a name; the qualifier is None where the receiver decides it.
_Joined = tuple[int, str | None, int]


class _Walk:
    """Line, enclosing symbol and visible names at the position that a walk over a file has reached."""

    __slots__ = (
        "_ends", "_line", "_owners", "_scope", "_starts", "_symbols", "_types", "_visible", "bound", "declared", "end",
        "line", "own_class", "owner", "place",
    )  # fmt: skip

    def __init__(self, captures: Captures, source: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> None:
        self._visible, self._types = _visible_locals(captures, source, scopes, facts.symbols)
        self._symbols = _owner_classes(facts.symbols)
        self._ends = [*lines[1:], _NEVER]
        self._starts, self._owners = [*scopes.starts, _NEVER], scopes.owners
        self._line = self._scope = 0
        self._enter(0)
        self._settle()

    def _enter(self, owner: int) -> None:
        self.owner = owner
        self.bound = self._visible[owner] or _NONE
        self.declared = self._types.get(owner, _NO_TYPES)
        self.own_class = self._symbols[owner]

    def _settle(self) -> None:
        self.line = self._line + 1
        self.place = self.line | self.owner << LINE_BITS  # as an occurrence is packed
        self.end = min(self._ends[self._line], self._starts[self._scope + 1])

    def advance(self, position: int) -> None:
        """Move on to a position at or past `end`."""
        while position >= self._ends[self._line]:
            self._line += 1
        if position >= self._starts[self._scope + 1]:
            while position >= self._starts[self._scope + 1]:
                self._scope += 1
            self._enter(self._owners[self._scope])
        self._settle()

    def qualifier(
        self,
        joined: _Joined,
        chain: "_Chain",
        start: int,
        self_names: frozenset[bytes],
        receivers: dict[int, tuple[bytes, bytes]],
    ) -> str:
        """The qualifier of a name that a joint precedes."""
        flags, text, joint = joined
        if text is None:
            return self.receiver(chain.root, chain.source[chain.start + len(chain.root) : start - joint], self_names)
        if text == OPAQUE and start in receivers:
            return self.receiver(*receivers[start], self_names)
        if flags == SCOPED and chain.first in self.bound:
            return OPAQUE  # a member of a type parameter
        return text

    def receiver(self, root: bytes, steps: bytes, self_names: frozenset[bytes]) -> str:
        """The qualifier of a member: the receiver's type if it is known, its text if it may be a module."""
        if root in self_names:
            return _typed(self.own_class, steps)
        if root in self.declared:
            return _typed(self.declared[root], steps)
        if root in self.bound:
            return OPAQUE
        if root.endswith(b")"):
            return _typed(root.decode("utf-8", "replace"), steps) if root[:-2] not in self.bound else OPAQUE
        text = (root + steps).decode("utf-8", "replace")
        return text.replace("->", ".") if "->" in text else text


class _Chain:
    """Names that `.`, `->` or `::` join, up to the position that a walk has reached."""

    __slots__ = ("first", "known", "root", "scoped", "source", "start")

    def __init__(self, source: bytes, scoped: bool) -> None:
        self.source = source
        self.scoped = scoped  # the language has `a::b` and `a->b`; elsewhere `::` can stand in a slice
        self.begin(b"", -1, False)

    def begin(self, name: bytes, start: int, known: bool = True) -> None:
        self.root = self.first = name
        self.start, self.known = start, known

    def join(self, gap: bytes, name: bytes, start: int) -> _Joined | None:
        """(access flag, qualifier, length of the joint) of a name after `.`, `>`, `:` or `~`; None for a name to skip.

        The qualifier is None where the receiver decides it, which needs the scope at hand.
        """
        last = gap[-1]
        if last == _DOT:
            flag, joint = MEMBER, b"."
        elif self.scoped and gap[-2:] == b"->":
            flag, joint = MEMBER | ARROW, b"->"
        elif self.scoped and gap[-2:] == b"::":
            flag, joint = SCOPED, b"::"
        else:
            self.begin(name, start)
            return None if last == _TILDE else (0, "", 0)
        if gap == joint and self.known:
            if flag & MEMBER:
                return flag, None, len(joint)
            self.root = b""
            return flag, self.source[self.start : start - 2].decode("utf-8", "replace"), 2
        if flag & MEMBER:
            self.begin(self.root, start, False)
            # `1.f` is the ending of a number. A chain that is broken over lines (`a\n  .b`) counts as an expression.
            return None if last == _DOT and gap[-2:-1].isdigit() else (flag, OPAQUE, 0)
        # `::a::b` is a name of the global scope, `A<T>::b::c` one of a scope that is not known.
        known = gap != joint and gap[-3:-2] not in _CLOSED
        self.begin(name if known else b"", start, known)
        return flag, "" if known else OPAQUE, 0


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

    `scoped`: the language has `a::b` and `a->b`."""
    walk = _Walk(captures, source, lines, scopes, facts)
    chain = _Chain(source, scoped)
    defined = {definition.name_start for definition in captures.definitions}
    plain: dict[bytes, list[int]] = {}
    by_key: dict[tuple[bytes, str], list[int]] = {}
    skipped = reserved.difference(rules.names)
    watched = self_names.union(rules.names)
    loop_depth = _depths(captures.loops)
    initialized = captures.initialized
    plain_name, plain_start = b"", -1
    pieces = captures.references
    ends = accumulate(map(len, pieces))
    words = iter(pieces)
    rows = zip(words, words, islice(pieces, 2, None, 2), islice(ends, 0, None, 2), strict=False)
    for gap, name, after, start in rows:
        flags, text, joined = 0, "", None
        if (gap[-1] if gap else _BLANK) not in _JOINTS:
            plain_name, plain_start = name, start  # a chain begins here if a joint follows
            if name in skipped:
                continue
        else:
            if plain_start >= 0:
                chain.begin(plain_name, plain_start)
                plain_start = -1
            joined = chain.join(gap, name, start)
            if joined is None:
                continue
            flags = joined[0]
        if start >= walk.end:
            walk.advance(start)
        if joined is not None:
            text = walk.qualifier(joined, chain, start, self_names, captures.receivers)
        if start in defined:
            continue
        if after and after[0] in _FOLLOWING:
            flags |= CALL if after[0] == _PARENTHESIS and start not in initialized else _following(after)
        if name in watched:
            if name in self_names:
                continue
            finding = rules.names[name](text, bool(flags & CALL), loop_depth, start)
            if finding is not None:
                facts.findings.append(Finding(walk.line, finding[0], finding[1], finding[2], walk.owner))
        if not flags & (MEMBER | SCOPED) and name in walk.bound:
            continue
        occurrence = walk.place | flags << 40
        if text:
            by_key.setdefault((name, text), []).append(occurrence)
        else:
            plain.setdefault(name, []).append(occurrence)
    _store(facts, plain, by_key, reserved)
    bound = {source[start:end] for start, end in captures.locals}
    facts.locals = sorted(name.decode("utf-8", "replace") for name in bound if _NAME.fullmatch(name))


def _store(
    facts: Facts,
    plain: dict[bytes, list[int]],
    by_key: dict[tuple[bytes, str], list[int]],
    reserved: frozenset[bytes],
) -> None:
    """Put the occurrences of plain and of qualified names into the facts."""
    references = facts.references
    for name, places in plain.items():
        if name not in reserved:
            references[name.decode("utf-8", "replace"), ""] = places
    for (name, text), places in by_key.items():
        references[name.decode("utf-8", "replace"), text] = places


def _following(after: bytes) -> int:
    """Flags of a name from the text that follows it: `f(x)` is a call, `a::b` uses a as a scope, `a = 1` assigns."""
    bare = after[1:] if after[0] == _BLANK else after
    first = bare[:1]
    if first == b"(":
        return CALL
    if first == b":":
        return SCOPE if bare[1:2] == b":" and bare is after else 0
    return ASSIGNED if first == b"=" and bare[1:2] not in (b"=", b">") else 0


_NEVER = 1 << 60
_NONE: frozenset[bytes] = frozenset()
_NO_TYPES: dict[bytes, str] = {}
_BLANK, _PARENTHESIS, _DOT, _TILDE = b" (.~"
# A name before one of these is a call, a scope or the target of an assignment, perhaps.
_FOLLOWING = frozenset(b"( :=")
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
