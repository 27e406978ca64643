"""Products of groups, against a loop over the groups."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad.nn.functional import grouped_mm

RNG = np.random.default_rng(0)
ENDS = [2, 2, 5]


def offsets(ends: list[int]) -> ndgrad.Tensor:
    return ndgrad.tensor(ends, dtype=ndgrad.int32)


def groups() -> list[slice]:
    return [slice(start, end) for start, end in zip([0, *ENDS[:-1]], ENDS, strict=True)]


def test_rows_columns_and_the_common_dimension_have_groups() -> None:
    rows, matrices = RNG.standard_normal((6, 4)), RNG.standard_normal((3, 4, 2))
    made = grouped_mm(ndgrad.tensor(rows), ndgrad.tensor(matrices), offs=offsets(ENDS))
    expected = np.concatenate([*[rows[part] @ m for part, m in zip(groups(), matrices, strict=True)], np.zeros((1, 2))])
    np.testing.assert_allclose(made.numpy(), expected)

    batch, columns = RNG.standard_normal((3, 2, 4)), RNG.standard_normal((4, 6))
    made = grouped_mm(ndgrad.tensor(batch), ndgrad.tensor(columns), offs=offsets(ENDS))
    expected = np.concatenate([m @ columns[:, part] for part, m in zip(groups(), batch, strict=True)], axis=1)
    np.testing.assert_allclose(made.numpy(), np.pad(expected, ((0, 0), (0, 1))))

    left, right = RNG.standard_normal((2, 6)), RNG.standard_normal((6, 3))
    made = grouped_mm(ndgrad.tensor(left), ndgrad.tensor(right), offs=offsets(ENDS))
    np.testing.assert_allclose(made.numpy(), np.stack([left[:, part] @ right[part] for part in groups()]))


def test_gradients_reach_both_operands() -> None:
    x = ndgrad.tensor(RNG.standard_normal((6, 4)), requires_grad=True)
    w = ndgrad.tensor(RNG.standard_normal((3, 4, 2)), requires_grad=True)
    assert ndgrad.autograd.gradcheck(lambda x, w: grouped_mm(x, w, offs=offsets(ENDS)), (x, w))


@pytest.mark.parametrize("ends", [[2, 1, 5], [2, 2, 7], [2, 2]])
def test_bad_ends_are_refused(ends: list[int]) -> None:
    with pytest.raises(RuntimeError, match="groups must not decrease|batch sizes have to match"):
        grouped_mm(ndgrad.ones(6, 4), ndgrad.ones(3, 4, 2), offs=offsets(ends))
