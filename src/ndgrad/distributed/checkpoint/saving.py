"""`save`: every rank writes the parts that only it has to one file, and the first rank writes the metadata.

A checkpoint exists once its metadata exists. The metadata is written last, by an atomic rename. Each save uses new file
names, so a save over an older checkpoint leaves that one intact until the new metadata replaces the old. Files that are
then unreferenced are removed, among them those of a save that was killed. A rank that cannot write tells the others,
and all raise.
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
from ndgrad._src.foundations.atomic_files import PART, open_replacement
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from ndgrad.distributed.checkpoint.layout import (
    METADATA,
    CheckpointException,
    Chunk,
    Entry,
    Metadata,
    Path,
    box_of,
    format_path,
    is_stateful,
    leaves,
)
from ndgrad.distributed.groups import ProcessGroup, group_of, is_initialized
from ndgrad.distributed.objects import _gather_all
from ndgrad.distributed.tensor.dtensor import DTensor


def ranks_of(process_group: Any, no_dist: bool = False) -> ProcessGroup | None:
    """Return the group whose ranks save or load together, or None for a single process."""
    if no_dist or not is_initialized():
        return None
    group = group_of(process_group)
    if group is None:
        raise ValueError("checkpoint: this process is not in process_group. Call it on the members alone. [nd-rank]")
    return group


def together(group: ProcessGroup | None, what: str, work: Callable[[], Any]) -> list[Any]:
    """Run `work` on every rank and return all results; raise on all ranks if it failed on any."""
    result, told = None, ""
    try:
        result = work()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        failure: Exception | None = error
    else:
        failure = None
    every = [(result, told)] if group is None else _gather_all(group, (result, told))
    failures = {i if group is None else group.global_rank(i): text for i, (_, text) in enumerate(every) if text}
    if failures:
        raise CheckpointException(what, failures) from failure
    return [found for found, _ in every]


def plain_state(state: Any) -> dict[str, Any]:
    """Return a state in which objects with a `state_dict` are replaced by it; other values are unchanged."""
    return {key: value.state_dict() if is_stateful(value) else value for key, value in state.items()}


def array_of(t: Tensor) -> Any:
    """Return this rank's values of a tensor."""
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
    """Write a nested state to the folder `checkpoint_id`; all ranks call it. Each rank writes its pieces of DTensors,
    and the first rank that has a plain tensor writes it. Numbers and strings are part of the metadata. Objects with a
    `state_dict` are saved by it.

    The folder holds either the previous checkpoint or this one, never a part of one.

    Args:
        state_dict: nested dict of tensors, plain values and objects with a `state_dict`.
        checkpoint_id: path of the checkpoint's folder.
        storage_writer: FileSystemWriter of the folder, instead of a path.
        planner: None or a `DefaultSavePlanner`: the layout of a checkpoint is fixed.
        process_group: group whose ranks take part. The default is the world.
        no_dist: whether this process acts alone, without messages.

    Returns:
        The metadata of the checkpoint.

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
    made = together(group, what, lambda: _merge_plans(plans))[0]
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
    """Return the folder of a checkpoint, given as a path, or by a reader or writer of files."""
    path = getattr(storage, "path", None)
    default = type(planner) is (DefaultSavePlanner if name == "save" else DefaultLoadPlanner)
    if (planner is not None and not default) or (storage is not None and not isinstance(path, FilePath)):
        raise NotImplementedError(
            f"checkpoint.{name}: checkpoints are folders of safetensors files; other storage and planners are not "
            "here. Give checkpoint_id, a path, or a FileSystemWriter or FileSystemReader. [nd-unsupported]"
        )
    if checkpoint_id is None and path is None:
        raise ValueError(f"checkpoint.{name}: give checkpoint_id, the path of a folder. [nd-arguments]")
    folder = FilePath(checkpoint_id if checkpoint_id is not None else str(path))
    if storage is not None and hasattr(storage, "check"):
        storage.path = folder
        storage.check()
    return folder


def _merge_plans(plans: list[Any]) -> Metadata:
    """Merge the plans of all ranks; they must agree on shared entries."""
    made = Metadata()
    for rank, (tensors, values, _) in enumerate(plans):
        for path, (shape, dtype, _, _, _) in tensors.items():
            known = made.tensors.setdefault(path, Entry(shape, dtype))
            if (known.shape, known.dtype) != (shape, dtype):
                raise ValueError(
                    f"{format_path(path)} is {dtype}{list(shape)} on rank {rank}, and "
                    f"{known.dtype}{list(known.shape)} on a rank before it [nd-peer]"
                )
        for path, value in values.items():
            made.values.setdefault(path, value)  # the first rank's value wins if they differ
    both = made.tensors.keys() & made.values.keys()
    if both:
        raise ValueError(f"{format_path(min(both, key=str))} is a tensor on one rank and none on another [nd-peer]")
    return made


def _is_mine(path: Path, plans: list[Any], rank: int) -> bool:
    """True if this rank writes its part of a tensor: it is the first rank with this part of a spread tensor, or with
    this plain tensor.
    """
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
            name = f"{format_path(path)}@{','.join(map(str, box.offset))}"
            while name in arrays:
                name += "'"
            arrays[name] = array
            chunks[path] = Chunk(box, file, name, checksum(array))
    if arrays:
        safetensors.save_file({name: wrap(Tensor, as_stored(array)) for name, array in arrays.items()}, target)
        _to_disk(target)
    return chunks


def checksum(array: Any) -> int:
    """Return the checksum of a contiguous array's bytes."""
    return zlib.crc32(array.reshape(-1).view(np.uint8))


def as_stored(array: Any) -> Any:
    """Return an array in a form that safetensors supports: complex128 as pairs of numbers."""
    return array.view(np.float64).reshape((*array.shape, 2)) if array.dtype == np.complex128 else array


def _publish(folder: FilePath, made: Metadata) -> None:
    with open_replacement(folder / METADATA) as file:
        file.write(made.text().encode())
        file.flush()
        os.fsync(file.fileno())
    _to_disk(folder)
    _remove_others(folder, made.files())


def _remove_others(folder: FilePath, current: set[str]) -> None:
    """Remove the files of earlier checkpoints, and those of a save that was killed."""
    unfinished = (f".shard-*{PART}", f".{METADATA}.*{PART}")
    for pattern in ("shard-*.safetensors", *unfinished):
        for path in folder.glob(pattern):
            if path.name not in current:
                with contextlib.suppress(OSError):
                    path.unlink()


def _to_disk(path: FilePath) -> None:
    """Flush a file, or a folder's list of files, to the disk."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: Any,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> Any:
    """Write a nested state as `save` does; torch's older name.

    Args:
        state_dict: nested state.
        storage_writer: `FileSystemWriter` of the folder.
        process_group: group whose ranks take part. The default is the world.
        coordinator_rank: must be 0: the first rank of the group writes the metadata.
        no_dist: whether this process acts alone, without messages.
        planner: None, or a `DefaultSavePlanner`.
    """
    check_coordinator("save_state_dict", coordinator_rank)
    return save(
        state_dict, storage_writer=storage_writer, planner=planner, process_group=process_group, no_dist=no_dist
    )


def check_coordinator(name: str, rank: int) -> None:
    if rank:
        raise NotImplementedError(
            f"{name}(coordinator_rank={rank}): the first rank of the group writes the metadata. Leave it out. "
            "[nd-unsupported]"
        )
