"""Architecture, dependencies and related files: the place of a file in the graph of imports and uses."""

from repobook.model.schema import INHERITS
from repobook.pages.context import Context
from repobook.pages.markdown import Links, code, escape, link
from repobook.reading.custom_functions import CUSTOM_FUNCTION

_SHOWN = 40
# Imports that can lead out of the tree; `using` and aliases name things that other imports brought in.
OUTSIDE = frozenset({"import", "from", "include", "require", "source", "load", "use"})
_DIAGRAM = 12


def architecture(context: Context, links: Links) -> str:
    parts: list[str] = []
    depth = context.file.layer
    if depth or context.importers:
        meaning = "imports nothing of this tree" if depth == 0 else "the longest chain of imports below it"
        parts.append(f"**Layer**: {depth} ({meaning}).\n")
    others = [file for file in context.book.cycle(context.file) if file != context.file.id]
    if others:
        shown = ", ".join(file_name(context, links, file) for file in others[:10])
        more = f" and {len(others) - 10} more" if len(others) > 10 else ""
        parts.append(f"**Import cycle** with {shown}{more}.\n")
    diagram = _class_diagram(context)
    if diagram:
        parts.append("**Classes**:\n\n" + diagram)
    patterns = [row for row in context.findings if row[1] == "pattern" and row[2] != CUSTOM_FUNCTION]
    if patterns:
        rows = []
        for rule in dict.fromkeys(row[2] for row in patterns):
            found = [row for row in patterns if row[2] == rule]
            shown = "; ".join(
                f"{link(f'line {line}', links.source(context.file.path, line))} {escape(detail)}"
                for line, _, _, detail, _ in found[:12]
            )
            more = f" and {len(found) - 12} more" if len(found) > 12 else ""
            rows.append(f"- **{escape(rule)}**: {shown}{more}")
        parts.append("**Patterns found**:\n\n" + "\n".join(rows) + "\n")
    return (
        "\n".join(parts)
        or "The file imports nothing of this tree, nothing imports it, and no known pattern was found.\n"
    )


def _class_diagram(context: Context) -> str:
    """Inheritance that touches this file, as a Mermaid diagram."""
    named = context.book.find_symbol
    upward = [use for use in context.outgoing if use.kind == INHERITS]
    downward = [use for use in context.incoming if use.kind == INHERITS]
    pairs = [
        (named(use.far).qualified, context.symbols[use.near & 0xFFFFF].qualified)
        for use in sorted(upward, key=context.place)
    ] + [
        (context.symbols[use.near & 0xFFFFF].qualified, named(use.far).qualified)
        for use in sorted(downward, key=context.place)
    ]
    pairs = list(dict.fromkeys(pairs))
    if not pairs:
        return ""
    ids: dict[str, str] = {}
    lines = []
    for base, derived in pairs[:_DIAGRAM]:
        for name in (base, derived):
            if name not in ids:
                ids[name] = f"c{len(ids)}"
                label = "".join(char for char in name if char.isalnum() or char in "_.: <>")
                lines.append(f'  class {ids[name]}["{label}"]')
        lines.append(f"  {ids[base]} <|-- {ids[derived]}")
    more = (
        f"\n{len(pairs) - _DIAGRAM} more relations are listed with the classes above.\n"
        if len(pairs) > _DIAGRAM
        else ""
    )
    return "```mermaid\nclassDiagram\n" + "\n".join(lines) + "\n```\n" + more


def file_name(context: Context, links: Links, file: int) -> str:
    path = context.book.path(file)
    return link(code(path), links.page(path) if context.book.has_page(file) else links.source(path))


def dependencies(context: Context, links: Links) -> str:
    parts: list[str] = []
    inside = [(line, target) for line, _, _, _, _, target in context.imports if target]
    first: dict[int, int] = {}
    for line, target in inside:
        first.setdefault(target, line)
    first.pop(context.file.id, None)
    if first:
        used = context.references_to
        rows = [
            f"- {file_name(context, links, target)} ({link(f'line {line}', links.source(context.file.path, line))}"
            + (f", {used[target]} {'reference' if used[target] == 1 else 'references'}" if used.get(target) else "")
            + ")"
            for target, line in first.items()
        ]
        parts.append("**Depends on, in this tree**:\n\n" + _cap_rows(rows))
    outside: dict[str, int] = {}
    for line, kind, module, _, _, target in context.imports:
        if not target and kind in OUTSIDE:
            outside.setdefault(module, line)
    if outside:
        rows = [
            f"- {code(module)} ({link(f'line {line}', links.source(context.file.path, line))})"
            for module, line in outside.items()
        ]
        parts.append("**Depends on, outside this tree** (or generated):\n\n" + _cap_rows(rows))
    if context.importers:
        rows = sorted(
            f"- {file_name(context, links, file)} ({link(f'line {line}', links.source(context.book.path(file), line))})"
            for file, line in context.importers
            if file != context.file.id
        )
        parts.append("**Imported by**:\n\n" + _cap_rows(rows))
    return "\n".join(parts) or "No imports, and no file of this tree imports it.\n"


def _cap_rows(rows: list[str]) -> str:
    more = f"\n- and {len(rows) - _SHOWN} more\n" if len(rows) > _SHOWN else "\n"
    return "\n".join(rows[:_SHOWN]) + more


def related_files(context: Context, links: Links) -> str:
    """Files bound to this one most: by references both ways, by name, by importing the same."""
    weight: dict[int, int] = {}
    for (file_id, _, _), times in context.references_between.items():
        weight[file_id] = weight.get(file_id, 0) + times
    weight.pop(context.file.id, None)
    siblings = context.book.siblings(context.file)
    rows = [f"- {file_name(context, links, file)}: same name" for file in siblings[:10]]
    rows += [
        f"- {file_name(context, links, file)}: {count} {'reference' if count == 1 else 'references'} between them"
        for file, count in sorted(weight.items(), key=lambda row: (-row[1], context.book.path(row[0])))[:10]
        if file not in siblings
    ]
    return "\n".join(rows) + "\n" if rows else "No other file refers to it or is referred to by it.\n"
