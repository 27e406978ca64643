"""C, C++, CUDA and Objective-C++ files: one reader, because the grammars share their node types.

Macros that stand for attributes (`class TORCH_API Tensor`) are blanked before the parse; see `macros`.
"""

import re
from bisect import bisect_right
from functools import cache

from tree_sitter import Node, Parser, Query, QueryCursor

from repobook.languages import grammar
from repobook.reading import engine, queries, references
from repobook.reading.bindings import class_variables, pybind, read_bindings
from repobook.reading.braces import find_scopes
from repobook.reading.comments import attach_docs, read_comments
from repobook.reading.cpp_rules import RULES
from repobook.reading.cpp_types import Declared, find_declared, infer_type, read_class, trace_way
from repobook.reading.cuda import read_cuda
from repobook.reading.engine import Captures, Definition
from repobook.reading.facts import Binding, Facts, Finding, Import, Symbol, pack
from repobook.reading.locks import native_exceptions, native_locks
from repobook.reading.macros import Macros, hide_interfaces, hide_statements
from repobook.reading.patterns import read_patterns, read_settings
from repobook.reading.purpose import find_purpose

_SELF = frozenset({b"this"})
# Words that the grammars do not take for names.
_RESERVED = frozenset(
    b"""
    alignas alignof and asm auto bool break case catch char char16_t char32_t char8_t class co_await co_return co_yield
    concept const consteval constexpr constinit continue decltype default define defined delete do double elif else
    endif enum error explicit extern false final float for friend goto if ifdef ifndef include inline int int16_t
    int32_t int64_t int8_t intptr_t long mutable namespace new noexcept not NULL nullptr nullptr_t operator or override
    pragma private protected ptrdiff_t public register requires restrict return short signed size_t sizeof ssize_t
    static static_assert struct switch template thread_local throw true try typedef typename uint16_t uint32_t uint64_t
    uint8_t uintptr_t undef union unsigned using virtual void volatile while xor
    """.split()
)


@cache
def _load_reading(language: str) -> engine.Reading:
    parsed_as = {"objc": "cpp"}.get(language, language)
    loaded = grammar(parsed_as)
    assert loaded is not None
    family = "c" if parsed_as == "c" else "cpp"
    return engine.Reading(loaded, queries.text(f"{family}.refs.scm"), queries.text(f"{family}.scm"))


def read_native(original: bytes, path: str, language: str, macros: Macros) -> Facts:
    if b"import" in original:
        original = _IMPORT.sub(rb"\1include", original)
    source, blanked = macros.blank(original)
    parsed, strings = hide_statements(source)
    objective = any(mark in source for mark in _OBJECTIVE)
    if objective:
        parsed = hide_interfaces(parsed)
    root, found, definitions = _load_reading(language).parse(parsed)
    facts = Facts(symbols=[Symbol(path, "file", 1, 1)], errors=engine.first_error(root))
    lines = engine.line_starts(source)
    comments = engine.spans(found.get("comment", []))
    holes = engine.spans(found.get("hole", [])) + strings + comments + macros.test_names(source)
    if language == "objc" or objective:
        holes += [match.span(1) for match in _SELECTOR.finditer(source)]
    captures = Captures(
        references=references.names_outside(source, holes),
        comments=comments,
        loops=engine.spans(found.get("loop", [])),
    )
    captures.branches = engine.spans(found.get("branch", [])) + captures.loops
    captures.initialized = {node.start_byte for node in found.get("initialized", ())}
    bindings = _collect_definitions(definitions, source, captures, facts, macros)
    if facts.errors:
        _restore_scopes(parsed, holes, captures)
    if objective:
        _add_objective_c(source, captures)
    for node in engine.in_order(found.get("parameter", [])):
        _add_parameter(node, source, captures)
    for node in engine.in_order(found.get("local", [])):
        name = find_declared(node).name
        if name is not None:
            captures.locals.append((name.start_byte, name.end_byte))
    scopes = engine.nest(captures, source, lines, facts, "::")
    _mark_internal(engine.spans(found.get("anonymous", [])), source, captures, facts)
    for one in facts.imports:
        one.local = scopes.find_owner(lines[one.line - 1])
    references.collect_references(captures, source, lines, scopes, facts, RULES, _SELF, _RESERVED)
    for macro, at in blanked:
        line, owner = bisect_right(lines, at), scopes.find_owner(at)
        facts.references.setdefault((macro, ""), []).append(pack(line, owner, 0))
        rule = RULES.names.get(macro.encode())
        answer = rule("", False, _count_no_loop, at) if rule is not None else None
        if answer is not None:
            facts.findings.append(Finding(line, *answer, owner))
    engine.measure(captures, scopes, facts)
    _find_expressions(found, source, lines, scopes, facts)
    native_locks(source, lines, scopes, facts)
    native_exceptions(found, source, scopes, facts)
    blocks = read_comments(captures.comments, source, lines, scopes, facts)
    attach_docs(blocks, source, lines, facts)
    for at, binding in bindings:
        binding.local = scopes.find_owner(at)
        facts.bindings.append(binding)
    read_bindings(found, source, scopes, facts)
    read_settings(source, lines, scopes, facts)
    read_patterns(facts)
    read_cuda(source, lines, captures.comments, blanked, scopes, facts)
    find_purpose(facts, blocks, path, source)
    return facts


