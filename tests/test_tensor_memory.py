"""The memory under tensors: strides, storages, sharing with NumPy, resize_, set_, copies and pickles."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

import ndgrad
from ndgrad._src.tensor import storage as storages
from ndgrad._src.transforms.transforms import vmap


def test_strides_and_offsets_count_elements():
    x = ndgrad.arange(24).reshape(2, 3, 4)
    assert x.stride() == (12, 4, 1)
    v = x[1, ::2, 1:].T
    assert (v.stride(), v.storage_offset(), v.stride(-1)) == ((1, 8), 13, 8)
    assert v.data_ptr() - x.data_ptr() == 13 * 8
    assert (x.itemsize, x.element_size(), x.nbytes) == (8, 8, 192)
    with pytest.raises(IndexError, match="out of range"):
        x.stride(3)


def test_contiguity_by_memory_format():
    x = ndgrad.ones(2, 3, 4, 5)
    last = x.clone(memory_format=ndgrad.channels_last)
    assert last.stride() == (60, 1, 15, 3)
    assert last.is_contiguous(memory_format=ndgrad.channels_last)
    assert not last.is_contiguous()
    assert not x.is_contiguous(memory_format=ndgrad.channels_last)
    assert last.clone().stride() == last.stride()
    assert last.clone(memory_format=ndgrad.contiguous_format).is_contiguous()
    assert last.clone(memory_format=None).stride() == last.stride()  # the same as preserve_format, as in torch
    assert ndgrad.ones(3, 1, 2).permute(0, 2, 1).is_contiguous()  # a dimension of length one is anywhere
    assert ndgrad.ones(0, 3).T.is_contiguous()
    with pytest.raises(RuntimeError, match="required rank 4"):
        ndgrad.ones(2, 3).clone(memory_format=ndgrad.channels_last)


def test_contiguity_under_vmap_is_that_of_a_sample():
    def asks(t):
        return ndgrad.tensor(1.0 if t.is_contiguous() else 0.0)

    assert vmap(asks)(ndgrad.ones(3, 2, 7)).tolist() == [1.0] * 3
    assert vmap(asks, in_dims=1)(ndgrad.ones(2, 3, 7)).tolist() == [0.0] * 3
    assert vmap(vmap(asks), in_dims=1)(ndgrad.ones(5, 3, 2)).tolist() == [[1.0] * 5] * 3
    with pytest.raises(RuntimeError, match="NYI: querying is_contiguous inside of vmap for memory_format"):
        vmap(lambda t: t.is_contiguous(memory_format=ndgrad.channels_last))(ndgrad.ones(2, 2, 2, 2, 2))


# ----- storages ----------------------------------------------------------------------------------------------------------


def test_views_have_one_storage():
    x = ndgrad.arange(6.0)
    bytes_, elements = x[2:].untyped_storage(), x[2:].storage()
    assert bytes_ == x.untyped_storage()
    assert bytes_ != ndgrad.arange(6.0).untyped_storage()
    assert (bytes_.nbytes(), len(bytes_), len(elements), elements.size()) == (48, 48, 6, 6)
    assert elements.data_ptr() == x.data_ptr()
    assert elements.tolist() == list(elements) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    elements[1] = 10.0
    assert x[1].item() == elements[1] == 10.0
    assert elements.dtype is ndgrad.float64
    assert bytes_.clone().tolist() == bytes_.tolist()
    assert ndgrad.is_storage(bytes_)


def test_storage_of_a_transposed_owner_is_its_memory_in_order():
    x = ndgrad.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert x.storage().tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]


def test_a_storage_keeps_its_size():
    s = ndgrad.ones(3).untyped_storage()
    assert s.resize_(24) is s
    with pytest.raises(RuntimeError, match=r"24 bytes cannot be resized to 0.*tensor.resize_\(\)"):
        s.resize_(0)


def test_storage_under_vmap_is_refused():
    with pytest.raises(RuntimeError, match="vmap: the storage of a batched tensor"):
        vmap(lambda t: t.storage())(ndgrad.ones(2, 2))


# ----- sharing with NumPy ------------------------------------------------------------------------------------------------


def test_tensors_over_one_array_share_a_version():
    a = np.zeros(6)
    t, u, w = ndgrad.from_numpy(a), ndgrad.from_numpy(a[3:]), ndgrad.as_tensor(a.reshape(2, 3))
    u += 1
    assert t._version == u._version == w._version == 1
    assert a.tolist() == [0, 0, 0, 1, 1, 1]
    x = ndgrad.ones(3, requires_grad=True)
    y = (t[3:] * x).sum()
    w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_array_out_and_in_again_shares_the_version():
    t = ndgrad.ones(3)
    t.add_(1)
    again = ndgrad.from_numpy(t.numpy())
    again.mul_(2)
    assert t._version == again._version == 2
    assert t.tolist() == [4.0, 4.0, 4.0]


def test_versions_are_forgotten_with_their_tensors():
    a = np.zeros(3)
    t = ndgrad.from_numpy(a)
    t.add_(1)
    assert any(owner() is a for owner, _ in storages._shared.values())
    del t
    gc.collect()
    assert not any(owner() is a for owner, _ in storages._shared.values())
    assert ndgrad.from_numpy(a)._version == 0


def test_reshaping_the_array_in_place_leaves_the_tensor_alone():
    a = np.arange(6.0)
    t = ndgrad.from_numpy(a)
    a.shape = (2, 3)
    b = t.numpy()
    b.shape = (3, 2)
    assert tuple(t.shape) == (6,)


def test_writes_to_read_only_memory_are_refused():
    a = np.arange(3.0)
    a.flags.writeable = False
    t = ndgrad.from_numpy(a)
    with pytest.raises(RuntimeError, match=r"read-only memory.*clone\(\)"):
        t.add_(1)
    assert ndgrad.tensor(a).add_(1).tolist() == [1.0, 2.0, 3.0]


# ----- resize_ and set_ ------------------------------------------------------------------------------------------------


def test_resize_keeps_the_elements_in_memory_and_bumps_only_on_change():
    x = ndgrad.arange(6)
    assert x.resize_(2, 2) is x
    assert x.tolist() == [[0, 1], [2, 3]]
    assert x._version == 1
    assert x.resize_(2, 2)._version == 1
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]  # they were still there
    assert x.resize_(9)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert x[2:].resize_(3).tolist() == [2, 3, 4]
    assert x.resize_as_(ndgrad.ones(1, 2)).tolist() == [[0, 1]]
    assert ndgrad.empty(0).resize_(2, 2).shape == (2, 2)


def test_resize_is_refused_in_the_graph():
    for x in (ndgrad.ones(3, requires_grad=True), ndgrad.ones(3, requires_grad=True) * 2):
        with pytest.raises(RuntimeError, match=r"cannot resize variables that require grad.*reshape\(\)"):
            x.resize_(2)
        assert tuple(x.shape) == (3,)


def test_set_looks_at_other_memory():
    x, y = ndgrad.ones(3), ndgrad.arange(6.0)
    assert x.set_(y) is x
    y[0] = 7.0
    assert x.tolist() == [7.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.set_(y.untyped_storage(), 1, (2, 2), (3, 1)).tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert tuple(x.set_().shape) == (0,)
    with pytest.raises(RuntimeError, match="are out of bounds for storage of size 48"):
        x.set_(y.untyped_storage(), 5, (2,))
    with pytest.raises(RuntimeError, match="Could not set tensor of type float32"):
        x.set_(ndgrad.ones(2, dtype=ndgrad.float32))
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        ndgrad.ones(2, requires_grad=True).set_(y)
    with pytest.raises(RuntimeError, match=r"cannot be differentiated.*copy_\(\)"):
        ndgrad.ones(2).set_(ndgrad.ones(2, requires_grad=True))


# ----- copies and pickles ------------------------------------------------------------------------------------------------


def test_deep_copies_are_leaves_with_their_own_memory_grad_and_attributes():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    x.grad = ndgrad.ones(2)
    x.note = ["a"]
    y = copy.deepcopy(x)
    y.grad += 1
    y.note.append("b")
    with ndgrad.no_grad():
        y += 1
    assert (x.tolist(), x.grad.tolist(), x.note) == ([1.0, 2.0], [1.0, 1.0], ["a"])
    assert y.requires_grad
    assert type(y) is ndgrad.Tensor
    with pytest.raises(RuntimeError, match=r"Only Tensors created explicitly by the user.*MulBackward0.*clone\(\)"):
        copy.deepcopy(x * 2)


def test_what_is_deep_copied_together_stays_together():
    x = ndgrad.arange(6.0)
    a, b, c = copy.deepcopy([x[1:], x[:3], x])
    a.add_(10)
    assert b.tolist() == [0.0, 11.0, 12.0]
    assert c.tolist() == [0.0, 11.0, 12.0, 13.0, 14.0, 15.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_shallow_copy_shares_memory_and_a_pickle_does_not():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    x.note = "n"
    y = copy.copy(x)
    assert (y.data_ptr(), y.requires_grad, y.note) == (x.data_ptr(), True, "n")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        z = pickle.loads(pickle.dumps(x, protocol))
        assert (z.tolist(), z.requires_grad, z.is_leaf, z.note) == ([1.0, 2.0], True, True, "n")
        assert z.data_ptr() != x.data_ptr()
    assert pickle.loads(pickle.dumps(x * 2)).is_leaf
    assert pickle.loads(pickle.dumps(x.detach().sum())).item() == 3.0


def test_a_subclass_is_made_over_the_same_memory():
    class Named(ndgrad.Tensor):
        pass

    x = ndgrad.ones(2)
    t = ndgrad.Tensor._make_subclass(Named, x, True)
    assert isinstance(t, Named)
    assert (t.requires_grad, t.data_ptr()) == (True, x.data_ptr())
    assert repr(t) == "Named([1., 1.], requires_grad=True)"
    x += 1
    assert t._version == 1


def test_a_view_of_another_class_stays_in_the_graph():
    class Named(ndgrad.Tensor):
        pass

    x = ndgrad.ones(2, requires_grad=True)
    y = (x * 2).as_subclass(Named)
    assert type(y) is Named
    assert y.grad_fn is not None
    with pytest.raises(TypeError, match="no subclass"):
        x.as_subclass(int)


def test_new_and_is_set_to():
    x = ndgrad.ones(2, dtype=ndgrad.float32)
    assert (x.new(3, 2).shape, x.new([1, 2]).dtype) == ((3, 2), ndgrad.float32)
    assert x.is_set_to(x.detach())
    assert not x.is_set_to(x[:1])
    assert not x.is_set_to(x.clone())


# ----- overwriting ---------------------------------------------------------------------------------------------------------

OVERWRITE = {
    "copy_": lambda t: t.copy_(ndgrad.tensor([7.0, 8.0])),
    "fill_": lambda t: t.fill_(7),
    "zero_": lambda t: t.zero_(),
}


@pytest.mark.parametrize("name", OVERWRITE)
def test_overwriting_is_seen_by_saves_views_and_versions(name):
    write = OVERWRITE[name]
    x, w = ndgrad.ones(3, 2), ndgrad.ones(3, 2, requires_grad=True)
    y = (x * w).sum()
    row = x[1]
    assert write(row) is row
    assert x._version == row._version == 1
    assert x.tolist()[1] == row.tolist() != [1.0, 1.0]
    with pytest.raises(RuntimeError, match=f"overwritten by {name}"):
        y.backward()


@pytest.mark.parametrize("name", OVERWRITE)
def test_overwriting_leaves_is_for_no_grad_alone(name):
    x = ndgrad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        OVERWRITE[name](x)
    with ndgrad.no_grad():
        OVERWRITE[name](x)
    assert (x._version, x.is_leaf, x.requires_grad) == (1, True, True)
    expanded = ndgrad.ones(1).expand(2)
    with pytest.raises(RuntimeError, match="single memory location"):
        OVERWRITE[name](expanded)


@pytest.mark.parametrize("name", OVERWRITE)
def test_overwriting_a_result_cuts_its_old_history(name):
    x = ndgrad.ones(2, requires_grad=True)
    y = x * 3
    OVERWRITE[name](y)
    (y * x).sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_copying_between_overlapping_views():
    x = ndgrad.arange(5.0)
    x[1:].copy_(x[:-1])
    assert x.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0]


def test_values_are_converted_on_the_way():
    i = ndgrad.zeros(2, dtype=ndgrad.int64)
    assert i.copy_(ndgrad.tensor([1.7, -2.7])).tolist() == [1, -2]
    assert i.fill_(2.9).tolist() == [2, 2]
    assert i.copy_(5).tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="imaginary part"):
        ndgrad.zeros(2).fill_(1j)
    with pytest.raises(RuntimeError, match=r"\[3\] does not broadcast.*\[2\]"):
        i.copy_(ndgrad.ones(3))
    with pytest.raises(RuntimeError, match="only supports 0-dimension"):
        i.fill_(ndgrad.ones(1))


def test_gradients_flow_to_what_was_copied_or_filled_in():
    source, value = ndgrad.tensor([2.0, 3.0], requires_grad=True), ndgrad.tensor(4.0, requires_grad=True)
    y = ndgrad.zeros(3, 2)
    y[:2].copy_(source)
    y[2].fill_(value)
    (y * y).sum().backward()
    assert source.grad.tolist() == [8.0, 12.0]
    assert value.grad.item() == 16.0
