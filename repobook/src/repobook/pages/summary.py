"""The first paragraph of a file's page: its purpose, main types, users, foundations and tests, in sentences."""

from collections import Counter
from collections.abc import Iterable, Sequence

from repobook.languages import SOURCES, title_of
from repobook.model.schema import CERTAIN, FILE_SHIFT, INHERITS
from repobook.pages.context import Context
from repobook.pages.kernels import kernels_of
from repobook.pages.markdown import Links, code, escape, link, prose, slug
from repobook.pages.records import SPACES, TELLING, Symbol
from repobook.pages.testing import BY_NAME, REACHED, SAME_NAME, test_files
from repobook.pages.wording import count_of, join_words, opening_sentence

_CLASSES = ("class", "struct", "union", "interface", "trait", "enum", "object")
_FUNCTIONS = ("function", "method", "binding", "registration")
# Names that many files share; the folder tells them apart.
_SHARED = frozenset({"__init__", "index", "mod", "lib", "main", "utils", "types", "README", "CMakeLists", "BUILD"})
_NAMED = 3
# Derived purposes that say more than the sentences about types, functions and tests.
_TELLING_PURPOSES = ("Binds ", "Registers ", "Table of ")


def summary(context: Context, links: Links) -> str:
    """One paragraph about a file, as a colleague would introduce it."""
    if context.file.status != "ok":
        return _describe_unparsed(context)
    sentences = [_purpose(context, links)]
    if any(symbol.kind in _CLASSES or symbol.kind in _FUNCTIONS for symbol in context.symbols):
        sentences += [
            _main_parts(context), _definitions(context, links), _launches(context), _users(context, links),
            _foundations(context, links), _tests(context, links),
        ]  # fmt: skip
    else:
        sentences += [_derive_from_contents(context) if not sentences[0] else "", _users(context, links)]
    return " ".join(sentence for sentence in sentences if sentence) + "\n"


def file_label(path: str, others: Iterable[str] = ()) -> str:
    """The name of a file as a sentence names it; with its folder if many files or one of the others have that name."""
    folder, _, name = path.rpartition("/")
    is_shared = name.partition(".")[0] in _SHARED or any(
        other != path and other.rpartition("/")[2] == name for other in others
    )
    return f"{folder.rpartition('/')[2]}/{name}" if is_shared and folder else name


def _link_files(context: Context, links: Links, files: Sequence[int]) -> list[str]:
    """Links to files that one sentence names."""
    paths = [context.book.path(file) for file in files]
    others = [*paths, context.file.path]
    return [
        link(code(file_label(path, others)), links.page(path) if context.book.has_page(file) else links.source(path))
        for file, path in zip(files, paths, strict=True)
    ]


def _symbol(symbol: Symbol) -> str:
    return link(code(symbol.name), "#" + slug(symbol.qualified))


def _describe_unparsed(context: Context) -> str:
    if context.book.states_purpose(context.file):
        return prose(opening_sentence(context.file.purpose)) + "\n"
    return f"{escape(title_of(context.file.language))} file of {context.file.size:,} bytes.\n"


def _purpose(context: Context, links: Links) -> str:
    """Statement of the file, its header or its main type about the file; '' if there is none."""
    file = context.file
    if context.book.states_purpose(file):
        about = next((s for s in context.symbols[1:] if s.qualified == file.origin), None)
        home = f"Home of {_symbol(about)}: " if about is not None else ""
        return home + _sentence(opening_sentence(file.purpose))
    if file.purpose.startswith(_TELLING_PURPOSES):
        return _sentence(file.purpose)
    if file.test:
        return _describe_test(context)
    for sibling in context.book.siblings(context.file):
        header = context.book.files[sibling]
        if context.book.states_purpose(header) and _implements(context, sibling):
            said = _sentence(opening_sentence(header.purpose))
            return f"Implements {_link_files(context, links, [sibling])[0]}: {said}"
    for symbol in top_symbols(context, _CLASSES)[:1]:
        said = opening_sentence(symbol.doc)
        if said:
            return f"Home of {_symbol(symbol)}: {_sentence(said)}"
    return ""


def _sentence(said: str) -> str:
    """Words of an author as a sentence: a capital at its beginning, a mark at its end."""
    if said[:1].isalpha() and " " in said and said.partition(" ")[0].islower():
        said = said[:1].upper() + said[1:]
    return prose(said) + ("" if said.endswith((".", "!", "?", ":", "…")) else ".")


def _implements(context: Context, header: int) -> bool:
    """True if another file declares functions that this one defines."""
    rows = context.book.db.execute(
        "SELECT 1 FROM symbols WHERE id>? AND id<? AND twin>? AND twin<? LIMIT 1",
        (header << FILE_SHIFT, (header + 1) << FILE_SHIFT, *context.range),
    )
    return rows.fetchone() is not None


