"""Base class for the methods of Arrays that are NumPy functions; `methods` adds them once these functions exist.

For type checkers and editors, `_methods.pyi` (written by scripts/surface.py) shows all of them.
"""

from __future__ import annotations


class ArrayMethods:
    """Methods of `Array` that are NumPy functions."""

    __slots__ = ()
