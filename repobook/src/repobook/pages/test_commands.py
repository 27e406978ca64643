"""Commands that run tests: by the language of the test files and the build files around them."""

import shlex
from collections.abc import Iterable

from repobook.pages.book_facts import Book
from repobook.pages.records import File

_SCRIPTS = ("javascript", "typescript", "tsx")
_MOST = 8  # files that one command names


def commands_for(book: Book, files: Iterable[File]) -> list[str]:
    """Shell commands, from the root of the tree, that run the tests in some files; none for unknown test runners."""
    by_language: dict[str, list[str]] = {}
    for file in files:
        language = "script" if file.language in _SCRIPTS else file.language
        by_language.setdefault(language, []).append(file.path)
    found: list[str] = []
    for language, paths in by_language.items():
        make = _MAKERS.get(language)
        if make is not None:
            found += make(book, paths[:_MOST])
    return list(dict.fromkeys(found))


def _python(book: Book, paths: list[str]) -> list[str]:
    return ["python -m pytest " + " ".join(map(shlex.quote, paths))]


def _go(book: Book, paths: list[str]) -> list[str]:
    folders = dict.fromkeys("./" + path.rpartition("/")[0] for path in paths)
    return ["go test " + " ".join(shlex.quote(folder) for folder in folders)]


def _rust(book: Book, paths: list[str]) -> list[str]:
    found = []
    for path in paths:
        crate = _find_above(book, path, "Cargo.toml")
        if crate is None:
            continue
        place = f" --manifest-path {shlex.quote(crate + '/Cargo.toml')}" if crate else ""
        inside = path[len(crate) + 1 :] if crate else path
        folder, _, name = inside.rpartition("/")
        only = f" --test {shlex.quote(name.removesuffix('.rs'))}" if folder == "tests" else ""
        found.append(f"cargo test{place}{only}")
    return found


def _scripts(book: Book, paths: list[str]) -> list[str]:
    named = " ".join(map(shlex.quote, paths))
    names = {path.rpartition("/")[2] for path in book.by_path}
    if any(name.startswith("vitest.") for name in names):
        return ["npx vitest run " + named]
    if any(name.startswith("jest.config") for name in names):
        return ["npx jest " + named]
    return ["npm test -- " + named] if "package.json" in names else []


def _java(book: Book, paths: list[str]) -> list[str]:
    classes = [path.rpartition("/")[2].removesuffix(".java") for path in paths]
    if "pom.xml" in book.by_path:
        return [f"mvn test -Dtest={','.join(classes)}"]
    if "build.gradle" in book.by_path or "build.gradle.kts" in book.by_path:
        return ["gradle test " + " ".join(f"--tests {name}" for name in classes)]
    return []


def _find_above(book: Book, path: str, name: str) -> str | None:
    """The nearest folder at or above a file that holds a build file."""
    folder = path.rpartition("/")[0]
    while True:
        if (f"{folder}/{name}" if folder else name) in book.by_path:
            return folder
        if not folder:
            return None
        folder = folder.rpartition("/")[0]


_MAKERS = {"python": _python, "go": _go, "rust": _rust, "script": _scripts, "java": _java}
