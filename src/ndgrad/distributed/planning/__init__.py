"""Planning past this machine: what a step costs on how many ranks, and what bounds it.

`measure()` finds out what this machine does (`Machine`), `record(step)` what a step of a program computes and sends
(`Job`), and `Job.predict(machine, ranks)` replays the one on the other at any number of ranks. docs/planning.md has the
model, and how far it was from measurements.
"""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.planning.costs import Cost, Link, cost
from ndgrad.distributed.planning.machine import Machine, measure
from ndgrad.distributed.planning.recording import record
from ndgrad.distributed.planning.simulation import Job, Prediction, table

__all__ = ["Cost", "Job", "Link", "Machine", "Prediction", "cost", "measure", "record", "table"]

_refuse_absent(__name__)
