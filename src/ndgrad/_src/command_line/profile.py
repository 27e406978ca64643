"""`ndgrad profile`: run a script under the profiler."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

import ndgrad
from ndgrad._src.command_line import CommandError
from ndgrad._src.command_line.targets import format_user_traceback
from ndgrad.profiler.timing import profile


def run(options: argparse.Namespace) -> int:
    script = Path(options.script)
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
    sys.argv, sys.path[0] = [options.script, *options.arguments], str(script.resolve().parent)
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
