"""The pages of the whole tree: index.md, keywords.md with its groups, comprehensive_book.md.

Keywords are grouped by their first two letters: a page per group stays small enough for a reader and for a renderer,
and a change rewrites only the groups of the names that it touches.
"""

from collections import Counter

from repobook.model import store
from repobook.model.schema import FILE_SHIFT
from repobook.naming import group_of
from repobook.pages import chapters
from repobook.pages.book_facts import Book
from repobook.pages.concepts import concept_page, shared_terms
from repobook.pages.folder import index_parts, last_name
from repobook.pages.markdown import Links, code, escape, link, slug
from repobook.pages.records import SPACES, Keyword
from repobook.pages.wording import plural

_TERMS = 40


def group_page(group: str) -> str:
    # `keywords_kw.md` is the keyword page of a file called `keywords`.
    return f"keywords_{group}.md" if group != "kw" else "keywords_kw-.md"


def top_index(book: Book, title: str, links: Links, root: str) -> str:
    introduction = chapters.introduction(book, "", links, root)
    files = len(book.files)
    paged = sum(book.has_page(file) for file in book.files)
    read = sum(file.status in ("ok", "large") for file in book.files.values())
    symbols = book.db.execute("SELECT COUNT(*) FROM symbols").fetchone()[0] - read  # each has a symbol for itself
    head = (
        f"# {escape(title)}\n\n{''.join(text + chr(10) for text in introduction)}"
        f"{files:,} {plural('file', files)}, {paged:,} with a page, {symbols:,} {plural('symbol', symbols)}.\n\n"
        f"- {link('The book', 'comprehensive_book.md')}: what it is, its parts, the files to read first\n"
        f"- {link('Keywords, A to Z', 'keywords.md')}\n"
        + (f"- {link('Concepts', 'concepts.md')}\n" if shared_terms(book) else "")
        + f"- {link('What the repository is', 'doc.md')}\n- {link('Keywords by folder', 'sub.md')}\n\n"
    )
    return head + "\n".join(index_parts(book, "", links))


def group_counts(book: Book) -> Counter[str]:
    """Number of different names in each group."""
    return Counter(group_of(row[0]) for row in book.db.execute("SELECT DISTINCT name FROM symbols WHERE kind<>'file'"))


def keyword_page(counts: Counter[str], book: Book, links: Links) -> str:
    """keywords.md: the groups, and the names that other files use most."""
    parts = ["# Keywords, A to Z\n", f"{link('Index', 'index.md')}\n"]
    letters: dict[str, list[str]] = {}
    for group in sorted(counts):
        letters.setdefault(group[0].upper() if group[0].isalpha() else "#", []).append(group)
    most: dict[str, list[Keyword]] = {}
    rows = book.db.execute(
        f"SELECT id, qualified, kind, uses FROM symbols WHERE uses>0 AND kind NOT IN {SPACES} "
        "ORDER BY uses DESC, qualified LIMIT 800"
    )
    for row in store.records(Keyword, rows):
        first = group_of(last_name(row.qualified))[0].upper()
        most.setdefault(first if first.isalpha() else "#", []).append(row)
    for letter in sorted(letters):
        groups = ", ".join(f"{link(group, group_page(group))} ({counts[group]:,})" for group in letters[letter])
        parts.append(f"## {letter}\n\n{groups}\n")
        used = sorted(most.get(letter, []), key=lambda row: (row.qualified.lower(), *book.by_uses(row)))
        if used:
            parts.append(
                "Used most:\n\n"
                + "\n".join(_line(book, links, row.qualified, row.kind, [row.id], row.uses) for row in used)
                + "\n"
            )
    if len(parts) == 2:
        parts.append("The tree defines no identifiers.\n")
    return "\n".join(parts)


def _line(book: Book, links: Links, qualified: str, kind: str, ids: list[int], uses: int) -> str:
    anchor = slug(qualified)
    files = list(dict.fromkeys(symbol >> FILE_SHIFT for symbol in ids))
    shown = ", ".join(link(escape(book.path(file)), links.page(book.path(file), anchor)) for file in files[:3])
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return f"- {code(qualified)} ({kind}): {shown}{more}" + (f", {uses} {plural('use', uses)}" if uses else "")


