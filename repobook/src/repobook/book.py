"""Bringing a book up to date: its model, its pages and, if asked, its site, under the lock of the book."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from repobook.build import Outcome, Progress, build_model, check_places, forget_model, silent
from repobook.config import Config
from repobook.lock import lock_book
from repobook.pages.writer import write_pages


def _ignore(line: str) -> None:
    """Drop a message."""


def update_book(
    root: Path,
    output: Path,
    config: Config,
    jobs: int = 1,
    progress: Progress = silent,
    then: Callable[[sqlite3.Connection], object] | None = None,
    wait: bool = True,
    tell: Callable[[str], None] = _ignore,
) -> Outcome:
    """Build or update a book. `then` runs with the model before the lock is released, for instance to write the site.

    `tell` gets single lines about waiting for another build and about a model that is damaged.
    """
    check_places(root, output)
    with lock_book(output, wait, tell):
        try:
            return _update(root, output, config, jobs, progress, then)
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            tell(f"repobook: the model in {output} is damaged ({error}); it is built from nothing")
            forget_model(output)
            return _update(root, output, config, jobs, progress, then)


def _update(
    root: Path,
    output: Path,
    config: Config,
    jobs: int,
    progress: Progress,
    then: Callable[[sqlite3.Connection], object] | None,
) -> Outcome:
    db, outcome = build_model(root, output, config, jobs, progress)
    try:
        write_pages(db, root, output, config, jobs, outcome, progress)
        if then is not None:
            then(db)
    finally:
        db.close()
    return outcome


def is_damaged(error: sqlite3.Error) -> bool:
    """True if SQLite says that the file is no whole database; a worker's error carries only the words."""
    return any(words in str(error) for words in ("malformed", "not a database"))
