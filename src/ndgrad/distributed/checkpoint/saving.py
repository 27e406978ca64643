"""`save`: every rank writes what it alone has to one file, and the first rank writes what lies where.

A checkpoint is there when its metadata is, which is written last and under its name at once. Files of a save have a
name of their own for it, so a save over an older checkpoint touches nothing of that one before its metadata takes the
older one's place; what then belongs to nobody is removed. A rank that cannot write tells the others, and all raise.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import zlib
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from ndgrad import safetensors
from ndgrad._src.core.variable import wrap
from ndgrad._src.foundations.atomic_files import open_replacement
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.checkpoint.layout import (
    METADATA,
    CheckpointException,
    Chunk,
    Entry,
    Metadata,
    Path,
    box_of,
    is_stateful,
    leaves,
    named,
)
from ndgrad.distributed.groups import ProcessGroup, group_of, is_initialized
from ndgrad.distributed.objects import _all
from ndgrad.distributed.tensor.dtensor import DTensor


def ranks_of(process_group: Any, no_dist: bool = False) -> ProcessGroup | None:
    """The group whose ranks save or load together; None for a process that is alone."""
    if no_dist or not is_initialized():
        return None
    group = group_of(process_group)
    if group is None:
        raise ValueError("checkpoint: this process is not in process_group. Call it on the members alone. [nd-rank]")
    return group


def together(group: ProcessGroup | None, what: str, work: Callable[[], Any]) -> list[Any]:
    """Do something on every rank; what each has got of it, or an error on all if any failed."""
    result, told = None, ""
    try:
        result = work()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        failure: Exception | None = error
    else:
        failure = None
    every = [(result, told)] if group is None else _all(group, (result, told))
    failures = {i if group is None else group.global_rank(i): text for i, (_, text) in enumerate(every) if text}
    if failures:
        raise CheckpointException(what, failures) from failure
    return [found for found, _ in every]


def plain_state(state: Any) -> dict[str, Any]:
    """A state whose objects that save themselves are replaced by what they save; all else is what it was."""
    return {key: value.state_dict() if is_stateful(value) else value for key, value in state.items()}


def array_of(t: Tensor) -> Any:
    """The values that this rank has of a tensor."""
    local = t.to_local() if isinstance(t, DTensor) else t
    return np.asarray(local.detach().cpu()._array)


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> Metadata:
    """Write a nested state to the folder `checkpoint_id`; all ranks call it. DTensors are written in pieces, by those
    who have them; plain tensors by the first rank that has them; numbers and texts are part of the metadata. Objects
    with a `state_dict` are saved by it.

    The folder holds the checkpoint that was there before, or this one, and never a part of one.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"w": ndgrad.ones(2), "epoch": 3}, checkpoint_id=folder)
    >>> state = {"w": ndgrad.zeros(2), "epoch": 0}
    >>> dcp.load(state, checkpoint_id=folder)
    >>> state
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    folder = folder_of("save", checkpoint_id, storage_writer, planner)
    group = ranks_of(process_group, no_dist)
    rank = 0 if group is None else group.rank()
    state: dict[Path, Any] = {}

    def plan() -> Any:
        state.update(leaves(plain_state(state_dict)))
        tensors = {
            p: (tuple(t.shape), t.dtype.name, *box_of(t), isinstance(t, DTensor))
            for p, t in state.items()
            if isinstance(t, Tensor)
        }
        values = {p: v for p, v in state.items() if not isinstance(v, Tensor)}
        folder.mkdir(parents=True, exist_ok=True)
        return tensors, values, secrets.token_hex(4)

    what = f"the checkpoint {folder} could not be written"
    plans = together(group, what, plan)
    made = together(group, what, lambda: _merged(plans))[0]
    token = plans[0][2]
    file = f"shard-{token}-{rank:05d}.safetensors"
    written: list[dict[Path, Chunk]] = together(group, what, lambda: _write(folder / file, file, state, plans, rank))
    for chunks in written:
        for path, chunk in chunks.items():
            made.tensors[path].chunks.append(chunk)
    made.ranks = len(plans)
    together(group, what, lambda: _publish(folder, made) if rank == 0 else None)
    return made


def folder_of(name: str, checkpoint_id: Any, storage: Any, planner: Any) -> FilePath:
    """The folder of a checkpoint."""
    if storage is not None or planner is not None:
        raise NotImplementedError(
            f"checkpoint.{name}: checkpoints are folders of safetensors files; other storage and planners are not "
            "here. Give checkpoint_id, a path. [nd-unsupported]"
        )
    if checkpoint_id is None:
        raise ValueError(f"checkpoint.{name}: give checkpoint_id, the path of a folder. [nd-arguments]")
    return FilePath(checkpoint_id)


def _merged(plans: list[Any]) -> Metadata:
    """What all ranks have, as one; they must agree on what they share."""
    made = Metadata()
    for rank, (tensors, values, _) in enumerate(plans):
        for path, (shape, dtype, _, _, _) in tensors.items():
            known = made.tensors.setdefault(path, Entry(shape, dtype))
            if (known.shape, known.dtype) != (shape, dtype):
                raise ValueError(
                    f"{named(path)} is {dtype}{list(shape)} on rank {rank}, and {known.dtype}{list(known.shape)} on a "
                    "rank before it [nd-peer]"
                )
        for path, value in values.items():
            made.values.setdefault(path, value)  # the first rank's, where they differ
    both = made.tensors.keys() & made.values.keys()
    if both:
        raise ValueError(f"{named(min(both, key=str))} is a tensor on one rank and none on another [nd-peer]")
    return made


def _is_mine(path: Path, plans: list[Any], rank: int) -> bool:
    """Whether this rank writes what it has of a tensor: its part of a spread one, if it is the first to have it, and a
    plain one if no rank before has it."""
    _, _, box, first, spread = plans[rank][0][path]
    if spread:
        return bool(first and box.count())
    return not any(path in tensors for tensors, _, _ in plans[:rank])


def _write(target: FilePath, file: str, state: dict[Path, Any], plans: list[Any], rank: int) -> dict[Path, Chunk]:
    arrays: dict[str, Any] = {}
    chunks: dict[Path, Chunk] = {}
    for path, (_, _, box, _, _) in plans[rank][0].items():
        if _is_mine(path, plans, rank):
            array = np.ascontiguousarray(array_of(state[path])).reshape(box.shape)
            name = f"{named(path)}@{','.join(map(str, box.offset))}"
            while name in arrays:
                name += "'"
            arrays[name] = array
            chunks[path] = Chunk(box, file, name, checksum(array))
    if arrays:
        safetensors.save_file({name: wrap(Tensor, stored(array)) for name, array in arrays.items()}, target)
        _to_disk(target)
    return chunks


def checksum(array: Any) -> int:
    """Of an array's bytes, which lie one after the other."""
    return zlib.crc32(array.reshape(-1).view(np.uint8))


def stored(array: Any) -> Any:
    """An array as safetensors knows it: complex128 as pairs of numbers."""
    return array.view(np.float64).reshape((*array.shape, 2)) if array.dtype == np.complex128 else array


def _publish(folder: FilePath, made: Metadata) -> None:
    with open_replacement(folder / METADATA) as file:
        file.write(made.text().encode())
        file.flush()
        os.fsync(file.fileno())
    _to_disk(folder)
    current = made.files()
    for path in folder.glob("shard-*.safetensors"):
        if path.name not in current:
            with contextlib.suppress(OSError):
                path.unlink()


def _to_disk(path: FilePath) -> None:
    """Let the file, or the folder's list of files, reach the disk."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
