"""`load`: every rank reads the parts it needs, for any ranks and placements of the saved state.

All ranks first find everything they need and compare checksums. Tensors are written only if everything is present and
undamaged. So a state is loaded completely or left unchanged.
"""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.variable import wrap
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.checkpoint.layout import (
    METADATA,
    Chunk,
    Entry,
    Metadata,
    Path,
    box_of,
    format_path,
    is_stateful,
    leaves,
)
from ndgrad.distributed.checkpoint.saving import check_coordinator, checksum, folder_of, plain_state, ranks_of, together
from ndgrad.distributed.tensor.dtensor import DTensor
from ndgrad.safetensors import SafetensorError, safe_open


def read_metadata(checkpoint_id: str | os.PathLike[str]) -> Metadata:
    """Return the metadata of a checkpoint: names, shapes, dtypes and files.

    Args:
        checkpoint_id: path of the checkpoint's folder.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"w": ndgrad.ones(2, 3)}, checkpoint_id=folder)
    >>> dcp.read_metadata(folder).tensors["w",].shape
    (2, 3)
    """
    path = FilePath(checkpoint_id) / METADATA
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is not there: {checkpoint_id} is no checkpoint, or its save never ended. Load another. [nd-path]"
        ) from None
    return Metadata.parse(text, str(path))


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a nested state from the folder `checkpoint_id`, in place; all ranks call it. Tensors get their saved values,
    DTensors this rank's part of them, for any number of ranks and placements at saving. Numbers and strings are
    replaced. Objects with `load_state_dict` get their saved state. Names that the state does not contain are not read.

    A missing name, a tensor of another shape, and a missing or damaged file raise an error on every rank and leave the
    state unchanged.

    Args:
        state_dict: nested dict of tensors, plain values and objects with a `load_state_dict`. It is filled in place.
        checkpoint_id: path of the checkpoint's folder.
        storage_reader: FileSystemReader of the folder, instead of a path.
        planner: None, or a `DefaultLoadPlanner`, which may allow missing names.
        process_group: group whose ranks take part. The default is the world.
        no_dist: whether this process acts alone, without messages.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"net": ndgrad.nn.Linear(2, 1)}, checkpoint_id=folder)
    >>> dcp.load({"net": ndgrad.nn.Linear(2, 1)}, checkpoint_id=folder)
    """
    folder = folder_of("load", checkpoint_id, storage_reader, planner)
    group = ranks_of(process_group, no_dist)
    reader = _Reader(folder, partial=getattr(planner, "allow_partial_load", False))
    targets = plain_state(state_dict)
    together(group, f"the checkpoint {folder} could not be loaded", lambda: reader.check(targets))
    with no_grad():
        found = {key: reader.fill(value, (key,)) for key, value in targets.items()}
    for key, value in state_dict.items():
        if is_stateful(value):
            value.load_state_dict(found[key])
        else:
            state_dict[key] = found[key]


class _Reader:
    """The state of one load."""

    def __init__(self, folder: FilePath, partial: bool = False) -> None:
        self.folder = folder
        #: True if names that the checkpoint does not have keep their values.
        self.partial = partial
        self.metadata = Metadata()
        self._files: dict[str, safe_open] = {}

    # ----- looking -----

    def check(self, targets: dict[str, Any]) -> None:
        """Find everything that is needed, and compare checksums."""
        self.metadata = read_metadata(self.folder)
        checked: set[tuple[str, str]] = set()
        for path, value in leaves(targets):
            if self.partial and path not in self.metadata.tensors and path not in self.metadata.values:
                continue
            if not isinstance(value, Tensor):
                if path not in self.metadata.values:
                    raise self._missing(path)
                continue
            entry = self._entry(path, value)
            wanted, _ = box_of(value)
            count = 0
            for chunk in entry.chunks:
                both = chunk.box.overlap(wanted)
                if both is not None:
                    count += both.count()
                    if (chunk.file, chunk.name) not in checked:
                        checked.add((chunk.file, chunk.name))
                        self._verify(chunk, entry, path)
            if count != wanted.count():
                raise ValueError(
                    f"{format_path(path)}: the checkpoint has {count} of the {wanted.count()} elements at "
                    f"{wanted.offset}; the rank that had the rest did not save it [nd-file-damaged]"
                )

    def _missing(self, path: Path) -> KeyError:
        there = sorted({format_path(p) for p in (*self.metadata.tensors, *self.metadata.values)})
        shown = ", ".join(there[:20]) + ", ..." * (len(there) > 20)
        return KeyError(f"{format_path(path)} is not in the checkpoint, which has {shown} [nd-state-dict]")

    def _entry(self, path: Path, value: Tensor) -> Entry:
        entry = self.metadata.tensors.get(path)
        if entry is None:
            raise self._missing(path)
        if entry.shape != tuple(value.shape):
            raise ValueError(
                f"{format_path(path)} is of shape {list(entry.shape)} in the checkpoint, and {list(value.shape)} here "
                "[nd-state-dict]"
            )
        if as_dtype(entry.dtype).is_complex and not value.is_complex():
            raise ValueError(
                f"{format_path(path)} is {entry.dtype} in the checkpoint, and {value.dtype} here [nd-state-dict]"
            )
        return entry

    def _verify(self, chunk: Chunk, entry: Entry, path: Path) -> None:
        array = self._array(chunk, entry, path)
        if checksum(np.ascontiguousarray(array)) != chunk.crc32:
            raise ValueError(
                f"{self.folder / chunk.file} is damaged: {format_path(path)} has another checksum than was saved "
                "[nd-file-damaged]"
            )

    # ----- reading -----

    def _array(self, chunk: Chunk, entry: Entry, path: Path) -> Any:
        file = self.folder / chunk.file
        try:
            if chunk.file not in self._files:
                self._files[chunk.file] = safe_open(file)
            tensor = self._files[chunk.file].get_tensor(chunk.name)
        except FileNotFoundError:
            raise FileNotFoundError(f"{file} is missing, which has {format_path(path)}. [nd-path]") from None
        except (SafetensorError, KeyError, OSError, ValueError) as error:
            raise ValueError(f"{file} is damaged, which has {format_path(path)}: {error} [nd-file-damaged]") from error
        array = np.asarray(tensor._array)
        if entry.dtype == "complex128":
            array = np.ascontiguousarray(array).view(np.complex128).reshape(array.shape[:-1])
        if array.shape != chunk.box.shape or as_dtype(array.dtype).name != entry.dtype:
            raise ValueError(
                f"{file} is another than was saved: {format_path(path)} is {array.dtype}{list(array.shape)} there, and "
                f"{entry.dtype}{list(chunk.box.shape)} in {METADATA} [nd-file-damaged]"
            )
        return array

    def fill(self, value: Any, path: Path) -> Any:
        """Return the state with the checkpoint's values: tensors, dicts and lists are filled in place, other values
        replaced.
        """
        if isinstance(value, Tensor):
            if not self.partial or path in self.metadata.tensors:
                self._fill_tensor(value, path)
            return value
        if path in self.metadata.values:
            saved = self.metadata.values[path]
            return tuple(saved) if isinstance(value, tuple) else saved
        if self.partial and not isinstance(value, (dict, list, tuple)):
            return value
        if isinstance(value, dict):
            for key in list(value):
                value[key] = self.fill(value[key], (*path, key))
            return value
        found = [self.fill(part, (*path, i)) for i, part in enumerate(value)]
        return tuple(found) if isinstance(value, tuple) else found

    def _fill_tensor(self, value: Tensor, path: Path) -> None:
        entry = self.metadata.tensors[path]
        wanted, _ = box_of(value)
        overlaps = [(chunk, both) for chunk in entry.chunks if (both := chunk.box.overlap(wanted)) is not None]
        local: Any = value.to_local() if isinstance(value, DTensor) else value.detach()
        if len(overlaps) == 1 and overlaps[0][0].box == wanted:
            array = self._array(overlaps[0][0], entry, path)
        else:
            array = np.empty(wanted.shape, as_dtype(entry.dtype).numpy)
            for chunk, both in overlaps:
                array[both.index_in(wanted)] = self._array(chunk, entry, path)[both.index_in(chunk.box)]
        if wanted.count():
            local.detach().copy_(wrap(Tensor, array))


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: Any,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> None:
    """Fill a nested state as `load` does; torch's older name.

    Args:
        state_dict: nested state, filled in place.
        storage_reader: `FileSystemReader` of the folder.
        process_group: group whose ranks take part. The default is the world.
        coordinator_rank: must be 0.
        no_dist: whether this process acts alone, without messages.
        planner: None, or a `DefaultLoadPlanner`.
    """
    check_coordinator("load_state_dict", coordinator_rank)
    load(state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group, no_dist=no_dist)
