"""Languages whose definitions a query alone can tell: JavaScript, TypeScript, Java, Go, Rust, shell, CMake, Starlark,
and the keys of JSON, TOML and YAML.

In `queries/<language>.scm` the capture `@name` is the name, `@body` where the signature ends, `@scope` a qualifier,
and the capture of the whole node is the kind of what it defines.
"""

import re
from functools import cache

from tree_sitter import Node, Parser, Query, QueryCursor

from repobook.languages import grammar
from repobook.reading import engine, queries, references
from repobook.reading.bindings import read_pyo3
from repobook.reading.cmake_targets import read_targets
from repobook.reading.comments import attach_docs, read_comments
from repobook.reading.engine import Captures, Definition
from repobook.reading.facts import RESULT, Facts, Finding, Import, Symbol
from repobook.reading.generic_rules import RULES
from repobook.reading.operators import define_entries, read_operators
from repobook.reading.patterns import read_patterns, read_settings
from repobook.reading.purpose import find_purpose
from repobook.reading.rules import Rules

LANGUAGES = frozenset(
    ["javascript", "typescript", "tsx", "java", "go", "rust", "bash", "cmake", "starlark", "json", "toml", "yaml"]
)
_SHARED = {"tsx": "typescript"}
_SEPARATOR = {"rust": "::"}
_SELF = {"rust": frozenset({b"self"}), "java": frozenset({b"this"})}
_SELF_DEFAULT = frozenset({b"this", b"self"})
_RESERVED = {"rust": frozenset({b"super", b"crate", b"_"}), "go": frozenset({b"_"})}
_NONE: frozenset[bytes] = frozenset()
_NOT_KINDS = frozenset({"name", "body", "scope", "command", "key"})
_DATA = frozenset({"json", "toml", "yaml"})
# Keys of a data file that get an entry; a file of a million keys is data, not structure.
_KEYS = 400
_STRING = re.compile(r"""["']([^"']+)["']""")
_SIMPLE_TYPE = re.compile(r"(?:&(?:'\w+ )?(?:mut )?|\*|: *|\[\])*([A-Za-z_][\w.:]*)(?:[<\[].*)?\Z", re.S)
_NO_RULES = Rules()
_WORD = re.compile(rb"[A-Za-z_#@$][\w.\-]*\Z")


@cache
def _cursors(language: str) -> tuple[Parser, QueryCursor, QueryCursor]:
    loaded = grammar(language)
    assert loaded is not None
    shared = _SHARED.get(language, language)
    return (
        Parser(loaded),
        QueryCursor(Query(loaded, queries.text(f"{shared}.scm"))),
        QueryCursor(Query(loaded, queries.text(f"{shared}.refs.scm"))),
    )


