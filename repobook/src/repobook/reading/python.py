"""Python files: definitions, fields set through `self`, imports, docstrings, `__all__`."""

import keyword
import re
from bisect import bisect_right
from functools import cache

from tree_sitter import Node

from repobook.languages import grammar
from repobook.reading import engine, queries, references
from repobook.reading.comments import read_comments
from repobook.reading.custom_functions import read_custom_functions
from repobook.reading.engine import CLASSES, Captures, Definition, Scopes, Span
from repobook.reading.facts import RESULT, Facts, Import, Symbol
from repobook.reading.locks import python_exceptions, python_locks
from repobook.reading.patterns import read_patterns, read_settings
from repobook.reading.purpose import find_purpose
from repobook.reading.python_rules import RULES

_SELF = frozenset({b"self", b"cls"})
_STRING = re.compile(r"""^[rbuRBUfF]*("{3}|'{3}|"|')(.*)\1$""", re.S)
_NAME_STRING = re.compile(r"""["']([A-Za-z_]\w*)["']""")
_SIMPLE_TYPE = re.compile(r"^[A-Za-z_][\w.]*$")
_RESERVED = frozenset(word.encode() for word in keyword.kwlist)


@cache
def _reading() -> engine.Reading:
    language = grammar("python")
    assert language is not None
    return engine.Reading(language, queries.text("python.refs.scm"), queries.text("python.scm"))


def read_python(source: bytes, path: str) -> Facts:
    root, found, definitions = _reading().parse(source)
    facts = Facts(symbols=[Symbol(path, "file", 1, 1)], errors=engine.first_error(root))
    lines = engine.line_starts(source)
    captures = Captures(
        locals=engine.spans(found.get("local", [])),
        comments=engine.spans(found.get("comment", [])),
        loops=engine.spans(found.get("loop", [])),
        annotated=True,
    )
    captures.branches = engine.spans(found.get("branch", [])) + captures.loops
    imported = [_import(node, source, facts) for node in engine.in_order(found.get("import", []))]
    holes = engine.spans(found.get("hole", [])) + engine.spans(found.get("keyword", [])) + captures.comments + imported
    captures.references = references.names_outside(source, holes, engine.spans(found.get("window", [])))
    members = _definitions(definitions, source, captures)
    _declared_types(engine.in_order(found.get("typed", [])), source, captures)
    scopes = engine.nest(captures, source, lines, facts, ".")
    _fields(members, source, lines, scopes, facts, captures)
    for one in facts.imports:
        one.local = scopes.find_owner(lines[one.line - 1])
    references.collect_references(captures, source, lines, scopes, facts, RULES, _SELF, _RESERVED, scoped=False)
    engine.measure(captures, scopes, facts)
    facts.symbols[0].doc = _docstring(root, source)
    blocks = read_comments(captures.comments, source, lines, scopes, facts)
    python_locks(source, lines, scopes, facts)
    python_exceptions(found, source, scopes, facts)
    read_settings(source, lines, scopes, facts)
    read_patterns(facts)
    read_custom_functions(source, lines, scopes, facts)
    facts.exports = _exports(engine.in_order(found.get("exports", [])), source)
    find_purpose(facts, blocks, path, source, facts.symbols[0].doc)
    return facts


