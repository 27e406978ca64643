"""Modules: the same weights in torch and in ndgrad give the same values, gradients, state dicts, texts and errors."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.nn
from tests.torch_parity.side_by_side import MODULES

pytestmark = [pytest.mark.usefixtures("float64_torch"), pytest.mark.filterwarnings("ignore")]

# module | its arguments. x: random numbers that want gradients, u: numbers in (0, 1), k: integers below `n`, s: signs, b: truth values.
LAYERS = """
Identity(54, unused=1) | x(2, 3)
Linear(3, 4) | x(5, 3)
Linear(3, 4, bias=False) | x(2, 5, 3)
Bilinear(3, 2, 4) | x(5, 3), x(5, 2)
Conv1d(4, 6, 3) | x(2, 4, 8)
Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False) | x(4, 8)
Conv2d(2, 4, (3, 2), padding="same", dilation=2) | x(2, 2, 6, 5)
Conv2d(2, 4, 3, padding=1, padding_mode="reflect") | x(2, 2, 6, 5)
Conv2d(2, 4, (3, 4), padding="same", padding_mode="circular") | x(2, 2, 6, 5)
Conv2d(2, 4, 3, stride=2, padding=(2, 1), padding_mode="replicate") | x(2, 2, 6, 5)
Conv2d(2, 4, 2, padding="valid") | x(2, 2, 6, 5)
Conv3d(2, 3, 2) | x(1, 2, 3, 4, 3)
ConvTranspose1d(4, 2, 3, stride=2) | x(2, 4, 5)
ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2) | x(2, 2, 4, 3)
ConvTranspose2d(2, 3, 3, stride=2) | x(2, 2, 4, 3), (10, 7)
ConvTranspose2d(2, 3, 3, stride=2) | x(2, 2, 4, 3), (2, 3, 9, 8)
ConvTranspose3d(2, 2, 2) | x(1, 2, 2, 3, 2)
Embedding(7, 3) | k(4, 2, n=7)
Embedding(7, 3, padding_idx=-2) | k(4, 2, n=7)
Embedding(7, 3, scale_grad_by_freq=True) | k(9, n=7)
EmbeddingBag(7, 3) | k(4, 5, n=7)
EmbeddingBag(7, 3, mode="sum", padding_idx=2) | k(6, n=7), t.tensor([0, 2, 3])
EmbeddingBag(7, 3, mode="max", include_last_offset=True) | k(6, n=7), t.tensor([0, 2, 6])
BatchNorm1d(3) | x(5, 3)
BatchNorm1d(3, momentum=None) | x(5, 3, 4)
BatchNorm2d(3, eps=0.1, momentum=0.3) | x(2, 3, 4, 2)
BatchNorm2d(3, affine=False) | x(2, 3, 4, 2)
BatchNorm2d(3, bias=False) | x(2, 3, 4, 2)
BatchNorm2d(3, track_running_stats=False) | x(2, 3, 4, 2)
BatchNorm3d(2) | x(2, 2, 2, 3, 2)
InstanceNorm1d(3) | x(3, 5)
InstanceNorm1d(3, affine=True, track_running_stats=True) | x(2, 3, 5)
InstanceNorm2d(3, affine=True, bias=False) | x(2, 3, 4, 2)
InstanceNorm3d(2) | x(2, 2, 3, 2, 2)
LayerNorm(4) | x(3, 4)
LayerNorm([3, 4], eps=0.1, bias=False) | x(2, 3, 4)
LayerNorm((3, 4), elementwise_affine=False) | x(2, 3, 4)
RMSNorm(4) | x(3, 4)
RMSNorm((3, 4), eps=0.1, elementwise_affine=False) | x(2, 3, 4)
GroupNorm(2, 4) | x(3, 4, 5)
GroupNorm(2, 4, affine=False) | x(3, 4)
GroupNorm(2, 4, bias=False) | x(3, 4, 5)
LocalResponseNorm(3, 0.1, 0.5, 2.0) | x(2, 5, 4)
Dropout(0.3).eval() | x(3, 4)
Dropout(1.0) | x(3, 4)
Dropout1d(0.0) | x(3, 4)
Dropout2d(0.2, True).eval() | x(2, 3, 4, 4)
Dropout3d(0.2).eval() | x(2, 3, 4, 4)
AlphaDropout(0.2).eval() | x(3, 4)
FeatureAlphaDropout(0.2).eval() | x(3, 4)
"""
ACTIVATIONS = """
ReLU() | x(3, 4)
ReLU(inplace=True) | x(3, 4) * 1
ReLU6() | 5 * x(3, 4)
ReLU6(True) | 5 * x(3, 4)
ELU(0.7) | x(3, 4)
ELU(0.7, True) | x(3, 4) * 1
SELU() | x(3, 4)
SELU(True) | x(3, 4) * 1
CELU(0.7) | x(3, 4)
CELU(0.7, True) | x(3, 4) * 1
LeakyReLU() | x(3, 4)
LeakyReLU(0.2, True) | x(3, 4) * 1
PReLU() | x(3, 4)
PReLU(4, init=0.1) | x(3, 4, 2)
RReLU().eval() | x(3, 4)
RReLU(0.1, 0.2, True).eval() | x(3, 4) * 1
Threshold(0.1, 20) | x(3, 4)
Threshold(0.1, 20, True) | x(3, 4) * 1
Hardtanh() | x(3, 4)
Hardtanh(-0.2, 0.3, True) | x(3, 4) * 1
Hardsigmoid() | 3 * x(3, 4)
Hardswish() | 3 * x(3, 4)
Hardshrink() | x(3, 4)
Hardshrink(0.2) | x(3, 4)
Softshrink(0.3) | x(3, 4)
Tanhshrink() | x(3, 4)
Sigmoid() | x(3, 4)
LogSigmoid() | x(3, 4)
Tanh() | x(3, 4)
Softplus() | x(3, 4)
Softplus(2, 0.5) | x(3, 4)
Softsign() | x(3, 4)
SiLU() | x(3, 4)
SiLU(True) | x(3, 4) * 1
Mish() | x(3, 4)
Mish(True) | x(3, 4) * 1
GELU() | x(3, 4)
GELU("tanh") | x(3, 4)
GLU() | x(3, 4)
GLU(0) | x(4, 3)
Softmax(1) | x(3, 4)
Softmax() | x(3, 4)
LogSoftmax(0) | x(3, 4)
Softmin(1) | x(3, 4)
Softmax2d() | x(2, 3, 2, 2)
"""
SHAPES = """
MaxPool1d(2) | x(2, 3, 6)
MaxPool2d((3, 2), stride=1, padding=1, dilation=1, return_indices=True, ceil_mode=True) | x(2, 3, 6, 5)
MaxPool2d(2) | x(3, 6, 5)
MaxPool3d(2, 1) | x(1, 2, 3, 3, 4)
MaxUnpool1d(2) | *t.nn.MaxPool1d(2, return_indices=True)(x(2, 3, 6))
MaxUnpool2d(2, 2, 0) | *t.nn.MaxPool2d(2, return_indices=True)(x(2, 3, 6, 5)), (6, 5)
MaxUnpool3d(2) | *t.nn.MaxPool3d(2, return_indices=True)(x(1, 2, 4, 4, 2))
AvgPool1d(2, 1, 1, True, False) | x(2, 3, 6)
AvgPool2d(2) | x(2, 3, 6, 5)
AvgPool2d(3, 2, 1, divisor_override=5) | x(2, 3, 6, 5)
AvgPool3d(2, count_include_pad=False, padding=1) | x(1, 2, 4, 4, 3)
LPPool1d(2, 3) | u(2, 3, 6)
LPPool2d(1.5, 2, stride=1, ceil_mode=True) | u(2, 3, 6, 5)
LPPool3d(2, 2) | u(1, 2, 4, 4, 2)
AdaptiveMaxPool1d(4, return_indices=True) | x(2, 3, 6)
AdaptiveMaxPool2d((None, 2)) | x(2, 3, 6, 5)
AdaptiveMaxPool3d(2) | x(1, 2, 4, 3, 3)
AdaptiveAvgPool1d(4) | x(2, 3, 6)
AdaptiveAvgPool2d((3, None)) | x(2, 3, 6, 5)
AdaptiveAvgPool3d(2) | x(1, 2, 4, 3, 3)
ConstantPad1d(1, 2.5) | x(2, 3, 4)
ConstantPad2d((1, 2, 0, 1), 2.5) | x(2, 3, 4, 4)
ConstantPad3d(1, 2.5) | x(1, 2, 2, 2, 2)
ZeroPad1d((1, 2)) | x(2, 3, 4)
ZeroPad2d(1) | x(2, 3, 4, 4)
ZeroPad3d(1) | x(1, 2, 2, 2, 2)
ReflectionPad1d(2) | x(2, 3, 4)
ReflectionPad2d((1, 2, 3, 0)) | x(2, 3, 4, 4)
ReflectionPad3d(1) | x(1, 2, 2, 3, 2)
ReplicationPad1d(2) | x(2, 3, 4)
ReplicationPad2d(2) | x(2, 3, 4, 4)
ReplicationPad3d(1) | x(1, 2, 2, 3, 2)
CircularPad1d(2) | x(2, 3, 4)
CircularPad2d((1, 2, 3, 0)) | x(2, 3, 4, 4)
CircularPad3d(1) | x(1, 2, 2, 3, 2)
Flatten() | x(2, 3, 4)
Flatten(0, 1) | x(2, 3, 4)
Unflatten(1, (2, 3)) | x(2, 6)
Unflatten(-1, [3, 2]) | x(2, 6)
PixelShuffle(2) | x(1, 8, 2, 3)
PixelUnshuffle(2) | x(1, 2, 4, 6)
ChannelShuffle(2) | x(1, 4, 2, 3)
Unfold((2, 3), padding=1) | x(2, 3, 4, 5)
Fold((4, 5), 2) | x(2, 8, 12)
Upsample(scale_factor=2) | x(2, 3, 4)
Upsample((7, 3), mode="bilinear", align_corners=True) | x(2, 3, 4, 5)
Upsample(scale_factor=(2, 1.5)) | x(2, 3, 4, 6)
UpsamplingNearest2d(scale_factor=2) | x(2, 3, 4, 6)
UpsamplingBilinear2d(size=7) | x(2, 3, 4, 6)
CosineSimilarity(0) | x(3, 4), x(3, 4)
PairwiseDistance(3.0, keepdim=True) | x(3, 4), x(3, 4)
"""
LOSSES = """
L1Loss() | x(3, 4), x(3, 4)
L1Loss(reduction="none") | x(3, 4), x(3, 4)
MSELoss() | x(3, 4), x(3, 4)
MSELoss(size_average=False) | x(3, 4), x(3, 4)
MSELoss(reduce=False) | x(3, 4), x(3, 4)
SmoothL1Loss(beta=0.4) | x(3, 4), x(3, 4)
HuberLoss("sum", 0.4) | x(3, 4), x(3, 4)
CrossEntropyLoss() | x(5, 3), k(5, n=3)
CrossEntropyLoss(t.tensor([0.5, 2.0, 1.0]), ignore_index=1, label_smoothing=0.2) | x(5, 3), k(5, n=3)
CrossEntropyLoss(reduction="sum") | x(5, 3), u(5, 3)
NLLLoss(t.tensor([0.5, 2.0, 1.0]), ignore_index=0) | x(5, 3), k(5, n=3)
NLLLoss2d() | x(2, 3, 2, 2), k(2, 2, 2, n=3)
LinearCrossEntropyLoss(4, 3, bias=True, weight=t.tensor([0.5, 2.0, 1.0])) | x(5, 4), k(5, n=3)
BCELoss(t.tensor([0.5, 2.0, 1.0, 3.0])) | u(3, 4), u(3, 4).detach()
BCEWithLogitsLoss(pos_weight=t.tensor([0.5, 2.0, 1.0, 3.0])) | x(3, 4), u(3, 4)
KLDivLoss(reduction="batchmean") | x(3, 4), u(3, 4)
KLDivLoss(log_target=True) | x(3, 4), x(3, 4)
PoissonNLLLoss(full=True) | x(3, 4), k(3, 4, n=5)
GaussianNLLLoss(full=True, eps=0.2) | x(3, 4), x(3, 4), u(3, 4)
SoftMarginLoss() | x(3, 4), s(3, 4)
MultiLabelSoftMarginLoss(t.tensor([0.5, 2.0, 1.0, 3.0])) | x(3, 4), u(3, 4)
MultiLabelMarginLoss() | x(2, 3), t.tensor([[1, -1, 0], [2, 0, -1]])
MultiMarginLoss(2, 0.5, t.tensor([0.5, 2.0, 1.0])) | x(5, 3), k(5, n=3)
HingeEmbeddingLoss(0.3) | x(3, 4), s(3, 4)
CosineEmbeddingLoss(0.1) | x(3, 4), x(3, 4), s(3)
MarginRankingLoss(0.1) | x(5), x(5), s(5)
TripletMarginLoss(0.7, 3, swap=True) | x(3, 4), x(3, 4), x(3, 4)
TripletMarginWithDistanceLoss() | x(3, 4), x(3, 4), x(3, 4)
TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), swap=True) | x(3, 4), x(3, 4), x(3, 4)
"""
RECURRENT = """
RNN(3, 4) | x(5, 2, 3)
RNN(3, 4, 2, "relu", bias=False, batch_first=True, bidirectional=True) | x(2, 5, 3), x(4, 2, 4)
RNN(3, 4, num_layers=2, dropout=0.5).eval() | x(5, 3), x(2, 4)
LSTM(3, 4) | x(5, 2, 3)
LSTM(3, 4, 2, bidirectional=True) | x(5, 2, 3), (x(4, 2, 4), x(4, 2, 4))
LSTM(3, 4, 2, batch_first=True, proj_size=2, bidirectional=True) | x(2, 5, 3), (x(4, 2, 2), x(4, 2, 4))
LSTM(3, 4) | x(5, 3), (x(1, 4), x(1, 4))
GRU(3, 4, 2, bidirectional=True, dropout=0.0) | x(5, 2, 3), x(4, 2, 4)
GRU(3, 4, bias=False) | x(5, 3)
RNN(3, 4, bidirectional=True) | pack(x(5, 3, 3), [5, 3, 1])
LSTM(3, 4, 2, bidirectional=True) | pack(x(5, 4, 3), [2, 5, 5, 1], enforce_sorted=False), (x(4, 4, 4), x(4, 4, 4))
GRU(3, 4, 2) | pack(x(3, 5, 3), [5, 4, 4], batch_first=True)
RNNCell(3, 4) | x(2, 3)
RNNCell(3, 4, bias=False, nonlinearity="relu") | x(2, 3), x(2, 4)
LSTMCell(3, 4) | x(3), (x(4), x(4))
LSTMCell(3, 4, bias=False) | x(2, 3)
GRUCell(3, 4) | x(2, 3), x(2, 4)
GRUCell(3, 4) | x(3)
"""
ATTENTION = """
MultiheadAttention(4, 2) | x(5, 3, 4), x(6, 3, 4), x(6, 3, 4)
MultiheadAttention(4, 2, batch_first=True, bias=False) | x(3, 5, 4), x(3, 6, 4), x(3, 6, 4), b(3, 6)
MultiheadAttention(4, 2, kdim=3, vdim=2, add_bias_kv=True, add_zero_attn=True) | x(5, 3, 4), x(6, 3, 3), x(6, 3, 2)
MultiheadAttention(4, 2) | x(5, 4), x(6, 4), x(6, 4), None, False
MultiheadAttention(4, 2) | x(5, 3, 4), x(5, 3, 4), x(5, 3, 4), None, True, t.nn.Transformer.generate_square_subsequent_mask(5), False
TransformerEncoderLayer(4, 2, 8, dropout=0.0) | x(5, 3, 4)
TransformerEncoderLayer(4, 2, 8, 0.0, "gelu", 0.1, True, True, False) | x(3, 5, 4), None, b(3, 5)
TransformerDecoderLayer(4, 2, 8, 0.0) | x(5, 3, 4), x(6, 3, 4)
TransformerDecoderLayer(4, 2, 8, 0.0, norm_first=True) | x(5, 4), x(6, 4)
TransformerEncoder(t.nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2, t.nn.LayerNorm(4)) | x(5, 3, 4)
TransformerDecoder(t.nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2) | x(5, 3, 4), x(6, 3, 4)
Transformer(4, 2, 1, 1, 8, 0.0) | x(5, 3, 4), x(2, 3, 4)
"""
CONTAINERS = """
Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.ReLU(), t.nn.Dropout(0.0), t.nn.Linear(4, 2)) | x(5, 3)
Sequential(t.nn.Conv2d(2, 3, 3), t.nn.Sequential(t.nn.GroupNorm(3, 3), t.nn.Tanh()), t.nn.Flatten(), t.nn.LazyLinear(2)) | x(2, 2, 4, 4)
Sequential(OrderedDict(a=t.nn.Linear(3, 3), b=t.nn.Linear(3, 3)))[1:] | x(5, 3)
LazyConv2d(4, 2) | x(1, 2, 3, 3)
LazyConvTranspose1d(4, 2) | x(2, 3)
LazyBatchNorm1d() | x(4, 3)
LazyInstanceNorm2d() | x(2, 3, 4, 4)
"""
CASES = [
    line for table in (LAYERS, ACTIVATIONS, SHAPES, LOSSES, RECURRENT, ATTENTION, CONTAINERS) for line in table.strip().splitlines()
]  # fmt: skip

ERRORS = """
Linear(3, 4) | x(5, 4)
Linear(3, -1) |
Bilinear(0, 2, 3) |
Conv2d(2, 4, 3, padding="same", stride=2) |
Conv2d(2, 4, 3, padding="huge") |
Conv2d(3, 4, 3, groups=2) |
Conv2d(2, 3, 3, groups=2) |
Conv2d(2, 3, 3, groups=0) |
Conv2d(2, 3, 3, padding_mode="mirror") |
Conv2d(2, 3, 3) | x(2, 3, 5, 5)
ConvTranspose2d(2, 3, 3, padding_mode="reflect") |
ConvTranspose2d(2, 3, 3, stride=2) | x(1, 2, 4, 4), (12, 10)
ConvTranspose2d(2, 3, 3, stride=2) | x(1, 2, 4, 4), (10,)
BatchNorm1d(3) | x(2, 3, 4, 4)
BatchNorm2d(3) | x(2, 3, 4)
BatchNorm2d(3) | x(2, 4, 4, 4)
BatchNorm1d(3) | x(1, 3)
InstanceNorm2d(3, affine=True) | x(2, 4, 4, 4)
InstanceNorm1d(3) | x(4, 4, 4, 4)
GroupNorm(3, 4) |
LayerNorm(3) | x(2, 4)
Embedding(3, 4, padding_idx=5) |
Embedding(3, 4, _weight=t.ones(2, 2)) |
Embedding(3, 4) | k(5, n=3) + 3
Embedding(3, 4) | x(3)
Embedding.from_pretrained(t.ones(3)) |
Dropout(1.5) |
Hardtanh(2, 1) |
Unflatten(1, 3) |
Unflatten(1, (2, 3.0)) |
Unflatten(1, (2, 3)) | x(2, 5)
Softmax2d() | x(2, 3)
MultiMarginLoss(p=3) |
MultiMarginLoss(weight=t.ones(2, 2)) |
TripletMarginLoss(margin=-1) |
TripletMarginWithDistanceLoss(margin=0) |
CrossEntropyLoss(reduction="q") | x(5, 3), k(5, n=3)
MSELoss(reduction="q") | x(5, 3), x(5, 3)
RNN(2, 0) |
RNN(2, 3.5) |
RNN(2, 3, 0) |
RNN(2, 3, nonlinearity="q") |
RNN(2, 3, proj_size=1) |
GRU(2, 3, proj_size=1) |
LSTM(2, 3, proj_size=3) |
LSTM(2, 3, proj_size=-1) |
LSTM(2, 3, dropout=1.5) |
RNNBase("Q", 2, 3) |
LSTM(2, 3) | x(2)
LSTM(2, 3) | x(5, 4, 3)
LSTM(2, 3) | x(5, 4, 2), (x(1, 4, 3), x(1, 4, 2))
LSTM(2, 3) | x(5, 4, 2), (x(1, 3), x(1, 3))
LSTM(2, 3) | x(5, 2), (x(1, 4, 3), x(1, 4, 3))
LSTM(2, 3, 2, bidirectional=True) | x(5, 4, 2), x(4, 4, 3)
GRU(2, 3) | x(5, 4, 2), x(2, 4, 3)
GRU(2, 3) | x(0, 4, 2)
GRU(2, 3) | x(5, 4, 2).float()
GRU(2, 3) | pack(x(5, 4, 2), [5, 4, 4, 1]), x(1, 3, 3)
LSTMCell(2, 3) | x(1, 1, 2)
LSTMCell(2, 3) | x(4, 2), (x(5, 3), x(5, 3))
RNNCell(2, 3) | x(4, 3)
RNNCell(2, 3) | x(4, 2), x(3)
RNNCell(2, 3, nonlinearity="q") | x(4, 2)
MultiheadAttention(4, 3) |
MultiheadAttention(0, 1) |
MultiheadAttention(4, 2) | x(5, 3, 5), x(5, 3, 4), x(5, 3, 4)
MultiheadAttention(4, 2) | x(5, 3), x(5, 3, 4), x(5, 3, 4)
MultiheadAttention(4, 2) | x(5, 3, 4), x(5, 3, 4), x(5, 3, 4), b(2, 2)
MultiheadAttention(4, 2) | x(5, 3, 4), x(5, 3, 4), x(5, 3, 4), None, True, x(2, 2)
TransformerEncoderLayer(4, 2, 8, activation="q") |
CircularPad2d(1) | x(5, 5)
AdaptiveAvgPool2d(None) | x(2, 5, 5)
TransformerEncoderLayer(4, 2, 8) | x(1, 2, 3, 4)
Transformer(4, 2, 1, 1, 8) | x(5, 3, 4), x(5, 2, 4)
Transformer(4, 2, 1, 1, 8) | x(5, 3, 4), x(5, 3, 3)
LazyConv2d(3, 2) | x(2, 5)
LazyConv2d(4, 2, groups=4) | x(1, 3, 5, 5)
LazyLinear(3).weight + 1 |
LazyLinear(3).weight.shape |
Module(3) |
Module(a=3) |
Module() | x(3)
Sequential(3) |
Sequential(t.nn.ReLU())[5] |
Sequential(t.nn.ReLU())["a"] |
Sequential(t.nn.ReLU()) * 0 |
Sequential(t.nn.ReLU()) * 1.5 |
Sequential(t.nn.ReLU()) + t.nn.ReLU() |
Sequential(t.nn.ReLU()).insert(5, t.nn.ReLU()) |
ModuleList(3) |
ModuleList([3]) |
ModuleList([t.nn.ReLU()])[1] |
ModuleList() | x(3)
ModuleDict([3]) |
ModuleDict([(1, 2, 3)]) |
ModuleDict({"a": 3}) |
ModuleDict({3: t.nn.ReLU()}) |
ModuleDict({"a.b": t.nn.ReLU()}) |
ModuleDict({"a": t.nn.ReLU()})["b"] |
ModuleDict({"training": t.nn.ReLU()}) |
ParameterList(3) |
ParameterList([t.ones(1)])[1] |
ParameterList() | x(3)
ParameterDict({3: t.ones(1)}) |
ParameterDict({"a": t.ones(1)})["b"] |
ParameterDict() | x(3)
Parameter([1.0]) |
Parameter(t.ones(2, dtype=t.int64)) |
Buffer(3.0) |
Linear(2, 2).to(t.int32) |
Linear(2, 2).train(3) |
Linear(2, 2).requires_grad_(3) |
Linear(2, 2).get_submodule("a") |
Linear(2, 2).get_submodule("weight") |
Linear(2, 2).get_parameter("training") |
Linear(2, 2).get_buffer("weight") |
Linear(2, 2).load_state_dict(3) |
Linear(2, 2).load_state_dict({}) |
Linear(2, 2).load_state_dict({"weight": [1.0]}, strict=False) |
Linear(2, 2).load_state_dict({"weight": t.ones(3)}, strict=False) |
Linear(2, 2).load_state_dict({**t.nn.Linear(2, 2).state_dict(), "more": t.ones(3)}) |
Linear(2, 2).set_submodule("", t.nn.ReLU()) |
Linear(2, 2).set_submodule("a", 3) |
Linear(2, 2).set_submodule("weight", t.nn.ReLU()) |
Linear(2, 2).set_submodule("a", t.nn.ReLU(), strict=True) |
init.xavier_uniform_(t.ones(3)) |
init.eye_(t.ones(3)) |
init.dirac_(t.ones(3, 3)) |
init.dirac_(t.ones(3, 3, 3), 2) |
init.orthogonal_(t.ones(3)) |
init.sparse_(t.ones(3), 0.1) |
init.kaiming_uniform_(t.ones(3, 3), mode="q") |
init.calculate_gain("q") |
init.calculate_gain("leaky_relu", "a") |
utils.rnn.pack_padded_sequence(t.ones(5, 3, 2), [1, 2, 3]) |
utils.rnn.pack_padded_sequence(t.ones(5, 3, 2), [5, 4, 0]) |
utils.rnn.pack_padded_sequence(t.ones(5, 3, 2), [5, 4]) |
utils.rnn.pad_packed_sequence(pack(t.ones(5, 3, 2), [5, 4, 1]), total_length=2) |
utils.rnn.pad_sequence(3) |
"""


class Side:
    """One library, and the arguments of a module in it, drawn from the same random numbers as on the other side."""

    def __init__(self, t):
        self.t, self.leaves, self.r = t, [], np.random.default_rng(11)

    def leaf(self, array):
        made = self.t.tensor(np.asarray(array), requires_grad=True)
        self.leaves.append(made)
        return made

    def names(self):
        t, r = self.t, self.r
        return {
            "t": t,
            "OrderedDict": OrderedDict,
            "x": lambda *shape: self.leaf(r.standard_normal(shape)),
            "u": lambda *shape: self.leaf(r.uniform(0.1, 0.9, shape)),
            "k": lambda *shape, n: t.tensor(r.integers(0, n, shape)),
            "s": lambda *shape: t.tensor(np.where(r.uniform(size=shape) < 0.5, 1.0, -1.0)),
            "b": lambda *shape: t.tensor(r.uniform(size=shape) < 0.3),
            "pack": t.nn.utils.rnn.pack_padded_sequence,
        }

    def arguments(self, text):
        names = self.names()
        return eval(f"({text},)" if text else "()", names)

    def module(self, text):
        return eval("t.nn." + text, self.names())


def array(t):
    return t.detach().numpy().copy()


def flat(out):
    """The tensors of a result, in order."""
    if isinstance(out, (tuple, list)):
        return [t for o in out for t in flat(o)]
    return [] if out is None else [out]


def run(t, text, arguments, weights):
    side = Side(t)
    module = side.module(text)
    if any(t.nn.parameter.is_lazy(p) for p in module.parameters()):
        module(*Side(t).arguments(arguments))
    if not weights:
        r = np.random.default_rng(3)
        for name, value in module.state_dict().items():
            made = r.uniform(0.5, 1.5, tuple(value.shape)) if value.is_floating_point() else array(value)
            weights[name] = made if "var" in name or "norm" in name else made - 1.0 if value.is_floating_point() else made
    module.load_state_dict({name: t.tensor(value) for name, value in weights.items()})
    out = flat(module(*side.arguments(arguments)))
    values = [array(o) for o in out]
    total = sum((o * t.tensor(np.cos(np.arange(v.size)).reshape(v.shape))).sum() for o, v in zip(out, values) if o.requires_grad)
    if any(o.requires_grad for o in out):
        total.backward()
    grads = {name: p.grad for name, p in module.named_parameters()} | {f"argument {i}": x.grad for i, x in enumerate(side.leaves)}
    return {
        "text": repr(module).replace("NonDynamicallyQuantizableLinear", "Linear"),
        "values": values,
        "grads": {name: None if g is None else array(g) for name, g in grads.items()},
        "state": {name: array(v) for name, v in module.state_dict().items()},
        "metadata": {name: dict(v) for name, v in module.state_dict()._metadata.items()},
        "buffers": [name for name, _ in module.named_buffers()],
        "modules": [(name, type(m).__name__) for name, m in module.named_modules() if "out_proj" not in name],
    }


@pytest.mark.parametrize("case", CASES)
def test_same_values_gradients_state_and_text(case):
    text, _, arguments = case.partition(" | ")
    weights = {}
    want = run(torch, text, arguments, weights)
    with np.errstate(all="ignore"):
        got = run(ndgrad, text, arguments, weights)
    for what in ("text", "metadata", "buffers", "modules"):
        assert got[what] == want[what], what
    assert len(got["values"]) == len(want["values"])
    for g, w in zip(got["values"], want["values"]):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-11)
    for what in ("state", "grads"):
        assert list(got[what]) == list(want[what])
        for name, w in want[what].items():
            g = got[what][name]
            if w is None:
                assert g is None or not g.any(), name
            else:
                assert g is not None, name
                assert (g.shape, g.dtype) == (w.shape, w.dtype)
                np.testing.assert_allclose(g, w, rtol=1e-7, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("case", ERRORS.strip().splitlines())
def test_same_errors(case):
    text, _, arguments = case.rstrip("|").partition(" | ")

    def outcome(t):
        side = Side(t)
        made = side.module(text.strip())
        return made(*side.arguments(arguments.strip())) if arguments.strip() else made

    found = []
    for t in MODULES:
        with pytest.raises(Exception) as error:
            outcome(t)
        found.append(error.type)
    assert issubclass(found[1], found[0]), found


def test_layers_know_their_activation():
    found = []
    for t in MODULES:
        kinds = ("relu", "gelu", t.nn.functional.gelu, t.nn.functional.relu, t.nn.ReLU(), t.nn.GELU(), t.tanh)
        found.append([t.nn.TransformerEncoderLayer(4, 2, 8, activation=kind).activation_relu_or_gelu for kind in kinds])
    assert found[0] == found[1]


def test_every_module_of_torch_is_here():
    kinds = {n for n in dir(torch.nn) if isinstance(getattr(torch.nn, n), type)}
    missing = {"DataParallel", "SyncBatchNorm"}  # several devices and processes
    assert kinds - set(dir(ndgrad.nn)) <= missing


def test_every_module_is_compared():
    named = {case.partition("(")[0] for case in CASES}
    containers = {"Module", "Container", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "RNNBase", "RNNCellBase"}
    lazy = {n for n in dir(ndgrad.nn) if n.startswith("Lazy")}
    modules = {n for n in dir(ndgrad.nn) if isinstance(getattr(ndgrad.nn, n), type) and issubclass(getattr(ndgrad.nn, n), ndgrad.nn.Module)}
    networks = {"AdaptiveLogSoftmaxWithLoss", "CTCLoss", "CrossMapLRN2d", "FractionalMaxPool2d", "FractionalMaxPool3d"}
    networks |= {"SyncBatchNorm"}  # needs several processes: see tests/distributed
    assert modules - named - containers - lazy == networks | {"DataParallel"}  # compared in files of their own


def public_surface(cls):
    return {n for n in dir(cls) if not n.startswith("_")}


@pytest.mark.parametrize(
    "name", ["Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Embedding", "LSTM"]
)
def test_same_methods(name):
    devices = {"ipu", "mtia", "xpu", "share_memory", "compile", "T_destination", "dump_patches"}
    torch_only = {
        "check_forward_args",
        "check_hidden_size",
        "check_input",
        "get_expected_hidden_size",
        "get_expected_cell_size",
        "permute_hidden",
    }
    assert public_surface(getattr(torch.nn, name)) - public_surface(getattr(ndgrad.nn, name)) - devices - torch_only == set()
