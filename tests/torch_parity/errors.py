"""Comparing errors: ndgrad's may belong to NumPy's class as well as to torch's."""

from __future__ import annotations


def torch_class(error: Exception) -> str:
    """The name of the built-in class of an error; the first base for one that belongs to two worlds."""
    cls = type(error)
    while cls.__module__.startswith("ndgrad"):
        cls = cls.__bases__[0]
    return cls.__name__
