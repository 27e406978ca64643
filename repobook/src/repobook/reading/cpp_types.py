"""Declarators and types of the C family: the name that a declaration declares, and the class that its type names."""

import re
from dataclasses import dataclass

from tree_sitter import Node

from repobook.reading import engine
from repobook.reading.facts import HOLDS, RESULT

_NAMES = frozenset(
    {"identifier", "field_identifier", "type_identifier", "operator_name", "destructor_name", "primitive_type"}
)


@dataclass(slots=True)
class Declared:
    name: Node | None
    scope: str = ""
    function: bool = False
    text: str = ""  # for names without a node of their own


def find_declared(node: Node, source: bytes = b"") -> Declared:
    """Descend a declarator to the name it declares: `*(&f)(int)` declares f, a function."""
    function = False
    scope = ""
    current: Node | None = node
    while current is not None:
        kind = current.type
        if kind in _NAMES:
            return Declared(current, scope, function)
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
            return Declared(
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
    return Declared(None, scope, function)


def read_class(node: Node, source: bytes, declarator: Node | None = None) -> str:
    """The class that a declaration states or a function returns; behind a smart pointer the class that it holds."""
    declared = node.child_by_field_name("type")
    if declared is not None and declared.type == "placeholder_type_specifier" and declarator is not None:
        declared = _find_trailing_type(declarator)
    if declared is None or declared.type not in ("type_identifier", "qualified_identifier", "template_type"):
        return ""
    return _strip_arguments(engine.text_of(declared, source))


def _find_trailing_type(declarator: Node) -> Node | None:
    """`T` of `auto f() -> T`."""
    for child in declarator.named_children:
        if child.type == "trailing_return_type" and child.named_child_count:
            described = child.named_child(0)
            return described.child_by_field_name("type") if described is not None else None
    return None


def _strip_arguments(text: str) -> str:
    """A type without its arguments: `List<int>` -> `List`; smart pointers keep their class: `shared_ptr*Node`."""
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
# Functions whose template argument names their result: `make_shared<T>` a pointer to T, `static_cast<T*>` a T.
_MAKERS = {
    "make_shared": "std::shared_ptr", "make_unique": "std::unique_ptr", "make_intrusive": "c10::intrusive_ptr",
    "static_pointer_cast": "std::shared_ptr", "dynamic_pointer_cast": "std::shared_ptr",
    "static_intrusive_pointer_cast": "c10::intrusive_ptr", "dynamic_intrusive_pointer_cast": "c10::intrusive_ptr",
    "make_optional": "std::optional",
    "static_cast": "", "dynamic_cast": "", "reinterpret_cast": "", "const_cast": "",
}  # fmt: skip


def infer_type(name: Node, source: bytes) -> str:
    """The type of `auto x = value`: of a call, a cast, `new T` or a constructor; "" where the value does not say."""
    at = name.parent
    while at is not None and at.type.endswith("declarator") and at.type != "init_declarator":
        at = at.parent
    value = at.child_by_field_name("value") if at is not None and at.type == "init_declarator" else None
    if value is None:
        return ""
    if value.type == "new_expression":
        made = value.child_by_field_name("type")
        return _strip_arguments(engine.text_of(made, source)) if made is not None else ""
    if value.type == "compound_literal_expression":
        made = value.child_by_field_name("type")
        return _strip_arguments(engine.text_of(made, source)) if made is not None else ""
    if value.type != "call_expression":
        return ""
    made_by = _read_maker(value, source)
    if made_by is not None:
        return made_by
    way = trace_way(value, source)
    return RESULT + (way[0] + way[1]).decode("utf-8", "replace") if way is not None else ""


def _read_maker(call: Node, source: bytes) -> str | None:
    """The type that a maker or a cast states in its angle brackets; None for any other call."""
    function = call.child_by_field_name("function")
    if function is None or function.type not in ("template_function", "qualified_identifier"):
        return None
    text = " ".join(engine.text_of(function, source).split())
    outer, bracket, inner = text.partition("<")
    wrapper = _MAKERS.get(outer.rpartition("::")[2])
    if not bracket or wrapper is None:
        return None
    held = _strip_arguments(inner.rpartition(">")[0].partition(",")[0].removeprefix("const ").strip(" *&"))
    if not wrapper:
        return held
    return f"{wrapper}{HOLDS}{held}" if _NAMED.fullmatch(held) else ""


def trace_way(node: Node, source: bytes) -> tuple[bytes, bytes] | None:
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
        way = trace_way(function, source) if function.type == "field_expression" else None
        return (way[0], way[1] + b"()") if way is not None else None
    if kind == "field_expression":
        argument, member = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if argument is None or member is None or member.type != "field_identifier":
            return None
        way = trace_way(argument, source)
        return (way[0], way[1] + b"." + source[member.start_byte : member.end_byte]) if way is not None else None
    return None
