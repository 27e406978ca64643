"""Vocabulary of the programs of checkpointing."""

from __future__ import annotations

import importlib

import numpy as np

from tests.torch_parity.side_by_side import plain


def tools(m):
    return importlib.import_module(f"{m.__name__}.utils.checkpoint")


def again(m, f, *args, **options):
    """A checkpointed call of the kind that keeps the graph."""
    return tools(m).checkpoint(f, *args, use_reentrant=False, **options)


def old(m, f, *args, **options):
    return tools(m).checkpoint(f, *args, use_reentrant=True, **options)


def rounded(*tensors):
    return [None if t is None else np.round(np.asarray(plain(t), dtype=float), 9).tolist() for t in tensors]


def counting(f):
    """f, and the list of its calls."""
    calls = []

    def count_call(*args, **kwargs):
        calls.append(len(args))
        return f(*args, **kwargs)

    return count_call, calls
