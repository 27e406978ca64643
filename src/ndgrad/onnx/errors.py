"""Errors of exports, in torch's module of this name."""

from ndgrad.onnx.graph import OnnxExporterError

__all__ = ["OnnxExporterError"]
