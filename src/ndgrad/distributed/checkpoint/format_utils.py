"""Conversion between checkpoints in a folder and single files of `ndgrad.save`; one process does it."""

from __future__ import annotations

import os
from typing import Any

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.creation import empty
from ndgrad.distributed.checkpoint.layout import Path
from ndgrad.distributed.checkpoint.loading import load, read_metadata
from ndgrad.distributed.checkpoint.saving import save
from ndgrad.serialization import load as _load_file
from ndgrad.serialization import save as _save_file

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Write all tensors and values of a checkpoint into one file, which `ndgrad.load` reads.

    The checkpoint stores lists of tensors by position, so they become dicts with the positions as keys.

    Args:
        dcp_checkpoint_dir: folder of the checkpoint.
        torch_save_path: file to write.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> from ndgrad.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"net": {"w": ndgrad.ones(2)}, "step": 3}, checkpoint_id=folder)
    >>> dcp_to_torch_save(folder, f"{folder}/all.pt")
    >>> ndgrad.load(f"{folder}/all.pt")
    {'net': {'w': tensor([1., 1.])}, 'step': 3}
    """
    metadata = read_metadata(dcp_checkpoint_dir)
    state: dict[Any, Any] = {}
    for path, entry in metadata.tensors.items():
        _insert(state, path, empty(entry.shape, dtype=as_dtype(entry.dtype)))
    for path, value in metadata.values.items():
        _insert(state, path, value)
    load(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)
    _save_file(state, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Write the state in a file of `ndgrad.save` as a checkpoint, which any number of ranks loads.

    Args:
        torch_save_path: file to read.
        dcp_checkpoint_dir: folder of the checkpoint.
    """
    save(_load_file(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


def _insert(state: dict[Any, Any], path: Path, value: Any) -> None:
    """Put a value into nested dicts."""
    for key in path[:-1]:
        state = state.setdefault(key, {})
    state[path[-1]] = value


_refuse_absent(__name__)
