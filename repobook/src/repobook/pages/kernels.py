"""The kernels of a CUDA file: their launches with grid and block, their shared memory, their callers."""

from repobook.pages.context import Context
from repobook.pages.markdown import Links, code, link, slug
from repobook.pages.records import Symbol
from repobook.pages.wording import join_words
from repobook.reading.cuda import KERNEL, LAUNCH, SECTION, SHARED

_SHOWN = 8


def kernels_of(context: Context) -> list[Symbol]:
    """The kernels that the file defines or declares."""
    return [
        context.symbols[local]
        for _, section, rule, _, local in context.findings
        if section == SECTION and rule == KERNEL
    ]


def list_kernels(context: Context, links: Links) -> list[str]:
    """A list of the kernels that the file defines or launches; [] if it has none."""
    kernels: dict[str, Symbol] = {}
    for symbol in kernels_of(context):
        kernels.setdefault(symbol.name, symbol)
    launches: dict[str, list[tuple[int, str, int]]] = {}
    for line, section, rule, detail, local in context.findings:
        if section == SECTION and rule == LAUNCH:
            name, _, given = detail.partition(": ")
            launches.setdefault(name.rpartition("::")[2], []).append((line, given, local))
    rows = []
    for name in [*kernels, *(name for name in launches if name not in kernels)]:
        rows.append(_kernel(context, links, name, kernels.get(name)))
        rows += _launches(context, links, launches.get(name, []))
        if name in kernels:
            rows += _list_shared_memory(context, links, kernels[name])
        rows.append("")
    return ["### Kernels\n", "\n".join(rows)] if rows else []


def _line(context: Context, links: Links, line: int) -> str:
    return link(f"line {line}", links.source(context.file.path, line))


def _kernel(context: Context, links: Links, name: str, symbol: Symbol | None) -> str:
    if symbol is None:
        return f"**{code(name)}**, defined elsewhere:\n"
    elsewhere = [use for use in context.outside_uses.get(symbol.id, ()) if use.certainty > 1]
    users = list(dict.fromkeys(code(context.book.qualified(use.far)) for use in elsewhere))
    callers = f", launched in other files by {join_words(users, 4)}" if users else ""
    shown = link(code(symbol.qualified), "#" + slug(symbol.qualified))
    return f"**{shown}** ({_line(context, links, symbol.line)}){callers}:\n"


def _launches(context: Context, links: Links, launches: list[tuple[int, str, int]]) -> list[str]:
    """One line per function and configuration, with the lines of its launches."""
    groups: dict[tuple[int, str], list[int]] = {}
    for line, given, local in launches:
        groups.setdefault((local, given), []).append(line)
    rows = []
    for (local, given), lines in list(groups.items())[:_SHOWN]:
        symbol = context.symbols[local]
        inside = f" in {code(symbol.qualified)}" if symbol.kind != "file" else ""
        parts = ", ".join(f"{title} {code(value)}" for title, value in _split(given))
        places = join_words([_line(context, links, line) for line in lines], 4)
        rows.append(f"- launched at {places}{inside}: {parts}")
    if len(groups) > _SHOWN:
        rows.append(f"- and {len(groups) - _SHOWN} more configurations")
    return rows


def _split(given: str) -> list[tuple[str, str]]:
    """`grid a, block b` as pairs; the values themselves can hold commas."""
    found: list[tuple[str, str]] = []
    for piece in given.split(", "):
        title = next((t for t in ("shared memory", "grid", "block", "stream") if piece.startswith(t + " ")), "")
        if title and title not in [known for known, _ in found]:
            found.append((title, piece[len(title) + 1 :]))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]}, {piece}")
    return found


def _list_shared_memory(context: Context, links: Links, kernel: Symbol) -> list[str]:
    rows = []
    for line, section, rule, detail, _ in context.findings:
        if section == SECTION and rule == SHARED and kernel.line <= line <= kernel.end_line:
            sized = "sized at launch, " if detail.startswith("dynamic: ") else ""
            text = code(detail.removeprefix("dynamic: "))
            rows.append(f"- shared memory ({sized}{_line(context, links, line)}): {text}")
    return rows
