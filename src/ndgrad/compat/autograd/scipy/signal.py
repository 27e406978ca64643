"""scipy.signal, with HIPS autograd's `convolve`, which takes axes to convolve over and axes to sum over."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ndgrad.compat.autograd.scipy.dispatch import finder

__getattr__, __dir__ = finder("signal")


def convolve(A: Any, B: Any, axes: Any = None, dot_axes: Any = ((), ()), mode: str = "full") -> Any:
    """Convolve along pairs of axes, sum over other pairs, with all combinations of the rest.

    `axes` and `dot_axes` are pairs of lists of axes, of A and of B. The dimensions of the result are those of A that
    are in neither, then those of B, then the convolved ones. Without axes it is scipy.signal.convolve.
    """
    if axes is None and not dot_axes[0]:
        return __getattr__("convolve")(A, B, mode=mode)
    over = tuple([a % np.ndim(x) for a in given] for x, given in zip((A, B), axes, strict=True))
    summed = tuple([a % np.ndim(x) for a in given] for x, given in zip((A, B), dot_axes, strict=True))
    rest = tuple(
        [d for d in range(np.ndim(x)) if d not in o and d not in s]
        for x, o, s in zip((A, B), over, summed, strict=True)
    )
    first, second = (np.transpose(x, (*r, *s, *o)) for x, r, s, o in zip((A, B), rest, summed, over, strict=True))
    count = len(over[0])
    sizes = [(first.shape[first.ndim - count + k], second.shape[second.ndim - count + k]) for k in range(count)]
    if mode == "valid":
        if all(a >= b for a, b in sizes):
            return _valid(first, second, len(rest[0]), len(rest[1]), count)
        if not all(b >= a for a, b in sizes):
            raise ValueError(
                "for 'valid' convolution one array must be at least as large as the other along every "
                f"axis; sizes are {sizes} [nd-window]"
            )
        made = _valid(second, first, len(rest[1]), len(rest[0]), count)
        order = [*range(len(rest[1]), len(rest[1]) + len(rest[0])), *range(len(rest[1]))]
        return np.transpose(made, (*order, *range(made.ndim - count, made.ndim)))
    if mode not in ("full", "same"):
        raise ValueError(f"mode is {mode!r}. Choose 'full', 'valid' or 'same'. [nd-option]")
    widths = [(0, 0)] * (first.ndim - count) + [(b - 1, b - 1) for _, b in sizes]
    full = _valid(np.pad(first, widths), second, len(rest[0]), len(rest[1]), count)
    if mode == "full":
        return full
    middle = tuple(slice((b - 1) // 2, (b - 1) // 2 + a) for a, b in sizes)
    return full[(Ellipsis, *middle)]


def _valid(A: Any, B: Any, rest_a: int, rest_b: int, count: int) -> Any:
    """Return the convolution at positions where B fits into A whole; dimensions are: the rest, the summed, the
    convolved.
    """
    shape = B.shape[B.ndim - count :]
    windows = sliding_window_view(A, shape, axis=tuple(range(A.ndim - count, A.ndim)))
    turned = B[(Ellipsis, *(slice(None, None, -1),) * count)]
    summed = A.ndim - count - rest_a
    of_windows = [*range(rest_a, rest_a + summed), *range(windows.ndim - count, windows.ndim)]
    of_kernel = list(range(rest_b, B.ndim))
    made = np.tensordot(windows, turned, axes=(of_windows, of_kernel))  # rest of A, positions, rest of B
    order = (*range(rest_a), *range(rest_a + count, rest_a + count + rest_b), *range(rest_a, rest_a + count))
    return np.transpose(made, order)
