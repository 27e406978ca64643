"""Complex numbers by parts: before and after, and that both compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tests.op_programs  # noqa: F401  # which loads all ops
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.complex_parts import split_complex_values
from ndgrad._src.compiler.passes.complex_walk import has_complex
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.program.compiler_ops import as_complex, as_pairs
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.program.text import parse_program


def given_to(program: Program) -> list[Any]:
    random = np.random.default_rng(4)
    arrays = [np.asarray(random.integers(-3, 4, (2, *v.shape)) / 2) for v in program.inputs]
    return [(a[0] + 1j * a[1] if v.dtype.kind == "c" else a[0]).astype(v.dtype) for v, a in zip(program.inputs, arrays, strict=True)]


def same(program: Program, parts: Program) -> None:
    """A program gives what it gives by parts, whose complex inputs and outputs are pairs."""
    parts.check()
    assert not has_complex(parts)
    given = given_to(program)
    found = Replay(parts)([as_pairs(a) if a.dtype.kind == "c" else a for a in given])
    for a, b in zip(found, Replay(program)(given), strict=True):
        a = as_complex(a) if b.dtype.kind == "c" else a
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-14)


def becomes(before: str, after: str) -> None:
    program = parse_program(before)
    parts = remove_dead_code(split_complex_values(program))
    same(program, parts)
    assert str(parts) == str(parse_program(after)), f"\n{parts}"


def test_a_product_is_two_of_its_parts():
    becomes(
        """program p(%0: complex128[3], %1: complex128[3])
  %2: complex128[3] = mul(%0, %1)
  return %2
""",
        """program p(%0: float64[3,2], %1: float64[3,2])
  %2: float64[3] = getitem(%0, index=(slice(0, 3, 1), 0))
  %3: float64[3] = getitem(%0, index=(slice(0, 3, 1), 1))
  %4: float64[3] = getitem(%1, index=(slice(0, 3, 1), 0))
  %5: float64[3] = getitem(%1, index=(slice(0, 3, 1), 1))
  %6: float64[3] = mul(%3, %5)
  %7: float64[3] = neg(%6)
  %8: float64[3] = muladd(%2, %4, %7)
  %9: float64[3] = mul(%3, %4)
  %10: float64[3] = muladd(%2, %5, %9)
  %11: float64[3,2] = stack(%8, %10, dim=1)
  return %11
""",
    )


def test_a_part_that_nobody_reads_is_not_computed():
    becomes(
        """program p(%0: complex64[3])
  %1: complex64[3] = conj(%0)
  %2: complex64[3] = add(%1, %0)
  %3: float32[3] = real(%2)
  %4: float32[] = sum_all(%3, dtype=None)
  return %4
""",
        """program p(%0: float32[3,2])
  %1: float32[3] = getitem(%0, index=(slice(0, 3, 1), 0))
  %2: float32[3] = add(%1, %1)
  %3: float32[] = sum_all(%2, dtype=None)
  return %3
""",
    )


def test_a_real_operand_has_a_zero_for_its_imaginary_part():
    becomes(
        """program p(%0: complex128[3], %1: float64[3])
  %2: complex128[3] = mul(%0, %1)
  return %2
""",
        """program p(%0: float64[3,2], %1: float64[3])
  %2: float64[3] = getitem(%0, index=(slice(0, 3, 1), 0))
  %3: float64[3] = getitem(%0, index=(slice(0, 3, 1), 1))
  %4: float64[3] = mul(%3, 0.0)
  %5: float64[3] = neg(%4)
  %6: float64[3] = muladd(%2, %1, %5)
  %7: float64[3] = mul(%3, %1)
  %8: float64[3] = muladd(%2, 0.0, %7)
  %9: float64[3,2] = stack(%6, %8, dim=1)
  return %9
""",
    )


def test_an_op_without_parts_is_given_pairs():
    becomes(
        """program p(%0: complex128[4])
  %1: complex128[4] = fft_c2c(%0, dims=(0,), scale='none', inverse=False)
  %2: float64[4] = real(%1)
  return %1, %2
""",
        """program p(%0: float64[4,2])
  %1: float64[4,2] = interleaved(%0, op='fft_c2c', given=(0,), made=(0,), dims=(0,), scale='none', inverse=False)
  %2: float64[4] = getitem(%1, index=(slice(0, 4, 1), 0))
  return %1, %2
""",
    )


def test_views_of_memory_as_pairs_are_that_memory():
    becomes(
        """program p(%0: complex128[4,3])
  %1: float64[4,3,2] = view_as_real(%0)
  %2: complex128[12] = reshape(%0, shape=(12,))
  %3: complex128[4] = getitem(%0, index=(slice(0, 4, 1), 1))
  %4: complex128[4,3] = view_as_complex(%1)
  return %1, %2, %3, %4
