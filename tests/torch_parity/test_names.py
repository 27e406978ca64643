"""The list of torch's names is that of the torch that is installed."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.torch_parity import names

#: Names that depend on the machine, or on the modules of torch imported so far.
LOADED_LATER = frozenset(line.split()[0] for line in names.NAMES.read_text().splitlines() if line.endswith(" module"))


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the list is of torch 2.13")
def test_the_list_of_names_is_torchs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {line for line in names.names_of_torch() if not line.endswith(" module")}
    listed = {f"{name} {kind}" for name, kind in names.listed().items() if kind != "module"}
    assert found ^ listed == set()
