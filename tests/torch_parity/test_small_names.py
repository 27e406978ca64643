"""Names that libraries ask for outside of computations: symbolic numbers, complex32, checks, `.data` of results."""

from __future__ import annotations

import pytest
import torch

import ndgrad

NUMBERS = [
    lambda library: library.sym_max(3, 2.0),
    lambda library: library.sym_max(True, 2),
    lambda library: library.sym_min(3, 4),
    lambda library: library.sym_min(3.0, 4),
    lambda library: library.sym_int(-2.5),
    lambda library: library.sym_int(library.tensor(3.5)),
    lambda library: library.sym_float(2),
    lambda library: library.sym_not(3),
    lambda library: library.sym_sqrt(4),
    lambda library: library.sym_sum([1, 2]),
    lambda library: library.sym_ite(True, 1, 2),
    lambda library: isinstance(library.ones(2).shape[0], library.SymInt),
    lambda library: [isinstance(1.0, c) for c in (library.SymInt, library.SymFloat, library.SymBool)],
]


@pytest.mark.parametrize("call", NUMBERS)
def test_functions_of_symbolic_numbers(call):
    expected, found = call(torch), call(ndgrad)
    assert (expected, type(expected)) == (found, type(found))


@pytest.mark.parametrize("name", "bool uint8 int64 float16 bfloat16 float32 float64 complex64 complex128 complex32".split())
def test_promotion_with_complex32(name):
    for order in ((name, "complex32"), ("complex32", name)):
        expected = torch.promote_types(*(getattr(torch, n) for n in order))
        assert str(expected).rpartition(".")[2] == ndgrad.promote_types(*(getattr(ndgrad, n) for n in order)).name


def test_complex32_is_a_name_without_data():
    d, theirs = ndgrad.complex32, torch.complex32
    assert (d.itemsize, d.is_complex, d.is_floating_point, d.is_signed) == (theirs.itemsize, theirs.is_complex, False, True)
    assert d.to_real() is ndgrad.float16
    assert d is ndgrad.chalf
    assert len({d, ndgrad.complex64, ndgrad.complex128}) == 3
    for make in (lambda: ndgrad.zeros(2, dtype=d), lambda: ndgrad.ones(2).to(d), lambda: ndgrad.tensor([1j], dtype=d)):
        with pytest.raises(TypeError, match="Use ndgrad.complex64"):
            make()


@pytest.mark.parametrize("value", [1, 0, 0.0, 2.5, True, False, [1], [0], [], [1, 2]], ids=str)
def test_assert_async(value):
    def outcome(library):
        try:
            return library._assert_async(library.tensor(value), "text")
        except RuntimeError as error:
            return str(error)[:40]

    assert outcome(torch) == outcome(ndgrad)


@pytest.mark.parametrize("op", ["exp", "tanh", "sqrt", "sigmoid", "mul"])
def test_data_of_a_result_replaces_what_later_ops_read(op):
    def gradient(library):
        x = library.tensor([0.5, 2.0], dtype=library.float64, requires_grad=True)
        y = x * 2 if op == "mul" else getattr(x, op)()
        y.data = library.tensor([3.0, 4.0], dtype=library.float64)
        (y * y).sum().backward()
        return y.tolist(), x.grad.tolist()

    (y, expected), (z, found) = gradient(torch), gradient(ndgrad)
    assert y == z
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_write_after_the_assignment_is_still_detected():
    x = ndgrad.ones(2, requires_grad=True)
    y = x.exp()
    kept = y.detach()
    y.data = ndgrad.zeros(2)
    kept.zero_()  # the memory that exp has saved
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
