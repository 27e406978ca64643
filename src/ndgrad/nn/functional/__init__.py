"""The functions that neural networks are made of, under torch's names: `ndgrad.nn.functional.relu(x)`.

Ops with rules of their own are in ndgrad.ops; what is here reads arguments, checks them, and composes.
"""

from __future__ import annotations

from ndgrad.api.product import pdist
from ndgrad.api.public import publish_namespace as _publish_namespace
from ndgrad.nn.functional.activation import *  # noqa: F403
from ndgrad.nn.functional.affine import *  # noqa: F403
from ndgrad.nn.functional.attention import *  # noqa: F403
from ndgrad.nn.functional.classification import *  # noqa: F403
from ndgrad.nn.functional.convolution import *  # noqa: F403
from ndgrad.nn.functional.distance import *  # noqa: F403
from ndgrad.nn.functional.lookup import *  # noqa: F403
from ndgrad.nn.functional.norm import *  # noqa: F403
from ndgrad.nn.functional.padding import *  # noqa: F403
from ndgrad.nn.functional.pooling import *  # noqa: F403
from ndgrad.nn.functional.regression import *  # noqa: F403
from ndgrad.nn.functional.regularization import *  # noqa: F403
from ndgrad.nn.functional.vision import *  # noqa: F403

__all__ = [name for name in dir() if not name.startswith("_") and callable(globals()[name])] + ["pdist"]

_publish_namespace(globals())
