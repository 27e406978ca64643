"""Classes of ndgrad's errors. Each is a subclass of Python's own classes for the same mistake.

`except ndgrad.errors.ShapeError` catches only shapes that do not fit. `except RuntimeError` and `except ValueError`
catch it, too, because torch raises the first and NumPy the second.
"""

from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.foundations.kernel_error import KernelError
from ndgrad._src.ops.errors import DomainError, DtypeError, ShapeError

__all__ = ["DomainError", "DtypeError", "GraphBreak", "KernelError", "ShapeError"]
