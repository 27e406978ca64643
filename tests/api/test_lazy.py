"""Families that are loaded on first use."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

import ndgrad
from ndgrad.api.lazy import FAMILIES
from ndgrad.ops.table import table


def run(program):
    """Run a program in a process that has loaded nothing yet."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_names_are_those_of_the_file(family):
    module = importlib.import_module(f"ndgrad.api.{family}")
    functions = set(getattr(module, "__all__", ()))
    methods = set(getattr(module, "METHODS", ())) | set(getattr(module, "SPECIAL_METHODS", {}))
    for name in getattr(module, "ELEMENTWISE", ()):
        functions.add(name)
        methods |= {name, name + "_"} if table[name].inplace else {name}
    for other, name in getattr(module, "ALIASES", {}).items():
        functions |= {other} & {other if name in functions else name}
        methods |= {other + end for end in ("", "_") if name + end in methods}
    assert set(FAMILIES[family][0].split()) == functions
    assert set(FAMILIES[family][1].split()) == methods


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_loaded_by_its_first_use(family):
    program = f"""
import sys, ndgrad
name = "ndgrad.api.{family}"
assert name not in sys.modules
try:
    ndgrad.{FAMILIES[family][0].split()[0]}()
except (TypeError, ValueError):
    pass
assert name in sys.modules
"""
    run(program)


def test_a_stub_that_was_kept_works_on():
    program = """
import ndgrad
sort, method = ndgrad.sort, ndgrad.Tensor.sort
x = ndgrad.tensor([2.0, 1.0])
assert sort(x)[0].tolist() == method(x)[0].tolist() == sort(x)[0].tolist() == [1.0, 2.0]
"""
    run(program)
    assert ndgrad.sort(ndgrad.tensor([2.0, 1.0]))[0].tolist() == [1.0, 2.0]
