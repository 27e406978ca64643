"""An exception in a hook on one rank: every rank ends with an error that names it, under every strategy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
import ndgrad, ndgrad.distributed as dist
from ndgrad.distributed.fsdp import fully_shard
from ndgrad.distributed.pipelining import PipelineStage, Schedule1F1B
dist.init_process_group()
rank, strategy = dist.get_rank(), sys.argv[1]
nn = ndgrad.nn

def broken(grad):
    if rank == 1:
        raise ValueError("the hook is broken")

if strategy == "pipeline":
    part = nn.Linear(4, 4)
    part.register_full_backward_hook(lambda m, into, out: broken(None))
    schedule = Schedule1F1B(PipelineStage(part, rank, 2), 2, loss_fn=nn.functional.mse_loss)
    x = ndgrad.ones(4, 4)
    schedule.step(*((x,) if rank == 0 else ()), target=x if rank else None)
else:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    if strategy == "data parallel":
        net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.00001)
        inner = net.module
    else:
        fully_shard(net[0])
        fully_shard(net[2])
        inner = fully_shard(net)
    inner[1].register_full_backward_hook(lambda m, into, out: broken(None))
    net(ndgrad.ones(2, 4)).sum().backward()
print("not reached", flush=True)
"""


def test_a_hook_that_raises_on_one_rank_ends_all_with_its_name(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    jobs = {
        strategy: subprocess.Popen(
            [sys.executable, "-m", "ndgrad.launch", "-n", "2", str(program), strategy],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for strategy in ("data parallel", "fully sharded", "pipeline")
    }  # fmt: skip
    for strategy, job in jobs.items():
        output, _ = job.communicate(timeout=100)
        assert job.returncode != 0, strategy
        assert "[1] ValueError: the hook is broken" in output, output
        told = "[0] ndgrad.distributed.errors.DistBackendError: rank 1 failed with ValueError: the hook is broken, while rank 0 was in"
        assert told in output, output
        assert "not reached" not in output, strategy
