"""Descriptions, for errors, of the values that a checkpointed function saved and, in debug mode, of every op it ran.

The forward and the recomputation must save the same values in the same order. Each saved value is described by the op
that saved it and by its shape, dtype and device. The first two descriptions that differ name the op at which the runs
diverged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ndgrad._src.core.modes import thread
from ndgrad._src.debug.source_lines import Frames, places, user_frames
from ndgrad._src.foundations.public_path import set_module


@set_module("ndgrad.utils.checkpoint")
class CheckpointError(RuntimeError):
    """The recomputation of a checkpointed function differs from its forward.

    >>> from ndgrad.utils.checkpoint import CheckpointError
    >>> issubclass(CheckpointError, RuntimeError)
    True
    """


class Description(NamedTuple):
    """A saved value: the op that saved it, its name there, shape, dtype and device."""

    saver: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str

    def __str__(self) -> str:
        return f"{self.saver} saved {self.name!r}, shape {self.shape}, {self.dtype} on {self.device}"


def describe(value: Any) -> Description:
    """Describe the value that is being saved."""
    saver, name = ("?", "?") if thread.saving is None else (thread.saving[0].name(), thread.saving[1])
    return Description(saver, name, tuple(value.shape), str(value.dtype).rsplit(".", 1)[-1], str(value.device))


class OpTrace:
    """An observer that records each op with the shapes of its arguments and the user's line."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.frames: list[Frames] = []

    def __call__(self, op: Any, arrays: list[Any], settings: dict[str, Any], run: Callable[[], Any]) -> Any:
        shapes = ", ".join(str(tuple(a.shape)) if hasattr(a, "shape") else repr(a) for a in arrays)
        self.calls.append(f"{op.name}({shapes})")
        self.frames.append(user_frames())
        return run()

    def lines(self, marked: int) -> list[str]:
        """Return the ops, one per line, with a mark at one of them."""
        out = []
        for number, (call, frames) in enumerate(zip(self.calls, self.frames)):
            where = "".join(f"  at {place}" for place in places(frames))
            out.append(f"  {'>' if number == marked else ' '} {number}: {call}{where}")
        return out


# ----- errors ---------------------------------------------------------------------------------------------------------

_REMEDY = (
    "A checkpointed function must do the same each time it is called with the same arguments: "
    "look for state that it changes, a condition on something outside, or random numbers from a generator that it "
    "is not given (pass it as an argument)."
)


def difference_error(number: int, forward: Description, again: Description) -> CheckpointError:
    return CheckpointError(
        "checkpoint: the recomputed values for some of the saved tensors have different metadata than those "
        f"of the forward. Saved value number {number} differs:\n"
        f"  forward:       {forward}\n"
        f"  recomputation: {again}\n"
        f"{_REMEDY} determinism_check='none' turns this check off. [nd-checkpoint]"
    )


def count_error(forward: list[Description], again: int) -> CheckpointError:
    where = f" The first that is missing: {forward[again]}." if again < len(forward) else ""
    if again > len(forward):
        where = " It is trying to save more tensors during recomputation."
    return CheckpointError(
        "checkpoint: A different number of tensors was saved during the original forward and the recomputation: "
        f"{len(forward)} in the forward and {again} in the recomputation.{where} {_REMEDY} [nd-checkpoint]"
    )


def overwritten_error(what: Description, writer: str | None) -> CheckpointError:
    by = f" by {writer}" if writer else ""
    return CheckpointError(
        f"checkpoint: a value that the recomputation had saved ({what}) was overwritten{by} before backward used it. "
        "Use the out-of-place form of that write inside the checkpointed function. [nd-checkpoint]"
    )


def add_traces(error: CheckpointError, forward: OpTrace, again: OpTrace) -> CheckpointError:
    """Return the error with the ops of both runs, and a mark at the first op that differs."""
    pairs = enumerate(zip(forward.calls, again.calls))
    first = next((i for i, (a, b) in pairs if a != b), min(len(forward.calls), len(again.calls)))
    parts = [str(error).removesuffix(" [nd-checkpoint]")]
    for title, trace in (("forward", forward), ("recomputation", again)):
        parts += [f"Ops of the {title} ({len(trace.calls)} in all):", *trace.lines(first)]
    return CheckpointError("\n".join(parts) + " [nd-checkpoint]")
