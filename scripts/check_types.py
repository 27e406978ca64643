"""Run mypy and pyright over what users would write: tests/typing, and every program of README, docs, examples and demo.

    python scripts/check_types.py [mypy | pyright]

Programs must be accepted as they stand; in tests/typing/misspelt.py every line marked `# error` must
be refused, and no other.

Programs of pages are put together from their blocks, one file per page. Like examples and demo they leave functions
unannotated, as users do (pyproject.toml has the settings). A block after `<!-- untyped: reason -->` is left out.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TYPING = ROOT / "tests" / "typing"
MISSPELT = TYPING / "misspelt.py"
#: Pages whose blocks are no programs of users: they show the library's own source, or grow one.
LEFT_OUT = frozenset(
    f"docs/{page}.md" for page in ("adding-an-op", "build-it-yourself", "changelog", "contributing", "design")
)
#: Folders of pages that are written by hand. Other folders of docs are generated from sources that are checked.
WRITTEN_FOLDERS = ("docs/compile", "docs/differences", "docs/recipes", "docs/tutorials")


class Report(NamedTuple):
    """An error that a type checker found."""

    path: Path
    line: int
    message: str


# ----- the programs ---------------------------------------------------------------------------------------------------


def program_of(page: Path) -> str:
    """The Python of a page, at the lines where it stands."""
    text = page.read_text()
    lines = [""] * (text.count("\n") + 2)
    for match in re.finditer(r"^```(?:python|pycon)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        start = text[: match.start(1)].count("\n")
        above = text[: match.start()].rstrip("\n").rpartition("\n")[2]
        if re.fullmatch(r"<!-- untyped: .+ -->", above):
            continue
        if ">>> " in match[1]:
            for example in doctest.DocTestParser().get_examples(match[1]):
                if example.exc_msg is not None:
                    continue  # shows an error, which a type checker may know of
                for i, line in enumerate(example.source.rstrip("\n").split("\n")):
                    lines[start + example.lineno + i] = line
        else:
            for i, line in enumerate(match[1].rstrip("\n").split("\n")):
                lines[start + i] = line
    return "\n".join(lines) + "\n"


def write_pages(folder: Path) -> dict[Path, Path]:
    """Write the programs of pages into a folder: program -> its page."""
    written = {}
    pages = [page for folder in ("docs", *WRITTEN_FOLDERS) for page in sorted((ROOT / folder).glob("*.md"))]
    for page in [ROOT / "README.md", *pages]:
        name = page.relative_to(ROOT).as_posix()
        program = program_of(page)
        if name not in LEFT_OUT and program.strip():
            target = folder / (re.sub(r"\W", "_", name.removesuffix(".md")) + ".py")
            target.write_text(program)
            written[target] = page
    return written


# ----- the tools ------------------------------------------------------------------------------------------------------


def _output(tool: str, *arguments: str, folder: Path) -> str:
    environment = {**os.environ, "MYPYPATH": os.pathsep.join((str(ROOT / "src"), str(folder.parent)))}
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{tool} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def mypy(files: list[str], folder: Path) -> list[Report]:
    out = _output("mypy", "--no-error-summary", "--hide-error-context", *files, folder=folder)
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", out, re.MULTILINE)
    return [Report((ROOT / path).resolve(), int(line), message) for path, line, message in found]


def pyright(files: list[str], folder: Path) -> list[Report]:
    out = _output(
        "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(TYPING), *files, folder=folder
    )
    found = [d for d in json.loads(out)["generalDiagnostics"] if d["severity"] == "error"]
    return [Report(Path(d["file"]).resolve(), d["range"]["start"]["line"] + 1, d["message"]) for d in found]


TOOLS: dict[str, Callable[[list[str], Path], list[Report]]] = {"mypy": mypy, "pyright": pyright}


# ----- the verdict ----------------------------------------------------------------------------------------------------


def complaints(reports: list[Report], pages: dict[Path, Path]) -> list[str]:
    """Return the mistakes: errors in programs, and lines of misspelt.py whose error was missed."""
    marked = {i for i, line in enumerate(MISSPELT.read_text().splitlines(), 1) if line.endswith("# error")}
    said = []
    for path, line, message in reports:
        if path == MISSPELT and line in marked:
            continue
        shown = pages.get(path, path)
        said.append(f"{shown.relative_to(ROOT) if shown.is_relative_to(ROOT) else shown}:{line}: {message}")
    missed = marked - {r.line for r in reports if r.path == MISSPELT}
    return said + [f"{MISSPELT.relative_to(ROOT)}:{line}: no error here" for line in sorted(missed)]


def main() -> int:
    failed = False
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve() / "pages"
        folder.mkdir()
        pages = write_pages(folder)
        files = [
            *map(str, sorted(TYPING.glob("*.py"))),
            *map(str, pages),
            *map(str, sorted((ROOT / "examples").glob("*.py"))),
            "demo",
        ]
        for tool in sys.argv[1:] or TOOLS:
            said = complaints(TOOLS[tool](files, folder), pages)
            verdict = f"{len(said)} errors" if said else f"{len(files)} programs as they should be"
            print("\n".join([*said, f"{tool}: {verdict}"]), flush=True)
            failed |= bool(said)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
