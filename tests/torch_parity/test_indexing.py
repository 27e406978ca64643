"""x[...] and x[...] = y beside torch's: values, gradients, kinds of errors, for chosen indices and for random ones."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import ndgrad
from tests.index_cases import random_case, random_value
from tests.torch_parity.errors import torch_class

pytestmark = pytest.mark.usefixtures("float64_torch")

A = np.random.default_rng(7).standard_normal((3, 4, 5))


def array(t):
    return t.detach().numpy() if isinstance(t, torch.Tensor) else np.asarray(t.detach().numpy())


def weighted(lib, t):
    return (t * lib.tensor(np.cos(np.arange(t.numel())).reshape(tuple(t.shape)))).sum()


def read_part(lib, values, index):
    leaf = lib.tensor(values, requires_grad=True)
    try:
        part = (leaf * 1.0)[index(lib)]
    except Exception as error:
        return torch_class(error)
    (grad,) = lib.autograd.grad(weighted(lib, part), leaf)
    return [array(part), array(grad)]


def repeats(values, index):
    """Whether an index names a place twice."""
    places = torch.arange(values.size).reshape(values.shape)[index(torch)]
    return places.numel() != places.unique().numel()


def write(lib, values, index, value):
    leaf, source = lib.tensor(values, requires_grad=True), lib.tensor(value, requires_grad=True)
    x = leaf * 1.0
    try:
        x[index(lib)] = source
    except Exception as error:
        return torch_class(error)
    inputs = leaf if repeats(values, index) else (leaf, source)  # deliberate("repeated-writes")
    grads = lib.autograd.grad(weighted(lib, x), inputs, allow_unused=True)
    return [array(x), *(None if g is None else array(g) for g in grads)]


def assert_same(run, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = run(ndgrad, *arguments), run(torch, *arguments)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
        return
    for mine, its in zip(ours, theirs, strict=True):
        if its is None:
            # after x[False] = y torch forgets y, which had no effect
            assert not mine.any()
            continue
        assert mine.shape == its.shape
        np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12)


def tensors(*items):
    """An index in which arrays become the library's tensors."""

    def index(lib):
        made = tuple(lib.tensor(i) if isinstance(i, np.ndarray) else i for i in items)
        return made[0] if len(made) == 1 else made

    return index


I, J, MASK = np.array([0, 2, 2]), np.array([[1], [3]]), A > 0
INDICES = {
    "int": tensors(1),
    "negative int": tensors(-1),
    "int out of range": tensors(3),
    "two ints": tensors(1, -2),
    "all ints": tensors(1, 2, 3),
    "too many": tensors(0, 0, 0, 0),
    "slice": tensors(slice(1, None)),
    "step": tensors(slice(None), slice(None, None, 2)),
    "slice beyond": tensors(slice(2, 99)),
    "empty slice": tensors(slice(2, 1)),
    "None": tensors(None),
    "None inside": tensors(slice(None), None, 1),
    "Ellipsis": tensors(Ellipsis),
    "Ellipsis int": tensors(Ellipsis, 1),
    "nothing": lambda lib: (),
    "array": tensors(I),
    "negative array": tensors(-I),
    "array out of range": tensors(I + 1),
    "array far below": tensors(I - 4),
    "0-d array": tensors(np.array(1)),
    "two 0-d arrays": tensors(np.array(1), np.array(-1)),
    "empty array": tensors(I[:0]),
    "matrix": tensors(J % 3),
    "two arrays": tensors(I, I),
    "arrays broadcast": tensors(I, J),
    "arrays that do not": tensors(I, I[:2]),
    "array behind slice": tensors(slice(None), I),
    "arrays apart": tensors(I, slice(None), I),
    "array int": tensors(I, 1),
    "int array": tensors(1, I),
    "array int array": tensors(I, 1, I),
    "int slice array": tensors(1, slice(None), I),
    "array slice int": tensors(I, slice(None), 1),
    "array None array": tensors(I, None, I),
    "slice array int": tensors(slice(1, 3), I, 2),
    "array Ellipsis array": tensors(I, Ellipsis, I),
    "int32": tensors(I.astype(np.int32)),
    "float index": tensors(A[0, 0]),
    "mask": tensors(MASK),
    "mask of two": tensors(MASK[:, :, 0]),
    "mask of one": tensors(np.array([True, False, True])),
    "mask behind slice": tensors(slice(None), MASK[0]),
    "mask behind int": tensors(1, MASK[0]),
    "mask and array": tensors(np.array([True, False, True]), np.array([0, 1])),
    "two masks": tensors(np.array([True, False, True]), np.array([True, False, False, True])),
    "mask of wrong size": tensors(np.array([True, False])),
    "mask of wrong shape": tensors(MASK[:, :, :4]),
    "mask of nothing": tensors(A > 9),
    "mask too many": tensors(np.ones((3, 4, 5, 1), bool)),
    "True": tensors(True),
    "False": tensors(False),
    "True inside": tensors(slice(None), True),
    "True and array": tensors(True, I),
    "0-d mask": tensors(np.array(True)),
    "list": lambda lib: [0, 2],
    "list of bools": lambda lib: [True, False, True],
    "nested list": lambda lib: [[0, 1], [2, 0]],
    "list of lists and slice": lambda lib: [[0, 2], slice(1, 3)],
    "list of tensors": lambda lib: [lib.tensor(1), lib.tensor(2)],
    "list with None": lambda lib: [None, 1],
    "long list": lambda lib: [[0, 1]] * 40,
    "list in tuple": lambda lib: ([0, 2], 1),
    "empty list": lambda lib: [],
    "tuple in tuple": lambda lib: ((0, 2), (1, 3)),
    "range": lambda lib: range(2),
    "float": lambda lib: 1.0,
    "dict": lambda lib: {},
    "tensor ends of slice": lambda lib: slice(lib.tensor(1), lib.tensor(3)),
    "NumPy array": lambda lib: I,
    "NumPy int": lambda lib: np.int64(1),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_reading(name):
    assert_same(read_part, A, INDICES[name])


@pytest.mark.parametrize("name", INDICES)
def test_writing_a_number(name):
    assert_same(write, A, INDICES[name], np.array(2.5))


def readable():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [name for name, index in INDICES.items() if not isinstance(read_part(torch, A, index), str)]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", readable())
@pytest.mark.parametrize("kind", ["whole", "first row", "ones in front", "too large"])
def test_writing_a_tensor(name, kind):
    part = read_part(torch, A, INDICES[name])[0]
    value = np.sin(np.arange(part.size)).reshape(part.shape)
    if kind == "first row":
        value = value[:1] if value.ndim else value
    elif kind == "ones in front":
        value = value[None, None]
    elif kind == "too large":
        if name == "False":
            pytest.skip("torch does not look at what it does not write")
        value = np.zeros((*part.shape[:-1], part.shape[-1] + 2)) if part.ndim else np.zeros(2)
    assert_same(write, A, INDICES[name], value)


@pytest.mark.parametrize("start", range(0, 600, 60))
def test_random_indices(start):
    for seed in range(start, start + 60):
        shape, items = random_case(seed, negative_steps=False)
        values = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
        index = tensors(*items) if items else lambda lib: ()
        part = read_part(torch, values, index)
        if not isinstance(part, str) and not part[0].size:
            continue  # torch does not check the bounds of indices that select nothing
        assert_same(read_part, values, index)
        assert_same(write, values, index, random_value(seed, () if isinstance(part, str) else part[0].shape))


VALUES = {
    "number": lambda lib, x: 2,
    "bool": lambda lib, x: True,
    "ints": lambda lib, x: lib.tensor(np.arange(5)),
    "one int": lambda lib, x: lib.tensor(3),
    "float32": lambda lib, x: lib.tensor(np.arange(5.0)).float(),
    "one float32": lambda lib, x: lib.tensor(3.0).float(),
    "itself": lambda lib, x: x[0, 0].clone(),
}  # fmt: skip
PLACES = {"view": lambda lib: 1, "array": lambda lib: lib.tensor([1, 0]), "mask": lambda lib: lib.tensor(MASK)}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("place", PLACES)
def test_kinds_of_values(place, value):
    def run(lib):
        x = lib.tensor(A, requires_grad=True) * 1.0
        try:
            x[PLACES[place](lib)] = VALUES[value](lib, x)
        except Exception as error:
            return torch_class(error)
        return [array(x)]

    assert_same(run)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [2.7, -2.7, True])
