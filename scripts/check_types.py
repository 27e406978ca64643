"""Run mypy --strict and pyright over what users would write: tests/typing, and every program of README, docs, examples and demo.

    python scripts/check_types.py [mypy | pyright]

Programs of pages are put together from their blocks, one file per page, and leave functions unannotated as users do; so in these, and in
examples and demo, functions need no annotations.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Pages whose blocks are no programs of users: they show the library's own source, or torch's.
LEFT_OUT = frozenset(("docs/adding-an-op.md", "docs/changelog.md", "docs/contributing.md"))
UNANNOTATED = (
    "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--check-untyped-defs", "--allow-untyped-decorators",
    "--allow-redefinition", "--no-warn-return-any",
)  # fmt: skip


def program_of(page: Path) -> str:
    """The Python of a page, at the lines where it stands."""
    lines = [""] * (len(page.read_text().splitlines()) + 1)
    for match in re.finditer(r"^```(python|pycon)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        start = page.read_text()[: match.start(2)].count("\n")
        if ">>> " in match[2]:
            for example in doctest.DocTestParser().get_examples(match[2]):
                for i, line in enumerate(example.source.rstrip("\n").split("\n")):
                    lines[start + example.lineno + i] = line
        else:
            for i, line in enumerate(match[2].rstrip("\n").split("\n")):
                lines[start + i] = line
    return "\n".join(lines) + "\n"


def run(tool: str, *arguments: str) -> int:
    print(f"==> {tool} {' '.join(a for a in arguments if not a.startswith('/'))}", flush=True)
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-m", tool, *arguments], cwd=ROOT, env=environment).returncode


def main() -> int:
    tools = sys.argv[1:] or ["mypy", "pyright"]
    with tempfile.TemporaryDirectory() as folder:
        pages = []
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            name = page.relative_to(ROOT).as_posix()
            program = program_of(page)
            if name not in LEFT_OUT and program.strip():
                target = Path(folder) / (re.sub(r"\W", "_", name.removesuffix(".md")) + ".py")
                target.write_text(program)
                pages.append(str(target))
        programs = [*pages, *map(str, sorted((ROOT / "examples").glob("*.py"))), str(ROOT / "demo")]
        failed = 0
        if "mypy" in tools:
            failed |= run("mypy", "--strict", "tests/typing")
            failed |= run("mypy", "--strict", *UNANNOTATED, *programs)
        if "pyright" in tools:
            failed |= run("pyright", "--project", str(ROOT / "tests" / "typing"), "tests/typing", *programs)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
