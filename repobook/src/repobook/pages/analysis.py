"""Detailed analysis: namespaces, classes with members, functions, macros, constants, notes, invariants, TODO."""

from repobook.model.schema import BINDS, CALLS, CANDIDATE, CERTAIN, FILE_SHIFT, INHERITS, LIKELY, OVERRIDES
from repobook.pages.context import Context
from repobook.pages.kernels import list_kernels
from repobook.pages.markdown import Links, code, escape, fenced, link, prose, slug
from repobook.pages.records import Symbol, Use
from repobook.pages.wording import first_sentence
from repobook.reading.bindings import UNKNOWN
from repobook.reading.comments import NOTE_LIMIT
from repobook.reading.custom_functions import CUSTOM_FUNCTION

_CLASSES = ("class", "struct", "union", "interface", "trait", "enum", "object")
_FUNCTIONS = ("function", "method", "test", "registration", "binding")
_LISTED = (
    ("Macros", ("macro",)),
    ("Type aliases", ("type", "concept")),
    ("Variables and constants", ("variable", "constant", "field", "property", "enumerator")),
    ("Implementations", ("impl",)),
    ("Operators", ("operator",)),
    ("Entries", ("entry",)),
    ("Keys", ("key", "target", "section", "rule", "label")),
)
# Kinds that have a section or a list of their own, and kinds that are no definitions.
_TITLED = frozenset(
    (*_CLASSES, *_FUNCTIONS, "namespace", "module", "package", *(kind for _, kinds in _LISTED for kind in kinds))
)
_CALLERS = 8
_DOC = 1500


def detailed_analysis(context: Context, links: Links) -> str:
    """Every definition of a file by kind, then its remarks and bindings."""
    parts: list[str] = []
    anchored: set[str] = set()
    spaces = _namespaces(context, links, anchored)
    if spaces:
        parts.append("### Namespaces\n\n" + "\n".join(spaces) + "\n")
    classes = [s for s in context.symbols[1:] if s.kind in _CLASSES]
    if classes:
        parts.append("### Classes and types\n")
        parts += [_class(context, links, symbol, anchored) for symbol in classes]
    parts += list_kernels(context, links)
    # The entry of a class lists its members.
    inside = {s.id for s in classes}
    outside = [s for s in context.symbols[1:] if s.parent not in inside]
    functions = [s for s in outside if s.kind in _FUNCTIONS]
    if functions:
        parts.append("### Functions\n")
        parts += [_function(context, links, symbol, anchored) for symbol in functions]
    parts += _lists(context, links, outside, anchored)
    parts += _remarks(context, links)
    if context.bindings:
        parts.append(_bindings(context, links))
    if not parts:
        return "No definitions, notes or headings were found in this file.\n"
    return "\n".join(parts)


def _lists(context: Context, links: Links, symbols: list[Symbol], anchored: set[str]) -> list[str]:
    """A list per kind of the definitions that need no section of their own, and one list of the rest."""
    titled = [(title, [s for s in symbols if s.kind in kinds]) for title, kinds in _LISTED]
    titled.append(("Other definitions", [s for s in symbols if s.kind not in _TITLED]))
    return [
        f"### {title}\n\n" + "\n".join(_entry(context, links, s, anchored) for s in listed) + "\n"
        for title, listed in titled
        if listed
    ]


def _namespaces(context: Context, links: Links, anchored: set[str]) -> list[str]:
    """The namespaces, modules and packages of a file, each once with its first line."""
    spaces = [symbol for symbol in context.symbols[1:] if symbol.kind in ("namespace", "module", "package")]
    first = {symbol.qualified: symbol for symbol in reversed(spaces)}
    return [
        f"- {_anchor(symbol, anchored)}{code(symbol.qualified)} ({_line(context, links, symbol.line)})"
        for symbol in sorted(first.values(), key=lambda symbol: (symbol.line, symbol.qualified))
    ]


def _anchor(symbol: Symbol, anchored: set[str]) -> str:
    """The anchor of a symbol; overloads share that of the first."""
    name = slug(symbol.qualified)
    if name in anchored:
        return ""
    anchored.add(name)
    return f'<a id="{name}"></a>'


def _line(context: Context, links: Links, line: int) -> str:
    return link(f"line {line}", links.source(context.file.path, line))


