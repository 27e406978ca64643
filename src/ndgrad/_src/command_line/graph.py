"""`ndgrad graph`: draw the graph behind a user's function, with its source lines."""

from __future__ import annotations

import argparse

import ndgrad
from ndgrad._src.command_line import CommandError, check_output
from ndgrad._src.command_line.targets import Target


def run(options: argparse.Namespace) -> int:
    if options.output is not None:
        check_picture(options.output)
    target = Target(options.target, options.shape, options.inputs, options.seed)
    with ndgrad.autograd.debug():
        result = target.result()
    if not result.requires_grad:
        raise CommandError(
            f"there is no graph behind the result of {target.name}: no argument of floating point leads to it. "
            "[nd-command]"
        )
    picture = ndgrad.viz.graph({target.name: result}, params=target.differentiable)
    if options.output is None:
        print(picture)
        return 0
    save(picture, options.output)
    print(f"{options.output}: {picture.caption}")
    return 0


def check_picture(output: str) -> None:
    """Raise a CommandError before any work if a picture cannot be written to a file."""
    hint = "; for PNG or PDF, write .dot and run Graphviz's dot, or convert the .svg"
    check_output(output, (".html", ".svg", ".dot", ".gv", ".txt"), hint)


def save(picture: ndgrad.viz.GraphPicture, output: str) -> None:
    """Write a picture to the output file of a command."""
    try:
        picture.save(output)
    except OSError as error:
        raise CommandError(f"cannot write to {output!r}: {error.strerror}. [nd-command]") from error
