"""Layers, losses and containers, under torch's names; most people reach them as `ndgrad.nn.Linear` and so on.

The files carry the names they have in torch where programs import from them (`nn.modules.conv`, `nn.modules.batchnorm`).
"""

from __future__ import annotations

from ndgrad.nn.modules.activation import *  # noqa: F403
from ndgrad.nn.modules.batchnorm import *  # noqa: F403
from ndgrad.nn.modules.container import *  # noqa: F403
from ndgrad.nn.modules.conv import *  # noqa: F403
from ndgrad.nn.modules.dropout import *  # noqa: F403
from ndgrad.nn.modules.lazy import *  # noqa: F403
from ndgrad.nn.modules.linear import *  # noqa: F403
from ndgrad.nn.modules.loss import *  # noqa: F403
from ndgrad.nn.modules.module import Module
from ndgrad.nn.modules.normalization import *  # noqa: F403
from ndgrad.nn.modules.padding import *  # noqa: F403
from ndgrad.nn.modules.pooling import *  # noqa: F403
from ndgrad.nn.modules.rnn import *  # noqa: F403
from ndgrad.nn.modules.shaping import *  # noqa: F403
from ndgrad.nn.modules.sparse import *  # noqa: F403
from ndgrad.nn.modules.transformer import *  # noqa: F403

__all__ = ["Module"] + [name for name, value in list(globals().items()) if isinstance(value, type) and name != "Module"]
