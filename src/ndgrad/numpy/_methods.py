"""The methods of Arrays that are NumPy's functions, in a class of their own; `methods` gives it them
when these functions exist.

For type checkers and editors, `_methods.pyi` (written by scripts/surface.py) shows all of them.
"""

from __future__ import annotations


class ArrayMethods:
    """What `Array` gets from NumPy's functions."""

    __slots__ = ()
