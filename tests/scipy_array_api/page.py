"""The tables of docs/scipy-functions.md, made from the calls and from what came of them.

python -m tests.scipy_array_api.page            writes the tables into the page
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.scipy_array_api.cases import GROUPS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "scipy-functions.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def outcomes() -> dict[str, dict[str, str]]:
    """Group -> what came of each of its calls, in one process that has SCIPY_ARRAY_API set."""
    paths = [str(ROOT / "src"), str(ROOT)]
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "tests.scipy_array_api.outcomes"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"the calls of SciPy's functions did not run:\n{done.stderr[-3000:]}")
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def section(group: str, found: dict[str, str]) -> str:
    """The part of the page about one group."""
    cases = GROUPS[group]
    right = sorted(n for n, o in found.items() if not o and not cases[n].constant)
    constant = sorted(n for n, o in found.items() if not o and cases[n].constant)
    lines = [f"## scipy.{group}", ""]
    if right:
        lines += [f"Differentiable ({len(right)}): " + ", ".join(f"`{n}`" for n in right) + ".", ""]
    if constant:
        lines += [f"Without a derivative ({len(constant)}): " + ", ".join(f"`{n}`" for n in constant) + ".", ""]
    refused: dict[tuple[str, str], list[str]] = {}
    for name, error in sorted(found.items()):
        if error:
            refused.setdefault((error, cases[name].instead), []).append(name)
    if refused:
        lines += ["| raises | error | instead |", "|---|---|---|"]
        lines += [f"| {', '.join(f'`{n}`' for n in names)} | `{error}` | {instead} |" for (error, instead), names in refused.items()]
        lines += [""]
    return "\n".join(lines)


def written_sections() -> dict[str, str]:
    """Group -> its part of the page as it stands."""
    tables = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    parts = re.split(r"^(?=## scipy)", tables, flags=re.M)[1:]
    return {p.splitlines()[0].removeprefix("## scipy."): p.strip() for p in parts}


def version() -> str:
    """The SciPy that the page speaks of."""
    found = re.search(r"SciPy (\d+\.\d+) that the tests ran on", PAGE.read_text())
    assert found is not None
    return found.group(1)


def count(sections: dict[str, str], word: str) -> int:
    return sum(int(n) for part in sections.values() for n in re.findall(rf"{word} \((\d+)\)", part))


def main() -> None:
    sections = {group: section(group, found) for group, found in outcomes().items()}
    head, rest = PAGE.read_text().split(BEGIN)
    tail = rest.split(END)[1]
    head = re.sub(r"\d+ functions are differentiable", f"{count(sections, 'Differentiable')} functions are differentiable", head)
    PAGE.write_text(head + BEGIN + "\n\n" + "\n".join(sections.values()) + "\n" + END + tail)


if __name__ == "__main__":
    main()
