"""Chains: which steps go through a batch together, and that what they give is what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad import Tensor
from ndgrad.nn import functional as F

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.lower.accounting import ops_of
from ndgrad._src.compiler.lower.chains import form_chains
from ndgrad._src.compiler.lower.grouping import group_instructions
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.steps import Chain, Step
from ndgrad._src.compiler.native.target import host
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.lower.test_native_programs import assert_close, failures_are_errors, native
from tests.compiler.traced import run

assert failures_are_errors  # a fixture that every test here uses

RNG = np.random.default_rng(3)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def show(steps: list[Step], program: Program) -> str:
    """Steps as text: a line for each, those of a chain after its extent."""
    lines = []
    for step in steps:
        if isinstance(step, Chain):
            inside = [" ".join(ops_of(s, program.definitions())) for s in step.steps]
            lines.append(f"chain of {step.extent}: {'; '.join(inside)}")
        else:
            lines.append(" ".join(ops_of(step, program.definitions())))
    return "\n".join(lines)


def before_and_after(text: str) -> tuple[str, str]:
    program = parse_program(text)
    steps = group_instructions(program).steps
    return show(steps, program), show(form_chains(steps, host()), program)


ATTENTION = """
program attention(%0: float32[16,64,64], %1: float32[16,64,64], %2: float32[16,64,64])
  %3: float32[16,64,64] = matmul(%0, %1)
  %4: float32[16,64] = amax(%3, dim=2, keepdim=False)
  %5: float32[16,64,1] = reshape(%4, shape=(16, 64, 1))
  %6: float32[16,64,64] = sub(%3, %5)
  %7: float32[16,64,64] = exp(%6)
  %8: float32[16,64,64] = matmul(%7, %2)
  return %8
"""


def test_products_and_rows_of_a_batch_are_one_chain() -> None:
    before, after = before_and_after(ATTENTION)
    assert before == "matmul\namax sub exp\nmatmul"
    assert after == "chain of 16: matmul; amax sub exp; matmul"


@pytest.mark.parametrize(
    ("between", "after"),
    [
        pytest.param("getitem(%3, index=(slice(None, None, -1),))", "matmul\nmatmul", id="other indices are read"),
        pytest.param("permute(%3, dims=(1, 0, 2))", "matmul\nmatmul", id="parts of all indices are read"),
        pytest.param("permute(%3, dims=(0, 2, 1))", "chain of 64: matmul; matmul", id="the same index, transposed"),
    ],
)
def test_an_index_reads_its_own_part_alone(between: str, after: str) -> None:
    text = f"""
program f(%0: float32[64,64,64], %1: float32[64,64,64], %2: float32[64,64,64])
  %3: float32[64,64,64] = matmul(%0, %1)
  %4: float32[64,64,64] = {between}
  %5: float32[64,64,64] = matmul(%4, %2)
  return %5
"""
    assert before_and_after(text)[1] == after
    program = parse_program(text)
    arrays = [normal(64, 64, 64, dtype=np.float32) for _ in range(3)]
    assert_close(NativeProgram(program)(arrays), run(program, arrays), 2000)


def test_small_work_and_small_batches_are_no_chains() -> None:
    for small in ("2,64,64", "16,4,4"):
        _, after = before_and_after(ATTENTION.replace("16,64,64", small).replace("16,64", small[: small.rindex(",")])
                                    .replace("(16, 64, 1)", str((*map(int, small.split(",")[:2]), 1))))  # fmt: skip
        assert after == "matmul\namax sub exp\nmatmul"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("batch", "heads", "queries", "keys"), [(4, 4, 33, 33), (9, 1, 80, 17), (8, 3, 1, 200)])
def test_attention_and_its_gradients_are_chains(
    batch: int, heads: int, queries: int, keys: int, causal: bool, dtype: Any
) -> None:
    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return (out.transpose(1, 2).reshape(batch, queries, heads * 16) ** 2).sum()

    shapes = (batch, heads, queries, 16), (batch, heads, keys, 16), (batch, heads, keys, 16)
    made, _ = native(f, *[normal(*s, dtype=dtype) for s in shapes])
    chains = [step for step in made.groups.steps if isinstance(step, Chain)]
    assert len(chains) >= (2 if queries > 1 else 0)  # a single query is little work


def test_one_projection_for_queries_keys_and_values() -> None:
    """Gradients of the three are put into parts of one array, which lie between one another."""

    def f(qkv: Tensor, scale: Tensor) -> Tensor:
        q, k, v = (qkv * scale).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).cos().sum()

    made, _ = native(f, normal(8, 32, 3, 2, 16), normal(32, 3, 2, 16))
    assert sum(isinstance(step, Chain) for step in made.groups.steps) >= 2


def test_a_chain_is_the_same_on_any_number_of_threads() -> None:
    program = parse_program(ATTENTION)
    arrays = [normal(16, 64, 64) for _ in range(3)]
    one, two = (NativeProgram(program, threads=n)(arrays)[0] for n in (1, 2))
    assert np.array_equal(one, two)
