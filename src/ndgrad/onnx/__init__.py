"""Export of functions and modules as ONNX models, for other runtimes."""

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.shadowing import prefer_functions
from ndgrad.onnx import errors
from ndgrad.onnx.export import ONNXProgram, export, is_in_onnx_export
from ndgrad.onnx.graph import OnnxExporterError
from ndgrad.onnx.registered_symbolics import (
    TensorProtoDataType,
    register_custom_op_symbolic,
    unregister_custom_op_symbolic,
)

__all__ = [
    "ONNXProgram", "OnnxExporterError", "TensorProtoDataType", "errors", "export", "is_in_onnx_export",
    "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]  # fmt: skip

prefer_functions(__name__, "export")
_refuse_absent(__name__)
