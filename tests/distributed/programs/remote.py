"""Calls between ranks, and backward through graphs that span them, beside the same program in one process."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed import rpc
from ndgrad.distributed.autograd import backward, context, get_gradients
from ndgrad.distributed.optim import DistributedOptimizer
from ndgrad.distributed.remote import contexts
from ndgrad.distributed.remote.agent import current_agent
from ndgrad.distributed.remote.references import owned_by


@contextlib.contextmanager
def _calls(timeout=15.0):
    rpc.init_rpc(f"w{dist.get_rank()}", rpc_backend_options=rpc.RpcBackendOptions(rpc_timeout=timeout))
    whole = False
    try:
        yield dist.get_rank(), dist.get_world_size()
        whole = True
    finally:
        rpc.shutdown(graceful=whole)


def _leaf(seed, *shape):
    return ndgrad.tensor(values(seed, *shape), requires_grad=True)


#: State of the functions below on the rank where they run.
_held: dict[str, ndgrad.Tensor] = {}


def _hold(name, array):
    _held[name] = ndgrad.tensor(array, requires_grad=True)


def _times_held(name, x):
    return (x * _held[name]).tanh()


def _gradient_of_held(name, context_id):
    return get_gradients(context_id).get(_held[name])


def _fails(x):
    raise ValueError(f"no good on rank {dist.get_rank()}: {tuple(x.shape)}")


def _onward(ranks, x):
    """Multiply by what each of these ranks holds, from rank to rank."""
    y = x * 2
    if ranks:
        y = rpc.rpc_sync(ranks[0], _onward, args=(ranks[1:], y.sin()))
    return y + x


def _next(rank, size, by=1):
    return (rank + by) % size


@on_ranks(1, 2, 3)
def calls_bring_values_back():
    with _calls() as (rank, size):
        to = f"w{_next(rank, size)}"
        assert rpc.rpc_sync(to, max, args=(3, 4)) == 4
        x = np.arange(6.0).reshape(2, 3)
        found = rpc.rpc_sync(to, dict, kwargs={"a": ndgrad.tensor(x), "b": [x, None, "text"], "n": ndgrad.ones(2).bool()})
        close(found["a"], x)
        close(found["b"][0], x)
        assert found["n"].dtype == ndgrad.bool
        large = ndgrad.tensor(values(rank, 300, 200), requires_grad=True)
        back = rpc.rpc_sync(to, ndgrad.add, args=(large, 1))
        close(back, values(rank, 300, 200) + 1)
        assert not back.requires_grad  # outside a context
        futures = [rpc.rpc_async(_next(rank, size), ndgrad.mul, args=(large, i)) for i in range(5)]
        for i, future in enumerate(futures):
            close(future.wait(), values(rank, 300, 200) * i)
        doubled = rpc.rpc_async(to, ndgrad.mul, args=(ndgrad.ones(2), 3)).then(lambda f: f.value() * 2)
        close(doubled.wait(), [6.0, 6.0])
        half = rpc.rpc_sync(to, ndgrad.neg, args=(ndgrad.ones(3, dtype=ndgrad.bfloat16),))
        assert half.dtype == ndgrad.bfloat16
        assert rpc.rpc_sync(to, rpc.get_worker_info).id == _next(rank, size)
        with pytest.raises(ValueError, match=r"there is no worker 'nobody'.*'w0' \(rank 0\)"):
            rpc.rpc_sync("nobody", max, args=(1, 2))


@on_ranks(1, 2, 3, 4)
def a_graph_over_two_ranks():
    with _calls() as (rank, size):
        a = values(5, 4)
        rpc.rpc_sync(_next(rank, size), _hold, args=(f"a{rank}", a))
        x, local = _leaf(rank, 4), _leaf(9, 4)
        with context() as context_id:
            y = rpc.rpc_sync(_next(rank, size), _times_held, args=(f"a{rank}", x))
            loss = (y * local).sum()
            backward(context_id, [loss])
            found = get_gradients(context_id)
            there = rpc.rpc_sync(_next(rank, size), _gradient_of_held, args=(f"a{rank}", context_id))
            assert x.grad is None
        x1, local1, held1 = _leaf(rank, 4), _leaf(9, 4), ndgrad.tensor(a, requires_grad=True)
        ((x1 * held1).tanh() * local1).sum().backward()
        close(found[x], x1.grad.numpy())
        close(found[local], local1.grad.numpy())
        close(there, held1.grad.numpy())
        dist.barrier()
        with pytest.raises(RuntimeError, match="Could not find autograd context"):
            get_gradients(context_id)


@on_ranks(2, 3, 4)
def diamonds_and_tensors_sent_to_several_ranks():
    """x goes to two ranks (or twice to one), what comes back meets again, and goes out once more."""
    with _calls() as (rank, size):
        one, two = _next(rank, size), _next(rank, size, 2)
        a, b = values(5, 3), values(6, 3)
        rpc.rpc_sync(one, _hold, args=(f"a{rank}", a))
        rpc.rpc_sync(two, _hold, args=(f"b{rank}", b))
        x = _leaf(rank, 3)
        with context() as context_id:
            h = x.exp()
            left = rpc.rpc_async(one, _times_held, args=(f"a{rank}", h))
            right = rpc.rpc_async(two, _times_held, args=(f"b{rank}", h))
            joined = left.wait() * right.wait() + h
            last = rpc.rpc_sync(one, _times_held, args=(f"a{rank}", joined))
            backward(context_id, [(last * joined).sum()])
            found = get_gradients(context_id)[x]
            of_a = rpc.rpc_sync(one, _gradient_of_held, args=(f"a{rank}", context_id))
            of_b = rpc.rpc_sync(two, _gradient_of_held, args=(f"b{rank}", context_id))
        x1, a1, b1 = _leaf(rank, 3), ndgrad.tensor(a, requires_grad=True), ndgrad.tensor(b, requires_grad=True)
        h = x1.exp()
        joined = (h * a1).tanh() * (h * b1).tanh() + h
        ((joined * a1).tanh() * joined).sum().backward()
        close(found, x1.grad.numpy())
        close(of_a, a1.grad.numpy())
        close(of_b, b1.grad.numpy())
        dist.barrier()


@on_ranks(2, 3, 4)
def calls_inside_calls():
    with _calls() as (rank, size):
        route = [_next(rank, size, i) for i in range(1, 2 * size + 2)]  # twice round, and past this rank itself
        x = _leaf(rank, 3)
        with context() as context_id:
            backward(context_id, [_onward(route, x).sum()])
            found = get_gradients(context_id)[x]
        x1 = _leaf(rank, 3)

        def onward(left, x):
            y = x * 2
            return (onward(left - 1, y.sin()) if left else y) + x

        onward(len(route), x1).sum().backward()
        close(found, x1.grad.numpy())
        dist.barrier()


@on_ranks(2, 3)
def several_contexts_at_once():
    """Each in a thread of its own, on the same leaves: gradients are kept apart."""
    with _calls() as (rank, size):
        x = _leaf(rank, 3)
        rpc.rpc_sync(_next(rank, size), _hold, args=(f"a{rank}", values(5, 3)))
        found, wrong = {}, []

        def run(i):
            try:
                with context() as context_id:
                    y = rpc.rpc_sync(_next(rank, size), _times_held, args=(f"a{rank}", x * i))
                    backward(context_id, [y.sum()])
                    y = rpc.rpc_sync(_next(rank, size), _times_held, args=(f"a{rank}", x * i))
                    backward(context_id, [y.sum()])  # adds to the first
                    found[i] = get_gradients(context_id)[x]
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong, wrong
        for i in range(1, 5):
            x1 = _leaf(rank, 3)
            (x1 * i * ndgrad.tensor(values(5, 3))).tanh().sum().backward()
            close(found[i], 2 * x1.grad.numpy())
        dist.barrier()


@on_ranks(2, 3, 4)
def parts_of_the_graph_that_the_loss_does_not_use():
    """Messages whose results are unused take no part in backward: no gradient of theirs is awaited."""
    with _calls() as (rank, size):
        x = _leaf(rank, 3)
        with context() as context_id:
            rpc.rpc_sync(_next(rank, size), _onward, args=([_next(rank, size, 2)], x))
            used = rpc.rpc_sync(_next(rank, size), _onward, args=([], x))
            backward(context_id, [used.sum()])
            close(get_gradients(context_id)[x], [3.0] * 3)
            alone = _leaf(7, 2)
            backward(context_id, [(alone * 2).sum()])
            close(get_gradients(context_id)[alone], [2.0] * 2)
        dist.barrier()


@on_ranks(2, 3)
def what_a_function_raises_is_raised_by_its_caller():
    with _calls() as (rank, size):
        there = _next(rank, size)
        with pytest.raises(ValueError, match=rf"no good on rank {there}: \(2,\)") as caught:
            rpc.rpc_sync(there, _fails, args=(ndgrad.ones(2),))
        assert any(f"This happened on rank {there}, in _fails called by rank {rank}" in n for n in caught.value.__notes__)
        future = rpc.rpc_async(there, _fails, args=(ndgrad.ones(2),))
        with pytest.raises(ValueError, match="no good"):
            future.wait()
        kept = rpc.remote(there, _fails, args=(ndgrad.ones(2),))
        with pytest.raises(ValueError, match="no good"):
            kept.to_here()
        with pytest.raises(TimeoutError, match=rf"called by rank {rank} on rank {there} took more than 0.2 s"):
            rpc.rpc_sync(there, time.sleep, args=(0.6,), timeout=0.2)
        assert rpc.rpc_sync(there, max, args=(1, 2)) == 2


class _Breaks(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise ArithmeticError("a hook that fails")


def _broken(x):
    return _Breaks.apply(x)


def _told_of(context_id):
    try:
        get_gradients(context_id)
    except RuntimeError as error:
        return str(error)
    return ""


@on_ranks(2, 3)
def a_backward_that_fails_on_one_rank_is_told_to_all_and_changes_nothing():
    with _calls() as (rank, size):
        one, last = _next(rank, size), _next(rank, size, 2)
        x = _leaf(rank, 3)
        with context() as context_id:
            backward(context_id, [rpc.rpc_sync(one, _onward, args=([last], x)).sum()])
            before = get_gradients(context_id)[x].clone()
            y = rpc.rpc_sync(one, _onward, args=([last], x))
            z = rpc.rpc_sync(last, _broken, args=(y * x,))
            with pytest.raises(ArithmeticError, match="a hook that fails") as caught:
                backward(context_id, [(z + x).sum()])
            assert any(f"rank {last}" in n for n in caught.value.__notes__)
            for to in {one, last}:
                end = time.monotonic() + 5
                while not (told := rpc.rpc_sync(to, _told_of, args=(context_id,))) and time.monotonic() < end:
                    time.sleep(0.01)
                assert "a hook that fails" in told
            with pytest.raises(RuntimeError, match="a hook that fails"):
                get_gradients(context_id)
            w = _leaf(8, 2)
            backward(context_id, [(w * 2).sum()])  # a further pass is a pass like others
            close(get_gradients(context_id)[x], before.numpy())
        dist.barrier()
        with context() as context_id:
            y = rpc.rpc_sync(one, _onward, args=([], x))
        with pytest.raises(RuntimeError, match=r"came from rank \d: its graph goes on there"):
            y.sum().backward()
        with pytest.raises(RuntimeError, match="Already have an autograd context id"), context(), context():
            pass
        dist.barrier()


class _Counter:
    def __init__(self, start):
        self.count = start

    def add(self, n):
        self.count += n
        return self.count


def _read_through(reference):
    return reference.to_here() + 1 if not reference.is_owner() else reference.local_value() + 1


def _kept_here():
    return len(owned_by(current_agent()))


@on_ranks(2, 3)
def references_to_values_elsewhere():
    with _calls() as (rank, size):
        there, third = _next(rank, size), _next(rank, size, 2)
        counter = rpc.remote(there, _Counter, args=(10,))
        assert counter.owner().id == there
        assert not counter.is_owner()
        assert counter.rpc_sync().add(5) == 15
        assert counter.rpc_async().add(1).wait() == 16
        assert counter.remote().add(1).to_here() == 17
        with pytest.raises(RuntimeError, match="local_value"):
            counter.local_value()
        kept = rpc.remote(there, ndgrad.add, args=(ndgrad.ones(2), rank))
        close(rpc.rpc_sync(third, _read_through, args=(kept,)), np.full(2, 2.0 + rank))
        mine = rpc.RRef(ndgrad.ones(2) * rank)
        close(rpc.rpc_sync(there, _read_through, args=(mine,)), np.full(2, 1.0 + rank))
        x = _leaf(rank, 2)
        with context() as context_id:
            kept = rpc.remote(there, _onward, args=([], x))
            loss = rpc.remote(there, ndgrad.sum, args=(kept.to_here(),))
            backward(context_id, [loss.to_here()], retain_graph=True)
            close(get_gradients(context_id)[x], [3.0, 3.0])
            loss.backward(context_id)  # begins on the owner
            close(get_gradients(context_id)[x], [6.0, 6.0])
        del counter, kept, mine, loss
        dist.barrier()
        end = time.monotonic() + 5
        while (left := _kept_here()) and time.monotonic() < end:
            time.sleep(0.01)
        assert left == 0
        while contexts.count() and time.monotonic() < end:
            time.sleep(0.01)
        assert contexts.count() == 0
        dist.barrier()


class _Layer:
    """A layer of a model, on the rank where it was made."""

    def __init__(self, seed, into, out):
        self.weight = ndgrad.tensor(values(seed, into, out) / 3, requires_grad=True)

    def forward(self, x):
        return (x @ self.weight).tanh()

    def parameters(self):
        return [rpc.RRef(self.weight)]

    def value(self):
        return self.weight.detach()


@on_ranks(1, 2, 3)
def a_model_over_ranks_trains_as_in_one_process():
    with _calls() as (rank, size):
        if rank == 0:
            layers = [rpc.remote(i % size, _Layer, args=(20 + i, 4, 4)) for i in range(3)]
            parameters = [p for layer in layers for p in layer.rpc_sync().parameters()]
            optimizer = DistributedOptimizer(ndgrad.optim.Adam, parameters, lr=0.05)
            alone = [_Layer(20 + i, 4, 4) for i in range(3)]
            other = ndgrad.optim.Adam([layer.weight for layer in alone], lr=0.05)
            x = ndgrad.tensor(values(1, 5, 4))
            for _ in range(4):
                with context() as context_id:
                    y = x
                    for layer in layers:
                        y = layer.rpc_sync().forward(y)
                    backward(context_id, [(y**2).sum()])
                    optimizer.step(context_id)
                y = x
                for layer in alone:
                    y = layer.forward(y)
                other.zero_grad()
                (y**2).sum().backward()
                other.step()
            for layer, want in zip(layers, alone, strict=True):
                close(layer.rpc_sync().value(), want.weight.detach().numpy(), 1e-10)
