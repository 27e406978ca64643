"""Sparse gradients of embeddings and gather: their entries, their sums with others, and optimizers that use them."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import func

INDEX = [1, 3, 1]


def table(rows=5):
    return ndgrad.tensor(np.arange(2.0 * rows).reshape(rows, 2), requires_grad=True)


def lookup(w, index=INDEX, **options):
    return ndgrad.nn.functional.embedding(ndgrad.tensor(index, dtype=ndgrad.int64), w, sparse=True, **options)


def dense_gradient(f):
    """The gradient that the same program has with dense lookups."""
    w = table()
    f(
        w, lambda w, index=INDEX, **options: ndgrad.nn.functional.embedding(ndgrad.tensor(index, dtype=ndgrad.int64), w, **options)
    ).backward()
    return w.grad.numpy()


PROGRAMS = {
    "one": lambda w, look: (look(w) ** 2).sum(),
    "two": lambda w, look: (look(w) ** 2).sum() + look(w, [0, 3]).sum(),
    "beside dense": lambda w, look: (look(w) ** 2).sum() + (w * w).sum(),
    "dense first": lambda w, look: (w * w).sum() * (look(w) ** 2).sum(),
    "through functions": lambda w, look: (look(w.exp() * 2.0 - w) ** 2).sum(),
    "padding": lambda w, look: (look(w, padding_idx=1) ** 2).sum(),
    "matrix of indices": lambda w, look: (look(w, [[1, 2], [2, 4]]) ** 2).sum(),
    "nothing": lambda w, look: look(w, []).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("passes", [1, 2])
def test_gradients_are_those_of_dense_lookups(name, passes):
    w = table()
    for _ in range(passes):
        PROGRAMS[name](w, lookup).backward()
    assert (w.grad.layout is ndgrad.strided) == (name in ("beside dense", "dense first"))
    np.testing.assert_allclose(w.grad.to_dense().numpy(), passes * dense_gradient(PROGRAMS[name]))


def test_second_derivatives_through_sparse_gradients():
    w = table()
    (g,) = ndgrad.autograd.grad((lookup(w) ** 3).sum(), w, create_graph=True)
    (h,) = ndgrad.autograd.grad((g.to_dense() * 2.0).sum(), w)
    expected = np.zeros((5, 2))
    np.add.at(expected, INDEX, 12.0 * w.detach().numpy()[INDEX])
    np.testing.assert_allclose(h.to_dense().numpy(), expected)


def test_create_graph_accumulates():
    w = table()
    for _ in range(2):
        with pytest.warns(UserWarning, match="create_graph"):
            (lookup(w) ** 2).sum().backward(create_graph=True)
    np.testing.assert_allclose(w.grad.detach().to_dense().numpy(), 2 * dense_gradient(PROGRAMS["one"]))


def test_inside_transforms_gradients_are_dense():
    w = table().detach()
    g = func.grad(lambda w: (lookup(w) ** 2).sum())(w)
    assert g.layout is ndgrad.strided
    np.testing.assert_allclose(g.numpy(), dense_gradient(PROGRAMS["one"]))
    _, t = func.jvp(lambda w: (lookup(w) ** 2).sum(), (w,), (w,))
    np.testing.assert_allclose(t.item(), (dense_gradient(PROGRAMS["one"]) * w.numpy()).sum())


def test_without_data_gradients_are_dense():
    w = table().detach().to("meta").requires_grad_()
    ndgrad.nn.functional.embedding(ndgrad.tensor(INDEX, device="meta"), w, sparse=True).sum().backward()
    assert w.grad.layout is ndgrad.strided
    assert w.grad.shape == (5, 2)


def test_gather_with_a_sparse_gradient():
    x = ndgrad.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    index = ndgrad.tensor([[0, 1], [2, 2], [3, 0]])
    (x.gather(1, index, sparse_grad=True) ** 2).sum().backward()
    sparse, x.grad = x.grad, None
    (x.gather(1, index) ** 2).sum().backward()
    assert sparse._nnz() == 6
    np.testing.assert_allclose(sparse.to_dense().numpy(), x.grad.numpy())


def test_bags_have_sparse_gradients():
    for mode in ("sum", "mean"):
        w, v = table(), table()
        args = (ndgrad.tensor([1, 3, 1, 0]), ndgrad.tensor([0, 2]))
        for weight, sparse in ((w, True), (v, False)):
            ndgrad.nn.functional.embedding_bag(args[0], weight, args[1], mode=mode, sparse=sparse).pow(2).sum().backward()
        assert w.grad.layout is ndgrad.sparse_coo
        np.testing.assert_allclose(w.grad.to_dense().numpy(), v.grad.numpy())


def test_scaling_by_frequency_is_refused():
    for call in (
        lambda w: lookup(w, scale_grad_by_freq=True),
        lambda w: ndgrad.embedding(w, ndgrad.tensor(INDEX), scale_grad_by_freq=True, sparse=True),
    ):
        with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
            call(table())


class Rows(ndgrad.autograd.Function):
    """Rows of a table, with a sparse gradient of the user's own."""

    @staticmethod
    def forward(ctx, w, index):
        ctx.index, ctx.shape = index, tuple(w.shape)
        return w[index]

    @staticmethod
    def backward(ctx, g):
        return ndgrad.sparse_coo_tensor(ctx.index[None], g, ctx.shape), None


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("padding", "matrix of indices", "nothing")])
def test_sparse_gradients_of_custom_functions(name):
    w = table()
    PROGRAMS[name](w, lambda w, index=INDEX: Rows.apply(w, ndgrad.tensor(index))).backward()
    np.testing.assert_allclose(w.grad.to_dense().numpy(), dense_gradient(PROGRAMS[name]))


