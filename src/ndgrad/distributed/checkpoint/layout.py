"""Layout of a checkpoint: leaves of a nested state by their paths, tensors as boxes in files, and the metadata that
locates them.

A tensor is cut into boxes, each stored in one file under its own name. A load with other ranks or placements needs
boxes of other sizes, and copies the overlap with each saved box. So a checkpoint does not depend on how a state was
spread, except for the cuts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.tensor.dtensor import DTensor
from ndgrad.distributed.tensor.placements import Divided, Shard, chunk_sizes

FORMAT = "ndgrad.distributed.checkpoint"
VERSION = 1
METADATA = "metadata.json"

Path = tuple[str | int, ...]


class CheckpointException(RuntimeError):
    """Error of a checkpoint that could not be written or read; holds the message of each rank.

    Args:
        what: task that failed.
        failures: message of each failed rank.
    """

    def __init__(self, what: str, failures: dict[int, str]) -> None:
        told = "; ".join(f"rank {rank}: {text}" for rank, text in sorted(failures.items()))
        super().__init__(f"{what}: {told} [nd-checkpoint-files]")
        self.failures = failures


@dataclass(frozen=True)
class Box:
    """A part of a tensor: its start and length in each dimension."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]

    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def overlap(self, other: Box) -> Box | None:
        """Return the intersection of two boxes, or None if it is empty."""
        begin = tuple(max(a, b) for a, b in zip(self.offset, other.offset, strict=True))
        ends = zip(self.offset, self.shape, other.offset, other.shape, strict=True)
        shape = tuple(min(a + n, b + m) - start for (a, n, b, m), start in zip(ends, begin, strict=True))
        return Box(begin, shape) if all(n > 0 for n in shape) else None

    def index_in(self, outer: Box) -> tuple[slice, ...]:
        """Return the slices of this box in an array that holds the box `outer`."""
        starts = (a - b for a, b in zip(self.offset, outer.offset, strict=True))
        return tuple(slice(start, start + n) for start, n in zip(starts, self.shape, strict=True))


@dataclass
class Chunk:
    """A box in a file, with the checksum of its bytes."""

    box: Box
    file: str
    name: str
    crc32: int


@dataclass
class Entry:
    """A tensor's shape, dtype and the locations of its boxes."""

    shape: tuple[int, ...]
    dtype: str
    chunks: list[Chunk] = field(default_factory=list)


