"""The text of tensors. The expectations were printed by torch 2.13; tests/torch_parity compares many more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ndgrad._src.tensor.printing import (
    append_suffixes,
    format_array,
    format_tensor,
    get_printoptions,
    printoptions,
    set_printoptions,
)
from tests.naming import stable_id

nan, inf = np.nan, np.inf


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def text(values: Any, dtype: Any = None, **settings: Any) -> str:
    array = np.asarray(values, dtype)
    return format_tensor(array, default_dtype=np.dtype("f8"), dtype_name=f"ndgrad.{array.dtype.name}", **settings)


# ----- elements ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (3.0, "tensor(3.)"),
        (1.5, "tensor(1.5000)"),
        (-0.0, "tensor(-0.)"),
        (7, "tensor(7)"),
        (True, "tensor(True)"),
        (1.5 - 2j, "tensor(1.5000-2.j)"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.0, -20.5], "tensor([  1.0000, -20.5000])"),
        ([1, -20], "tensor([  1, -20])"),
        ([True, False], "tensor([ True, False])"),
        ([0.0, nan, inf, -inf], "tensor([0., nan, inf, -inf])"),
        ([1.5, nan, -inf], "tensor([1.5000,    nan,   -inf])"),
        ([1.0, nan], "tensor([1., nan])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([1.0, 1000.0], "tensor([   1., 1000.])"),
        ([1e8], "tensor([100000000.])"),
        ([1.1e8], "tensor([1.1000e+08])"),
        ([0.0001], "tensor([0.0001])"),
        ([0.00009], "tensor([9.0000e-05])"),
        ([1e-5, 0.0, nan], "tensor([1.0000e-05, 0.0000e+00,        nan])"),
        ([1e300, 1e-300], "tensor([1.0000e+300, 1.0000e-300])"),
        ([1 + 2j, -1.5 - 0.25j], "tensor([ 1.0000+2.0000j, -1.5000-0.2500j])"),
        ([2.0**53], "tensor([9.0072e+15])"),
        ([complex(nan, -inf), complex(-0.0, -0.0)], "tensor([nan-infj, -0.-0.j])"),
    ],
    ids=stable_id,
)
def test_elements(values: Any, expected: str) -> None:
    assert text(values) == expected


def test_narrow_floats_print_what_they_hold() -> None:
    assert text([0.1, 3.0], "f2") == "tensor([0.1000, 3.0000], dtype=ndgrad.float16)"
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert text([0.1, 300.0], ml_dtypes.bfloat16) == "tensor([1.0010e-01, 3.0000e+02], dtype=ndgrad.bfloat16)"


def test_other_byte_orders_and_strides_print_the_same() -> None:
    values = np.arange(6.0).reshape(2, 3) / 2
    for array in (values.astype(values.dtype.newbyteorder()), np.asfortranarray(values), values[::-1][::-1]):
        assert format_array(array) == format_array(values)


# ----- brackets, lines and summaries ------------------------------------------------------------------------


def test_dimensions_are_separated_by_empty_lines() -> None:
    assert text(np.arange(24.0).reshape(2, 3, 4)) == (
        "tensor([[[ 0.,  1.,  2.,  3.],\n"
        "         [ 4.,  5.,  6.,  7.],\n"
        "         [ 8.,  9., 10., 11.]],\n"
        "\n"
        "        [[12., 13., 14., 15.],\n"
        "         [16., 17., 18., 19.],\n"
        "         [20., 21., 22., 23.]]])"
    )


def test_long_rows_are_broken() -> None:
    assert text(np.arange(12) * 1.1) == (
        "tensor([ 0.0000,  1.1000,  2.2000,  3.3000,  4.4000,  5.5000,  6.6000,  7.7000,\n"
        "         8.8000,  9.9000, 11.0000, 12.1000])"
    )


def test_more_than_a_thousand_elements_are_summarised() -> None:
    assert text(np.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert "..." not in text(np.arange(1000))
    assert text(np.arange(2000).reshape(40, 50)) == (
        "tensor([[   0,    1,    2,  ...,   47,   48,   49],\n"
        "        [  50,   51,   52,  ...,   97,   98,   99],\n"
        "        [ 100,  101,  102,  ...,  147,  148,  149],\n"
        "        ...,\n"
        "        [1850, 1851, 1852,  ..., 1897, 1898, 1899],\n"
        "        [1900, 1901, 1902,  ..., 1947, 1948, 1949],\n"
        "        [1950, 1951, 1952,  ..., 1997, 1998, 1999]])"
    )
    assert text(np.arange(1200.0).reshape(2, 2, 300)) == (
        "tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 2.9700e+02,\n"
        "          2.9800e+02, 2.9900e+02],\n"
        "         [3.0000e+02, 3.0100e+02, 3.0200e+02,  ..., 5.9700e+02,\n"
        "          5.9800e+02, 5.9900e+02]],\n"
        "\n"
        "        [[6.0000e+02, 6.0100e+02, 6.0200e+02,  ..., 8.9700e+02,\n"
        "          8.9800e+02, 8.9900e+02],\n"
        "         [9.0000e+02, 9.0100e+02, 9.0200e+02,  ..., 1.1970e+03,\n"
        "          1.1980e+03, 1.1990e+03]]])"
    )


class OnDevice:
    """An array as a GPU library's: `get` copies it to the host, and here counts what is copied."""

    def __init__(self, array: np.ndarray[Any, Any], copied: list[int]) -> None:
        self.array, self.copied = array, copied
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype

    def __getitem__(self, item: Any) -> OnDevice:
        return OnDevice(self.array[item], self.copied)

    def get(self) -> np.ndarray[Any, Any]:
        self.copied.append(self.array.size)
        return self.array


