"""Exports from the graph: bare memory and Python numbers. While a tensor requires grad and grad mode is on they raise and say what to
do; detach(), text and no_grad are open. And what stands beside Arrays: subclasses, masks, objects, records,
memory of every kind.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import math
import sys
from typing import Any

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func


@pytest.fixture
def x() -> Any:
    return dnp.array([1.0, 2.0]).requires_grad_()


@pytest.fixture
def number() -> Any:
    return dnp.array(0.5).requires_grad_()


def store(target: Any, value: Any) -> None:
    target[0] = value


class PlainArray(onp.ndarray):
    """NumPy's own, with the one method more that is an entry."""

    def numpy(self) -> Any:
        return onp.asarray(self)


MEMORY = {
    "asarray": lambda t: onp.asarray(t),
    "array": lambda t: onp.array(t),
    "array_of_list": lambda t: onp.array([t, t]),
    "array_of_objects": lambda t: onp.array([t, t], dtype=object),
    "__array__": lambda t: t.__array__(),
    "__array_interface__": lambda t: t.__array_interface__,
    "numpy": lambda t: t.numpy(),
    "vectorize": lambda t: onp.vectorize(lambda v: v)(t),
    "full": lambda t: onp.full(2, t),
    "in_place": lambda t: onp.zeros(2).__iadd__(t),
    "out": lambda t: onp.exp(t, out=onp.zeros(2)),
    "function_out": lambda t: onp.sum(t, axis=0, out=onp.zeros(())),
    "copyto": lambda t: onp.copyto(onp.zeros(2), t),
    "put": lambda t: onp.put(onp.zeros(2), [0, 1], t),
    "place": lambda t: onp.place(onp.zeros(2), [True, True], t),
    "putmask": lambda t: onp.putmask(onp.zeros(2), [True, True], t),
    "put_along_axis": lambda t: onp.put_along_axis(onp.zeros(2), onp.array([0, 1]), t, 0),
    "fill_diagonal": lambda t: onp.fill_diagonal(onp.zeros((2, 2)), t),
    "slice_store": lambda t: onp.zeros(2).__setitem__(slice(None), t),
    "dlpack": lambda t: t.__dlpack__(),
    "from_dlpack": lambda t: onp.from_dlpack(t),
}

NUMBERS = {
    "item": lambda t: t.item(),
    "item_at": lambda t: t.item(0),
    "tolist": lambda t: t.tolist(),
    "float": float,
    "int": int,
    "complex": complex,
    "math.sin": math.sin,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
    "store": lambda t: store(onp.zeros(2), t),
    "fill": lambda t: onp.zeros(2).fill(t),
    "fromiter": lambda t: onp.fromiter(iter([t]), float),
}


@pytest.mark.parametrize("entry", MEMORY.values(), ids=MEMORY)
def test_memory_is_refused_while_grad_is_required(entry: Any, x: Any) -> None:
    with pytest.raises((RuntimeError, BufferError), match=r"detach\(\)"):
        entry(x)


@pytest.mark.parametrize("entry", MEMORY.values(), ids=MEMORY)
def test_memory_is_open_under_no_grad_and_for_constants(entry: Any, x: Any) -> None:
    with ndgrad.no_grad():
        found = entry(x)
    want = entry(x.detach().numpy().view(PlainArray))
    for have in (found, entry(x.detach())):
        assert isinstance(have, type(want)) or isinstance(want, PlainArray)
        if isinstance(have, onp.ndarray):
            onp.testing.assert_array_equal(have.astype(float), want.astype(float))


