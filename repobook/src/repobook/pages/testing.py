"""Testing & usage: the tests that use or reach a file, examples and call sites; and steps before a change."""

from collections import Counter

from repobook.history import choose_shown
from repobook.languages import C_FAMILY
from repobook.model.schema import BINDS, CALLS, CERTAIN, FILE_SHIFT, LIKELY
from repobook.pages.analysis import place_link, symbol_link
from repobook.pages.context import Context
from repobook.pages.markdown import Links, code, escape, fenced, link, slug
from repobook.pages.records import File, Symbol, Use
from repobook.pages.test_commands import commands_for
from repobook.pages.wording import count_of, join_words, plural
from repobook.reach import Reach, tests_of

_SHOWN = 12
_MOST_PLACES = 20
_MINOR = frozenset({"type", "namespace", "module", "package", "macro"})
_TEST_FILES = 5
# Reasons to list a file among the tests.
USED, BY_NAME = "they use it", "they use names like those that it defines"
REACHED, SAME_NAME = "they reach it through other code", "they have its name"


def list_places(context: Context, links: Links, uses: list[Use], most: int = _MOST_PLACES) -> str:
    """Uses of the file's symbols, one of each user; those of tests under the name of the test."""
    best = _choose_one_each(context, uses)
    rows = []
    for use in _spread_uses(context, best, most):
        near = context.symbols[use.near & 0xFFFFF]
        used = near.qualified or context.file.path.rpartition("/")[2]
        rows.append(
            f"- {_user(context, links, use)} ({place_link(context, links, use)}) → {code(used)}"
            + (" (likely)" if use.certainty == LIKELY else "")
        )
    more = f"\n- and {len(best) - len(rows)} more" if len(best) > len(rows) else ""
    return "\n".join(rows) + more + "\n"


def _user(context: Context, links: Links, use: Use) -> str:
    name = context.book.test_of(use.far)
    if not name or not use.far & 0xFFFFF:
        return symbol_link(context, links, use)
    return link(code(name), links.page(context.book.path(use.file), slug(name)))


def _key(context: Context, use: Use) -> tuple[int, str]:
    """The user as a reader sees it: a test, or another symbol."""
    return use.file, context.book.test_of(use.far) or str(use.far)


def _choose_one_each(context: Context, uses: list[Use]) -> list[Use]:
    """Of each user one use: of the symbol with the fewest uses, which says most about the user."""
    counts = Counter([use.near for use in uses])
    best: dict[tuple[int, str], Use] = {}
    for use in uses:
        key = _key(context, use)
        known = best.get(key)
        if known is None or counts[use.near] < counts[known.near]:
            best[key] = use
    return list(best.values())


def _spread_uses(context: Context, uses: list[Use], most: int) -> list[Use]:
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


def _list_sure_uses(context: Context) -> list[Use]:
    return [use for uses in context.sure_uses.values() for use in uses if use.kind != BINDS]


def tests_using(context: Context) -> list[Use]:
    """Uses of the file by tests. An alias that a test names says nothing about the classes and functions beside it,
    so aliases count only if there is nothing else."""
    if context.test_uses is None:
        tests = [use for use in _list_sure_uses(context) if context.book.is_test(use.far)]
        direct = [use for use in tests if context.symbols[use.near & 0xFFFFF].kind not in _MINOR]
        context.test_uses = direct or tests
    return context.test_uses


def list_tested(context: Context) -> list[Symbol]:
    """The symbols whose tests *Testing & usage* shows."""
    if context.file.test:
        return []
    near = {use.near for use in _spread_uses(context, _choose_one_each(context, tests_using(context)), _MOST_PLACES)}
    return [symbol for symbol in context.symbols[1:] if symbol.id in near]


def _reach_tests(context: Context, symbol: Symbol) -> Reach:
    """The nearest tests that reach one symbol of the file through other code."""
    book = context.book
    return tests_of([symbol.twin or symbol.id], book.callers, book.is_test, book.place)


def _list_own(context: Context) -> list[Symbol]:
    return [symbol for symbol in context.symbols[1:] if symbol.kind not in _MINOR]


