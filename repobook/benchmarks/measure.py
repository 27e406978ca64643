"""Measure repobook on a tree: time and memory of builds, time of questions, symbols beside universal-ctags, links.

    python benchmarks/measure.py PATH [-o BOOK] [-j JOBS]

Times are CPU seconds of all processes, and wall time beside them: on a shared machine only the first compares.
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from repobook import ask, check
from repobook.build import build_model, database, silent
from repobook.config import Config
from repobook.model import store
from repobook.pages.writer import write_pages


def cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def build(root: Path, output: Path, jobs: int) -> dict[str, float]:
    wall, start = time.monotonic(), cpu()
    config = Config.load(root)
    db, outcome = build_model(root, output, config, jobs)
    model = cpu() - start
    write_pages(db, root, output, config, jobs, outcome, silent)
    db.close()
    return {
        "model_cpu": model,
        "cpu": cpu() - start,
        "wall": time.monotonic() - wall,
        "read": outcome.read,
        "written": outcome.written,
    }


def ctags_recall(root: Path, db: sqlite3.Connection) -> dict[str, float]:
    """The share of ctags's C, C++, CUDA and Python symbols that have an entry in the same file."""
    command = [
        "ctags",
        "-R",
        "--languages=C,C++,CUDA,Python",
        "--langmap=C++:+.h",
        "--fields=nKl",
        "--excmd=number",
        "-f",
        "-",
        ".",
    ]
    start = cpu()
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, errors="replace", check=True)
    took = cpu() - start
    paths = dict(db.execute("SELECT id, path FROM files"))
    have: set[tuple[str, str]] = set()
    for symbol, name, line in db.execute("SELECT id, name, line FROM symbols"):
        # ctags names `TEST(Suite, name)` after its macro; what counts is that the place has an entry.
        have.update(((paths[symbol >> 20], name.replace(" ", "")), (paths[symbol >> 20], f"line:{line}")))
    total, missing = Counter[str](), Counter[str]()
    for line in done.stdout.splitlines():
        name, path, _, kind, *rest = line.split("\t")
        python = "language:Python" in rest
        if (python and kind not in ("class", "function", "member", "variable")) or name.startswith(
            ("__anon", "anonFunc")
        ):
            continue
        language = "Python" if python else "C family"
        total[language] += 1
        where = path.removeprefix("./")
        at = next((part for part in rest if part.startswith("line:")), "")
        missing[language] += (where, name.replace(" ", "")) not in have and (where, at) not in have
    return {
        "ctags_cpu": took,
        **{f"{k}_symbols": n for k, n in total.items()},
        **{f"{k}_recall": 1 - missing[k] / n for k, n in total.items()},
    }


def questions(db: sqlite3.Connection) -> dict[str, float]:
    """Median and worst milliseconds of find and uses over the most used and some random names."""
    names = [row[0] for row in db.execute("SELECT name FROM symbols WHERE uses>0 ORDER BY uses DESC LIMIT 50")]
    names += [row[0] for row in db.execute("SELECT name FROM symbols WHERE kind<>'file' AND id % 997 = 0 LIMIT 150")]
    found: dict[str, float] = {}
    for title, question in (
        ("find", lambda n: ask.find(db, n)),
        ("uses", lambda n: ask.uses(db, n)),
        ("callers", lambda n: ask.uses(db, n, True)),
    ):
        times = []
        for name in names:
            start = time.perf_counter()
            question(name)
            times.append(1000 * (time.perf_counter() - start))
        found[f"{title}_median_ms"], found[f"{title}_worst_ms"] = statistics.median(times), max(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--change", help="a file of the tree to touch for the incremental build")
    parser.add_argument("--keep", action="store_true", help="measure the book that is there instead of a cold build")
    arguments = parser.parse_args()
    root, output = arguments.path, arguments.output
    results: dict[str, object] = {}
    if not arguments.keep:
        shutil.rmtree(output, ignore_errors=True)
        results["cold"] = build(root, output, arguments.jobs)
    results["unchanged"] = build(root, output, arguments.jobs)
    if arguments.change:
        changed = root / arguments.change
        original = changed.read_bytes()
        mark = b"\n# one line\n" if changed.suffix == ".py" else b"\n// one line\n"
        try:
            changed.write_bytes(original + mark)
            results["one file changed"] = build(root, output, arguments.jobs)
        finally:
            changed.write_bytes(original)
            build(root, output, arguments.jobs)
    db = store.connect(database(output), readonly=True)
    results["counts"] = {
        table: db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
        for table in ("files", "symbols", "refs", "edges", "pages")
    }
    results["questions"] = questions(db)
    if shutil.which("ctags"):
        results["ctags"] = ctags_recall(root, db)
    start = time.monotonic()
    results["dead links"] = sum(1 for _ in check.dead_links(output))
    results["link check wall"] = time.monotonic() - start
    results["peak MB"] = {
        "this process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "largest worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }
    json.dump(results, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
