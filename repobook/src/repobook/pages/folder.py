"""The three pages of a folder: index.md lists it, doc.md describes it, sub.md is its keyword index."""

from collections import Counter

from repobook.languages import title_of
from repobook.model.schema import FILE_SHIFT
from repobook.pages import chapters
from repobook.pages.book_facts import Book
from repobook.pages.markdown import Links, cell, code, escape, link, prose, slug
from repobook.pages.records import File
from repobook.pages.wording import count_of, first_sentence, join_words, opening_sentence, plural

_SHOWN = 30


def _title(folder: str) -> str:
    return code(folder + "/") if folder else "this repository"


def subfolders(book: Book, folder: str) -> list[str]:
    return book.subfolders.get(folder, [])


def _navigation(folder: str, links: Links, here: str) -> str:
    pages = [link(name, links.folder_page(folder, name)) for name in ("index.md", "doc.md", "sub.md") if name != here]
    if folder:
        pages.append(link("up", links.folder_page(folder.rpartition("/")[0])))
    return " · ".join(pages) + "\n"


def index_page(book: Book, folder: str, links: Links) -> str:
    head = [f"# Index of {_title(folder)}\n", _navigation(folder, links, "index.md")]
    return "\n".join(head + index_parts(book, folder, links))


def index_parts(book: Book, folder: str, links: Links) -> list[str]:
    """The folders and files of a folder, as tables and lists."""
    parts: list[str] = []
    subs = subfolders(book, folder)
    if subs:
        rows = []
        for sub in subs:
            files = book.list_below(sub)
            voice = chapters.voice_of(book, sub)
            said = f". {prose(opening_sentence(voice.purpose))}" if voice is not None else ""
            rows.append(
                f"- {link(code(sub.rpartition('/')[2] + '/'), links.folder_page(sub))}: "
                f"{count_of(len(files), 'file')}{said}"
            )
        parts.append("## Folders\n\n" + "\n".join(rows) + "\n")
    files = book.in_folder(folder)
    paged = [file for file in files if book.has_page(file.id)]
    if paged:
        parts.append("## Files\n\n| File | Language | Lines | Purpose | |\n|---|---|---:|---|---|")
        for file in paged:
            name = file.path.rpartition("/")[2]
            parts.append(
                f"| {link(cell(code(name)), links.page(file.path))} | {escape(title_of(file.language))} | "
                f"{file.lines:,} | "
                f"{cell(_describe(book, file))} | {link('keywords', links.keywords(file.path))} |"
            )
        parts.append("")
    rest = [file for file in files if not book.has_page(file.id)]
    if rest:
        rows = [
            f"- {link(code(file.path.rpartition('/')[2]), links.source(file.path))} ({file.status}, {file.size:,} "
            f"bytes)"
            for file in rest[:200]
        ]
        more = f"\n- and {len(rest) - 200} more" if len(rest) > 200 else ""
        parts.append("## Files without a page\n\n" + "\n".join(rows) + more + "\n")
    if not files and not subs:
        parts.append("The folder holds no files.\n")
    return parts


def _describe(book: Book, file: File) -> str:
    """Purpose of a file, or the names that others use of it."""
    if book.states_purpose(file):
        return prose(opening_sentence(file.purpose))
    names = chapters.used_names(book, file, 3)
    return f"Defines {join_words(names)}." if names else prose(first_sentence(file.purpose))


