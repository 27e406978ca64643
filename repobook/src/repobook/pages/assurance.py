"""Performance and safety: findings by weight, equal ones on one line with their count."""

from repobook.languages import C_FAMILY, title_of
from repobook.model.schema import BINDS
from repobook.pages.context import Context
from repobook.pages.markdown import Links, code, escape, link, slug
from repobook.pages.records import Symbol
from repobook.pages.testing import list_places
from repobook.pages.wording import count_of, join_words
from repobook.reading.generic_rules import RULES

_SHOWN = 12
_LINES = 8  # places of one finding that are linked

# Weights of the rules of safety. Those that run foreign code come first, then those that can corrupt memory or lose an
# error, then those that only say how the code works.
_HIGH = frozenset({
    "dynamic code", "unpickling", "shell command", "markup from text", "prototype", "yaml load", "unchecked size",
    "temporary file", "lock order",
})  # fmt: skip
_MIDDLE = frozenset({
    "subprocess", "process replacement", "raw memory", "unchecked conversion", "exception safety",
    "manual reference count",
})  # fmt: skip
_TITLES = ("Look at these first", "Worth a check", "For orientation")


def weight_of(rule: str) -> int:
    """0 for the findings to look at first, 2 for those that only describe."""
    if rule in _HIGH:
        return 0
    return 1 if rule in _MIDDLE else 2


def _heavy(context: Context) -> list[Symbol]:
    found = [s for s in context.symbols[1:] if s.complexity >= 10 or s.nesting >= 4]
    return sorted(found, key=lambda s: (-s.complexity, s.line))


def complex_functions(context: Context) -> list[Symbol]:
    """The functions that *Performance considerations* names."""
    return _heavy(context)[:_SHOWN]


def performance(context: Context, links: Links) -> str:
    parts: list[str] = []
    heavy = _heavy(context)
    if heavy:
        rows = [
            f"- {link(code(s.qualified), '#' + slug(s.qualified))}: complexity {s.complexity}, nesting {s.nesting} "
            f"({link(f'line {s.line}', links.source(context.file.path, s.line))})"
            for s in heavy[:_SHOWN]
        ]
        more = (
            f"\n- and {len(heavy) - _SHOWN} more with complexity of at least 10 or nesting of at least 4"
            if len(heavy) > _SHOWN
            else ""
        )
        parts.append("**Complex functions**:\n\n" + "\n".join(rows) + more + "\n")
    rows = _findings(context, links, "performance")
    if rows:
        parts.append("**Constructs**:\n\n" + "\n".join(rows) + "\n")
    benches = [
        use
        for uses in context.sure_uses.values()
        for use in uses
        if use.kind != BINDS and use.file in context.book.benchmarks
    ]
    if benches:
        parts.append("**Benchmarks that touch it**:\n\n" + list_places(context, links, benches))
    if parts:
        return "\n".join(parts)
    if not any(symbol.kind in ("function", "method", "test") for symbol in context.symbols):
        return "Nothing found: the file defines no function.\n"
    return (
        "Nothing found: no function of complexity 10 or nesting 4, no allocation, copy or lock in a loop, no blocking "
        "or parallel construct that the rules know.\n"
    )


def safety(context: Context, links: Links) -> str:
    rules = {row[2] for row in context.findings if row[1] == "safety"}
    parts = []
    for weight, title in enumerate(_TITLES):
        rows = _findings(context, links, "safety", {rule for rule in rules if weight_of(rule) == weight})
        if rows:
            parts.append(f"**{title}**:\n\n" + "\n".join(rows) + "\n")
    if parts:
        return "\n".join(parts)
    language = context.file.language
    if language in RULES or language in C_FAMILY or language == "python":
        return "No use of the constructs that the rules look for.\n"
    return f"Not looked for: there are no rules for {escape(title_of(language))}.\n"


def _findings(context: Context, links: Links, section: str, rules: set[str] | None = None) -> list[str]:
    """One line per different finding: its rule, number and places."""
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}
    names: dict[tuple[str, str], dict[str, None]] = {}  # the functions that findings of one kind name
    for line, found, rule, detail, local in context.findings:
        if found == section and (rules is None or rule in rules):
            name, colon, rest = detail.partition(": ")
            key = (rule, rest) if colon and name.isidentifier() else (rule, detail)
            groups.setdefault(key, []).append((line, local))
            if key[1] != detail:
                names.setdefault(key, {})[name] = None
    ordered = sorted(groups.items(), key=lambda row: (row[0][0] not in _HIGH, row[1][0][0]))
    rows = []
    for key, places in ordered:
        rule, detail = key
        named = f" by {join_words([code(name) for name in names[key]], 6)}" if key in names else ""
        title = escape(rule[:1].upper() + rule[1:])
        rows.append(f"- **{title}**: {escape(detail)}{named} ({_places(context, links, places)})")
    return rows


def _places(context: Context, links: Links, places: list[tuple[int, int]]) -> str:
    lines = list(dict.fromkeys(line for line, _ in places))
    linked = [link(str(line), links.source(context.file.path, line)) for line in lines]
    inside = list(
        dict.fromkeys(
            code(context.symbols[local].qualified) for _, local in places if context.symbols[local].kind != "file"
        )
    )
    within = f", in {join_words(inside, 3)}" if inside else ""
    if len(lines) == 1:
        return f"line {linked[0]}{within}"
    count = f"{count_of(len(places), 'place')}: " if len(places) > _LINES else ""
    return f"{count}lines {join_words(linked, _LINES)}{within}"
