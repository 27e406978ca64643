"""Public classes and functions show the path that users import them from, in texts and in pickles."""

from __future__ import annotations

import importlib
import inspect
import pickle

import pytest
from docs.reference_pages import namespaces

import ndgrad
from ndgrad._src.foundations.public_path import defining_module

#: Objects that are published under another name: their own path stays, so that pickles find them.
RENAMED = frozenset(
    "ndgrad.DisableTorchFunctionSubclass ndgrad.autograd.forward_ad.is_fwd_grad_enabled "
    "ndgrad.autograd.forward_ad.set_fwd_grad_enabled ndgrad.autograd.function.BackwardCFunction "
    "ndgrad.compat.autograd.builtins.isinstance ndgrad.compat.autograd.isinstance ndgrad.jit.ScriptFunction "
    "ndgrad.overrides.DisableTorchFunctionSubclass".split()
)


def public_objects():
    """Yield (public name, class or function) of ndgrad's own."""
    for home, namespace in namespaces.namespaces().items():
        for name in () if namespace.is_class else namespace.names:
            value = namespaces.get(namespace, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and str(value.__module__).startswith("ndgrad"):
                yield f"{home}.{name}", value


def test_no_public_name_shows_a_private_module():
    wrong = {name: v.__module__ for name, v in public_objects() if v.__module__.startswith("ndgrad._src")}
    assert {name: module for name, module in wrong.items() if name not in RENAMED} == {}


def test_paths_of_public_names_lead_to_them():
    wrong = []
    for name, value in public_objects():
        if value.__module__.startswith("ndgrad._src") or "<locals>" in value.__qualname__ or "." in value.__qualname__:
            continue
        try:
            found = getattr(importlib.import_module(value.__module__), value.__qualname__, None)
        except ModuleNotFoundError:
            found = None
        if found is not value and defining_module(value) != value.__module__:
            wrong.append((name, value.__module__, value.__qualname__))
    assert wrong == []


@pytest.mark.parametrize(
    "value",
    [
        ndgrad.autograd.Function, ndgrad.no_grad, ndgrad.func.vmap, ndgrad.autograd.graph.Node, ndgrad.finfo,
        ndgrad.utils.checkpoint.CheckpointPolicy, ndgrad.utils.hooks.RemovableHandle, ndgrad.manual_seed,
    ],
    ids=lambda v: v.__name__,
)  # fmt: skip
def test_pickles_of_public_names(value):
    assert pickle.loads(pickle.dumps(value)) is value
    assert b"_src" not in pickle.dumps(value)


def test_reprs_of_public_names():
    assert repr(ndgrad.autograd.Function) == "<class 'ndgrad.autograd.Function'>"
    assert repr(ndgrad.utils.checkpoint.CheckpointError) == "<class 'ndgrad.utils.checkpoint.CheckpointError'>"


def test_sources_of_public_functions():
    for function in (ndgrad.func.vmap, ndgrad.autograd.grad, ndgrad.manual_seed, ndgrad.utils.checkpoint.checkpoint):
        assert f"def {function.__name__}(" in inspect.getsource(function)


def test_defining_modules_of_public_classes():
    module = importlib.import_module(defining_module(ndgrad.autograd.Function))
    assert "class Function(" in inspect.getsource(module)
    assert defining_module(ndgrad.nn.Linear) == ndgrad.nn.Linear.__module__
