"""Compare predictions of a data-parallel step with measurements, at the number of ranks of this job.

    for n in 1 2 3 4; do mpiexec -n $n python benchmarks/distributed_planning.py; done

The first rank records a step alone, while the others wait. Then all ranks measure the same step together.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed import planning

STEPS = 25


def _step(group: Any) -> Callable[[], None]:
    ndgrad.manual_seed(0)
    layers = ndgrad.nn.Sequential(
        ndgrad.nn.Linear(256, 1024), ndgrad.nn.ReLU(), ndgrad.nn.Linear(1024, 1024), ndgrad.nn.ReLU(),
        ndgrad.nn.Linear(1024, 256),
    )  # fmt: skip
    net = ndgrad.nn.parallel.DistributedDataParallel(layers, process_group=group)
    optimizer = ndgrad.optim.SGD(net.parameters(), lr=1e-3)
    x = ndgrad.randn(128, 256)

    def step() -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    return step


def main() -> None:
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    machine = planning.measure()
    own = [dist.new_group([i]) for i in range(size)][rank]
    alone, together = _step(own), _step(None)
    found: list[Any] = [planning.record(alone, ops=True)._replace(ranks=1) if rank == 0 else None]
    dist.broadcast_object_list(found, 0)
    times = []
    for i in range(STEPS + 3):
        dist.barrier()
        begun = time.perf_counter()
        together()
        if i >= 3:
            times.append(time.perf_counter() - begun)
    if rank == 0:
        job: planning.Job = found[0]
        predicted = job.predict(machine, size, per_node=size)
        middle = statistics.median(times)
        print(
            f"{size} ranks: predicted {1e3 * predicted.seconds:.1f} ms (computing {1e3 * predicted.compute:.1f}, "
            f"messages {1e3 * predicted.waiting:.1f}, slowest {1e3 * predicted.slowest:.1f}), measured "
            f"{1e3 * middle:.1f} ms in the middle and {1e3 * min(times):.1f} at least: "
            f"{predicted.seconds / middle - 1:+.0%}; operations alone {1e3 * job.computed_by(machine):.1f} ms; "
            f"{machine.inside}, overlap {machine.overlap:.2f}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
