"""Bad input: the class of the error, its three parts, and that every tensor is afterwards as it was before the call.

A message names what happened (the function, or the operation in words), the shapes, dtypes or numbers that do not fit, and what to
do about it. The last is checked as: after the statement there is a further sentence.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
import ndgrad.numpy
from ndgrad._src.core.variable import Variable

F = ndgrad.nn.functional


def ones(*shape: int) -> Any:
    return ndgrad.tensor(np.ones(shape))


def leaf(*shape: int) -> Any:
    return ndgrad.tensor(np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape), requires_grad=True)


def read_only(*shape: int) -> Any:
    array = np.ones(shape)
    array.flags.writeable = False
    return ndgrad.from_numpy(array)


# ----- the state of a tensor ---------------------------------------------------------------------------------------------


def state(t: Any) -> tuple[Any, ...]:
    values = None if t.device.type == "meta" else t.detach().numpy().copy()
    grad = None if not t.is_leaf or t.grad is None else t.grad.detach().numpy().copy()
    return values, t._version, t.grad_fn, t.requires_grad, t.is_leaf, tuple(t.shape), str(t.dtype), t.stride(), grad


def assert_unchanged(before: tuple[Any, ...], t: Any) -> None:
    after = state(t)
    for old, new in zip((before[0], before[-1]), (after[0], after[-1])):
        np.testing.assert_array_equal(new, old)
    assert after[1:-1] == before[1:-1]


def refuse(error: type[BaseException], names: str, f: Callable[..., Any], *tensors: Any) -> str:
    """f(*tensors) raises `error` in three parts that mention what `names` matches, and changes no tensor."""
    before = [state(t) for t in tensors if isinstance(t, Variable)]
    with pytest.raises(error) as caught:
        f(*tensors)
    for old, t in zip(before, (t for t in tensors if isinstance(t, Variable)), strict=True):
        assert_unchanged(old, t)
    assert ndgrad.is_grad_enabled()
    message = str(caught.value)
    assert re.search(names, message), message
    assert has_remedy(message), f"no remedy: {message}"
    return message


def has_remedy(message: str) -> bool:
    """A sentence that follows the statement of what is wrong."""
    return re.search(r"\. +\w.*\w", message) is not None


# ----- shapes ----------------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[type[BaseException], str, Callable[..., Any], tuple[Any, ...]]] = {
    "add": (RuntimeError, r"add.*\(2, 3\) and \(4,\)", lambda a, b: a + b, (leaf(2, 3), leaf(4))),
    "maximum": (RuntimeError, r"maximum.*\(2,\) and \(3,\)", ndgrad.maximum, (leaf(2), leaf(3))),
    "where": (RuntimeError, r"where.*\(3,\) and \(4,\)", ndgrad.where, (ones(2) > 0, leaf(3), leaf(4))),
    "lerp": (RuntimeError, r"lerp.*\(2,\) and \(3,\)", lambda a, b: ndgrad.lerp(a, b, 0.5), (leaf(2), leaf(3))),
    "matmul": (RuntimeError, r"matmul.*\(2, 3\) and \(2, 3\)", ndgrad.matmul, (leaf(2, 3), leaf(2, 3))),
    "mm of a vector": (RuntimeError, r"mm.*\(2,\)", ndgrad.mm, (leaf(2, 3), leaf(2))),
    "bmm": (RuntimeError, r"\(2, 3, 4\)", ndgrad.bmm, (leaf(2, 3, 4), leaf(2, 3, 4))),
    "dot": (RuntimeError, r"dot.*2 and 3", ndgrad.dot, (leaf(2), leaf(3))),
    "addmm": (RuntimeError, r"\(2, 3\) and \(2, 2\)", ndgrad.addmm, (leaf(2, 2), leaf(2, 3), leaf(2, 2))),
    "einsum sizes": (RuntimeError, r"einsum.*ij,jk", lambda a, b: ndgrad.einsum("ij,jk", a, b), (leaf(2, 3), leaf(2, 3))),
    "einsum rank": (RuntimeError, r"einsum.*ijk", lambda a: ndgrad.einsum("ijk", a), (leaf(2, 3),)),
    "tensordot": (RuntimeError, r"tensordot.*\(2, 3\)", lambda a, b: ndgrad.tensordot(a, b, 1), (leaf(2, 3), leaf(2, 3))),
    "cat": (RuntimeError, r"cat.*\[2, 3\].*\[2, 4\]", lambda a, b: ndgrad.cat([a, b]), (leaf(2, 3), leaf(2, 4))),
    "cat of nothing": (ValueError, r"cat.*none", lambda: ndgrad.cat([]), ()),
    "stack": (RuntimeError, r"stack.*\[2\].*\[3\]", lambda a, b: ndgrad.stack([a, b]), (leaf(2), leaf(3))),
    "reshape": (RuntimeError, r"\[4\].*\(2, 3\)", lambda a: a.reshape(4), (leaf(2, 3),)),
    "view": (RuntimeError, r"view.*\[3, 2\].*reshape", lambda a: a.t().view(6), (leaf(2, 3),)),
    "expand": (RuntimeError, r"expand.*\[2, 3\]", lambda a: a.expand(4, 3), (leaf(2, 3),)),
    "permute": (RuntimeError, r"permute.*\(0, 0\)", lambda a: a.permute(0, 0), (leaf(2, 3),)),
    "transpose": (IndexError, r"\[-2, 1\].*5", lambda a: a.transpose(0, 5), (leaf(2, 3),)),
    "split": (RuntimeError, r"split.*5.*\[2, 2\]", lambda a: a.split([2, 2]), (leaf(5),)),
    "unflatten": (RuntimeError, r"unflatten.*\[4, 2\]", lambda a: a.unflatten(0, (4, 2)), (leaf(6),)),
    "narrow": (RuntimeError, r"narrow.*\(3,\)", lambda a: a.narrow(0, 2, 2), (leaf(3),)),
    "select": (IndexError, r"select.*\[3\]", lambda a: a.select(0, 3), (leaf(3),)),
    "as_strided": (RuntimeError, r"as_strided.*3 elements", lambda a: a.as_strided((4,), (1,)), (leaf(3),)),
    "unfold": (RuntimeError, r"unfold.*3.*4", lambda a: a.unfold(0, 4, 1), (leaf(3),)),
    "repeat": (RuntimeError, r"repeat.*\[2, 2\]", lambda a: a.repeat(2), (leaf(2, 2),)),
    "roll": (RuntimeError, r"roll", lambda a: a.roll((1, 2), (0,)), (leaf(2, 2),)),
    "diag": (RuntimeError, r"diag.*3D", ndgrad.diag, (leaf(2, 2, 2),)),
    "sum over no dimension": (IndexError, r"\[-1, 0\].*4", lambda a: a.sum(4), (leaf(2),)),
    "sum over one twice": (RuntimeError, r"\(0, 0\)", lambda a: a.sum((0, 0)), (leaf(2, 2),)),
    "max of nothing": (RuntimeError, r"max.*\(0,\)", lambda a: a.max(), (leaf(0),)),
    "cross": (RuntimeError, r"cross.*2 and 2", ndgrad.linalg.cross, (leaf(2), leaf(2))),
    "inv": (RuntimeError, r"inv.*\(2, 3\)", ndgrad.linalg.inv, (leaf(2, 3),)),
    "det of a vector": (RuntimeError, r"det.*\(3,\)", ndgrad.det, (leaf(3),)),
    "lstsq": (RuntimeError, r"lstsq.*\(2, 2\) and \(3, 2\)", ndgrad.linalg.lstsq, (leaf(2, 2), leaf(3, 2))),
    "fft of nothing": (RuntimeError, r"fft.*\[0\]", ndgrad.fft.fft, (leaf(0),)),
    "index": (IndexError, r"index 5.*size 3", lambda a: a[5], (leaf(3),)),
    "too many indices": (IndexError, r"too many indices.*\(3,\)", lambda a: a[0, 0], (leaf(3),)),
    "index beyond a later dimension": (IndexError, r"7.*\(2, 3\)", lambda a: a[:, 7], (leaf(2, 3),)),
    "mask": (IndexError, r"\[2\].*\[3\]", lambda a, m: a[m], (leaf(3), ones(2) > 0)),
    "gather": (RuntimeError, r"gather.*index 5.*size 2", lambda a, i: ndgrad.gather(a, 0, i), (leaf(2, 3), ndgrad.tensor([[5]]))),
    "scatter": (RuntimeError, r"scatter.*index 7.*size 3", lambda a, i: a.scatter(0, i, 1.0), (leaf(3), ndgrad.tensor([7]))),
    "index_select": (IndexError, r"index_select.*index 3", lambda a, i: a.index_select(0, i), (leaf(3), ndgrad.tensor([3]))),
    "topk": (RuntimeError, r"topk.*5 of 3", lambda a: a.topk(5), (leaf(3),)),
    "linear": (RuntimeError, r"linear.*\(2, 3\).*\(4, 2\)", F.linear, (leaf(2, 3), leaf(4, 2))),
    "kernel larger than image": (RuntimeError, r"conv2d.*3, 3.*2, 2", F.conv2d, (leaf(1, 1, 2, 2), leaf(1, 1, 3, 3))),
    "class out of range": (IndexError, r"cross_entropy.*5.*3 classes", F.cross_entropy, (leaf(2, 3), ndgrad.tensor([0, 5]))),
    "layer_norm": (RuntimeError, r"layer_norm.*\[2\].*\[2, 3\]", lambda a: F.layer_norm(a, (2,)), (leaf(2, 3),)),
    "mse_loss": (RuntimeError, r"mse_loss.*\(3,\).*\(2,\)", F.mse_loss, (leaf(2), leaf(3))),
    "embedding": (IndexError, r"embedding.*index 9.*size 3", F.embedding, (ndgrad.tensor([9]), leaf(3, 2))),
    "vmap of unequal batches": (ValueError, r"vmap.*\[2, 3\]", ndgrad.func.vmap(lambda a, b: a + b), (ones(2), ones(3))),
}


@pytest.mark.filterwarnings("ignore:mse_loss")
@pytest.mark.parametrize("case", SHAPES)
def test_wrong_shapes(case: str) -> None:
    error, names, f, tensors = SHAPES[case]
    refuse(error, names, f, *tensors)


WRITES: dict[str, tuple[str, Callable[..., Any], tuple[Any, ...]]] = {
    "add_": (r"add_.*\[3\].*\[2, 3\]", lambda a, b: a.add_(b), (ones(3), leaf(2, 3))),
    "copy_": (r"copy_.*\[3\].*\[2\]", lambda a, b: a.copy_(b), (ones(2), leaf(3))),
    "setitem": (r"\(3,\) and \(4,\)|\[4\].*\[3\]", lambda a, b: a.__setitem__(slice(None), b), (ones(3), leaf(4))),
    "a leaf": (r"add_.*leaf.*\(3,\)", lambda a: a.add_(1), (leaf(3),)),
    "a view of a leaf": (r"zero_.*view of a leaf", lambda a: a[0].zero_(), (leaf(3),)),
    "a part of a leaf": (r"leaf", lambda a: a.__setitem__(0, 1.0), (leaf(3),)),
    "one output of several": (r"Split.*\(1,\)", lambda a: a.split(1)[0].mul_(2), (leaf(3) * 2,)),
    "an integer tensor by a float": (r"mul_.*float64.*int64", lambda a: a.mul_(0.5), (ndgrad.arange(3),)),
    "read-only memory": (r"add_.*\(3,\).*read-only", lambda a: a.add_(1), (read_only(3),)),
    "a part of read-only memory": (r"copy_.*\(\).*read-only", lambda a: a.__setitem__(0, 5.0), (read_only(3),)),
    "expanded memory": (r"add_.*more than one element.*\(3,\)", lambda a: a.expand(3).add_(1), (ones(1),)),
    "out= with a graph": (r"add.*out=", lambda a, o: ndgrad.add(a, a, out=o), (leaf(3), ones(3))),
}


@pytest.mark.parametrize("case", WRITES)
def test_refused_writes_change_nothing(case: str) -> None:
    names, f, tensors = WRITES[case]
    refuse(RuntimeError, names, f, *tensors)


def test_a_write_that_fails_in_the_middle_of_a_program_leaves_its_graph_usable() -> None:
    x = leaf(3)
    y = x * 2
    refuse(RuntimeError, r"add_", lambda t: t.add_(ones(2, 3)), y)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


# ----- dtypes ----------------------------------------------------------------------------------------------------------------

DTYPES: dict[str, tuple[type[BaseException], str, Callable[..., Any], tuple[Any, ...]]] = {
    "integers require no grad": (RuntimeError, r"int64", lambda: ndgrad.tensor([1, 2], requires_grad=True), ()),
    "requires_grad_ of integers": (RuntimeError, r"int64", lambda a: a.requires_grad_(), (ndgrad.arange(3),)),
    "requires_grad of booleans": (RuntimeError, r"bool", lambda a: setattr(a, "requires_grad", True), (ones(2) > 0,)),
    "func.grad of integers": (RuntimeError, r"int64", ndgrad.func.grad(lambda a: a.sum()), (ndgrad.arange(3),)),
    "mean of integers": (RuntimeError, r"mean.*int64", lambda a: a.mean(), (ndgrad.arange(3),)),
    "difference of booleans": (TypeError, r"sub.*bool", lambda a: a - a, (ones(2) > 0,)),
    "minus a boolean": (TypeError, r"neg.*bool", lambda a: -a, (ones(2) > 0,)),
    "bits of floats": (TypeError, r"bitwise_and.*float64", lambda a: a & a, (ones(2),)),
    "floor of complex": (TypeError, r"floor.*complex128", ndgrad.floor, (ndgrad.tensor([1j]),)),
    "largest of complex": (NotImplementedError, r"max.*complex128", lambda a: a.max(), (ndgrad.tensor([1j]),)),
    "integer to a negative power": (RuntimeError, r"pow", lambda a: a**-1, (ndgrad.arange(3),)),
    "index by floats": (IndexError, r"float64.*\(2,\)", lambda a, i: a[i], (leaf(3), ones(2))),
    "gather by floats": (RuntimeError, r"gather.*float64", lambda a, i: a.gather(0, i), (leaf(3), ones(3))),
    "mask of floats": (RuntimeError, r"masked_fill.*float64", lambda a, m: a.masked_fill(m, 0.0), (leaf(3), ones(3))),
    "unknown dtype": (TypeError, r"banana", lambda: ndgrad.zeros(2, dtype="banana"), ()),
    "gradient of another dtype": (RuntimeError, r"float32.*float64", lambda a, g: setattr(a, "grad", g), (leaf(3), ones(3).float())),
    "view as a larger dtype": (RuntimeError, r"float64.*complex128", lambda a: a.view(ndgrad.complex128), (ones(3),)),
}


@pytest.mark.parametrize("case", DTYPES)
def test_wrong_dtypes(case: str) -> None:
    error, names, f, tensors = DTYPES[case]
    refuse(error, names, f, *tensors)


# ----- devices ---------------------------------------------------------------------------------------------------------------


def test_unknown_devices() -> None:
    refuse(RuntimeError, r"banana", lambda: ndgrad.zeros(2, device="banana"))
    refuse(RuntimeError, r"banana", lambda a: a.to("banana"), leaf(2))


def test_values_of_a_meta_tensor() -> None:
    t = ndgrad.zeros(2, 3, device="meta")
    refuse(NotImplementedError, r"meta.*\(2, 3\)", lambda a: a.tolist(), t)
    refuse(NotImplementedError, r"meta", lambda a: a.sum().item(), t)


def test_gradient_on_another_device() -> None:
    refuse(RuntimeError, r"meta.*cpu", lambda a, g: setattr(a, "grad", g), leaf(2), ndgrad.zeros(2, device="meta"))


# ----- backward --------------------------------------------------------------------------------------------------------------


def test_second_backward() -> None:
    x = leaf(3)
    y = (x * x).sum()
    y.backward()
    refuse(RuntimeError, r"second time.*retain_graph=True", lambda *_: y.backward(), x, y)


def test_backward_of_many_elements_without_gradient() -> None:
    x = leaf(3)
    refuse(RuntimeError, r"scalar.*\(3,\)", lambda x, y: y.backward(), x, x * 2)
    refuse(RuntimeError, r"\(3,\)", lambda x, y: ndgrad.autograd.grad(y, x), x, x * 2)


def test_gradient_of_the_wrong_shape() -> None:
    x = leaf(3)
    refuse(RuntimeError, r"Size\(\[2\]\).*Size\(\[3\]\)", lambda x, y, g: y.backward(g), x, x * 2, ones(2))
    refuse(RuntimeError, r"\[2\].*\[3\]", lambda x, g: setattr(x, "grad", g), x, ones(2))


def test_backward_without_a_graph() -> None:
    refuse(RuntimeError, r"does not require grad", lambda t: t.backward(), ones())
    refuse(RuntimeError, r"\(2,\)", lambda y, t: ndgrad.autograd.grad(y, t), leaf(3).sum(), ones(2))
    refuse(RuntimeError, r"not have been used.*\(2,\)", lambda y, t: ndgrad.autograd.grad(y, t), leaf(3).sum(), leaf(2))


def test_backward_after_a_saved_value_was_overwritten() -> None:
    x = leaf(3)
    y = x.exp()
    z = y.sum()
    y.mul_(2)
    refuse(RuntimeError, r"modified by an inplace operation", lambda x, y, z: z.backward(), x, y, z)


def test_leaving_the_graph_unasked() -> None:
    refuse(RuntimeError, r"numpy.*detach.*\(3,\)", lambda a: a.numpy(), leaf(3))
    refuse(RuntimeError, r"\(2,\)", lambda a: a.item(), leaf(2))
    refuse(RuntimeError, r"ambiguous.*\(2,\)", bool, leaf(2))
    refuse(RuntimeError, r"leaf.*MulBackward0", lambda a: setattr(a, "requires_grad", False), leaf(2) * 2)


# ----- keywords and types ----------------------------------------------------------------------------------------------------


def test_unknown_keywords_are_answered_with_the_known_ones() -> None:
    refuse(TypeError, r"sum.*'foo'.*dim.*keepdim", lambda a: ndgrad.sum(a, foo=1), leaf(2))
    refuse(TypeError, r"sum.*'foo'", lambda a: a.sum(foo=1), leaf(2))
    with pytest.raises(TypeError, match="foo"):
        ndgrad.exp(leaf(2), foo=1)
    refuse(TypeError, r"'axis'.*'dim'", lambda a: a.sum(dim=0, axis=0), leaf(2))


TYPES: dict[str, tuple[type[BaseException], str, Callable[..., Any], tuple[Any, ...]]] = {
    "exp of text": (TypeError, r"exp.*str", lambda: ndgrad.exp("a"), ()),
    "sin of None": (TypeError, r"sin.*NoneType", lambda: ndgrad.sin(None), ()),
    "matmul with a number": (TypeError, r"matmul.*'other'.*int", lambda a: ndgrad.matmul(a, 3), (leaf(2, 2),)),
    "kron with text": (TypeError, r"kron.*'other'.*str", lambda a: ndgrad.kron(a, "a"), (leaf(2),)),
    "cat of a number": (TypeError, r"cat.*int", lambda: ndgrad.cat(5), ()),
    "reshape to text": (TypeError, r"str", lambda a: a.reshape("a"), (leaf(2),)),
    "a dim that is text": (TypeError, r"'a'.*str", lambda a: a.sum("a"), (leaf(2),)),
    "fill with text": (TypeError, r"'a'.*str", lambda: ndgrad.full((2,), "a"), ()),
    "tensor of text": (TypeError, r"abc", lambda: ndgrad.tensor("abc"), ()),
    "tensor of an object": (RuntimeError, r"object", lambda: ndgrad.tensor(object()), ()),
    "ragged lists": (ValueError, r"inhomogeneous", lambda: ndgrad.tensor([[1, 2], [3]]), ()),
    "negative size": (RuntimeError, r"-1", lambda: ndgrad.zeros(-1), ()),
    "gradient that is a number": (TypeError, r"int", lambda a: setattr(a, "grad", 3), (leaf(2),)),
    "index by text": (IndexError, r"str", lambda a: a["a"], (leaf(2),)),
    "func.grad of a vector": (RuntimeError, r"scalar.*\(2,\)", ndgrad.func.grad(lambda a: a * 2), (ones(2),)),
}


@pytest.mark.parametrize("case", TYPES)
def test_wrong_types(case: str) -> None:
    error, names, f, tensors = TYPES[case]
    refuse(error, names, f, *tensors)


# ----- overlapping memory ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4))
def test_a_copy_between_overlapping_parts_reads_before_it_writes(source: int, target: int, length: int) -> None:
    values = np.arange(8.0)
    buffer = ndgrad.tensor(values)
    expected = values.copy()
    expected[target : target + length] = values[source : source + length].copy()
    buffer[target : target + length] = buffer[source : source + length]
    np.testing.assert_array_equal(buffer.numpy(), expected)


def test_gradient_of_an_overlapping_copy() -> None:
    x = leaf(4)
    y = x * 1.0
    y[1:] = y[:-1]
    (y * ndgrad.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [11.0, 100.0, 1000.0, 0.0]


def test_from_numpy_shares_memory_and_read_only_memory_can_be_read() -> None:
    t = read_only(3).requires_grad_()
    (t * t).sum().backward()
    assert t.grad.tolist() == [2.0, 2.0, 2.0]
    array = np.zeros(2)
    ndgrad.from_numpy(array).add_(1.0)
    assert array.tolist() == [1.0, 1.0]


# ----- NaN, infinity, nothing ------------------------------------------------------------------------------------------------

UNARY = ("exp sin tanh sigmoid abs square neg log1p atan relu softplus erf floor sign sum mean prod cumsum sort logsumexp softmax max min "
         "argmax var norm flip isnan nan_to_num median").split()  # fmt: skip


def call(name: str, x: Any) -> Any:
    if name == "softplus":
        return F.softplus(x)
    if name in ("cumsum", "logsumexp", "softmax", "flip"):
        return getattr(x, name)(-1)
    made = getattr(x, name)()
    return made[0] if isinstance(made, tuple) else made


SPECIAL = st.sampled_from([0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf, 1e308, 5e-324])


@pytest.mark.parametrize("name", UNARY)
@given(st.lists(SPECIAL, min_size=1, max_size=5))
def test_special_values_pass_through_values_and_gradients(name: str, values: list[float]) -> None:
    """No crash, shapes and dtypes as always; where all inputs are finite and tame, so is the gradient."""
    x = ndgrad.tensor(values, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = call(name, x)
        if name in ("exp", "sin", "tanh", "sum", "mean", "prod", "cumsum", "softmax", "sigmoid", "square", "neg", "max", "min", "median"):
            assert np.isnan(y.detach().numpy()).any() or not np.isnan(values).any()
        if y.requires_grad:
            y.backward(ndgrad.ones_like(y))
            assert x.grad.shape == x.shape
            assert x.grad.dtype == x.dtype
    np.testing.assert_array_equal(x.detach().numpy(), values)


BINARY = "add sub mul div pow maximum minimum fmod remainder atan2 hypot logaddexp copysign where_ matmul".split()
EMPTY_SHAPES = st.sampled_from([(0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)])


def call_two(name: str, x: Any, y: Any) -> Any:
    if name == "where_":
        return ndgrad.where(x > y, x, y)
    return ndgrad.matmul(x, y.mT if y.ndim > 1 else y) if name == "matmul" else getattr(ndgrad, name)(x, y)


@pytest.mark.parametrize("name", BINARY)
@given(EMPTY_SHAPES)
def test_binary_functions_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    x, y = (ndgrad.zeros(shape, requires_grad=True) for _ in range(2))
    out = call_two(name, x, y)
    other = np.zeros(shape).swapaxes(-1, -2) if len(shape) > 1 else np.zeros(shape)
    assert tuple(out.shape) == (np.matmul(np.zeros(shape), other).shape if name == "matmul" else shape)
    out.sum().backward()
    assert tuple(x.grad.shape) == tuple(y.grad.shape) == shape


WITHOUT_NEUTRAL = frozenset("max min argmax".split())


@pytest.mark.parametrize("name", UNARY)
@given(EMPTY_SHAPES)
def test_unary_functions_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    """A value (NaN for a mean), or for a choice among no elements an error; the gradient is as empty as the input."""
    x = ndgrad.zeros(shape, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in WITHOUT_NEUTRAL:
            refuse((RuntimeError, IndexError), name, lambda x: call(name, x), x)
            return
        out = call(name, x)
        if out.requires_grad:
            out.backward(ndgrad.ones_like(out))
            assert tuple(x.grad.shape) == shape


STRUCTURAL: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(x.numel()),
    "transpose": lambda x: x.transpose(0, -1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "cat": lambda x: ndgrad.cat([x, x]),
    "stack": lambda x: ndgrad.stack([x, x]),
    "slice": lambda x: x[1:],
    "mask": lambda x: x[x > 0],
    "gather": lambda x: ndgrad.take_along_dim(x, ndgrad.argsort(x, -1), -1),
    "pad": lambda x: F.pad(x, (1, 1)),
    "tril": lambda x: ndgrad.tril(x) if x.ndim > 1 else x.clone(),
    "clone": lambda x: x.clone(),
    "float": lambda x: x.float(),
    "expand": lambda x: x.expand(2, *x.shape),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "where": lambda x: ndgrad.where(x > 0, x, 0.0),
    "cumprod": lambda x: x.cumprod(-1),
    "sum over a dim": lambda x: x.sum(0),
    "prod over a dim": lambda x: x.prod(-1),
    "roll": lambda x: x.roll(1, 0),
}


@pytest.mark.parametrize("name", STRUCTURAL)
@given(EMPTY_SHAPES)
def test_structural_functions_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    x = ndgrad.zeros(shape, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = STRUCTURAL[name](x)
        out.sum().backward()
    assert tuple(x.grad.shape) == shape
    batch = ndgrad.func.vmap(STRUCTURAL[name] if name != "mask" else (lambda t: t * 1))
    if shape[0] and len(shape) > 1:
        assert batch(ndgrad.zeros(shape)).shape[0] == shape[0]


def test_sums_of_nothing_are_neutral() -> None:
    assert ones(0).sum().item() == 0.0
    assert ones(0).prod().item() == 1.0
    assert ones(0, 3).sum(0).tolist() == [0.0, 0.0, 0.0]
    assert (ones(2, 0) @ ones(0, 3)).tolist() == [[0.0] * 3] * 2
    assert ndgrad.linalg.det(ones(0, 0)).item() == 1.0


# ----- NumPy's tensor class ----------------------------------------------------------------------------------------------------------


def test_numpy_namespace_refuses_in_numpys_classes() -> None:
    x = ndgrad.numpy.array([1.0, 2.0, 3.0])
    refuse(ValueError, r"\(3,\) and \(2,\)", lambda a: a + np.ones(2), x)
    refuse(TypeError, r"dtype.*reshape", lambda a: a.view(3), x)
    with pytest.raises(TypeError):
        float(x.requires_grad_())
    refuse(ValueError, r"axes", lambda a: a.transpose(0, 0), ndgrad.numpy.ones((2, 2)))
