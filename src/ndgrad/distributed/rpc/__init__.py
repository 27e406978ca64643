"""torch's `distributed.rpc`: run functions on other ranks, over MPI.

Inside `distributed.autograd.context()` the graph goes along: tensors in arguments and results keep their place in it.
Arguments and results are pickled, so functions must be importable where they run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.groups import (
    destroy_process_group,
    init_process_group,
    is_available,
    is_initialized,
    world_group,
)
from ndgrad.distributed.objects import all_gather_object
from ndgrad.distributed.remote import contexts as _contexts
from ndgrad.distributed.remote.agent import Agent, WorkerInfo, _current, current_agent, set_agent
from ndgrad.distributed.remote.references import RRef, owned_by, start_remote
from ndgrad.distributed.rpc import functions as functions
from ndgrad.futures import Future

__all__ = [
    "RRef", "RpcBackendOptions", "WorkerInfo", "functions", "get_worker_info", "init_rpc", "is_available", "remote",
    "rpc_async", "rpc_sync", "shutdown",
]  # fmt: skip

T = TypeVar("T")
#: Default time limit of a call, in seconds.
DEFAULT_TIMEOUT = 60.0
_UNSET = -1.0


class RpcBackendOptions:
    """Options of `init_rpc`.

    Args:
        rpc_timeout: seconds until a call fails; 0 means no limit.
        init_method: accepted as in torch; has no effect, because MPI's processes know each other.
    """

    def __init__(self, rpc_timeout: float = DEFAULT_TIMEOUT, init_method: str = "") -> None:
        self.rpc_timeout, self.init_method = rpc_timeout, init_method


class _Made:
    """True if init_rpc has created the process group, which shutdown then destroys."""

    group = False


def init_rpc(
    name: str, backend: Any = None, rank: int = -1, world_size: int | None = None, rpc_backend_options: Any = None
) -> None:
    """Register this rank under a name, so that it can call others and be called. All ranks call it.

    MPI must allow calls from several threads (MPI_THREAD_MULTIPLE), which mpi4py requests.

    Args:
        name: name of this rank, different on every rank.
        backend: None, or a backend of the name TENSORPIPE or MPI. Messages go through MPI.
        rank: rank of this process, which must agree with MPI. -1 leaves it out.
        world_size: number of processes, which must agree with MPI. None leaves it out.
        rpc_backend_options: an RpcBackendOptions.

    >>> from ndgrad.distributed import rpc
    >>> rpc.init_rpc("worker")
    >>> rpc.rpc_sync("worker", max, args=(3, 4))
    4
    >>> rpc.shutdown()
    """
    if _current.agent is not None:
        raise RuntimeError(
            "init_rpc: rpc is initialized already on this rank. Call rpc.shutdown() first. [nd-call-order]"
        )
    if backend is not None and getattr(backend, "name", backend) not in ("TENSORPIPE", "MPI"):
        raise ValueError(f"init_rpc(backend={backend!r}): messages go through MPI. Leave it out. [nd-process-group]")
    if not is_initialized():
        init_process_group(rank=rank, world_size=-1 if world_size is None else world_size)
        _Made.group = True
    group = world_group()
    if group.comm is not None:
        from mpi4py import MPI  # imported late, as in ndgrad.distributed.transport

        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise RuntimeError(
                f"init_rpc: this MPI was started with thread level {MPI.Query_thread()}, and calls need "
                f"MPI_THREAD_MULTIPLE ({MPI.THREAD_MULTIPLE}): a thread looks for messages while others compute. "
                "Leave mpi4py.rc.thread_level as it is, and use an MPI library that has it. [nd-process-group]"
            )
    names: list[Any] = [None] * group.size()
    all_gather_object(names, name)
    if len(set(names)) != len(names):
        raise ValueError(f"init_rpc: the names of the ranks must differ, but are {names}. [nd-process-group]")
    options = RpcBackendOptions() if rpc_backend_options is None else rpc_backend_options
    agent = Agent(group, names, float(options.rpc_timeout))
    owned_by(agent)
    set_agent(agent)
    agent.start()


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Stop calling and being called.

    Args:
        graceful: whether to wait until all ranks have called it and no call is in progress.
        timeout: seconds to wait; 0 means the timeout of the group.

    >>> from ndgrad.distributed import rpc
    >>> rpc.init_rpc("worker")
    >>> rpc.shutdown()
    """
    agent = current_agent()
    try:
        if graceful:
            agent.settle(timeout)
    finally:
        agent.close()
        set_agent(None)
        _contexts.forget_all()
        if _Made.group:
            _Made.group = False
            destroy_process_group()


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """Return the worker of a name, or this one. Workers are accepted in place of names.

    Args:
        worker_name: name of a worker. None means this one.

    >>> from ndgrad.distributed import rpc
    >>> rpc.init_rpc("worker")
    >>> rpc.get_worker_info()
    WorkerInfo(name='worker', id=0)
    >>> rpc.shutdown()
    """
    agent = current_agent()
    return agent.worker(agent.rank if worker_name is None else worker_name)


