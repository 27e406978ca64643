"""Kernels of eager ops, with the host's part of a launch, run on the processor: results are those of the CPU."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy")
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy itself is here"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler"),
    pytest.mark.skipif("NDGRAD_STAND_IN" in os.environ, reason="run in a process of its own"),
    pytest.mark.slow,  # a dozen kernels are compiled
]


@pytest.fixture(scope="module")
def results():
    run = subprocess.run(
        [sys.executable, "-m", "tests.gpu.emulated_programs"],
        cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["solve with odd layouts", "cast in memory order", "batch_norm"])
def test_results_gradients_and_strides_are_those_of_the_cpu(results, name):
    for want, got in zip(*results[name], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_running_statistics_move_as_on_the_cpu(results):
    np.testing.assert_allclose(*results["running statistics"], rtol=1e-12)


def test_a_singular_matrix_of_a_recorded_call_raises_later_with_its_number(results):
    assert "matrix 1 of the stack is singular" in results["recorded inverse"]
