"""Training on several ranks of this machine: `python -m benchmarks.distributed`.

`step` times a data parallel step of a perceptron (forward, backward, averaged gradients, SGD) through ndgrad over MPI
and through torch's DistributedDataParallel over gloo. Both jobs live for the whole time and take turns, one sample of
some steps each, while the other sleeps. The fastest step of all samples counts, and the median of samples.
Losses are compared. `memory` prints the bytes of parameters, gradients and Adam's state on a rank under `fully_shard`.
`bytes` prints the bytes that one step sends under each strategy, next to the formula.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ndgrad.launch import Job

ROOT = Path(__file__).resolve().parent.parent
#: Goal: the ratio of the step's time to torch's.
STEP_GOAL = 0.6
SIZES = {"small": (64, 256, 256, 10), "large": (784, 1024, 1024, 10)}
BATCH = 32


# ----- code of a rank -------------------------------------------------------------------------------------------------


def _perceptron(library: Any, sizes: tuple[int, ...]) -> Any:
    nn = library.nn
    layers: list[Any] = []
    for into, out in itertools.pairwise(sizes):
        layers += [nn.Linear(into, out), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    numbers = np.random.default_rng(0)
    with library.no_grad():
        for p in net.parameters():
            p.copy_(library.tensor(numbers.standard_normal(tuple(p.shape)).astype(np.float32) * 0.05))
    return net


def _library(name: str) -> Any:
    if name == "torch":
        import torch  # a process imports only one of the two libraries

        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        return torch
    import ndgrad

    ndgrad.distributed.init_process_group()
    return ndgrad


def _serve_steps(name: str, size: str, folder: Path, steps: int) -> None:
    library = _library(name)
    dist = library.distributed
    rank, sizes = dist.get_rank(), SIZES[size]
    parallel = library.nn.parallel.DistributedDataParallel
    net = parallel(_perceptron(library, sizes), gradient_as_bucket_view=True)
    optimizer = library.optim.SGD(net.parameters(), lr=0.01)
    numbers = np.random.default_rng(1 + rank)
    x = library.tensor(numbers.standard_normal((BATCH, sizes[0])).astype(np.float32))
    y = library.tensor(numbers.integers(0, sizes[-1], BATCH))

    def step() -> Any:
        optimizer.zero_grad()
        loss = library.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step().detach()) for _ in range(5)]
    turn = 0
    while True:
        while not (folder / f"{name}-{turn}").exists():
            if (folder / "end").exists():
                dist.destroy_process_group()
                return
            time.sleep(0.002)
        dist.barrier()
        times = []
        for _ in range(steps):
            begun = time.perf_counter()
            step()
            times.append(time.perf_counter() - begun)
        dist.barrier()
        if rank == 0:
            part = folder / f"{name}-{turn}.part"
            part.write_text(json.dumps({"times": times, "losses": losses}))
            part.rename(folder / f"{name}-{turn}.done")
        turn += 1


def _retained(net: Any, optimizer: Any) -> int:
    """Return the bytes of parameters, gradients and state on this rank."""
    held = {}
    for p in net.parameters():
        for t in (p, p.grad, *(v for v in optimizer.state[p].values() if getattr(v, "ndim", 0))):
            array = (t.to_local() if hasattr(t, "to_local") else t).detach().numpy()
            while isinstance(array.base, np.ndarray):
                array = array.base
            held[id(array)] = array
    return sum(array.nbytes for array in held.values())


def _report_memory(folder: Path) -> None:
    library = _library("ndgrad")
    from ndgrad.distributed.fsdp import fully_shard

    net = _perceptron(library, SIZES["large"])
    whole = 4 * sum(p.numel() * 4 for p in net.parameters())
    for layer in net:
        if list(layer.parameters()):
            fully_shard(layer, reshard_after_forward=True)
    fully_shard(net)
    optimizer = library.optim.Adam(net.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        net(library.ones(4, SIZES["large"][0])).sum().backward()
        optimizer.step()
    rank = library.distributed.get_rank()
    (folder / f"memory-{rank}").write_text(json.dumps({"retained": _retained(net, optimizer), "whole": whole}))
    library.distributed.destroy_process_group()


def _report_bytes(folder: Path) -> None:
    library = _library("ndgrad")
    dist = library.distributed
    from ndgrad.distributed.fsdp import fully_shard
    from ndgrad.distributed.optim import ZeroRedundancyOptimizer
    from ndgrad.distributed.tensor.debug import CommDebugMode

    n = dist.get_world_size()
    total = sum(p.numel() * 4 for p in _perceptron(library, SIZES["small"]).parameters())
    share = (n - 1) / n * total
    found = []
    for name, formula in (("ddp", 2 * share), ("zero-1", 3 * share), ("zero-2", 2 * share), ("zero-3", 3 * share)):
        net = _perceptron(library, SIZES["small"])
        if name in ("ddp", "zero-1"):
            net = library.nn.parallel.DistributedDataParallel(net)
        else:
            for layer in net:
                if list(layer.parameters()):
                    fully_shard(layer, reshard_after_forward=name == "zero-3")
            fully_shard(net)
        sgd = library.optim.SGD
        optimizer = (
            ZeroRedundancyOptimizer(net.parameters(), sgd, lr=0.1) if name == "zero-1" else sgd(net.parameters())
        )
        with CommDebugMode() as seen:
            net(library.ones(4, SIZES["small"][0])).sum().backward()
            optimizer.step()
        mean = library.tensor(float(seen.total()), dtype=library.float64)
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        found.append((name, float(mean), formula, seen.get_comm_counts()))
    if dist.get_rank() == 0:
        (folder / "bytes").write_text(json.dumps(found))
    dist.destroy_process_group()


# ----- the jobs -------------------------------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _ndgrad_job(count: int, *arguments: str) -> Job:
    return Job(count, ["-m", "benchmarks.distributed", *arguments], environment=_environment(), labels=False)


def _torch_ranks(count: int, *arguments: str) -> list[subprocess.Popen[bytes]]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    common = {
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.distributed", *arguments],
            env={**_environment(), **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, cwd=ROOT,
        )
        for rank in range(count)
    ]  # fmt: skip


def compare_steps(size: str, ranks: int, rounds: int, steps: int) -> dict[str, Any]:
    """Time steps of both libraries in turn. Return the fastest, and the median of samples' medians, in seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = ("--serve", size, "--folder", name, "--steps", str(steps), "--library")
        job, others = _ndgrad_job(ranks, *arguments, "ndgrad"), _torch_ranks(ranks, *arguments, "torch")
        samples: dict[str, list[list[float]]] = {"ndgrad": [], "torch": []}
        losses: dict[str, list[float]] = {}
        try:
            for turn in range(rounds):
                for library in samples:
                    (folder / f"{library}-{turn}").touch()
                    done = folder / f"{library}-{turn}.done"
                    while not done.exists():
                        if job.poll() is not None or any(p.poll() is not None for p in others):
                            raise RuntimeError(f"a rank of {library} has ended; see its output above")
                        time.sleep(0.002)
                    found = json.loads(done.read_text())
                    samples[library].append(found["times"])
                    losses[library] = found["losses"]
        finally:
            (folder / "end").touch()
            time.sleep(0.3)
            job.close()
            for process in others:
                process.kill()
                process.wait()
    if not np.allclose(losses["ndgrad"], losses["torch"], rtol=1e-4):
        raise RuntimeError(f"the losses differ: {losses}")
    fastest = {name: min(min(s) for s in found) for name, found in samples.items()}
    usual = {name: statistics.median(statistics.median(s) for s in found) for name, found in samples.items()}
    return {"fastest": fastest, "median": usual}


