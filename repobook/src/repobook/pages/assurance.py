"""Performance, safety and testing: findings with their rules and lines, and the tests that reach the file."""

from collections import Counter
from collections.abc import Callable

from repobook.languages import C_FAMILY, title_of
from repobook.model.schema import BINDS, CALLS, FILE_SHIFT
from repobook.pages.analysis import place_link, symbol_link
from repobook.pages.context import Context, Symbol, Use
from repobook.pages.markdown import Links, code, escape, link, slug
from repobook.reach import tests_of
from repobook.reading.generic_rules import RULES

_SHOWN = 12
_MOST_PLACES = 20
_MINOR = frozenset({"type", "namespace", "module", "package", "macro"})


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
    parts += _findings(context, links, "performance")
    benches = _reaching(context, context.book.benchmarks.__contains__)
    if benches:
        parts.append("**Benchmarks that touch it**:\n\n" + _places(context, links, benches))
    if parts:
        return "\n".join(parts)
    if not any(symbol.kind in ("function", "method", "test") for symbol in context.symbols):
        return "Nothing found: the file defines no function.\n"
    return (
        "Nothing found: no function of complexity 10 or nesting 4, no allocation, copy or lock in a loop, no blocking "
        "or parallel construct that the rules know.\n"
    )


def safety(context: Context, links: Links) -> str:
    found = "\n".join(_findings(context, links, "safety"))
    language = context.file.language
    if found or language in RULES or language in C_FAMILY or language == "python":
        return found or "No use of the constructs that the rules look for.\n"
    return f"Not looked for: there are no rules for {escape(title_of(language))}.\n"


def _findings(context: Context, links: Links, section: str) -> list[str]:
    found = [row for row in context.findings if row[1] == section]
    parts = []
    for rule in dict.fromkeys(row[2] for row in found):
        rows = [row for row in found if row[2] == rule]
        shown = "\n".join(
            f"- {link(f'line {line}', links.source(context.file.path, line))}: {escape(detail)}"
            + _inside(context, local)
            for line, _, _, detail, local in rows[:_SHOWN]
        )
        more = f"\n- and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        parts.append(f"**{escape(rule[:1].upper() + rule[1:])}** ({len(rows)}):\n\n{shown}{more}\n")
    return parts


def _inside(context: Context, local: int) -> str:
    symbol = context.symbols[local]
    return f", in {code(symbol.qualified)}" if symbol.kind != "file" else ""


def _reaching(context: Context, wanted: Callable[[int], bool]) -> list[Use]:
    return [use for uses in context.sure_uses.values() for use in uses if use.kind != BINDS and wanted(use.file)]


def _places(context: Context, links: Links, uses: list[Use], most: int = _MOST_PLACES) -> str:
    best = _one_each(uses)
    rows = []
    for use in _chosen(context, best, most):
        near = context.symbols[use.near & 0xFFFFF]
        rows.append(
            f"- {symbol_link(context, links, use)} ({place_link(context, links, use)}) → {code(near.qualified)}"
            + (" (by name only)" if use.certainty == 2 else "")
        )
    more = f"\n- and {len(best) - len(rows)} more" if len(best) > len(rows) else ""
    return "\n".join(rows) + more + "\n"


def _one_each(uses: list[Use]) -> list[Use]:
    """Of each user one use: of the symbol that the fewest use, which says most about the user."""
    counts = Counter([use.near for use in uses])
    best: dict[int, Use] = {}
    for use in uses:
        known = best.get(use.far)
        if known is None or counts[use.near] < counts[known.near]:
            best[use.far] = use
    return list(best.values())


def _chosen(context: Context, uses: list[Use], most: int) -> list[Use]:
    """Of many uses, some of each symbol before more of the same; in order of place."""
    ordered = sorted(uses, key=context.place)
    if len(ordered) <= most:
        return ordered
    turns: dict[int, int] = {}
    ranked = []
    for at, use in enumerate(ordered):
        turn = turns[use.near] = turns.get(use.near, -1) + 1
        ranked.append((turn, at))
    return [ordered[at] for at in sorted(at for _, at in sorted(ranked)[:most])]


