"""Run the comparison: make two environments, write values with torch, compare with ndgrad, and write docs/what-runs.md.

    python -m tests.ecosystem [--folder build/ecosystem] [--python python3] [--torch-env ENV --ndgrad-env ENV]

Existing environments can be given. A failure is listed with its reason, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "what-runs.md"
START, END = "<!-- table: written by python -m tests.ecosystem -->", "<!-- end of the table -->"
PARTS = {
    "forward": "results", "gradients": "gradients", "step": "a step of AdamW", "generate": "`generate`, greedy and with beams",
    "load": "load torch's safetensors", "save": "torch loads ndgrad's safetensors",
}  # fmt: skip
LIBRARIES = ("trainer", "pipeline", "peft", "accelerate", "lightning", "torch_geometric")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "ecosystem")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch-env", type=Path, help="an environment with torch and the libraries")
    parser.add_argument("--ndgrad-env", type=Path, help="an environment with ndgrad installed as torch, and the libraries")
    parser.add_argument("--no-page", action="store_true", help="leave docs/what-runs.md as it is")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run these cases and programs, and leave the page as it is")
    given = parser.parse_args()
    theirs = given.torch_env or make_environment(given.folder / "env-torch", given.python, with_torch=True)
    ours = given.ndgrad_env or make_environment(given.folder / "env-ndgrad", given.python, with_torch=False)
    values = given.folder / "values"
    failed = [row["case"] for row in run(theirs, "model_values.py", "write", values, *given.only) if has_failed(row)]
    failed += [row["program"] for row in run(theirs, "library_programs.py", "write", values, *given.only) if has_failed(row)]
    rows = run(ours, "model_values.py", "compare", values, *given.only)
    again = {row["case"]: row for row in run(theirs, "model_values.py", "read", values, *given.only)}
    for row in rows:
        row.update(again.get(row["case"], {}))
    programs = run(ours, "library_programs.py", "compare", values, *given.only)
    imports = run(ours, "imports.py", "count", values)[0]
    if failed:
        print("torch fails in", *failed)
    text, failures = make_table(rows, programs, imports)
    print(text)
    if not given.no_page and not given.only:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(START)
        PAGE.write_text(f"{before}{START}\n{text}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 1 if failures else 0


def has_failed(row: dict[str, Any]) -> bool:
    return any(str(value).startswith("error") for value in row.values())


def make_environment(folder: Path, python: str, *, with_torch: bool) -> Path:
    """Return an environment with the pinned libraries; ndgrad takes torch's place in one of them."""
    stamp = folder / "complete"
    if stamp.is_file() and stamp.read_text() == (HERE / "versions.txt").read_text():
        return folder
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inner = str(folder / "bin" / "python")
    pinned = [line for line in (HERE / "versions.txt").read_text().splitlines() if line and not line.startswith("#")]
    if with_torch:
        subprocess.run([inner, "-m", "pip", "install", "-q", *pinned], check=True)
    else:
        subprocess.run([inner, "-m", "pip", "install", "-q", "-e", str(ROOT)], check=True)
        subprocess.run([inner, "-m", "ndgrad.as_torch", "--install"], check=True)
        subprocess.run([inner, "-m", "pip", "install", "-q", *(p for p in pinned if not p.startswith("torch=="))], check=True)
    stamp.write_text((HERE / "versions.txt").read_text())
    return folder


def run(environment: Path, script: str, mode: str, values: Path, *only: str) -> list[dict[str, Any]]:
    """Run a script of this folder in an environment, and return its lines of JSON."""
    print(f"==> {script} {mode} in {environment.name}", flush=True)
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    settings.pop("PYTHONPATH", None)
    command = [str(environment / "bin" / "python"), str(HERE / script), mode, str(values.resolve()), *only]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]


def make_table(rows: list[dict[str, Any]], programs: list[dict[str, Any]], imports: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the table as text, and the failures."""
    pins = dict(line.split("==") for line in (HERE / "versions.txt").read_text().splitlines() if "==" in line)
    lines = [f"Compared with torch {pins['torch']}.", "", "| library | compared | equal to torch |", "|---|---|---|"]
    failures = [f"import of `{name}`: {reason}" for name, reason in imports["failures"].items()]
    lines.append(f"| transformers {pins['transformers']} | import of modeling modules | {imports['imported']} of {imports['modules']} |")
    for part, words in PARTS.items():
        found = [(row["case"], row[part]) for row in rows if part in row]
        equal = sum(state == "equal" for _, state in found)
        failures += [f"`{case}`, {part}: {state}" for case, state in found if state != "equal"]
        lines.append(f"| transformers {pins['transformers']} | tiny models: {words} | {equal} of {len(found)} |")
    counts: Counter[tuple[str, bool]] = Counter()
    for row in programs:
        library = next(name for name in LIBRARIES if row["program"].startswith(name))
        counts[library, row["result"] == "equal"] += 1
        if row["result"] != "equal":
            failures.append(f"`{row['program']}`: {row['result']}")
    for library in LIBRARIES:
        name = {"trainer": "transformers", "pipeline": "transformers"}.get(library, library.replace("_", "-"))
        what = {"trainer": "`Trainer`", "pipeline": "pipelines"}.get(library, "programs")
        lines.append(f"| {name} {pins[name]} | {what} | {counts[library, True]} of {counts[library, True] + counts[library, False]} |")
    lines += ["", "Differences:" if failures else "There are no differences.", *(["", *(f"* {f}" for f in failures)] if failures else [])]
    return "\n".join(lines) + "\n\n", failures


if __name__ == "__main__":
    raise SystemExit(main())
