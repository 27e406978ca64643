"""Families of functions: what is loaded when, and that looking a name up always finds the same function."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import ndgrad
from ndgrad.api import families
from ndgrad.api.later import FUNCTIONS, METHODS


def run(program):
    """Run a program in a process that has loaded nothing yet."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.parametrize("family", families.WHEN_FIRST_USED)
def test_a_family_is_loaded_when_one_of_its_names_is_looked_up(family):
    names = {
        "ndgrad": [name for name, home in FUNCTIONS.items() if home == family],
        "ndgrad.Tensor": METHODS.get(family, "").split(),
    }
    for place, found in names.items():
        if found:
            run(f"""
import sys, ndgrad
assert "ndgrad.api.{family}" not in sys.modules
function = {place}.{found[0]}
assert "ndgrad.api.{family}" in sys.modules
assert function is {place}.{found[0]}
""")


def test_no_family_is_loaded_by_the_import_that_need_not_be():
    run(f"""
import sys, ndgrad
assert not [name for name in {families.WHEN_FIRST_USED!r} if f"ndgrad.api.{{name}}" in sys.modules]
""")


def test_a_function_is_the_same_object_before_and_after_its_first_call():
    run("""
import ndgrad
for place in (ndgrad, ndgrad.Tensor):
    for name in ("sort", "sin", "sum", "std"):
        function = getattr(place, name)
        function(ndgrad.tensor([2.0, 1.0]))
        assert function is getattr(place, name)
""")


def test_a_name_is_public_in_one_family_only():
    homes = {}
    for family in (*families.AT_ONCE, *families.WHEN_FIRST_USED):
        for place, names in enumerate(families.load(family)):
            for name in names:
                homes.setdefault((place, name), []).append(family)
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_what_dir_shows_exists_and_is_public():
    names = dir(ndgrad)
    assert not [name for name in names if not hasattr(ndgrad, name)]
    assert not [name for name in names if name.startswith("_") and name != "__version__"]
    assert not {"api", "arrays", "annotations", "checks", "protocols", "cuda_"} & set(names)
    assert {"sin", "std", "conv2d", "vmap", "lift", "load", "float32", "nn", "Tensor"} <= set(names)
