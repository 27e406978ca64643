"""Scripts as people write them, with `import torch` at their head: run by torch, and by ndgrad in torch's place (`python -m
ndgrad.as_torch`). Both must print the same, numbers to the digits that rounding leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.torch_parity.scripts.__main__ import scripts

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "torch_parity" / "scripts" / "__main__.py"
PROGRAMS = {path.stem: path for path in scripts()}
_NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")


@cache
def printed(*command: str) -> dict[str, str]:
    """Return the output of all scripts, in one process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    made = subprocess.run([sys.executable, *command, str(FOLDER)], capture_output=True, text=True, env=environment, cwd=ROOT, timeout=240)
    assert made.returncode == 0, made.stderr
    found: dict[str, str] = json.loads(made.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_script_prints_the_same_with_ndgrad_as_with_torch(name: str) -> None:
    theirs, ours = printed()[name], printed("-m", "ndgrad.as_torch")[name]
    assert "stopped:" not in theirs, theirs
    assert "stopped:" not in ours, ours
    assert _NUMBER.sub("#", ours) == _NUMBER.sub("#", theirs)
    numbers = [[float(n) for n in _NUMBER.findall(text)] for text in (ours, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], rel=2e-3, abs=2e-4)