def _restore_scopes(parsed: bytes, holes: list[engine.Span], captures: Captures) -> None:
    """Add the namespaces and classes that a syntax error hides from the parser, and correct the ends of others; see
    `braces`, Note [ Lost scopes ]."""
    known: dict[int, list[Definition]] = {}
    for definition in captures.definitions:
        if definition.kind == "namespace":
            known.setdefault(definition.start, []).append(definition)
        elif definition.kind in ("class", "struct"):
            known.setdefault(definition.name_start, []).append(definition)
    bodies = {definition.body for definition in captures.definitions if definition.body >= 0}
    for scope in find_scopes(parsed, holes):
        same = known.get(scope.start if scope.kind == "namespace" else scope.name_start)
        if same is not None:
            for definition in same:
                definition.end = max(definition.end, scope.end)
        elif scope.body not in bodies:
            body = -1 if scope.kind == "namespace" else scope.body
            for part in scope.name.split("::"):
                captures.definitions.append(
                    Definition(scope.start, scope.end, part, scope.kind, scope.name_start, body)
                )


_STORAGE = re.compile(rb"\b(?:static|inline|constexpr)\b")


def _mark_internal(anonymous: list[engine.Span], source: bytes, captures: Captures, facts: Facts) -> None:
    """Mark the symbols that other source files cannot link to: those of anonymous namespaces, and static or inline
    functions and variables outside of classes. An inline function is compiled into each file that sees it."""
    outer: list[engine.Span] = []
    for span in anonymous:
        if not outer or span[0] >= outer[-1][1]:
            outer.append(span)
    starts = [span[0] for span in outer]
    for symbol, definition in zip(facts.symbols[1:], captures.definitions, strict=True):
        above = facts.symbols[symbol.parent]
        at = bisect_right(starts, definition.start) - 1
        if above.internal or (at >= 0 and definition.start < outer[at][1]):
            symbol.internal = True
        elif symbol.kind in ("function", "variable") and above.kind not in engine.CLASSES:
            stop = definition.name_start if definition.name_start >= 0 else definition.body
            symbol.internal = _STORAGE.search(source, definition.start, stop) is not None


def _count_no_loop(position: int) -> int:
    return 0


# ----- declarators ------------------------------------------------------------------------------------------


# `#import <x.h>` of Objective-C as `#include<x.h>`, which has the same length.
_IMPORT = re.compile(rb"^([ \t]*#[ \t]*)import[ \t](?=[<\"])", re.M)
_OBJECTIVE = (b"@interface", b"@implementation", b"@protocol")
# `[d setObject:x forKey:k]`: words of a message, which name no function of C++.
_SELECTOR = re.compile(rb"(?<=[\w\])\"]\s)(?<!case\s)([A-Za-z_]\w*):(?!:)")


@cache
def _objective_cursors() -> tuple[Parser, QueryCursor]:
    loaded = grammar("objc")
    assert loaded is not None
    return Parser(loaded), QueryCursor(Query(loaded, queries.text("objc.scm")))


def _add_objective_c(source: bytes, captures: Captures) -> None:
    """Objective-C++ is two languages in one file, and no grammar knows both: its classes come from a second parse."""
    parser, definitions = _objective_cursors()
    known = {definition.name_start for definition in captures.definitions}
    for _, match in definitions.matches(parser.parse(source).root_node):
        kind = next(key for key in match if key not in ("name", "body"))
        node, name = match[kind][0], match["name"][0]
        if name.start_byte in known:
            continue
        known.add(name.start_byte)
        body = match["body"][0].start_byte if "body" in match else -1
        text = engine.text_of(name, source)
        captures.definitions.append(Definition(node.start_byte, node.end_byte, text, kind, name.start_byte, body))


