"""The keyword page of one file: its identifiers by kind, its concepts, and which section explains which keyword."""

import re

from repobook.pages.architecture import OUTSIDE
from repobook.pages.assurance import complex_functions
from repobook.pages.concepts import SHARED, concept_page
from repobook.pages.context import Context
from repobook.pages.file_page import MOST_USED
from repobook.pages.markdown import Links, code, escape, link, slug
from repobook.pages.records import SPACES, Symbol
from repobook.pages.testing import list_tested
from repobook.pages.used_names import used_names
from repobook.pages.wording import plural
from repobook.reading.custom_functions import CUSTOM_FUNCTION

_ERROR = re.compile(r"ERR_|E_[A-Z]|[A-Z_]*_ERR(?:OR)?$|ERROR_|[A-Z_]*_ERROR_[A-Z_]+$|k\w*Error$")

# Kinds in the order of the page, and the section of the file's page that explains each.
KINDS = (
    "namespace",
    "module",
    "package",
    "class",
    "struct",
    "union",
    "interface",
    "trait",
    "object",
    "enum",
    "function",
    "method",
    "test",
    "registration",
    "binding",
    "macro",
    "type",
    "concept",
    "field",
    "property",
    "variable",
    "constant",
    "enumerator",
    "operator",
    "entry",
    "key",
    "target",
    "section",
    "rule",
    "label",
)


_TOPS = frozenset({"class", "struct", "function", "macro", "namespace", "type", "interface", "trait"})


def keyword_page(context: Context, links: Links) -> str:
    file = context.file
    page = links.page(file.path)
    parts = [
        f"# Keywords of {code(file.path)}\n",
        f"{link('Page', page)} · {link('folder', links.folder_page(file.folder))} · "
        f"{link('source', links.source(file.path))}\n",
        "## Identifiers\n",
    ]
    identifiers = _identifiers(context, links, page)
    parts += identifiers or ["No identifiers are defined in this file.\n"]
    used = used_names(context, links)
    if used:
        parts += ["## Used names\n", *used]
    parts.append("## Concepts\n")
    parts.append(_concepts(context, links, page))
    parts.append("## Keyword → section map\n")
    parts.append(_section_map(context, page))
    return "\n".join(parts)


def _identifiers(context: Context, links: Links, page: str) -> list[str]:
    by_kind: dict[str, dict[str, Symbol]] = {}
    for symbol in context.symbols[1:]:
        known = by_kind.setdefault(symbol.kind, {})
        if symbol.qualified not in known or known[symbol.qualified].declaration > symbol.declaration:
            known[symbol.qualified] = symbol
    parts = []
    for kind in KINDS:
        found = by_kind.get(kind)
        if not found:
            continue
        rows = [
            _identifier(context, links, page, symbol)
            for symbol in sorted(found.values(), key=lambda s: (s.name.lower(), s.line))
        ]
        parts.append(f"### {plural(kind, 2).capitalize()}\n\n" + "\n".join(rows) + "\n")
    imported = _imports(context, links)
    if imported:
        parts.append("### Imports\n\n" + "\n".join(imported) + "\n")
    errors = [
        s
        for s in context.symbols[1:]
        if s.kind in ("variable", "macro", "enumerator", "constant", "field") and _ERROR.match(s.name)
    ]
    if errors:
        rows = [
            f"- {link(code(s.name), page + '#' + slug(s.qualified))} "
            f"({link(f'line {s.line}', links.source(context.file.path, s.line))})"
            for s in errors
        ]
        parts.append("### Error constants\n\n" + "\n".join(rows) + "\n")
    for rule, title in (("flag", "Flags"), ("environment variable", "Environment variables")):
        found_rows = {
            detail: line
            for line, section, name, detail, _ in reversed(context.findings)
            if section == "name" and name == rule
        }
        if found_rows:
            parts.append(
                f"### {title}\n\n"
                + "\n".join(
                    f"- {code(name)} ({link(f'line {line}', links.source(context.file.path, line))})"
                    for name, line in sorted(found_rows.items())
                )
                + "\n"
            )
    return parts


