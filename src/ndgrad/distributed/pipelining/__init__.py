"""torch's `distributed.pipelining`: a model divided into stages on several ranks."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
)
from ndgrad.distributed.pipelining.stage import PipelineStage
from ndgrad.distributed.pipelining.tracing import Pipe, SplitPoint, pipe_split, pipeline

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "SplitPoint", "pipe_split", "pipeline",
]  # fmt: skip

_refuse_absent(__name__)