def symbol_link(context: Context, links: Links, use: Use) -> str:
    """The other end of an edge: its name, linked to its page."""
    path = context.book.path(use.file)
    if not use.far & 0xFFFFF:
        return link(code(path), links.page(path) if use.file != context.file.id else "#")
    qualified = context.book.find_symbol(use.far).qualified
    anchor = slug(qualified)
    return link(code(qualified), "#" + anchor if use.file == context.file.id else links.page(path, anchor))


def place_link(context: Context, links: Links, use: Use) -> str:
    """File and line of a reference."""
    path = context.book.path(use.file)
    line = use.line or context.book.find_symbol(use.far).line
    return link(f"{escape(path.rpartition('/')[2])}:{line}", links.source(path, line))


def _doc(text: str, most: int = _DOC) -> str:
    text = text.strip()
    if not text:
        return ""
    if len(text) > most:
        text = text[:most].rsplit("\n", 1)[0] + "\n…"
    return fenced(text, "text") + "\n"


def _class(context: Context, links: Links, symbol: Symbol, anchored: set[str]) -> str:
    head = (
        f"#### {_anchor(symbol, anchored)}{symbol.kind} "
        f"{code(symbol.qualified)}\n\n{_line(context, links, symbol.line)}"
    )
    parts = [head]
    bases = context.uses_of(symbol.id, INHERITS)
    if bases:
        parts[0] += " · bases: " + ", ".join(symbol_link(context, links, use) for use in bases)
    elif symbol.bases:
        parts[0] += " · bases: " + code(symbol.bases)
    derived = [use for use in context.by_near.get(symbol.id, ()) if use.kind == INHERITS]
    if derived:
        shown = derived[:_CALLERS]
        more = f" and {len(derived) - len(shown)} more" if len(derived) > len(shown) else ""
        parts[0] += " · derived: " + ", ".join(symbol_link(context, links, use) for use in shown) + more
    parts[0] += "\n"
    if symbol.doc:
        parts.append(_doc(symbol.doc))
    parts += _custom_function(context, links, symbol)
    parts += _edges(context, links, symbol)
    members = [member for member in context.children.get(symbol.id, []) if member.kind not in _CLASSES]
    listed = [member for member in members if member.kind not in _FUNCTIONS or member.declaration]
    if listed:
        parts.append("\n".join(_member(context, links, member, anchored) for member in listed) + "\n")
    parts += [_function(context, links, member, anchored, 5) for member in members if member not in listed]
    return "\n".join(parts)


def _member(context: Context, links: Links, member: Symbol, anchored: set[str]) -> str:
    """A field or a declared method, in one line."""
    note = first_sentence(member.doc) if member.doc else ""
    defined = ""
    if member.twin:
        path = context.book.path(member.twin >> FILE_SHIFT)
        if path != context.file.path:
            defined = f" → {link('definition', links.page(path, slug(member.qualified)))}"
    return (
        f"- {_anchor(member, anchored)}{member.kind} {code(member.signature or member.name)} "
        f"({_line(context, links, member.line)}){defined}"
        + (f": {prose(note)}" if note else "")
        + _callers_inline(context, links, member)
    )


def _custom_function(context: Context, links: Links, symbol: Symbol) -> list[str]:
    """The `ctx` of a custom autograd function: the values that forward keeps and backward reads."""
    rows = [
        f"- {_line(context, links, line)}: {prose(detail)}"
        for line, section, rule, detail, local in context.findings
        if section == "pattern" and rule == CUSTOM_FUNCTION and local == symbol.local
    ]
    if not rows:
        return []
    return [
        f"**Custom autograd function**: callers use {code(symbol.name + '.apply')}; `forward` and `backward` share "
        "`ctx`.\n",
        "\n".join(rows) + "\n",
    ]


def _callers_inline(context: Context, links: Links, symbol: Symbol) -> str:
    sure = context.sure_uses.get(symbol.id, [])
    sure = [use for use in sure if use.certainty == CERTAIN] or sure
    if not sure:
        maybe = sum(use.kind != OVERRIDES for use in context.outside_uses.get(symbol.id, ()))
        return f" — {maybe} possible {'use' if maybe == 1 else 'uses'} elsewhere" if maybe else ""
    shown = ", ".join(f"{symbol_link(context, links, use)}" for use in sure[:3])
    more = f" and {len(sure) - 3} more" if len(sure) > 3 else ""
    return f" — {'used' if sure[0].certainty == CERTAIN else 'likely used'} by {shown}{more}"


