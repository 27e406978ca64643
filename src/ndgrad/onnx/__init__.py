"""Export of functions and modules as ONNX models, for other runtimes."""

from ndgrad._src.foundations.shadowing import prefer_functions
from ndgrad.onnx import errors
from ndgrad.onnx.export import ONNXProgram, export, is_in_onnx_export
from ndgrad.onnx.graph import OnnxExporterError

__all__ = ["ONNXProgram", "OnnxExporterError", "errors", "export", "is_in_onnx_export"]

prefer_functions(__name__, "export")
