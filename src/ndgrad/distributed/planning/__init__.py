"""Predict the cost of a step on any number of ranks, and the resource that limits it.

`measure()` measures this machine (`Machine`), `record(step)` records the computing and messages of a step (`Job`), and
`Job.predict(machine, ranks)` simulates the job on the machine with any number of ranks. docs/planning.md explains the
model, and compares it with measurements.
"""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.planning.costs import Cost, Link, cost
from ndgrad.distributed.planning.machine import Machine, measure
from ndgrad.distributed.planning.recording import record
from ndgrad.distributed.planning.simulation import Job, Prediction, table

__all__ = ["Cost", "Job", "Link", "Machine", "Prediction", "cost", "measure", "record", "table"]

_refuse_absent(__name__)
