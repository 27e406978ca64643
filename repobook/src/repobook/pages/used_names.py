"""The names that a file uses and others define: by kind, each with its definition; then those from outside the tree."""

from collections.abc import Set

from repobook.model.schema import CANDIDATE, FILE_SHIFT, LIKELY
from repobook.pages.book_facts import stem_of
from repobook.pages.context import Context
from repobook.pages.markdown import Links, code, escape, link, slug
from repobook.reading.facts import unpack

# Headings in the order of the page, each with the kinds of definitions below it.
_GROUPS = (
    ("Namespaces and modules", ("namespace", "module", "package", "file")),
    ("Types", ("class", "struct", "union", "interface", "trait", "enum", "object", "type", "concept")),
    ("Functions and methods", ("function", "method", "binding", "registration", "operator", "test")),
    ("Macros", ("macro",)),
    ("Fields, variables and constants", ("field", "property", "variable", "constant", "enumerator")),
)
_TITLE = {kind: title for title, kinds in _GROUPS for kind in kinds}
_OTHERS = "Others"
# Files that stand for their folder.
_ENTRIES = frozenset({"__init__", "index", "mod"})


def used_names(context: Context, links: Links) -> list[str]:
    """Sections of a keyword page: names that this file uses and does not define."""
    own = {symbol.name for symbol in context.symbols[1:]}
    chosen = _definitions(context, own)
    groups: dict[str, list[str]] = {}
    for name, (far, certainty, line) in sorted(chosen.items(), key=lambda row: (row[0].lower(), row[0])):
        named = context.book.find_symbol(far)
        groups.setdefault(_TITLE.get(named.kind, _OTHERS), []).append(_row(context, links, name, far, certainty, line))
    parts = []
    for title in [*(title for title, _ in _GROUPS), _OTHERS]:
        if title in groups:
            parts.append(f"### {title}\n\n" + "\n".join(groups[title]) + "\n")
    inner = _locals(context)
    if inner:
        parts.append("### Parameters and local variables\n\n" + ", ".join(map(code, inner)) + "\n")
    rest = sorted(_names(context) - own - set(chosen), key=lambda name: (name.lower(), name))
    if rest:
        parts.append(
            "### From outside the tree, or without one definition in it\n\n" + ", ".join(map(code, rest)) + "\n"
        )
    return parts


def _locals(context: Context) -> list[str]:
    """The names of the parameters and local variables of the file."""
    row = context.book.db.execute("SELECT locals FROM files WHERE id=?", (context.file.id,)).fetchone()
    return sorted(row[0].split(), key=lambda name: (name.lower(), name)) if row else []


def _names(context: Context) -> set[str]:
    """The names that occur in the file, but for its own locals and the words of data files."""
    rows = context.book.db.execute("SELECT DISTINCT name FROM refs WHERE file=?", (context.file.id,))
    return {row[0] for row in rows if "/" not in row[0]}


def _definitions(context: Context, own: set[str]) -> dict[str, tuple[int, int, int]]:
    """(definition, certainty, first line of use) of each name; the surest definition, then the first used."""
    found: dict[str, tuple[int, int, int]] = {}
    words = _words_by_line(context)
    aliases = {target: alias for _, _, _, name, alias, target in context.imports if target and alias and not name}
    for use in context.all_outgoing:
        if not use.line or use.file == context.file.id:
            continue
        name = _name_of(context, use.far, words.get(use.line, frozenset()), aliases)
        if name in own:
            continue
        known = found.get(name)
        key = (-use.certainty, use.line, context.book.place(use.far))
        if known is None or key < (-known[1], known[2], context.book.place(known[0])):
            found[name] = (use.far, use.certainty, use.line)
    return found


def _words_by_line(context: Context) -> dict[int, set[str]]:
    """The names that stand on each line of the file."""
    found: dict[int, set[str]] = {}
    for name, places in context.book.db.execute("SELECT name, places FROM refs WHERE file=?", (context.file.id,)):
        for place in memoryview(places).cast("Q"):
            found.setdefault(unpack(place)[0], set()).add(name)
    return found


def _name_of(context: Context, symbol: int, words: Set[str], aliases: dict[int, str]) -> str:
    """The name under which a line uses a symbol: its own, its alias, or the name that another language sees. A file
    that no word of the line names has its path."""
    book = context.book
    named = book.find_symbol(symbol)
    if not symbol & 0xFFFFF:
        path = book.path(symbol >> FILE_SHIFT)
        stem = stem_of(path)
        folder = path.rpartition("/")[0].rpartition("/")[2]
        choices = [aliases.get(symbol >> FILE_SHIFT, ""), folder if stem in _ENTRIES else stem]
        return next((name for name in choices if name in words), path)
    if named.short_name in words or book.files[symbol >> FILE_SHIFT].language == context.file.language:
        return named.short_name
    exposed = book.db.execute("SELECT DISTINCT exposed FROM bindings WHERE target=?", (named.short_name,))
    return next((row[0] for row in sorted(exposed) if row[0] in words), named.short_name)


def _row(context: Context, links: Links, name: str, far: int, certainty: int, line: int) -> str:
    book = context.book
    path = book.path(far >> 20)
    named = book.find_symbol(far)
    qualified = named.qualified if far & 0xFFFFF else path
    target = links.page(path, slug(qualified)) if far & 0xFFFFF else links.page(path)
    shown = link(code(qualified), target) if book.has_page(far >> 20) else code(qualified)
    maybe = {CANDIDATE: "perhaps ", LIKELY: "likely "}.get(certainty, "")
    used = link(f"line {line}", links.source(context.file.path, line))
    return f"- {code(name)} → {maybe}{shown} in {escape(path)} ({used})"
