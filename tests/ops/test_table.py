"""The table's promises, for every op: a hole in the table fails here."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest

import ndgrad.ops
from ndgrad.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, table
from ndgrad.testing.check_op import Sample, checks
from tests.ops import samples

for module in pkgutil.iter_modules(ndgrad.ops.__path__):
    importlib.import_module(f"ndgrad.ops.{module.name}")

SAMPLES: dict[str, list[Sample]] = {}
for module in pkgutil.iter_modules(samples.__path__):
    for name, found in importlib.import_module(f"tests.ops.samples.{module.name}").SAMPLES.items():
        SAMPLES.setdefault(name, []).extend(found)

CASES = [
    pytest.param(table[name], sample, id=f"{name}-{number}")
    for name, found in SAMPLES.items()
    if name in table
    for number, sample in enumerate(found)
]


def test_every_op_has_samples_and_every_sample_an_op():
    assert set(table) - set(SAMPLES) == set()
    assert set(SAMPLES) - set(table) == set()


def test_every_op_says_how_it_batches_and_differentiates():
    for op in table.values():
        assert op.batch in (DATA_DEPENDENT, RANDOM) or callable(op.batch) or op.batch in ("elementwise", "leading", "dims"), op
        if op.vjp is NOT_DIFFERENTIABLE:
            assert op.jvp is NOT_DIFFERENTIABLE, op


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_op(op, sample):
    assert ndgrad.Tensor is not None
    with np.errstate(all="ignore"):
        for _, run in checks(op, sample):
            run()
