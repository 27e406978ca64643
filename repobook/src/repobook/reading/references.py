"""References of one file: every name with its receiver, its scope and the way it is used.

A walk over the words of the source in order of position finds them. Each word is plain, or joined to the words before
it by `.`, `->` or `::`. The walk knows the line, the symbol and the local names at its position.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice

from repobook.reading.engine import CLASSES, FUNCTIONS, Captures, Scopes, Span
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

_NAME = re.compile(rb"\b([A-Za-z_]\w*)")


def names_outside(source: bytes, holes: list[Span], windows: Sequence[Span] = ()) -> list[bytes]:
    """The words of the source that stand in none of the holes (comments, strings, import statements), in turn with
    the text between them: gap, word, gap, ..., word, gap.

    A window is code inside a hole, such as the braces of an f-string. A node object for every identifier of a
    large tree costs more than its parse; words cost a tenth of it, and a split of the text half of a search.
    A word decides by itself whether it is a keyword.
    """
    code = bytearray(source)
    if windows:
        # Outer spans first, so that inner spans are painted over outer ones.
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


def _visible_locals(
    captures: Captures, source: bytes, scopes: Scopes, symbols: list[Symbol]
) -> tuple[list[frozenset[bytes] | None], dict[int, dict[bytes, str]]]:
    """Per local symbol, the names bound in it and in the functions around it; and the declared types among them."""
    own: dict[int, set[bytes]] = {}
    at = scopes.find_owner
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
    at = scopes.find_owner
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
            return root + way if called else root + dot + steps  # perhaps a member of a module
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
    found = _Found(walk, captures, facts, rules, self_names)
    skipped = reserved.difference(rules.names)
    plain_name, plain_start = b"", -1
    pieces = captures.references
    ends = accumulate(map(len, pieces))
    words = iter(pieces)
    rows = zip(words, words, islice(pieces, 2, None, 2), islice(ends, 0, None, 2), strict=False)
    for gap, name, after, start in rows:
        if (gap[-1] if gap else _BLANK) not in _JOINTS:
            plain_name, plain_start = name, start  # a chain begins here if a joint follows
            if name in skipped:
                continue
            if start >= walk.end:
                walk.advance(start)
            found.add(name, after, start, 0, "")
            continue
        if plain_start >= 0:
            chain.begin(plain_name, plain_start)
            plain_start = -1
        joined = chain.join(gap, name, start)
        if joined is None:
            continue
        if start >= walk.end:
            walk.advance(start)
        text = walk.qualifier(joined, chain, start, self_names, captures.receivers)
        found.add(name, after, start, joined[0], text)
    found.store(reserved)
    bound = {source[start:end] for start, end in captures.locals}
    facts.locals = sorted(name.decode("utf-8", "replace") for name in bound if _NAME.fullmatch(name))


class _Found:
    """The references that a walk has found, and the findings of rules that their names trigger."""

    __slots__ = (
        "_by_key", "_defined", "_facts", "_initialized", "_loop_depth", "_plain", "_rules", "_self_names", "_walk",
        "_watched",
    )  # fmt: skip

    def __init__(
        self, walk: _Walk, captures: Captures, facts: Facts, rules: Rules, self_names: frozenset[bytes]
    ) -> None:
        self._walk, self._facts, self._rules, self._self_names = walk, facts, rules, self_names
        self._defined = {definition.name_start for definition in captures.definitions}
        self._initialized = captures.initialized
        self._watched = self_names.union(rules.names)
        self._loop_depth = Depths(captures.loops)
        self._plain: dict[bytes, list[int]] = {}
        self._by_key: dict[tuple[bytes, str], list[int]] = {}

    def add(self, name: bytes, after: bytes, start: int, flags: int, text: str) -> None:
        """Add a name with the text behind it, its position, the way it is reached and its qualifier. The names of
        definitions and of locals are no references."""
        if start in self._defined:
            return
        if after and after[0] in _FOLLOWING and start not in self._initialized:
            flags |= CALL if after[0] == _PARENTHESIS else _following(after)
        walk = self._walk
        if name in self._watched:
            if name in self._self_names:
                return
            finding = self._rules.names[name](text, bool(flags & CALL), self._loop_depth, start)
            if finding is not None:
                self._facts.findings.append(Finding(walk.line, finding[0], finding[1], finding[2], walk.owner))
        if not flags & (MEMBER | SCOPED) and name in walk.bound:
            return
        if text:
            self._by_key.setdefault((name, text), []).append(walk.place | flags << 40)
        else:
            self._plain.setdefault(name, []).append(walk.place | flags << 40)

    def store(self, reserved: frozenset[bytes]) -> None:
        """Put the occurrences of plain and of qualified names into the facts."""
        references = self._facts.references
        for name, places in self._plain.items():
            if name not in reserved:
                references[name.decode("utf-8", "replace"), ""] = places
        for (name, text), places in self._by_key.items():
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
# Characters before a name that is not plain, and the closing brackets of an expression before `::`.
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


class Depths:
    """Number of spans around a position."""

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
