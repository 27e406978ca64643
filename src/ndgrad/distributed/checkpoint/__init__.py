"""torch's `distributed.checkpoint`: the state of many ranks in a folder of safetensors files."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from ndgrad.distributed.checkpoint.layout import CheckpointException, Metadata
from ndgrad.distributed.checkpoint.loading import load, read_metadata
from ndgrad.distributed.checkpoint.saving import save
from ndgrad.distributed.checkpoint.storage import FileSystemReader, FileSystemWriter, async_save

__all__ = [
    "CheckpointException", "DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter",
    "Metadata", "async_save", "load", "read_metadata", "save",
]  # fmt: skip

_refuse_absent(__name__)
