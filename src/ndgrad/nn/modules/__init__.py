"""Layers, losses and containers, under torch's names; most people reach them as `ndgrad.nn.Linear` and so on.

The files carry the names they have in torch where programs import from them (`nn.modules.conv`, `nn.modules.batchnorm`).
"""

from __future__ import annotations

from ndgrad.nn.modules.activation import *
from ndgrad.nn.modules.batchnorm import *
from ndgrad.nn.modules.container import *
from ndgrad.nn.modules.conv import *
from ndgrad.nn.modules.dropout import *
from ndgrad.nn.modules.lazy import *
from ndgrad.nn.modules.linear import *
from ndgrad.nn.modules.loss import *
from ndgrad.nn.modules.module import Module
from ndgrad.nn.modules.normalization import *
from ndgrad.nn.modules.padding import *
from ndgrad.nn.modules.pooling import *
from ndgrad.nn.modules.rnn import *
from ndgrad.nn.modules.shaping import *
from ndgrad.nn.modules.sparse import *
from ndgrad.nn.modules.transformer import *

__all__ = ["Module"] + [name for name, value in list(globals().items()) if isinstance(value, type) and name != "Module"]
