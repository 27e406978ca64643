"""All workloads; importing this package fills the registry, in the order of the table."""

from __future__ import annotations

import importlib

SUBJECTS = ("chain", "ode", "mlp", "lstm", "transformer", "convnet", "hessian", "per_sample", "banded", "single_ops")

for _subject in SUBJECTS:
    importlib.import_module(f"{__name__}.{_subject}")
