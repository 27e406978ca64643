"""Neural networks: modules, their functions, initial values, and utilities for training."""

# ruff: noqa: F403, F405
# Each file has its own __all__; the list below is literal for static tools, and a test compares.

from __future__ import annotations

import importlib as _importlib
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING
from typing import Any as _Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn import attention, common_types, functional, init, modules, parallel, parameter, utils
from ndgrad.nn.modules import *
from ndgrad.nn.parallel import DataParallel
from ndgrad.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "attention", "common_types", "DataParallel", "parallel",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveLogSoftmaxWithLoss", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "BCELoss", "BCEWithLogitsLoss", "Bilinear", "Buffer", "CELU", "ChannelShuffle",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Container",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CosineEmbeddingLoss",
    "CosineSimilarity", "CrossEntropyLoss", "CrossMapLRN2d", "CTCLoss", "Dropout", "Dropout1d", "Dropout2d",
    "Dropout3d", "ELU", "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Fold", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "functional", "GaussianNLLLoss", "GELU", "GLU", "GroupNorm", "GRU", "GRUCell", "Hardshrink",
    "Hardsigmoid", "Hardswish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss", "Identity", "init", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "KLDivLoss", "L1Loss", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear", "LeakyReLU",
    "Linear", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "LocalResponseNorm", "LogSigmoid", "LogSoftmax",
    "LPPool1d", "LPPool2d", "LPPool3d", "LSTM", "LSTMCell", "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish", "Module", "ModuleDict", "ModuleList", "modules", "MSELoss",
    "MultiheadAttention", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
    "PairwiseDistance", "Parameter", "parameter", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle",
    "PoissonNLLLoss", "PReLU", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReLU", "ReLU6",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "RMSNorm", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
    "RReLU", "SELU", "Sequential", "Sigmoid", "SiLU", "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "SyncBatchNorm", "Tanh", "Tanhshrink", "Threshold", "Transformer",
    "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Unflatten", "Unfold", "UninitializedBuffer",
    "UninitializedParameter", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "utils", "ZeroPad1d",
    "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

if TYPE_CHECKING:
    from ndgrad.nn import attention as attention
    from ndgrad.nn import common_types as common_types
    from ndgrad.nn import grad as grad

#: Submodules loaded on first access.
_LATER = frozenset(("_reduction", "attention", "common_types", "grad"))


def __getattr__(name: str) -> _ModuleType:
    if name in _LATER:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """Return the device, dtype and memory format among keyword arguments, for creating a module's tensors.

    They may also be in a dict named `factory_kwargs`. Anything else is an error.

    >>> import ndgrad
    >>> ndgrad.nn.factory_kwargs({"dtype": ndgrad.float64, "factory_kwargs": {"device": "cpu"}})
    {'device': 'cpu', 'dtype': ndgrad.float64}
    """
    if kwargs is None:
        return {}
    known = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - known - {"factory_kwargs"}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}: factories take {', '.join(sorted(known))}. [nd-arguments]")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in sorted(known & kwargs.keys()):
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs [nd-arguments]")
        found[name] = kwargs[name]
    return found


_refuse_absent(__name__)