@pytest.mark.parametrize(("shape", "shown"), [((2, 3), 6), ((50, 60), 36), ((2, 3000), 12), ((3000,), 6), ((), 1)])
def test_only_what_is_shown_is_copied_from_a_gpu(shape: tuple[int, ...], shown: int) -> None:
    array, copied = np.arange(np.prod(shape, dtype=int)).reshape(shape), []
    assert format_array(OnDevice(array, copied)) == format_array(array)
    assert sum(copied) == shown


# ----- suffixes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "settings", "expected"),
    [
        (np.ones(2), {"requires_grad": True}, "tensor([1., 1.], requires_grad=True)"),
        (np.ones(2), {"grad_fn_name": "MulBackward0"}, "tensor([1., 1.], grad_fn=<MulBackward0>)"),
        (
            np.ones(2),
            {"grad_fn_name": "MulBackward0", "requires_grad": True},
            "tensor([1., 1.], grad_fn=<MulBackward0>)",
        ),
        (np.ones(2, "f4"), {}, "tensor([1., 1.], dtype=ndgrad.float32)"),
        (np.ones(2, "c8"), {}, "tensor([1.+0.j, 1.+0.j], dtype=ndgrad.complex64)"),
        (np.ones(2, "c16"), {}, "tensor([1.+0.j, 1.+0.j])"),
        (np.ones(2, "i4"), {}, "tensor([1, 1], dtype=ndgrad.int32)"),
        (np.ones(2, "i8"), {}, "tensor([1, 1])"),
        (np.ones(2, "u1"), {}, "tensor([1, 1], dtype=ndgrad.uint8)"),
        (np.ones(2, "?"), {}, "tensor([True, True])"),
        (np.ones(1), {"device": "cuda:0"}, "tensor([1.], device='cuda:0')"),
        (np.ones(1), {"device": "cpu"}, "tensor([1.])"),
        (np.ones(1), {"extra": ["tangent=2.", "layout=x"]}, "tensor([1.], tangent=2., layout=x)"),
        (np.ones(1), {"name": "Array"}, "Array([1.])"),
        (np.zeros((2, 3)), {"device": "meta"}, "tensor(..., device='meta', size=(2, 3))"),
        (
            np.zeros(2, "i8"),
            {"device": "meta"},
            "tensor(..., device='meta', size=(2,), dtype=ndgrad.int64)",
        ),
        (np.zeros(0), {}, "tensor([])"),
        (np.zeros((0, 3)), {}, "tensor([], size=(0, 3))"),
        (np.zeros((2, 0), "i8"), {}, "tensor([], size=(2, 0), dtype=ndgrad.int64)"),
        (np.zeros(0, "f4"), {}, "tensor([], dtype=ndgrad.float32)"),
        (
            np.zeros((0, 3), "f4"),
            {"requires_grad": True},
            "tensor([], size=(0, 3), dtype=ndgrad.float32, requires_grad=True)",
        ),
    ],
)
def test_suffixes(array: np.ndarray[Any, Any], settings: dict[str, Any], expected: str) -> None:
    assert text(array, **settings) == expected


