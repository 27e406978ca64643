"""torch's `ddp_comm_hooks.debugging_hooks`: a hook that sends nothing, to measure the cost of communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.futures import Future

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributed.data_parallel import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return this rank's gradients. The ranks' parameters then differ.

    Args:
        _: not used.
        bucket: gradients.
    """
    future: Future[Tensor] = Future()
    future.set_result(bucket.buffer())
    return future


_refuse_absent(__name__)
