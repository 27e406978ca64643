"""The scripts of examples/distributed, unmodified, under torchrun and under ndgrad's launcher: the same output."""

from __future__ import annotations

import pytest

from tests.example_scripts.test_distributed_examples import run_script

TORCHRUN = "torch.distributed.run"


def run_by_torch(name, ranks, *arguments):
    """Return the output of a script under torchrun. torch's processes sometimes abort at their exit; such a run is repeated."""
    for _ in range(3):
        try:
            return run_script(name, ranks, *arguments, module=TORCHRUN)
        except AssertionError as error:
            if "terminate called without an active exception" not in str(error):
                raise
    return pytest.skip("torch aborts at the exit of its processes")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp", "tensor_parallel", "pipeline"])
def test_a_script_prints_the_same(name):
    assert run_script(name, 2) == run_by_torch(name, 2)


@pytest.mark.slow
def test_a_resumed_script_prints_the_same(tmp_path):
    for ranks, first, last in ((2, 0, 3), (3, 3, 6)):
        found = run_script("resume", ranks, tmp_path / "ndgrad", first, last)
        assert found == run_by_torch("resume", ranks, tmp_path / "torch", first, last)
