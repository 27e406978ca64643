"""The command `ndgrad`, also `python -m ndgrad`: inspect an installation, check a function's gradients, draw its
graph, profile a script.

Modules for a command are loaded when it runs, so that `--help` and shell completion respond at once.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["INTERRUPTED", "CommandError", "check_output", "main"]

#: Exit status of a command that Ctrl-C ended, as shells report it.
INTERRUPTED = 130

_ABOUT = """\
ndgrad is PyTorch's autograd for the NumPy world. Commands:

  demo        fit a small network, check its gradients, draw its graph
  info        what is installed and what it computes with; paste it into a report of a bug
  check       compare the gradients of a function of yours with finite differences
  graph       draw the graph behind a function's result, as a page to walk in
  profile     run a script, and say where its time went
  bench       how quick this installation is
  explain     what the code at the end of an error message means: cause, example, cure
  completion  print what makes your shell complete these words

`ndgrad COMMAND --help` shows each with examples."""

_INPUTS = """\
Arguments of the function. Those without a default get random float64 tensors, of shape (3,) unless told otherwise:
  --shape 4,3 --shape 3     the first two arguments (4, 3) and (3,); --shape "" is a number
  --inputs "make_data(8)"   or what an expression gives, evaluated in the file
  --seed 1                  other random numbers
A function that uses plain NumPy is run through ndgrad.lift by itself."""

_EXAMPLES = {
    "demo": "  ndgrad demo\n  ndgrad demo -o fit.html",
    "info": "  ndgrad info\n  ndgrad info --json",
    "check": "  ndgrad check model.py:loss\n  ndgrad check model.py:loss --shape 4,3 --shape 3\n"
    '  ndgrad check physics.py:energy --inputs "(start(), 0.1)" --second\n\n' + _INPUTS,
    "graph": "  ndgrad graph model.py:loss -o graph.html\n  ndgrad graph model.py:loss --shape 8,3   (prints it)\n\n"
    + _INPUTS,
    "profile": "  ndgrad profile train.py --epochs 1\n  ndgrad profile -o flame.html train.py\n"
    "  ndgrad profile train.py -- -o model.pt      (-o is an option of the script)\n"
    "  ndgrad profile -o trace.json train.py",
    "bench": "  ndgrad bench\n  ndgrad bench --seconds 0.1",
    "explain": "  ndgrad explain nd-broadcast\n  ndgrad explain            (lists the codes)",
    "completion": '  eval "$(ndgrad completion bash)"          in ~/.bashrc\n  ndgrad completion fish | source',
}


class CommandError(Exception):
    """An error that the user can fix: printed without a traceback, and the command exits with 2."""


class _Parser(argparse.ArgumentParser):
    """Parser whose errors suggest a correction and point to the help."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument COMMAND: invalid choice: "):
            wrong = message.partition("invalid choice: '")[2].partition("'")[0]
            close = difflib.get_close_matches(wrong, _EXAMPLES, 1)
            known = f"Did you mean `{close[0]}`?" if close else f"The commands are {', '.join(_EXAMPLES)}."
            raise CommandError(f"there is no command {wrong!r}. {known} [nd-command]")
        raise CommandError(f"{message}. `{self.prog} --help` shows how. [nd-command]")


def parser() -> argparse.ArgumentParser:
    """Return the parser with all commands and their options."""
    top = _Parser(
        prog="ndgrad", usage="ndgrad COMMAND ...", description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(
        dest="command", metavar="COMMAND", parser_class=_Parser, prog="ndgrad", help=argparse.SUPPRESS
    )

    def command(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, description=about, epilog="examples:\n" + _EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip

    demo = command("demo", "Fit a small network to a curve, check its gradients, and draw its graph.")
    demo.add_argument("-o", "--output", metavar="FILE", help="write the graph to this file (.html, .svg, .dot, .txt)")

    info = command("info", "Print versions, libraries, threads, processor and caches.")
    info.add_argument("--json", action="store_true", help="as JSON")

    check = command("check", "Compare the gradients of a function with central differences.")
    _takes_function(check)
    check.add_argument("--second", action="store_true", help="check second derivatives too")
    check.add_argument(
        "--tolerance", type=_positive, default=1e-5, metavar="E", help="largest relative error (%(default)s)"
    )

    graph = command("graph", "Draw the graph behind a function's result.")
    _takes_function(graph)
    graph.add_argument(
        "-o", "--output", metavar="FILE", help="write it to this file (.html, .svg, .dot, .txt); printed otherwise"
    )

    profile = command("profile", "Run a script as `python` would, and print where its time went.")
    profile.add_argument("-o", "--output", metavar="FILE", help="write a flame view (.html) or a trace (.json)")
    profile.add_argument("--rows", type=_count, default=15, metavar="N", help="rows of the table (%(default)s)")
    profile.add_argument("--memory", action="store_true", help="what was allocated and saved, too")
    profile.add_argument("script", metavar="FILE", help="the script")
    profile.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments").required = False

    bench = command("bench", "Time a few things that programs do, beside NumPy alone.")
    bench.add_argument("--seconds", type=_positive, default=0.3, metavar="S", help="time for each row (%(default)s)")

    explain = command("explain", "Print what stands behind the code at the end of an error message.")
    explain.add_argument("code", nargs="*", metavar="CODE", help="the code, or the message that ends in it")

    completion = command("completion", "Print a script that makes a shell complete commands and options.")
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="which shell")
    return top


def _positive(text: str) -> float:
    """Return a positive finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _count(text: str) -> int:
    """Return an integer of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


def _seed(text: str) -> int:
    """Return a seed: an integer of 64 bits without a sign, which NumPy's and ndgrad's generators take."""
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 2**64 - 1")
    return int(text)


def check_output(output: str, endings: Sequence[str], hint: str = "") -> Path:
    """Return the path of an output file. Raise a CommandError before any work if it cannot be written."""
    path = Path(output)
    if path.suffix not in endings:
        raise CommandError(
            f"cannot write to {output!r}. Its name should end in {', '.join(endings)}{hint}. [nd-command]"
        )
    if path.is_dir():
        raise CommandError(f"cannot write to {output!r}, because it is a folder. [nd-command]")
    if not path.parent.is_dir():
        raise CommandError(f"cannot write to {output!r}, because there is no folder {str(path.parent)!r}. [nd-command]")
    return path


def _takes_function(command: argparse.ArgumentParser) -> None:
    command.add_argument("target", metavar="FILE:FUNCTION", help="a function in a file, such as model.py:loss")
    command.add_argument("--shape", action="append", default=[], metavar="N,M", help="shape of the next argument")
    command.add_argument("--inputs", metavar="EXPR", help="the arguments: an expression evaluated in the file")
    command.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of random arguments (%(default)s)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line. Return the exit status: 0, 1 if a check failed, 2 for a user error, 130 after Ctrl-C."""
    known = parser()
    try:
        given = sys.argv[1:] if arguments is None else [*arguments]
        # argparse drops `--`, in ways that differ between versions of Python.
        end = given.index("--") if given[:1] == ["profile"] and "--" in given else len(given)
        options = known.parse_args(given[:end])
        options.after_dashes = given[end + 1 :] if end < len(given) else None
        if options.version:
            from ndgrad import __version__  # not needed by --help

            print(f"ndgrad {__version__}")
            return 0
        if options.command is None:
            known.print_help()
            return 2
        # There is one file per command.
        run = importlib.import_module(f"ndgrad._src.command_line.{options.command}").run
        return int(run(options))
    except CommandError as error:
        print(f"ndgrad: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nndgrad: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # for example `ndgrad info | head`
        sys.stderr.close()
        return 0