def _collect_definitions(
    matches: engine.Matches, source: bytes, captures: Captures, facts: Facts, macros: Macros
) -> list[tuple[int, Binding]]:
    """Fill the captures with the definitions of a file; returns its bindings with their positions."""
    variables: list[_Variable] = []
    bindings: list[tuple[int, Binding]] = []
    classes = class_variables(source)
    for _, match in matches:
        if "declaration" in match:
            declarator = match["declarator"][0]
            found = find_declared(declarator, source)
            if found.name is not None:
                variables.append((found.name.start_byte, match["declaration"][0], found.name, declarator))
        elif "function" in match:
            _add_function(match, source, captures, macros)
        elif "field" in match:
            _add_field(match, source, captures)
        elif "member_of" in match:
            way = trace_way(match["called"][0], source)
            if way is not None:
                captures.receivers[match["member_of"][0].start_byte] = way
        elif "exposed" in match:
            binding = pybind(match, source, captures, classes)
            if binding is not None:
                bindings.append(binding)
        elif "include" in match or "using" in match or "alias" in match:
            facts.imports.append(_read_import(match, source))
        elif "type" in match and "declarator" in match:
            _add_typedef(match, source, captures)
        else:
            _add_named(match, source, captures)
    _add_variables(variables, source, captures, macros)
    return bindings


def _add_field(match: dict[str, list[Node]], source: bytes, captures: Captures) -> None:
    node, declarator = match["field"][0], match["declarator"][0]
    found = find_declared(declarator, source)
    if found.name is None:
        return
    captures.definitions.append(
        Definition(
            node.start_byte,
            node.end_byte,
            engine.text_of(found.name, source),
            "function" if found.function else "field",
            found.name.start_byte,
            declaration=found.function,
            bases=read_class(node, source, declarator),
        )
    )


def _read_import(match: dict[str, list[Node]], source: bytes) -> Import:
    """An `#include`, a `using` or an alias of a namespace."""
    if "include" in match:
        node = match["include"][0]
        return Import(node.start_point[0] + 1, "include", engine.text_of(node, source))
    if "using" in match:
        node = match["using"][0]
        text = " ".join(engine.text_of(node, source).rstrip("; ").split())
        kind = "using namespace" if text.startswith("using namespace") else "using"
        return Import(node.start_point[0] + 1, kind, text.rpartition(" ")[2])
    node, target = match["alias"][0], engine.text_of(match["target"][0], source)
    return Import(node.start_point[0] + 1, "namespace alias", target, "", engine.text_of(node, source))


def _add_typedef(match: dict[str, list[Node]], source: bytes, captures: Captures) -> None:
    node, name = match["type"][0], find_declared(match["declarator"][0], source).name
    if name is not None:
        text = engine.text_of(name, source)
        captures.definitions.append(Definition(node.start_byte, node.end_byte, text, "type", name.start_byte))


def _add_named(match: dict[str, list[Node]], source: bytes, captures: Captures) -> None:
    """Namespaces, classes, enums, macros, aliases: a node with a name and perhaps a body."""
    kind = next(key for key in match if key not in ("name", "body"))
    node, name = match[kind][0], match["name"][0]
    body = match["body"][0].start_byte if "body" in match else node.end_byte
    text = engine.text_of(name, source)
    scope = ""
    if name.type in ("qualified_identifier", "template_type"):
        scope, _, text = text.partition("<")[0].rpartition("::")
    if kind == "namespace":
        # `namespace a::b {` opens two namespaces.
        at = name.start_byte
        for part in text.split("::"):
            part = part.strip().removeprefix("inline ")
            if part:
                captures.definitions.append(
                    Definition(node.start_byte, node.end_byte, part, kind, at + text.find(part))
                )
        return
    elif kind == "macro":
        value = node.child_by_field_name("value")
        body = value.start_byte if value is not None else node.end_byte
    bases = ""
    if kind in ("class", "struct"):
        clause = next((child for child in node.named_children if child.type == "base_class_clause"), None)
        if clause is not None:
            bases = ", ".join(
                engine.text_of(child, source)
                for child in clause.named_children
                if child.type not in ("access_specifier", "virtual", "comment")
            )
    captures.definitions.append(
        Definition(
            node.start_byte,
            node.end_byte,
            text,
            kind,
            name.start_byte,
            body,
            scope,
            bases=" ".join(bases.split()),
        )
    )


