"""GPU launches of steps: kernels, products, functions of CuPy's. Each launch costs CPU time, which bounds small steps."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy itself is here, and cuDNN may be")

#: By step: at most so many kernels of our own, products by cuBLAS, other calls. Where cuBLASLt is, it adds biases itself, and so
#: less is asked for than here: a kernel less for each layer.
MOST = {
    "mlp": (20, 8, 0),
    "feed forward ndgrad.float32": (16, 6, 0),
    "feed forward ndgrad.bfloat16": (18, 6, 0),
    "attention": (14, 6, 0),
    "convnet": (21, 5, 5),
    "batch norm": (7, 0, 0),
    "packed attention": (20, 12, 1),
    "chain": (13, 0, 0),
    "dropout": (3, 0, 0),
}


@pytest.fixture(scope="module")
def counts():
    if "NDGRAD_STAND_IN" in os.environ:
        pytest.skip("counted in a process of its own")
    environment = {k: v for k, v in os.environ.items() if k != "NDGRAD_STAND_IN"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.gpu.counted_launches"],
        cwd=Path(__file__).resolve().parents[2], env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", MOST)
def test_a_step_asks_for_no_more_than_it_did(counts, name):
    found = dict(counts[name])
    kernels, products = found.pop("kernel"), found.pop("product", 0) + found.pop("products", 0)
    most = MOST[name]
    assert kernels <= most[0], found
    assert products <= most[1], found
    assert sum(found.values()) <= most[2], found
