"""The scripts of examples/ run and find what they should. Each needs its library, and is skipped without it."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import ndgrad

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"

#: Script -> the library that it needs, and the largest number that it may return.
SCRIPTS: dict[str, tuple[str, float]] = {
    "opt_einsum_network": ("opt_einsum", 1e-6),
    "einops_attention": ("einops", 1e-6),
    "xarray_labels": ("xarray", 1e-6),
    "pint_units": ("pint", 1e-7),
    "pymanopt_backend": ("pymanopt", 1e-8),
    "emcee_posterior": ("emcee", 0.5),
    "scipy_optimize": ("scipy", 1e-4),
    "inverse_problem": ("numpy", 1e-3),
}


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_runs_and_is_right(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    library, limit = SCRIPTS[name]
    pytest.importorskip(library)
    if name == "emcee_posterior":
        pytest.importorskip("scipy")
    ndgrad.set_default_dtype(ndgrad.float32)  # the default of a user's run
    found = loaded(name).main()
    assert all(value < limit for value in (found if isinstance(found, tuple) else (found,)))
    assert capsys.readouterr().out


@pytest.mark.slow
def test_scikit_learn_with_array_api_dispatch() -> None:
    """In a process of its own: SciPy reads SCIPY_ARRAY_API when it is imported."""
    pytest.importorskip("sklearn")
    code = f"import runpy; found = runpy.run_path({str(EXAMPLES / 'sklearn_pipeline.py')!r})['main'](); assert found < 1e-6, found"
    root = EXAMPLES.parent / "src"
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {code}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_example_is_tested_and_listed() -> None:
    scripts = {f.stem for f in EXAMPLES.glob("*.py")}
    assert scripts == {*SCRIPTS, "sklearn_pipeline"}
    listed = (EXAMPLES / "README.md").read_text()
    assert [s for s in scripts if f"`{s}.py`" not in listed] == []