def _definitions(
    matches: list[tuple[int, dict[str, list[Node]]]], source: bytes, captures: Captures
) -> list[tuple[int, int, int, str]]:
    """Fill the definitions; returns the `self.x = ...` targets as (start, name start, name end, type)."""
    definitions = captures.definitions
    assigned: list[tuple[int, Node, Node]] = []
    members: list[tuple[int, int, int, str]] = []
    for _, match in matches:
        if "member_of" in match:
            way = _way_to(match["called"][0], source)
            if way is not None:
                captures.receivers[match["member_of"][0].start_byte] = way
            continue
        name = match["name"][0]
        if "function" in match or "class" in match:
            kind = "function" if "function" in match else "class"
            node = match[kind][0]
            body = match["body"][0]
            start = node.start_byte
            outer = node.parent
            if outer is not None and outer.type == "decorated_definition":
                start = outer.start_byte
            bases = ""
            if "bases" in match:
                bases = source[match["bases"][0].start_byte + 1 : match["bases"][0].end_byte - 1].decode(
                    "utf-8", "replace"
                )
            definitions.append(
                Definition(
                    start,
                    node.end_byte,
                    engine.text_of(name, source),
                    kind,
                    name.start_byte,
                    body.start_byte,
                    bases=" ".join(bases.split()) if kind == "class" else _returned_type(node, source),
                    doc=_docstring(body, source),
                )
            )
        elif "member" in match:
            if source[match["receiver"][0].start_byte : match["receiver"][0].end_byte] in _SELF:
                node = match["member"][0]
                members.append((node.start_byte, name.start_byte, name.end_byte, _stated_type(node, source)))
        elif "type" in match:
            node = match["type"][0]
            definitions.append(
                Definition(node.start_byte, node.end_byte, engine.text_of(name, source), "type", name.start_byte)
            )
        else:
            node = match["assigned"][0]
            assigned.append((name.start_byte, name, node))
    assigned.sort(key=lambda row: row[0])
    seen: set[tuple[int, str]] = set()
    for (start, name, node), owner in zip(
        assigned, engine.innermost(definitions, [row[0] for row in assigned]), strict=True
    ):
        if owner is not None and owner.kind == "function":
            captures.locals.append((start, name.end_byte))
            made = _way_to(node.child_by_field_name("right"), source)
            if made is not None and (made[0] + made[1]).endswith(b")") and node.child_by_field_name("type") is None:
                text = RESULT + (made[0] + made[1]).decode("utf-8", "replace")
                captures.types.append((start, engine.text_of(name, source), text))
            continue
        text = engine.text_of(name, source)
        key = (owner.start if owner is not None else -1, text)
        if key in seen:
            continue
        seen.add(key)
        kind = "field" if owner is not None else "variable"
        definitions.append(
            Definition(node.start_byte, node.end_byte, text, kind, start, bases=_stated_type(node, source))
        )
    return members


def _returned_type(node: Node, source: bytes) -> str:
    """The class that a function states to return, as text."""
    declared = node.child_by_field_name("return_type")
    text = engine.text_of(declared, source).strip("\"'") if declared is not None else ""
    return text if _SIMPLE_TYPE.match(text) and text != "None" else ""


def _way_to(node: Node | None, source: bytes) -> tuple[bytes, bytes] | None:
    """The first name of an expression and the way from it: `a.f(1).g` -> (`a`, `.f().g`); None for other shapes."""
    if node is None:
        return None
    if node.type == "identifier":
        return source[node.start_byte : node.end_byte], b""
    if node.type == "call":
        way = _way_to(node.child_by_field_name("function"), source)
        if way is None:
            return None
        return (way[0], way[1] + b"()") if way[1] else (way[0] + b"()", b"")
    if node.type == "attribute":
        member = node.child_by_field_name("attribute")
        way = _way_to(node.child_by_field_name("object"), source)
        if way is None or member is None:
            return None
        return way[0], way[1] + b"." + source[member.start_byte : member.end_byte]
    return None


def _stated_type(node: Node, source: bytes) -> str:
    """The class of `x: C = ...` or `x = C(...)`, as text."""
    declared = node.child_by_field_name("type")
    if declared is None:
        value = node.child_by_field_name("right")
        declared = value.child_by_field_name("function") if value is not None and value.type == "call" else None
    if declared is None:
        return ""
    text = engine.text_of(declared, source).strip("\"'")
    return text if _SIMPLE_TYPE.match(text) else ""


