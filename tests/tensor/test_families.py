"""Families of functions: their loading times, and that a name always refers to the same function."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import ndgrad
from ndgrad._src.tensor import families
from ndgrad._src.tensor.lazy_names import FUNCTIONS, METHODS


def run(program):
    """Run a program in a fresh process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_family_is_loaded_when_one_of_its_names_is_looked_up_and_by_nothing_before():
    found = []
    for family in families.WHEN_FIRST_USED:
        names = [f"ndgrad.{name}" for name, home in FUNCTIONS.items() if home == family]
        methods = [f"ndgrad.Tensor.{name}" for name in METHODS.get(family, "").split()]
        found += [(family, some[0]) for some in (names, methods) if some]
    assert {family for family, _ in found} == set(families.WHEN_FIRST_USED)
    run(f"""
import os, sys, traceback, ndgrad

def check(family, name):
    assert f"ndgrad._src.tensor.functions.{{family}}" not in sys.modules
    function = eval(name)
    assert f"ndgrad._src.tensor.functions.{{family}}" in sys.modules
    assert function is eval(name)

for family, name in {found!r}:
    child = os.fork()  # which has loaded no more than this process
    if not child:
        try:
            check(family, name)
        except BaseException:
            print(family, name)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
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
