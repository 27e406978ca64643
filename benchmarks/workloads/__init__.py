"""All workloads. Importing this package fills the registry, in the order of the table."""

from __future__ import annotations

import importlib

SUBJECTS = (
    "chain", "elementwise", "ode", "mlp", "lstm", "transformer", "convnet", "embedding", "hessian", "per_sample",
    "banded", "single_ops", "mixture", "bundle", "sequence", "simulations", "models", "training", "optimizers",
    "drawn",
    "op_families",
)  # fmt: skip

for _subject in SUBJECTS:
    importlib.import_module(f"{__name__}.{_subject}")
