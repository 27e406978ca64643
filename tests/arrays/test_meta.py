"""The meta device: shapes and dtypes of programs without data, compared with the same programs on the CPU."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from tests.op_programs import SAMPLES

import ndgrad
from ndgrad._src.ops.table import table
from ndgrad.testing.op_checks import as_tuple

PROGRAMS = {
    "arithmetic": lambda x: (x + 1) * 2.0 / x - x**2,
    "mixed dtypes": lambda x: x.float() * ndgrad.ones(3, dtype=ndgrad.float64, device=x.device),
    "comparison": lambda x: x > 0,
    "elementwise": lambda x: x.exp().sin().sqrt(),
    "where": lambda x: ndgrad.where(x > 0, x, 0.0),
    "sum": lambda x: x.sum(1, keepdim=True),
    "sum of all": lambda x: x.sum(),
    "mean": lambda x: x.mean(0),
    "max": lambda x: x.max(1)[0],
    "argmax": lambda x: x.argmax(),
    "matmul": lambda x: x @ x.T,
    "matvec": lambda x: x @ x[0],
    "reshape": lambda x: x.reshape(-1),
    "permute": lambda x: x.T[None],
    "index": lambda x: x[1:, ::2],
    "cat": lambda x: ndgrad.cat([x, x], 1),
    "cumsum": lambda x: x.cumsum(0),
    "cast": lambda x: x.to(ndgrad.complex64),
    "clone": lambda x: x.clone(),
    "in place": lambda x: x.clone().mul_(2).add_(x),
    "std": lambda x: x.std(1),
    "var_mean": lambda x: ndgrad.var_mean(x),
    "softmax": lambda x: x.softmax(1),
    "logsumexp": lambda x: x.logsumexp(0),
    "median": lambda x: x.median(1)[0],
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(2),
    "gather": lambda x: x.gather(1, index(x, 2, 2)),
    "rows": lambda x: x[index(x, 5)],
    "pairs": lambda x: x[index(x, 5), index(x, 5)],
    "put": lambda x: x.clone().index_put_((index(x, 5),), x[0], accumulate=True),
    "write": lambda x: write_row(x.clone(), index(x, 4), x[:1]),
    "scatter_add": lambda x: x.scatter_add(0, index(x, 2, 3), x),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0),
    "embedding": lambda x: ndgrad.nn.functional.embedding(index(x, 4, 5), x),
    "layer_norm": lambda x: ndgrad.nn.functional.layer_norm(x, (3,)),
    "cross_entropy": lambda x: ndgrad.nn.functional.cross_entropy(x, index(x, 2)),
    "block_diag": lambda x: ndgrad.block_diag(x, x),
    "diag_embed": lambda x: ndgrad.diag_embed(x),
    "inv": lambda x: ndgrad.linalg.inv(matrix(x)),
    "solve": lambda x: ndgrad.linalg.solve(matrix(x), x),
    "cholesky": lambda x: ndgrad.linalg.cholesky(matrix(x)),
    "svd": lambda x: ndgrad.linalg.svd(x, full_matrices=False)[1],
    "view of another dtype": lambda x: x.view(ndgrad.float32),
}
NOT_DIFFERENTIABLE = {"comparison", "argmax", "view of another dtype"}


def index(x, *shape):
    return ndgrad.zeros(*shape, dtype=ndgrad.int64, device=x.device)


def matrix(x):
    return x[:, :2] + ndgrad.eye(2, device=x.device)


def write_row(x, places, value):
    x[places] = value
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_and_dtypes_are_those_of_the_cpu(name):
    real = PROGRAMS[name](ndgrad.ones(2, 3))
    meta = PROGRAMS[name](ndgrad.ones(2, 3, device="meta"))
    for r, m in zip(real if isinstance(real, tuple) else (real,), meta if isinstance(meta, tuple) else (meta,)):
        assert m.is_meta
        assert (m.shape, m.dtype) == (r.shape, r.dtype)


@pytest.mark.parametrize("size", [(70, 70), (3, 5000)])
def test_large_arrays_take_no_other_way_that_would_look_at_values(size):
    for name in ("softmax", "logsumexp", "sort", "std", "layer norm"):
        program = PROGRAMS.get(name, lambda x: ndgrad.nn.functional.layer_norm(x, (x.shape[1],)))
        assert program(ndgrad.ones(*size, device="meta"))[0].shape == program(ndgrad.ones(*size))[0].shape


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - NOT_DIFFERENTIABLE))
def test_every_program_has_gradients(name):
    x = ndgrad.ones(2, 3, device="meta", requires_grad=True)
    out = PROGRAMS[name](x)
    first = out[0] if isinstance(out, tuple) else out
    first.abs().sum().backward()
    assert x.grad.is_meta
    assert (x.grad.shape, x.grad.dtype) == (x.shape, x.dtype)


def test_gradients_have_shapes_too():
    x = ndgrad.ones(2, 3, device="meta", requires_grad=True)
    (x @ x.T).exp().sum().backward()
    assert x.grad.is_meta
    assert x.grad.shape == (2, 3)


#: Solvers for which matrices of ones and identities are unsuitable.
UNSOLVABLE = {"cholesky_banded", "continuous_riccati", "solve_toeplitz", "sparse_solve"}
#: Ops whose arguments must agree in value.
AGREEING = {"masked_select_backward"}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_op_works_out_shapes_and_dtypes(name):
    op = table[name]
    for sample in SAMPLES[name][:3]:
        args = [ndgrad.tensor(np.array(a)) if isinstance(a, (np.ndarray, np.generic)) else a for a in sample.args]
        args = args if sample.prepare is None else list(as_tuple(sample.prepare(*args)))
        tensors = [a for a in args if isinstance(a, ndgrad.Tensor)]
        if name in UNSOLVABLE | AGREEING | {"to_device"} or not tensors:
            continue
        without = [a.to("meta") if isinstance(a, ndgrad.Tensor) else a for a in args]
        if op.needs_values:
            with pytest.raises(NotImplementedError, match="meta device"):
                op(*without, **sample.settings)
            continue
        with np.errstate(all="ignore"):
            want, got = as_tuple(op(*args, **sample.settings)), as_tuple(op(*without, **sample.settings))
        assert all(g.is_meta for g in got)
        assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]


def test_large_tensors_cost_nothing():
    tracemalloc.start()
    try:
        x = ndgrad.empty(100_000, 100_000, device="meta", dtype=ndgrad.float32)
        y = ((x * 2).exp() @ x).sum(0).reshape(10, -1)
        rows = ndgrad.nn.functional.embedding(index(x, 7), x)
        rows = ndgrad.nn.functional.layer_norm(rows.softmax(1), (100_000,))
        assert x.gather(1, index(x, 9, 1)).shape == (9, 1)
        assert rows.shape == x[index(x, 7)].shape == (7, 100_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert y.shape == (10, 10_000)
    assert x.nbytes == 40_000_000_000


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: bool(x.sum()), lambda x: x.to("cpu"), lambda x: float(x.sum()),
        lambda x: ndgrad.nonzero(x),
    ],
)  # fmt: skip
def test_what_needs_values_raises(ask):
    with pytest.raises(NotImplementedError, match=r"meta device.*(CPU|device=)"):
        ask(ndgrad.ones(2, device="meta"))


def test_conversion_to_numpy_is_refused():
    with pytest.raises(TypeError, match="can't convert meta device"):
        ndgrad.ones(2, device="meta").numpy()
    with pytest.raises((TypeError, NotImplementedError)):
        np.asarray(ndgrad.ones(2, device="meta"))


def test_shapes_that_do_not_fit_are_errors_as_on_the_cpu():
    x = ndgrad.ones(2, 3, device="meta")
    for wrong in (lambda: x + ndgrad.ones(2, device="meta"), lambda: x @ x, lambda: x.reshape(7)):
        with pytest.raises((RuntimeError, ValueError)):
            wrong()


def test_moving_to_meta_keeps_shape_and_dtype():
    t = ndgrad.ones(2, 3, dtype=ndgrad.int8).to("meta")
    assert (t.is_meta, t.shape, t.dtype, t.stride()) == (True, (2, 3), ndgrad.int8, (3, 1))
    assert ndgrad.zeros_like(t, device="cpu").tolist() == [[0, 0, 0], [0, 0, 0]]
