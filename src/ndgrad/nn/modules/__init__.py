"""Layers, losses and containers, under torch's names. The usual access is `ndgrad.nn.Linear` and so on.

Files that programs import from have torch's names
(`nn.modules.conv`, `nn.modules.batchnorm`).
"""

# ruff: noqa: F403, F405
# Each file has its own __all__; the list below is literal for static tools, and a test compares.

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn.modules import utils as utils
from ndgrad.nn.modules.activation import *
from ndgrad.nn.modules.adaptive import *
from ndgrad.nn.modules.attention import *
from ndgrad.nn.modules.batchnorm import *
from ndgrad.nn.modules.channelshuffle import *
from ndgrad.nn.modules.container import *
from ndgrad.nn.modules.conv import *
from ndgrad.nn.modules.distance import *
from ndgrad.nn.modules.dropout import *
from ndgrad.nn.modules.flatten import *
from ndgrad.nn.modules.fold import *
from ndgrad.nn.modules.instancenorm import *
from ndgrad.nn.modules.lazy import *
from ndgrad.nn.modules.linear import *
from ndgrad.nn.modules.linear_cross_entropy_options import *
from ndgrad.nn.modules.loss import *
from ndgrad.nn.modules.module import Module
from ndgrad.nn.modules.normalization import *
from ndgrad.nn.modules.padding import *
from ndgrad.nn.modules.pixelshuffle import *
from ndgrad.nn.modules.pooling import *
from ndgrad.nn.modules.rnn import *
from ndgrad.nn.modules.sparse import *
from ndgrad.nn.modules.sync_batchnorm import *
from ndgrad.nn.modules.transformer import *
from ndgrad.nn.modules.upsampling import *

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveLogSoftmaxWithLoss", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "BCELoss", "BCEWithLogitsLoss", "Bilinear", "CELU", "ChannelShuffle", "CircularPad1d",
    "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Container", "Conv1d",
    "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CosineEmbeddingLoss",
    "CosineSimilarity", "CrossEntropyLoss", "CrossMapLRN2d", "CTCLoss", "Dropout", "Dropout1d", "Dropout2d",
    "Dropout3d", "ELU", "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Fold", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "GaussianNLLLoss", "GELU", "GLU", "GroupNorm", "GRU", "GRUCell", "Hardshrink", "Hardsigmoid",
    "Hardswish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss", "Identity", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "KLDivLoss", "L1Loss", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear", "LeakyReLU", "Linear",
    "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "LocalResponseNorm", "LogSigmoid", "LogSoftmax", "LPPool1d",
    "LPPool2d", "LPPool3d", "LSTM", "LSTMCell", "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish", "Module", "ModuleDict", "ModuleList", "MSELoss",
    "MultiheadAttention", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
    "PairwiseDistance", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle", "PoissonNLLLoss", "PReLU",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReLU", "ReLU6", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "RMSNorm", "RNN", "RNNBase", "RNNCell", "RNNCellBase", "RReLU", "SELU", "Sequential", "Sigmoid",
    "SiLU", "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "SyncBatchNorm", "Tanh", "Tanhshrink", "Threshold", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer", "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Unflatten",
    "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

_refuse_absent(__name__)
