"""The gallery in its reduced form: every script runs and finds what it should."""

from __future__ import annotations

import importlib.util
import math
import pathlib
import shutil

import pytest

import ndgrad

GALLERY = pathlib.Path(__file__).resolve().parents[2] / "examples" / "gallery"
#: Script -> the largest number that it may return.
LIMITS = {
    "bundle_adjustment": 1.1,
    "c_kernel": 1e-14,
    "deconvolution": 0.7,
    "gaussian_process": 0.1,
    "hamiltonian_monte_carlo": 0.5,
    "implicit_layer": 0.1,
    "meta_learning": 0.8,
    "ode_parameters": 0.2,
    "optimal_control": 0.2,
    "physics_informed": 0.05,
    "rigid_bodies": 1e-2,
    "variational_inference": 0.5,
}
NEEDS_SCIPY = {"bundle_adjustment", "implicit_layer", "ode_parameters"}


def test_every_script_of_the_gallery_is_tested():
    assert {path.stem for path in GALLERY.glob("*.py")} == set(LIMITS)
    readme = (GALLERY.parent / "README.md").read_text(encoding="utf-8")
    assert all(f"`gallery/{name}.py`" in readme for name in LIMITS)


SLOW = {"ode_parameters", "hamiltonian_monte_carlo", "physics_informed"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in LIMITS])
def test_script_finds_what_it_should(name, capsys):
    if name in NEEDS_SCIPY:
        pytest.importorskip("scipy")
    if name == "c_kernel" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler")
    ndgrad.set_default_dtype(ndgrad.float32)
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", GALLERY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.main(quick=True)
    assert math.isfinite(found)
    assert found < LIMITS[name]
    assert capsys.readouterr().out