def test_name_sets_the_indent() -> None:
    assert text(np.eye(2), name="Parameter") == "Parameter([[1., 0.],\n           [0., 1.]])"


def test_shown_dtype_follows_the_default() -> None:
    for default, hidden, shown in [("f4", ("f4", "c8"), ("f8", "c16")), ("f2", ("f2", "c8"), ("f4", "c16"))]:
        for dtype in (*hidden, *shown):
            printed = format_tensor(np.ones(1, dtype), default_dtype=np.dtype(default), dtype_name="shown")
            assert ("dtype=shown" in printed) == (dtype in shown)


def test_suffixes_that_do_not_fit_go_to_the_next_line() -> None:
    assert text(np.full(8, 1.5), "f4", grad_fn_name="MulBackward0") == (
        "tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000],\n"
        "       dtype=ndgrad.float32, grad_fn=<MulBackward0>)"
    )
    with printoptions(linewidth=33):  # one more than the line has: so torch counts
        assert text([1.0], requires_grad=True) == "tensor([1.], requires_grad=True)"
    with printoptions(linewidth=32):
        assert text([1.0], requires_grad=True) == "tensor([1.],\n       requires_grad=True)"
    assert append_suffixes("t(1", ["a=1", "b=2"], indent=2, force_newline=True) == "t(1,\n  a=1, b=2)"


# ----- options ----------------------------------------------------------------------------------------------


def test_precision_edgeitems_linewidth_and_sci_mode() -> None:
    with printoptions(precision=2):
        assert text([0.12345]) == "tensor([0.12])"
    with printoptions(threshold=5, edgeitems=1):
        assert text(np.arange(9)) == "tensor([0,  ..., 8])"
    with printoptions(linewidth=20):
        assert text(np.arange(6)) == "tensor([0, 1, 2, 3,\n        4, 5])"
    with printoptions(sci_mode=True):
        assert text([1.0, 0.0]) == "tensor([1.0000e+00, 0.0000e+00])"
        assert text([0.0]) == "tensor([0.])"
    with printoptions(sci_mode=False):
        assert text([1e-6, 1.0]) == "tensor([0.0000, 1.0000])"
    with printoptions(edgeitems=0, threshold=3):
        assert text(np.arange(9)) == "tensor([...], size=(9,))"
        assert text(np.arange(3)) == "tensor([0, 1, 2], size=(3,))"


def test_profiles() -> None:
    set_printoptions(profile="short", edgeitems=1)
    assert get_printoptions() == dict(precision=2, threshold=1000, edgeitems=1, linewidth=80, sci_mode=None)
    set_printoptions(profile="full")
    assert text(np.arange(3000)).count(",") == 2999
    with pytest.raises(ValueError, match=r"unknown print profile 'long'.*'short'"):
        set_printoptions(profile="long")


def test_options_not_named_stay_but_sci_mode_is_reset() -> None:
    set_printoptions(precision=7, sci_mode=True)
    set_printoptions(linewidth=100)
    assert get_printoptions() == dict(precision=7, threshold=1000, edgeitems=3, linewidth=100, sci_mode=None)


def test_block_options_end_with_the_block_and_stay_in_their_thread() -> None:
    seen = []

    def other_thread() -> None:
        seen.append(get_printoptions()["precision"])

    with printoptions(precision=9):
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        set_printoptions(precision=8)  # within a block: for the block
        seen.append(get_printoptions()["precision"])
    assert seen == [4, 8]
    assert get_printoptions()["precision"] == 4
    with pytest.raises(ZeroDivisionError), printoptions(precision=9):
        1 / 0
    assert get_printoptions()["precision"] == 4


def test_set_options_hold_in_every_thread() -> None:
    seen = []
    set_printoptions(precision=6)
    thread = threading.Thread(target=lambda: seen.append(get_printoptions()["precision"]))
    thread.start()
    thread.join()
    assert seen == [6]