def test_numbers_in_integer_tensors(place, value):
    def run(lib):
        x = lib.tensor(np.arange(60).reshape(3, 4, 5))
        x[PLACES[place](lib)] = value
        return [array(x)]

    assert_same(run)


def test_history_of_writes():
    """One write through each kind of index after another, then a read of each kind."""

    def run(lib):
        leaf, row = lib.tensor(A, requires_grad=True), lib.tensor(A[0, 0], requires_grad=True)
        x = leaf * 2.0
        x[1] = row
        x[lib.tensor([0, 2]), 1] = row * x[0, 0].clone()
        x[x > 1] = x[0, 0, 0].clone()
        x[:, [0, 3]] += x[:, [1, 1]]
        x[..., 2] *= row[1]
        y = x[lib.tensor([2, 2]), :, lib.tensor([0, 1])].sum() + x[x < 0].sum() + weighted(lib, x[:, None, 1])
        return [array(x), *map(array, lib.autograd.grad(y, (leaf, row)))]

    assert_same(run)


# ----- memory: views and layouts of results --------------------------------------------------------------------------------------

LAYOUTS = {
    "second": lambda lib, x: x[:, lib.tensor([2, 0])],
    "last": lambda lib, x: x[..., lib.tensor([2, 0])],
    "sliced": lambda lib, x: x[1:, lib.tensor([2, 0]), ::2],
    "two": lambda lib, x: x[:, lib.tensor([2, 0]), lib.tensor([1, 1])],
    "apart": lambda lib, x: x[lib.tensor([2, 0]), :, lib.tensor([1, 1])],
    "beside an int": lambda lib, x: x[0, :, lib.tensor([2, 0])],
    "mask": lambda lib, x: x[:, lib.tensor([True, False, True, True])],
    "matrix of places": lambda lib, x: x[:, lib.tensor([[2, 0], [1, 1]])],
    "turned contraction": lambda lib, x: lib.einsum("ij,kj->ki", x[0], x[1]),
    "batched contraction": lambda lib, x: lib.einsum("bij,bkj->bki", x, x),
    "full_like": lambda lib, x: lib.full_like(x.permute(2, 0, 1), 3.0),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_lie_in_memory_as_torchs_do(name):
    theirs, ours = LAYOUTS[name](torch, torch.tensor(A)), LAYOUTS[name](ndgrad, ndgrad.tensor(A))
    assert ours.stride() == theirs.stride()
    assert ours.is_contiguous() == theirs.is_contiguous()
    np.testing.assert_allclose(array(ours), array(theirs))


def test_a_0d_tensor_as_index_gives_a_view():
    for lib in (torch, ndgrad):
        x = lib.tensor(A[0])
        for part in (x[lib.tensor(1)], x[lib.tensor(1), 1:], x[:, lib.tensor(2)], x[x[:, 0].argmax()]):
            assert part._base is x
            part.zero_()
        assert x[1].abs().sum().item() == x[:, 2].abs().sum().item() == 0.0
