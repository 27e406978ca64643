"""The package as users' tools see it: names, signatures, docstrings, pickles, completions."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pickle
import re
import runpy
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
NAMESPACES = (
    "ndgrad", "ndgrad.Tensor", "ndgrad.numpy", "ndgrad.numpy.Array", "ndgrad.nn.functional", "ndgrad.linalg", "ndgrad.fft",
    "ndgrad.special", "ndgrad.implicit", "ndgrad.scipy.fft", "ndgrad.scipy.integrate", "ndgrad.scipy.interpolate", "ndgrad.scipy.linalg",
    "ndgrad.scipy.ndimage", "ndgrad.scipy.optimize", "ndgrad.scipy.signal", "ndgrad.scipy.signal.windows", "ndgrad.scipy.sparse",
    "ndgrad.scipy.sparse.linalg", "ndgrad.scipy.special", "ndgrad.scipy.stats",
)  # fmt: skip
#: Their keywords are the user's own words, or those of a constructor; or they hand all that they get to NumPy's function of that name.
OPEN = {"rename", "rename_", "new", "expand"} | set("frombuffer fromfile fromregex fromstring genfromtxt load loadtxt".split())


def find(path):
    if "scipy" in path or "implicit" in path:
        pytest.importorskip("scipy")
    module, _, name = path.rpartition(".")
    if path == "ndgrad" or name.islower():
        return importlib.import_module(path)
    return getattr(importlib.import_module(module), name)


def public(path):
    """The public functions of a namespace: those of ours, by name."""
    home = find(path)
    for name in dir(home):
        if not name.startswith("_"):
            thing = inspect.getattr_static(home, name) if inspect.isclass(home) else getattr(home, name)
            if inspect.isclass(home) and not inspect.isfunction(thing):
                thing = getattr(home, name)  # a method whose family is loaded when it is looked up
            if inspect.isfunction(thing) and thing.__module__.startswith("ndgrad"):
                yield name, thing


@pytest.mark.skipif(hasattr(np, "trapz"), reason="stubs have the names and signatures of newer versions of NumPy")
def test_files_that_follow_from_declarations_are_as_declared(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["surface.py", "--check"])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(ROOT / "scripts" / "surface.py"), run_name="__main__")
    assert done.value.code == 0, capsys.readouterr().out + "run python scripts/surface.py"


@pytest.mark.parametrize("path", NAMESPACES)
def test_every_public_function_says_what_it_does_and_shows_it(path):
    functions = dict(public(path))
    assert len(functions) > 5
    silent = [name for name, f in functions.items() if not f.__doc__]
    shown = (">>>", "In-place version of", "In place: see")
    without = [n for n, f in functions.items() if f.__doc__ and not any(text in f.__doc__ for text in shown)]
    assert not silent
    assert not without


@pytest.mark.parametrize("path", NAMESPACES)
def test_every_public_function_has_a_signature(path):
    open_ones = []
    for name, function in public(path):
        parameters = list(inspect.signature(function).parameters.values())
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "self"]
        options = [p for p in parameters if p.kind is p.VAR_KEYWORD and "Unpack" not in str(p.annotation)]
        if options and not named and name not in OPEN and not typing.get_overloads(inspect.unwrap(function)):
            open_ones.append(name)
    assert not open_ones


@pytest.mark.parametrize("path", NAMESPACES)
def test_every_public_function_survives_pickling(path):
    lost = []
    for name, function in public(path):
        try:
            if pickle.loads(pickle.dumps(function)) is not function:
                lost.append(name)
        except (pickle.PicklingError, AttributeError) as error:
            lost.append(f"{name}: {error}")
    assert not lost


def test_every_name_of_numpy_for_an_argument_is_in_the_stubs():
    """Type checkers know the keywords that `x.sum(axis=0, keepdims=True)` accepts when it runs."""
    stub = (ROOT / "src" / "ndgrad" / "_src" / "tensor" / "methods.pyi").read_text()
    missing = []
    for name, method in public("ndgrad.Tensor"):
        written = inspect.unwrap(method)
        if hasattr(written, "renames") and inspect.signature(written).parameters.keys() & {"dim", "keepdim"}:
            forms = re.findall(rf"^    def {name}\(.*?\) -> ", stub, re.MULTILINE | re.DOTALL)
            if not any("axis:" in form or "keepdims:" in form for form in forms):
                missing.append(name)
    assert not missing


def test_distributions_say_what_they_are_and_survive_pickling():
    stats = find("ndgrad.scipy.stats")
    for name in (*stats.continuous.__all__, *stats.discrete.__all__, *stats.multivariate.__all__):
        thing = getattr(stats, name)
        _, call = doctest.DocTestParser().get_examples(thing.__doc__)
        assert repr(eval(call.source, {"stats": stats})) == call.want.strip()
        assert pickle.loads(pickle.dumps(thing)) is thing
    assert pickle.loads(pickle.dumps(stats.norm(3.0))).mean() == 3.0
    assert pickle.loads(pickle.dumps(stats.dirichlet([1.0, 3.0]))).mean()[1] == 0.75


@pytest.mark.parametrize("path", [p for p in NAMESPACES if "scipy" in p or "implicit" in p])
def test_classes_show_what_they_do(path):
    home = find(path)
    things = [getattr(home, n) for n in dir(home)]
    classes = [c for c in things if inspect.isclass(c) and c.__module__.startswith("ndgrad")]
    assert not [c.__name__ for c in classes if ">>>" not in (c.__doc__ or "")]


def test_idioms_run(capsys):
    runpy.run_path(str(ROOT / "tests" / "typing" / "idioms.py"))["everything"]()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("import ndgrad\nndgrad.", {"sin", "randn", "std", "conv2d", "Tensor", "no_grad"}),
        ("import ndgrad\nx = ndgrad.tensor([1.0])\nx.", {"sin", "sum", "std", "backward", "reshape", "add_"}),
        ("import ndgrad.numpy as np\nnp.", {"sin", "cumsum", "linalg", "pi", "float64"}),
        pytest.param("import ndgrad.numpy as np\nx = np.zeros(3)\nx.", {"sum", "std", "astype", "backward"}, marks=pytest.mark.slow),
        pytest.param("import ndgrad.nn.functional as F\nF.", {"relu", "softmax", "conv2d", "cross_entropy"}, marks=pytest.mark.slow),
        ("from ndgrad import nn\nnn.", {"Linear", "Module", "functional"}),
        pytest.param("import ndgrad\nx = ndgrad.randn(3).sin().sum(dim=0)\nx.", {"sin", "backward"}, marks=pytest.mark.slow),
        ("import ndgrad\nndgrad.autograd.", {"grad", "Function", "graph"}),
        ("from ndgrad import func\nfunc.", {"grad", "vmap", "jet"}),
    ],
)
def test_an_editor_completes(before, expected):
    jedi = pytest.importorskip("jedi")
    script = jedi.Script(before, project=jedi.Project(str(ROOT / "src"), added_sys_path=[str(ROOT / "src")]))
    found = {c.name for c in script.complete()}
    assert expected <= found