def _function(context: Context, links: Links, symbol: Symbol, anchored: set[str], level: int = 4) -> str:
    end = f"–{symbol.end_line}" if symbol.end_line > symbol.line else ""
    facts = [
        link(
            f"lines {symbol.line}{end}" if end else f"line {symbol.line}", links.source(context.file.path, symbol.line)
        )
    ]
    if symbol.declaration:
        if symbol.twin and symbol.twin >> FILE_SHIFT == context.file.id:
            line = context.symbols[symbol.twin & 0xFFFFF].line
            facts.append("declared; defined at " + _line(context, links, line))
        elif symbol.twin:
            path = context.book.path(symbol.twin >> FILE_SHIFT)
            facts.append("declared; defined in " + link(code(path), links.page(path, slug(symbol.qualified))))
        else:
            facts.append("declared; no definition found in this tree")
    elif symbol.complexity > 1:
        facts.append(f"complexity {symbol.complexity}, nesting {symbol.nesting}")
    parts = [
        f"{'#' * level} {_anchor(symbol, anchored)}{code(symbol.qualified)}\n",
        " · ".join(facts) + "\n",
        fenced(symbol.signature or symbol.name, _signature_language(context)),
    ]
    if symbol.doc:
        parts.append(_doc(symbol.doc))
    parts += _edges(context, links, symbol)
    return "\n".join(parts)


def _signature_language(context: Context) -> str:
    return {"cuda": "cpp", "objc": "cpp", "starlark": "python"}.get(context.file.language, context.file.language)


def _edges(context: Context, links: Links, symbol: Symbol) -> list[str]:
    callers = [
        use
        for use in context.by_near.get(symbol.id, ())
        if use.far != symbol.id and use.kind not in (INHERITS, OVERRIDES)
    ]
    found = []
    for certainty in (CERTAIN, LIKELY, CANDIDATE):
        sure = [use for use in callers if use.certainty == certainty and use.kind != BINDS]
        if not sure:
            continue
        shown = ", ".join(
            f"{symbol_link(context, links, use)} ({place_link(context, links, use)})" for use in sure[:_CALLERS]
        )
        more = f" and {len(sure) - _CALLERS} more" if len(sure) > _CALLERS else ""
        found.append(f"{_title(symbol, certainty)}: {shown}{more}\n")
    bound = [use for use in callers if use.kind == BINDS]
    if bound:
        found.append(
            "Registered in "
            + ", ".join(
                f"{symbol_link(context, links, use)} ({place_link(context, links, use)})" for use in bound[:_CALLERS]
            )
            + "\n"
        )
    found += overrides(context, links, symbol)
    callees = [use for use in context.uses_of(symbol.id, CALLS) if use.far != symbol.id]
    for title, certainty in (("Calls", CERTAIN), ("Likely calls", LIKELY)):
        # Overloads, and the branches of an #if that define one macro, are one name to a reader.
        named = {
            context.book.find_symbol(use.far).qualified: use for use in reversed(callees) if use.certainty == certainty
        }
        if named:
            shown = ", ".join(symbol_link(context, links, use) for use in list(named.values())[:-13:-1])
            more = f" and {len(named) - 12} more" if len(named) > 12 else ""
            found.append(f"{title} {shown}{more}\n")
    return found


def _title(symbol: Symbol, certainty: int) -> str:
    """The words before the users of a symbol, which say how sure they are."""
    if certainty == LIKELY and symbol.kind == "operator":
        return f"Used by (an overload of {code(symbol.name.partition('.')[0])})"
    return {CERTAIN: "Used by", LIKELY: "Likely used by", CANDIDATE: "Perhaps used by"}[certainty]


def overrides(context: Context, links: Links, symbol: Symbol) -> list[str]:
    """The method that a method overrides, whose callers reach it, and the methods that override it."""
    found = []
    above = [use for use in context.outgoing_overrides if use.near == symbol.id]
    if above:
        shown = ", ".join(symbol_link(context, links, use) for use in above)
        found.append(f"Overrides {shown}: calls of that method can reach this one\n")
    below = [use for use in context.by_near.get(symbol.id, ()) if use.kind == OVERRIDES]
    if below:
        shown = ", ".join(symbol_link(context, links, use) for use in below[:_CALLERS])
        more = f" and {len(below) - _CALLERS} more" if len(below) > _CALLERS else ""
        found.append(f"Overridden by {shown}{more}\n")
    return found


