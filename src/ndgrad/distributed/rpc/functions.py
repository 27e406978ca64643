"""torch's `distributed.rpc.functions`: functions with a delayed result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that other ranks call and that returns a future: the caller gets the future's value. The
    thread that ran the function is free meanwhile.

    Args:
        fn: function that returns a future.

    >>> from ndgrad.distributed import rpc
    >>> from ndgrad.futures import Future
    >>> @rpc.functions.async_execution
    ... def later(x):
    ...     future = Future()
    ...     future.set_result(x + 1)
    ...     return future
    >>> rpc.init_rpc("worker")
    >>> later(1).wait()
    2
    >>> rpc.shutdown()
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    call.runs_asynchronously = True  # type: ignore[attr-defined]  # what the agent asks
    return call