def _fields(
    members: list[tuple[int, int, int, str]],
    source: bytes,
    lines: list[int],
    scopes: Scopes,
    facts: Facts,
    captures: Captures,
) -> None:
    """`self.x = ...` defines x in the class around the method, once."""
    symbols = facts.symbols
    known = {(symbol.parent, symbol.name) for symbol in symbols}
    for start, name_start, name_end, stated in members:
        owner = scopes.find_owner(start)
        while owner and symbols[owner].kind not in CLASSES:
            owner = symbols[owner].parent
        name = source[name_start:name_end].decode("utf-8", "replace")
        if not owner or (owner, name) in known:
            continue
        known.add((owner, name))
        line = bisect_right(lines, start)
        stop = lines[line] - 1 if line < len(lines) else len(source)
        symbols.append(
            Symbol(
                name,
                "field",
                line,
                line,
                owner,
                symbols[owner].qualified + "." + name,
                engine.signature_text(source, start, stop),
                bases=stated,
            )
        )
        captures.definitions.append(Definition(name_start, name_start, name, "field", name_start))


def _declared_types(nodes: list[Node], source: bytes, captures: Captures) -> None:
    """`x: Foo` of parameters and assignments: the type of the receiver x where it is a plain class name."""
    for node in nodes:
        declared = node.child_by_field_name("type")
        name = node.child_by_field_name("name") or node.child_by_field_name("left") or node.child(0)
        if declared is None or name is None or name.type != "identifier":
            continue
        text = engine.text_of(declared, source).strip("\"'")
        if _SIMPLE_TYPE.match(text):
            captures.types.append((node.start_byte, engine.text_of(name, source), text))


def _docstring(body: Node, source: bytes) -> str:
    """The docstring of a module, class or function body, without its indentation."""
    # It is the first of a body's children, which can be hundreds: a node object for each would be wasted.
    child = body.named_child(0) if body.named_child_count else None
    if child is not None and child.type == "comment":
        child = next((other for other in body.named_children if other.type != "comment"), None)
    if child is not None and child.type == "expression_statement" and child.child_count == 1:
        string = child.child(0)
        if string is not None and string.type == "string":
            match = _STRING.match(engine.text_of(string, source))
            return dedent(match.group(2)) if match else ""
    return ""


def dedent(text: str) -> str:
    lines = text.expandtabs().splitlines()
    if not lines:
        return ""
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    return "\n".join([lines[0].strip(), *(line[margin:].rstrip() for line in lines[1:])]).strip()


def _import(node: Node, source: bytes, facts: Facts) -> Span:
    line = node.start_point[0] + 1
    if node.type == "import_statement":
        for child in node.named_children:
            if child.type == "aliased_import":
                name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
                if name is not None and alias is not None:
                    facts.imports.append(
                        Import(line, "import", engine.text_of(name, source), "", engine.text_of(alias, source))
                    )
            elif child.type == "dotted_name":
                facts.imports.append(Import(line, "import", engine.text_of(child, source)))
        return node.start_byte, node.end_byte
    module_node = node.child_by_field_name("module_name")
    module = engine.text_of(module_node, source) if module_node is not None else "__future__"
    if node.type == "future_import_statement":
        return node.start_byte, node.end_byte
    for child in node.named_children:
        if child == module_node:
            continue
        at = child.start_point[0] + 1
        if child.type == "wildcard_import":
            facts.imports.append(Import(at, "from", module, "*"))
        elif child.type == "aliased_import":
            name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
            if name is not None and alias is not None:
                facts.imports.append(
                    Import(at, "from", module, engine.text_of(name, source), engine.text_of(alias, source))
                )
        elif child.type == "dotted_name":
            facts.imports.append(Import(at, "from", module, engine.text_of(child, source)))
    return node.start_byte, node.end_byte


def _exports(nodes: list[Node], source: bytes) -> list[str] | None:
    """The names of `__all__ = [...]` and `__all__ += [...]`."""
    if not nodes:
        return None
    return [name for node in nodes for name in _NAME_STRING.findall(engine.text_of(node, source))]