def _add_function(match: dict[str, list[Node]], source: bytes, captures: Captures, macros: Macros) -> None:
    node, declarator = match["function"][0], match["declarator"][0]
    found = find_declared(declarator, source)
    name = engine.text_of(found.name, source) if found.name is not None else found.text
    if not name:
        return
    at = found.name.start_byte if found.name is not None else declarator.start_byte
    body = match["body"][0].start_byte if "body" in match else node.end_byte
    before = match["body"][0].prev_named_sibling if "body" in match else None
    if before is not None and before.type == "field_initializer_list":
        body = before.start_byte
    outer = node.parent
    start = outer.start_byte if outer is not None and outer.type == "template_declaration" else node.start_byte
    kind = "function"
    if name in macros.definers:
        # `TEST(Suite, name) {` and `TORCH_LIBRARY(ns, m) {`: the arguments of the macro name the definition.
        parts = _split_arguments(source[at + len(name) : body])
        kind = macros.definers[name]
        name = ".".join(parts[:2]) if kind == "test" else f"{name}({', '.join(parts)})"
        at = -1
    elif found.name is not None and not found.scope and _is_macro_use(node, found.name, name, declarator):
        name, at = _name_by_macro(node, found.name, name, source, macros)
        if not name:
            return
    returned = read_class(node, source, declarator)
    captures.definitions.append(Definition(start, node.end_byte, name, kind, at, body, found.scope, bases=returned))


# `SOME_MACRO`: by convention no function has such a name.
_MACRO = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+|[A-Z][A-Z0-9]{3,}")
# Nodes that hold the declarations of a file, a namespace or a class.
_HOLDERS = frozenset({"translation_unit", "declaration_list", "field_declaration_list", "ERROR"})


def _find_holder(node: Node) -> str:
    """The type of the node that holds a declaration: of a namespace, a class, a block, an expression."""
    above = node.parent
    while above is not None and (
        above.type.startswith("preproc_") or above.type in ("template_declaration", "linkage_specification")
    ):
        above = above.parent
    return above.type if above is not None else ""


def _is_macro_use(node: Node, name: Node, text: str, declarator: Node) -> bool:
    """True if a macro that is called reads like a declaration or a function.

    `MACRO(name)(int x) {` declares a function that the macro names. `MACRO(a, b) {` and `MACRO(a, b);` state no type; a
    constructor does not either, but it has the name of its class."""
    if not _MACRO.fullmatch(text):
        return False
    inner = name.parent
    above = inner.parent if inner is not None and inner.type == "function_declarator" else None
    if above is not None and above.type == "function_declarator":
        return True
    return node.child_by_field_name("type") is None and not _in_class_named(node, text)


def _in_class_named(node: Node, name: str) -> bool:
    above = node.parent
    while above is not None and above.type != "field_declaration_list":
        above = above.parent
    owner = above.parent.child_by_field_name("name") if above is not None and above.parent is not None else None
    return owner is not None and owner.text is not None and owner.text.decode("utf-8", "replace").startswith(name)


def _name_by_macro(node: Node, name: Node, macro: str, source: bytes, macros: Macros) -> tuple[str, int]:
    """The name of a function that a macro defines, and the position of that name among the arguments, or -1.

    The name of a macro that is a statement or an attribute is ""."""
    inner = name.parent
    # `FOR_EACH(i, n) {` inside a function defines nothing.
    if _find_holder(node) not in _HOLDERS or inner is None or inner.type != "function_declarator":
        return "", -1
    arguments = source[name.end_byte : inner.end_byte]
    parts = _split_arguments(arguments)
    place = macros.named_argument.get(macro)
    if place is not None and place < len(parts):
        text = parts[place]
        return (text, name.end_byte + arguments.rfind(text.encode())) if _WORD.fullmatch(text) else ("", -1)
    if node.type == "declaration":
        return "", -1
    text = f"{macro}({', '.join(parts)})"
    return text if len(text) < _LONGEST else f"{macro}({parts[0]})", -1


