"""The scripts of examples/distributed, which import torch, on ndgrad: the losses do not depend on the number of ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "distributed"
NAMES = ["ddp", "fsdp", "tensor_parallel"]


def run_script(name, ranks, *arguments, module="ndgrad.distributed.run"):
    """Return the output of a script on several ranks."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", module, "--standalone", f"--nproc-per-node={ranks}", str(EXAMPLES / f"{name}.py"), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses(output):
    return [float(x) for x in re.findall(r"loss ([0-9.]+)", output)]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "fsdp" else pytest.mark.slow) for n in NAMES])
def test_losses_do_not_depend_on_the_number_of_ranks(name):
    alone, together = losses(run_script(name, 1)), losses(run_script(name, 2))
    assert len(alone) >= 5
    assert alone[-1] < alone[0]
    assert together == pytest.approx(alone, abs=2e-5)


@pytest.mark.slow
def test_training_resumes_on_another_number_of_ranks(tmp_path):
    through = losses(run_script("resume", 1, tmp_path / "whole", 0, 6))
    first = losses(run_script("resume", 2, tmp_path / "parts", 0, 3))
    rest = losses(run_script("resume", 3, tmp_path / "parts", 3, 6))
    assert [*first, *rest] == pytest.approx(through, abs=2e-5)


@pytest.mark.slow
def test_a_pipeline_learns():
    found = losses(run_script("pipeline", 2))
    assert found[-1] < found[0]
