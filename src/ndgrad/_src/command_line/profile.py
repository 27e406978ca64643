"""`ndgrad profile`: run a script under the profiler."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

import ndgrad
from ndgrad._src.command_line import INTERRUPTED, CommandError, check_output
from ndgrad._src.command_line.targets import format_user_traceback
from ndgrad.profiler.timing import profile


def run(options: argparse.Namespace) -> int:
    script, given = Path(options.script), _script_arguments(options.arguments, options.after_dashes)
    if script.is_dir():
        raise CommandError(f"{options.script!r} is a folder. Name the script inside. [nd-command]")
    if not script.is_file():
        raise CommandError(
            f"there is no file {options.script!r}. The script comes after the options: "
            "ndgrad profile -o flame.html train.py [nd-command]"
        )
    output = None if options.output is None else check_output(options.output, (".html", ".json"))
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
    if not measured.function_events:
        print(f"ndgrad: {options.script} called no function of ndgrad, so there is no profile", file=sys.stderr)
        return status or (0 if output is None else 2)
    print(measured.key_averages().table(sort_by="self_cpu_time_total", row_limit=options.rows))
    if output is not None:
        try:
            if output.suffix == ".json":
                measured.export_chrome_trace(output)
            else:
                ndgrad.viz.flame(measured).save(output)
        except OSError as error:
            raise CommandError(f"cannot write to {options.output!r}: {error.strerror}. [nd-command]") from error
        print(f"written: {output}")
    return status


def _script_arguments(arguments: list[str], after_dashes: list[str] | None) -> list[str]:
    """Return the arguments of the script. Raise if they contain an option of this command, which belongs before the
    script. After `--`, all arguments are the script's."""
    if after_dashes is not None:
        return arguments + after_dashes
    ours = [
        a for a in arguments
        if a.partition("=")[0] in ("--output", "--rows", "--memory") or a.startswith("-o")
    ]  # fmt: skip
    if ours:
        raise CommandError(
            f"{ours[0]} stands after the script. Write it before: ndgrad profile {ours[0]} ... train.py. If it is an "
            f"option of the script, write -- before the script's arguments: ndgrad profile train.py -- {ours[0]} ... "
            "[nd-command]"
        )
    return arguments
