"""Every function of SciPy's submodules is differentiable, without a derivative, or for constants only; the counts stand on the page.

The list is taken from the SciPy that is installed, so a new version cannot add a hole: a name that is unknown runs on constants, and
refuses what carries a derivative.
"""

from __future__ import annotations

import importlib
import re
import types
from pathlib import Path

import pytest

scipy = pytest.importorskip("scipy")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scipy.md"
SUBMODULES = ["fft", "interpolate", "linalg", "ndimage", "signal", "sparse", "sparse.linalg", "special", "stats"]


def counts(submodule):
    theirs, ours = (importlib.import_module(f"{package}.{submodule}") for package in ("scipy", "ndgrad.scipy"))
    finder = getattr(ours, "_beyond", None) or ours.__getattr__
    without = finder.decisions | getattr(ours, "STEPS", frozenset())
    found = {"differentiable": 0, "without a derivative": 0, "constants only": 0}
    for name in sorted(set(theirs.__all__)):
        member = getattr(theirs, name)
        is_error = isinstance(member, type) and issubclass(member, (BaseException, Warning))
        if isinstance(member, types.ModuleType) or is_error or not (callable(member) or hasattr(member, "rvs")):
            continue
        assert getattr(ours, name) is not None
        kind = "without a derivative" if name in without else "differentiable" if name in ours.__all__ else "constants only"
        found[kind] += 1
    return found


@pytest.mark.parametrize("submodule", SUBMODULES)
def test_every_name_is_accounted_for_on_the_page(submodule):
    found = counts(submodule)
    row = re.search(rf"\| `{re.escape(submodule)}` \| (\d+) \| (\d+) \| (\d+) \|", PAGE.read_text())
    assert row is not None, f"{PAGE.name} has no row for {submodule}: {found}"
    differentiable, without, constants = map(int, row.groups())
    # another SciPy may have a few names more or less
    for written, now in zip((differentiable, without, constants), found.values(), strict=True):
        assert abs(written - now) <= max(3, 0.1 * now), (submodule, found)
    assert found["differentiable"] >= 0.95 * differentiable


@pytest.mark.parametrize("submodule", SUBMODULES)
def test_names_on_offer_exist(submodule):
    ours = importlib.import_module(f"ndgrad.scipy.{submodule}")
    for name in ours.__all__:
        assert getattr(ours, name) is not None
    with pytest.raises(AttributeError):
        ours.no_such_name_at_all