def read_generic(source: bytes, path: str, language: str) -> Facts:
    parser, definitions, names = _cursors(language)
    root = parser.parse(source).root_node
    facts = Facts(symbols=[Symbol(path, "file", 1, 1)], errors=engine.first_error(root))
    lines = engine.line_starts(source)
    found = names.captures(root)
    captures = Captures(
        locals=engine.spans(found.get("local", [])),
        comments=engine.spans(found.get("comment", [])),
        loops=engine.spans(found.get("loop", [])),
    )
    captures.branches = engine.spans(found.get("branch", [])) + captures.loops
    _definitions(definitions.matches(root), source, language, captures)
    if language == "yaml":
        define_entries(source, captures)
    skipped: set[int] = {node.start_byte for node in found.get("key", [])}
    for node in [*found.get("import", []), *found.get("skip", [])]:
        skipped.update(range(node.start_byte, node.end_byte))
    captures.references = references.names_at(
        source,
        [span for span in engine.spans(found.get("ref", [])) if span[0] not in skipped and _WORD.match(source, *span)],
    )
    for node in engine.in_order(found.get("import", [])):
        _import(node, source, language, facts)
    _add_required(found, source, language, facts)
    for node in engine.in_order(found.get("typed", [])):
        _record_type(node, source, language, captures)
    if language in ("go", "rust"):
        # `var _ Writer = file{}` is checked by the compiler and defines nothing.
        captures.definitions = [one for one in captures.definitions if one.name != "_"]
    scopes = engine.nest(captures, source, lines, facts, _SEPARATOR.get(language, "."))
    for one in facts.imports:
        one.local = scopes.find_owner(lines[one.line - 1])
        if language == "rust" and one.module.startswith("super") and _is_inline(one.local, facts):
            one.module = "self" + one.module.removeprefix("super")
    if language not in _DATA:
        rules = RULES.get(language, _NO_RULES)
        own = _SELF.get(language, _SELF_DEFAULT)
        reserved = _RESERVED.get(language, _NONE)
        references.collect_references(captures, source, lines, scopes, facts, rules, own, reserved)
        engine.measure(captures, scopes, facts)
    if language == "yaml":
        read_operators(source, lines, facts)
    elif language == "cmake":
        read_targets(source, lines, facts)
    elif language == "rust":
        read_pyo3(source, lines, scopes, facts)
    for node in engine.in_order(found.get("unsafe", [])):
        facts.findings.append(
            Finding(
                node.start_point[0] + 1,
                "safety",
                "unsafe block",
                "the compiler does not check it",
                scopes.find_owner(node.start_byte),
            )
        )
    blocks = read_comments(captures.comments, source, lines, scopes, facts)
    attach_docs(blocks, source, lines, facts)
    if language not in _DATA:
        read_settings(source, lines, scopes, facts)
        read_patterns(facts)
    find_purpose(facts, blocks, path, source)
    return facts


def _is_inline(local: int, facts: Facts) -> bool:
    """True inside `mod tests {`, where `super` is the file itself."""
    while local:
        if facts.symbols[local].kind == "module":
            return True
        local = facts.symbols[local].parent
    return False


def _simple_type(text: str) -> str:
    """The class of a type without pointers, references, slices and arguments; "" for any other shape."""
    match = _SIMPLE_TYPE.match(" ".join(text.split()))
    return match.group(1) if match else ""


def _record_type(node: Node, source: bytes, language: str, captures: Captures) -> None:
    """The type of a parameter or local: stated, or that of the literal or call it is set to."""
    name = node.child_by_field_name("name") or node.child_by_field_name("pattern") or node.child_by_field_name("left")
    declared = node.child_by_field_name("type")
    if name is None:
        return
    if name.type in ("expression_list", "mut_pattern") and name.named_child_count == 1:
        name = name.named_child(0)
    text = ""
    if declared is not None:
        text = _simple_type(engine.text_of(declared, source))
        if language == "go" and engine.text_of(declared, source).startswith(("[", "map", "chan", "func")):
            text = ""
    else:
        value = node.child_by_field_name("right") or node.child_by_field_name("value")
        text = _find_made_type(value, source) if value is not None else ""
    if name is not None and name.type == "identifier" and text:
        captures.types.append((name.start_byte, engine.text_of(name, source), text))


def _find_made_type(value: Node, source: bytes) -> str:
    """The type of `&T{}`, `T{}`, `new T()` or `f()`."""
    while value.type in ("expression_list", "unary_expression") and value.named_child_count == 1:
        inner = value.named_child(0)
        if inner is None:
            return ""
        value = inner
    made = value.child_by_field_name("type") or value.child_by_field_name("constructor")
    if value.type in ("composite_literal", "new_expression", "struct_expression") and made is not None:
        return _simple_type(engine.text_of(made, source))
    called = value.child_by_field_name("function")
    if value.type == "call_expression" and called is not None and called.type == "identifier":
        return RESULT + engine.text_of(called, source) + "()"
    return ""


