"""Classes of types in torch's own compiler, which libraries import for annotations. There are no instances here."""

from __future__ import annotations

from ndgrad._src.foundations.public_path import set_module

__all__ = ["DeviceObjType", "TensorType"]


@set_module("ndgrad")
class DeviceObjType:
    """The type of devices, for annotations. There are no instances.

    >>> import ndgrad
    >>> isinstance(ndgrad.device("cpu"), ndgrad.DeviceObjType)
    False
    """


@set_module("ndgrad")
class TensorType:
    """The type of tensors with their sizes, for annotations. There are no instances.

    >>> import ndgrad
    >>> isinstance(ndgrad.ones(1), ndgrad.TensorType)
    False
    """