def test_anomaly_mode_finds_nan_in_sparse_gradients():
    class Broken(Rows):
        @staticmethod
        def backward(ctx, g):
            return ndgrad.sparse_coo_tensor(ctx.index[None], g * float("nan"), ctx.shape), None

    w = table()
    with ndgrad.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        Broken.apply(w, ndgrad.tensor(INDEX)).sum().backward()
    assert w.grad is None


def test_explain_sees_sparse_gradients():
    w = table()
    assert ndgrad.explain((lookup(w) ** 2).sum(), w).kind == "connected"
    x = ndgrad.eye(2).to_sparse().requires_grad_()
    assert ndgrad.explain(ndgrad.sparse.mm(x, ndgrad.ones(2, 2)).sum(), x).kind == "connected"
    assert ndgrad.explain((x * 0.0).sum(), x).kind == "zero"


def test_a_sparse_gradient_that_meets_a_view_is_refused_in_words():
    w = ndgrad.ones(10, requires_grad=True)
    with pytest.raises(AttributeError, match="to_dense"):
        Rows.apply(w.view(5, 2), ndgrad.tensor(INDEX)).sum().backward()
    with pytest.raises(NotImplementedError, match="reshape"):
        lookup(w.view(5, 2)).sum().backward()
    assert w.grad is None


# ----- optimizers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda p: ndgrad.optim.SGD(p, lr=0.1),
        lambda p: ndgrad.optim.SGD(p, lr=0.1, maximize=True),
        lambda p: ndgrad.optim.Adagrad(p, lr=0.1, lr_decay=0.2),
    ],
    ids=["sgd", "maximize", "adagrad"],
)
def test_steps_are_those_with_dense_gradients(make):
    found = []
    for sparse in (True, False):
        w = table()
        optimizer = make([w])
        for _ in range(3):
            optimizer.zero_grad()
            (ndgrad.nn.functional.embedding(ndgrad.tensor(INDEX), w, sparse=sparse) ** 2).sum().backward()
            optimizer.step()
        found.append(w.detach().numpy())
    np.testing.assert_allclose(*found)


def test_momentum_is_kept_sparse_and_steps_on():
    w, v = table(), table()
    pairs = [(w, True, ndgrad.optim.SGD([w], lr=0.1, momentum=0.9)), (v, False, ndgrad.optim.SGD([v], lr=0.1, momentum=0.9))]
    for p, sparse, optimizer in pairs:
        for _ in range(4):
            optimizer.zero_grad()
            (ndgrad.nn.functional.embedding(ndgrad.tensor(INDEX), p, sparse=sparse) ** 2).sum().backward()
            optimizer.step()
    assert pairs[0][2].state[w]["momentum_buffer"].layout is ndgrad.sparse_coo
    np.testing.assert_allclose(w.detach().numpy(), v.detach().numpy())


def test_the_first_step_of_sparse_adam_moves_each_row_named_by_the_learning_rate():
    w = table()
    optimizer = ndgrad.optim.SparseAdam([w], lr=0.1)
    (lookup(w) ** 2).sum().backward()
    optimizer.step()
    expected = table().detach().numpy()
    expected[[1, 3]] -= 0.1  # the sign of a positive gradient
    np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "NAdam"])
def test_other_optimizers_refuse_and_change_nothing(name):
    w = table()
    optimizer = getattr(ndgrad.optim, name)([w])
    lookup(w).sum().backward()
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
        optimizer.step()
    np.testing.assert_array_equal(w.detach().numpy(), table().detach().numpy())


def test_adagrad_refuses_weight_decay():
    w = table()
    lookup(w).sum().backward()
    with pytest.raises(RuntimeError, match="weight_decay"):
        ndgrad.optim.Adagrad([w], weight_decay=0.1).step()


def test_zero_grad_in_place():
    w = table()
    lookup(w).sum().backward()
    ndgrad.optim.SGD([w]).zero_grad(set_to_none=False)
    assert w.grad._nnz() == 0
