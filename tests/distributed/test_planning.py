"""Predictions: the formulas against collectives that are simulated message by message, the replay against sums by hand."""

from __future__ import annotations

import math

import pytest

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.planning import Job, Link, Machine, cost, measure, record, table
from ndgrad.distributed.planning.costs import flat
from ndgrad.distributed.planning.simulation import Event, Work

LINK = Link(3e-6, 2e9)
MACHINE = Machine(flops=1e11, memory=1e10, call=1e-6, inside=LINK, cores=16)


def _rounds(p, sizes):
    """The time of rounds in which every rank sends to another and receives from a third, of these sizes, message by message: a rank
    goes on when it has sent and received."""
    clocks = [0.0] * p
    for nbytes, partner in sizes:
        sent = [clocks[r] + LINK.seconds(nbytes) for r in range(p)]
        clocks = [max(sent[r], sent[partner(r)]) for r in range(p)]
    return max(clocks)


@pytest.mark.parametrize("p", [2, 3, 4, 7, 16])
@pytest.mark.parametrize("n", [8, 4096, 1 << 20, 1 << 26])
def test_formulas_are_those_of_messages_one_by_one(p, n):
    before = lambda r: (r - 1) % p
    ring = [(n / p, before)] * (p - 1)
    assert flat("all_gather", n, p, LINK).seconds <= _rounds(p, ring) * (1 + 1e-12)
    assert flat("all_to_all", n, p, LINK).seconds == pytest.approx(_rounds(p, ring))
    ways = [_rounds(p, ring * 2)]
    if p & (p - 1) == 0:
        depth = p.bit_length() - 1
        halving = [(n / 2 ** (i + 1), lambda r, i=i: r ^ (1 << i)) for i in range(depth)]
        ways += [_rounds(p, halving + halving[::-1]), _rounds(p, [(n, lambda r, i=i: r ^ (1 << i)) for i in range(depth)])]
        assert flat("all_gather", n, p, LINK).seconds == pytest.approx(_rounds(p, halving))
        assert flat("all_reduce", n, p, LINK).seconds == pytest.approx(min(ways))
    assert flat("all_reduce", n, p, LINK).seconds <= min(ways) * (1 + 1e-12)


def test_costs_grow_with_bytes_and_ranks_and_are_nothing_alone():
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "barrier"):
        assert flat(kind, 1000, 1, LINK).seconds == 0
        times = [flat(kind, 1 << 20, p, LINK).seconds for p in (2, 4, 16, 256, 4096)]
        assert times == sorted(times), kind
        assert flat(kind, 1 << 22, 8, LINK).seconds >= flat(kind, 1 << 20, 8, LINK).seconds
    with pytest.raises(ValueError, match="no collective"):
        flat("all_reduced", 8, 2, LINK)


def test_ranks_that_share_nodes_reduce_inside_first():
    slow = Link(1e-5, 1e9)
    n, nodes, each = 1 << 26, 8, 4
    found = cost("all_reduce", n, nodes * each, LINK, slow, per_node=each)
    want = (
        flat("reduce_scatter", n, each, LINK).seconds + flat("all_reduce", n / each, nodes, slow).seconds
        + flat("all_gather", n, each, LINK).seconds
    )  # fmt: skip
    assert found.seconds == pytest.approx(want)
    assert found.seconds < flat("all_reduce", n, nodes * each, slow).seconds


def _ddp(parts=4, seconds=0.01, nbytes=1 << 22):
    """A step that computes in parts and starts a reduction after each, and waits for all at its end."""
    events = []
    for i in range(parts):
        events += [Event("compute", seconds), Event("start", 0, i, "all_reduce", nbytes)]
    return Job((*events, *(Event("wait", number=i) for i in range(parts))), work=Work(10, 1e8, 1e6))


def test_a_replay_adds_up():
    job = _ddp()
    one = flat("all_reduce", 1 << 22, 8, LINK).seconds
    assert job.predict(MACHINE, 1).seconds == pytest.approx(0.04)
    behind = job.predict(MACHINE, 8)
    assert behind.seconds == pytest.approx(0.04 + 4 * one)  # nothing goes on while a rank computes
    beside = job.predict(MACHINE._replace(overlap=1.0), 8)
    assert one < 0.01
    assert beside.seconds == pytest.approx(0.04 + one)  # all but the last are hidden
    half = job.predict(MACHINE._replace(overlap=0.5 * one / 0.01), 8)
    assert half.seconds == pytest.approx(0.04 + 4 * one - 3 * 0.5 * one)
    late = job._replace(jitter=0.1).predict(MACHINE, 8)
    assert late.seconds - behind.seconds == pytest.approx(0.04 * 0.1 * math.sqrt(2 * math.log(8)))
    crowded = job.predict(MACHINE._replace(cores=4), 8, per_node=8)
    assert crowded.compute == pytest.approx(0.08)
    seen = job.predict(MACHINE._replace(cores=4, ranks=8, crowding=1.5), 8, per_node=8)
    assert seen.compute == pytest.approx(0.06)  # what was measured counts
    strong = job.predict(MACHINE, 8, strong=True)
    assert strong.compute == pytest.approx(0.005)
    assert job.computed_by(MACHINE) == pytest.approx(1e-5 + 1e-3)


def test_what_bounds_a_step():
    job = _ddp(parts=1)
    wide = MACHINE._replace(cores=1 << 14)
    assert job.predict(wide, 8).bound == "computing"
    assert job.predict(wide._replace(inside=Link(1e-9, 1e7)), 64).bound == "bandwidth"
    small = Job((Event("compute", 1e-5), Event("start", 0, 1, "all_to_all", 64), Event("wait", number=1)))
    assert small.predict(wide, 10_000).bound == "latency"
    assert job._replace(jitter=1.0).predict(wide, 10_000).bound == "the slowest rank"
    shown = table(job, wide)
    assert len(shown.splitlines()) == 7
    assert " 10000 " in shown
    with pytest.raises(ValueError, match="at least one rank"):
        job.predict(wide, 0)


def test_a_group_of_some_ranks_stays_as_it_was():
    events = (Event("start", 0, 1, "all_reduce", 1 << 20, 2), Event("wait", number=1))
    job = Job(events, ranks=8)
    wide = MACHINE._replace(cores=1 << 14)
    assert job.predict(wide, 8).seconds == pytest.approx(job.predict(wide, 4096).seconds)


def test_a_step_of_one_process_is_recorded_with_what_it_would_send(tmp_path):
    dist.init_process_group()
    try:
        net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(30, 20))
        optimizer = ndgrad.optim.SGD(net.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            net(ndgrad.ones(4, 30)).sum().backward()
            optimizer.step()
            dist.all_gather_into_tensor(ndgrad.empty(5), ndgrad.ones(5))

        job = record(step, ops=True)
        each = ndgrad.ones(1).element_size()
        assert job.sent == {"all_reduce": (30 * 20 + 20) * each, "all_gather": 5 * each}
        starts = [e.number for e in job.events if e.what == "start"]
        assert sorted(starts) == sorted(e.number for e in job.events if e.what == "wait")
        assert job.compute > 0
        assert job.work.flops >= 3 * 2 * 4 * 30 * 20
        job.save(tmp_path / "job.json")
        assert Job.load(tmp_path / "job.json") == job
        assert job.predict(measure(seconds=0.01), 64).seconds > job.compute
        assert ndgrad.distributed.transport.all_reduce.__name__ == "all_reduce"  # as it was
    finally:
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="recorded without its ops"):
        job._replace(work=None).computed_by(MACHINE)
