"""The page of one file: its sections in order. Each section is derived; one with nothing to say says so in a line."""

from collections import Counter
from datetime import UTC, datetime

from repobook.history import choose_shown
from repobook.languages import SOURCES, title_of
from repobook.pages.analysis import detailed_analysis
from repobook.pages.architecture import architecture, dependencies, related_files
from repobook.pages.assurance import performance, safety
from repobook.pages.context import Context
from repobook.pages.markdown import Links, code, escape, fenced, link, prose, slug
from repobook.pages.records import SPACES
from repobook.pages.summary import summary
from repobook.pages.testing import describe_change, testing
from repobook.pages.wording import plural
from repobook.reading.purpose import DERIVED

_FENCE = {
    "cpp": "cpp",
    "cuda": "cuda",
    "objc": "objectivec",
    "c": "c",
    "bash": "bash",
    "starlark": "python",
    "text": "text",
    "docker": "dockerfile",
    "make": "makefile",
}


# Symbols that the overview lists.
MOST_USED = 10


def file_page(context: Context, links: Links, source: str | None) -> str:
    """The whole page. `source` is the file's text where the page holds it."""
    file = context.file
    unknown = "" if file.status == "ok" else "Not looked for: the file is not parsed.\n"
    parts = [
        f"# {code(file.path)}\n",
        f"{link('Keywords', links.keywords(file.path))} · "
        f"{link('folder', links.folder_page(file.folder))} · "
        f"{link('source', links.source(file.path))}\n",
        summary(context, links),
        "## File metadata\n",
        metadata(context, links),
        "## Original source\n",
        original(context, links, source),
        "## High-level overview\n",
        overview(context, links),
        "## Before a change\n",
        describe_change(context, links),
        "## Detailed analysis\n",
        unknown or detailed_analysis(context, links),
        "## Architecture & design\n",
        architecture(context, links),
        "## Dependencies\n",
        dependencies(context, links),
        "## Performance considerations\n",
        unknown or performance(context, links),
        "## Security & safety\n",
        unknown or safety(context, links),
        "## Testing & usage\n",
        testing(context, links),
        "## Related files\n",
        related_files(context, links),
    ]
    return "\n".join(parts)


def metadata(context: Context, links: Links) -> str:
    file = context.file
    lines = [
        f"- **Path**: {link(code(file.path), links.source(file.path))}",
        f"- **Language**: {escape(title_of(file.language))}" + (" (test)" if file.test else ""),
        f"- **Size**: {file.size:,} bytes",
    ]
    if file.status == "large":
        lines.append(f"- **Lines**: {file.lines:,} ({file.lines - file.code:,} blank)")
    if file.status == "ok":
        lines.append(f"- **Lines**: {file.lines:,} ({file.code:,} code, {file.comment:,} comment)")
        if file.errors:
            where = link(f"line {file.errors}", links.source(file.path, file.errors))
            lines.append(
                f"- **Syntax**: from {where} on, the parser met constructs it does not know; definitions near them "
                f"may be missing"
            )
    else:
        lines.append(f"- **Not parsed**: {_unparsed(context)}")
    history = context.history
    if history is not None:
        commits, first, last, author, authors, _ = history
        lines.append(f"- **Last change**: {_day(last)} by {escape(author)}")
        lines.append(
            f"- **Age**: since {_day(first)}; {commits} {'change' if commits == 1 else 'changes'} in the history "
            f"that was read"
        )
        who, _ = choose_shown(authors, "[]")
        lines.append("- **Changed by**: " + ", ".join(f"{escape(name)} ({count})" for name, count in who))
    return "\n".join(lines) + "\n"


def _unparsed(context: Context) -> str:
    if context.file.status != "large":
        return "its reader failed" if context.file.status == "unparsed" else context.file.status
    if context.file.size > context.book.parsed:
        return f"larger than the {context.book.parsed:,} bytes up to which this book parses; read by its text alone"
    return "more symbols or lines than this book can number; read by its text alone"


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def original(context: Context, links: Links, source: str | None) -> str:
    file = context.file
    if source is None:
        return f"{link(code(file.path), links.source(file.path))}, {file.lines:,} lines.\n"
    fence = _FENCE.get(file.language, file.language)
    return (
        f"<details><summary>{file.lines:,} lines</summary>\n\n{fenced(source, fence)}\n</details>\n\n"
        f"{link('Open the file', links.source(file.path))} to link to single lines.\n"
    )


def overview(context: Context, links: Links) -> str:
    parts = [purpose(context)]
    parts.append("**Role**: " + _role(context, links) + "\n")
    used = context.most_used
    if used:
        rows = [
            f"- {link(code(symbol.qualified), '#' + slug(symbol.qualified))} ({symbol.kind}): {places} "
            f"{'place' if places == 1 else 'places'} in {files} {'file' if files == 1 else 'files'}"
            for symbol, places, files in used[:MOST_USED]
        ]
        parts.append("**Used most by other files**:\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def purpose(context: Context) -> str:
    """The purpose of the file, with where it is stated; one plain line where it is not."""
    file = context.file
    if not file.purpose:
        return f"**Purpose**: not stated; {escape(title_of(file.language))}, {file.lines:,} lines.\n"
    if file.origin == DERIVED:
        return f"**Purpose**, from its definitions: {prose(file.purpose)}\n"
    said = {"docstring": "in the file's own words", "header": "in the file's own words"}.get(
        file.origin, f"from the documentation of {code(file.origin)}"
    )
    return f"**Purpose**, {said}:\n\n" + fenced(file.purpose, "text")


def _role(context: Context, links: Links) -> str:
    inside = {row[5] for row in context.imports if row[5]}
    outside = {row[2] for row in context.imports if not row[5] and row[1] in ("import", "from", "include", "require")}
    # Symbols outside of functions and classes, and all classes.
    kinds = Counter(
        symbol.kind
        for symbol in context.symbols[1:]
        if symbol.kind not in SPACES
        and (context.symbols[symbol.parent & 0xFFFFF].kind in SPACES or symbol.kind in ("class", "struct"))
    )
    defines = ", ".join(f"{count} {plural(kind, count)}" for kind, count in kinds.most_common(5))
    sentences = []
    if defines:
        sentences.append(f"defines {defines}")
    if inside or outside:
        sentences.append(
            f"imports {len(inside)} {plural('file', len(inside))} of this tree and {len(outside)} from outside"
        )
    importers = len(context.importers)
    package = _package(context)
    if importers:
        sentences.append(f"is imported by {importers} {plural('file', importers)}")
    elif package:
        sentences.append(f"shares its package with {package} {plural('file', package)}")
    elif not context.file.path.endswith(SOURCES) and not context.file.test and context.file.language in _IMPORTED:
        sentences.append("is imported by no file of this tree")
    return "; ".join(sentences) + "." if sentences else "defines no names of its own."


# Languages whose files reach each other by imports alone.
_IMPORTED = frozenset({"python", "c", "cpp", "cuda", "javascript", "typescript", "tsx", "rust"})


def _package(context: Context) -> int:
    """The other files of a Go package, which see the names of this file without an import."""
    if context.file.language != "go":
        return 0
    return sum(file.language == "go" for file in context.book.in_folder(context.file.folder)) - 1
