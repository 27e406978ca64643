"""torch's `FileSystemWriter` and `FileSystemReader`, which name the folder of a checkpoint, and `async_save`."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path as FilePath
from typing import Any

from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.checkpoint.layout import METADATA, Metadata
from ndgrad.distributed.checkpoint.loading import read_metadata
from ndgrad.distributed.checkpoint.saving import folder_of, plain_state, ranks_of, save
from ndgrad.distributed.groups import twin_group


class FileSystemWriter:
    """Folder that a checkpoint is written to, for `save(storage_writer=...)`.

    Files are flushed to the disk and written by one thread per rank. With `overwrite=False`, a checkpoint that is there
    raises.

    Args:
        path: path of the folder.
        single_file_per_rank: must be True.
        sync_files: must be True: files are flushed to the disk.
        thread_count: at least 1. Has no further effect, because one thread writes.
        per_thread_copy_ahead: accepted as in torch; has no effect, because tensors are not copied ahead.
        cache_staged_state_dict: accepted as in torch; has no effect.
        overwrite: whether a checkpoint that is there is replaced. It raises RuntimeError otherwise.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"w": ndgrad.ones(2)}, storage_writer=dcp.FileSystemWriter(folder))
    >>> state = {"w": ndgrad.zeros(2)}
    >>> dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
    >>> state["w"]
    tensor([1., 1.])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        if not single_file_per_rank or not sync_files:
            raise NotImplementedError(
                "FileSystemWriter: a rank writes one file, and flushes it to the disk. Leave single_file_per_rank and "
                "sync_files at True. [nd-unsupported]"
            )
        if thread_count < 1:
            raise ValueError(f"FileSystemWriter(thread_count={thread_count}): at least one thread writes. [nd-range]")
        self.path = FilePath(path)
        self.overwrite = overwrite

    def check(self) -> None:
        """Raise if a checkpoint is there and may not be overwritten."""
        if not self.overwrite and (self.path / METADATA).exists():
            raise RuntimeError(
                f"checkpoint.save: a checkpoint is in {self.path}, and overwrite=False was given. [nd-path]"
            )

    @property
    def checkpoint_id(self) -> FilePath:
        """The folder."""
        return self.path

    @staticmethod
    def validate_checkpoint_id(checkpoint_id: str | os.PathLike[str]) -> bool:
        """True if a path can be that of a checkpoint: it exists, or its parent does.

        Args:
            checkpoint_id: path of a folder.
        """
        path = FilePath(checkpoint_id)
        return path.exists() or path.parent.exists()


class FileSystemReader:
    """Folder that a checkpoint is read from, for `load(storage_reader=...)`.

    Args:
        path: path of the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = FilePath(path)

    @property
    def checkpoint_id(self) -> FilePath:
        """The folder."""
        return self.path

    def read_metadata(self) -> Metadata:
        """Return the metadata of the checkpoint."""
        return read_metadata(self.path)

    @staticmethod
    def validate_checkpoint_id(checkpoint_id: str | os.PathLike[str]) -> bool:
        """True if the path exists.

        Args:
            checkpoint_id: path of a folder.
        """
        return FilePath(checkpoint_id).exists()


_threads: dict[str, ThreadPoolExecutor] = {}


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> Future[Metadata]:
    """Copy a state, and write it to a folder while the program continues. Return a future of the metadata.

    All ranks call it, in the same order. The copy takes as much memory as the rank's part of the state. Saves of a
    group run one after the other. `result()` of the future raises if a rank could not write.

    Args:
        state_dict: nested dict of tensors, plain values and objects with a `state_dict`.
        checkpoint_id: path of the checkpoint's folder.
        storage_writer: FileSystemWriter of the folder, instead of a path.
        planner: must be None: the layout of a checkpoint is fixed.
        process_group: group whose ranks take part. The default is the world.
        no_dist: whether this process acts alone, without messages.

    >>> import tempfile
    >>> import ndgrad.distributed.checkpoint as dcp
    >>> folder, w = tempfile.mkdtemp(), ndgrad.ones(2)
    >>> saving = dcp.async_save({"w": w}, checkpoint_id=folder)
    >>> _ = w.zero_()
    >>> saving.result().tensors["w",].shape
    (2,)
    >>> state = {"w": ndgrad.zeros(2)}
    >>> dcp.load(state, checkpoint_id=folder)
    >>> state["w"]
    tensor([1., 1.])
    """
    folder = folder_of("async_save", checkpoint_id, storage_writer, planner)
    group = ranks_of(process_group, no_dist)
    own = None if group is None else twin_group(group, "checkpoints")  # its messages overlap with the program's
    copied = _copy(plain_state(state_dict))
    name = "" if own is None else own.name
    if name not in _threads:
        _threads[name] = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
    return _threads[name].submit(save, copied, checkpoint_id=folder, process_group=own, no_dist=own is None)


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copy(v) for v in value)
    return value
