"""gather, scatter, index_*, masked_*, take and put, sort and search beside torch's: values, gradients, names, kinds of errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate

pytestmark = pytest.mark.usefixtures("float64_torch")

r = np.random.default_rng(5)
A = r.permutation(60).reshape(3, 4, 5) / 7.0
B = r.permutation(60).reshape(3, 4, 5) / 11.0
M = A[0]
V = A[0, 0]
REPEATS = r.integers(0, 4, (2, 6, 5))
DISTINCT = np.argsort(r.standard_normal((3, 4, 5)), axis=1)[:, :2]
I, J = np.array([2, 0, 2]), np.array([1, 3])
NAN = float("nan")


def array(t):
    return t.detach().resolve_conj().numpy() if isinstance(t, torch.Tensor) else np.asarray(t.detach().numpy())


def outcome(lib, program, *arrays):
    """Return the outcome of a program in a library: dtypes, names of nodes, values, and gradients of a weighted sum; or its error."""
    leaves = [lib.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outs = program(lib, *(x * 1.0 if x.requires_grad else x for x in leaves))
        except Exception as error:
            return type(error).__name__
    outs = outs if isinstance(outs, tuple) else (outs,)
    facts = [(tuple(o.shape), str(o.dtype).split(".")[-1], o.requires_grad) for o in outs]
    names = [o.grad_fn.name() if o.grad_fn is not None else None for o in outs]
    total = sum(((o * lib.tensor(np.cos(np.arange(o.numel())).reshape(tuple(o.shape)))).sum() for o in outs if o.requires_grad), start=0.0)
    wanted = [x for x in leaves if x.requires_grad]
    if isinstance(total, float):
        grads = []
    else:
        total = total.real if "complex" in str(total.dtype) else total
        grads = [None if g is None else array(g) for g in lib.autograd.grad(total, wanted, allow_unused=True)]
    return facts, names, [array(o) for o in outs], grads


def assert_same(program, *arrays, names=True):
    ours, theirs = outcome(ndgrad, program, *arrays), outcome(torch, program, *arrays)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
        return
    assert ours[0] == theirs[0]
    if names:
        assert ours[1] == theirs[1]
    for mine, its in zip(ours[2] + ours[3], theirs[2] + theirs[3], strict=True):
        assert (mine is None) == (its is None)
        if mine is not None:
            np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12)


def index(*values):
    return lambda lib: lib.tensor(np.array(values))


# ----- gather and scatter ----------------------------------------------------------------------------------------------

#: name -> program of (library, A, B), which require grad
PROGRAMS = {
    "gather": lambda lib, x, y: x.gather(1, lib.tensor(REPEATS)),
    "gather function": lambda lib, x, y: lib.gather(x, -2, lib.tensor(DISTINCT)),
    "gather keyword": lambda lib, x, y: lib.gather(x, dim=1, index=lib.tensor(DISTINCT), sparse_grad=False),
    "gather expanded": lambda lib, x, y: x.gather(0, lib.tensor(I)[:, None, None].expand(3, 4, 5)),
    "gather int32": lambda lib, x, y: x.gather(1, lib.tensor(DISTINCT).int()),
    "gather empty": lambda lib, x, y: x.gather(1, lib.tensor(REPEATS)[:, :0]),
    "gather 0-d with vector": lambda lib, x, y: x.sum().gather(0, lib.tensor(np.array([0, 0]))),
    "gather float index": lambda lib, x, y: x.gather(1, lib.tensor(A)),
    "gather bool index": lambda lib, x, y: x.gather(1, lib.tensor(A > 0)),
    "gather negative": lambda lib, x, y: x.gather(1, lib.tensor(-DISTINCT - 1)),
    "gather too large": lambda lib, x, y: x.gather(1, lib.tensor(DISTINCT + 4)),
    "gather rank": lambda lib, x, y: x.gather(1, lib.tensor(I)),
    "gather size": lambda lib, x, y: x.gather(1, lib.tensor(np.zeros((4, 1, 1), int))),
    "gather dim": lambda lib, x, y: x.gather(3, lib.tensor(DISTINCT)),
    "gather list": lambda lib, x, y: x.gather(0, [0, 1]),
    "scatter": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT), y[:, :2]),
    "scatter function": lambda lib, x, y: lib.scatter(x, 1, lib.tensor(DISTINCT), y[:, :2]),
    "scatter keyword": lambda lib, x, y: lib.scatter(x, dim=1, index=lib.tensor(DISTINCT), src=y[:, :2]),
    "scatter negative": lambda lib, x, y: x.scatter(1, lib.tensor(-DISTINCT - 1), y[:, :2]),
    "scatter dtype": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT), y[:, :2].float()),
    "scatter small source": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT), y[:, :1]),
    "scatter rank": lambda lib, x, y: x.scatter(1, lib.tensor(I), y),
    "scatter empty": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT[:, :0]), y[:, :0]),
    "scatter complex value": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT), 2j),
    "scatter reduce unknown": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT), y, reduce="sum"),
    "scatter_": lambda lib, x, y: x.scatter_(1, lib.tensor(DISTINCT), y[:, :2]),
    "scatter_add": lambda lib, x, y: x.scatter_add(1, lib.tensor(REPEATS[:, :4]), y[:2]),
    "scatter_add function": lambda lib, x, y: lib.scatter_add(x, 1, lib.tensor(DISTINCT), y[:, :2]),
    "scatter_add expanded": lambda lib, x, y: x.scatter_add(0, lib.tensor(I)[:, None, None].expand(3, 4, 5), y),
    "scatter_add_": lambda lib, x, y: x.scatter_add_(1, lib.tensor(REPEATS[:, :4]), y[:2]),
    "scatter_add dtype": lambda lib, x, y: x.scatter_add(1, lib.tensor(DISTINCT), y[:, :2].float()),
    "scatter_add too large": lambda lib, x, y: x.scatter_add(1, lib.tensor(DISTINCT + 4), y[:, :2]),
    "scatter_reduce unknown": lambda lib, x, y: x.scatter_reduce(1, lib.tensor(DISTINCT), y[:, :2], "add"),
    "scatter_reduce short source": lambda lib, x, y: x.scatter_reduce(1, lib.tensor(DISTINCT), y[:, :1], "sum"),
}  # fmt: skip
#: the same without a look at the names of nodes, which stand for a composition here
UNNAMED = {
    "kthvalue 0-d": lambda lib, x, y: tuple(x.sum().kthvalue(1)),
    "topk 0-d": lambda lib, x, y: tuple(x.sum().topk(1)),
    "sort 0-d": lambda lib, x, y: tuple(x.sum().sort()),
    "sort keyword": lambda lib, x, y: tuple(x.sort(dim=1, descending=True, stable=True)),
    "select_scatter negative": lambda lib, x, y: lib.select_scatter(x, y[:, :, 0], -1, -2),
    "select_scatter": lambda lib, x, y: x.select_scatter(y[0], 0, 1),
    "put_ on a view": lambda lib, x, y: (x[:, 1].put_(lib.tensor(np.array([-1, 7])), y[0, 0, :2], True), x)[1],
    "index_copy 0-d": lambda lib, x, y: x.sum().index_copy(0, lib.tensor(np.array([0])), y[0, 0, :1]),
    "index_add on a view": lambda lib, x, y: (x[1:].index_add_(0, lib.tensor(np.array([1, 1])), y[:2]), x)[1],
    "index_select 0-d": lambda lib, x, y: x.sum().index_select(0, lib.tensor(np.array([0]))),
    "scatter_ on a view": lambda lib, x, y: (x.transpose(0, 2).scatter_(1, lib.tensor(DISTINCT.T.copy()), y[:, :2].transpose(0, 2)), x)[1],
    "scatter 0-d": lambda lib, x, y: x.sum().scatter(0, lib.tensor(np.array(0)), y.sum()),
    "gather empty of other rank": lambda lib, x, y: x.gather(0, lib.tensor(I)[:0]),
    "gather vector with 0-d": lambda lib, x, y: x[0, 0].gather(0, lib.tensor(np.array(2))),
    "gather 0-d": lambda lib, x, y: x.sum().gather(0, lib.tensor(np.array(0))),
    "scatter value": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT), 2.5),
    "scatter value keyword": lambda lib, x, y: x.scatter(1, lib.tensor(DISTINCT), value=2),
    "scatter_ value": lambda lib, x, y: x.scatter_(1, lib.tensor(DISTINCT), 2.5),
    "masked_fill tensor": lambda lib, x, y: x.masked_fill(x > 3, y.sum()),
    "masked_fill float32 tensor": lambda lib, x, y: x.masked_fill(x > 3, y.sum().float()),
    "masked_fill_ tensor": lambda lib, x, y: x.masked_fill_(x > 3, y.sum()),
    "index_fill tensor": lambda lib, x, y: x.index_fill(1, lib.tensor(J), y.sum()),
    "index_fill repeated": lambda lib, x, y: x.index_fill(0, lib.tensor(I), y.sum()),
    "index_fill_ tensor": lambda lib, x, y: x.index_fill_(0, lib.tensor(I), y.sum()),
    "masked_scatter": lambda lib, x, y: x.masked_scatter(x > 3, y),
    "masked_scatter broadcast": lambda lib, x, y: x.masked_scatter(lib.tensor(M[:, :1] > 3), y),
    "masked_scatter up": lambda lib, x, y: x[0].masked_scatter(lib.tensor(A > 3), y),
    "masked_scatter_": lambda lib, x, y: x.masked_scatter_(x > 3, y),
    "masked_scatter few": lambda lib, x, y: x.masked_scatter(x > 3, y[0, 0]),
    "masked_scatter dtype": lambda lib, x, y: x.masked_scatter(x > 3, y.float()),
    "masked_scatter_ up": lambda lib, x, y: x[0].masked_scatter_(lib.tensor(A > 3), y),
    "put shape": lambda lib, x, y: x.put(lib.tensor(I + [0, 0, 1]), y[:1, 0, :3]),
    "diagonal_scatter": lambda lib, x, y: x.diagonal_scatter(y[0, :3].t()),
    "diagonal_scatter matrix": lambda lib, x, y: x[0].diagonal_scatter(y[0, 0, :4]),
    "diagonal_scatter offset": lambda lib, x, y: x.diagonal_scatter(y[:, 0, :4], 1, 1, 2),
    "diagonal_scatter below": lambda lib, x, y: x.diagonal_scatter(y[:, 0, :3], -1, 1, -1),
    "diagonal_scatter size": lambda lib, x, y: x[0].diagonal_scatter(y[0, 0]),
    "index_put bool and int": lambda lib, x, y: x.index_put((lib.tensor(np.array([True, False, True])), lib.tensor(J)), y[:2, 0]),
}  # fmt: skip
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _include in (True, False):
        UNNAMED |= {
            f"scatter_reduce {_reduce} {_include}": lambda lib, x, y, how=_reduce, self=_include: x.scatter_reduce(
                1, lib.tensor(REPEATS[:, :4]), y[:2], how, include_self=self
            ),
            f"scatter_reduce_ {_reduce} {_include}": lambda lib, x, y, how=_reduce, self=_include: x.scatter_reduce_(
                1, lib.tensor(REPEATS[:, :4]), y[:2], reduce=how, include_self=self
            ),
            f"scatter_reduce ties {_reduce} {_include}": lambda lib, x, y, how=_reduce, self=_include: (x * 0 + 2).scatter_reduce(
                1, lib.tensor(REPEATS[:, :4]), (y[:2] * 0 + (2 if self else 3)), how, include_self=self
            ),
            f"scatter_reduce zeros {_reduce} {_include}": lambda lib, x, y, how=_reduce, self=_include: (x * (x > 3)).scatter_reduce(
                1, lib.tensor(REPEATS[:, :4]), (y * (y > 1))[:2], how, include_self=self
            ),
        }
        if _reduce != "sum":
            UNNAMED |= {
                f"index_reduce {_reduce} {_include}": lambda lib, x, y, how=_reduce, self=_include: x.index_reduce(
                    0, lib.tensor(I), y, how, include_self=self
                ),
                f"index_reduce_ {_reduce} {_include}": lambda lib, x, y, how=_reduce, self=_include: x.index_reduce_(
                    1, lib.tensor(J), y[:, :2], how, include_self=self
                ),
            }

# ----- slices, masks, take and put -------------------------------------------------------------------------------------

PROGRAMS |= {
    "index_select": lambda lib, x, y: x.index_select(1, lib.tensor(J)),
    "index_select function": lambda lib, x, y: lib.index_select(x, -1, lib.tensor(I)),
    "index_select 0-d index": lambda lib, x, y: x.index_select(1, lib.tensor(np.array(2))),
    "index_select empty": lambda lib, x, y: x.index_select(1, lib.tensor(J[:0])),
    "index_select negative": lambda lib, x, y: x[0, 0].index_select(0, lib.tensor(-J)),
    "index_select too large": lambda lib, x, y: x.index_select(0, lib.tensor(J)),
    "index_select matrix": lambda lib, x, y: x.index_select(0, lib.tensor(J[None])),
    "index_select float": lambda lib, x, y: x.index_select(0, lib.tensor(V)),
    "index_add": lambda lib, x, y: x.index_add(0, lib.tensor(I), y),
    "index_add alpha": lambda lib, x, y: lib.index_add(x, 1, lib.tensor(J), y[:, :2], alpha=2.5),
    "index_add_": lambda lib, x, y: x.index_add_(2, lib.tensor(I), y[..., :3], alpha=-1),
    "index_add keyword": lambda lib, x, y: x.index_add(dim=0, index=lib.tensor(I), source=y),
    "index_add broadcast": lambda lib, x, y: x.index_add(0, lib.tensor(I), y[:, :1]),
    "index_add count": lambda lib, x, y: x.index_add(0, lib.tensor(I), y[:2]),
    "index_add dtype": lambda lib, x, y: x.index_add(0, lib.tensor(I), y.float()),
    "index_add negative": lambda lib, x, y: x[0, 0].index_add(0, lib.tensor(-J), y[0, 0, :2]),
    "index_add matrix": lambda lib, x, y: x.index_add(0, lib.tensor(I[None]), y),
    "index_copy": lambda lib, x, y: x.index_copy(0, lib.tensor(I[:2]), y[:2]),
    "index_copy_": lambda lib, x, y: x.index_copy_(1, lib.tensor(J), y[:, :2]),
    "index_copy count": lambda lib, x, y: x.index_copy(0, lib.tensor(I), y[:2]),
    "index_copy shape": lambda lib, x, y: x.index_copy(0, lib.tensor(I), y[:, :2]),
    "index_copy dtype": lambda lib, x, y: x.index_copy(0, lib.tensor(I), y.float()),
    "index_copy negative": lambda lib, x, y: x.index_copy(0, lib.tensor(-I), y),
    "index_copy 0-d source": lambda lib, x, y: x[0, 0].index_copy(0, lib.tensor(np.array([1])), y.sum()),
    "index_fill": lambda lib, x, y: x.index_fill(1, lib.tensor(J), 2),
    "index_fill negative": lambda lib, x, y: lib.index_fill(x, 1, lib.tensor(-J), 2.5),
    "index_fill_": lambda lib, x, y: x.index_fill_(0, lib.tensor(np.array(1)), 2.5),
    "index_fill too large": lambda lib, x, y: x.index_fill(0, lib.tensor(J), 2.5),
    "index_fill vector value": lambda lib, x, y: x.index_fill(1, lib.tensor(J), y[0, 0, :1]),
    "index_fill matrix": lambda lib, x, y: x.index_fill(1, lib.tensor(J[None]), 1),
    "index_fill float index": lambda lib, x, y: x.index_fill(1, lib.tensor(V), 1),
    "index_put": lambda lib, x, y: x.index_put((lib.tensor(I[:2]), lib.tensor(J)), y[:2, 0]),
    "index_put accumulate": lambda lib, x, y: x.index_put((lib.tensor(I),), y, accumulate=True),
    "index_put accumulate broadcast": lambda lib, x, y: x.index_put((lib.tensor(I),), y[0, 0], True),
    "index_put_": lambda lib, x, y: x.index_put_((lib.tensor(-J),), y[:2]),
    "index_put_ function": lambda lib, x, y: lib.index_put_(x, (lib.tensor(I),), y, accumulate=True),
    "index_put mask": lambda lib, x, y: x.index_put((x > 3,), y.sum()),
    "index_put mask accumulate": lambda lib, x, y: x.index_put((x > 3,), y.sum(), accumulate=True),
    "index_put too large": lambda lib, x, y: x.index_put((lib.tensor(J),), y.sum()),
    "index_put dtype": lambda lib, x, y: x.index_put((lib.tensor(I),), y.float()),
    "index_put shape": lambda lib, x, y: x.index_put((lib.tensor(I),), y[:2]),
    "index_put list": lambda lib, x, y: x.index_put(([0],), y[:1]),
    "index_put none": lambda lib, x, y: x.index_put((None, lib.tensor(J)), y[:, :2]),
    "index_put bare": lambda lib, x, y: x.index_put(lib.tensor(I), y),
    "index_put too many": lambda lib, x, y: x[0, 0].index_put((lib.tensor(J), lib.tensor(J)), y[0, 0, :2]),
    "index_reduce sum": lambda lib, x, y: x.index_reduce(0, lib.tensor(I), y, "sum"),
    "index_reduce negative": lambda lib, x, y: x.index_reduce(0, lib.tensor(-I), y, "prod"),
    "masked_fill": lambda lib, x, y: x.masked_fill(x > 3, 2.5),
    "masked_fill function": lambda lib, x, y: lib.masked_fill(x, y > 2, 1),
    "masked_fill up": lambda lib, x, y: x[0].masked_fill(y > 2, 1),
    "masked_fill down": lambda lib, x, y: x.masked_fill(y[0, :, :1] > 2, 1),
    "masked_fill_": lambda lib, x, y: x.masked_fill_(y > 2, -1),
    "masked_fill_ up": lambda lib, x, y: x[0].masked_fill_(y > 2, -1),
    "masked_fill vector": lambda lib, x, y: x.masked_fill(x > 3, y[0, 0, :1]),
    "masked_fill byte": lambda lib, x, y: x.masked_fill((x > 3).byte(), 1.0),
    "masked_fill shape": lambda lib, x, y: x.masked_fill(y[..., :2] > 3, 1.0),
    "masked_fill complex": lambda lib, x, y: x.masked_fill(x > 3, 1j),
    "masked_select": lambda lib, x, y: x.masked_select(x > 3),
    "masked_select broadcast": lambda lib, x, y: lib.masked_select(x[0], y > 2),
    "masked_select down": lambda lib, x, y: x.masked_select(y[0, :, :1] > 2),
    "masked_select nothing": lambda lib, x, y: x.masked_select(x > 99),
    "masked_select 0-d": lambda lib, x, y: x.sum().masked_select(x.sum() > 0),
    "masked_select ints": lambda lib, x, y: x.masked_select(lib.tensor(REPEATS)),
    "masked_select shape": lambda lib, x, y: x.masked_select(y[..., :2] > 3),
    "take": lambda lib, x, y: x.take(lib.tensor(np.array([[0, -1], [59, 7]]))),
    "take function": lambda lib, x, y: lib.take(x.permute(2, 0, 1), lib.tensor(I)),
    "take too large": lambda lib, x, y: x.take(lib.tensor(np.array([60]))),
    "take too small": lambda lib, x, y: x.take(lib.tensor(np.array([-61]))),
    "take from nothing": lambda lib, x, y: x[:0].take(lib.tensor(np.array([0]))),
    "take nothing": lambda lib, x, y: x.take(lib.tensor(I[:0])),
    "put": lambda lib, x, y: x.put(lib.tensor(np.array([-1, 7])), y[0, 0, :2]),
    "put accumulate": lambda lib, x, y: x.put(lib.tensor(np.array([7, 7])), y[0, 0, :2], accumulate=True),
    "put_": lambda lib, x, y: x.put_(lib.tensor(np.array([-1, 7])), y[0, 0, :2]),
    "put count": lambda lib, x, y: x.put(lib.tensor(I), y[0, 0, :1]),
    "put dtype": lambda lib, x, y: x.put(lib.tensor(I), y[0, 0, :3].float()),
    "put too large": lambda lib, x, y: x.clone().put_(lib.tensor(np.array([60])), y[0, 0, :1]),
    "take_along_dim": lambda lib, x, y: lib.take_along_dim(x, lib.tensor(DISTINCT), 1),
    "take_along_dim broadcast": lambda lib, x, y: lib.take_along_dim(x, lib.tensor(DISTINCT[:1, :, :1]), dim=1),
    "take_along_dim broadcast input": lambda lib, x, y: lib.take_along_dim(x[:1], lib.tensor(DISTINCT), 1),
    "take_along_dim negative": lambda lib, x, y: x.take_along_dim(lib.tensor(DISTINCT - 4), 1),
    "take_along_dim argsort": lambda lib, x, y: x.take_along_dim(y.argsort(-1), -1),
    "take_along_dim rank": lambda lib, x, y: x.take_along_dim(lib.tensor(I), 1),
    "take_along_dim sizes": lambda lib, x, y: x.take_along_dim(lib.tensor(DISTINCT[:2]), 1),
    "select_scatter too large": lambda lib, x, y: x.select_scatter(y[0], 0, 3),
    "select_scatter shape": lambda lib, x, y: x.select_scatter(y[0, :1], 0, 1),
    "slice_scatter": lambda lib, x, y: x.slice_scatter(y[:2], 0, 1),
    "slice_scatter step": lambda lib, x, y: lib.slice_scatter(x, y[:, :, :2], dim=2, start=1, end=5, step=2),
    "slice_scatter all": lambda lib, x, y: x.slice_scatter(y),
    "slice_scatter shape": lambda lib, x, y: x.slice_scatter(y[:1], 0, 1),
    "slice_scatter step 0": lambda lib, x, y: x.slice_scatter(y[:1], 0, 1, step=0),
    "nonzero": lambda lib, x, y: lib.nonzero(x > 3),
    "nonzero of floats": lambda lib, x, y: x.nonzero(),
    "nonzero tuple": lambda lib, x, y: (x > 3).nonzero(as_tuple=True),
    "nonzero 0-d": lambda lib, x, y: (x.sum() > 3).nonzero(),
    "nonzero 0-d tuple": lambda lib, x, y: (x.sum() > 3).nonzero(as_tuple=True),
    "argwhere": lambda lib, x, y: lib.argwhere(x > 3),
    "where": lambda lib, x, y: lib.where(x > 3),
    "embedding": lambda lib, x, y: lib.embedding(x[0], lib.tensor(REPEATS)),
    "embedding padding": lambda lib, x, y: lib.embedding(x[0], lib.tensor(REPEATS), padding_idx=1),
    "embedding frequency": lambda lib, x, y: lib.embedding(x[0], lib.tensor(REPEATS[0, 0]), scale_grad_by_freq=True),
    "embedding 0-d": lambda lib, x, y: lib.embedding(x[0], lib.tensor(np.array(1))),
    "embedding negative": lambda lib, x, y: lib.embedding(x[0], lib.tensor(np.array(-1))),
    "embedding too large": lambda lib, x, y: lib.embedding(x[0], lib.tensor(np.array(4))),
    "embedding vector": lambda lib, x, y: lib.embedding(x[0, 0], lib.tensor(J)),
    "embedding float": lambda lib, x, y: lib.embedding(x[0], y[0]),
}  # fmt: skip

# ----- order -----------------------------------------------------------------------------------------------------------------

PROGRAMS |= {
    "sort": lambda lib, x, y: tuple(x.sort()),
    "sort fields": lambda lib, x, y: (lib.sort(x, 1).values, lib.sort(x, 1).indices),
    "sort descending": lambda lib, x, y: tuple(lib.sort(x, 0, True)),
    "sort dim": lambda lib, x, y: tuple(x.sort(3)),
    "sort ties": lambda lib, x, y: tuple(lib.sort((x > 3) * 1.0 * x.sum(), 1, descending=True)),
    "argsort": lambda lib, x, y: x.argsort(1, descending=True),
    "argsort 0-d": lambda lib, x, y: lib.argsort(x.sum()),
    "msort": lambda lib, x, y: lib.msort(x),
    "topk": lambda lib, x, y: tuple(x.topk(2)),
    "topk smallest": lambda lib, x, y: tuple(lib.topk(x, 3, 1, largest=False)),
    "topk all": lambda lib, x, y: tuple(x.topk(4, dim=1)),
    "topk none": lambda lib, x, y: tuple(x.topk(0)),
    "topk too many": lambda lib, x, y: tuple(x.topk(6)),
    "topk bool": lambda lib, x, y: tuple((x > 0).topk(1)),
    "kthvalue": lambda lib, x, y: tuple(x.kthvalue(2)),
    "kthvalue keepdim": lambda lib, x, y: tuple(lib.kthvalue(x, 3, 0, True)),
    "kthvalue 0": lambda lib, x, y: tuple(x.kthvalue(0)),
    "kthvalue too many": lambda lib, x, y: tuple(x.kthvalue(5, 1)),
    "searchsorted": lambda lib, x, y: lib.searchsorted(x.sort()[0], y),
    "searchsorted right": lambda lib, x, y: lib.searchsorted(x.sort()[0], x, right=True),
    "searchsorted side": lambda lib, x, y: lib.searchsorted(x.sort()[0], x, side="left"),
    "searchsorted line": lambda lib, x, y: lib.searchsorted(x[0, 0].sort()[0], y),
    "searchsorted number": lambda lib, x, y: lib.searchsorted(x[0, 0].sort()[0], 3),
    "searchsorted int32": lambda lib, x, y: lib.searchsorted(x[0, 0].sort()[0], y, out_int32=True),
    "searchsorted sorter": lambda lib, x, y: lib.searchsorted(x, y, sorter=x.argsort()),
    "searchsorted sorter size": lambda lib, x, y: lib.searchsorted(x, y, sorter=x[0].argsort()),
    "searchsorted opposites": lambda lib, x, y: lib.searchsorted(x, y, side="left", right=True),
    "searchsorted sizes": lambda lib, x, y: lib.searchsorted(x, y[:2]),
    "searchsorted 0-d": lambda lib, x, y: lib.searchsorted(x.sum(), y),
    "bucketize": lambda lib, x, y: lib.bucketize(y, x[0, 0].sort()[0]),
    "bucketize right": lambda lib, x, y: lib.bucketize(x, x[0, 0].sort()[0], right=True, out_int32=True),
    "bucketize number": lambda lib, x, y: lib.bucketize(3.0, x[0, 0].sort()[0]),
    "bucketize matrix": lambda lib, x, y: lib.bucketize(3.0, x[0]),
    "isin": lambda lib, x, y: lib.isin(x * 7 % 10, x[0] * 7),
    "isin number": lambda lib, x, y: lib.isin(lib.tensor(REPEATS), 2, invert=True),
    "isin of a number": lambda lib, x, y: lib.isin(2, lib.tensor(REPEATS)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert_same(PROGRAMS[name], A, B)


@pytest.mark.parametrize("name", UNNAMED)
def test_program_without_names(name):
    assert_same(UNNAMED[name], A, B, names=False)


# ----- other dtypes, no gradients --------------------------------------------------------------------------------------

INTEGERS = np.array([3, 1, 3, 2, 2, 2])
PLAIN = {
    "scatter int with float": lambda lib, x: x.scatter(0, lib.tensor(I), 2.7),
    "scatter reduce add": lambda lib, x: x.scatter(0, lib.tensor(I), lib.tensor(I), reduce="add"),
    "scatter reduce multiply": lambda lib, x: x.scatter(0, lib.tensor(I), lib.tensor(I), reduce="multiply"),
    "scatter reduce multiply value": lambda lib, x: x.scatter_(0, lib.tensor(I), 3, reduce="multiply"),
    "scatter reduce add value": lambda lib, x: x.scatter_(0, lib.tensor(I), 3, reduce="add"),
    "scatter_reduce mean int": lambda lib, x: x.scatter_reduce(0, lib.tensor(I), lib.tensor(-I), "mean"),
    "scatter_reduce_ mean int": lambda lib, x: x.scatter_reduce_(0, lib.tensor(I), lib.tensor(-I), "mean", include_self=False),
    "scatter_reduce amax int": lambda lib, x: x.scatter_reduce(0, lib.tensor(I), lib.tensor(I), "amax", include_self=False),
    "scatter_reduce prod int": lambda lib, x: x.scatter_reduce(0, lib.tensor(I), lib.tensor(I), "prod", include_self=False),
    "index_add int": lambda lib, x: x.index_add(0, lib.tensor(I), lib.tensor(I), alpha=2),
    "index_add int8": lambda lib, x: x.to(lib.int8).index_add(0, lib.tensor(I), lib.tensor(I).to(lib.int8)),
    "index_fill int with float": lambda lib, x: x.index_fill(0, lib.tensor(I), 2.7),
    "masked_fill int with float": lambda lib, x: x.masked_fill(x > 1, 2.7),
    "masked_fill int with float tensor": lambda lib, x: x.masked_fill(x > 1, lib.tensor(2.7)),
    "masked_fill int with nan": lambda lib, x: x.masked_fill(x > 1, NAN),
    "masked_fill int with inf": lambda lib, x: x.masked_fill(x > 1, float("inf")),
    "masked_fill_ int with float": lambda lib, x: x.masked_fill_(x > 1, 2.7),
    "masked_fill bool": lambda lib, x: (x > 1).masked_fill(x > 2, 0),
    "gather bool": lambda lib, x: (x > 1).gather(0, lib.tensor(I)),
    "sort int": lambda lib, x: tuple(x.sort()),
    "sort int descending": lambda lib, x: tuple(x.sort(descending=True)),
    "sort bool": lambda lib, x: tuple((x > 1).sort()),
    "sort complex": lambda lib, x: (x * 1j).sort(),
    "sort int8": lambda lib, x: tuple(x.to(lib.int8).sort()),
    "sort float32": lambda lib, x: tuple(x.float().sort()),
    "sort many ties": lambda lib, x: tuple(x.repeat(50).sort(stable=True, descending=True)),
    "sort nan": lambda lib, x: tuple(lib.tensor([1.0, NAN, 0.0, NAN]).sort()),
    "sort nan descending": lambda lib, x: tuple(lib.tensor([1.0, NAN, 0.0, NAN]).sort(descending=True)),
    "sort empty": lambda lib, x: tuple(x[:0].sort()),
    "topk nan": lambda lib, x: tuple(lib.tensor([1.0, NAN, 0.0, 2.0]).topk(2)),
    "topk nan smallest": lambda lib, x: tuple(lib.tensor([1.0, NAN, 0.0, 2.0]).topk(2, largest=False)),
    "kthvalue nan": lambda lib, x: tuple(lib.tensor([1.0, NAN, 0.0, 2.0]).kthvalue(4)),
    "unique": lambda lib, x: x.unique(),
    "unique all": lambda lib, x: lib.unique(x.reshape(2, 3), return_inverse=True, return_counts=True),
    "unique counts": lambda lib, x: lib.unique(x, return_counts=True),
    "unique dim": lambda lib, x: lib.unique(x.reshape(3, 2) // 2, dim=0, return_inverse=True, return_counts=True),
    "unique dim 1": lambda lib, x: lib.unique((x.reshape(2, 3) // 2), dim=1),
    "unique nan": lambda lib, x: lib.unique(lib.tensor([NAN, 1.0, NAN]), return_inverse=True, return_counts=True),
    "unique 0-d": lambda lib, x: lib.unique(x.sum(), return_inverse=True),
    "unique empty": lambda lib, x: lib.unique(x[:0]),
    "unique bool": lambda lib, x: lib.unique(x > 1, return_inverse=True),
    "unique_consecutive": lambda lib, x: x.unique_consecutive(),
    "unique_consecutive all": lambda lib, x: lib.unique_consecutive(x, return_inverse=True, return_counts=True),
    "unique_consecutive dim": lambda lib, x: lib.unique_consecutive(x.reshape(3, 2) // 3, return_inverse=True, return_counts=True, dim=0),
    "searchsorted nan": lambda lib, x: lib.searchsorted(lib.tensor([1.0, 2.0]), lib.tensor([NAN, 3.0]), right=True),
    "searchsorted rows nan": lambda lib, x: lib.searchsorted(lib.tensor([[1.0, 2.0, 3.0]]), lib.tensor([[NAN, 3.0]])),
    "searchsorted int in float": lambda lib, x: lib.searchsorted(x.sort()[0], lib.tensor([2])),
    "bucketize without boundaries": lambda lib, x: lib.bucketize(x, x[:0]),
    "isin nan": lambda lib, x: lib.isin(lib.tensor([NAN, 1.0]), lib.tensor([NAN, 1.0])),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_plain_program(name):
    assert_same(PLAIN[name], INTEGERS)


def test_complex_gradients():
    z = A + 1j * B
    assert_same(lambda lib, x: x.gather(1, lib.tensor(REPEATS)), z)
    assert_same(lambda lib, x: x.scatter_add(1, lib.tensor(REPEATS[:, :4]), x[:2]), z)
    assert_same(lambda lib, x: x.index_add(0, lib.tensor(I), x, alpha=2.5), z)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtypes_are_kept(dtype):
    a = A.astype(dtype)
    for program in (PROGRAMS["gather"], PROGRAMS["scatter_add"], PROGRAMS["index_add alpha"], PROGRAMS["embedding"], PROGRAMS["sort"]):
        ours = outcome(ndgrad, lambda lib, x, p=program: p(lib, x * 1, x * 1), a)
        theirs = outcome(torch, lambda lib, x, p=program: p(lib, x * 1, x * 1), a)
        assert ours[0] == theirs[0]
        assert ours[3][0].dtype == theirs[3][0].dtype == dtype


def test_functions_write_to_out():
    for lib in (torch, ndgrad):
        x, out = lib.tensor(A), lib.zeros(3, 2, 5)
        assert lib.gather(x, 1, lib.tensor(DISTINCT), out=out) is out
        values, indices = lib.zeros(3, 4, 5), lib.zeros(3, 4, 5, dtype=lib.int64)
        found = lib.sort(x, 1, out=(values, indices))
        assert found[0] is values
        np.testing.assert_array_equal(array(out), np.take_along_axis(A, DISTINCT, 1))
        np.testing.assert_array_equal(array(values), np.sort(A, 1))
        np.testing.assert_array_equal(array(indices), np.argsort(A, 1))
        lib.index_select(x, 0, lib.tensor(I), out=values)
        np.testing.assert_array_equal(array(values), A[I])


# ----- deliberate differences ------------------------------------------------------------------------------------------------


def gradients(lib, program, *arrays):
    leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
    return [array(g).tolist() for g in lib.autograd.grad(program(lib, *leaves).sum(), leaves)]


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, y: lib.zeros(3).scatter(0, lib.tensor([1, 1]), y),
        lambda lib, y: lib.zeros(3).index_copy(0, lib.tensor([1, 1]), y),
        lambda lib, y: lib.zeros(3).put(lib.tensor([1, -2]), y),
        lambda lib, y: lib.zeros(3).index_put((lib.tensor([1, 1]),), y),
        lambda lib, y: assigned(lib, y),
    ],
    ids=["scatter", "index_copy", "put", "index_put", "setitem"],
)
def test_only_the_value_that_stays_gets_a_gradient(program):
    deliberate("repeated-writes")
    y = np.array([5.0, 6.0])
    for lib in (torch, ndgrad):
        assert array(program(lib, lib.tensor(y))).tolist() == [0, 6, 0]
    assert gradients(torch, program, y) == [[1, 1]]
    assert gradients(ndgrad, program, y) == [[0, 1]]


def assigned(lib, y):
    x = lib.zeros(3)
    x[lib.tensor([1, 1])] = y
    return x


@pytest.mark.parametrize("how", ["amax", "amin"])
def test_an_excluded_self_takes_no_share(how):
    deliberate("excluded-ties")

    def program(lib, x, y):
        return x.scatter_reduce(0, lib.tensor([0, 0]), y, how, include_self=False)

    x, y = np.array([2.0]), np.array([2.0, 2.0])
    np.testing.assert_allclose(gradients(torch, program, x, y)[1], [1 / 3, 1 / 3])
    assert gradients(ndgrad, program, x, y) == [[0], [0.5, 0.5]]


@pytest.mark.filterwarnings("ignore:The reduce argument")
def test_scatter_has_derivatives_where_torch_has_none():
    deliberate("scatter-derivatives")

    def multiplied(lib, x, y):
        return x.scatter(0, lib.tensor([0, 0]), y, reduce="multiply")

    def larger(lib, x, y):
        return x.scatter(0, lib.tensor([0]), y)

    x, y = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    for program in (multiplied, larger):
        with pytest.raises(RuntimeError):
            gradients(torch, program, x, y)
    assert gradients(ndgrad, multiplied, x, y) == [[35, 1], [14, 10]]
    assert gradients(ndgrad, larger, x, y) == [[0, 1], [1, 0]]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8])
def test_indices_may_be_of_any_integer_dtype(dtype):
    deliberate("index-dtypes")
    index = np.array([1, 0], dtype)
    with pytest.raises(RuntimeError):
        torch.tensor(V).gather(0, torch.tensor(index))
    x = ndgrad.tensor(V)
    found = [x.gather(0, ndgrad.tensor(index)), x.take(ndgrad.tensor(index))]
    if dtype is not np.uint8:
        found.append(x[ndgrad.tensor(index)])
    for got in found:
        assert array(got).tolist() == V[[1, 0]].tolist()


def index_by_bytes(lib):
    """Read and write by tensors of bytes, which are masks."""
    mask, x = np.array([1, 0, 2], np.uint8), lib.arange(6.0).reshape(3, 2).requires_grad_()
    y = x.clone()
    y[lib.tensor(mask)] = lib.tensor([[7.0, 8.0], [9.0, 9.0]])
    parts = [y[lib.tensor(mask)], y[mask, 1], y.T[:, lib.tensor(mask)], x[lib.tensor(mask)]]
    sum((p * p).sum() for p in parts).backward()
    return [array(p).tolist() for p in (y, *parts, x.grad)]


@pytest.mark.filterwarnings("ignore:indexing with dtype")
def test_bytes_are_masks():
    assert index_by_bytes(ndgrad) == index_by_bytes(torch)
    mask = ndgrad.tensor([0, 1, 1], dtype=ndgrad.uint8)
    with pytest.warns(UserWarning, match="deprecated"):
        assert ndgrad.arange(3)[mask].tolist() == [1, 2]
    with pytest.raises(IndexError, match="shape of the mask"):
        ndgrad.arange(4)[mask]
    assert ndgrad.numpy.arange(3)[np.array([1, 0], np.uint8)].tolist() == [1, 0]


def test_nan_is_the_largest_boundary():
    deliberate("nan-boundaries")
    sequence, wanted = np.array([1.0, 2.0, NAN]), np.array([3.0])
    assert torch.searchsorted(torch.tensor(sequence), torch.tensor(wanted)).tolist() == [3]
    for made in (sequence, sequence[None]):
        place = ndgrad.searchsorted(ndgrad.tensor(made), ndgrad.tensor(wanted if made.ndim == 1 else wanted[None]))
        assert array(place).ravel().tolist() == [2]
