"""Tensors between processes, and processes that fail."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import ndgrad
from ndgrad import multiprocessing as mp
from ndgrad.utils.data import transport


def _double(inbox, outbox):
    for _ in range(2):
        outbox.put(inbox.get() * 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_tensors_go_through_queues():
    context = mp.get_context("fork")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=_double, args=(inbox, outbox))
    process.start()
    small, large = ndgrad.arange(3.0), ndgrad.ones(200, 200)
    inbox.put(small)
    inbox.put(large)
    found = [outbox.get(timeout=60) for _ in range(2)]
    process.join(60)
    assert process.exitcode == 0
    assert found[0].tolist() == [0.0, 2.0, 4.0]
    assert ndgrad.equal(found[1], large * 2)
    found[1].add_(1)  # the memory is the receiver's own
    assert large.sum().item() == 40000


@pytest.mark.skipif(not transport.has_shared_memory(), reason="needs shared memory")
def test_nothing_is_left_in_shared_memory():
    prefix = os.environ["NDGRAD_SHARED_PREFIX"]
    receiver, sender = mp.Pipe(duplex=False)
    sender.send(ndgrad.ones(300, 300))
    assert list(transport.PLACE.glob(f"{prefix}*"))
    assert receiver.recv().sum().item() == 90000
    assert not list(transport.PLACE.glob(f"{prefix}*"))


def test_parameters_stay_parameters():
    receiver, sender = mp.Pipe(duplex=False)
    sender.send(ndgrad.nn.Linear(3, 2))
    net = receiver.recv()
    assert isinstance(net.weight, ndgrad.nn.Parameter)
    assert net.weight.requires_grad
    sender.send(ndgrad.nn.Parameter(ndgrad.ones(2), requires_grad=False))
    assert not receiver.recv().requires_grad


def test_what_has_a_graph_is_refused():
    _, sender = mp.Pipe(duplex=False)
    with pytest.raises(RuntimeError, match=r"non-leaf tensor which requires_grad.*detach"):
        sender.send(ndgrad.ones(2, requires_grad=True) * 2)


def _write(i, folder):
    Path(folder, str(i)).write_text(str(ndgrad.ones(i + 1).sum().item()))


def _fail(i, kind):
    if i == 1 and kind == "raises":
        raise ValueError("in process 1")
    if i == 1 and kind == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if i == 1:
        os._exit(7)
    time.sleep(60)


def _wait(context):
    while not context.join():
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forked, to be quick")
def test_spawn_runs_a_function_in_each_process(tmp_path):
    assert mp.spawn(_write, (str(tmp_path),), nprocs=2, start_method="fork") is None
    assert [(tmp_path / name).read_text() for name in "01"] == ["1.0", "2.0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forked, to be quick")
@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("raises", mp.ProcessRaisedException, "ValueError: in process 1"),
        ("dies", mp.ProcessExitedException, "signal SIGKILL"),
        ("exits", mp.ProcessExitedException, "exit code 7"),
    ],
)
def test_a_process_that_fails_ends_the_others(kind, error, words):
    context = mp.start_processes(_fail, (kind,), nprocs=2, join=False, start_method="fork")
    with pytest.raises(error, match=words) as caught:
        _wait(context)
    assert caught.value.error_index == 1
    assert not any(process.is_alive() for process in context.processes)


def test_the_way_memory_is_shared():
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    with pytest.raises(ValueError, match="file_descriptor"):
        mp.set_sharing_strategy("file_descriptor")