def _identifier(context: Context, links: Links, page: str, symbol: Symbol) -> str:
    sure = context.sure_uses.get(symbol.id)
    text = f"- {link(code(symbol.name), page + '#' + slug(symbol.qualified))}"
    if symbol.qualified != symbol.name:
        text += f" in {code(symbol.qualified[: -len(symbol.name)].rstrip('.:') or symbol.qualified)}"
    text += (
        f" ({'declared' if symbol.declaration else 'line'} "
        f"{link(str(symbol.line), links.source(context.file.path, symbol.line))})"
    )
    if sure:
        files: dict[int, int] = {}
        for use in sure:
            files.setdefault(use.file, use.line)
        shown = ", ".join(
            link(escape(context.book.path(file).rpartition("/")[2]), links.source(context.book.path(file), line))
            for file, line in list(files.items())[:5]
        )
        more = f" and {len(files) - 5} more files" if len(files) > 5 else ""
        text += f" — used in {shown}{more}"
    return text


def _imports(context: Context, links: Links) -> list[str]:
    rows: dict[str, str] = {}
    for line, kind, module, name, _, target in context.imports:
        label = module.strip('<>"') + (f" {name}" if name and name != "*" else "")
        if label in rows or kind in ("namespace alias",):
            continue
        where = link(f"line {line}", links.source(context.file.path, line))
        if target and context.book.has_page(target):
            path = context.book.path(target)
            rows[label] = f"- {link(code(label), links.page(path))} ({where})"
        else:
            rows[label] = f"- {code(label)} ({where})"
    return [rows[label] for label in sorted(rows, key=str.lower)]


def _concepts(context: Context, links: Links, page: str) -> str:
    rows = [
        f"- {link(escape('Note [ ' + title + ' ]'), page + '#notes')} "
        f"({link(f'line {line}', links.source(context.file.path, line))})"
        for line, kind, title, _, _ in context.remarks
        if kind == "note"
    ]
    for term, count, line, files in context.concepts:
        section = _find_explanation(context, term, line)
        shared = (
            f", in {link(f'{files} files', links.locate(concept_page(term)) + '#' + slug(term))}"
            if files >= SHARED
            else ""
        )
        rows.append(
            f"- {link(escape(term), page + '#' + section) if section else escape(term)}: {count} "
            f"{'place' if count == 1 else 'places'} "
            f"({link(f'line {line}', links.source(context.file.path, line))}){shared}"
        )
    return (
        "\n".join(rows) + "\n" if rows else "No term of this file's comments stands out against the rest of the tree.\n"
    )


def _find_explanation(context: Context, term: str, line: int) -> str:
    """The definition that explains a term: its documentation has the term, or the term stands inside it."""
    for text, symbol in context.documented:
        if term in text:
            return slug(symbol.qualified)
    around = [
        symbol for symbol in context.symbols[1:] if symbol.line <= line <= symbol.end_line and symbol.kind not in SPACES
    ]  # from the outside in
    if around:
        return slug(around[-1].qualified)
    return "high-level-overview" if term in context.file.purpose.lower() else ""


def _section_map(context: Context, page: str) -> str:
    """Sections of the file's page with the keywords that they mention."""
    rows = []
    # It has an entry for each; symbols at the top come first.
    names = list(dict.fromkeys(s.name for s in sorted(context.symbols[1:], key=lambda s: s.kind not in _TOPS)))
    if names:
        rows.append(("Detailed analysis", "detailed-analysis", names))
    used = [symbol.name for symbol, _, _ in context.most_used[:MOST_USED]]
    if used:
        rows.append(("High-level overview", "high-level-overview", list(dict.fromkeys(used))))
    for section, title, anchor in (
        ("performance", "Performance considerations", "performance-considerations"),
        ("safety", "Security & safety", "security--safety"),
        ("pattern", "Architecture & design", "architecture--design"),
    ):
        found = list(
            dict.fromkeys(row[2] for row in context.findings if row[1] == section and row[2] != CUSTOM_FUNCTION)
        )
        if section == "performance":
            found += [s.name for s in complex_functions(context)]
        if found:
            rows.append((title, anchor, list(dict.fromkeys(found))))
    modules = list(
        dict.fromkeys(
            context.book.path(target) if target else module.strip('<>"')
            for _, kind, module, _, _, target in context.imports
            if (target or kind in OUTSIDE) and target != context.file.id
        )
    )
    if modules:
        rows.append(("Dependencies", "dependencies", modules))
    reached = [s.name for s in list_tested(context)]
    if reached:
        rows.append(("Testing & usage", "testing--usage", list(dict.fromkeys(reached))))
    if not rows:
        return "The file has no keywords to map.\n"
    return (
        "\n".join(
            f"- {link(escape(title), page + '#' + anchor)}: "
            + ", ".join(code(name) for name in found[:30])
            + (f" and {len(found) - 30} more" if len(found) > 30 else "")
            for title, anchor, found in rows
        )
        + "\n"
    )
