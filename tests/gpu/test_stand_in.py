"""The tests of this folder where there is no GPU: in a process of their own, over `stand_in` in the place of CuPy."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import in_a_long_run

HERE = Path(__file__).resolve().parent


@pytest.mark.skipif("NDGRAD_STAND_IN" in os.environ, reason="this is that process")
@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy itself is here")
@pytest.mark.parametrize("the_table", [True, False], ids=["the table", "all others"])
def test_the_tests_of_gpus_pass_over_the_stand_in(the_table):
    pytest.importorskip("scipy")
    files = sorted(str(f) for f in HERE.glob("test_*.py") if (f.name == "test_table.py") is the_table)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("-m", "not slow", f"--hypothesis-profile={'long' if in_a_long_run() else 'short'}", *files),
        ],
        cwd=HERE.parents[1],
        env={**os.environ, "NDGRAD_STAND_IN": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
