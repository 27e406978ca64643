"""Notebook view of a tensor: its text, and for a small one its numbers as a heat map."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.core.variable import own_level

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

#: Larger tensors are shown as text only.
MOST_ROWS, MOST_COLUMNS = 24, 24


def tensor_html(t: Tensor) -> str:
    """Return the tensor as HTML: coloured cells for a small matrix or vector of real numbers, text otherwise.

    >>> import ndgrad
    >>> "<td" in tensor_html(ndgrad.eye(2)), "<td" in tensor_html(ndgrad.zeros(1000))
    (True, False)
    """
    text = escape(repr(t))
    if (
        own_level(t)
        or t.is_meta
        or t.is_sparse
        or t.ndim not in (1, 2)
        or t.is_complex()
        or not t.numel()
        or t.device.type != "cpu"
    ):
        return f"<pre>{text}</pre>"
    values = np.atleast_2d(np.asarray(t.detach().numpy()))
    if values.shape[0] > MOST_ROWS or values.shape[1] > MOST_COLUMNS:
        return f"<pre>{text}</pre>"
    numbers = values.astype(float)
    finite = np.abs(numbers[np.isfinite(numbers)])
    most = float(finite.max()) if finite.size else 0.0
    rows = "".join("<tr>" + "".join(_cell(number, most) for number in row) + "</tr>" for row in numbers)
    notes = [str(tuple(t.shape)), str(t.dtype), *(["requires_grad"] if t.requires_grad else [])]
    table = f'<table style="border-collapse:collapse;font:12px monospace"><tbody>{rows}</tbody></table>'
    return f"{table}<small>{escape(', '.join(notes))}</small>"


def _cell(number: float, most: float) -> str:
    """Return a number on a colour: red above zero, blue below, dark red for a non-finite number."""
    if not np.isfinite(number):
        return f'<td style="padding:1px 6px;background:#7f1d1d;color:#fff">{number}</td>'
    share = abs(number) / most if most else 0.0
    colour = "229,83,75" if number > 0 else "62,130,219"
    return (
        f'<td style="padding:1px 6px;text-align:right;background:rgba({colour},{0.75 * share:.2f})">{number:.4g}</td>'
    )
