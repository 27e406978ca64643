"""torch's `distributed.checkpoint`: the state of many ranks in a folder of safetensors files."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from ndgrad.distributed.checkpoint.layout import CheckpointException, Metadata
from ndgrad.distributed.checkpoint.loading import load, load_state_dict, read_metadata
from ndgrad.distributed.checkpoint.saving import save, save_state_dict
from ndgrad.distributed.checkpoint.storage import FileSystemReader, FileSystemWriter, async_save

__all__ = [
    "CheckpointException", "DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter",
    "Metadata", "async_save", "load", "load_state_dict", "read_metadata", "save", "save_state_dict",
]  # fmt: skip

_refuse_absent(__name__)
