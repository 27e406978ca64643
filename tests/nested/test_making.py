"""Making nested tensors: from lists, values, rows and masks; and what cannot be made."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import jagged
from tests.nested.components import arrays, nested


def test_components_come_back():
    parts = arrays(3)
    x = nested(parts)
    for given, part in zip(parts, x.unbind(), strict=True):
        np.testing.assert_array_equal(part.numpy(), given)
    np.testing.assert_array_equal(x.values().numpy(), np.concatenate(parts))
    assert x.offsets().tolist() == [0, 2, 6, 7, 9]
    assert (x.numel(), x.dim(), len(x), x.shape[0], x.shape[2]) == (27, 3, 4, 4, 3)
    assert x.lengths() is None


def test_nested_tensor_copies_and_as_nested_tensor_does_not_forget():
    a = ndgrad.ones(2, requires_grad=True)
    copy = ndgrad.nested.nested_tensor([a, a], layout=jagged)
    assert not copy.requires_grad
    kept = ndgrad.nested.as_nested_tensor([a, a], layout=jagged)
    assert kept.requires_grad
    assert ndgrad.nested.as_nested_tensor(kept, layout=jagged) is kept
    assert ndgrad.nested.as_nested_tensor([a], dtype=ndgrad.float16, layout=jagged).dtype == ndgrad.float16
    one = ndgrad.nested.nested_tensor([a], layout=jagged)
    one.zero_()
    assert a.tolist() == [1.0, 1.0]


def test_values_share_memory_with_the_tensor_over_them():
    v = ndgrad.arange(5.0)
    x = ndgrad.nested.nested_tensor_from_jagged(v, ndgrad.tensor([0, 2, 5]))
    v[0] = 7.0
    assert x[0].tolist() == [7.0, 1.0]
    offsets = ndgrad.tensor([0, 2, 5])
    y = ndgrad.nested.nested_tensor_from_jagged(v, offsets)
    offsets[1] = 4  # a structure never changes
    assert [len(p) for p in y.unbind()] == [2, 3]


def test_offsets_keep_their_dtype():
    x = ndgrad.nested.nested_tensor_from_jagged(ndgrad.ones(3), ndgrad.tensor([0, 1, 3], dtype=ndgrad.int32))
    assert x.offsets().dtype == ndgrad.int32
    assert (x + nested([np.ones(1, np.float32), np.ones(2, np.float32)])).sum() == 6


def test_masks_select_by_rows_to_any_depth():
    x = ndgrad.arange(12.0).reshape(2, 2, 3)
    y = ndgrad.nested.masked_select(x, x % 4 != 0)
    assert [p.tolist() for p in y.unbind()] == [[1.0, 2.0], [3.0, 5.0], [6.0, 7.0], [9.0, 10.0, 11.0]]


def test_padding_goes_both_ways():
    parts = arrays(3)
    x = nested(parts)
    padded = x.to_padded_tensor(-1.0)
    assert padded.shape == (4, 4, 3)
    for row, p in zip(padded, parts, strict=True):
        np.testing.assert_array_equal(row[: len(p)].numpy(), p)
        assert (row[len(p) :] == -1).all()
    again = ndgrad.nested.narrow(padded, 1, 0, x.offsets().diff(), layout=jagged)
    assert ndgrad.equal(again, x)
    assert x.to_padded_tensor(0.0, (4, 6, 3)).shape == (4, 6, 3)
    with pytest.raises(RuntimeError, match="only the ragged dimension 1"):
        x.to_padded_tensor(0.0, (4, 6, 5))


V = ndgrad.arange(6.0)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda n: n.nested_tensor([], layout=jagged), RuntimeError, "empty tensor list"),
        (lambda n: n.nested_tensor([1.0, 2.0], layout=jagged), RuntimeError, "zero-dim"),
        (lambda n: n.nested_tensor([ndgrad.ones(1, 2), ndgrad.ones(1, 3)], layout=jagged), RuntimeError, r"\(1, 2\), \(1, 3\)"),
        (lambda n: n.nested_tensor([ndgrad.ones(1, 2), ndgrad.ones(3)], layout=jagged), RuntimeError, "same dim"),
        (lambda n: n.nested_tensor([ndgrad.ones(1), ndgrad.ones(1).long()], layout=jagged), RuntimeError, "same dtype"),
        (lambda n: n.nested_tensor([nested([[1.0]])], layout=jagged), RuntimeError, "nested itself"),
        (lambda n: n.nested_tensor([[1.0]], layout=ndgrad.sparse_coo), RuntimeError, "layout is unsupported"),
        (lambda n: n.as_nested_tensor([[1.0]], layout=jagged), TypeError, "nested_tensor()"),
        (lambda n: n.as_nested_tensor(ndgrad.ones(3), layout=jagged), RuntimeError, "dim"),
        (lambda n: n.nested_tensor_from_jagged(V), RuntimeError, "At least one"),
        (lambda n: n.nested_tensor_from_jagged(V, [0, 6]), TypeError, "must be Tensor"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([0, 7])), RuntimeError, "6 rows"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([0, 4, 2])), RuntimeError, r"\[4, -2\]"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([-1, 4])), RuntimeError, "offsets"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([[0, 6]])), RuntimeError, "1D"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([0.0, 6.0])), RuntimeError, "integers"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([0, 6]), ndgrad.tensor([1, 2])), RuntimeError, "2 lengths"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([0, 6]), jagged_dim=2), RuntimeError, "jagged_dim"),
        (lambda n: n.nested_tensor_from_jagged(V, ndgrad.tensor([0, 6]), max_seqlen=3), RuntimeError, "max_seqlen"),
        (lambda n: n.narrow(ndgrad.ones(2, 3), 0, 0, 1, layout=jagged), RuntimeError, "dim=1"),
        (lambda n: n.narrow(ndgrad.ones(2, 3), 1, ndgrad.tensor([0, 2]), 2, layout=jagged), RuntimeError, "at most 3"),
        (lambda n: n.masked_select(V, V), RuntimeError, "BoolTensor"),
        (lambda n: V.to_padded_tensor(0.0), NotImplementedError, "dense tensor"),
    ],
)
def test_what_cannot_be_made_says_why(make, error, words):
    with pytest.raises(error, match=words):
        make(ndgrad.nested)


def test_structures_that_do_not_combine_are_both_named():
    x, y = nested(arrays(3, lengths=(2, 3))), nested(arrays(3, lengths=(3, 2)))
    for f in (lambda: x + y, lambda: ndgrad.cat([x, y], -1), lambda: x @ y.transpose(1, 2), lambda: ndgrad.where(x > 0, x, y)):
        with pytest.raises(RuntimeError, match=r"\(2, 3\).*\(3, 2\)"):
            f()
    with pytest.raises(RuntimeError, match=r"\(2, 3\).*strided \(5, 3\)"):
        x + ndgrad.ones(5, 3)
    with pytest.raises(RuntimeError, match=r"\(2, 3\)"):
        x @ x.transpose(1, 2)


def test_numpy_and_other_layouts_are_refused():
    x = nested(arrays(3))
    for f in (np.sin, np.asarray, lambda t: np.add(t, 1), lambda t: t.numpy(), lambda t: t.tolist(), lambda t: np.concatenate([t, t])):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError), match="nested"):
            f(x)
    with pytest.raises((NotImplementedError, TypeError)):
        x.array()
    with pytest.raises(NotImplementedError, match="nested"):
        x.to_sparse()
    with pytest.raises(NotImplementedError, match="out="):
        ndgrad.sin(x, out=x.clone())
    with pytest.raises(RuntimeError, match="Boolean value"):
        bool(x)
    assert bool(nested([[1.0]]))
    assert nested([[2.5]]).item() == 2.5
