"""The command `repobook`."""

import argparse
import json
import os
import sqlite3
import sys
import time
from pathlib import Path

from repobook import __version__, ask
from repobook.config import Config, ConfigError


def main(argv: list[str] | None = None) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\nrepobook: interrupted; the book on disk is whole, and the next build goes on from here", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("repobook", description="A book of any repository.")
    parser.add_argument("--version", action="version", version=f"repobook {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, description: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=description, description=description)
        sub.set_defaults(run=run)
        return sub

    build = command("build", _build, "build or update the book of a repository")
    build.add_argument("path", nargs="?", default=".", help="the repository (default: this folder)")
    build.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="worker processes (default: all cores)")
    build.add_argument("-q", "--quiet", action="store_true", help="no progress")
    _output(build)
    for name, run, text in (("find", _find, "where a name is defined"), ("uses", _uses, "who uses a name"), ("callers", _uses, "who calls a function")):
        query = command(name, run, text)
        query.add_argument("name")
        query.add_argument("--path", default=".", help="the repository (default: this folder)")
        query.add_argument("--limit", type=int, default=50)
        query.set_defaults(calls=name == "callers")
        _output(query)
    return parser


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default=None, help="the folder of the book (default: book/ in the repository)")
    parser.add_argument("--json", action="store_true", help="write JSON")


def _places(arguments: argparse.Namespace) -> tuple[Path, Path, Config]:
    root = Path(arguments.path)
    if not root.is_dir():
        raise ConfigError(f"repobook: {root} is not a folder; name the root of a repository")
    config = Config.load(root)
    output = Path(arguments.output) if arguments.output else root / config.output
    return root, output, config


def open_model(arguments: argparse.Namespace) -> sqlite3.Connection:
    from repobook.build import database
    from repobook.model import store

    _, output, _ = _places(arguments)
    if not database(output).exists():
        raise ConfigError(f"repobook: no book at {output}; run `repobook build` first, or name its folder with -o")
    return store.connect(database(output), readonly=True)


class _Bar:
    """A progress bar on a terminal; one line per stage elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.live = sys.stderr.isatty()
        self.stage = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self.quiet:
            return
        if not self.live:
            if stage != self.stage:
                print(f"repobook: {stage}", file=sys.stderr)
                self.stage = stage
            return
        filled = 30 * done // max(total, 1)
        print(f"\r{stage:10} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total} ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live and not self.quiet:
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr)


def _build(arguments: argparse.Namespace) -> int:
    from repobook.build import build_model
    from repobook.pages.writer import write_pages

    root, output, config = _places(arguments)
    bar = _Bar(arguments.quiet)
    start = time.monotonic()
    db, outcome = build_model(root, output, config, arguments.jobs, bar)
    write_pages(db, root, output, config, arguments.jobs, outcome, bar)
    db.close()
    bar.end()
    took = time.monotonic() - start
    for problem in outcome.problems:
        print(f"repobook: {problem}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"files": outcome.files, "read": outcome.read, "written": outcome.written, "removed": outcome.removed, "problems": outcome.problems, "seconds": round(took, 2)}))
    else:
        print(f"{outcome.files} files, {outcome.read} read, {outcome.written} pages written, {outcome.removed} removed, {took:.1f} s: {output / 'index.md'}")
    return 0


def _find(arguments: argparse.Namespace) -> int:
    found = ask.find(open_model(arguments), arguments.name, arguments.limit)
    if arguments.json:
        print(json.dumps([row.row() for row in found]))
    else:
        for row in found:
            print(f"{row.path}:{row.line}: {row.kind} {row.qualified}{' (declaration)' if row.declaration else ''}")
    return 0 if found else 1


def _uses(arguments: argparse.Namespace) -> int:
    found = ask.uses(open_model(arguments), arguments.name, arguments.calls, arguments.limit)
    if arguments.json:
        print(json.dumps([row.row() for row in found]))
    else:
        for row in found:
            mark = "" if row.certainty == "certain" else f" [{row.certainty}]"
            print(f"{row.path}:{row.line}: {row.inside or 'top level'} {row.kind} {row.target}{mark}")
    return 0 if found else 1
