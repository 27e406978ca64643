"""The same programs through HIPS autograd and through ndgrad's interface of its names: the same values, the same mistakes."""

from __future__ import annotations

import importlib
import types
import warnings
from typing import Any

import numpy as np
import pytest

from ndgrad._src.foundations.pytree import tree_flatten
from tests.compat.autograd.programs import MISTAKES, PROGRAMS

pytest.importorskip("scipy")


def library(name: str) -> Any:
    """The names that programs use, of one library."""

    def module(path: str) -> Any:
        return importlib.import_module(f"{name}.{path}")

    for submodule in ("special", "stats", "linalg", "signal", "integrate"):
        module(f"scipy.{submodule}")
    operators, extend, optimizers = module("differential_operators"), module("extend"), module("misc.optimizers")
    names = {n: getattr(operators, n) for n in dir(operators) if not n.startswith("_")}
    names.update({n: getattr(extend, n) for n in ("primitive", "defvjp", "defjvp", "defvjp_argnums", "defjvp_argnums")})
    names.update({n: getattr(optimizers, n) for n in ("sgd", "rmsprop", "adam")})
    names.update({n: getattr(module("builtins"), n) for n in ("isinstance", "tuple")})
    names.update(np=module("numpy"), scipy=module("scipy"), flatten=module("misc.flatten").flatten)
    names.update(fixed_point=module("misc.fixed_points").fixed_point, check_grads=module("test_util").check_grads)
    return types.SimpleNamespace(**names)


@pytest.fixture(scope="module")
def hips() -> Any:
    pytest.importorskip("autograd")
    return library("autograd")


@pytest.fixture(scope="module")
def ours() -> Any:
    return library("ndgrad.compat.autograd")


def compare(found: Any, expected: Any) -> None:
    left, right = tree_flatten(found)[0], tree_flatten(expected)[0]
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        if isinstance(b, (str, bool)):
            assert a == b
            continue
        assert isinstance(a, (float, complex, np.generic, np.ndarray, int)), f"{type(a)} came out"
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_computes_the_same(name: str, hips: Any, ours: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = PROGRAMS[name](hips)
        found = PROGRAMS[name](ours)
    compare(found, expected)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_the_same(name: str, hips: Any, ours: Any) -> None:
    kind, run = MISTAKES[name]
    with pytest.raises(kind):
        run(hips)
    with pytest.raises(kind):
        run(ours)


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 45


def test_every_public_name_is_there() -> None:
    autograd = pytest.importorskip("autograd")
    import ndgrad.compat.autograd as compat

    hidden = {"core", "util", "wrap_util"}
    names = {n for n in dir(autograd) if not n.startswith("_")} - hidden
    assert [n for n in sorted(names) if not hasattr(compat, n)] == []
