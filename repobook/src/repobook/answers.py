"""Answers in plain text for assistants: each within a budget of tokens, each naming its uncertain and omitted parts."""

import sqlite3
from pathlib import Path

from repobook import ask, impact
from repobook.config import ConfigError
from repobook.model.schema import FILE_SHIFT
from repobook.naming import page_name

# Characters per token, on the safe side for code.
_PER_TOKEN = 3
DEFAULT_BUDGET = 2000  # tokens
_LEAST = 80  # tokens: below this, not even the line about the budget fits
_LAST_LINE = 170  # characters of that line


def fit(lines: list[str], budget: int, rest: str = "lines") -> str:
    """As many lines as the budget allows, and the number of lines that it leaves off."""
    budget = max(budget, _LEAST)
    room = budget * _PER_TOKEN
    shown: list[str] = []
    for at, line in enumerate(lines):
        room -= len(line) + 1
        if room < _LAST_LINE and at < len(lines) - 1:
            shown.append(
                f"… {len(lines) - at} more {rest} left off: the budget of {budget} tokens (about "
                f"{budget * _PER_TOKEN} characters) is spent; ask for less, or with a larger budget"
            )
            break
        shown.append(line)
    return "\n".join(shown)


def search(db: sqlite3.Connection, words: str, budget: int = DEFAULT_BUDGET) -> str:
    found = ask.search(db, words, 100)
    if not found:
        return f"nothing in the book matches {words!r}"
    return fit([f"{row.path}:{row.line}: {row.kind} {row.qualified}" for row in found], budget, "matches")


def _suggest_names(db: sqlite3.Connection, name: str) -> str:
    similar = ask.suggest(db, name)
    return f"no definition of {name!r} in this tree" + (f"; similar names: {', '.join(similar)}" if similar else "")


def definition(db: sqlite3.Connection, name: str, budget: int = DEFAULT_BUDGET) -> str:
    found = ask.find(db, name, 30)
    if not found:
        return _suggest_names(db, name)
    lines = []
    if len({row.qualified for row in found}) > 1:
        lines.append(
            f"{len({row.qualified for row in found})} different names match; a qualified name tells them apart:"
        )
    for row in found:
        note = " (declaration)" if row.declaration else ""
        lines.append(f"{row.path}:{row.line}: {row.kind} {row.qualified}{note}")
        if row.signature:
            lines.append(f"    {row.signature}")
        doc = db.execute("SELECT doc FROM symbols WHERE id=?", (row.id,)).fetchone()[0]
        lines += [f"    {line}" for line in str(doc).splitlines()[:12]]
    return fit(lines, budget)


def uses(db: sqlite3.Connection, name: str, calls_only: bool = False, budget: int = DEFAULT_BUDGET) -> str:
    found = ask.uses(db, name, calls_only, 2000)
    sure = [use for use in found if use.certainty != "candidate"]
    maybe = [use for use in found if use.certainty == "candidate"]
    lines = [
        f"{use.path}:{use.line}: {use.inside or 'top level'} {use.kind} {use.target}"
        + (" (by name: the only definition)" if use.certainty == "likely" else "")
        for use in sure
    ]
    if maybe:
        lines.append(f"uncertain, one of several definitions is meant ({len(maybe)}):")
        lines += [f"{use.path}:{use.line}: {use.inside or 'top level'}" for use in maybe]
    if not found:
        places = ask.occurrences(db, name.rpartition("::")[2].rpartition(".")[2], 200)
        if not places:
            return f"no use of {name!r} in this tree" if ask.find(db, name, 1) else _suggest_names(db, name)
        lines = [f"no use of {name!r} could be resolved; the name occurs at:"]
        lines += [f"{path}:{line}" for path, line in places]
    return fit(lines, budget, "uses")


def touched(db: sqlite3.Connection, name: str, budget: int = DEFAULT_BUDGET) -> str:
    """Impact of a change of a symbol: its users, their users, and the tests among them."""
    found = ask.find(db, name, 50)
    if not found:
        return _suggest_names(db, name)
    level = {row.id for row in found}
    seen = set(level)
    lines: list[str] = []
    tests: list[str] = []
    uncertain = 0
    for depth in (1, 2, 3):
        following: set[int] = set()
        for symbol in sorted(level):
            rows = db.execute(
                f"SELECT e.src, e.certainty, e.line, s.qualified, f.path, f.test FROM edges e JOIN symbols s ON "
                f"s.id=e.src "
                f"JOIN files f ON f.id=e.src>>{FILE_SHIFT} WHERE e.dst=?",
                (symbol,),
            )
            for src, certainty, line, qualified, path, test in rows:
                if certainty == 1:
                    uncertain += 1
                elif src not in seen:
                    seen.add(src)
                    following.add(src)
                    (tests if test else lines).append(
                        f"{path}:{line}: {qualified or 'top level'} ({depth} step{'s' if depth > 1 else ''})"
                    )
        level = following
        if len(seen) > 2000:
            break
    head = [f"{len(lines)} users and {len(tests)} tests within three steps"]
    if uncertain:
        head[0] += f"; {uncertain} further uses cannot be told from others of the same name"
    return fit([*head, *(f"test {row}" for row in tests[:200]), *lines], budget)


def diff(db: sqlite3.Connection, root: Path, revision: str, budget: int = DEFAULT_BUDGET) -> str:
    """Impact of the changes since a revision. A comparison that git cannot make is an answer too."""
    try:
        return fit(impact.measure_revision(db, root, revision).text(), budget)
    except ConfigError as error:
        return str(error).removeprefix("repobook: ")


def page(output: Path, path: str, section: str = "", budget: int = DEFAULT_BUDGET) -> str:
    """The page of a file, or one section of it, without the embedded source."""
    target = (output / page_name(path)).resolve()
    if not target.is_relative_to(output.resolve()) or not target.is_file():
        return f"no page for {path!r}; paths are relative to the repository"
    text = target.read_text(encoding="utf-8")
    head, mark, rest = text.partition("<details><summary>")
    if mark:
        text = head + rest.partition("\n</details>\n")[2]
    lines = text.splitlines()
    if section:
        wanted = section.strip().lower()
        starts = [at for at, line in enumerate(lines) if line.startswith("## ") and wanted in line.lower()]
        if not starts:
            titles = ", ".join(line[3:] for line in lines if line.startswith("## "))
            return f"the page of {path} has no section {section!r}; it has: {titles}"
        end = next((at for at in range(starts[0] + 1, len(lines)) if lines[at].startswith("## ")), len(lines))
        lines = lines[starts[0] : end]
    return fit(lines, budget)
