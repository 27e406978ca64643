"""torch's `distributed.algorithms`: training with uneven inputs, and communication hooks of data parallel modules."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]

_refuse_absent(__name__)