def _definitions(
    matches: list[tuple[int, dict[str, list[Node]]]], source: bytes, language: str, captures: Captures
) -> None:
    seen: dict[int, Definition] = {}
    for _, match in matches:
        kind = next((key for key in match if key not in _NOT_KINDS), None)
        if kind is None:
            kind = "key"
        if "name" not in match:
            continue
        node, name = match[kind][0], match["name"][0]
        text = engine.text_of(name, source).strip("\"'`")
        if not text or len(text) > 200 or "\n" in text or (language in _DATA and len(seen) >= _KEYS):
            continue
        scope = ""
        if "scope" in match:
            scope = engine.text_of(match["scope"][0], source)
            scope = scope.strip("*&() ").partition("[")[0].partition("<")[0]
            scope = (
                scope.removesuffix(".prototype")
                .removeprefix("module.exports")
                .removeprefix("exports")
                .removeprefix("this")
                .strip(".")
            )
            if not re.fullmatch(r"[\w.$]*", scope):
                scope = ""
        if kind == "impl":
            text = text.partition("<")[0]
        body = -1
        if "body" in match:
            # `f = function (a) {...}`: the signature goes on to the body of the function that is assigned.
            inner = match["body"][0].child_by_field_name("body")
            body = (inner or match["body"][0]).start_byte
        start = node.start_byte
        definition = Definition(
            start, node.end_byte, text, kind, name.start_byte, body, scope, bases=_bases(node, source, language)
        )
        if language == "cmake" and kind == "variable" and text.isupper() is False and "${" in text:
            continue
        # One place can match two patterns: `const f = () => 1` is a function before it is a variable.
        known = seen.get(name.start_byte)
        if known is None or (known.kind in ("variable", "field") and kind == "function"):
            seen[name.start_byte] = definition
    captures.definitions = list(seen.values())
    if language == "cmake" or language == "bash":
        _keep_first_assignments(captures)


def _keep_first_assignments(captures: Captures) -> None:
    """A variable that is set again and again is defined where it is first set."""
    seen: set[str] = set()
    kept = []
    for definition in sorted(captures.definitions, key=lambda d: d.start):
        if definition.kind == "variable":
            if definition.name in seen:
                continue
            seen.add(definition.name)
        kept.append(definition)
    captures.definitions = kept


def _bases(node: Node, source: bytes, language: str) -> str:
    """The bases of a class, the type of a field, the type that a function returns, where they are simple."""
    if node.type in ("field_declaration", "public_field_definition", "property_signature", "field_definition"):
        declared = node.child_by_field_name("type")
        return _simple_type(engine.text_of(declared, source)) if declared is not None else ""
    returned = node.child_by_field_name("result") or node.child_by_field_name("return_type")
    if returned is not None:
        return _simple_type(engine.text_of(returned, source))
    if language in ("javascript", "typescript", "tsx"):
        clause = next((c for c in node.named_children if c.type in ("class_heritage", "extends_type_clause")), None)
        if clause is None:
            return ""
        return " ".join(re.sub(r"\b(extends|implements)\b", ",", engine.text_of(clause, source)).strip(" ,").split())
    if language == "java":
        texts = [
            engine.text_of(c, source)
            for c in node.named_children
            if c.type in ("superclass", "super_interfaces", "extends_interfaces")
        ]
        return ", ".join(re.sub(r"^(extends|implements)\s+", "", " ".join(text.split())) for text in texts)
    if language == "rust" and node.type == "trait_item":
        bounds = node.child_by_field_name("bounds")
        return engine.text_of(bounds, source).lstrip(": ") if bounds is not None else ""
    return ""