def group_text(book: Book, group: str, names: list[str], links: Links) -> str:
    """The page of one group: its names merged by definition, with how often other files use them."""
    found: dict[str, list[tuple[str, int, int, int, str, int]]] = {}
    rank = book.rank
    for start in range(0, len(names), 500):
        some = names[start : start + 500]
        query = f"SELECT name, id, qualified, kind, uses FROM symbols WHERE name IN ({','.join('?' * len(some))})"
        for name, symbol, qualified, kind, uses in book.db.execute(query + " AND kind<>'file'", some):
            row = (qualified, rank[symbol >> FILE_SHIFT], symbol & 0xFFFFF, symbol, kind, uses)
            found.setdefault(name, []).append(row)
    merged: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for name in names:
        for qualified, _, _, symbol, kind, uses in sorted(found.get(name, ())):
            ids, counts = merged.setdefault((qualified, kind), ([], []))
            ids.append(symbol)
            counts.append(uses)
    lines = [_line(book, links, *key, ids, sum(counts)) for key, (ids, counts) in merged.items()]
    return f"# Keywords: {escape(group)}\n\n{link('All groups', 'keywords.md')}\n\n" + "\n".join(lines) + "\n"


def names_by_group(book: Book) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for (name,) in book.db.execute("SELECT DISTINCT name FROM symbols WHERE kind<>'file' ORDER BY name"):
        found.setdefault(group_of(name), []).append(name)
    for names in found.values():
        names.sort(key=lambda name: (name.lstrip("_~").lower(), name))
    return found


def book_page(book: Book, title: str, links: Links, root: str) -> str:
    """comprehensive_book.md: the tree in chapters."""
    numbered: list[tuple[str, list[str]]] = [
        ("What it is", _what_it_is(book, links, root)),
        ("Entry points", [_join_rows(chapters.entry_points(book, "", links))]),
        ("Ten files to read first", [_join_rows(chapters.files_to_read(book, "", links))]),
        ("The parts", chapters.part_chapter(book, "", links)),
        ("How the parts depend on each other", [chapters.picture(book, "")]),
        ("The words of the project", [_words(book)]),
        ("Titled notes", [_notes(book, links)]),
    ]
    found = [(name, [text for text in texts if text.strip()]) for name, texts in numbered]
    found = [(name, texts) for name, texts in found if texts]
    head = [f"# {escape(title)}: the book\n", f"{link('Index', 'index.md')} · {link('keywords', 'keywords.md')}\n"]
    titles = [f"{at}. {name}" for at, (name, _) in enumerate(found, 1)]
    head.append(_join_rows([f"- {link(title, '#' + heading_anchor(title))}" for title in titles]))
    chapter_texts = [[f"## {title}\n", *texts] for title, (_, texts) in zip(titles, found, strict=True)]
    return "\n".join(head + [text for texts in chapter_texts for text in texts])


def heading_anchor(title: str) -> str:
    """The anchor of one of our headings, as GitHub and the site make it."""
    return "".join(char for char in title.lower() if char.isalnum() or char in "- _").replace(" ", "-")


def _join_rows(rows: list[str]) -> str:
    return "\n".join(rows) + "\n" if rows else ""


def _what_it_is(book: Book, links: Links, root: str) -> list[str]:
    size = chapters.describe_size(list(book.files.values()))
    tests = sum(bool(file.test) for file in book.files.values())
    tested = f" {tests:,} of the files {'is a test' if tests == 1 else 'are tests'}." if tests else ""
    return [*chapters.introduction(book, "", links, root), f"{size[:1].upper() + size[1:]}.{tested}\n"]


def _words(book: Book) -> str:
    files = shared_terms(book)
    often = sorted(files, key=lambda term: (-files[term], term))[:_TERMS]
    if not often:
        return ""
    named = ", ".join(f"{link(escape(term), concept_page(term) + '#' + slug(term))} ({files[term]})" for term in often)
    all_of_them = link("All concepts", "concepts.md")
    return f"Terms that the comments of most files repeat, with the number of files: {named}. {all_of_them}.\n"


def _notes(book: Book, links: Links) -> str:
    notes = book.db.execute(
        "SELECT title, file, line FROM remarks WHERE kind='note' ORDER BY title COLLATE NOCASE"
    ).fetchall()
    notes.sort(key=lambda row: (row[0].lower(), book.rank[row[1]], row[2]))
    return _join_rows(
        [
            f"- {link(escape(note), links.page(book.path(file), 'notes'))} "
            f"({link(escape(book.path(file)), links.source(book.path(file), line))})"
            for note, file, line in notes
        ]
    )
