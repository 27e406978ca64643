"""Shapes, parts, products and layers of nested tensors, each against the same function of the components."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import ndgrad
from ndgrad.nn import functional as F
from tests.nested.components import agree, arrays, check, nested

SHAPES = {
    "transpose": lambda x: x.transpose(1, 2),
    "mT": lambda x: x.mT,
    "permute": lambda x: x.permute(0, 3, 1, 2),
    "unsqueeze 1": lambda x: x.unsqueeze(1),
    "unsqueeze 2": lambda x: x.unsqueeze(2),
    "unsqueeze last": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "unflatten": lambda x: x.unflatten(-1, (2, -1)),
    "flatten": lambda x: x.flatten(2, 3),
    "swapaxes": lambda x: x.swapaxes(2, 3),
    "movedim": lambda x: x.movedim(2, 1),
    "transposed twice": lambda x: x.transpose(1, 3).transpose(1, 2),
    "expand": lambda x: x.unsqueeze(-1).expand(-1, -1, -1, -1, 2),
    "view": lambda x: x.view(x.shape[0], x.shape[1], 12),
    "reshape": lambda x: x.reshape(x.shape[0], x.shape[1], 2, 3, 2),
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "view before": lambda x: x.transpose(1, 2).unsqueeze(1).view(x.shape[0], 3, 1, x.shape[1], 4),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_change_of_shape(name):
    check(SHAPES[name], arrays(3, 4))


PARTS = {
    "select": lambda x: x.select(2, 1),
    "last": lambda x: x[..., -1],
    "slice": lambda x: x[:, :, 1:],
    "steps": lambda x: x[..., ::2],
    "none": lambda x: x[..., None],
    "none in front of the ragged": lambda x: x[:, None],
    "int and slice": lambda x: x[:, :, 1, 1:3],
    "narrow": lambda x: x.narrow(3, 1, 2),
    "index_select": lambda x: x.index_select(2, ndgrad.tensor([2, 0])),
    "chunk": lambda x: x.chunk(2, -1)[1],
    "split": lambda x: x.split([1, 3], -1)[1],
    "before the ragged": lambda x: x.transpose(1, 2)[:, 1],
    "slice before it": lambda x: x.transpose(1, 2)[:, 1:, :, 0],
    "tensor_split": lambda x: x.tensor_split(2, 3)[0],
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part(name):
    check(PARTS[name], arrays(3, 4))


def test_components_and_slices_of_the_batch():
    parts = arrays(3)
    x = nested(parts, True)
    for i in (0, 2, -1):
        np.testing.assert_array_equal(x[i].detach().numpy(), parts[i])
        np.testing.assert_array_equal(x[i, 0, 1:].detach().numpy(), parts[i][0, 1:])
    for index in (slice(1, 3), slice(None, None, 2), slice(0, 0)):
        agree(x[index], [ndgrad.tensor(p[None]) for p in parts[index]])
    for numbers in ([2, 0, 2], ndgrad.tensor([3, 1]), ndgrad.tensor([True, False, True, False])):
        found = x[numbers]
        wanted = np.arange(4)[np.asarray(numbers)]
        agree(found, [ndgrad.tensor(parts[i][None]) for i in wanted])
    (x[ndgrad.tensor([2, 2, 0])].sum() + x[1].sum() * 5).backward()
    assert [g.unique().tolist() for g in x.grad.unbind()] == [[1.0], [5.0], [2.0], [0.0]]
    first, second = x.chunk(2)
    assert (len(first), len(second)) == (2, 2)
    assert [len(p) for p in x.split([1, 3])] == [1, 3]


def test_unbind_shares_memory_and_history():
    x = nested(arrays(3), True)
    a, *_, z = x.unbind()
    (a.sum() * 2 + (z**2).sum()).backward()
    np.testing.assert_allclose(x.grad[0].numpy(), 2.0)
    np.testing.assert_allclose(x.grad[-1].numpy(), 2 * x[-1].detach().numpy())
    np.testing.assert_allclose(x.grad[1].numpy(), 0.0)
    y = nested(arrays(3))
    y.unbind()[1].zero_()
    assert y[1].abs().sum() == 0


JOINS = {
    "cat": lambda x, y: ndgrad.cat([x, y], -1),
    "stack": lambda x, y: ndgrad.stack([x, y], 2),
    "stack last": lambda x, y: ndgrad.stack([x, y], -1),
    "stack before": lambda x, y: ndgrad.stack([x, y], 1),
    "gather": lambda x, y: x.gather(2, (y * 3).long().clamp(0, 2)),
}


@pytest.mark.parametrize("name", ["cat", "stack", "stack last", "stack before"])
def test_a_join(name):
    check(JOINS[name], arrays(3), arrays(3, low=-1.0))


def test_gather_along_a_dense_dimension():
    parts = arrays(3)
    numbers = [np.random.default_rng(n).integers(0, 3, size=(len(p), 2)) for n, p in enumerate(parts)]
    agree(
        nested(parts).gather(2, nested(numbers)),
        [ndgrad.tensor(p[None]).gather(2, ndgrad.tensor(k[None])) for p, k in zip(parts, numbers, strict=True)],
    )


PRODUCTS = {
    "by a matrix": (lambda x, w: x @ w, [(3, 2)]),
    "heads by a matrix": (lambda x, w: x.unsqueeze(2) @ w, [(3, 2)]),
    "linear": (lambda x, w, b: F.linear(x, w, b), [(2, 3), (2,)]),
    "ragged in front of heads": (lambda x, w: x.unsqueeze(1) @ w, [(3, 2)]),
    "transposed": (lambda x, w: w @ x.transpose(1, 2), [(2, 3)]),
    "summed over": (lambda x, w: (x * w).transpose(1, 2) @ x, [(3,)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), [(3,), (3,)]),
    "rms norm": (lambda x, w: F.rms_norm(x, (3,), w), [(3,)]),
    "batch of one": (lambda x, w: ndgrad.matmul(x, w), [(1, 3, 2)]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_or_layer(name):
    f, shapes = PRODUCTS[name]
    random = np.random.default_rng(1)
    check(f, arrays(3), dense=[random.normal(size=s) for s in shapes], tolerance=1e-8)


def test_a_product_with_a_matrix_for_each_component():
    parts, w = arrays(3), np.random.default_rng(1).normal(size=(4, 3, 2))
    x, v = nested(parts, True), ndgrad.tensor(w, requires_grad=True)
    agree(ndgrad.bmm(x, v), [ndgrad.tensor((p @ m)[None]) for p, m in zip(parts, w, strict=True)])
    ndgrad.bmm(x, v).sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), [np.tile(p.sum(0)[:, None], 2) for p in parts])
    np.testing.assert_allclose(
        x.grad.values().numpy(), np.concatenate([np.tile(m.sum(1), (len(p), 1)) for p, m in zip(parts, w, strict=True)])
    )


def test_embedding_and_one_hot():
    ids = nested([[1, 2], [0], [3, 3, 1]])
    table = ndgrad.arange(8.0, dtype=ndgrad.float64).reshape(4, 2).requires_grad_()
    y = F.embedding(ids, table)
    assert [p.tolist() for p in y.unbind()] == [table[i].tolist() for i in ([1, 2], [0], [3, 3, 1])]
    y.sum().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [2.0, 2.0], [1.0, 1.0], [2.0, 2.0]]
    assert F.one_hot(ids, 4).sum(1).tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 1, 0, 2]]


def test_dropout_scales_what_it_keeps():
    x = nested([np.ones((50, 4)), np.ones((30, 4))], True)
    y = F.dropout(x, 0.25)
    assert y.values().detach().unique().tolist() == [0.0, pytest.approx(1 / 0.75)]
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.values().numpy(), y.values().detach().numpy())
    assert F.dropout(x, 0.25, training=False).values().unique().tolist() == [1.0]


# ----- holes --------------------------------------------------------------------------------------------------------------------


def holes(requires_grad=False):
    base = ndgrad.arange(1.0, 13.0, dtype=ndgrad.float64).reshape(2, 3, 2).requires_grad_(requires_grad)
    return base, ndgrad.nested.narrow(base, 1, ndgrad.tensor([0, 1]), ndgrad.tensor([1, 2]), layout=ndgrad.jagged)


def test_rows_in_holes_take_no_part():
    base, x = holes(True)
    assert not x.is_contiguous()
    assert x.lengths().tolist() == [1, 2]
    assert x.values().shape == (6, 2)
    assert [p.tolist() for p in x.unbind()] == [base[0, :1].tolist(), base[1, 1:].tolist()]
    assert x.sum().item() == base[0, :1].sum() + base[1, 1:].sum()
    assert (x * 1).values().shape == (3, 2)
    (x.contiguous() ** 2).sum().backward()
    expected = np.zeros((2, 3, 2))
    expected[0, :1], expected[1, 1:] = 2 * base.detach().numpy()[0, :1], 2 * base.detach().numpy()[1, 1:]
    np.testing.assert_array_equal(base.grad.numpy(), expected)


def test_what_is_not_finite_in_a_hole_reaches_no_gradient():
    base = ndgrad.zeros(2, 3, dtype=ndgrad.float64)
    base[0, 0], base[1, 1:] = 4.0, 9.0
    base.requires_grad_()
    x = ndgrad.nested.narrow(base, 1, ndgrad.tensor([0, 1]), ndgrad.tensor([1, 2]), layout=ndgrad.jagged)
    (x.sqrt() + x.log()).sum().backward()
    np.testing.assert_allclose(base.grad.numpy(), [[1 / 4 + 1 / 4, 0, 0], [0, 1 / 6 + 1 / 9, 1 / 6 + 1 / 9]])


def test_values_of_a_tensor_with_holes_and_its_components_share_a_gradient():
    base, x = holes(True)
    (x.values().sum() + (x * 2).sum()).backward()
    expected = np.ones((2, 3, 2))
    expected[0, :1] += 2
    expected[1, 1:] += 2
    np.testing.assert_array_equal(base.grad.numpy(), expected)


def test_holes_and_packed_tensors_of_equal_lengths_combine():
    _, x = holes()
    y = nested([np.ones((1, 2)), np.ones((2, 2))])
    assert [p.tolist() for p in (x + y).unbind()] == [p.tolist() for p in (x.contiguous() + y).unbind()]
    assert x.size(1) == y.size(1)
    x.add_(y)  # in the memory of x
    assert x.unbind()[0].tolist() == [[2.0, 3.0]]
    assert x.values()[1].tolist() == [3.0, 4.0]


def test_components_may_overlap():
    v = ndgrad.arange(4.0, dtype=ndgrad.float64).requires_grad_()
    x = ndgrad.nested.nested_tensor_from_jagged(v, ndgrad.tensor([0, 1, 4]), lengths=ndgrad.tensor([3, 3]))
    assert [p.tolist() for p in x.unbind()] == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    x.sum().backward()
    assert v.grad.tolist() == [1.0, 2.0, 2.0, 1.0]


# ----- writes, copies, texts ----------------------------------------------------------------------------------------------------


def test_writes_are_seen_by_whoever_holds_the_values():
    x = nested(arrays(3))
    held = x.values()
    before = held.clone()
    x.mul_(2).add_(1)
    x += x
    np.testing.assert_allclose(held.numpy(), 2 * (2 * before.numpy() + 1))
    assert x._version == held._version > 0
    x.zero_()
    assert held.abs().sum() == 0


def test_a_write_to_what_was_saved_is_noticed():
    x = nested(arrays(3), True)
    y = (x * 1) ** 2
    with ndgrad.no_grad():
        x.mul_(2)
    z = x * x
    with ndgrad.no_grad():
        x.mul_(2)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_writes_of_recorded_values_have_a_history():
    x, w = nested(arrays(3)), ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True)
    y = x.clone()
    y.mul_(w * 2)
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * x.values().sum(0).numpy())
    leaf = nested(arrays(3), True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2)
    with pytest.raises(RuntimeError, match="cannot take the place"):
        x.clone().unsqueeze(-1).mul_(ndgrad.ones(2, dtype=ndgrad.float64))


def test_copies_and_pickles_keep_structure_and_leaves():
    x = nested(arrays(3), True)
    (x * 2).sum().backward()
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert made.requires_grad
        assert made.is_leaf
        assert made.shape == x.shape
        assert ndgrad.equal(made, x)
    assert ndgrad.equal(copy.deepcopy(x).grad, x.grad)
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(x * 2)
    _, cut = holes()
    again = pickle.loads(pickle.dumps(cut.transpose(1, 2)))
    assert again.lengths().tolist() == [1, 2]
    assert [p.tolist() for p in again.unbind()] == [p.T.tolist() for p in cut.unbind()]


def test_texts():
    x = nested([[1.0, 2.0], [3.0]])
    name = repr(x.size(1))
    assert repr(x) == f"NestedTensor(size=(2, {name}), offsets=tensor([0, 2, 3]), contiguous=True)"
    assert (
        repr(x.clone().requires_grad_())
        == f"NestedTensor(size=(2, {name}), offsets=tensor([0, 2, 3]), requires_grad=True, contiguous=True)"
    )
    assert "grad_fn=<" in repr(x.clone().requires_grad_() * 2)
    assert f"{x}" == str(x)
    assert str(x.shape) == f"ndgrad.Size([2, {name}])"


def test_comparing_as_a_whole():
    x = nested(arrays(3))
    assert ndgrad.equal(x, x.clone())
    assert not ndgrad.equal(x, x + 1)
    assert not ndgrad.equal(x, nested(arrays(3, lengths=(1, 1))))
    assert ndgrad.allclose(x, x + 1e-12)
    with pytest.raises(RuntimeError, match="lengths"):
        ndgrad.allclose(x, nested(arrays(3, lengths=(1, 1))))