def _direct(context: Context, uses: list[Use]) -> list[Use]:
    """Of the uses in tests, those that say what is tested: an alias that a test names too says nothing about the
    classes and functions beside it."""
    return [use for use in uses if context.symbols[use.near & 0xFFFFF].kind not in _MINOR]


def tested(context: Context) -> list[Symbol]:
    """The symbols whose tests *Testing & usage* shows."""
    if context.file.test:
        return []
    tests = _one_each(_direct(context, _reaching(context, context.book.tests.__contains__)))
    near = {use.near for use in _chosen(context, tests, _MOST_PLACES)}
    return [symbol for symbol in context.symbols[1:] if symbol.id in near]


def testing(context: Context, links: Links) -> str:
    tests_of = context.book.tests
    uses = [use for uses in context.sure_uses.values() for use in uses if use.kind != BINDS]
    tests = [use for use in uses if use.file in tests_of]
    parts: list[str] = []
    if not context.file.test:
        direct = _direct(context, tests)
        if direct:
            tests = direct
        else:
            own = [s for s in context.symbols[1:] if s.kind not in _MINOR]
            parts += _reached(context, links, own, "Tests that reach it")
        if tests:
            title = f"**Tests that use it** ({len({use.far for use in tests})}):\n\n"
            parts.append(title + (_places(context, links, tests) if direct else _places(context, links, tests, 5)))
        if direct:
            # What another language calls is tested from there, even where a test calls its neighbour by name.
            known = {use.near for use in direct}
            parts += [
                part
                for symbol in _registered(context)
                if symbol.id not in known
                for part in _reached(context, links, [symbol], f"Tests that reach {code(symbol.qualified)}", 4)
            ]
    examples = [use for use in uses if use.file in context.book.examples]
    if examples:
        parts.append("**Examples**:\n\n" + _places(context, links, examples))
    told = tests_of | context.book.examples
    calls = [use for use in uses if use.kind == CALLS and use.file not in told]
    if calls:
        parts.append(f"**Call sites** ({len({use.far for use in calls})}):\n\n" + _places(context, links, calls))
    if context.file.test:
        own = [s for s in context.symbols[1:] if s.kind == "test" or s.name.startswith("test")]
        if own:
            parts.insert(0, f"This file is a test: {len(own)} test functions.\n")
    return "\n".join(parts) or "No test, example or call site outside this file was found by the names it defines.\n"


def _registered(context: Context) -> list[Symbol]:
    """The functions that the file registers for another language and that somebody there calls."""
    if context.file.language not in C_FAMILY:
        return []
    bound = {use[0] for use in context.incoming if use[2] == BINDS}
    return [symbol for symbol in context.symbols[1:] if symbol.id in bound and symbol.id in context.sure_uses][:_SHOWN]


def _reached(context: Context, links: Links, symbols: list[Symbol], title: str, most: int = _SHOWN) -> list[str]:
    """Tests that reach some symbols of the file through other code, where none uses them directly."""
    own = [symbol.twin or symbol.id for symbol in symbols]
    reach = tests_of(own, context.book.callers, context.book.tests, context.book.place)
    if not reach.tests:
        given_up = f"{title}: none was found near; the search ends after six steps or 600 users.\n"
        return [] if reach.complete or not own else [given_up]
    rows = []
    # Functions of one name inside a test (two branches that define `fn`) are one to a reader.
    named = {(context.book.qualified(test), test >> FILE_SHIFT): (test, via) for test, via in reversed(reach.tests)}
    tests = list(named.values())[::-1]
    for test, via in tests[:most]:
        path = context.book.path(test >> FILE_SHIFT)
        name, through = context.book.qualified(test), context.book.qualified(via)
        target = links.page(path, slug(name)) if test & 0xFFFFF else links.page(path)
        rows.append(f"- {link(code(name), target)} ({escape(path.rpartition('/')[2])}), through {code(through)}")
    more = f"\n- and {len(tests) - most} more" if len(tests) > most else ""
    steps = "directly" if reach.distance == 1 else f"in {reach.distance} steps"
    return [f"**{title}**, {steps} ({len(tests)}):\n\n" + "\n".join(rows) + more + "\n"]
