"""The concepts of the tree: terms that the comments of several files repeat, and the files that speak of each most.

Terms and the number of their files are those of the last full build, so that an entry stays where pages link to it.
"""

from heapq import nsmallest

from repobook.pages.book_facts import Book
from repobook.pages.markdown import Links, escape, link, slug

# A term in fewer files than this stands on their own pages only.
SHARED = 3
_NAMED = 6
_FIRST = 120


def concept_page(term: str) -> str:
    """The page of the concepts with the same first letter."""
    first = term[:1].lower()
    return f"concepts_{first if first.isascii() and first.isalpha() else '0'}.md"


def shared_terms(book: Book) -> dict[str, int]:
    """The terms that have an entry, with the number of files that repeat each."""
    return dict(book.db.execute("SELECT term, files FROM terms WHERE files>=? ORDER BY term", (SHARED,)))


def concept_names(book: Book) -> set[str]:
    """The names of the pages."""
    found = {concept_page(term) for term in shared_terms(book)}
    return found | {"concepts.md"} if found else found


def concept_pages(book: Book, links: Links) -> dict[str, str]:
    """concepts.md, which leads to a page per letter; none where no term is shared."""
    files = shared_terms(book)
    places: dict[str, list[tuple[int, int, int, int]]] = {term: [] for term in files}
    for term, file, count, line in book.db.execute("SELECT term, file, count, line FROM words"):
        if term in places and book.has_page(file):
            places[term].append((-count, book.rank[file], file, line))
    pages: dict[str, list[str]] = {}
    for term, count in files.items():
        shown = ", ".join(
            link(escape(book.path(file)), links.keywords(book.path(file)) + "#concepts")
            + f" ({link(f'line {line}', links.source(book.path(file), line))})"
            for _, _, file, line in nsmallest(_NAMED, places[term])
        )
        row = f'- <a id="{slug(term)}"></a>{escape(term)}, {count} files: {shown or "none of them is left"}'
        pages.setdefault(concept_page(term), []).append(row)
    if not pages:
        return {}
    often = sorted(files, key=lambda term: (-files[term], term))[:_FIRST]
    head = [
        "# Concepts\n",
        f"{link('Index', 'index.md')} · {link('keywords', 'keywords.md')}\n",
        "Terms that the comments of several files repeat and that ordinary English does not, with the files that "
        "speak of each most.\n",
        ", ".join(
            f"{link(name.removeprefix('concepts_')[:1].upper().replace('0', '#'), name)} ({len(rows)})"
            for name, rows in sorted(pages.items())
        )
        + "\n",
        "## In most files\n",
        "\n".join(
            f"- {link(escape(term), concept_page(term) + '#' + slug(term))}: {files[term]} files" for term in often
        )
        + "\n",
    ]
    found = {
        name: f"# Concepts: {name.removeprefix('concepts_')[:1].upper().replace('0', '#')}\n\n"
        f"{link('All concepts', 'concepts.md')}\n\n" + "\n".join(rows) + "\n"
        for name, rows in pages.items()
    }
    return {"concepts.md": "\n".join(head), **found}