@dataclass
class Metadata:
    """Metadata of a checkpoint.

    Args:
        tensors: shape, dtype and pieces of each tensor, by its path in the state.
        values: numbers, strings and other plain values, by their paths.
        ranks: number of ranks that wrote the checkpoint.
    """

    tensors: dict[Path, Entry] = field(default_factory=dict)
    values: dict[Path, Any] = field(default_factory=dict)
    ranks: int = 1

    def files(self) -> set[str]:
        """The files that hold the tensors."""
        return {chunk.file for entry in self.tensors.values() for chunk in entry.chunks}

    def text(self) -> str:
        """Return the metadata as JSON."""
        tensors = [
            {
                "path": list(path), "shape": list(e.shape), "dtype": e.dtype,
                "chunks": [
                    {"offset": list(c.box.offset), "shape": list(c.box.shape), "file": c.file, "name": c.name,
                     "crc32": c.crc32}
                    for c in e.chunks
                ],
            }
            for path, e in self.tensors.items()
        ]  # fmt: skip
        values = [{"path": list(path), "value": value} for path, value in self.values.items()]
        whole = {"format": FORMAT, "version": VERSION, "ranks": self.ranks, "tensors": tensors, "values": values}
        return json.dumps(whole, indent=1)

    @staticmethod
    def parse(text: str, where: str) -> Metadata:
        """Parse metadata from JSON; raise a clear error for any other text.

        Args:
            text: JSON text.
            where: name of the file, for errors.
        """
        try:
            found = json.loads(text)
            kind, version = found["format"], found["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise _unreadable(where, error) from error
        if (kind, version) != (FORMAT, VERSION):
            raise ValueError(
                f"{where} is of another kind: its format is {kind!r}, version {version!r}, and {FORMAT!r}, version "
                f"{VERSION}, is read. [nd-file-kind]"
            )
        try:
            made = Metadata(ranks=int(found["ranks"]))
            for t in found["tensors"]:
                chunks = [
                    Chunk(Box(tuple(c["offset"]), tuple(c["shape"])), c["file"], c["name"], c["crc32"])
                    for c in t["chunks"]
                ]
                made.tensors[tuple(t["path"])] = Entry(tuple(t["shape"]), t["dtype"], chunks)
            made.values = {tuple(v["path"]): v["value"] for v in found["values"]}
        except (ValueError, KeyError, TypeError) as error:
            raise _unreadable(where, error) from error
        return made


def _unreadable(where: str, error: Exception) -> ValueError:
    return ValueError(f"{where} is damaged: {type(error).__name__}: {error} [nd-file-damaged]")


# ----- states ---------------------------------------------------------------------------------------------------------


def is_stateful(value: Any) -> bool:
    """True if an object saves and loads itself by `state_dict` and `load_state_dict`."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict") and not isinstance(value, Tensor)


def holds_tensors(value: Any) -> bool:
    """True if a nested value contains a tensor."""
    if isinstance(value, Mapping):
        return any(map(holds_tensors, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(holds_tensors, value))
    return isinstance(value, Tensor)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the leaves of a nested state: tensors, and values that JSON can hold."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping) and (value or not path):
        for key, part in value.items():
            if not isinstance(key, (str, int)):
                raise TypeError(
                    f"checkpoint: the key {key!r} at {format_path(path) or 'the top'} is neither text nor a number. "
                    "[nd-file-content]"
                )
            yield from leaves(part, (*path, key))
    elif isinstance(value, (list, tuple)) and holds_tensors(value):
        for i, part in enumerate(value):
            yield from leaves(part, (*path, i))
    else:
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"checkpoint: {format_path(path)} is a {type(value).__name__}. A checkpoint holds tensors, numbers, "
                "texts, and lists and dicts of these. Save its state_dict(), or leave it out. [nd-file-content]"
            ) from error
        yield path, value


def format_path(path: Path) -> str:
    """Return a path as readable text."""
    return ".".join(map(str, path))


def box_of(t: Tensor) -> tuple[Box, bool]:
    """Return this rank's part of a tensor, and True if this rank is the first that has it."""
    if not isinstance(t, DTensor):
        return Box((0,) * t.ndim, tuple(t.shape)), True
    if any(p.is_partial() for p in t.placements):
        raise ValueError(
            f"checkpoint: a DTensor of shape {tuple(t.shape)} is a sum of terms, {list(t.placements)}. "
            "Redistribute it. [nd-dtensor]"
        )
    coordinate = t.device_mesh.get_coordinate()
    if coordinate is None:
        return Box((0,) * t.ndim, (0,) * t.ndim), False
    offset, shape = [0] * t.ndim, list(t.shape)
    first = True
    for i, p in enumerate(t.placements):
        if isinstance(p, Divided) and not isinstance(p, Shard):
            raise NotImplementedError(
                f"checkpoint: a DTensor of shape {tuple(t.shape)} as {list(t.placements)}, whose ranks have several "
                "pieces each. Redistribute it to Shard or Replicate. [nd-unsupported]"
            )
        if isinstance(p, Shard):
            sizes = chunk_sizes(shape[p.dim], t.device_mesh.size(i))
            offset[p.dim] += sum(sizes[: coordinate[i]])
            shape[p.dim] = sizes[coordinate[i]]
        else:
            first = first and coordinate[i] == 0
    return Box(tuple(offset), tuple(shape)), first
