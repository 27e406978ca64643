"""The command `repobook`."""

import argparse
import gc
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from repobook import __version__, ask
from repobook.config import Config, ConfigError
from repobook.naming import page_name
from repobook.workers import WorkerError


def main(argv: list[str] | None = None) -> int:
    """Run a command. Exit codes: 0 done, 1 nothing found or a failed check, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        return _say(str(error), 2)
    except WorkerError as error:
        return _say(str(error), 1)
    except sqlite3.Error as error:
        return _say(f"repobook: the model of the book cannot be used: {error}; `repobook build` makes it anew", 2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _say(f"repobook: {place}{error.strerror or error}", 2)
    except KeyboardInterrupt:
        return _say("\nrepobook: interrupted; the book on disk is whole, and the next build writes the rest", 130)


def _say(line: str, status: int) -> int:
    print(line, file=sys.stderr)
    return status


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help explains\n")


def _count(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option: a whole number in a range."""

    def parse_count(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            limits = f"of {least} or more" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"expected a whole number {limits}, not {text!r}")
        return number

    return parse_count


def _text(text: str) -> str:
    """The type of an argument that may not be empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a name, not an empty text")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("repobook", description="A book of any repository.")
    parser.add_argument("--version", action="version", version=f"repobook {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, description: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=description, description=description)
        sub.set_defaults(run=run)
        return sub

    build = command("build", _build, "build or update the book of a repository")
    build.add_argument("path", nargs="?", default=".", help="the repository (default: this folder)")
    build.add_argument(
        "-j", "--jobs", type=_count(1), default=os.cpu_count() or 1, help="worker processes (default: all cores)"
    )
    build.add_argument("--html", action="store_true", help="write the static HTML site too, in html/ of the book")
    build.add_argument("-q", "--quiet", action="store_true", help="no progress")
    build.add_argument("--no-wait", action="store_true", help="fail if another process is writing this book")
    _output(build)
    for name, run, text in (
        ("find", _find, "where a name is defined"),
        ("uses", _uses, "who uses a name"),
        ("callers", _uses, "who calls a function"),
    ):
        query = command(name, run, text)
        query.add_argument("name", type=_text)
        query.add_argument("--path", default=".", help="the repository (default: this folder)")
        query.add_argument("--limit", type=_count(1), default=50)
        query.set_defaults(calls=name == "callers")
        _output(query)
    check = command("check", _check, "fail on stale pages, dead links or, if asked, undocumented public names")
    check.add_argument("path", nargs="?", default=".", help="the repository (default: this folder)")
    check.add_argument(
        "--undocumented", metavar="PREFIX", nargs="?", const="", help="public names below PREFIX need documentation"
    )
    check.add_argument("--no-links", action="store_true", help="do not check links")
    _output(check)
    hook = command("hook", _hook, "for pre-commit: bring the book up to date, fail on dead links")
    hook.add_argument("path", nargs="?", default=".", help="the repository (default: this folder)")
    _output(hook)
    page = command("page", _page, "print the page of a file")
    page.add_argument("file", type=_text, help="path of the file in the repository")
    page.add_argument("--keywords", action="store_true", help="the keyword page instead")
    page.add_argument("--path", default=".", help="the repository (default: this folder)")
    _output(page)
    diff = command("diff", _diff, "which pages, symbols and tests the changes since a revision touch")
    diff.add_argument("revision", type=_text)
    diff.add_argument("--path", default=".", help="the repository (default: this folder)")
    _output(diff)
    search = command("search", _search, "names, notes and documentation that match words")
    search.add_argument("words", nargs="+", type=_text)
    search.add_argument("--path", default=".", help="the repository (default: this folder)")
    search.add_argument("--limit", type=_count(1), default=20)
    _output(search)
    serve = command("serve", _serve, "show the site on this machine, with live search")
    serve.add_argument("path", nargs="?", default=".", help="the repository (default: this folder)")
    serve.add_argument("--port", type=_count(0, 65535), default=8765)
    _output(serve)
    mcp = command("mcp", _mcp, "answer an assistant over stdio (Model Context Protocol)")
    mcp.add_argument("--path", default=".", help="the repository (default: this folder)")
    _output(mcp)
    return parser


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", default=None, help="the folder of the book (default: book/ in the repository)"
    )
    parser.add_argument("--json", action="store_true", help="write JSON")


def _places(arguments: argparse.Namespace) -> tuple[Path, Path, Config]:
    root = Path(arguments.path)
    if not root.is_dir():
        raise ConfigError(f"repobook: {root} is not a folder; name the root of a repository")
    config = Config.load(root)
    output = Path(arguments.output) if arguments.output else root / config.output
    return root, output, config


def open_model(arguments: argparse.Namespace) -> sqlite3.Connection:
    from repobook import build

    return build.open_model(_places(arguments)[1])


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
        print(
            f"\r{stage:10} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total} ", end="", file=sys.stderr, flush=True
        )

    def end(self) -> None:
        if self.live and not self.quiet:
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr)


def _warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _build(arguments: argparse.Namespace) -> int:
    from repobook.book import update_book
    from repobook.site.build import site_of, write_site

    root, output, config = _places(arguments)
    gc.disable()  # a build makes millions of rows that stay until it ends, and no cycles worth looking for
    bar = _Bar(arguments.quiet)
    start = time.monotonic()
    title = config.title or root.resolve().name

    def write(db: sqlite3.Connection) -> None:
        write_site(db, root, output, title, arguments.jobs, bar)

    then = write if arguments.html else None
    outcome = update_book(root, output, config, arguments.jobs, bar, then, not arguments.no_wait, _warn)
    site = f" and {site_of(output)}" if arguments.html else ""
    bar.end()
    took = time.monotonic() - start
    for problem in outcome.problems:
        print(f"repobook: {problem}", file=sys.stderr)
    if arguments.json:
        print(
            json.dumps(
                {
                    "files": outcome.files,
                    "read": outcome.read,
                    "written": outcome.written,
                    "removed": outcome.removed,
                    "problems": outcome.problems,
                    "seconds": round(took, 2),
                }
            )
        )
    else:
        print(
            f"{outcome.files} files, {outcome.read} read, {outcome.written} pages written, {outcome.removed} "
            f"removed, {took:.1f} s: {output / 'index.md'}{site}"
        )
    return 0


def _find(arguments: argparse.Namespace) -> int:
    db = open_model(arguments)
    found = ask.find(db, arguments.name, arguments.limit)
    if not found:
        _suggest(db, arguments.name)
    if arguments.json:
        print(json.dumps([row.row() for row in found]))
    else:
        for row in found:
            print(f"{row.path}:{row.line}: {row.kind} {row.qualified}{' (declaration)' if row.declaration else ''}")
    return 0 if found else 1


def _suggest(db: sqlite3.Connection, name: str) -> None:
    """Say that a name is not defined, and which names are like it."""
    similar = ask.suggest(db, name)
    _warn(f"repobook: no definition of {name!r}" + (f"; similar names: {', '.join(similar)}" if similar else ""))


def _uses(arguments: argparse.Namespace) -> int:
    db = open_model(arguments)
    found = ask.uses(db, arguments.name, arguments.calls, arguments.limit)
    if not found and not ask.find(db, arguments.name, 1):
        _suggest(db, arguments.name)
    if arguments.json:
        print(json.dumps([row.row() for row in found]))
    else:
        for row in found:
            mark = "" if row.certainty == "certain" else f" [{row.certainty}]"
            print(f"{row.path}:{row.line}: {row.inside or 'top level'} {row.kind} {row.target}{mark}")
    return 0 if found else 1


def _check(arguments: argparse.Namespace) -> int:
    from repobook import check
    from repobook.build import database
    from repobook.model import store
    from repobook.site import links
    from repobook.site.build import FOLDER

    root, output, config = _places(arguments)
    open_model(arguments).close()
    db = store.connect(database(output), readonly=True)
    problems = {"stale": list(check.find_stale(db, root, output, config))}
    if not arguments.no_links:
        problems["dead links"] = [*check.dead_links(output), *links.dead_links(output / FOLDER)]
    if arguments.undocumented is not None:
        problems["undocumented"] = list(check.find_undocumented(db, arguments.undocumented))
    total = sum(map(len, problems.values()))
    if arguments.json:
        print(json.dumps(problems))
    else:
        for kind, lines in problems.items():
            for line in lines:
                print(f"{kind}: {line}")
        print(
            f"repobook: {total} {'problem' if total == 1 else 'problems'}"
            if total
            else "repobook: the book is whole and up to date"
        )
    return 1 if total else 0


def _page(arguments: argparse.Namespace) -> int:
    _, output, _ = _places(arguments)
    name = page_name(Path(arguments.file).as_posix(), "_kw.md" if arguments.keywords else "_docs.md")
    page = output / name
    if ".." in Path(arguments.file).parts or not page.is_file():
        raise ConfigError(
            f"repobook: no page {name} in {output}; is the path relative to the repository, and the book built?"
        )
    text = page.read_text(encoding="utf-8")
    print(json.dumps({"file": arguments.file, "page": str(page), "text": text}) if arguments.json else text)
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    from repobook import impact

    root, _, _ = _places(arguments)
    found = impact.measure_revision(open_model(arguments), root, arguments.revision)
    if arguments.json:
        print(json.dumps(found.row()))
    else:
        print("\n".join(found.text()))
    return 0


def _search(arguments: argparse.Namespace) -> int:
    found = ask.search(open_model(arguments), " ".join(arguments.words), arguments.limit)
    if arguments.json:
        print(json.dumps([row.row() for row in found]))
    else:
        for row in found:
            print(f"{row.path}:{row.line}: {row.kind} {row.qualified}")
    return 0 if found else 1


def _mcp(arguments: argparse.Namespace) -> int:
    root, output, _ = _places(arguments)
    open_model(arguments).close()
    try:
        from repobook import mcp_server
    except ImportError:
        raise ConfigError("repobook: `repobook mcp` needs the mcp package: pip install 'repobook[mcp]'") from None
    mcp_server.serve(root, output)
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    from repobook.lock import lock_book
    from repobook.serve import make_server
    from repobook.site.build import open_database, write_site

    root, output, config = _places(arguments)
    open_model(arguments).close()
    with lock_book(output, tell=_warn):
        db = open_database(output)
        write_site(db, root, output, config.title or root.resolve().name, os.cpu_count() or 1, _Bar(False))
        db.close()
    server = make_server(output, arguments.port)
    print(f"http://127.0.0.1:{server.server_address[1]}/index.html (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0


def _hook(arguments: argparse.Namespace) -> int:
    """Build quietly, then check: a commit leaves a book that is whole."""
    shared = argparse.Namespace(path=arguments.path, output=arguments.output, json=arguments.json)
    _build(argparse.Namespace(**vars(shared), jobs=os.cpu_count() or 1, quiet=True, html=False, no_wait=False))
    return _check(argparse.Namespace(**vars(shared), undocumented=None, no_links=False))
