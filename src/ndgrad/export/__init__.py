"""Programs of modules and functions: a graph of ops, its signature, its tensors, and sizes that stay open.

`export` traces a module, and `ExportedProgram.module` runs the program. `save` and `load` keep it in a file of readable
text and tensors.
"""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.export.dims import Dim, ShapesCollection, dims
from ndgrad.export.files import load, save
from ndgrad.export.program import ExportedProgram, export
from ndgrad.export.signature import ExportBackwardSignature, ExportGraphSignature
from ndgrad.utils._pytree import register_dataclass

__all__ = [
    "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "ShapesCollection", "dims", "export",
    "load", "register_dataclass", "save",
]  # fmt: skip

_refuse_absent(__name__)
