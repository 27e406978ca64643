"""`python -m ndgrad.launch`: what users see of a job, above all of one that goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, signal, sys, time
import ndgrad, ndgrad.distributed as dist
dist.init_process_group()
rank = dist.get_rank()
print("rank", rank, "of", dist.get_world_size(), "pid", os.getpid(), flush=True)
dist.barrier()
fault = sys.argv[1]
if rank == 1:
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "raises":
        raise ValueError("no good")
    if fault == "waits":
        time.sleep(60)
if fault == "hook":
    def hook(g):
        if rank == 1:
            raise ArithmeticError("a hook")
    net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(2, 2))
    y = net(ndgrad.ones(1, 2))
    y.register_hook(hook)
    y.sum().backward()
if fault in ("called", "backward"):
    from ndgrad.distributed import autograd, rpc
    def die(*args):
        os.kill(os.getpid(), signal.SIGKILL)
    class Dies(ndgrad.autograd.Function):
        forward = staticmethod(lambda ctx, x: x * 1)
        backward = staticmethod(die)
    def broken(x):
        return Dies.apply(x)
    rpc.init_rpc(f"w{rank}")
    if rank == 0:
        begun = time.monotonic()
        try:
            if fault == "called":
                rpc.rpc_sync(1, die)
            with autograd.context() as c:
                y = rpc.rpc_sync(1, broken, args=(ndgrad.ones(2, requires_grad=True),))
                autograd.backward(c, [y.sum()])
        finally:
            print("after", time.monotonic() - begun < 5, flush=True)
    rpc.shutdown()
dist.all_reduce(ndgrad.ones(4))
print("done", flush=True)
"""


def _start(tmp_path, fault, count=2):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-m", "ndgrad.launch", "-n", str(count), str(program), fault],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )


def _pids(output):
    return [int(line.rpartition(" ")[2]) for line in output.splitlines() if " pid " in line]


def _all_gone(pids):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("killed", "[0] ndgrad.distributed.errors.DistBackendError: rank 1 failed with the death of its process"),
        ("raises", "[0] ndgrad.distributed.errors.DistBackendError: rank 1 failed with ValueError: no good"),
    ],
)
def test_a_rank_that_fails_is_named_by_the_others_and_nothing_is_left(tmp_path, fault, told):
    job = _start(tmp_path, fault)
    output, _ = job.communicate(timeout=100)
    assert job.returncode != 0
    assert told in output, output
    assert "[0] rank 0 of 2" in output  # lines carry the rank
    assert "[1] rank 1 of 2" in output
    assert "while rank 0 was in all_reduce(float32[4], SUM)" in output
    assert _all_gone(_pids(output))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("hook", "[0] ndgrad.distributed.errors.DistBackendError: rank 1 failed with ArithmeticError: a hook"),
        ("called", "DistBackendError: rank 1 failed with the death of its process (it was killed, or crashed), in die called"),
        ("backward", "DistBackendError: rank 1 failed with the death of its process"),
    ],
)
def test_a_rank_that_fails_where_others_wait_for_its_gradients_is_named(tmp_path, fault, told):
    job = _start(tmp_path, fault)
    output, _ = job.communicate(timeout=100)
    assert job.returncode != 0
    assert told in output, output
    assert fault == "hook" or "[0] after True" in output  # within a bound
    assert "done" not in output
    assert _all_gone(_pids(output))


def test_an_interrupt_reaches_every_rank_and_nothing_is_left(tmp_path):
    job = _start(tmp_path, "waits")
    seen = ""
    while "[1] rank 1" not in seen or "[0] rank 0" not in seen:
        line = job.stdout.readline()
        assert line, seen
        seen += line
    job.send_signal(signal.SIGINT)
    rest, _ = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in rest
    assert _all_gone(_pids(seen))


RESTARTED = """
import os
print("environment", os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"])
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
dist.init_process_group("gloo")
state = {"w": torch.zeros(2), "step": 0}
if os.path.exists("saved/metadata.json"):
    dcp.load(state, checkpoint_id="saved")
while state["step"] < 4:
    state["w"] += 1
    state["step"] += 1
    dcp.save(state, checkpoint_id="saved")
    if state["step"] == 2 and os.environ["RESTART_COUNT"] == "0" and dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()
print("finished", state["w"].tolist(), "restarts", os.environ["RESTART_COUNT"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_job_continues_from_its_checkpoint_after_a_restart(tmp_path):
    (tmp_path / "program.py").write_text(RESTARTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "ndgrad.distributed.run", "--standalone", "--nnodes=1", "--nproc-per-node=2"]
    for restarts, status in (("0", 1), ("1", 0)):
        ended = subprocess.run(
            [*command, "--max-restarts", restarts, "program.py"], env=environment, cwd=tmp_path, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert (ended.returncode == 0) == (status == 0), ended.stdout + ended.stderr
        if restarts == "0":
            for path in (tmp_path / "saved").iterdir():
                path.unlink()
    assert "environment 1 2 1" in ended.stdout
    assert ended.stdout.count("finished [4.0, 4.0] restarts 1") == 2
    assert "started again" in ended.stderr


@pytest.mark.parametrize("arguments", [["--nnodes=2"], ["-n", "0"], ["-n", "many"], ["--max-restarts", "-1"]])
def test_options_that_cannot_be_met_are_refused(arguments, capsys):
    from ndgrad.launch import main

    with pytest.raises(SystemExit):
        main([*arguments, "program.py"])
    assert "error:" in capsys.readouterr().err