def _import(node: Node, source: bytes, language: str, facts: Facts) -> None:
    line = node.start_point[0] + 1
    text = " ".join(engine.text_of(node, source).split())
    if language in ("javascript", "typescript", "tsx"):
        _script_import(node, text, line, source, facts)
    elif language == "go":
        path_node = node.child_by_field_name("path")
        name_node = node.child_by_field_name("name")
        if path_node is not None:
            alias = engine.text_of(name_node, source) if name_node is not None else ""
            facts.imports.append(Import(line, "import", engine.text_of(path_node, source).strip('"`'), "", alias))
    elif language == "java":
        module = text.removeprefix("import").strip(" ;").removeprefix("static ").strip()
        facts.imports.append(Import(line, "import", module.removesuffix(".*")))
    elif language == "rust":
        if text.startswith("mod ") or " mod " in text.partition("{")[0]:
            facts.imports.append(Import(line, "import", "self::" + text.rpartition("mod ")[2].strip(" ;")))
            return
        before, _, body = text.partition("use ")
        for module, name, alias in _use_paths(body.strip(" ;")):
            facts.imports.append(Import(line, "import", module, name, alias))
            if before.startswith("pub"):
                facts.imports.append(Import(line, "export", module, name or module.rpartition("::")[2], alias))


def _script_import(node: Node, text: str, line: int, source: bytes, facts: Facts) -> None:
    """`import a, { b as c } from "m"`, `import * as d from "m"`, `export { e } from "m"`: a row per name."""
    module_node = node.child_by_field_name("source")
    if module_node is None:
        match = _STRING.search(text)
        module = match.group(1) if match else ""
    else:
        module = engine.text_of(module_node, source).strip("\"'`")
    if not module:
        return
    kind = "export" if text.startswith("export") else "import"
    clause = text.rpartition(" from ")[0].removeprefix(kind).strip().removeprefix("type ")
    rows = []
    space = _SPACE_IMPORT.search(clause)
    if space:
        rows.append(("*", space.group(1) or ""))
    listed = _LISTED.search(clause)
    for part in listed.group(1).split(",") if listed else ():
        name, _, alias = part.strip().removeprefix("type ").partition(" as ")
        if name.strip():
            rows.append((name.strip(), alias.strip()))
    default = _DEFAULT_IMPORT.match(clause)
    if default and kind == "import":
        rows.append(("default", default.group(1)))
    for name, alias in rows or [("", "")]:
        facts.imports.append(Import(line, kind, module, name, alias))


_SPACE_IMPORT = re.compile(r"\*(?: as ([A-Za-z_$][\w$]*))?")
_LISTED = re.compile(r"\{([^}]*)\}")
_DEFAULT_IMPORT = re.compile(r"([A-Za-z_$][\w$]*)")


def _use_paths(text: str) -> list[tuple[str, str, str]]:
    """`a::{b, c as d, e::*}` -> [(`a::b`, "", ""), (`a::c`, "", `d`), (`a::e`, `*`, "")]: module, name, alias."""
    head, brace, rest = text.partition("{")
    if not brace:
        path, _, alias = text.partition(" as ")
        path = path.strip().removesuffix("::self")
        if path.endswith("::*"):
            return [(path.removesuffix("::*"), "*", "")]
        return [(path, "", alias.strip())]
    depth, start, parts = 0, 0, []
    inside = rest.rpartition("}")[0]
    for at, char in enumerate(inside):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(inside[start:at].strip())
            start = at + 1
    parts.append(inside[start:].strip())
    return [path for part in parts if part for path in _use_paths(head.strip() + part)]


def _add_required(found: dict[str, list[Node]], source: bytes, language: str, facts: Facts) -> None:
    kind = {"bash": "source", "cmake": "source", "starlark": "load"}.get(language, "require")
    for node in engine.in_order(found.get("module", [])):
        text = engine.text_of(node, source).strip("\"'`")
        if text:
            facts.imports.append(Import(node.start_point[0] + 1, kind, text, "", _find_required_name(node, source)))


def _find_required_name(node: Node, source: bytes) -> str:
    """`mime` of `const mime = require("mime-types")`."""
    call = node.parent.parent if node.parent is not None else None
    declared = call.parent if call is not None and call.type == "call_expression" else None
    name = declared.child_by_field_name("name") if declared is not None else None
    return engine.text_of(name, source) if name is not None and name.type == "identifier" else ""