@pytest.mark.parametrize("entry", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_refused_while_grad_is_required(entry: Any, number: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        entry(number)
    # While a debugger or a coverage tool traces, NumPy's text stays, with the refusal as its cause.
    assert "t.detach()" in str(caught.value.__cause__ or caught.value)
    with ndgrad.no_grad():
        entry(number)
    entry(number.detach())


STORES = {
    "item": lambda t: store(onp.zeros(2), t),
    "matrix_item": lambda t: onp.zeros((2, 2)).__setitem__((0, 1), t),
    "fill": lambda t: onp.zeros(2).fill(t),
    "fromiter": lambda t: onp.fromiter((t for _ in range(2)), float),
    "float32": lambda t: store(onp.zeros(2, "float32"), t),
    "integers": lambda t: store(onp.zeros(2, "int64"), t),
    "complex": lambda t: store(onp.zeros(2, "complex128"), t),
}


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tool traces this thread, so NumPy's text stays")
@pytest.mark.parametrize("write", STORES.values(), ids=STORES)
def test_a_store_in_a_numpy_array_ends_in_the_error_that_names_the_cure(write: Any, number: Any) -> None:
    with pytest.raises(TypeError, match=r"ndgrad\.numpy\.zeros.*ndgrad\.lift\(.*nd-drops-gradient") as caught:
        write(number)
    assert caught.value.__cause__ is None
    assert sys.gettrace() is None
    with pytest.raises(TypeError, match=r"ndgrad\.lift"):
        func.grad(lambda t: (write(t), t)[1])(onp.array(0.5))


def test_the_error_of_a_store_ends_at_the_users_line(number: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        store(onp.zeros(2), number)
    assert caught.traceback[-1].name == "store" or caught.value.__cause__ is not None


def test_a_caught_refusal_leaves_later_errors_and_tracing_alone(number: Any) -> None:
    before = sys.gettrace()
    for _ in range(2):
        with contextlib.suppress(TypeError):
            float(number)
        assert sys.gettrace() is before
    with pytest.raises(ValueError, match="sequence"):
        store(onp.zeros(2), [1.0, 2.0])


@pytest.mark.parametrize("mode", ["requires_grad", "grad", "jvp", "grad in grad"])
def test_numbers_are_formatted_by_every_kind_of_text(mode: str) -> None:
    texts: list[str] = []

    def log(t: Any) -> Any:
        texts.extend(["%.2f" % t, "%d|%s" % (t, "x"), f"{t:.2f}", "{:.2f}".format(t), f"{t}"])  # noqa: UP031, UP032
        record = logging.LogRecord("loss", logging.INFO, "", 0, "loss %.2f", (t,), None)
        texts.append(record.getMessage())
        text = "%.2f"
        text %= t
        texts.append(text)
        return t * t

    start = onp.array(1.5)
    if mode == "requires_grad":
        log(dnp.array(1.5).requires_grad_())
    elif mode == "grad":
        assert func.grad(log)(start) == 3.0
    elif mode == "jvp":
        assert func.jvp(log, (start,), (onp.ones(()),))[1] == 3.0
    else:
        assert func.grad(func.grad(log))(start) == 2.0
    assert texts == ["1.50", "1|x", "1.50", "1.50", "1.5", "loss 1.50", "1.50"]


# ----- forward mode and transforms: nothing requires grad there, and as much is at stake -----------------------------------------


def _inside(mode: str, entry: Any, value: Any) -> None:
    """Go through an entry inside a transform."""
    if mode == "jvp":
        func.jvp(lambda t: (entry(t), t)[1], (value,), (dnp.ones_like(value),))
    elif mode == "jacfwd":
        func.jacfwd(lambda t: (entry(t), t)[1])(value)
    elif mode == "grad":
        func.grad(lambda t: (entry(t), t.sum())[1])(value)
    elif mode == "no_grad in jvp":
        func.jvp(lambda t: (ndgrad.no_grad()(entry)(t), t)[1], (value,), (dnp.ones_like(value),))
    elif mode == "grad in jvp":
        func.jvp(lambda t: func.grad(lambda s: (ndgrad.no_grad()(entry)(s), s.sum())[1])(t), (value,), (dnp.ones_like(value),))
    else:
        func.vmap(lambda t: (entry(t), t)[1])(dnp.stack([value, value]))


MODES = ["jvp", "jacfwd", "grad", "no_grad in jvp", "grad in jvp", "vmap"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("entry", MEMORY.values(), ids=MEMORY)
def test_memory_is_refused_inside_transforms(entry: Any, mode: str) -> None:
    with pytest.raises((RuntimeError, BufferError, ValueError, TypeError), match="detach|vmap|setting an array element"):
        _inside(mode, entry, dnp.array([1.0, 2.0]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("entry", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_refused_inside_transforms(entry: Any, mode: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        _inside(mode, entry, dnp.array(0.5))


IN_PLACE = {
    "in_place": lambda b, t: onp.ndarray.__iadd__(b, t),
    "at": lambda b, t: onp.add.at(b, [0, 1], t),
    "masked_out": lambda b, t: onp.multiply(t, 2.0, out=b, where=[True, False]),
    "copyto": lambda b, t: onp.copyto(b, t),
    "cumsum": lambda b, t: onp.cumsum(t, out=b),
}


@pytest.mark.parametrize("mode", ["jvp", "jacfwd", "grad"])
@pytest.mark.parametrize("write", IN_PLACE.values(), ids=IN_PLACE)
def test_plain_buffers_are_left_as_they_were(write: Any, mode: str) -> None:
    buffer = onp.zeros(2)
    with pytest.raises(RuntimeError, match="plain numpy.ndarray"):
        _inside(mode, lambda t: write(buffer, t), dnp.array([1.0, 2.0]))
    assert buffer.tolist() == [0.0, 0.0]


DATA = onp.array([0.3, 1.1, 0.7, 2.0])
WITH_RULES = {
    "arange": lambda np, x: np.arange(x, x + 3.0, 0.5),
    "arange_step": lambda np, x: np.arange(0.0, 2.0, x),
    "linspace": lambda np, x: np.linspace(x, 3.0, 4),
    "logspace": lambda np, x: np.logspace(0.0, x, 3),
    "geomspace": lambda np, x: np.geomspace(x, 8.0, 3),
    "quantile": lambda np, x: np.quantile(np.asarray(DATA), x),
    "percentile": lambda np, x: np.percentile(np.asarray(DATA), 100 * x),
    "kaiser": lambda np, x: np.kaiser(5, x),
    "normal": lambda np, x: np.random.default_rng(3).normal(x, 2.0 * x, 4),
    "uniform": lambda np, x: np.random.default_rng(3).uniform(x, 3.0 * x, 4),
    "exponential": lambda np, x: np.random.default_rng(3).exponential(x, 4),
    "histogram_edges": lambda np, x: np.histogram(np.asarray(DATA) * x, 3)[1],
    "histogram_range": lambda np, x: np.histogram(np.asarray(DATA), 3, (0.0, x))[1],
    "histogram2d_edges": lambda np, x: np.histogram2d(np.asarray(DATA) * x, np.asarray(DATA), 3)[1],
    "histogramdd_density": lambda np, x: np.histogramdd([np.asarray(DATA) * x], 3, density=True)[0],
    "ix_": lambda np, x: np.ix_(np.asarray(DATA) * x, [1, 2])[0],
    "view_of_same_dtype": lambda np, x: (np.asarray(DATA) * x).view(onp.float64),
    "view_as_real": lambda np, x: (np.asarray(DATA) * x * (1 + 2j)).view(onp.float64),
    "view_as_complex": lambda np, x: abs((np.asarray(DATA) * x).view(onp.complex128)),
}


@pytest.mark.parametrize("name", WITH_RULES)
def test_what_has_a_rule_has_it_in_both_modes(name: str) -> None:
    f, at, step = WITH_RULES[name], 0.6, 1e-6
    slope = (onp.asarray(f(onp, at + step)) - onp.asarray(f(onp, at - step))) / (2 * step)
    x = dnp.array(at)
    onp.testing.assert_allclose(f(dnp, x).numpy(), f(onp, at), rtol=1e-12, atol=1e-14)
    onp.testing.assert_allclose(func.jacfwd(lambda t: f(dnp, t))(x).numpy(), slope, rtol=1e-6, atol=1e-8)
    onp.testing.assert_allclose(func.jacrev(lambda t: f(dnp, t))(x).numpy(), slope, rtol=1e-6, atol=1e-8)


def test_objects_keep_their_history_and_text_is_refused(x: Any) -> None:
    held = x.astype(object)
    assert isinstance(held, onp.ndarray)
    assert held.dtype == object
    (held[0] * held[1]).backward()
    assert x.grad.tolist() == [2.0, 1.0]
    for make in (lambda t: t.astype(str), lambda t: dnp.asarray(t, dtype="S4"), lambda t: t.view(onp.int64)):
        with pytest.raises((TypeError, RuntimeError), match=r"detach\(\)"):
            make(x)
        make(x.detach())
    assert dnp.asarray(x.detach(), dtype=object).tolist() == [1.0, 2.0]
    assert dnp.asarray(x, dtype=object)[1] is not None


@pytest.mark.parametrize("entry", [lambda t: t.tobytes(), lambda t: t.tofile(io.BytesIO()), lambda t: copy.deepcopy(t * 1.0)])
def test_bytes_and_copies_without_history_are_refused(entry: Any, x: Any) -> None:
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        entry(x)


def test_a_shallow_copy_is_in_the_graph(x: Any) -> None:
    copy.copy(x * 2.0).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    out = func.jvp(lambda t: copy.copy(t * 2.0), (dnp.array([1.0, 2.0]),), (dnp.array([1.0, 0.0]),))
    assert out[1].tolist() == [2.0, 0.0]


def test_explicit_ways_are_open(x: Any, number: Any) -> None:
    assert number.detach().item() == 0.5
    assert x.detach().tolist() == [1.0, 2.0]
    assert f"{number:.2f}" == "0.50"
    assert str(x) == "[1. 2.]"
    assert bool(x[0] < x[1])
    assert 1.0 in x
    assert onp.array2string(x) == "[1. 2.]"


def test_there_are_no_buffers_but_those_of_numpy(x: Any) -> None:
    with pytest.raises(TypeError):
        memoryview(x)
    assert memoryview(x.detach().numpy()).tolist() == [1.0, 2.0]


def test_versions_are_shared_through_numpys_arrays() -> None:
    a = dnp.array([1.0, 2.0])
    for outside in (a.numpy(), onp.asarray(a), onp.asarray(a)[1:]):
        before = a._version
        ndgrad.from_numpy(outside).add_(1.0)
        assert a._version == before + 1


def test_torchs_class_gives_numbers_as_torch_does() -> None:
    t = ndgrad.tensor(0.5, requires_grad=True)
    with pytest.warns(UserWarning, match="requires_grad"):
        assert float(t) == 0.5
    with pytest.raises(RuntimeError, match="detach"):
        onp.asarray(t)


# ----- tensor classes -----------------------------------------------------------------------------------------------------------------


def test_faces_change_without_a_copy() -> None:
    t = ndgrad.tensor([1.0, 4.0], requires_grad=True)
    a = t.array()
    assert type(a) is dnp.Array
    assert a.data_ptr() == t.data_ptr()
    assert type(a.tensor()) is ndgrad.Tensor
    onp.sqrt(a).sum().backward()
    assert t.grad.tolist() == [0.5, 0.25]


def test_arrays_of_arrays_keep_the_graph(number: Any) -> None:
    y = dnp.array([[number, 1.0], [2.0, number * number]])
    y.sum().backward()
    assert number.grad.item() == 2.0


def test_lists_of_arrays_are_stored_in_buffers(number: Any) -> None:
    u = dnp.zeros(3)
    u[:2] = [number, 3.0 * number]
    u[[2]] = [number * number]
    u += [number, 0.0, 0.0]
    u.sum().backward()
    assert number.grad.item() == 1.0 + 3.0 + 1.0 + 1.0


def test_lists_are_operands_of_operators(x: Any) -> None:
    assert (x + [1.0, 2.0]).detach().tolist() == [2.0, 4.0]
    assert ([1.0, 2.0] * x).detach().tolist() == [1.0, 4.0]
    assert (x < (2.0, 2.0)).tolist() == [True, False]


def test_flat_reads_and_writes() -> None:
    v = dnp.array([5.0, 7.0]).requires_grad_()
    u = dnp.zeros((2, 3)).T
    u.flat[1] = v[0]
    u.flat[3:5] = v
    assert onp.array_equal(u, onp.array([[0.0, 5.0], [0.0, 5.0], [7.0, 0.0]]))
    u.sum().backward()
    assert v.grad.tolist() == [2.0, 1.0]
    assert [e.item() for e in dnp.array([[1, 2], [3, 4]]).flat] == [1, 2, 3, 4]
    assert len(u.flat) == 6


# ----- operands beside Arrays ---------------------------------------------------------------------------------------------------


def test_masked_arrays_are_refused(x: Any) -> None:
    masked = onp.ma.masked_array([1.0, 2.0], [True, False])
    for call in (lambda: onp.add(x, masked), lambda: onp.concatenate([x, masked]), lambda: dnp.array(masked), lambda: x + masked):
        with pytest.raises(TypeError, match="filled"):
            call()


def test_matrices_are_refused(x: Any) -> None:
    with pytest.warns(PendingDeprecationWarning):
        matrix = onp.matrix([[1.0, 2.0]])
    for call in (lambda: matrix * x, lambda: onp.dot(matrix, x), lambda: x * matrix):
        with pytest.raises(TypeError, match="numpy.matrix"):
            call()


def test_other_subclasses_are_refused_or_take_over(x: Any) -> None:
    class Tagged(onp.ndarray):
        pass

    with pytest.raises(TypeError, match="Tagged"):
        onp.add(x, onp.ones(2).view(Tagged))

    class Unit:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            return "units"

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return "units"

        def __radd__(self, other: Any) -> Any:
            return "units"

    assert onp.add(x, Unit()) == "units"
    assert onp.concatenate([x, Unit()]) == "units"
    assert x + Unit() == "units"


def test_object_arrays_hold_tensors_but_do_not_mix(x: Any) -> None:
    holder = onp.empty(2, object)
    holder[0], holder[1] = x * 1.0, x * 2.0  # an object array keeps references, graph and all
    assert holder[1].requires_grad
    assert onp.sin(holder)[0].requires_grad  # NumPy calls the elements' own method
    for call in (lambda: onp.add(x, holder), lambda: onp.stack([x, holder]), lambda: dnp.array(holder)):
        with pytest.raises(TypeError, match=r"ndgrad.numpy.(array|stack)"):
            call()


def test_structured_and_other_dtypes_do_not_mix(x: Any) -> None:
    record = onp.zeros(2, [("a", float), ("b", int)])
    for other in (record, onp.array(["a", "b"]), onp.array(["2020-01-01", "2020-01-02"], "M8[D]")):
        with pytest.raises(TypeError, match="dtype|numbers|compute"):
            onp.add(x, other)
    assert type(dnp.array(record)) is onp.ndarray
    assert dnp.unique(onp.array(["b", "a", "b"])).tolist() == ["a", "b"]
    assert dnp.sort(onp.array(["b", "a"])).tolist() == ["a", "b"]
    assert (x + record["a"]).requires_grad


def test_memory_of_every_kind(tmp_path: Any, x: Any) -> None:
    frozen = onp.array([3.0, 4.0])
    frozen.flags.writeable = False
    backwards = onp.array([4.0, 3.0])[::-1]
    swapped = onp.array([3.0, 4.0], ">f8")
    onp.array([3.0, 4.0]).tofile(tmp_path / "numbers")
    mapped = onp.memmap(tmp_path / "numbers", float, "r")
    strided = onp.array([3.0, 0.0, 4.0, 0.0])[::2]
    for other in (frozen, backwards, swapped, mapped, strided):
        (gradient,) = ndgrad.autograd.grad(onp.sum(other * x), x)
        assert gradient.tolist() == [3.0, 4.0]
        constant = dnp.asarray(other)
        assert type(constant) is dnp.Array
        assert constant.dtype == onp.float64
        (gradient,) = ndgrad.autograd.grad(onp.dot(x, constant), x)
        assert gradient.tolist() == [3.0, 4.0]
    with pytest.raises(RuntimeError, match="read-only"):
        dnp.asarray(frozen)[0] = 1.0
    with pytest.raises(RuntimeError, match="read-only"):
        dnp.asarray(mapped)[0] = 1.0


def test_numpy_scalars_promote_as_in_numpy() -> None:
    single = dnp.array([1.0], onp.float32)
    assert (single * onp.float64(2)).dtype == onp.float64
    assert (onp.float64(2) * single).dtype == onp.float64
    assert (single * 2.0).dtype == onp.float32
    assert (onp.float32(2) * single).dtype == onp.float32
    assert type(onp.float64(2) * single) is dnp.Array


def test_tensors_of_other_libraries_are_refused(x: Any) -> None:
    class Foreign:
        shape, dtype = (2,), "theirs"

    with pytest.raises(TypeError):
        onp.add(x, Foreign())
    with pytest.raises(TypeError):
        onp.concatenate([x, Foreign()])


def test_priority_and_wrap(x: Any) -> None:
    assert type(onp.ones(2) * x) is dnp.Array
    wrapped = x.__array_wrap__(onp.ones(2))
    assert type(wrapped) is dnp.Array
    assert not wrapped.requires_grad


def test_like_makes_arrays(x: Any) -> None:
    for made in (
        onp.zeros(2, like=x), onp.array([1.0, 2.0], like=x), onp.arange(3, like=x), onp.eye(2, like=x), onp.full(2, 1.0, like=x),
        onp.asarray([1], like=x), onp.ones(2, like=x), onp.empty(2, like=x), onp.identity(2, like=x), onp.fromiter([1, 2], int, like=x),
    ):  # fmt: skip
        assert type(made) is dnp.Array


# ----- DLPack ----------------------------------------------------------------------------------------------------------------------


def test_dlpack_shares_memory_both_ways() -> None:
    plain = onp.arange(3.0)
    t = ndgrad.from_dlpack(plain)
    t += 1.0
    assert plain.tolist() == [1.0, 2.0, 3.0]
    back = onp.from_dlpack(t)
    if back.flags.writeable:  # from NumPy 2.1 on
        back[0] = 9.0
        assert t.tolist() == [9.0, 2.0, 3.0]
    assert type(dnp.from_dlpack(plain)) is dnp.Array
    assert t.__dlpack_device__() == (1, 0)


def test_dlpack_copies_when_asked_and_refuses_what_it_cannot_take() -> None:
    plain = onp.arange(3.0)
    assert ndgrad.from_dlpack(plain, copy=True).data_ptr() != plain.ctypes.data
    with pytest.raises(RuntimeError, match="__dlpack__"):
        ndgrad.from_dlpack([1.0])
    with pytest.raises(BufferError, match="vmap"):
        ndgrad.func.vmap(lambda v: v.__dlpack__())(ndgrad.ones(2))
    with pytest.raises(BufferError, match="meta"):
        ndgrad.ones(2, device="meta").__dlpack__()
