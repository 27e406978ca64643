"""Names in C-family files: the definitions that a reference means; see `native_lookup`, Note [ Lookup in C++ ].

Note [ Certain names of C++ ]
A name is certain if an include reaches a declaration of it, or if its own file defines it. Its definition can stand in
another source file, if the linker shows it. A symbol that no include reaches is likely at most, because only headers
outside the tree could declare it. A name that several files define differently has candidates.
"""

from typing import TYPE_CHECKING

from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT, LIKELY
from repobook.reading.engine import CLASSES
from repobook.reading.facts import ARROW, HOLDS, MEMBER, OPAQUE, SCOPE, STEP, TYPED
from repobook.resolving.answer import CANDIDATES, NOTHING, Answer, identity
from repobook.resolving.includes import Includes
from repobook.resolving.native_lookup import TYPES, Lookup, Place, keep_suitable, scopes_around
from repobook.resolving.tables import Sym

if TYPE_CHECKING:
    from repobook.resolving.names import Names

_CALLABLE = frozenset({"function", "method", "operator"})
_DEPTH = 6
# More classes than this have a member with some names; nothing follows from one of them.
_MEMBERS = 60
# Namespaces of libraries outside most trees. The tree can add to them.
_OUTSIDE = frozenset({"std", "pybind11", "py", "boost", "fmt", "nlohmann", "testing", "thrust", "cub", "absl", "folly"})


