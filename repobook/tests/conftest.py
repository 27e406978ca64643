"""Small repositories with known answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from repobook.build import Outcome, build_model, silent
from repobook.config import Config
from repobook.pages.writer import write_pages

Files = dict[str, str | bytes]


def write_tree(root: Path, files: Files) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


class Repository:
    """A tree, its book, and the model of both."""

    def __init__(self, root: Path, output: Path) -> None:
        self.root = root
        self.output = output
        self.config = Config()

    def write(self, files: Files) -> "Repository":
        write_tree(self.root, files)
        return self

    def build(self, jobs: int = 1) -> Outcome:
        db, outcome = build_model(self.root, self.output, self.config, jobs)
        write_pages(db, self.root, self.output, self.config, jobs, outcome, silent)
        db.close()
        return outcome

    @property
    def db(self):  # type: ignore[no-untyped-def]
        from repobook.build import database
        from repobook.model.store import connect

        return connect(database(self.output), readonly=True)

    def page(self, name: str) -> str:
        return (self.output / name).read_text(encoding="utf-8")

    def pages(self) -> dict[str, bytes]:
        found = {}
        for path in sorted(self.output.rglob("*.md")):
            found[str(path.relative_to(self.output))] = path.read_bytes()
        return found


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "tree").mkdir()
    return Repository(tmp_path / "tree", tmp_path / "tree" / "book")


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[[Files], Repository]:
    count = 0

    def make(files: Files) -> Repository:
        nonlocal count
        count += 1
        root = tmp_path / f"tree{count}"
        root.mkdir()
        return Repository(root, root / "book").write(files)

    return make
