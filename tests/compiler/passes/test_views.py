"""Views in one form each."""

from __future__ import annotations

import pytest

from ndgrad._src.compiler.passes.views import canonical_views
from tests.compiler.traced import becomes

NOTHING = "program p(%0: float64[2,3])\n  return %0\n"


@pytest.mark.parametrize(
    "line",
    [
        "alias(%0)",
        "detach(%0)",
        "clone(%0)",
        "conj(%0)",
        "clone_ordered(%0, order=(1, 0))",
        "cast(%0, dtype=float64)",
        "reshape(%0, shape=(2, 3))",
        "expand(%0, shape=(2, 3))",
        "permute(%0, dims=(0, 1))",
        "transpose(%0, dim0=1, dim1=1)",
        "getitem(%0, index=(Ellipsis,))",
        "slice(%0, dim=1, start=0, stop=3, step=1)",
        "copy(%1, %0)",
    ],
)
def test_views_of_everything_are_nothing(line: str) -> None:
    inputs = "%0: float64[2,3], %1: float64[2,3]" if "%1" in line else "%0: float64[2,3]"
    becomes(canonical_views, f"program p({inputs})\n  %2: float64[2,3] = {line}\n  return %2\n", f"program p({inputs})\n  return %0\n")


@pytest.mark.parametrize(
    ("line", "kind", "expected"),
    [
        ("transpose(%0, dim0=0, dim1=1)", "float64[3,2]", "permute(%0, dims=(1, 0))"),
        ("t(%0)", "float64[3,2]", "permute(%0, dims=(1, 0))"),
        ("unsqueeze(%0, dim=1)", "float64[2,1,3]", "reshape(%0, shape=(2, 1, 3))"),
        ("unsafe_view(%0, shape=(6,))", "float64[6]", "reshape(%0, shape=(6,))"),
        ("select(%0, dim=1, index=-1)", "float64[2]", "getitem(%0, index=(slice(0, 2, 1), 2))"),
        ("element(%0, index=(1, -1))", "float64[]", "getitem(%0, index=(1, 2))"),
        ("slice(%0, dim=0, start=1, stop=2, step=1)", "float64[1,3]", "getitem(%0, index=(slice(1, 2, 1), slice(0, 3, 1)))"),
        ("getitem(%0, index=(slice(None, None, -1),))", "float64[2,3]", "getitem(%0, index=(slice(1, None, -1), slice(0, 3, 1)))"),
        ("flip(%0, dims=(-2,))", "float64[2,3]", "getitem(%0, index=(slice(1, None, -1), slice(0, 3, 1)))"),
        ("select_backward(%0, shape=(2, 4, 3), dim=1, index=-1)", "float64[2,4,3]",
         "embed(%0, shape=(2, 4, 3), index=(slice(0, 2, 1), 3, slice(0, 3, 1)))"),
        ("slice_backward(%0, shape=(5, 3), dim=0, start=1, stop=4, step=2)", "float64[5,3]",
         "embed(%0, shape=(5, 3), index=(slice(1, 5, 2), slice(0, 3, 1)))"),
    ],
)  # fmt: skip
def test_each_kind_of_view_has_one_form(line: str, kind: str, expected: str) -> None:
    text = "program p(%0: float64[2,3])\n  %1: {} = {}\n  return %1\n"
    becomes(canonical_views, text.format(kind, line), text.format(kind, expected))


def test_new_dimensions_of_an_index_are_a_reshape() -> None:
    becomes(
        canonical_views,
        "program p(%0: float64[2,3])\n  %1: float64[1,3] = getitem(%0, index=(1, None))\n  return %1\n",
        """program p(%0: float64[2,3])
  %1: float64[3] = getitem(%0, index=(1, slice(0, 3, 1)))
  %2: float64[1,3] = reshape(%1, shape=(1, 3))
  return %2
""",
    )


def test_views_of_views_are_one() -> None:
    becomes(
        canonical_views,
        """program p(%0: float64[4,5,6])
  %1: float64[6,4,5] = permute(%0, dims=(2, 0, 1))
  %2: float64[5,6,4] = permute(%1, dims=(2, 0, 1))
  %3: float64[3,5,6] = getitem(%0, index=(slice(1, None, None),))
  %4: float64[2,5,6] = slice(%3, dim=0, start=0, stop=3, step=2)
  %5: float64[5,6] = select(%4, dim=0, index=1)
  %6: float64[120] = reshape(%0, shape=(120,))
  %7: float64[10,12] = reshape(%6, shape=(10, 12))
  return %2, %5, %7
""",
        """program p(%0: float64[4,5,6])
  %1: float64[5,6,4] = permute(%0, dims=(1, 2, 0))
  %2: float64[5,6] = getitem(%0, index=(3, slice(0, 5, 1), slice(0, 6, 1)))
  %3: float64[10,12] = reshape(%0, shape=(10, 12))
  return %1, %2, %3
""",
    )


def test_parts_of_a_split_are_read_alone() -> None:
    becomes(
        canonical_views,
        """program p(%0: float64[2,5])
  %1: float64[2,2], %2: float64[2,2], %3: float64[2,1] = split(%0, split_size=2, dim=1)
  return %3
""",
        """program p(%0: float64[2,5])
  %1: float64[2,1] = getitem(%0, index=(slice(0, 2, 1), slice(4, 5, 1)))
  return %1
""",
    )


def test_a_number_expanded_is_expanded_once() -> None:
    becomes(
        canonical_views,
        """program p(%0: float64[])
  %1: float64[6] = expand(%0, shape=(6,))
  %2: float64[2,3] = reshape(%1, shape=(2, 3))
  %3: float64[3,2] = permute(%2, dims=(1, 0))
  %4: float64[2] = select(%3, dim=0, index=1)
  return %4
""",
        """program p(%0: float64[])
  %1: float64[2] = expand(%0, shape=(2,))
  return %1
""",
    )


def test_a_sum_that_kept_its_dimensions_for_nothing() -> None:
    becomes(
        canonical_views,
        """program p(%0: float64[4,5])
  %1: float64[1,5] = sum(%0, dim=(0,), keepdim=True, dtype=None)
  %2: float64[5] = reshape(%1, shape=(5,))
  return %2
""",
        """program p(%0: float64[4,5])
  %1: float64[5] = sum(%0, dim=(0,), keepdim=False, dtype=None)
  return %1
""",
    )


def test_a_cast_to_a_narrower_dtype_and_back_stays() -> None:
    text = """program p(%0: float64[3])
  %1: float32[3] = cast(%0, dtype=float32)
  %2: float64[3] = cast(%1, dtype=float64)
  return %2
"""
    becomes(canonical_views, text, text)


def test_a_cast_to_a_wider_dtype_and_back_is_nothing() -> None:
    becomes(
        canonical_views,
        """program p(%0: float32[3])
  %1: float64[3] = cast(%0, dtype=float64)
  %2: float32[3] = cast(%1, dtype=float32)
  return %2
""",
        "program p(%0: float32[3])\n  return %0\n",
    )