def _entry(context: Context, links: Links, symbol: Symbol, anchored: set[str]) -> str:
    note = first_sentence(symbol.doc) if symbol.doc else ""
    text = (
        symbol.signature
        if symbol.kind in ("macro", "type", "variable", "constant", "field") and symbol.signature
        else symbol.qualified
    )
    if len(text) > 120:
        # The head of a table or an array says more than the beginning of its first row.
        head, initialised, _ = text.partition(" = {")
        text = head + " = { … }" if initialised and len(head) <= 120 else text[:120] + " …"
    return (
        f"- {_anchor(symbol, anchored)}{code(text)} ({_line(context, links, symbol.line)})"
        + (f": {prose(note)}" if note else "")
        + _callers_inline(context, links, symbol)
    )


def _remarks(context: Context, links: Links) -> list[str]:
    parts: list[str] = []
    notes = [row for row in context.remarks if row[1] == "note"]
    if notes:
        parts.append("### Notes\n")
        for line, _, title, text, _ in notes:
            parts.append(
                f"#### {escape('Note [ ' + title + ' ]')}\n\n{_line(context, links, line)}"
                f"{_list_referring(context, links, title)}\n\n{_doc(text, NOTE_LIMIT)}"
            )
    references = [row for row in context.remarks if row[1] == "note-reference"]
    if references:
        rows = []
        for line, _, title, _, _ in references:
            homes = context.book.note_homes(title)
            where = (
                ", ".join(link(code(f"{path}:{at}"), links.source(path, at)) for path, at in homes)
                or "no note of this title in the tree"
            )
            rows.append(f"- {_line(context, links, line)}: {escape('[' + title + ']')} → {where}")
        parts.append("### References to notes\n\n" + "\n".join(rows) + "\n")
    for title, kind in (
        ("Invariants stated in comments", "invariant"),
        ("TODO and FIXME", "todo"),
        ("Headings", "heading"),
    ):
        rows = [
            f"- {_line(context, links, line)}: "
            + (f"**{escape(head)}** " if head and kind == "todo" else "")
            + prose(text if kind != "heading" else head)
            for line, found, head, text, _ in context.remarks
            if found == kind
        ]
        if rows:
            parts.append(f"### {title}\n\n" + "\n".join(rows) + "\n")
    return parts


def _list_referring(context: Context, links: Links, title: str) -> str:
    places = context.book.note_references(title)
    if not places:
        return " · no file refers to it by title"
    shown = ", ".join(
        link(f"{escape(path.rpartition('/')[2])}:{line}", links.source(path, line)) for path, line in places[:20]
    )
    more = f" and {len(places) - 20} more" if len(places) > 20 else ""
    return f" · referred to at {shown}{more}"


def _bindings(context: Context, links: Links) -> str:
    # The getter and the setter of a property are one row of its table.
    behind: dict[tuple[int, str, str, str], list[str]] = {}
    own: dict[str, list[Symbol]] = {}
    for symbol in context.symbols[1:]:
        own.setdefault(symbol.name, []).append(symbol)
    for line, kind, exposed, target, owner, _ in context.bindings:
        if kind == "operator":
            continue  # its entry says so
        shown = code(target) if target else "a lambda"
        # A function of this file is linked; one from elsewhere stands as it is written.
        for symbol in own.get(target.rpartition("::")[2] if target else exposed, ()):
            if ("::" + symbol.qualified).endswith("::" + (target or exposed)):
                shown = link(shown, "#" + slug(symbol.qualified))
                break
        behind.setdefault((line, kind.partition(",")[0], exposed, owner), []).append(shown)
    rows = [
        f"- {_line(context, links, line)}: {code(exposed)} → {', '.join(targets)} ({kind}"
        + (f" in {code(owner)})" if owner not in ("", UNKNOWN) else ")")
        for (line, kind, exposed, owner), targets in behind.items()
    ]
    return "### Names registered for other languages\n\n" + "\n".join(rows) + "\n" if rows else ""
