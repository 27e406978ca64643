"""Errors of backward for saved values that are overwritten, freed, or changed without a recorded write.

Such errors must answer the question "Which tensor did I modify, and on which line?". So they always name the op that
saved the value, the op that overwrote it, both versions and a replacement for the write. They also give both lines of
the user's code if the forward ran in a mode that remembers them (Note [What is remembered when]).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.node import Node, edge_node, edge_number
from ndgrad._src.core.versions import Version
from ndgrad._src.foundations import registry

if TYPE_CHECKING:
    from ndgrad._src.debug.source_lines import Place

_LINES_HINT = "Run the forward inside ndgrad.autograd.debug() to see both lines."


def freed_error(node: Node) -> RuntimeError:
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        f"been freed): {node.name()}'s saved values are gone since the first backward. Specify retain_graph=True in "
        "the first backward() or grad() call, or run the forward again. [nd-freed-graph]"
    )


def overwritten_error(
    node: Node, name: str, shape: tuple[int, ...], saved: Version | None, now: Version
) -> RuntimeError:
    """Return the error for an overwritten value, which `node` saved as `name` at version `saved` (None: the first)."""
    write = saved.next if saved is not None and saved.next is not None else now
    before = 0 if saved is None else saved.number
    by = f" by {write.writer}" if write.writer else ""
    count = now.number - before
    more = f" and {count - 1} later write{'s' * (count > 2)}" if count > 1 and by and write is not now else ""
    last = ", the last of several writes" if count > 1 and by and write is now else ""
    what = (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{node.name()} saved {describe(node, name)} (shape {tuple(shape)}{origin(node, name)}) at version {before}, "
        f"and it was overwritten{by}{more}{last}: it is at version {now.number} now."
    )
    where, there = _line_of(node), None if write.place is None else registry.source_lines.innermost(write.place)
    if where is None and there is None:
        return RuntimeError(f"{what} {remedy(write.writer)} {_LINES_HINT} [nd-overwritten]")
    unknown = "(before the mode that remembers lines was on)"
    return RuntimeError(
        f"{what}\n  saved at        {where or unknown}\n  overwritten at  {there or unknown}\n{remedy(write.writer)} "
        "[nd-overwritten]"
    )


def _line_of(node: Node) -> Place | None:
    """Return the user's line that made a node, if ndgrad._src.debug was loaded and remembered it."""
    return None if getattr(node.extra, "forward_trace", None) is None else registry.source_lines.place_of(node)


def describe(node: Any, name: str) -> str:
    """Return a description of a saved value in the user's words: torch's name for the argument, or the op's result."""
    op = getattr(node, "op", None)
    if op is None:
        return f"its {name}"
    if name in node.plan.outs:
        return "its result" if op.outputs == 1 else f"its result {int(name[3:])}"
    return repr(op.torch_name(name))


def origin(node: Node, name: str) -> str:
    """Return a text that names the op that computed a saved argument, if the graph knows it."""
    op = getattr(node, "op", None)
    if op is None or op.variadic or name not in op.differentiable_args:
        return ""
    e = node.next[op.differentiable_args.index(name)]
    if e is None:
        return ""
    producer = edge_node(e)
    if not producer.next:
        return ", a leaf"
    name = re.sub(r"Backward0?$", "", producer.name())  # the forward op, as in torch: Add, Sum1
    return f", which is output {edge_number(e)} of {name},"


def remedy(writer: str | None) -> str:
    """Return advice on a replacement for a write that invalidated saved values."""
    clone = "clone() the tensor before it is written."
    if writer == "copy_":
        return (
            "copy_() and assignments like x[i] = v write in place: build the result with stack, cat, "
            f"where or index_put, or {clone}"
        )
    if writer == "AccumulateGrad":
        return (
            "backward() added to a .grad in place: set .grad to None before it, use autograd.grad(), or clone() "
            "the .grad that is used."
        )
    if writer is not None and writer.endswith("(out=)"):
        return f"Leave out= away, which makes a new tensor, or {clone}"
    if writer is not None and writer.endswith("_") and _is_method(writer[:-1]):
        return f"Use the out-of-place form, x = x.{writer[:-1]}(...) instead of x.{writer}(...), or {clone}"
    return f"Use the out-of-place form of that write, or {clone}"


def _is_method(name: str) -> bool:
    return hasattr(registry.Tensor, name)


def changed_error(node: Node, name: str, shape: tuple[int, ...]) -> RuntimeError:
    """Return the error for a value that guard mode finds changed without a recorded write."""
    place = _line_of(node)
    return RuntimeError(
        "a value saved for backward was changed behind the library's back: "
        f"the memory of {describe(node, name)} (shape {tuple(shape)}{origin(node, name)}), which {node.name()} saved, "
        "has another checksum than when it was saved, and no write to it went through ndgrad.\n"
        f"  saved at  {place}\n"
        "Something wrote it through a NumPy array that shares its memory (from_numpy, numpy(), "
        "the array that the tensor was made of), or through .data. Hand over a copy (ndgrad.tensor(array) makes one), "
        "write through the tensor, or call ndgrad.autograd.graph.increment_version(tensor) after such a write. "
        "[nd-overwritten]"
    )