def test_files(context: Context) -> tuple[list[tuple[File, int]], str]:
    """(file, number of tests) of the files with tests for this one, most tests first; and how they were found."""
    book = context.book
    if context.file.test:
        return [], ""
    uses = tests_using(context)
    certain = [use for use in uses if use.certainty == CERTAIN]
    if uses:
        counts = Counter(file for file, _ in {_key(context, use) for use in certain or uses})
        how = USED if certain else BY_NAME
    else:
        counts = Counter(test >> FILE_SHIFT for test, _ in context.reach.tests)
        how = REACHED
    if not counts:
        counts = Counter(dict.fromkeys(book.find_named_tests(context.file), 0))
        how = SAME_NAME
    ordered = sorted(counts.items(), key=lambda row: (-row[1], book.rank[row[0]]))
    return [(book.files[file], count) for file, count in ordered], how


def testing(context: Context, links: Links) -> str:
    book = context.book
    uses = _list_sure_uses(context)
    parts: list[str] = []
    if context.file.test:
        own = {name for symbol in context.symbols[1:] if (name := book.test_of(symbol.id))}
        if book.test_of(context.file.id << FILE_SHIFT):
            parts.append("This file is a test.\n")  # its tests have no names to count
        elif own:
            parts.append(f"This file is a test: {count_of(len(own), 'test function')}.\n")
    else:
        parts += _tests(context, links, uses)
    examples = [use for use in uses if use.file in book.examples and use.file not in book.tests]
    if examples:
        parts.append("**Examples**:\n\n" + list_places(context, links, examples))
    told = book.tests | book.examples
    calls = [use for use in uses if use.kind == CALLS and use.file not in told]
    if calls:
        parts.append(f"**Call sites** ({len({use.far for use in calls})}):\n\n" + list_places(context, links, calls))
    return "\n".join(parts) or "No test, example or call site outside this file was found by the names it defines.\n"


def _tests(context: Context, links: Links, uses: list[Use]) -> list[str]:
    parts: list[str] = []
    tests = tests_using(context)
    direct = [use for use in tests if context.symbols[use.near & 0xFFFFF].kind not in _MINOR]
    if not direct:
        parts += _list_reaching_tests(context, links, context.reach, "Tests that reach it")
    if tests:
        title = f"**Tests that use it** ({len({_key(context, use) for use in tests})}):\n\n"
        parts.append(title + list_places(context, links, tests, _MOST_PLACES if direct else 5))
    if direct:
        # Another language tests the functions that it calls, even if a test calls their neighbours by name.
        known = {use.near for use in direct}
        for symbol in _list_registered(context):
            if symbol.id not in known:
                found = _reach_tests(context, symbol)
                parts += _list_reaching_tests(context, links, found, f"Tests that reach {code(symbol.qualified)}", 4)
    own = context.own_tests
    if own:
        parts.append(f"**Its own tests**: {count_of(own, 'function')} in the module `tests` of this file.\n")
    helpers = [use for use in uses if use.file in context.book.tests and not context.book.test_of(use.far)]
    if helpers:
        names = dict.fromkeys(symbol_link(context, links, use) for use in sorted(helpers, key=context.place))
        parts.append(f"**Test code that is no test itself**: {join_words(list(names), 6)}.\n")
    return parts


def _list_registered(context: Context) -> list[Symbol]:
    """The functions that the file registers for another language and that code in that language calls."""
    if context.file.language not in C_FAMILY:
        return []
    bound = {use[0] for use in context.incoming if use[2] == BINDS}
    return [symbol for symbol in context.symbols[1:] if symbol.id in bound and symbol.id in context.sure_uses][:_SHOWN]