""",
        """program p(%0: float64[4,3,2])
  %1: float64[12,2] = reshape(%0, shape=(12, 2))
  %2: float64[4,2] = getitem(%0, index=(slice(0, 4, 1), 1, slice(0, 2, 1)))
  return %0, %1, %2, %0
""",
    )


def test_a_matrix_is_multiplied_where_it_lies():
    places = tuple((slice(0, 3, 1), row, slice(0, 2, 1), column) for row in (0, 1) for column in (0, 1))
    becomes(
        """program p(%0: complex128[4,3], %1: complex128[3,2])
  %2: complex128[4,2] = matmul(%0, %1)
  return %2
""",
        f"""program p(%0: float64[4,3,2], %1: float64[3,2,2])
  %2: float64[4,6] = reshape(%0, shape=(4, 6))
  %3: float64[3,2] = getitem(%1, index=(slice(0, 3, 1), slice(0, 2, 1), 0))
  %4: float64[3,2] = getitem(%1, index=(slice(0, 3, 1), slice(0, 2, 1), 1))
  %5: float64[3,2] = neg(%4)
  %6: float64[3,2,2,2] = assembled(%3, %4, %5, %3, shape=(3, 2, 2, 2), index={places})
  %7: float64[6,4] = reshape(%6, shape=(6, 4))
  %8: float64[4,4] = matmul(%2, %7)
  %9: float64[4,2,2] = reshape(%8, shape=(4, 2, 2))
  return %9
""",
    )


def test_the_carried_values_of_a_loop_are_pairs():
    becomes(
        """program p(%0: complex128[3], %1: complex128[5,3])
  %2: complex128[3] = loop(%0, %1, count=5, carried=1, invariant=0, reads=((0, 1),), last=0)
    program body(%0: complex128[3], %1: complex128[3])
      %2: complex128[3] = sub(%0, %1)
      return %2
  return %2
""",
        """program p(%0: float64[3,2], %1: float64[5,3,2])
  %2: float64[3,2] = loop(%0, %1, count=5, carried=1, invariant=0, reads=((0, 1),), last=0)
    program body(%0: float64[3,2], %1: float64[3,2])
      %2: float64[3] = getitem(%0, index=(slice(0, 3, 1), 0))
      %3: float64[3] = getitem(%0, index=(slice(0, 3, 1), 1))
      %4: float64[3] = getitem(%1, index=(slice(0, 3, 1), 0))
      %5: float64[3] = getitem(%1, index=(slice(0, 3, 1), 1))
      %6: float64[3] = sub(%2, %4)
      %7: float64[3] = sub(%3, %5)
      %8: float64[3,2] = stack(%6, %7, dim=1)
      return %8
  return %2
""",
    )


@pytest.mark.parametrize("shapes", [((4, 3), (3, 2)), ((2, 3), (3, 5)), ((3,), (3,)), ((3,), (3, 5)), ((4, 3), (3,)), ((7, 2, 3), (3, 4)),
                                    ((2, 3), (7, 3, 4)), ((5, 1, 2, 3), (7, 3, 4)), ((1, 3), (3, 1))])  # fmt: skip
@pytest.mark.parametrize("how", ["plain", "conj", "transposed", "adjoint"])
@pytest.mark.parametrize("which", [0, 1])
def test_products_of_matrices_as_they_are_transposed_and_conjugated(shapes: Any, how: str, which: int) -> None:
    shapes = [list(s) for s in shapes]
    if how in ("transposed", "adjoint"):
        if len(shapes[which]) < 2:
            pytest.skip("a vector has no transpose")
        shapes[which][-2:] = shapes[which][:-3:-1]
    types = [f"complex128[{','.join(map(str, s))}]" for s in shapes]
    lines, names = [], ["%0", "%1"]
    source, shape = names[which], shapes[which]
    for op in {"plain": [], "conj": ["conj"], "transposed": ["permute"], "adjoint": ["conj", "permute"]}[how]:
        number = f"%{2 + len(lines)}"
        n = len(shape)
        settings = f", dims={(*range(n - 2), n - 1, n - 2)}" if op == "permute" else ""
        shape = [*shape[:-2], shape[-1], shape[-2]] if op == "permute" else shape
        lines.append(f"  {number}: complex128[{','.join(map(str, shape))}] = {op}({source}{settings})")
        source = number
    names[which], shapes[which] = source, shape
    out = np.matmul(*[np.zeros(s) for s in shapes]).shape
    number = f"%{2 + len(lines)}"
    lines.append(f"  {number}: complex128[{','.join(map(str, out))}] = matmul({names[0]}, {names[1]})")
    program = parse_program("\n".join([f"program p(%0: {types[0]}, %1: {types[1]})", *lines, f"  return {number}\n"]))
    same(program, simplify_program(split_complex_values(program)))