def top_symbols(context: Context, kinds: tuple[str, ...]) -> list[Symbol]:
    """The definitions of some kinds that stand at the top of the file, the most used first; each name once."""
    places = {symbol.qualified: count for symbol, count, _ in context.most_used}
    found: dict[str, Symbol] = {}
    for symbol in context.symbols[1:]:
        if symbol.kind in kinds and context.symbols[symbol.parent & 0xFFFFF].kind in (*SPACES, "impl"):
            found.setdefault(symbol.qualified, symbol)
    members = Counter(symbol.parent for symbol in context.symbols[1:])
    return sorted(
        found.values(),
        key=lambda s: (s.declaration, -places.get(s.qualified, 0), -members[s.id], -s.complexity, s.line),
    )


def _describe_test(context: Context) -> str:
    book = context.book
    if book.test_of(context.file.id << FILE_SHIFT):
        count = ""  # tests without names cannot be counted
    else:
        tests = {name for symbol in context.symbols[1:] if (name := book.test_of(symbol.id))}
        if not tests:
            return "Part of the tests; no test was recognized in it."
        count = f": {count_of(len(tests), 'test')}"
    used = _rank_used_files(context)
    imported = {target for *_, target in context.imports}
    subjects = [file for file in book.find_subjects(context.file) if file in used or file in imported]
    subjects.sort(key=lambda file: (-used[file], book.rank[file]))
    if subjects:
        return f"Tests of {_name_files(context, subjects[:2])}{count}."
    most = [file for file, _ in used.most_common(2)]
    return f"Tests{count}." + (f" They use {_name_files(context, most)} most." if most else "")


def _rank_used_files(context: Context) -> Counter[int]:
    """The files that a test certainly uses, with the number of places, most first. Namespaces are no part of a file."""
    weight: Counter[int] = Counter()
    for use in context.outgoing:
        is_other = use.file != context.file.id and use.file not in context.book.tests
        if is_other and use.certainty == CERTAIN and not context.is_space(use.far):
            weight[use.file] += use.times
    return Counter(dict(sorted(weight.items(), key=lambda row: (-row[1], context.book.rank[row[0]]))))


def _name_files(context: Context, files: list[int]) -> str:
    paths = [context.book.path(file) for file in files]
    return join_words([code(file_label(path, paths)) for path in paths])


def _derive_from_contents(context: Context) -> str:
    """A file without types and functions: its headings, keys or constants."""
    headings = [title for _, kind, title, _, _ in context.remarks if kind == "heading"]
    title = escape(title_of(context.file.language))
    if headings:
        return f"{title[:1].upper() + title[1:]} text: “{prose(headings[0])}”, {count_of(len(headings), 'section')}."
    keys = [
        symbol
        for symbol in context.symbols[1:]
        if symbol.kind not in (*SPACES, "field") and context.symbols[symbol.parent & 0xFFFFF].kind in SPACES
    ]
    if keys:
        names = list(dict.fromkeys(code(symbol.name) for symbol in keys))
        kind = f"{title[:1].upper() + title[1:]} file"
        return f"{kind} with {join_words(names, 6)}."
    return f"{title[:1].upper() + title[1:]} file of {count_of(context.file.lines, 'line')}."


def _main_parts(context: Context) -> str:
    """The types of a file, or its functions; the most used of many."""
    if context.file.test:
        return ""
    implemented = _find_implemented_types(context)
    classes = top_symbols(context, _CLASSES)
    shown = classes or [symbol for symbol in top_symbols(context, _FUNCTIONS) if symbol.kind != "method"]
    if implemented and not any(context.sure_uses.get(symbol.id) for symbol in classes):
        return f"It defines the methods of {join_words([f'`{name}`' for name in implemented], 3)}."
    if not shown:
        return ""
    if len(shown) == 1 and shown[0].qualified == context.file.origin:
        return ""  # the first sentence names it
    kind = "type" if classes else "function"
    names = list(dict.fromkeys(_symbol(symbol) for symbol in shown))
    if len(names) == 1:
        return f"Its {kind} is {names[0]}."
    chosen = names[: _NAMED if classes else _NAMED + 1]
    if len(chosen) == len(names):
        return f"Its {kind}s are {join_words(chosen)}."
    return f"Of its {len(names)} {kind}s, the main ones are {join_words(chosen)}."


