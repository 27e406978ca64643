"""Comparing errors: ndgrad's may belong to NumPy's class as well as to torch's, and end in a code."""

from __future__ import annotations

import re


def torch_class(error: Exception) -> str:
    """The name of the built-in class of an error; the first base for one that belongs to two worlds."""
    cls = type(error)
    while cls.__module__.startswith("ndgrad"):
        cls = cls.__bases__[0]
    return cls.__name__


def without_code(text: str) -> str:
    """A message without the code at its end, which torch's have not."""
    return re.sub(r" \[nd-[a-z-]+\]$", "", text).rstrip()
