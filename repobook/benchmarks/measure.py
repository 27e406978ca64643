"""Measure repobook on a tree: time and memory of builds, time of questions, symbols beside universal-ctags, links,
and whether what the keyword pages name stands where they say.

    python benchmarks/measure.py PATH -o BOOK [-j JOBS] [--change FILE] [--keep]

Times are CPU seconds of all processes, and wall time beside them: on a shared machine only the first compares. Each
build is a process of its own, as a user runs it.
"""

import argparse
import bisect
import json
import os
import random
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, String
from pygments.util import ClassNotFound

from repobook import ask, check
from repobook.build import database
from repobook.model import store


def cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


_BUILD = """
import gc, json, resource, sys, time
from pathlib import Path
start = time.monotonic()
from repobook.build import build_model, silent
from repobook.config import Config
from repobook.pages.writer import write_pages
def cpu():
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (0, -1)))
root, output, jobs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
gc.disable()  # as the command does
config = Config.load(root)
db, outcome = build_model(root, output, config, jobs)
model, model_wall = cpu(), time.monotonic() - start
write_pages(db, root, output, config, jobs, outcome, silent)
db.close()
peaks = [resource.getrusage(who).ru_maxrss // 1024 for who in (0, -1)]
print(json.dumps({
    "cpu": cpu(), "wall": time.monotonic() - start, "model_cpu": model, "model_wall": model_wall,
    "read": outcome.read, "written": outcome.written, "peak MB of the process and its largest worker": peaks,
}))
"""


def build(root: Path, output: Path, jobs: int) -> dict[str, object]:
    command = [sys.executable, "-c", _BUILD, str(root), str(output), str(jobs)]
    found: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


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
    tagged: set[tuple[str, str]] = set()
    for line in done.stdout.splitlines():
        name, path, _, kind, *rest = line.split("\t")
        python = "language:Python" in rest
        tagged.add((path.removeprefix("./"), name.replace(" ", "")))
        if (python and kind not in ("class", "function", "member", "variable")) or name.startswith(
            ("__anon", "anonFunc")
        ):
            continue
        language = "Python" if python else "C family"
        total[language] += 1
        where = path.removeprefix("./")
        at = next((part for part in rest if part.startswith("line:")), "")
        missing[language] += (where, name.replace(" ", "")) not in have and (where, at) not in have
    ours = [
        (paths[symbol >> 20], name.replace(" ", ""))
        for symbol, name in db.execute(
            "SELECT s.id, s.name FROM symbols s JOIN files f ON f.id=s.id>>20 WHERE s.declaration=0 AND s.kind IN "
            "('class', 'struct', 'enum', 'function', 'method', 'macro') AND f.language IN "
            "('c', 'cpp', 'cuda', 'python')"
        )
    ]
    return {
        "ctags_cpu": took,
        "our_definitions": len(ours),
        "our_definitions_in_ctags": sum(one in tagged for one in ours) / max(len(ours), 1),
        **{f"{k}_symbols": n for k, n in total.items()},
        **{f"{k}_recall": 1 - missing[k] / n for k, n in total.items()},
    }


# ----- whether entries are real -----------------------------------------------------------------------------

_ENTRY = re.compile(r"- \[?(`+) ?(.*?) ?\1")
_PLACE = re.compile(r"#L(\d+)\)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATOR = re.compile(r"^operator\b")
# Entries of these kinds are text: modules, options, keys of data, names that a string registers.
_TEXT = ("Imports", "Flags", "Environment variables", "Keys", "Bindings", "Targets", "Rules", "Sections", "Labels")


class Source:
    """The lines of a file, and its names outside comments and strings, by a lexer that finds no name for repobook."""

    def __init__(self, path: Path) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        self.lines = text.split("\n")
        self.names: dict[int, set[str]] = {}
        try:
            lexer = get_lexer_for_filename(path.name.removesuffix(".in"), stripnl=False, ensurenl=False)
        except ClassNotFound:
            for number, line in enumerate(self.lines, 1):
                self.names[number] = set(_NAME.findall(line))
            return
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        if "\r" in text:
            text = text.replace("\r\n", " \n").replace("\r", " ")
        # To the lexer of CMake an argument without quotes is a plain String: the name that `set(NAME ...)` defines too.
        bare = lexer.name == "CMake"
        for at, kind, value in lexer.get_tokens_unprocessed(text):
            if kind in Comment and kind not in Comment.Preproc and kind not in Comment.PreprocFile:
                continue
            if kind in String and not (bare and kind is String):
                continue
            for match in _NAME.finditer(value):
                line_number = bisect.bisect_right(starts, at + match.start())
                self.names.setdefault(line_number, set()).add(match.group())


def entries(page: str) -> list[tuple[str, str, int]]:
    """(kind, name, line) of what a keyword page lists under Identifiers."""
    found = []
    kind = ""
    for row in page.partition("## Identifiers")[2].partition("\n## Concepts")[0].split("\n"):
        if row.startswith("### "):
            kind = row[4:]
        entry, place = _ENTRY.match(row), _PLACE.search(row)
        if entry and place:
            found.append((kind, entry.group(2), int(place.group(1))))
    return found


def real(kind: str, name: str, line: int, source: Source) -> bool:
    """Whether a name stands at its line: as code, or for names of modules and options as text."""
    if kind in _TEXT:
        # `from m import (` stands above the names that it imports.
        *modules, last = name.split() or [""]
        above = "\n".join(source.lines[max(0, line - 100) : line])
        return line <= len(source.lines) and last in source.lines[line - 1] and all(one in above for one in modules)
    return all(part in source.names.get(line, ()) for part in _NAME.findall(_OPERATOR.sub("", name)))


def identifiers(root: Path, output: Path, db: sqlite3.Connection, files: int = 300) -> dict[str, object]:
    """Of a random sample of files, the share of entries under Identifiers that stand in the file at the named line."""
    paths = [
        row[0] for row in db.execute("SELECT path FROM files WHERE status='ok' AND language<>'text' ORDER BY path")
    ]
    total, wrong, examples = 0, 0, []
    for path in random.Random(14).sample(paths, min(files, len(paths))):
        source = Source(root / path)
        for kind, name, line in entries((output / f"{path}_kw.md").read_text(encoding="utf-8")):
            total += 1
            if not real(kind, name, line, source):
                wrong += 1
                examples.append(f"{path}:{line} {kind} {name}")
    return {"files": min(files, len(paths)), "entries": total, "real": 1 - wrong / max(total, 1), "not": examples[:20]}


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
        # Not into a folder that was deleted just before: ext4 does not use the place of a file again for some minutes
        # and looks for another, which makes each new file five times as dear.
        if output.exists():
            sys.exit(f"{output} exists: name a new folder, or --keep to measure the book that is there")
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
    results["identifiers"] = identifiers(root, output, db)
    if shutil.which("ctags"):
        results["ctags"] = ctags_recall(root, db)
    start = time.monotonic()
    results["dead links"] = sum(1 for _ in check.dead_links(output))
    results["link check wall"] = time.monotonic() - start
    json.dump(results, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
