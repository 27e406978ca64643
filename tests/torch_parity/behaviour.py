"""The outcome of a program, on torch and on ndgrad: its value, its error by class and first words, and its warnings.

The first words of torch's messages are what people search for, so ours have them too, and go on in our own.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import torch

import ndgrad
from tests.torch_parity.errors import torch_class
from tests.torch_parity.side_by_side import error_name

#: Number of consecutive words of torch's message that ours must have.
FIRST_WORDS = 5


class Said:
    """An error or a warning: its class, and the words of its message without punctuation, case, addresses and the library's name."""

    def __init__(self, cls: str, text: str) -> None:
        self.cls = cls
        text = re.sub(r"\b(torch|ndgrad)\b", "m", re.sub(r"0x[0-9a-f]+", "", text))
        self.words = re.findall(r"[a-z_0-9]+", text.lower())

    def __repr__(self) -> str:
        return f"{self.cls}: {' '.join(self.words)}"


def says(f: Any) -> Any:
    """The value of f(), or what its error says."""
    try:
        return plain(f())
    except Exception as error:
        # torch's classes of its own (GradcheckError) by the built-in ones, ours that belong to two worlds by torch's
        ours = type(error).__module__.startswith("ndgrad")
        return Said(torch_class(error) if ours else error_name(error), str(error))


def warned(f: Any) -> list[Any]:
    """The value of f() and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = says(f)
    # Warnings from torch's loading of its rules for forward mode are no behaviour of the program.
    own = [w for w in caught if "torch.jit.script" not in str(w.message)]
    return [value, [Said(w.category.__name__, str(w.message)) for w in own]]


def plain(value: Any) -> Any:
    """A result as lists, numbers and names."""
    if isinstance(value, (torch.dtype, ndgrad.dtype)):
        return str(value).rpartition(".")[2]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, torch.Tensor):
        return value.detach().resolve_conj().resolve_neg().tolist()
    if isinstance(value, ndgrad.Tensor):
        return value.detach().tolist()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def behaviour(program: Any, m: Any) -> Any:
    """Return the outcome of a program with torch's default dtype, its warnings included."""
    before = ndgrad.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    try:
        return warned(lambda: program(m))
    finally:
        ndgrad.set_default_dtype(before)


def agree(theirs: Any, ours: Any) -> bool:
    """Whether ours is theirs: numbers up to rounding, messages by class and torch's first words."""
    if isinstance(theirs, Said) and isinstance(ours, Said):
        first = " ".join(theirs.words[:FIRST_WORDS])
        return theirs.cls == ours.cls and f" {first} " in f" {' '.join(ours.words)} "
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(agree, theirs, ours))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs.keys() == ours.keys() and all(agree(theirs[k], ours[k]) for k in theirs)
    if isinstance(theirs, (float, complex)) and isinstance(ours, (float, complex)):
        return bool(np.isclose(ours, theirs, rtol=1e-6, atol=1e-12, equal_nan=True))
    return bool(theirs == ours)