_WORD = re.compile(r"[A-Za-z_]\w*")
_LONGEST = 100


def _split_arguments(text: bytes) -> list[str]:
    """`(a, b)` -> [`a`, `b`]"""
    return [" ".join(part.split()) for part in text.decode("utf-8", "replace").strip().strip("()").split(",")]


_Variable = tuple[int, Node, Node, Node]  # position, declaration, name, declarator


def _add_variables(variables: list[_Variable], source: bytes, captures: Captures, macros: Macros) -> None:
    """Declarations: prototypes and variables outside functions are definitions, inside functions they are locals."""
    variables.sort(key=lambda row: row[0])
    owners = engine.innermost(captures.definitions, [row[0] for row in variables])
    for (_, node, name, declarator), owner in zip(variables, owners, strict=True):
        declared = find_declared(declarator, source)
        inside = owner is not None and owner.kind in ("function", "test", "registration", "binding")
        if inside or (not declared.function and _find_holder(node) not in _HOLDERS):
            # A block outside of all functions belongs to a lambda or to the arguments of a macro.
            captures.locals.append((name.start_byte, name.end_byte))
            _add_type(node, name, source, captures)
            continue
        text = engine.text_of(name, source)
        at = name.start_byte
        declares = declared.function
        if declared.function and not declared.scope and _is_macro_use(node, name, text, declarator):
            text, at = _name_by_macro(node, name, text, source, macros)
            declares = False
        if not text or _is_misread(node, name, declared, source):
            continue
        declaration = source[node.start_byte : node.start_byte + 6] == b"extern"
        kind = "function" if declared.function else "variable"
        if kind == "variable" and owner is not None and owner.kind in engine.CLASSES:
            kind = "field"
        captures.definitions.append(
            Definition(
                node.start_byte,
                node.end_byte,
                text,
                kind,
                at,
                scope=declared.scope,
                declaration=declares or declaration,
                bases=read_class(node, source, declarator),
            )
        )


_CAST = re.compile(rb"(?:static|dynamic|reinterpret|const)_cast\b|.*\boperator\b", re.S)


def _is_misread(node: Node, name: Node, declared: Declared, source: bytes) -> bool:
    """True if an expression or a part of a lost function reads like a declaration."""
    if node.parent is not None and node.parent.type == "ERROR" and not declared.function:
        return True  # a local, most often: the parser lost the function around it
    if declared.function and declared.scope:
        return True  # `std::move(x);` reads like a declaration; one of another scope's function is none
    if declared.function:
        return False
    # `static_cast<int>(x)` of a macro's body, and `operator()<A, B>(...)`, of which the grammar makes a variable.
    return _CAST.match(source[node.start_byte : name.start_byte]) is not None


def _add_parameter(node: Node, source: bytes, captures: Captures) -> None:
    declarator = node.child_by_field_name("declarator")
    if declarator is None:
        return
    name = find_declared(declarator).name
    if name is not None:
        captures.locals.append((name.start_byte, name.end_byte))
        _add_type(node, name, source, captures)


def _add_type(node: Node, name: Node, source: bytes, captures: Captures) -> None:
    """The class of a local: `const at::Tensor& x` makes x a `at::Tensor`, `auto x = f()` the class that f returns."""
    text = read_class(node, source)
    if not text:
        declared = node.child_by_field_name("type")
        if declared is not None and declared.type == "placeholder_type_specifier":
            text = infer_type(name, source)
    if text:
        captures.types.append((name.start_byte, engine.text_of(name, source), text))


# ----- findings of expressions ----------------------------------------------------------------------------


def _find_expressions(
    found: dict[str, list[Node]], source: bytes, lines: list[int], scopes: engine.Scopes, facts: Facts
) -> None:
    for kind, rule, detail in _RAW:
        for node in engine.in_order(found.get(kind, [])):
            if kind == "cast" and not _pointer_cast(node):
                continue
            line = node.start_point[0] + 1
            facts.findings.append(Finding(line, "safety", rule, detail, scopes.find_owner(node.start_byte)))


_RAW = (
    ("new", "raw memory", "allocates with new"),
    ("delete", "raw memory", "frees with delete"),
    ("cast", "C cast", "C cast to a pointer: unchecked"),
)


def _pointer_cast(node: Node) -> bool:
    declared = node.child_by_field_name("type")
    return declared is not None and declared.child_by_field_name("declarator") is not None
