"""Impact of a change: the symbols on changed lines, their users, the tests among those, and all their pages."""

import re
import sqlite3
from dataclasses import asdict, dataclass, field
from pathlib import Path

from repobook.config import ConfigError
from repobook.history import GitError, run_git
from repobook.model.schema import FILE_SHIFT
from repobook.naming import page_name

_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


@dataclass(slots=True)
class Impact:
    files: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)  # path:line: kind qualified
    users: list[str] = field(default_factory=list)  # path:line: qualified
    tests: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    uncertain: int = 0  # further uses that are only candidates

    def row(self) -> dict[str, object]:
        return asdict(self)

    def text(self) -> list[str]:
        lines = []
        for title, rows in (
            ("changed files", self.files),
            ("changed symbols", self.symbols),
            ("used by", self.users),
            ("tests", self.tests),
            ("pages", self.pages),
        ):
            lines.append(f"{title} ({len(rows)}):")
            lines += [f"  {row}" for row in rows]
        if self.uncertain:
            lines.append(f"{self.uncertain} more uses cannot be told from others of the same name")
        return lines


def measure_revision(db: sqlite3.Connection, root: Path, revision: str) -> Impact:
    if revision.startswith("-") or not revision.strip():
        raise ConfigError(f"repobook: {revision!r} is not a revision")
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--relative", "-U0")
    try:
        text = run_git(root, "diff", *options, revision, "--")
    except GitError as error:
        reason = str(error).removeprefix("fatal: ").removeprefix("warning: ")
        raise ConfigError(f"repobook: cannot compare {root} with {revision!r}: {reason}") from None
    return measure_lines(db, changed_lines(text))


def changed_lines(diff: str) -> dict[str, list[tuple[int, int]]]:
    """path -> changed (first, last) lines of the new side of a unified diff without context."""
    found: dict[str, list[tuple[int, int]]] = {}
    path = old = ""
    for line in diff.splitlines():
        if line.startswith("--- "):
            old = line[4:].removeprefix("a/")
        elif line.startswith("+++ "):
            path = line[4:].removeprefix("b/")
            path = old if path == "/dev/null" else path
            found.setdefault(path, [])
        elif path:
            match = _HUNK.match(line)
            if match:
                first, count = int(match.group(1)), int(match.group(2) or 1)
                found[path].append((first, first + max(count, 1) - 1))
    return found


def measure_lines(db: sqlite3.Connection, changed: dict[str, list[tuple[int, int]]]) -> Impact:
    impact = Impact(files=sorted(changed))
    pages: set[str] = set()
    users: dict[int, tuple[str, int, str, int]] = {}
    for path, spans in sorted(changed.items()):
        row = db.execute("SELECT id FROM files WHERE path=?", (path,)).fetchone()
        if row is None:
            continue
        pages.update((page_name(path), page_name(path, "_kw.md")))
        for symbol, kind, qualified, line in _find_touched(db, row[0], spans):
            impact.symbols.append(f"{path}:{line}: {kind} {qualified}")
            rows = db.execute(
                f"SELECT e.src, f.path, e.line, s.qualified, f.test, e.certainty FROM edges e JOIN symbols s ON "
                f"s.id=e.src "
                f"JOIN files f ON f.id=e.src>>{FILE_SHIFT} WHERE e.dst=?",
                (symbol,),
            )
            for src, user_path, at, user, test, certainty in rows:
                if certainty == 1:
                    impact.uncertain += 1
                else:
                    users.setdefault(src, (user_path, at, user, test))
    for user_path, at, user, test in sorted(users.values()):
        (impact.tests if test else impact.users).append(f"{user_path}:{at}: {user}")
        pages.add(page_name(user_path))
    impact.pages = sorted(pages)
    return impact


def _find_touched(db: sqlite3.Connection, file: int, spans: list[tuple[int, int]]) -> list[tuple[int, str, str, int]]:
    """The innermost symbols on the changed lines."""
    symbols = db.execute(
        "SELECT id, kind, qualified, line, end_line FROM symbols WHERE id>? AND id<? AND kind NOT IN ('file', "
        "'namespace')",
        (file << FILE_SHIFT, (file + 1) << FILE_SHIFT),
    ).fetchall()
    found: dict[int, tuple[int, str, str, int]] = {}
    for first, last in spans:
        inside = [row for row in symbols if row[3] <= last and row[4] >= first]
        for row in inside:
            # A class counts where the change is not inside one of its members.
            if not any(
                other is not row
                and other[3] >= row[3]
                and other[4] <= row[4]
                and (other[3], other[4]) != (row[3], row[4])
                for other in inside
            ):
                found[row[0]] = row[:4]
    return [found[key] for key in sorted(found)]
