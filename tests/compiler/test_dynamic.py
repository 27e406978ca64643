"""Calls with tensors of other sizes: the results of eager code for any use of a size in Python, and shared machine
code.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import func
from ndgrad._src.compiler.lower import templates
from ndgrad._src.compiler.lower.templates import numbers_of, varies, with_parameters

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the modules that a test compiles. The cache is empty at the start."""
    compiled: list[str] = []

    class Counted(templates.Code):
        def __init__(self, text: str, *args: Any, **kwargs: Any) -> None:
            compiled.append(text)
            super().__init__(text, *args, **kwargs)

    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)
    monkeypatch.setattr(templates, "Code", Counted)
    monkeypatch.setattr(templates, "_families", type(templates._families)())
    return compiled


W = ndgrad.tensor(np.linspace(-1.0, 1.0, 15).reshape(3, 5), requires_grad=True)


def layer(x: Any) -> Any:
    return (x @ W).tanh().mean()


def by_size(x: Any) -> Any:
    """The behaviour depends on a size in a way that two sizes do not show."""
    n = x.shape[0]
    y = x * n if n > 10 else x / (n * n)
    return (y[: n // 2].sum() + y[n // 2] ** 2).sum() if n % 7 else y.sum()


def rows(x: Any) -> Any:
    u = x[0]
    for i in range(1, x.shape[0]):
        u = (u * 0.5 + x[i]).sin()
    return u.sum()


def softmax(x: Any) -> Any:
    return (x.T.softmax(1) * x.T.cumsum(1)).sum(1).square().sum()


def of_size(n: int) -> Any:
    return ndgrad.tensor(np.cos(np.arange(3.0 * n)).reshape(n, 3), requires_grad=True)


def agrees(compiled: Any, f: Any, n: int) -> None:
    found = []
    for g in (compiled, f):
        x = of_size(n)
        y = g(x)
        (dx,) = ndgrad.autograd.grad(y, x)
        found.append((y.detach().numpy(), dx.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


SIZES = (12, 13, 25, 1, 14, 7)


@pytest.mark.parametrize(("f", "dynamic"), [(layer, None), (by_size, True), (softmax, True)])
def test_every_size_gives_what_eager_code_gives(f: Any, dynamic: bool | None) -> None:
    compiled = ndgrad.compile(f, fullgraph=True, dynamic=dynamic)
    for n in SIZES:
        agrees(compiled, f, n)
    assert compiled.traces == len(SIZES)
    assert compiled.resized == len(SIZES) - 1


@pytest.mark.parametrize(("dynamic", "most"), [(None, 2), (True, 1)])
def test_code_is_compiled_for_the_second_size_and_then_shared(
    dynamic: bool | None, most: int, modules: list[str]
) -> None:
    with ndgrad.no_grad():
        compiled = ndgrad.compile(layer, fullgraph=True, dynamic=dynamic)
        for n in (24, 25, 26, 40, 31, 57):
            np.testing.assert_allclose(compiled(of_size(n)).numpy(), layer(of_size(n)).numpy(), rtol=1e-13)
    assert len(modules) <= most


def test_without_dynamic_sizes_each_has_its_code(modules: list[str]) -> None:
    compiled = ndgrad.compile(layer, fullgraph=True, dynamic=False)
    with ndgrad.no_grad():
        for n in (24, 25, 26):
            compiled(of_size(n))
    assert len(modules) == 3
    assert not any("%p0" in text for text in modules)


def test_loops_of_any_number_of_rounds_share_their_code(modules: list[str]) -> None:
    compiled = ndgrad.compile(func.grad(rows), dynamic=True)
    for n in (20, 22, 30, 26):
        np.testing.assert_allclose(
            compiled(of_size(n).detach()).numpy(), func.grad(rows)(of_size(n).detach()).numpy(), rtol=1e-12
        )
    assert len(modules) <= 2


def test_more_sizes_are_kept_than_other_kinds_of_calls() -> None:
    compiled = ndgrad.compile(lambda x: x * 2, fullgraph=True)
    with ndgrad.no_grad():
        for _ in range(2):
            for n in range(2, 22):
                compiled(of_size(n))
    assert compiled.traces == 20


MODULE = """declare i64 @llvm.smin.i64(i64, i64)
define void @kernel(ptr %table, i64 %begin) {
entry:
  %r1 = getelementptr ptr, ptr %table, i64 3
  %r2 = load ptr, ptr %r1, align 8
  %r3 = alloca [16 x double], align 64
  br label %head
head:
  %i = phi i64 [16, %entry], [%r5, %head]
  %r4 = mul i64 %i, 48
  %r5 = call i64 @llvm.smin.i64(i64 %r4, i64 16)
  %r6 = fdiv double %x, 0x4030000000000000
  %r7 = fmul <4 x double> %v, splat (double 0x3FB0000000000000)
  %r8 = extractelement <4 x double> %r7, i64 3
  %r9 = icmp slt i64 %r5, -16
  br i1 %r9, label %head, label %after
after:
  ret void
}
define double @maths(double %x) {
  %r1 = add i64 %x, 16
  ret double %x
}
"""


def test_a_module_is_a_skeleton_and_numbers() -> None:
    skeleton, numbers = numbers_of(MODULE)
    assert [n.text for n in numbers] == [
        "3", "16", "48", "16", "0x4030000000000000", "splat (double 0x3FB0000000000000)", "-16",
    ]  # fmt: skip
    assert [n.bits for n in numbers[:4]] == [3, 16, 48, 16]
    assert [np.int64(n.bits).view(np.float64) for n in numbers[4:6]] == [16.0, 0.0625]
    assert "alloca [16 x double]" in skeleton
    assert "add i64 %x, 16" in skeleton  # a place that allows no parameters
    assert [n.varies(frozenset([16])) for n in numbers] == [False, True, True, True, True, True, True]
    assert not varies(0, frozenset([16]))


def test_chosen_numbers_are_read_from_memory() -> None:
    _, numbers = numbers_of(MODULE)
    lines = with_parameters(MODULE, numbers, [1, 5]).splitlines()
    at = lines.index("entry:")
    assert lines[at + 1 : at + 3] == [
        "  %parameter.slot = getelementptr ptr, ptr %table, i64 -1", "  %parameters = load ptr, ptr %parameter.slot",
    ]  # fmt: skip
    assert "  %p0 = load i64, ptr %a0" in lines
    assert "  %i = phi i64 [%p0, %entry], [%r5, %head]" in lines
    assert "  %r7 = fmul <4 x double> %v, %p1" in lines
    assert "  %r4 = mul i64 %i, 48" in lines


def test_a_number_in_every_lane_stays_in_the_text() -> None:
    """`splat (i64 31)` is syntax for constants only; it cannot contain a register."""

    def f(x: Any) -> Any:
        return x.gather(0, x.long() % 31)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a failure of code generation would warn
        x = ndgrad.linspace(-40, 40, 31).requires_grad_()
        for function in (f, ndgrad.compile(f, dynamic=True)):
            (g,) = ndgrad.autograd.grad((function(x) ** 2).sum(), x)
            np.testing.assert_array_equal(g.numpy(), (2 * x * ndgrad.bincount(x.long() % 31, minlength=31)).detach().numpy())