def _list_reaching_tests(context: Context, links: Links, reach: Reach, title: str, most: int = _SHOWN) -> list[str]:
    """Tests that reach the file through other code, if no test uses it directly."""
    if not reach.tests:
        given_up = f"{title}: none was found near; the search ends after six steps or 600 users.\n"
        return [] if reach.complete or not _list_own(context) else [given_up]
    rows = []
    named: dict[tuple[str, int], int] = {}  # test -> symbol of this file that it reaches
    for test, via in reach.tests:
        named.setdefault((context.book.test_of(test) or context.book.qualified(test), test >> FILE_SHIFT), via)
    for (name, file), via in list(named.items())[:most]:
        path = context.book.path(file)
        target = links.page(path, slug(name)) if name != path else links.page(path)
        through = context.book.qualified(via)
        rows.append(f"- {link(code(name), target)} ({escape(path.rpartition('/')[2])}), through {code(through)}")
    more = f"\n- and {len(named) - most} more" if len(named) > most else ""
    steps = "directly" if reach.distance == 1 else f"in {reach.distance} steps"
    return [f"**{title}**, {steps} ({len(named)}):\n\n" + "\n".join(rows) + more + "\n"]


def describe_change(context: Context, links: Links) -> str:
    """The files that depend on this one, the tests to run, and the files that changed with it."""
    parts = [_dependents(context, links), _tests_to_run(context, links), _companions(context, links)]
    found = [part for part in parts if part]
    return "\n".join(found) or "No file of this tree refers to it, and no test was found for it.\n"


def _dependents(context: Context, links: Links) -> str:
    users = context.users
    importers = {file for file, _ in context.importers if file != context.file.id}
    others = sorted(importers - users.keys(), key=context.book.rank.__getitem__)
    if not users and not others:
        return ""
    tests = context.book.tests
    sure = context.certain_users

    def order(row: tuple[int, dict[str, int]]) -> tuple[int, ...]:
        file, names = row
        return file in tests, file not in sure and file not in importers, -sum(names.values()), context.book.rank[file]

    ordered = sorted(users.items(), key=order)
    rows = []
    for file, names in ordered[:_SHOWN]:
        most = [code(name) for name, _ in sorted(names.items(), key=lambda row: (-row[1], row[0])) if name]
        places = count_of(sum(names.values()), "place")
        doubt = "" if file in sure or file in importers else ", by name only"
        rows.append(f"- {_file(context, links, file)}: {places}{doubt}" + (f" ({join_words(most, 4)})" if most else ""))
    rest = len(ordered) + len(others) - len(rows)
    for file in others[: max(0, _SHOWN - len(rows))]:
        rows.append(f"- {_file(context, links, file)}: imports it")
        rest -= 1
    if rest:
        rows.append(f"- and {count_of(rest, 'more file')}")
    total = len(users) + len(others)
    return f"**Depends on it** ({count_of(total, 'file')}):\n\n" + "\n".join(rows) + "\n"


def _file(context: Context, links: Links, file: int) -> str:
    path = context.book.path(file)
    return link(code(path), links.page(path) if context.book.has_page(file) else links.source(path))


def _tests_to_run(context: Context, links: Links) -> str:
    if context.file.test:
        commands = commands_for(context.book, [context.file])
        return "**Run it**:\n\n" + fenced("\n".join(commands), "bash") if commands else ""
    found, how = test_files(context)
    files = [file for file, _ in found[:_TEST_FILES]]
    if context.own_tests:
        files.insert(0, context.file)
    commands = commands_for(context.book, files)
    if not found and not commands:
        return ""
    rows = [
        f"- {_file(context, links, file.id)}" + (f": {count_of(count, 'test')}" if count else "")
        for file, count in found[:_TEST_FILES]
    ]
    if len(found) > _TEST_FILES:
        rows.append(f"- and {len(found) - _TEST_FILES} more {plural('file', len(found) - _TEST_FILES)}")
    reason = f" ({how})" if found else ""
    text = f"**Tests to run**{reason}:\n\n"
    if commands:
        text += fenced("\n".join(commands), "bash") + "\n"
    return text + "\n".join(rows) + ("\n" if rows else "")


def _companions(context: Context, links: Links) -> str:
    if context.history is None:
        return ""
    commits, _, _, _, authors, companions = context.history
    along = [(path, count) for path, count in choose_shown(authors, companions)[1] if path in context.book.by_path]
    if not along:
        return ""
    rows = [
        f"- {_file(context, links, context.book.by_path[path].id)}: in {count} of {count_of(commits, 'change')}"
        for path, count in along
    ]
    return "**Changed with it before**:\n\n" + "\n".join(rows) + "\n"
