"""Waves: steps that run at once do not need each other, and what they give is what they give one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import Tensor, nn, optim
from ndgrad.nn import functional as F

pytest.importorskip("llvmlite")

from ndgrad._src.arrays import threads
from ndgrad._src.compiler.lower.accounting import ops_of
from ndgrad._src.compiler.lower.grouping import group_instructions
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.parallel_steps import form_waves
from ndgrad._src.compiler.lower.products import Product
from ndgrad._src.compiler.lower.steps import Kernel, Step
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.compiler.program.text import parse_program
from ndgrad._src.compiler.runtime import plan
from tests.compiler.lower.test_native_programs import assert_close, failures_are_errors
from tests.compiler.traced import arrays_for, random_function, run, traced

assert failures_are_errors  # a fixture that every test here uses

RNG = np.random.default_rng(4)


def show(text: str) -> str:
    """The waves of a program, a line for each."""
    program = parse_program(text)
    found = form_waves(group_instructions(program).steps, {})
    defined = program.definitions()
    return "\n".join(" | ".join(" ".join(ops_of(step, defined)) for step in wave) for wave in found)


def test_products_that_do_not_need_each_other_run_at_once() -> None:
    text = """
program gradients(%0: float32[64,32], %1: float32[64,16], %2: float32[16,32])
  %3: float32[16,64] = permute(%1, dims=(1, 0))
  %4: float32[16,32] = matmul(%3, %0)
  %5: float32[64,32] = matmul(%1, %2)
  %6: float32[64,32] = sin(%5)
  %7: float32[32,64] = permute(%6, dims=(1, 0))
  %8: float32[32,16] = matmul(%7, %1)
  return %4, %8
"""
    assert show(text) == "matmul | matmul\nsin\nmatmul"


def conflicts(a: Step, b: Step, memory: dict[Value, Value]) -> bool:
    """Whether one of two steps writes what the other touches."""
    assert isinstance(a, (Kernel, Product))
    assert isinstance(b, (Kernel, Product))
    writes = [{memory.get(v, v) for v in s.written_values()} for s in (a, b)]
    touches = [{memory.get(v, v) for v in s.touched()} for s in (a, b)]
    return bool(writes[0] & touches[1] or writes[1] & touches[0])


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_on_two_threads(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "max_threads", 2)
    monkeypatch.setattr("ndgrad._src.compiler.lower.module_assembly._SHARED_WAVE", 0)
    function, arrays = random_function(seed)
    program = traced(function, arrays)
    made = NativeProgram(simplify_program(program))
    steps = [step for wave in made.waves for step in wave]
    assert steps == made.groups.steps
    for wave in made.waves:
        for n, a in enumerate(wave):
            assert not any(conflicts(a, b, made.in_place.inputs) for b in wave[:n])
    given = arrays_for(program, arrays)
    with np.errstate(all="ignore"):
        found, expected = made(given), run(program, given)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * float(np.abs(np.nan_to_num(b)).max(initial=1.0)))


def test_sums_of_pieces_of_kernels_that_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has memory of its own for them."""
    monkeypatch.setattr(threads, "max_threads", 2)

    def f(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return x.sin().sum(0), y.exp().sum(0), (z * 2).sum(), (y * 3).sum()

    arrays = [RNG.standard_normal((4000, n)) for n in (33, 70, 41)]
    program = traced(f, arrays, False)
    made = NativeProgram(simplify_program(program))
    assert max(len(wave) for wave in made.waves) >= 3
    given = arrays_for(program, arrays)
    for _ in range(3):
        assert_close(made(given), run(program, given), 4000)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("make", [optim.AdamW, lambda p: optim.SGD(p, momentum=0.9)], ids=["adamw", "momentum"])
def test_updates_of_all_parameters_are_one_wave(make: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "max_threads", count)
    monkeypatch.setattr(plan, "LARGE_WRITE", 0)

    def parameters() -> list[Any]:
        rng = np.random.default_rng(0)
        sizes = [50_001 if i == 3 else 3000 + 7 * (i % 5) for i in range(20)]
        made = [ndgrad.tensor(rng.standard_normal(n), requires_grad=True) for n in sizes]
        for p in made:
            p.grad = ndgrad.tensor(rng.standard_normal(p.shape))
        return made

    ours, theirs = parameters(), parameters()
    a, b = make(ours), make(theirs)
    compiled = ndgrad.compile(a.step)
    for _ in range(4):
        compiled()
        b.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)
    made = [entry.specialisation for entry in compiled.entries if entry.specialisation is not None][-1].plan.run_forward.executable
    assert len(made.in_place.inputs) >= 40
    assert len(made.waves) <= 3


def test_a_training_step_on_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "max_threads", 2)
    monkeypatch.setattr(plan, "LARGE_WRITE", 0)
    rng = np.random.default_rng(1)
    x, y = ndgrad.tensor(rng.standard_normal((64, 96))), ndgrad.tensor(rng.integers(0, 5, 64))

    def trained(compile: bool) -> list[Any]:
        ndgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(96, 80), nn.GELU(), nn.LayerNorm(80), nn.Linear(80, 5)).double()
        optimizer = optim.AdamW(model.parameters(), lr=0.01)

        def step() -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run_step = ndgrad.compile(step) if compile else step
        losses = [run_step().item() for _ in range(5)]
        return [np.array(losses), *[p.detach().numpy() for p in model.parameters()]]

    for a, b in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
