"""Graphs of programs: the same code, graphs, results and errors in torch.fx and ndgrad.fx."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.fx
from tests.torch_parity.fx_programs import fx_programs

#: torch's private names of functions that are public under these.
PUBLIC = {"torch._C._nn.": "torch.nn.functional.", "torch._C._special.special_": "torch.special."}


def same_text(text: str) -> str:
    """A text with one name for the package, without the addresses and without ndgrad's advice."""
    for private, public in PUBLIC.items():
        text = text.replace(private, public)
    return re.sub(r"0x[0-9a-f]+", "0x", text.replace("ndgrad", "torch"))


def comparable(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, ndgrad.Tensor)):
        return np.asarray(value.detach().numpy(), dtype=np.float64)
    if isinstance(value, str):
        return same_text(value)
    if type(value).__name__ == "Node":
        return value.name
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [comparable(v) for v in value]
    return value


def outcome(f: Any, m: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return comparable(f(m))
        except Exception as error:
            # A message starts with torch's words; ndgrad's go on with advice.
            return type(error).__name__, same_text(str(error))


def assert_same(theirs: Any, ours: Any) -> None:
    if isinstance(theirs, np.ndarray):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    elif isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(theirs) == len(ours), (theirs, ours)
        for a, b in zip(theirs, ours, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, dict):
        assert list(theirs) == list(ours)
        assert_same(list(theirs.values()), list(ours.values()))
    else:
        assert theirs == ours


#: Words at which torch's message ends for this comparison: what follows is about its own documentation and classes.
ENDS = (". See the torch.fx docs", "\n\nWhile executing", " of a torch.fx.Node", ": [<torch", "list [<", "target <built-in", "graph():")


@pytest.mark.usefixtures("float64_torch")
@pytest.mark.parametrize("name", fx_programs)
def test_program_is_the_same_on_both(name: str) -> None:
    theirs, ours = (outcome(fx_programs[name], m) for m in (torch, ndgrad))
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple), ours
        text = theirs[1]
        for end in ENDS:
            text = text.partition(end)[0]
        assert theirs[0] == ours[0], ours
        assert ours[1].startswith(text[:60]), (text, ours[1])
    else:
        assert_same(theirs, ours)