def doc_page(book: Book, folder: str, links: Links, root: str) -> str:
    """doc.md: the folder in chapters."""
    files = book.list_below(folder)
    parts = [f"# {_title(folder) if folder else 'This repository'}\n", _navigation(folder, links, "doc.md")]
    parts += chapters.introduction(book, folder, links, root)
    size = chapters.describe_size(files)
    parts.append(f"{size[:1].upper() + size[1:]}.\n")
    for title, rows in (
        ("Entry points", chapters.entry_points(book, folder, links)),
        ("Files to read first", chapters.files_to_read(book, folder, links)),
    ):
        if rows:
            parts.append(f"## {title}\n\n" + "\n".join(rows) + "\n")
    paragraphs = chapters.part_chapter(book, folder, links) if subfolders(book, folder) else []
    if paragraphs:
        parts += ["## Its parts\n", *paragraphs]
    picture = chapters.picture(book, folder)
    if picture:
        parts.append(
            "## How the parts depend on each other\n\nAn arrow leads from a part to one that it imports.\n\n" + picture
        )
    used = book.most_used(folder)
    if used:
        rows = [
            f"- {link(code(row.qualified), links.page(book.path(row.id >> FILE_SHIFT), slug(row.qualified)))} "
            f"({row.kind}): "
            f"{row.uses} {plural('reference', row.uses)} from other files"
            for row in used
        ]
        parts.append("## Used most\n\n" + "\n".join(rows) + "\n")
    outward, inward = _traffic(book, files)
    for title, counter in (("Depends on", outward), ("Depended on by", inward)):
        if counter:
            rows = [
                f"- {link(code(other + '/'), links.folder_page(other))}: {count} {plural('import', count)}"
                for other, count in counter.most_common(_SHOWN)
                if other
            ]
            if rows:
                parts.append(f"## {title}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _traffic(book: Book, files: list[File]) -> tuple[Counter[str], Counter[str]]:
    """The folders that a folder imports from and is imported by."""
    ids = {file.id for file in files}
    if len(ids) == len(book.files):
        return Counter(), Counter()
    outward = [target for file in files for target in book.imports_of(file.id) if target not in ids]
    inward = [source for file in files for source in book.importers_of(file.id) if source not in ids]
    return Counter([book.files[file].folder for file in outward]), Counter([book.files[file].folder for file in inward])


def keyword_index(book: Book, folder: str, links: Links) -> str:
    """sub.md: the names of the folder's files merged by definition; each subfolder by its most used names."""
    parts = [f"# Keywords of {_title(folder)}\n", _navigation(folder, links, "sub.md")]
    merged: dict[tuple[str, str], list[tuple[str, str, int]]] = {}  # to names of files, their paths, uses
    for file in book.in_folder(folder):
        name = escape(file.path.rpartition("/")[2])
        for _, qualified, kind, uses, _ in book.keywords_of(file.id):
            merged.setdefault((qualified, kind), []).append((name, file.path, uses))
    if merged:
        parts.append("## In this folder\n")
        letter = ""
        ordered = sorted((last_name(key[0]).lower(), key, places) for key, places in merged.items())
        for last, (qualified, kind), places in ordered:
            first = initial(last)
            if first != letter:
                letter = first
                parts.append(f"\n### {letter}\n")
            anchor = slug(qualified)
            where = ", ".join([
                link(name, links.page(path, anchor)) for name, path, _ in places[:4]
            ])  # fmt: skip
            more = f" and {len(places) - 4} more" if len(places) > 4 else ""
            uses = sum([count for _, _, count in places])
            parts.append(
                f"- {code(qualified)} ({kind}): {where}{more}" + (f", {uses} {plural('use', uses)}" if uses else "")
            )
        parts.append("")
    for sub in subfolders(book, folder):
        rows = [
            f"- {link(code(row.qualified), links.page(book.path(row.id >> FILE_SHIFT), slug(row.qualified)))} "
            f"({row.kind}), "
            f"{row.uses} {plural('use', row.uses)}"
            for row in book.most_used(sub)[:20]
        ]
        parts.append(
            f"## {code(sub.rpartition('/')[2] + '/')}\n\n"
            + f"{link('all its keywords', links.folder_page(sub, 'sub.md'))}\n\n"
            + "\n".join(rows)
            + "\n"
        )
    if len(parts) == 2:
        parts.append("No identifiers are defined here.\n")
    return "\n".join(parts)


def last_name(qualified: str) -> str:
    return qualified.rpartition("::")[2].rpartition(".")[2] or qualified


def initial(name: str) -> str:
    first = name[:1].upper()
    return first if first.isascii() and first.isalpha() else "#"
