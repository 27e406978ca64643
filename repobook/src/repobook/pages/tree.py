"""The pages of the whole tree: index.md, keywords.md with its letters, comprehensive_book.md."""

from repobook.languages import title_of
from repobook.pages.context import Book
from repobook.pages.file_page import plural
from repobook.pages.folder import below, index_page, initial, last_name, subfolders
from repobook.pages.markdown import Links, code, escape, link, slug

_PER_LETTER = 40
LETTERS = "#ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def letter_page_name(letter: str) -> str:
    return f"keywords_{'other' if letter == '#' else letter.lower()}.md"


def top_index(book: Book, title: str, links: Links) -> str:
    files = len(book.files)
    paged = sum(book.has_page(file) for file in book.files)
    symbols = book.db.execute("SELECT COUNT(*) FROM symbols WHERE kind<>'file'").fetchone()[0]
    head = (
        f"# {escape(title)}\n\n{files:,} {plural('file', files)}, {paged:,} with a page, {symbols:,} {plural('symbol', symbols)}.\n\n"
        f"- {link('Keywords, A to Z', 'keywords.md')}\n- {link('The book', 'comprehensive_book.md')}\n"
        f"- {link('What the repository is', 'doc.md')}\n- {link('Keywords by folder', 'sub.md')}\n\n"
    )
    return head + index_page(book, "", links).partition("\n")[2]


def _merged(book: Book) -> dict[str, list[tuple[str, str, int, int]]]:
    """By letter: (qualified, kind, file, uses) of every identifier of the tree."""
    found: dict[str, list[tuple[str, str, int, int]]] = {letter: [] for letter in LETTERS}
    for file in book.files:
        if book.has_page(file):
            for row in book.keywords_of(file):
                found[initial(row.qualified)].append((row.qualified, row.kind, file, row.uses))
    return found


def keyword_pages(book: Book, links: Links) -> dict[str, str]:
    """keywords.md and a page per letter, merged by definition with counts."""
    pages: dict[str, str] = {}
    head = ["# Keywords\n", f"{link('Index', 'index.md')}\n"]
    by_letter = _merged(book)
    head.append(" · ".join(link(letter, letter_page_name(letter)) for letter in LETTERS if by_letter[letter]) + "\n")
    for letter in LETTERS:
        rows = by_letter[letter]
        if not rows:
            continue
        merged: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for qualified, kind, file, uses in rows:
            merged.setdefault((qualified, kind), []).append((file, uses))
        lines: list[tuple[int, str]] = []
        for (qualified, kind), places in sorted(merged.items(), key=lambda row: (last_name(row[0][0]).lower(), row[0])):
            anchor = slug(qualified)
            shown = ", ".join(link(escape(book.path(file)), links.page(book.path(file), anchor)) for file, _ in places[:3])
            more = f" and {len(places) - 3} more" if len(places) > 3 else ""
            uses = sum(count for _, count in places)
            lines.append((uses, f"- {code(qualified)} ({kind}): {shown}{more}" + (f", {uses} {plural('use', uses)}" if uses else "")))
        name = letter_page_name(letter)
        pages[name] = f"# Keywords: {letter}\n\n{link('All letters', 'keywords.md')}\n\n" + "\n".join(text for _, text in lines) + "\n"
        most = sorted(range(len(lines)), key=lambda at: (-lines[at][0], at))[:_PER_LETTER]
        head.append(f"## {letter}\n\n{link(f'all {len(lines):,}', name)}; used most:\n\n" + "\n".join(lines[at][1] for at in sorted(most)) + "\n")
    if len(head) == 3:
        head.append("The tree defines no identifiers.\n")
    pages["keywords.md"] = "\n".join(head)
    return pages


def book_page(book: Book, title: str, links: Links) -> str:
    """The table of contents of the whole book, folder by folder."""
    parts = [f"# {escape(title)}: the book\n", f"{link('Index', 'index.md')} · {link('keywords', 'keywords.md')}\n"]
    for folder in ["", *(f for f in subfolders(book, ""))]:
        files = below(book, folder) if folder else book.in_folder("")
        lines = sum(file.lines for file in files)
        languages = sorted({title_of(file.language) for file in files if file.status == "ok"})
        target = links.at(f"{folder}/doc.md") if folder else "doc.md"
        parts.append(f"## {link(code(folder + '/') if folder else 'Top of the tree', target)}\n")
        parts.append(f"{len(files):,} {plural('file', len(files))}, {lines:,} lines" + (f" ({escape(', '.join(languages[:6]))})" if languages else "") + ".\n")
        rows = [
            f"- {link(code(sub.rpartition('/')[2] + '/'), links.at(sub + '/doc.md'))}: {len(below(book, sub))} files"
            for sub in (subfolders(book, folder) if folder else [])
        ]
        rows += [f"- {link(code(file.path.rpartition('/')[2]), links.page(file.path))}" for file in book.in_folder(folder) if book.has_page(file.id)]
        if rows:
            parts.append("\n".join(rows) + "\n")
    notes = book.db.execute("SELECT title, file, line FROM remarks WHERE kind='note' ORDER BY title COLLATE NOCASE, file").fetchall()
    if notes:
        parts.append("## Titled notes\n")
        parts.append("\n".join(f"- {link(escape(note), links.page(book.path(file)) + '#notes')} ({link(escape(book.path(file)), links.source(book.path(file), line))})" for note, file, line in notes) + "\n")
    return "\n".join(parts)


