"""Signatures of ops on every sample of the table: what the ranks compute from their pieces, put together, is what the
op computes.

No rank is needed for that: the pieces are cut, computed and put together here, one after the other, for every label
that a signature says can be divided, and for terms in every set of arguments in which it says that the op is linear.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.op_programs import SAMPLES

from ndgrad._src.ops.table import table
from ndgrad._src.ops.vocabulary import RawOps, load_all
from ndgrad.distributed.tensor import planning  # noqa: F401  # which knows all of them
from ndgrad.distributed.tensor.placements import chunk_sizes
from ndgrad.distributed.tensor.signatures import has_signature, signature

load_all()

#: Random ops are compared on ranks (programs/dtensors.py).
NAMES = [name for name, op in table.items() if SAMPLES.get(name) and has_signature(op) and "generator" not in op.settings]
RAW = RawOps(np)
#: Ops whose samples have no dimension that could be divided, or whose results may be any of several.
NOTHING_TO_DIVIDE = {"trace", "pick_along", "block_diag", "element", "svd", "eigh", "eig", "matrix_sqrt", "matrix_log"}


#: Ufuncs that join the results of pieces.
_JOINS = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


def _run(op, sig, args, settings, sizes, starts=None):
    if sig.local is not None:
        more = {"starts": starts or {}} if sig.wants_starts else {}
        return sig.local(RAW, args, settings, sizes, **more)
    return op.forward_for(np)(*args, **settings)


def _piece(x, dim, sizes, rank):
    start = sum(sizes[:rank])
    return x[(slice(None),) * dim + (slice(start, start + sizes[rank]),)]


def _close(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    tolerance = 1e-9 if wanted.dtype.char in "dD" else 1e-4
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def _tuple(out):
    return out if isinstance(out, (tuple, list)) else (out,)


def _cases(op, sample):
    given = sample.args if sample.prepare is None else sample.prepare(*sample.args)
    given = given if isinstance(given, tuple) else (given,)
    args = [a if (op.elementwise and not isinstance(a, np.ndarray)) or a is None else np.asarray(a) for a in given]
    settings = {**op.settings, **sample.settings}
    sig = signature(op, [a.shape if isinstance(a, np.ndarray) else None for a in args], settings)
    return args, settings, sig


@pytest.mark.parametrize("name", NAMES)
def test_pieces_put_together_are_the_whole(name):
    op = table[name]
    checked = 0
    for sample in SAMPLES[name][: 3 if op.elementwise else None]:
        args, settings, sig = _cases(op, sample)
        if sig is None or sample.invariant is not None:
            continue
        assert len(sig.inputs) == len(args)
        with np.errstate(all="ignore"):
            whole = _tuple(op.forward_for(np)(*args, **settings))
            for label in {l for labels in sig.inputs if labels for l in labels if l is not None}:
                for count in (3,) if op.elementwise else (2, 3):
                    checked += _check_label(op, sig, args, settings, whole, label, count)
    assert (checked == 0) == (name in NOTHING_TO_DIVIDE), checked


def _check_label(op, sig, args, settings, whole, label, count):
    length = next(a.shape[labels.index(label)] for a, labels in zip(args, sig.inputs, strict=True) if labels and label in labels)
    sizes = chunk_sizes(length, count)
    where = sig.outputs.index(label) if label in sig.outputs else None
    out_sizes = sizes
    if where is not None and sig.result_shape is not None:
        out_sizes = chunk_sizes(sig.result_shape[where], count)
    if label in sig.even and (length % count or (where is not None and sig.result_shape[where] % count)):
        return 0
    if where is None and label not in sig.reductions:
        raise AssertionError(f"label {label} of {op.name} is neither kept nor reduced")
    if 0 in sizes and sig.reductions.get(label) in ("max", "min"):
        return 0
    parts = []
    for rank in range(count):
        mine = []
        for i, (a, labels) in enumerate(zip(args, sig.inputs, strict=True)):
            if labels and label in labels:
                a = _piece(a, labels.index(label), sizes, rank)
            elif where is None and i in sig.added and rank and isinstance(a, np.ndarray):
                a = np.zeros_like(a)
            mine.append(a)
        local_sizes = {} if where is None else {where: out_sizes[rank]}
        parts.append(_tuple(_run(op, sig, mine, settings, local_sizes, {label: sum(sizes[:rank])})))
    for k in range(len(whole)):
        results = [np.asarray(p[k]) for p in parts]
        if where is not None:
            joined = np.concatenate(results, axis=where)
        else:
            joined = _JOINS[sig.reductions[label]].reduce(results)
        _close(joined, whole[k])
    return 1


@pytest.mark.parametrize("name", NAMES)
def test_terms_in_linear_arguments_make_terms(name):
    op = table[name]
    generator = np.random.default_rng(0)
    for sample in SAMPLES[name]:
        args, settings, sig = _cases(op, sample)
        if sig is None or sample.invariant is not None:
            continue
        arrays = {i for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        for group in sig.linear:
            if not group <= arrays | {i for i, a in enumerate(args) if a is None}:
                continue  # a number is no term of itself
            group = group & arrays
            if not group or any(args[i].dtype.kind not in "fc" for i in group):
                continue
            first = [a * generator.standard_normal() if i in group else a for i, a in enumerate(args)]
            second = [args[i] - first[i] if i in group else a for i, a in enumerate(args)]
            with np.errstate(all="ignore"):
                if any(not np.isfinite(args[i]).all() for i in group):
                    continue
                whole = _tuple(op.forward_for(np)(*args, **settings))
                parts = [_tuple(_run(op, sig, p, settings, {})) for p in (first, second)]
            for k in range(len(whole)):
                _close(np.asarray(parts[0][k]) + np.asarray(parts[1][k]), whole[k])


def test_most_ops_of_the_table_have_one():
    """The share that docs/distributed.md gives."""
    found = [name for name, op in table.items() if has_signature(op)]
    assert len(found) > 0.9 * len(table), len(found)
    assert functools.reduce(lambda n, name: n + (name in SAMPLES), NAMES, 0) == len(NAMES)
