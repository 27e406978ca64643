"""The generated fast path of an op and the general path record the same: values, nodes, saved values, views,
gradients.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndgrad
from ndgrad._src.core.dispatch import record_any
from ndgrad._src.core.saved import unpack_raw
from ndgrad._src.core.variable import Variable, requires_grad
from ndgrad._src.ops.table import RANDOM, table
from ndgrad._src.ops.vocabulary import raw_ops
from ndgrad.testing.op_checks import as_tuple
from tests.op_programs import SAMPLES

REPEATABLE = [name for name in sorted(table) if table[name].batch is not RANDOM]


def inputs(sample, tensor_type):
    """Return the sample's arguments as tensors of a class, as results, not leaves. Floating-point ones require grad."""
    made = []
    for a in sample.args:
        if isinstance(a, (np.ndarray, np.generic)):
            t = tensor_type(np.array(a))
            a = t.requires_grad_() * 1.0 if a.dtype.kind in "fc" else t
        made.append(a)
    return made if sample.prepare is None else list(as_tuple(sample.prepare(*made)))


def tensor(array):
    return ndgrad.tensor(array)


def array(values):
    return ndgrad.tensor(values).array()


def saved(node):
    """Return the saved values of a node, by name, as raw arrays, and whether each version is known."""
    plan = node.plan
    arrays, outs = plan.needed(node.next)
    found = {name: unpack_raw(node, name) for name in (*arrays, *outs)}
    # Note [Saved scalars]: only the general path gives a scalar a storage, and so a version.
    versions = [name for name in (*arrays, *outs) if not isinstance(found[name], np.generic | np.ndarray) or found[name].ndim]
    found |= {f"{name}_v": describe_version(getattr(node, f"{name}_v")) for name in versions}
    return found | {name: getattr(node, name) for name in plan.settings + plan.facts}


def describe_version(version):
    return tuple(map(describe_version, version)) if isinstance(version, tuple) else version is None


def record_of(result):
    """Return everything that is recorded about a result."""
    known = [type(result), np.asarray(result._array), result.requires_grad, result.output_nr, result._version, result._is_view()]
    if result._is_view():
        known.append((result._meta.view.creation, result._meta.view.path[1:]))
    node = result._node
    if node is not None:
        known += [node.name(), node.shape, node.dtype, node.route == 2, len(node.next)]
        known += [getattr(node, "metadata_of_outputs", None), saved(node)]
    return known


def gradients(results):
    """Return the gradients of the results' node for ones, or its error if there is no derivative."""
    nodes = [r._node for r in results if r._node is not None]
    if not nodes:
        return ()
    g = [np.ones(r._array.shape, r._array.dtype) if r._node is not None else None for r in results]
    try:
        return nodes[0].apply(g[0] if nodes[0].outputs == 1 else g, raw_ops(np), True)
    except (NotImplementedError, np.linalg.LinAlgError) as error:
        return str(error)


def assert_same(one, other):
    if isinstance(one, np.generic) and isinstance(other, np.ndarray):
        one = np.asarray(one)
    assert type(one) is type(other), (one, other)
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (np.ndarray, np.generic)):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, Variable):
        assert_same(np.asarray(one._array), np.asarray(other._array))
    else:
        assert one == other or one != one


@pytest.mark.parametrize("name", [name for name in REPEATABLE if SAMPLES.get(name)])
def test_both_lanes_record_the_same(name):
    for number, sample in enumerate(SAMPLES[name][:3]):
        for tensor_type in (tensor, array):
            try:
                check_lanes(table[name], sample, tensor_type)
            except BaseException as error:
                error.add_note(f"sample {number} of {name}, {tensor_type.__name__}")
                raise


def check_lanes(op, sample, tensor_type):
    settings = {**op.settings, **sample.settings}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        short = as_tuple(op.eager(*inputs(sample, tensor_type), **sample.settings))
        general = as_tuple(record_any(op, tuple(inputs(sample, tensor_type)), settings))
        assert_same([record_of(r) for r in short], [record_of(r) for r in general])
        assert_same(gradients(short), gradients(general))
    assert any(map(requires_grad, short)) == any(map(requires_grad, general))
