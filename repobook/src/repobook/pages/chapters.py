"""Chapters about a folder or the whole tree: introduction, entry points, parts, their dependencies, files to read."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from repobook.languages import title_of
from repobook.model.schema import FILE_SHIFT
from repobook.pages.book_facts import Book
from repobook.pages.markdown import Links, code, escape, link, prose, slug
from repobook.pages.readme import opening_paragraphs
from repobook.pages.records import File
from repobook.pages.summary import file_label
from repobook.pages.wording import count_of, join_words, opening_sentence

# Files that speak for their folder, best first.
_VOICES = ("readme", "__init__.py", "lib.rs", "mod.rs", "doc.go", "index.ts", "index.js", "main.go", "main.rs")
_FRONT_DOORS = ("__init__.py", "lib.rs", "index.ts", "index.js", "index.mjs")
_PROSE = ("markdown", "rst", "text", "html", "csv", "diff", "xml", "css")
_ASIDE = re.compile(
    r"third_party|vendor(?:ed)?|node_modules|generated|extern(?:al)?|deps|examples?|bench.*|scripts?|tools?|ci|docs?|fuzz|.*test.*|__\w+__|\..*"
)
_ASIDE_NAME = re.compile(r"conftest|build\.rs|setup\.py|.*test.*|noxfile|conf\.py")
_MOST_PARTS = 24
_PICTURE = 12  # parts of the picture
_ARROWS = 28
_ENTRIES = 12
_TO_READ = 10
_README = 100_000  # bytes


class Part(NamedTuple):
    """A folder as a part of a larger one; `files` are those the part stands for."""

    folder: str
    files: list[File]

    @property
    def lines(self) -> int:
        return sum(file.lines for file in self.files if file.status == "ok")


def voice_of(book: Book, folder: str) -> File | None:
    """The file that states the purpose of a folder: its README, its package file, or the package comment of Go."""
    best: tuple[int, File] | None = None
    for file in book.in_folder(folder):
        name = file.path.rpartition("/")[2].lower()
        rank = next((at for at, voice in enumerate(_VOICES) if name == voice or name.startswith(voice + ".")), None)
        if rank is None and file.language == "go" and file.purpose.startswith("Package ") and not file.test:
            rank = len(_VOICES)
        speaks = rank is not None and book.has_page(file.id) and book.states_purpose(file)
        if rank is not None and speaks and (best is None or rank < best[0]):
            best = (rank, file)
    return best[1] if best else None


def introduction(book: Book, folder: str, links: Links, root: str) -> list[str]:
    """The first paragraphs of the README, or the statement of another file about the folder."""
    readme = next(
        (
            file
            for file in book.in_folder(folder)
            if file.path.rpartition("/")[2].lower().startswith("readme") and book.has_page(file.id)
        ),
        None,
    )
    if readme is not None:
        paragraphs = opening_paragraphs(_read_text(root, readme.path))
        if paragraphs:
            source = link(code(readme.path.rpartition("/")[2]), links.page(readme.path))
            return [*(prose(paragraph) + "\n" for paragraph in paragraphs), f"From {source}.\n"]
    voice = voice_of(book, folder)
    if voice is None:
        return []
    source = link(code(voice.path.rpartition("/")[2]), links.page(voice.path))
    return [f"{prose(opening_sentence(voice.purpose))} (from {source})\n"]


def _read_text(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read(_README).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return ""


def describe_size(files: list[File]) -> str:
    """`12 files, 3,100 lines: Rust 2,900, Markdown 200`"""
    languages: Counter[str] = Counter()
    for file in files:
        if file.status == "ok":
            languages[file.language] += file.lines
    total = sum(languages.values())
    named = ", ".join(f"{escape(title_of(name))} {count:,}" for name, count in languages.most_common(5))
    return f"{count_of(len(files), 'file')}, {count_of(total, 'line')}" + (f": {named}" if total else "")


def parts_of(book: Book, folder: str) -> list[Part]:
    """The parts of a folder: its subfolders, but a subfolder that holds most of the code by its own parts."""
    subs = book.subfolders.get(folder, [])
    own = book.in_folder(folder)
    code_here = sum(file.lines for file in own if file.status == "ok" and file.language not in _PROSE)
    found: list[Part] = [Part(folder, own)] if own and subs and (folder or code_here > 200) else []
    sizes = {sub: sum(file.lines for file in book.list_below(sub) if file.status == "ok") for sub in subs}
    total = sum(sizes.values()) or 1
    for sub in subs:
        inner = book.subfolders.get(sub, [])
        if (len(inner) > 1 and sizes[sub] * 2 > total) or (len(inner) == 1 and not book.in_folder(sub)):
            found += parts_of(book, sub)
        else:
            found.append(Part(sub, book.list_below(sub)))
    return found


def choose_parts(book: Book, folder: str) -> tuple[list[Part], int]:
    """The largest parts in order of path, and how many are left out."""
    parts = parts_of(book, folder)
    largest = sorted(parts, key=lambda part: (-part.lines, part.folder))[:_MOST_PARTS]
    names = {part.folder for part in largest}
    kept = [part for part in parts if part.folder in names]
    kept.sort(key=lambda part: (part.folder.startswith("."), part.folder))
    return kept, len(parts) - len(kept)


class Roads:
    """The dependencies between parts: imports, or references if hardly any import leads from part to part."""

    def __init__(self, book: Book, parts: list[Part], may_use_references: bool) -> None:
        home = {file.id: part.folder for part in parts for file in part.files}
        self.by_imports = True
        self.counts = self._count(home, ((file, other, 1) for file in home for other in book.imports_of(file)))
        if may_use_references and len(self.counts) < len(parts) // 3:
            pairs = book.reference_pairs
            counts = self._count(
                home, ((file, other, count) for file in home for other, count in pairs.get(file, {}).items())
            )
            if len(counts) > len(self.counts):
                self.by_imports, self.counts = False, counts

    @staticmethod
    def _count(home: dict[int, str], pairs: Iterable[tuple[int, int, int]]) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for one, two, count in pairs:
            start, end = home[one], home.get(two)
            if end is not None and start != end:
                found[start, end] += count
        return found

    def list_roads(self, folder: str) -> tuple[Counter[str], Counter[str]]:
        """The parts that a part depends on, and those that depend on it."""
        outward = Counter({end: count for (start, end), count in self.counts.items() if start == folder})
        inward = Counter({start: count for (start, end), count in self.counts.items() if end == folder})
        return outward, inward


def part_chapter(book: Book, folder: str, links: Links) -> list[str]:
    """A paragraph for each part."""
    parts, left = choose_parts(book, folder)
    roads = Roads(book, parts, not folder)
    found = [_paragraph(book, part, roads, links) for part in parts]
    if left:
        found.append(f"{count_of(left, 'smaller part')} {'is' if left == 1 else 'are'} left out.\n")
    return found


def _paragraph(book: Book, part: Part, roads: Roads, links: Links) -> str:
    """A part by its purpose, its most used files, the parts around it and its size."""
    sentences = []
    voice = voice_of(book, part.folder) if part.folder else None
    if voice is not None:
        sentences.append(_end_sentence(prose(opening_sentence(voice.purpose))))
    main = most_used_files(book, part.files, 3)
    if main:
        named = [f"{_file(book, links, file.id)}{_types(book, file)}" for file in main]
        sentences.append(f"Other files use {join_words(named)} most.")
    outward, inward = roads.list_roads(part.folder)
    if outward:
        sentences.append(f"It {'imports from' if roads.by_imports else 'refers to'} {_folders(outward, links)}.")
    if inward:
        verb = "import from" if roads.by_imports else "refer to"
        verb = verb.replace(" ", "s ", 1) if len(inward) == 1 else verb
        sentences.append(f"{_folders(inward, links)} {verb} it.")
    sentences.append(_describe_part(part))
    return f"### {_folder(part.folder, links)}\n\n{' '.join(sentences)}\n"


def _describe_part(part: Part) -> str:
    """The size of a part, its main language and its tests, as a sentence."""
    languages: Counter[str] = Counter()
    for file in part.files:
        if file.status == "ok":
            languages[file.language] += file.lines
    size = f"{count_of(len(part.files), 'file')}, {count_of(part.lines, 'line')}"
    if languages:
        name, lines = languages.most_common(1)[0]
        size += f"{' of' if lines == part.lines else ', mostly'} {escape(title_of(name))}"
    tests = sum(bool(file.test) for file in part.files)
    if tests and tests * 5 > len(part.files) * 4:
        return f"Tests: {size}."
    more = f"; {tests:,} of the files {'is a test' if tests == 1 else 'are tests'}" if tests else ""
    return f"{size}{more}."


def _end_sentence(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else sentence + "."


def _folders(weights: Counter[str], links: Links) -> str:
    ordered = sorted(weights, key=lambda folder: (-weights[folder], folder))
    return join_words([_folder(folder, links) for folder in ordered], 4)


def _folder(folder: str, links: Links) -> str:
    return link(code((folder or ".") + "/"), links.folder_page(folder, "doc.md"))


def _file(book: Book, links: Links, file: int) -> str:
    path = book.path(file)
    return link(code(file_label(path)), links.page(path) if book.has_page(file) else links.source(path))


def used_names(book: Book, file: File, most: int) -> list[str]:
    """The types and functions of a file that other files use most."""
    names = [row.qualified.rpartition("::")[2].rpartition(".")[2] for row in book.list_used(file.id)]
    return [code(name) for name in list(dict.fromkeys(names))[:most]]


def _types(book: Book, file: File) -> str:
    names = used_names(book, file, 2)
    return f" ({', '.join(names)})" if names else ""


def picture(book: Book, folder: str) -> str:
    """The dependencies between the parts, as a Mermaid flowchart below a sentence; '' if there are none."""
    parts, _ = choose_parts(book, folder)
    parts = sorted(parts, key=lambda part: (-part.lines, part.folder))[:_PICTURE]
    roads = Roads(book, parts, not folder)
    if not roads.counts:
        return ""
    kept = sorted(roads.counts.items(), key=lambda row: (-row[1], row[0]))[:_ARROWS]
    names = sorted({name for pair, _ in kept for name in pair})
    ids = {name: f"p{number}" for number, name in enumerate(names)}
    common = os.path.commonpath(names) if len(names) > 1 else ""
    lines = [f'  {ids[name]}["{_label(name, common)}"]' for name in names]
    lines += [f"  {ids[one]} -->|{count}| {ids[two]}" for (one, two), count in sorted(kept)]
    said = "imports, with the number of imports" if roads.by_imports else "refers to, with the number of places"
    return (
        f"An arrow leads from a part to one that it {said}.\n\n```mermaid\nflowchart TD\n"
        + "\n".join(lines)
        + "\n```\n"
    )


def _label(folder: str, common: str) -> str:
    text = folder[len(common) + 1 :] if common and folder != common else folder or "top"
    return "".join(char for char in text if char.isalnum() or char in "_./- ") or "."


def is_aside(file: File) -> bool:
    """True for tests, prose, tools and code of others, which a reader does not begin with."""
    *folders, name = file.path.split("/")
    return (
        bool(file.test) or file.language in _PROSE or _ASIDE_NAME.fullmatch(name.partition(".")[0]) is not None
        or _ASIDE_NAME.fullmatch(name) is not None or any(_ASIDE.fullmatch(folder) for folder in folders)
    )  # fmt: skip


def most_used_files(book: Book, files: list[File], most: int) -> list[File]:
    """The files whose names other files use most."""
    used = [file for file in files if book.uses_of_file.get(file.id) and not is_aside(file)]
    return sorted(used, key=lambda file: (-book.uses_of_file[file.id], file.path))[:most]


def entry_points(book: Book, folder: str, links: Links) -> list[str]:
    """Commands and `main` functions, and the files through which others import a package."""
    inside = {file.id for file in book.list_below(folder)}
    rows = []
    for file, name, line in book.commands:
        if file in inside:
            where = link(f"line {line}", links.source(book.path(file), line))
            rows.append(f"- {_file(book, links, file)}: command {code(name)} ({where})")
    for symbol in book.mains:
        file = symbol >> FILE_SHIFT
        if file in inside and not is_aside(book.files[file]):
            path = book.path(file)
            target = link(code("main"), links.page(path, slug(book.find_symbol(symbol).qualified)))
            rows.append(f"- {link(code(path), links.page(path))}: {target}{_describe_purpose(book, book.files[file])}")
    for door in front_doors(book, folder):
        rows.append(
            f"- {link(code(door.path), links.page(door.path))}: {_door(book, door)}{_describe_purpose(book, door)}"
        )
    more = f"- and {len(rows) - _ENTRIES} more" if len(rows) > _ENTRIES else ""
    return [*rows[:_ENTRIES], more] if more else rows


def _door(book: Book, file: File) -> str:
    importers = len(book.importers_of(file.id))
    return "front door of its package" + (f", imported by {count_of(importers, 'file')}" if importers else "")


def _describe_purpose(book: Book, file: File) -> str:
    return f". {prose(opening_sentence(file.purpose))}" if book.states_purpose(file) else ""


def front_doors(book: Book, folder: str) -> list[File]:
    """The package files below a folder that lie in no other package of the tree."""
    doors = [
        file
        for file in book.list_below(folder)
        if file.path.rpartition("/")[2] in _FRONT_DOORS
        and book.has_page(file.id)
        and not is_aside(file)
        # An `index.js` of a few lines only leads to the front door.
        and (file.lines > 10 or file.language == "python")
    ]
    homes = {file.folder for file in doors}

    def is_inner(file: File) -> bool:
        above = file.folder.rpartition("/")[0]
        while above:
            if above in homes:
                return True
            above = above.rpartition("/")[0]
        return False

    outer = [file for file in doors if not is_inner(file)]
    return sorted(outer, key=lambda file: (-_importance(book, file), file.path))


def files_to_read(book: Book, folder: str, links: Links) -> list[str]:
    """The files to read first, with the reason: entry points, then the files that most of the others rest on."""
    files = [file for file in book.list_below(folder) if book.has_page(file.id) and not is_aside(file)]
    inside = {file.id for file in files}
    mains = [symbol >> FILE_SHIFT for symbol in book.mains if symbol >> FILE_SHIFT in inside]
    first = [file.id for file in front_doors(book, folder)[:2]]
    first += [file for file in mains if file_stem(book.path(file)) in ("main", "__main__", "cli", "cmd")][:1]
    ranked = sorted(files, key=lambda file: (-_importance(book, file), file.path))
    chosen = list(dict.fromkeys([*first, *(file.id for file in ranked if _importance(book, file) > 0)]))[:_TO_READ]
    rows = []
    for file in (book.files[number] for number in chosen):
        said = opening_sentence(file.purpose) if book.states_purpose(file) else ""
        uses = book.uses_of_file.get(file.id, 0)
        reasons = [_end_sentence(prose(said))] if said else []
        named = _types(book, file)
        if named:
            reasons.append(f"Defines {named.strip(' ()')}, with {count_of(uses, 'reference')} from other files.")
        reason = " ".join(reasons) or f"{count_of(file.lines, 'line')} of {escape(title_of(file.language))}."
        rows.append(f"- {link(code(file.path), links.page(file.path))}: {reason}")
    return rows


def file_stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _importance(book: Book, file: File) -> float:
    uses = book.uses_of_file.get(file.id, 0)
    importers = len(book.importers_of(file.id))
    if not uses and not importers:
        return 0
    return math.log2(1 + uses) + math.log2(1 + importers) + book.states_purpose(file)
