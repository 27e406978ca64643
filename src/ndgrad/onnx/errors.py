"""The errors of exports, where torch has them."""

from ndgrad.onnx.graph import OnnxExporterError

__all__ = ["OnnxExporterError"]
