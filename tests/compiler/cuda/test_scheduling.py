"""The order of instructions on a device, what is computed again, and what the host computes."""

from __future__ import annotations

import numpy as np

import ndgrad.nn.functional as F
from ndgrad._src.compiler.cuda.device_split import split_by_device
from ndgrad._src.compiler.cuda.expand import expand_program
from ndgrad._src.compiler.cuda.fusion import DEVICE
from ndgrad._src.compiler.cuda.scheduling import schedule_program
from ndgrad._src.compiler.lower.grouping import group_instructions
from ndgrad._src.compiler.lower.steps import Kernel
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import traced


def draw(*shapes):
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def network(x, w, v):
    return F.gelu(F.layer_norm(x, (16,)) @ w) @ v


def results(program, arrays):
    ones = [np.cos(np.arange(v.size)).reshape(v.shape).astype(v.dtype) for v in program.inputs[len(arrays) :]]
    return Replay(program)([*arrays, *ones])


def test_a_scheduled_program_gives_what_the_program_gives():
    arrays = draw((64, 16), (16, 32), (32, 8))
    program = simplify_program(traced(network, arrays))
    plain, checks = expand_program(program)
    assert not checks
    for got, want in zip(results(plain, arrays), results(program, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_what_is_elementwise_is_computed_again_by_who_reads_it():
    arrays = draw((64, 16), (16, 32), (32, 8))
    plain, _ = expand_program(simplify_program(traced(network, arrays)))
    kernels = [step for step in group_instructions(plain, DEVICE).steps if isinstance(step, Kernel)]
    slopes = [k for k in kernels if any(i.instruction.op.name == "gelu_slope" for i in k.items)]
    assert len(slopes) == 1
    assert not any(i.instruction.op.name == "gelu" for i in slopes[0].items)  # gelu itself runs in forward
    assert not any(v.nbytes == 64 * 32 * 4 and k is not slopes[0] for k in kernels[:1] for v in k.stores)


def test_indices_come_first():
    program = parse_program(
        """program p(%0: float32[8,4], %1: int64[8])
  %2: float32[8,4] = exp(%0)
  %3: bool[8] = gt(%1, 2)
  %4: float32[8] = sum(%2, dim=(1,), keepdim=False, dtype=None)
  %5: float32[8] = keep(%4, %3)
  return %5
"""
    )
    assert [i.op.name for i in schedule_program(program).instructions] == ["gt", "exp", "sum", "keep"]


def test_the_host_computes_what_depends_on_it_alone():
    program = parse_program(
        """program p(%0: float32[4], %1: float32[])
  %2: float32[] = add(%1, 1.0)
  %3: float64[] = cast(%2, dtype=float64)
  %4: float32[4] = mul(%0, %2)
  return %4, %2, %3
"""
    )
    parts = split_by_device(program, [False, True])
    assert parts.host is not None
    assert [i.op.name for i in parts.host.instructions] == ["add", "cast"]
    assert [i.op.name for i in parts.device.instructions] == ["mul"]
    assert parts.crossing == [program.instructions[0].result]
    assert isinstance(parts.device, Program)
    assert len(parts.device.outputs) == 1
