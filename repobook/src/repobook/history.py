"""History of each file from git: dates and number of changes, authors, files that changed together."""

import json
import os
import sqlite3
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from repobook.model import store

# A commit that touches more files than this says nothing about which of them belong together.
_WIDE = 25
_AUTHORS = 5
_COMPANIONS = 5
_KEPT = 60


@dataclass(slots=True)
class _Record:
    commits: int = 0
    first: int = 0
    last: int = 0
    author: str = ""
    authors: Counter[str] = field(default_factory=Counter)
    companions: Counter[str] = field(default_factory=Counter)


def git(root: Path, *arguments: str) -> str | None:
    """The output of a git command that reads; None if git is not installed or fails."""
    try:
        return run_git(root, *arguments)
    except GitError:
        return None


class GitError(RuntimeError):
    """Git is not installed, or it failed; the message is git's own."""


def run_git(root: Path, *arguments: str) -> str:
    command = [
        "git",
        "--no-pager",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.quotepath=false",
        "-C",
        str(root),
        *arguments,
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        )
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(next((line for line in said if line.startswith("fatal:")), said[0] if said else "git failed"))
    return done.stdout.decode("utf-8", "replace")


def update(db: sqlite3.Connection, root: Path, limit: int) -> set[int]:
    """Bring the history table up to date; returns the files whose history changed."""
    head = (git(root, "rev-parse", "HEAD") or "").strip() if limit > 0 else ""
    known = store.get_meta(db, "head")
    if head == known:
        return set()
    files = {path: file for file, path in db.execute("SELECT id, path FROM files")}
    records: dict[str, _Record] = {}
    span = "HEAD"
    if head and known and git(root, "merge-base", "--is-ancestor", known, head) is not None:
        span = f"{known}..HEAD"
        records = _load(db, files)
    else:
        db.execute("DELETE FROM history")
    changed = _read_log(root, span, limit, records) if head else set()
    rows = []
    for path in changed:
        record = records[path]
        if path in files:
            rows.append(
                (
                    files[path],
                    record.commits,
                    record.first,
                    record.last,
                    record.author,
                    json.dumps(record.authors.most_common()),
                    json.dumps(record.companions.most_common(_KEPT)),
                )
            )
    db.executemany("INSERT OR REPLACE INTO history VALUES(?,?,?,?,?,?,?)", rows)
    store.set_meta(db, "head", head)
    return {row[0] for row in rows}


def _load(db: sqlite3.Connection, files: dict[str, int]) -> dict[str, _Record]:
    paths = {file: path for path, file in files.items()}
    return {
        paths[file]: _Record(
            commits, first, last, author, Counter(dict(json.loads(authors))), Counter(dict(json.loads(companions)))
        )
        for file, commits, first, last, author, authors, companions in db.execute("SELECT * FROM history")
        if file in paths
    }


def _read_log(root: Path, span: str, limit: int, records: dict[str, _Record]) -> set[str]:
    """Add the commits of a span, oldest first, to the records; returns the paths they touch."""
    text = git(
        root,
        "log",
        f"--max-count={limit}",
        "--no-merges",
        "--no-renames",
        "--no-ext-diff",
        "--name-only",
        "--relative",
        "-z",
        "--format=%x01%at%x02%an",
        span,
    )
    changed: set[str] = set()
    if not text:
        return changed
    for commit in reversed(text.split("\x01")[1:]):
        head, _, rest = commit.partition("\0")
        seconds, _, author = head.partition("\x02")
        paths = [path for path in rest.lstrip("\n").split("\0") if path]
        try:
            time = int(seconds)
        except ValueError:
            continue
        for path in paths:
            record = records.get(path)
            if record is None:
                record = records[path] = _Record(first=time)
            record.commits += 1
            record.last, record.author = time, author
            record.authors[author] += 1
            if 1 < len(paths) <= _WIDE:
                record.companions.update(other for other in paths if other != path)
        changed.update(paths)
    return changed


def choose_shown(authors: str, companions: str) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The authors and companions that a page names; a companion counts from its second common change."""
    who = [(str(name), int(count)) for name, count in json.loads(authors)[:_AUTHORS]]
    along = [(str(path), int(count)) for path, count in json.loads(companions) if count > 1][:_COMPANIONS]
    return who, along