def _run_job(count: int, *arguments: str) -> None:
    job = _ndgrad_job(count, *arguments)
    try:
        if job.wait():
            raise RuntimeError("the job failed; see the output of its ranks above")
    finally:
        job.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="*", default=["step", "memory", "bytes"], help="step, memory, bytes")
    parser.add_argument("--ranks", type=int, default=2, help="of `step` (2)")
    parser.add_argument("--rounds", type=int, default=10, help="samples of each library")
    parser.add_argument("--steps", type=int, default=20, help="steps of a sample")
    for name in ("--serve", "--folder", "--library", "--report"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        _serve_steps(given.library, given.serve, Path(given.folder), given.steps)
        return
    if given.report:
        {"memory": _report_memory, "bytes": _report_bytes}[given.report](Path(given.folder))
        return
    if "step" in given.what:
        print(f"{'data parallel step':20} {'ndgrad':>12} {'torch, gloo':>12} {'ratio':>7}   goal <= {STEP_GOAL}")
        for size in SIZES:
            found = compare_steps(size, given.ranks, given.rounds, given.steps)
            for kind, times in found.items():
                ours, theirs = times["ndgrad"] * 1e3, times["torch"] * 1e3
                print(f"{size + ', ' + kind:20} {ours:9.2f} ms {theirs:9.2f} ms {ours / theirs:7.2f}")
    with tempfile.TemporaryDirectory() as name:
        if "memory" in given.what:
            print(f"\n{'ranks':>5} {'kept by a rank':>16} {'of one process':>16}")
            for count in (1, 2, 3, 4):
                _run_job(count, "--report", "memory", "--folder", name)
                reports = [json.loads((Path(name) / f"memory-{r}").read_text()) for r in range(count)]
                most = max(t["retained"] for t in reports)
                print(f"{count:5} {most / 2**20:12.2f} MiB {most / reports[0]['whole']:16.4f}")
        if "bytes" in given.what:
            for count in (2, 4):
                _run_job(count, "--report", "bytes", "--folder", name)
                print(f"\n{count} ranks: {'sent':>12} {'formula':>12}")
                for strategy, sent, formula, calls in json.loads((Path(name) / "bytes").read_text()):
                    print(f"{strategy:8} {sent:12.0f} {formula:12.0f}   {calls}")


if __name__ == "__main__":
    main()
