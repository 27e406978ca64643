"""Run the comparison: make two environments, write values with torch, compare with ndgrad, and write docs/what-runs.md.

    python -m tests.ecosystem [--folder build/ecosystem] [--python python3] [--torch-env ENV --ndgrad-env ENV]
    python -m tests.ecosystem --only causal-gpt2 peft_lora       these models and programs; the page is left as it is
    python -m tests.ecosystem --suites einops e3nn               these libraries' own tests; their rows of the page are rewritten
    python -m tests.ecosystem --suites einops --sample 0         all of einops' tests instead of a sample

Existing environments can be given. A failure is listed with its reason, and makes the exit status 1 if it has no known
reason.
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

from tests.ecosystem.library_tests import SUITES, Comparison, Limits, compare_suite, find_reason

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "what-runs.md"
START, END = "<!-- table: written by python -m tests.ecosystem -->", "<!-- end of the table -->"
SUITES_START, SUITES_END = "<!-- libraries' own tests: written by python -m tests.ecosystem -->", "<!-- end of libraries' own tests -->"
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
    parser.add_argument("--suites", nargs="*", choices=sorted(SUITES), help="run only libraries' own tests: these, or all")
    parser.add_argument("--sample", type=int, default=24, help="number of a library's own tests that are run, or 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="selects the sample")
    parser.add_argument("--limit", type=float, default=300, help="seconds of CPU time for a library's own tests with torch")
    parser.add_argument("--test-limit", type=float, default=30, help="seconds of CPU time for one of these tests with torch")
    given = parser.parse_args()
    given.folder = given.folder.absolute()
    theirs = (given.torch_env or make_environment(given.folder / "env-torch", given.python, with_torch=True)).absolute()
    ours = (given.ndgrad_env or make_environment(given.folder / "env-ndgrad", given.python, with_torch=False)).absolute()
    failures: list[str] = []
    write = not given.no_page and not given.only
    if given.suites is None:
        text, failures = compare_programs(theirs, ours, given.folder / "values", given.only)
        print(text)
        if write:
            write_page(START, text, END)
    if given.suites is not None or not given.only:
        limits = Limits(given.limit, given.test_limit, given.sample, given.seed)
        text, unexplained = compare_suites(theirs, ours, given.folder, given.suites or list(SUITES), limits)
        print(text)
        failures += unexplained
        if write:
            write_page(SUITES_START, text, SUITES_END)
    return 1 if failures else 0


def compare_programs(theirs: Path, ours: Path, values: Path, only: list[str]) -> tuple[str, list[str]]:
    """Compare models and programs. Return the table as text, and the failures."""
    failed = [row["case"] for row in run(theirs, "model_values.py", "write", values, *only) if has_failed(row)]
    failed += [row["program"] for row in run(theirs, "library_programs.py", "write", values, *only) if has_failed(row)]
    rows = run(ours, "model_values.py", "compare", values, *only)
    again = {row["case"]: row for row in run(theirs, "model_values.py", "read", values, *only)}
    for row in rows:
        row.update(again.get(row["case"], {}))
    programs = run(ours, "library_programs.py", "compare", values, *only)
    imports = run(ours, "imports.py", "count", values)[0]
    if failed:
        print("torch fails in", *failed)
    return make_table(rows, programs, imports)


def compare_suites(theirs: Path, ours: Path, folder: Path, names: list[str], limits: Limits) -> tuple[str, list[str]]:
    """Compare libraries' own tests. Return the table as text, and the failures without a known reason.

    Results are kept in the folder, so that the table also has libraries of earlier runs.
    """
    kept = folder / "suites.json"
    results = json.loads(kept.read_text()) if kept.is_file() else {}
    for name in names:
        result = compare_suite(name, read_versions()[name], theirs, ours, folder, limits)
        results[name] = vars(result)
        kept.write_text(json.dumps(results, indent=1))
    measured = [Comparison(**results[name]) for name in SUITES if name in results]
    rows = [row for row in measured if row.counted]
    lines = ["| library | tests | run, and passed by torch | passed by ndgrad | not reached in time |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row.library} {read_versions()[row.library]} | {row.collected} | {row.counted} | {row.passed} | {row.unreached} |")
    sums = [sum(vars(row)[name] for row in rows) for name in ("collected", "counted", "passed", "unreached")]
    lines.append(f"| together | {' | '.join(map(str, sums))} |")
    absent = [name for name in SUITES if name not in {row.library for row in rows}]
    if absent:
        lines += ["", f"No test of these libraries was run in both environments: {', '.join(absent)}."]
    failures = [(row.library, test, error) for row in rows for test, error in row.failures]
    if failures:
        lines += ["", "Tests that only torch passes:", ""]
        lines += [f"* {library}, `{test}`: {find_reason(library, test) or error}" for library, test, error in failures]
    unexplained = [test for library, test, _ in failures if not find_reason(library, test)]
    return "\n".join(lines) + "\n\n", unexplained


def write_page(start: str, text: str, end: str) -> None:
    """Replace the text between two comments of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(start)
    PAGE.write_text(f"{before}{start}\n{text}{end}{rest.partition(end)[2]}", encoding="utf-8")


def read_versions() -> dict[str, str]:
    """Return the pinned versions by name."""
    lines = (HERE / "versions.txt").read_text().splitlines()
    pins = (line.split()[0].partition("==") for line in lines if line and not line.startswith("#"))
    return {name: version for name, _, version in pins if version}


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
    if not with_torch:
        subprocess.run([inner, "-m", "pip", "install", "-q", "-e", str(ROOT)], check=True)
        subprocess.run([inner, "-m", "ndgrad.as_torch", "--install"], check=True)
        pinned = [line for line in pinned if not line.startswith("torch==")]
    alone = [line.split() for line in pinned if line.endswith(" --no-deps")]
    subprocess.run([inner, "-m", "pip", "install", "-q", *(line for line in pinned if " " not in line)], check=True)
    for words in alone:
        subprocess.run([inner, "-m", "pip", "install", "-q", *words], check=True)
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
    pins = read_versions()
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