def rpc_sync(
    to: str | int | WorkerInfo, func: Callable[..., T], args: tuple[Any, ...] | list[Any] | None = None,
    kwargs: dict[str, Any] | None = None, timeout: float = _UNSET,
) -> T:  # fmt: skip
    """Run `func(*args, **kwargs)` on another rank, and return its result or raise its exception.

    Args:
        to: name, rank or WorkerInfo of the called rank.
        func: function to call, which can be pickled.
        args: its arguments.
        kwargs: its keyword arguments.
        timeout: seconds until the call fails; 0 means no limit. The default is the limit of `init_rpc`.

    >>> import ndgrad
    >>> from ndgrad.distributed import rpc
    >>> rpc.init_rpc("worker")
    >>> rpc.rpc_sync("worker", ndgrad.add, args=(ndgrad.ones(2), 3))
    tensor([4., 4.])
    >>> rpc.shutdown()
    """
    found: T = _start_call(to, func, args, kwargs, timeout, copy=False).wait()
    return found


def rpc_async(
    to: str | int | WorkerInfo, func: Callable[..., T], args: tuple[Any, ...] | list[Any] | None = None,
    kwargs: dict[str, Any] | None = None, timeout: float = _UNSET,
) -> Future[T]:  # fmt: skip
    """Same as `rpc_sync`, but immediately return a future.

    Args:
        to: name, rank or WorkerInfo of the called rank.
        func: function to call, which can be pickled.
        args: its arguments.
        kwargs: its keyword arguments.
        timeout: seconds until the call fails; 0 means no limit. The default is the limit of `init_rpc`.

    >>> import ndgrad
    >>> from ndgrad.distributed import rpc
    >>> rpc.init_rpc("worker")
    >>> rpc.rpc_async("worker", ndgrad.add, args=(ndgrad.ones(2), 3)).wait()
    tensor([4., 4.])
    >>> rpc.shutdown()
    """
    return _start_call(to, func, args, kwargs, timeout, copy=True)


def remote(
    to: str | int | WorkerInfo, func: Callable[..., T], args: tuple[Any, ...] | list[Any] | None = None,
    kwargs: dict[str, Any] | None = None, timeout: float = _UNSET,
) -> RRef[T]:  # fmt: skip
    """Run a function on another rank; return a reference to the result, which stays there. `to_here()` raises its
    exception.

    Args:
        to: name, rank or WorkerInfo of the called rank.
        func: function to call, which can be pickled.
        args: its arguments.
        kwargs: its keyword arguments.
        timeout: seconds until the call fails; 0 means no limit. The default is the limit of `init_rpc`.

    >>> import ndgrad
    >>> from ndgrad.distributed import rpc
    >>> rpc.init_rpc("worker")
    >>> rpc.remote("worker", ndgrad.ones, args=(2,)).to_here()
    tensor([1., 1.])
    >>> rpc.shutdown()
    """
    agent = current_agent()
    return start_remote(agent.worker(to).id, func, tuple(args or ()), kwargs, None if timeout == _UNSET else timeout)


def _start_call(to: Any, func: Any, args: Any, kwargs: Any, timeout: float, copy: bool) -> Future[Any]:
    agent = current_agent()
    if not callable(func):
        raise TypeError("function should be callable. [nd-type]")
    seconds = None if timeout == _UNSET else timeout
    return agent.call(agent.worker(to).id, func, tuple(args or ()), kwargs, seconds=seconds, copy=copy)


_refuse_absent(__name__)
