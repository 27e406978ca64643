"""Errors of programs with several processes, under torch's names."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DistError(RuntimeError):
    """Base class of errors between processes."""


class DistBackendError(DistError):
    """A collective failed: the ranks disagreed, or a rank failed, left, or timed out."""


class DistNetworkError(DistError):
    """A `TCPStore` cannot listen, or its master cannot be reached. Failures of MPI raise `DistBackendError`."""


class DistStoreError(DistError):
    """A store has waited too long for a key or for other processes."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has no value."""


def record(fn: Callable[P, T], error_handler: object = None) -> Callable[P, T]:
    """Return a function that writes an error of `fn` to the file named by TORCHELASTIC_ERROR_FILE, and raises it.

    >>> from ndgrad.distributed.errors import record
    >>> record(lambda x: x + 1)(2)
    3
    """
    if error_handler is not None:
        raise NotImplementedError(
            "record: handlers of errors are not called. Set TORCHELASTIC_ERROR_FILE to the file for the error. "
            "[nd-option]"
        )

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            path = os.environ.get("TORCHELASTIC_ERROR_FILE")
            if path:
                told = {"message": f"{type(error).__name__}: {error}", "timestamp": str(int(time.time()))}
                told["py_callstack"] = traceback.format_exc()
                Path(path).write_text(json.dumps({"message": {"message": told["message"], "extraInfo": told}}))
            raise

    return run
