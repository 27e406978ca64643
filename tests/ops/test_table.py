"""The table's promises, for every op: a hole in the table fails here.

Each differentiable op is checked in all modes, on real numbers and, if it is defined there, on complex ones. The
combinations are counted and compared with the count in the docs.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import ndgrad
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, table
from ndgrad.testing.op_checks import CHECKS, THIRD_ORDER, Sample, as_tuple, checks, more_checks, wrap_array
from tests.op_programs import SAMPLES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-an-op.md"

#: Differentiable ops without complex samples. Their formulas would give some number, but they are meant for the real
#: line.
REAL_ONLY = {
    "native_batch_norm": "its public functions refuse complex numbers: a variance is real",
    "native_layer_norm": "likewise",
    "rms_norm": "likewise",
    "sign": "its public functions refuse complex numbers; sgn is for them",
    **dict.fromkeys(("complex", "polar", "view_as_complex"), "they make complex numbers of real ones"),
    "heaviside": "a step of complex numbers",
    "ldexp": "of complex numbers for real exponents only, which its real samples have",
    "binary_cross_entropy": "its public function refuses other numbers than probabilities",
}
SECOND = {"jvp of vjp", "vjp of vjp", "vjp of jvp"}
THIRD = {*THIRD_ORDER}
#: Nested modes over rules that every sample tests separately, and whose ops have their own samples.
FOLLOWING = {"vjp of vjp", "vjp of jvp", "vmap of jvp", "vmap of vjp", *THIRD}
#: Modes that an op lacks by its nature.
WITHOUT = {
    DATA_DEPENDENT: {"vmap", "no loop", "vmap of jvp", "vmap of vjp"},
    RANDOM: {"vmap", "no loop", "vmap of jvp", "vmap of vjp"},
}
#: Modes in which an op has no reference, as its samples declare.
EXCUSED = {
    **{name: {"jvp", *SECOND} for name in ("normal_tensor", "normal_mean", "normal_std", "standard_gamma", "sample_dirichlet")},
    **{name: {"vmap", "no loop", "vmap of jvp", "vmap of vjp"} for name in ("masked_select", "masked_select_backward")},
    "poisson": {"jvp"},
    **{f"fake_quantize_per_{part}_affine": {"jvp", "vjp", *SECOND} for part in ("tensor", "channel")},
    "von_mises": {"jvp", *SECOND},
    "rrelu_slopes": {"jvp", *SECOND},
    "binomial": {"jvp"},
}
DERIVATIVES = {c for c in CHECKS if "jvp" in c or "vjp" in c}


def dtype_of(sample: Sample) -> str:
    arrays = [a for a in sample.args if isinstance(a, (np.ndarray, np.generic))]
    return "complex128" if any(a.dtype.kind == "c" for a in arrays) else "float64"


def make_complex(op, sample: Sample) -> Sample | None:
    """Return a real sample moved off the real line, or None if the op does not take complex numbers."""
    positions = [i for i in op.differentiable_positions(len(sample.args)) if isinstance(sample.args[i], (np.ndarray, np.generic))]
    args = list(sample.args)
    random = np.random.default_rng(1)
    for i in positions:
        if args[i].dtype != np.float64 or not args[i].size:
            return None
        args[i] = np.asarray(args[i] + 0.3j * random.standard_normal(args[i].shape))
    if not positions:
        return None
    moved = dataclasses.replace(sample, args=tuple(args), reference=None)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")  # turns NumPy's warnings about lost imaginary parts into errors
            prepared = [wrap_array(a) for a in args]
            op(*(prepared if sample.prepare is None else as_tuple(sample.prepare(*prepared))), **sample.settings)
    except Exception:
        return None  # the op refuses complex numbers
    return moved


@functools.cache
def complex_samples() -> dict[str, Sample]:
    """Return one sample made complex for each differentiable op that takes complex numbers but has only real
    samples.
    """
    found = {}
    for op in table.values():
        given = SAMPLES.get(op.name, [])
        if not op.differentiable or op.name in REAL_ONLY or op.batch is RANDOM or any(dtype_of(s) == "complex128" for s in given):
            continue
        made = next((m for s in given if (m := make_complex(op, s)) is not None), None)
        if made is not None:
            found[op.name] = made
    return found


def most_checked(name: str) -> set[int]:
    """Return the samples of an op that represent the others: for each dtype the first one with the most checks."""
    best: dict[str, tuple[int, int]] = {}
    for number, sample in enumerate(SAMPLES[name]):
        entry = sum(1 for _ in checks(table[name], sample)), -number
        best[dtype_of(sample)] = max(entry, best.get(dtype_of(sample), entry))
    return {-number for _, number in best.values()}


CASES = [
    pytest.param(table[name], sample, number in whole, id=f"{name}-{number}")
    for name, found in SAMPLES.items()
    if name in table
    for whole in [most_checked(name)]
    for number, sample in enumerate(found)
]


def test_every_op_has_samples_and_every_sample_an_op():
    pytest.importorskip("scipy", reason="some ops have samples only with SciPy")
    from_outside = {entry.op.name for entry in ndgrad.library.registered().values()}  # registered ops bring their own samples
    # Ops of several ranks are checked by tests/distributed, on ranks.
    of_ranks = {op.name for op in table.values() if getattr(op.forward, "__module__", "").startswith("ndgrad.distributed")}
    assert set(table) - set(SAMPLES) - from_outside - of_ranks == set()
    assert set(SAMPLES) - set(table) == set()


def test_every_op_says_how_it_batches_and_differentiates():
    for op in table.values():
        assert op.batch in (DATA_DEPENDENT, RANDOM) or callable(op.batch) or op.batch in ("elementwise", "leading", "dims"), op
        if op.vjp is NOT_DIFFERENTIABLE:
            assert op.jvp is NOT_DIFFERENTIABLE, op


#: Ops that return memory of an argument, with the reason why this is safe.
HANDED_ON = {"copy": "its result is written and not shared", "to_device": "not called for the device of its argument"}


def test_no_result_lies_in_the_memory_of_an_argument_unless_its_op_says_so():
    """A second tensor over the same memory would not notice writes to it, and neither would nodes that saved it."""
    found = set()
    for name, given in SAMPLES.items():
        op = table.get(name)
        if op is None or op.view or op.shares_storage or name in HANDED_ON:
            continue
        for sample in given[:3]:
            arguments = [wrap_array(np.array(a) if isinstance(a, np.ndarray) else a) for a in sample.args]
            arguments = arguments if sample.prepare is None else as_tuple(sample.prepare(*arguments))
            with np.errstate(all="ignore"):
                results = as_tuple(op(*arguments, **sample.settings))
            arrays = [[t._array for t in ts if isinstance(t, ndgrad.Tensor)] for ts in (results, arguments)]
            found |= {name for r in arrays[0] for a in arrays[1] if np.shares_memory(r, a)}
    assert found == set()


@pytest.mark.parametrize(("op", "sample", "whole"), CASES)
def test_op(op, sample, whole):
    """Run every check of one sample for each dtype. For other samples, run the checks that do not follow from these."""
    with np.errstate(all="ignore"):
        for check, run in checks(op, sample):
            if whole or check not in FOLLOWING:
                run()


@pytest.mark.slow
@pytest.mark.parametrize("name", [op.name for op in table.values() if op.differentiable and op.name in SAMPLES])
def test_what_follows_for_the_other_samples(name):
    with np.errstate(all="ignore"):
        whole = most_checked(name)
        for number, sample in enumerate(SAMPLES[name]):
            for check, run in checks(table[name], sample) if number not in whole else ():
                if check in FOLLOWING:
                    run()


@pytest.mark.parametrize("name", [name for name in SAMPLES if name in table and SAMPLES[name]])
def test_op_in_other_memory_and_precision_and_without_elements(name):
    with np.errstate(all="ignore"):
        for _, run in more_checks(table[name], SAMPLES[name][0]):
            run()


@pytest.mark.parametrize("name", [op.name for op in table.values() if op.differentiable and op.name in SAMPLES])
def test_op_on_complex_numbers(name):
    """Check ops that take complex numbers but have only real samples: every mode, although not the value."""
    sample = complex_samples().get(name)
    with np.errstate(all="ignore"):
        for check, run in checks(table[name], sample) if sample is not None else ():
            if check != "values":
                run()


def test_the_table_has_no_holes(capsys):
    """Count every differentiable op x every mode x {float64, complex128 if defined}."""
    pytest.importorskip("scipy", reason="some ops have samples only with SciPy")
    ran: set[tuple[str, str, str]] = set()
    for op, sample, whole in (case.values for case in CASES):
        ran |= {(op.name, check, dtype_of(sample)) for check, _ in checks(op, sample) if whole or check not in FOLLOWING}
    for name, sample in complex_samples().items():
        ran |= {(name, check, "complex128") for check, _ in checks(table[name], sample)}
    holes = []
    for op in table.values():
        if not op.differentiable or op.name not in SAMPLES:
            continue
        smooth = any(s.smooth for s in SAMPLES[op.name])
        expected = {*CHECKS} - WITHOUT.get(op.batch, set()) - EXCUSED.get(op.name, set())
        expected -= set() if op.elementwise and smooth and op.batch is not RANDOM else THIRD
        if all("no loop" in s.skip for s in SAMPLES[op.name]):
            expected -= {"no loop"}  # some SciPy solvers take one matrix at a time, as their samples declare
        dtypes = {dtype for name, _, dtype in ran if name == op.name}
        holes += [(op.name, mode, dtype) for dtype in dtypes for mode in expected if (op.name, mode, dtype) not in ran]
    assert holes == []
    counted = {(name, mode, dtype) for name, mode, dtype in ran if mode in DERIVATIVES or mode == "vmap"}
    ops = len({name for name, _, _ in counted if table[name].differentiable})
    with capsys.disabled():
        print(f"\n{len(counted)} combinations of op, mode and dtype ({ops} differentiable ops), no holes")
    numbers = re.search(r"([\d,]+) combinations of ([\d,]+) differentiable ops", PAGE.read_text())
    assert numbers is not None, f"{PAGE.name} does not give the count"
    for written, now in zip(numbers.groups(), (len(counted), ops), strict=True):
        # The page need not change for every new op, but must not promise more than exists, nor much less.
        assert 0.95 * now <= int(written.replace(",", "")) <= now
