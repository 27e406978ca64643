"""The functions that neural networks are made of, under torch's names: `ndgrad.nn.functional.relu(x)`.

Ops with rules of their own are in ndgrad.ops; what is here reads arguments, checks them, and composes.
"""

from __future__ import annotations

from ndgrad.nn.functional import (
    activation,
    attention,
    classification,
    convolution,
    distance,
    dropout,
    embedding,
    linear,
    norm,
    padding,
    regression,
    vision,
)