def _find_implemented_types(context: Context) -> list[str]:
    """The types whose methods the file defines outside of them, if these are most of its functions."""
    owners: Counter[str] = Counter()
    functions = 0
    for symbol in context.symbols[1:]:
        if symbol.kind not in _FUNCTIONS or symbol.declaration:
            continue
        functions += 1
        above = context.symbols[symbol.parent & 0xFFFFF]
        owner = symbol.qualified[: -len(symbol.name)].rstrip(".:")
        if symbol.kind == "method" and above.kind in SPACES and owner != above.qualified:
            owners[owner.rpartition("::")[2].rpartition(".")[2]] += 1
    if not owners or sum(owners.values()) * 2 < functions:
        return []
    return [name for name, _ in sorted(owners.items(), key=lambda row: (-row[1], row[0]))]


def _definitions(context: Context, links: Links) -> str:
    """The files with the definitions of a header's declarations."""
    if context.file.path.endswith(SOURCES):
        return ""
    counts = Counter(symbol.twin >> FILE_SHIFT for symbol in context.symbols if symbol.twin)
    counts.pop(context.file.id, None)
    homes = sorted(counts, key=lambda file: (-counts[file], context.book.rank[file]))[:2]
    return f"The definitions stand in {join_words(_link_files(context, links, homes))}." if homes else ""


def _launches(context: Context) -> str:
    kernels = kernels_of(context)
    if not kernels:
        return ""
    names = list(dict.fromkeys(_symbol(symbol) for symbol in kernels))
    return f"It runs on the GPU by the {'kernel' if len(names) == 1 else 'kernels'} {join_words(names, 4)}."


def _users(context: Context, links: Links) -> str:
    """The files that use this one, tests aside."""
    if context.file.test:
        return ""
    hidden = context.book.tests | set(context.book.siblings(context.file))
    users = {file: places for file, places in context.certain_users.items() if file not in hidden}
    if not users:
        importers = [file for file, _ in context.importers if file not in hidden and file != context.file.id]
        users = dict.fromkeys(importers, 1)
        if not users:
            return "It is an entry point: it defines `main`." if _has_main(context) else ""
    ordered = sorted(users, key=lambda file: (-users[file], context.book.rank[file]))
    names = _link_files(context, links, ordered[:_NAMED])
    if len(ordered) > _NAMED:
        return f"{len(ordered)} files use it, most of all {join_words(names)}."
    return f"{join_words(names)} {'uses' if len(names) == 1 else 'use'} it."


def _has_main(context: Context) -> bool:
    return any(symbol.name == "main" and symbol.kind == "function" for symbol in context.symbols)


def _foundations(context: Context, links: Links) -> str:
    """The files that this one calls most, with the names it uses."""
    if context.file.test:
        return ""
    hidden = {context.file.id, *context.book.tests, *context.book.siblings(context.file)}
    weight: Counter[int] = Counter()
    names: dict[int, Counter[tuple[bool, str]]] = {}
    seen: set[tuple[int, str]] = set()
    for use in context.outgoing:
        named = context.book.find_symbol(use.far)
        if use.file in hidden or use.certainty != CERTAIN or named.kind in SPACES:
            continue
        last = named.short_name
        if (use.near, named.qualified) in seen:
            continue  # another overload
        seen.add((use.near, named.qualified))
        weight[use.file] += use.times + (3 if use.kind == INHERITS else 0)
        names.setdefault(use.file, Counter())[named.kind in TELLING, last] += use.times
    ordered = sorted(weight, key=lambda file: (-weight[file], context.book.rank[file]))[:_NAMED]
    if not ordered:
        return ""
    shown = [
        f"{linked} ({', '.join(code(name) for name in _choose_names(names[file]))})"
        for file, linked in zip(ordered, _link_files(context, links, ordered), strict=True)
    ]
    return f"It builds on {join_words(shown)}."


def _choose_names(names: Counter[tuple[bool, str]]) -> list[str]:
    """The two names that say most: types and functions before members, often used ones before others."""
    ordered = sorted(names.items(), key=lambda row: (not row[0][0], -row[1], row[0][1]))
    return list(dict.fromkeys(name for (_, name), _ in ordered))[:2]


def _tests(context: Context, links: Links) -> str:
    if context.file.test:
        return ""
    found, how = test_files(context)
    if context.own_tests and (not found or how in (BY_NAME, SAME_NAME)):
        return "The file tests itself."
    if not found:
        return ""
    names = _link_files(context, links, [file.id for file, _ in found[:2]])
    more = f" and {len(found) - 2} more" if len(found) > 2 else ""
    verb = "test" if len(found) > 1 else "tests"
    if how == SAME_NAME:
        return f"{join_words(names)}{more} {'have' if len(found) > 1 else 'has'} its name among the tests."
    subject = f"{', '.join(names) if more else join_words(names)}{more}"
    if how == BY_NAME:
        return f"{subject} {'use names' if len(found) > 1 else 'uses names'} like those that it defines."
    return f"{subject} {verb} it{' through other code' if how == REACHED else ''}."
