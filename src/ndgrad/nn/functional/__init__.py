"""The functions that neural networks are made of, under torch's names: `ndgrad.nn.functional.relu(x)`.

Ops with rules of their own are in ndgrad.ops; what is here reads arguments, checks them, and composes.
"""

from __future__ import annotations

from ndgrad.api.product import pdist
from ndgrad.nn.functional.activation import *
from ndgrad.nn.functional.affine import *
from ndgrad.nn.functional.attention import *
from ndgrad.nn.functional.classification import *
from ndgrad.nn.functional.convolution import *
from ndgrad.nn.functional.distance import *
from ndgrad.nn.functional.lookup import *
from ndgrad.nn.functional.norm import *
from ndgrad.nn.functional.padding import *
from ndgrad.nn.functional.pooling import *
from ndgrad.nn.functional.regression import *
from ndgrad.nn.functional.regularization import *
from ndgrad.nn.functional.vision import *

__all__ = [name for name in dir() if not name.startswith("_") and callable(globals()[name])] + ["pdist"]
