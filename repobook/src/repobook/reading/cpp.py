"""C, C++, CUDA and Objective-C++ files: one reader, because the grammars share their node types.

Macros that stand for attributes (`class TORCH_API Tensor`) are blanked before the parse; see `macros`.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

from tree_sitter import Node, Parser, Query, QueryCursor

from repobook.languages import grammar
from repobook.reading import engine, queries
from repobook.reading.bindings import class_variables, pybind, read_bindings
from repobook.reading.comments import attach_docs, read_comments
from repobook.reading.cpp_rules import RULES
from repobook.reading.cuda import read_cuda
from repobook.reading.engine import Captures, Definition
from repobook.reading.facts import HOLDS, RESULT, Binding, Facts, Finding, Import, Symbol, pack
from repobook.reading.locks import native_exceptions, native_locks
from repobook.reading.macros import Macros, hide_statements
from repobook.reading.patterns import read_patterns, read_settings
from repobook.reading.purpose import find_purpose

_SELF = frozenset({b"this"})
_NAMES = frozenset(
    {"identifier", "field_identifier", "type_identifier", "operator_name", "destructor_name", "primitive_type"}
)


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
def _reading(language: str) -> engine.Reading:
    parsed_as = {"objc": "cpp"}.get(language, language)
    loaded = grammar(parsed_as)
    assert loaded is not None
    family = "c" if parsed_as == "c" else "cpp"
    return engine.Reading(loaded, queries.text(f"{family}.refs.scm"), queries.text(f"{family}.scm"))


def read(original: bytes, path: str, language: str, macros: Macros) -> Facts:
    source, blanked = macros.blank(original)
    parsed, strings = hide_statements(source)
    root, found, definitions = _reading(language).parse(parsed)
    facts = Facts(symbols=[Symbol(path, "file", 1, 1)], errors=engine.first_error(root))
    lines = engine.line_starts(source)
    comments = engine.spans(found.get("comment", []))
    holes = engine.spans(found.get("hole", [])) + strings + comments + macros.test_names(source)
    if language == "objc":
        holes += [match.span(1) for match in _SELECTOR.finditer(source)]
    captures = Captures(
        references=engine.names_outside(source, holes),
        comments=comments,
        loops=engine.spans(found.get("loop", [])),
    )
    captures.branches = engine.spans(found.get("branch", [])) + captures.loops
    bindings = _definitions(definitions, source, captures, facts, macros)
    if language == "objc" and any(mark in source for mark in _OBJECTIVE):
        _objective(source, captures)
    for node in engine.in_order(found.get("parameter", [])):
        _parameter(node, source, captures)
    for node in engine.in_order(found.get("local", [])):
        name = _declared(node).name
        if name is not None:
            captures.locals.append((name.start_byte, name.end_byte))
    scopes = engine.nest(captures, source, lines, facts, "::")
    for one in facts.imports:
        one.local = scopes.at(lines[one.line - 1])
    engine.collect_references(captures, source, lines, scopes, facts, RULES, _SELF, _RESERVED)
    for macro, at in blanked:
        line, owner = bisect_right(lines, at), scopes.at(at)
        facts.references.setdefault((macro, ""), []).append(pack(line, owner, 0))
        rule = RULES.names.get(macro.encode())
        answer = rule("", False, _no_loop, at) if rule is not None else None
        if answer is not None:
            facts.findings.append(Finding(line, *answer, owner))
    engine.measure(captures, scopes, facts)
    _expressions(found, source, lines, scopes, facts)
    native_locks(source, lines, scopes, facts)
    native_exceptions(found, source, scopes, facts)
    blocks = read_comments(captures.comments, source, lines, scopes, facts)
    attach_docs(blocks, source, lines, facts)
    for at, binding in bindings:
        binding.local = scopes.at(at)
        facts.bindings.append(binding)
    read_bindings(found, source, scopes, facts)
    read_settings(source, lines, scopes, facts)
    read_patterns(facts)
    read_cuda(source, lines, captures.comments, blanked, scopes, facts)
    find_purpose(facts, blocks, path, source)
    return facts


def _no_loop(position: int) -> int:
    return 0


# ----- declarators ------------------------------------------------------------------------------------------


_OBJECTIVE = (b"@interface", b"@implementation", b"@protocol")
# `[d setObject:x forKey:k]`: words of a message, which name no function of C++.
_SELECTOR = re.compile(rb"(?<=[\w\])\"]\s)(?<!case\s)([A-Za-z_]\w*):(?!:)")


@cache
def _objective_cursors() -> tuple[Parser, QueryCursor]:
    loaded = grammar("objc")
    assert loaded is not None
    return Parser(loaded), QueryCursor(Query(loaded, queries.text("objc.scm")))


def _objective(source: bytes, captures: Captures) -> None:
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


@dataclass(slots=True)
class _Declared:
    name: Node | None
    scope: str = ""
    function: bool = False
    text: str = ""  # for names without a node of their own


def _declared(node: Node, source: bytes = b"") -> _Declared:
    """Descend a declarator to the name it declares: `*(&f)(int)` declares f, a function."""
    function = False
    scope = ""
    current: Node | None = node
    while current is not None:
        kind = current.type
        if kind in _NAMES:
            return _Declared(current, scope, function)
        if kind == "function_declarator":
            inner = current.child_by_field_name("declarator")
            # `(*f)(int)` is a pointer, not a function.
            function = inner is None or inner.type != "parenthesized_declarator"
            current = inner
        elif kind == "qualified_identifier":
            part = current.child_by_field_name("scope")
            if part is not None:
                text = source[part.start_byte : part.end_byte].decode("utf-8", "replace").partition("<")[0].strip()
                scope = f"{scope}::{text}" if scope else text
            current = current.child_by_field_name("name")
        elif kind == "operator_cast":
            return _Declared(
                None,
                scope,
                True,
                "operator "
                + source[current.start_byte : current.end_byte]
                .decode("utf-8", "replace")
                .removeprefix("operator")
                .partition("(")[0]
                .strip(),
            )
        elif kind in ("template_function", "template_type", "template_method"):
            current = current.child_by_field_name("name")
        else:
            following = current.child_by_field_name("declarator")
            if following is None and kind in (
                "reference_declarator",
                "parenthesized_declarator",
                "attributed_declarator",
                "variadic_declarator",
            ):
                following = next(
                    (c for c in current.named_children if c.type.endswith(("declarator", "identifier"))), None
                )
            current = following
    return _Declared(None, scope, function)


def _definitions(
    matches: engine.Matches, source: bytes, captures: Captures, facts: Facts, macros: Macros
) -> list[tuple[int, Binding]]:
    add = captures.definitions.append
    variables: list[tuple[int, Node, Node, Node]] = []
    bindings: list[tuple[int, Binding]] = []
    classes = class_variables(source)
    for _, match in matches:
        if "declaration" in match:
            node, declarator = match["declaration"][0], match["declarator"][0]
            found = _declared(declarator, source)
            if found.name is None:
                continue
            variables.append((found.name.start_byte, node, found.name, declarator))
        elif "function" in match:
            _function(match, source, captures, macros)
        elif "field" in match:
            node = match["field"][0]
            found = _declared(match["declarator"][0], source)
            if found.name is not None:
                kind = "function" if found.function else "field"
                add(
                    Definition(
                        node.start_byte,
                        node.end_byte,
                        engine.text_of(found.name, source),
                        kind,
                        found.name.start_byte,
                        declaration=found.function,
                        bases=_class_text(node, source, match["declarator"][0]),
                    )
                )
        elif "member_of" in match:
            way = _way_to(match["called"][0], source)
            if way is not None:
                captures.receivers[match["member_of"][0].start_byte] = way
        elif "exposed" in match:
            binding = pybind(match, source, captures, classes)
            if binding is not None:
                bindings.append(binding)
        elif "include" in match:
            node = match["include"][0]
            facts.imports.append(Import(node.start_point[0] + 1, "include", engine.text_of(node, source)))
        elif "using" in match:
            text = " ".join(engine.text_of(match["using"][0], source).rstrip("; ").split())
            kind = "using namespace" if text.startswith("using namespace") else "using"
            facts.imports.append(Import(match["using"][0].start_point[0] + 1, kind, text.rpartition(" ")[2]))
        elif "alias" in match:
            node = match["alias"][0]
            target = engine.text_of(match["target"][0], source)
            facts.imports.append(
                Import(node.start_point[0] + 1, "namespace alias", target, "", engine.text_of(node, source))
            )
        elif "type" in match and "declarator" in match:
            node = match["type"][0]
            found = _declared(match["declarator"][0], source)
            if found.name is not None:
                add(
                    Definition(
                        node.start_byte,
                        node.end_byte,
                        engine.text_of(found.name, source),
                        "type",
                        found.name.start_byte,
                    )
                )
        else:
            _named(match, source, captures)
    _variables(variables, source, captures)
    return bindings


def _named(match: dict[str, list[Node]], source: bytes, captures: Captures) -> None:
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


def _function(match: dict[str, list[Node]], source: bytes, captures: Captures, macros: Macros) -> None:
    node = match["function"][0]
    found = _declared(match["declarator"][0], source)
    name = engine.text_of(found.name, source) if found.name is not None else found.text
    if not name:
        return
    at = found.name.start_byte if found.name is not None else match["declarator"][0].start_byte
    body = match["body"][0].start_byte if "body" in match else node.end_byte
    before = match["body"][0].prev_named_sibling if "body" in match else None
    if before is not None and before.type == "field_initializer_list":
        body = before.start_byte
    start = node.start_byte
    outer = node.parent
    if outer is not None and outer.type == "template_declaration":
        start = outer.start_byte
    kind = "function"
    if name in macros.definers:
        # `TEST(Suite, name) {` and `TORCH_LIBRARY(ns, m) {`: the macro's arguments name what is defined.
        arguments = source[at + len(name) : body].decode("utf-8", "replace").strip().strip("()")
        parts = [part.strip() for part in arguments.split(",")]
        kind = macros.definers[name]
        name = ".".join(parts[:2]) if kind == "test" else f"{name}({', '.join(parts)})"
        at = -1
    returned = _class_text(node, source, match["declarator"][0])
    captures.definitions.append(Definition(start, node.end_byte, name, kind, at, body, found.scope, bases=returned))


def _variables(variables: list[tuple[int, Node, Node, Node]], source: bytes, captures: Captures) -> None:
    """Declarations: prototypes and variables outside functions are definitions, inside functions they are locals."""
    variables.sort(key=lambda row: row[0])
    owners = engine.innermost(captures.definitions, [row[0] for row in variables])
    for (_, node, name, declarator), owner in zip(variables, owners, strict=True):
        declared = _declared(declarator, source)
        if owner is not None and owner.kind in ("function", "test", "registration", "binding"):
            captures.locals.append((name.start_byte, name.end_byte))
            _typed(node, name, source, captures)
            continue
        if node.parent is not None and node.parent.type == "ERROR" and not declared.function:
            continue  # a local, most often: the parser lost the function around it
        if declared.function and declared.scope:
            continue  # `std::move(x);` reads like a declaration; one of another scope's function is none
        declaration = source[node.start_byte : node.start_byte + 6] == b"extern"
        kind = "function" if declared.function else "variable"
        if kind == "variable" and owner is not None and owner.kind in engine.CLASSES:
            kind = "field"
        captures.definitions.append(
            Definition(
                node.start_byte,
                node.end_byte,
                engine.text_of(name, source),
                kind,
                name.start_byte,
                scope=declared.scope,
                declaration=declared.function or declaration,
                bases=_class_text(node, source, declarator),
            )
        )


def _parameter(node: Node, source: bytes, captures: Captures) -> None:
    declarator = node.child_by_field_name("declarator")
    if declarator is None:
        return
    name = _declared(declarator).name
    if name is not None:
        captures.locals.append((name.start_byte, name.end_byte))
        _typed(node, name, source, captures)


def _typed(node: Node, name: Node, source: bytes, captures: Captures) -> None:
    """The class of a local: `const at::Tensor& x` makes x a `at::Tensor`, `auto x = f()` what f returns."""
    text = _class_text(node, source)
    if not text:
        declared = node.child_by_field_name("type")
        if declared is not None and declared.type == "placeholder_type_specifier":
            text = _value_type(name, source)
    if text:
        captures.types.append((name.start_byte, engine.text_of(name, source), text))


def _class_text(node: Node, source: bytes, declarator: Node | None = None) -> str:
    """The class that a declaration states, or that a function returns; what a smart pointer holds stands behind it."""
    declared = node.child_by_field_name("type")
    if declared is not None and declared.type == "placeholder_type_specifier" and declarator is not None:
        declared = _trailing_type(declarator)
    if declared is None or declared.type not in ("type_identifier", "qualified_identifier", "template_type"):
        return ""
    return _bare_type(engine.text_of(declared, source))


def _trailing_type(declarator: Node) -> Node | None:
    """`T` of `auto f() -> T`."""
    for child in declarator.named_children:
        if child.type == "trailing_return_type" and child.named_child_count:
            described = child.named_child(0)
            return described.child_by_field_name("type") if described is not None else None
    return None


def _bare_type(text: str) -> str:
    """A type without its arguments: `List<int>` -> `List`; smart pointers keep what they hold: `shared_ptr*Node`."""
    text = " ".join(text.split())
    outer, bracket, inner = text.partition("<")
    if bracket and outer.rpartition("::")[2] in _POINTERS:
        held = inner.rpartition(">")[0].removeprefix("const ").strip(" *&").partition("<")[0]
        return f"{outer}{HOLDS}{held}" if _NAMED.fullmatch(held) else outer
    if bracket and ">::" in inner:
        return ""  # a member of a class template, which depends on its arguments
    return outer.strip()


_POINTERS = frozenset({"shared_ptr", "unique_ptr", "weak_ptr", "intrusive_ptr", "optional", "MaybeOwned"})
_NAMED = re.compile(r"[\w:]+(?:, *[\w:]+)*")
# Functions that return what their first argument names: `make_shared<T>` a pointer to T, `static_cast<T*>` a T.
_MAKERS = {
    "make_shared": "std::shared_ptr", "make_unique": "std::unique_ptr", "make_intrusive": "c10::intrusive_ptr",
    "static_pointer_cast": "std::shared_ptr", "dynamic_pointer_cast": "std::shared_ptr",
    "static_intrusive_pointer_cast": "c10::intrusive_ptr", "dynamic_intrusive_pointer_cast": "c10::intrusive_ptr",
    "make_optional": "std::optional",
    "static_cast": "", "dynamic_cast": "", "reinterpret_cast": "", "const_cast": "",
}  # fmt: skip


def _value_type(name: Node, source: bytes) -> str:
    """The type of `auto x = value`: of a call, a cast, `new T` or a constructor; "" where the value does not say."""
    at = name.parent
    while at is not None and at.type.endswith("declarator") and at.type != "init_declarator":
        at = at.parent
    value = at.child_by_field_name("value") if at is not None and at.type == "init_declarator" else None
    if value is None:
        return ""
    if value.type == "new_expression":
        made = value.child_by_field_name("type")
        return _bare_type(engine.text_of(made, source)) if made is not None else ""
    if value.type == "compound_literal_expression":
        made = value.child_by_field_name("type")
        return _bare_type(engine.text_of(made, source)) if made is not None else ""
    if value.type != "call_expression":
        return ""
    made_by = _made_by(value, source)
    if made_by is not None:
        return made_by
    way = _way_to(value, source)
    return RESULT + (way[0] + way[1]).decode("utf-8", "replace") if way is not None else ""


def _made_by(call: Node, source: bytes) -> str | None:
    """The type that a maker or a cast states in its angle brackets; None for any other call."""
    function = call.child_by_field_name("function")
    if function is None or function.type not in ("template_function", "qualified_identifier"):
        return None
    text = " ".join(engine.text_of(function, source).split())
    outer, bracket, inner = text.partition("<")
    wrapper = _MAKERS.get(outer.rpartition("::")[2])
    if not bracket or wrapper is None:
        return None
    held = _bare_type(inner.rpartition(">")[0].partition(",")[0].removeprefix("const ").strip(" *&"))
    if not wrapper:
        return held
    return f"{wrapper}{HOLDS}{held}" if _NAMED.fullmatch(held) else ""


def _way_to(node: Node, source: bytes) -> tuple[bytes, bytes] | None:
    """The first name of an expression and the way from it: `a.f(1)->g` -> (`a`, `.f().g`); None for other shapes."""
    kind = node.type
    if kind in ("identifier", "this"):
        return source[node.start_byte : node.end_byte], b""
    if kind == "call_expression":
        function = node.child_by_field_name("function")
        if function is None:
            return None
        if function.type in ("identifier", "qualified_identifier"):
            text = b"".join(source[function.start_byte : function.end_byte].split())
            return (text + b"()", b"") if b"<" not in text else None
        way = _way_to(function, source) if function.type == "field_expression" else None
        return (way[0], way[1] + b"()") if way is not None else None
    if kind == "field_expression":
        argument, member = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if argument is None or member is None or member.type != "field_identifier":
            return None
        way = _way_to(argument, source)
        return (way[0], way[1] + b"." + source[member.start_byte : member.end_byte]) if way is not None else None
    return None


# ----- what comments and expressions add -------------------------------------------------------------------


def _expressions(
    found: dict[str, list[Node]], source: bytes, lines: list[int], scopes: engine.Scopes, facts: Facts
) -> None:
    for kind, rule, detail in _RAW:
        for node in engine.in_order(found.get(kind, [])):
            if kind == "cast" and not _pointer_cast(node):
                continue
            line = node.start_point[0] + 1
            facts.findings.append(Finding(line, "safety", rule, detail, scopes.at(node.start_byte)))


_RAW = (
    ("new", "raw memory", "allocates with new"),
    ("delete", "raw memory", "frees with delete"),
    ("cast", "C cast", "C cast to a pointer: unchecked"),
)


def _pointer_cast(node: Node) -> bool:
    declared = node.child_by_field_name("type")
    return declared is not None and declared.child_by_field_name("declarator") is not None
