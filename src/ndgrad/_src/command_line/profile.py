"""`ndgrad profile`: run a script under the profiler."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

import ndgrad
from ndgrad._src.command_line import INTERRUPTED, CommandError
from ndgrad._src.command_line.targets import format_user_traceback
from ndgrad.profiler.timing import profile


def run(options: argparse.Namespace) -> int:
    script, given = Path(options.script), _script_arguments(options.arguments, options.after_dashes)
    if not script.is_file():
        raise CommandError(
            f"there is no file {options.script!r}. The script comes after the options: "
            "ndgrad profile -o flame.html train.py [nd-command]"
        )
    output = None if options.output is None else Path(options.output)
    if output is not None and output.suffix not in (".html", ".json"):
        raise CommandError(
            f"a profile cannot be written to {options.output!r}. End it in .html (a flame view) or .json (a trace). "
            "[nd-command]"
        )
    arguments, path = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [options.script, *given], str(script.resolve().parent)
    status = 0
    try:
        with profile(profile_memory=options.memory, with_stack=True) as measured:
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as exit:  # A script may exit; its profile is still useful.
                status = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
            except Exception as error:  # The profile up to a failure is useful too.
                print(format_user_traceback(error, str(script)), file=sys.stderr)
                status = 1
            except KeyboardInterrupt:  # So is the profile up to an interrupt.
                print("ndgrad: interrupted; this is the profile so far", file=sys.stderr)
                status = INTERRUPTED
    finally:
        sys.argv, sys.path[0] = arguments, path
    print(measured.key_averages().table(sort_by="self_cpu_time_total", row_limit=options.rows))
    if output is not None:
        if output.suffix == ".json":
            measured.export_chrome_trace(output)
        else:
            ndgrad.viz.flame(measured).save(output)
        print(f"written: {output}")
    return status


def _script_arguments(arguments: list[str], after_dashes: list[str] | None) -> list[str]:
    """Return the arguments of the script. Raise if they contain an option of this command, which belongs before the
    script. After `--`, all arguments are the script's."""
    if after_dashes is not None:
        return arguments + after_dashes
    ours = [a for a in arguments if a.partition("=")[0] in ("-o", "--output", "--rows", "--memory")]
    if ours:
        raise CommandError(
            f"{ours[0]} stands after the script. Write it before: ndgrad profile {ours[0]} ... train.py. If it is an "
            f"option of the script, write -- before the script's arguments: ndgrad profile train.py -- {ours[0]} ... "
            "[nd-command]"
        )
    return arguments