class NativeNames:
    def __init__(self, names: "Names") -> None:
        self.names = names
        self.tables = names.tables
        self.includes = Includes(names.tables)
        self.lookup = Lookup(names.tables, self.includes, names.member)
        self._free: dict[str, list[Sym]] = {}
        self._classes: dict[tuple[int, str, str, bool], Sym | None] = {}
        self._endings: dict[str, list[Sym]] = {}
        self._holders: dict[str, list[Sym]] = {}
        self._openings: dict[str, dict[int, Sym]] = {}
        # State of the current file; files are resolved one after the other.
        self._file = 0
        self._own: dict[str, list[Sym]] = {}
        self._decided: dict[str, Answer] = {}
        self._unknown: dict[str, Answer] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int, flags: int = 0) -> Answer:
        """The definitions that a name means; `flags` say how it is reached (`facts`)."""
        if self._file != file:
            self._enter(file)
        symbols = self.tables.symbols(file)
        place = Place(file, symbols[local].qualified if local < len(symbols) else "", bool(flags & SCOPE))
        arrow = bool(flags & ARROW)
        if qualifier.startswith(TYPED):
            return self._member_of_type(place, name, qualifier, arrow)
        if flags & MEMBER:
            return self._member_of_text(place, name, qualifier, arrow)
        if qualifier and qualifier != OPAQUE and _is_scope(qualifier):
            return self._qualified(place, name, qualifier)
        if qualifier:
            # A member of a template or of a type parameter, such as `numeric_limits<T>::max`: any class can be meant.
            return _limit_certainty(self._member_of_unknown(file, name), CANDIDATE)
        return self._find_plain(place, name)

    def _enter(self, file: int) -> None:
        self._file = file
        self._decided, self._unknown, self._own = {}, {}, {}
        symbols = self.tables.symbols(file)
        for sym in symbols[1:]:
            if symbols[sym.parent & 0xFFFFF].kind not in CLASSES and sym.kind != "method":
                self._own.setdefault(sym.name, []).append(sym)

    # ----- plain and qualified names ------------------------------------------------------------------------

    def _find_plain(self, place: Place, name: str) -> Answer:
        found = self.tables.native(name)
        if not found:
            return NOTHING
        key, chosen = self.lookup.find_visible(place, name)
        if chosen:
            return self._decide(key, chosen, place.file)
        same = keep_suitable(self._own.get(name, []), place.before_scope)
        if same:
            # Another scope of this file has it: through `using` of a kind that is not followed, most often.
            return self.names.definitions(same), LIKELY
        # Macros stand in no scope, and enumerators in that of their enumeration.
        free = self._free.get(name)
        if free is None:
            free = self._free[name] = [sym for sym in found if sym.kind in ("macro", "enumerator")]
        around = scopes_around(place.scope)
        free = [
            sym
            for sym in keep_suitable(free, place.before_scope)
            if (sym.kind == "macro" or self._find_enumeration_scope(sym) in around)
            and self.tables.seen_from(sym, place.file)
        ]
        key = "#" + " ".join(sorted({sym.qualified for sym in free}))
        return self._decide(key, free, place.file) if free else NOTHING

    def _find_enumeration_scope(self, sym: Sym) -> str | None:
        """The scope that sees an enumerator without the name of its enumeration; None for `enum class`."""
        enumeration = self.tables.symbols(sym.file)[sym.parent & 0xFFFFF]
        return None if enumeration.signature == "scoped" else sym.qualified.rpartition("::")[0].rpartition("::")[0]

    def _qualified(self, place: Place, name: str, qualifier: str) -> Answer:
        qualifier = self.lookup.expand_alias(place.file, qualifier)
        key, chosen = self.lookup.find_scoped(place, name, qualifier)
        if chosen:
            # The tree adds overloads to namespaces from outside; most references mean the others.
            outside = qualifier.partition("::")[0] in _OUTSIDE and chosen[0].kind != "namespace"
            return _limit_certainty(self._decide(key, chosen, place.file, True), CANDIDATE if outside else CERTAIN)
        owner = self.class_of(place.file, qualifier, place.scope)
        if owner is not None:
            answer, certainty = self._member_of_class(place.file, owner, name)
            answer = keep_suitable(answer, place.before_scope)
            return (answer, certainty) if answer and certainty == CERTAIN else NOTHING
        generated = self.names.find_generated(name, qualifier.removeprefix("::"))
        if generated:
            return generated, CERTAIN
        if qualifier.partition("::")[0] in _OUTSIDE:
            return NOTHING
        return self._find_ending(place, name, qualifier)

    def _find_ending(self, place: Place, name: str, qualifier: str) -> Answer:
        """The symbols whose qualified name ends with a qualified name: a namespace that `using` takes in from a place
        which is not followed."""
        ending = f"::{qualifier}::{name}"
        if ending not in self._endings:
            by_qualified = self.tables.native_by_qualified(name)
            self._endings[ending] = [
                sym for full, syms in by_qualified.items() if full.endswith(ending) for sym in syms
            ]
        ends_so = keep_suitable(self._endings[ending], place.before_scope)
        return _limit_certainty(self._decide("*" + ending, ends_so, place.file), LIKELY) if ends_so else NOTHING

    # ----- members ------------------------------------------------------------------------------------------

    def _member_of_type(self, place: Place, name: str, qualifier: str, arrow: bool) -> Answer:
        """A member of a receiver of a known type, perhaps after some steps: `x.a.f().name`."""
        kind, *steps = qualifier[1:].split(STEP)
        held = bool(steps) or arrow
        declared = self.class_of(place.file, kind, place.scope, held=held)
        if declared is None:
            pointer, _, inner = kind.partition(HOLDS)
            if self._is_outside(inner if held and inner else pointer):
                return NOTHING
            return self._member_of_unknown(place.file, name)
        owner = self.names.follow(declared, steps, arrow)
        if owner is None:
            return self._member_of_unknown(place.file, name)
        return self._member_of_class(place.file, owner, name)

    def _member_of_class(self, file: int, owner: Sym, name: str) -> Answer:
        """A member of a class that is known. Specialisations of a template share its name, and nothing tells which of
        them is meant, so the members of several are candidates."""
        variants = self.variants(file, owner)
        if len(variants) > 1:
            by_class = [self.names.own_member(variant, name) for variant in variants]
            defining = [found for found in by_class if found]
            if len(defining) > 1:
                every = list(dict.fromkeys(sym for found in defining for sym in found))
                answer = self.names.definitions(every)
                return (answer, CANDIDATE) if len(answer) <= 2 * CANDIDATES else NOTHING
            found = defining[0] if defining else []
        else:
            found = self.names.own_member(owner, name)
        found = found or self.names.find_generated(name, owner.qualified) or self.names.member(owner, name)
        if found:
            return self.names.definitions(found), CERTAIN
        if not owner.bases:
            return NOTHING
        answer, _ = self._member_of_unknown(file, name)
        return (answer, CANDIDATE) if answer else NOTHING

    def variants(self, file: int, owner: Sym) -> list[Sym]:
        """The definitions of a class with one name that a file sees: a template and its specialisations, or the
        branches of an #if."""
        same = self.tables.native_by_qualified(owner.name).get(owner.qualified, [])
        found = [sym for sym in same if sym.kind in CLASSES and not sym.declaration]
        if len(found) < 2 or owner not in found:
            return [owner]
        reach = self.includes.reach(file)
        return [sym for sym in found if sym[0] >> FILE_SHIFT in reach] or [owner]

    def _member_of_text(self, place: Place, name: str, qualifier: str, arrow: bool) -> Answer:
        """A member of a receiver that is no local: a field of the class around it, or a global variable."""
        if qualifier and qualifier != OPAQUE:
            root, *steps = qualifier.split(".")
            _, found = self.lookup.find_visible(Place(place.file, place.scope), root)
            holders = [sym for sym in found if sym.kind in ("field", "variable")]
            if holders and "[" not in qualifier:
                owner = self.names.type_of(holders[0], held=arrow or bool(steps))
                if steps:
                    owner = self.names.follow(owner, steps, arrow)
                if owner is not None:
                    return self._member_of_class(place.file, owner, name)
                if not steps and self._is_outside(holders[0].bases.partition(HOLDS)[0]):
                    return NOTHING
        return self._member_of_unknown(place.file, name)

    def _member_of_unknown(self, file: int, name: str) -> Answer:
        """A member of an unknown receiver: likely if the file sees a single class that has it."""
        known = self._unknown.get(name)
        if known is None:
            known = self._unknown[name] = self._weigh_members(file, self._members_named(name))
        return known

    def _weigh_members(self, file: int, found: list[Sym]) -> Answer:
        reach = self.includes.reach(file)
        if file not in self.tables.tests:
            found = [sym for sym in found if sym.file not in self.tables.tests]
        seen = [sym for sym in found if sym[0] >> FILE_SHIFT in reach]
        distinct = {identity(sym) for sym in seen}
        if not seen:
            return _limit_certainty(
                self.names.weigh([sym for sym in found if self.tables.seen_elsewhere(sym)]), CANDIDATE
            )
        everywhere = seen + [
            sym for sym in found if not sym.declaration and sym.qualified in distinct and sym not in seen
        ]
        return self.names.weigh([sym for sym in everywhere if self.tables.seen_from(sym, file)])

    def _members_named(self, name: str) -> list[Sym]:
        """The members with a name, unless containers of the standard library have such members or too many classes
        do."""
        found = self._holders.get(name)
        if found is None:
            found = [] if self.names.is_common(name) else self.tables.native(name)
            found = [sym for sym in found if sym.kind in ("method", "field", "property")]
            self._holders[name] = found if len(found) <= _MEMBERS else []
        return self._holders[name]

    def _is_outside(self, kind: str) -> bool:
        """True if a type that is written with its namespace (`std::vector`) is none of the tree's."""
        space, _, last = kind.rpartition("::")
        return bool(space) and not last.endswith(")") and not any(sym.kind in TYPES for sym in self.tables.native(last))

    # ----- types --------------------------------------------------------------------------------------------

    def class_of(self, file: int, text: str, scope: str, depth: int = 0, held: bool = True) -> Sym | None:
        """The class that a type names, through aliases; `held`: the class that a smart pointer points to."""
        key = (file, text, scope, held)
        if key not in self._classes:
            found = self._class_of(file, text, scope, depth, held)
            if depth:
                return found  # it can be cut short by the depth
            self._classes[key] = found
        return self._classes[key]

    def _class_of(self, file: int, text: str, scope: str, depth: int, held: bool) -> Sym | None:
        pointer, mark, inner = text.partition(HOLDS)
        text = inner if mark and held and inner else pointer
        text = text.strip().removeprefix("const ").strip(" &*").partition("<")[0].strip()
        if text.endswith("()"):
            return self._find_result_class(file, text[:-2], scope, depth)
        if not text or depth > _DEPTH:
            return None
        space, _, last = text.rpartition("::")
        _, named = self.lookup.find_scoped(Place(file, scope, True), last, space)
        chosen = [sym for sym in named if sym.kind in CLASSES and not sym.declaration]
        if not chosen:
            return self._follow_alias(file, named, depth)
        if len(chosen) > 1:
            chosen = self.includes.nearest(file, chosen)
        return chosen[0] if len({sym.qualified for sym in chosen}) == 1 else None

    def _follow_alias(self, file: int, named: list[Sym], depth: int) -> Sym | None:
        """The class behind `using Variable = at::Tensor`."""
        for alias in self.includes.nearest(file, [sym for sym in named if sym.kind == "type"])[:3]:
            target = alias.signature.partition("=")[2].strip(" ;") if "=" in alias.signature else ""
            if target and "(" not in target:
                found = self.class_of(alias.file, target, alias.qualified.rpartition("::")[0], depth + 1)
                if found is not None:
                    return found
        return None

    def _find_result_class(self, file: int, text: str, scope: str, depth: int) -> Sym | None:
        """The class that a call of a function gives; a call of a class makes one of it."""
        if depth > _DEPTH:
            return None
        made = self.class_of(file, text, scope, depth + 1)
        if made is not None:
            return made
        space, _, last = text.rpartition("::")
        _, found = self.lookup.find_scoped(Place(file, scope), last, space)
        if not found and space:
            owner = self.class_of(file, space, scope, depth + 1)
            found = self.names.member(owner, last) if owner is not None else self.names.find_generated(last, space)
        return self.result_of(found, depth)

    def result_of(self, found: list[Sym], depth: int = 0, held: bool = True) -> Sym | None:
        """The class that all overloads of a function return."""
        callable_ones = [sym for sym in found if sym.kind in _CALLABLE]
        texts = {sym.bases for sym in callable_ones}
        if len(texts) != 1 or "" in texts:
            return None
        sym = callable_ones[0]
        return self.class_of(sym.file, sym.bases, sym.qualified.rpartition("::")[0], depth + 1, held)

    # ----- decisions ----------------------------------------------------------------------------------------

    def _decide(self, key: str, found: list[Sym], file: int, qualified: bool = False) -> Answer:
        """The definitions that a file means by the symbols that `key` leads to. A plain name can be an argument of a
        macro that makes another name of it, so one that no include reaches is a candidate."""
        known = self._decided.get(key)
        if known is None:
            known = self._decided[key] = self._decision(found, file, qualified)
        return known

    def _decision(self, found: list[Sym], file: int, qualified: bool) -> Answer:
        if found[0].kind == "namespace":
            return self._choose_opening(found, file), CERTAIN
        definitions = self.names.definitions(found)
        own = [sym for sym in definitions if sym[0] >> FILE_SHIFT == file]
        if own:
            return self._own_definitions(own)
        reach = self.includes.reach(file)
        seen = [sym for sym in found if sym[0] >> FILE_SHIFT in reach]
        if not seen:
            return _limit_certainty(self._decide_unreached(found, definitions), LIKELY if qualified else CANDIDATE)
        return self._decide_reached(seen, definitions, file)

    def _own_definitions(self, own: list[Sym]) -> Answer:
        """The definitions of a name in its own file. A template stands for its specialisations."""
        if len(own) > 1 and own[0].kind in CLASSES and own[-1].kind in CLASSES:
            return own[:1], LIKELY if len({sym.parent for sym in own}) == 1 else CERTAIN
        return own, CERTAIN

    def _choose_opening(self, found: list[Sym], file: int) -> list[Sym]:
        """One place where a namespace is opened: in the file, in the nearest header, or anywhere. Some namespaces are
        opened in thousands of files, so their first openings are kept by file."""
        full = found[0].qualified
        own = next((sym for sym in self._own.get(found[0].name, ()) if sym.qualified == full), None)
        if own is not None:
            return [own]
        openings = self._openings.get(full)
        if openings is None:
            openings = self._openings[full] = {sym[0] >> FILE_SHIFT: sym for sym in reversed(found)}
        reach, path = self.includes.reach(file), self.tables.path
        near = min(openings.keys() & reach.keys(), key=lambda home: (reach[home], path[home]), default=None)
        return [openings[near]] if near is not None else found[:1]

    def _decide_reached(self, seen: list[Sym], definitions: list[Sym], file: int) -> Answer:
        """The definitions of the symbols that a file sees declared or defined."""
        named = {sym.qualified for sym in seen}
        if len(named) == 1 and seen[0].kind in TYPES and seen[-1].kind in TYPES:
            return self.includes.nearest(file, seen), CERTAIN
        in_sight = {sym.id for sym in seen}
        declared = {sym.qualified for sym in seen if sym.declaration}
        answer = [
            sym
            for sym in definitions
            if sym.id in in_sight or (sym.qualified in declared and self.tables.seen_elsewhere(sym))
        ]
        answer = answer or self.names.definitions(seen)
        files = len({sym[0] >> FILE_SHIFT for sym in answer})
        if len(answer) > 2 * CANDIDATES and files > 1:
            return NOTHING
        if len(named) > 1 or (files > 1 and any(sym.kind == "macro" for sym in answer)):
            return answer, CANDIDATE
        # Functions of one name in several files are overloads, or variants of which a build chooses one. Variables of
        # one name belong to several programs.
        several = files > 1 and any(sym.kind in ("function", "variable") and not sym.declaration for sym in answer)
        return answer, LIKELY if several else CERTAIN

    def _decide_unreached(self, found: list[Sym], definitions: list[Sym]) -> Answer:
        """The definitions of symbols that no include reaches. Another file sees a variable of a source file only if
        something declares it."""
        declared = {sym.qualified for sym in found if sym.declaration}
        answer = [
            sym
            for sym in definitions
            if self.tables.seen_elsewhere(sym)
            and (sym.kind != "variable" or sym.qualified in declared or not self.tables.is_source(sym.file))
        ]
        if not answer:
            return NOTHING
        files = len({sym[0] >> FILE_SHIFT for sym in answer})
        distinct = len({sym.qualified for sym in answer})
        if distinct == 1 and files == 1:
            return answer, LIKELY
        if distinct <= CANDIDATES and len(answer) <= 2 * CANDIDATES:
            return answer, CANDIDATE
        return NOTHING


def _limit_certainty(answer: Answer, certainty: int) -> Answer:
    return (answer[0], min(answer[1], certainty)) if answer[0] else NOTHING


def _is_scope(text: str) -> bool:
    return text.replace("::", "").replace("_", "").isalnum()
