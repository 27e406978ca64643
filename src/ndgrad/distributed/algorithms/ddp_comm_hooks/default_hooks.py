"""torch's `ddp_comm_hooks.default_hooks`: the average of a bucket, and the average in a narrower dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.dtypes import bfloat16, float16
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.collectives import all_reduce
from ndgrad.distributed.groups import group_of
from ndgrad.futures import Future

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributed.data_parallel import GradBucket

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip

Hook = Callable[[Any, "GradBucket"], Future["Tensor"]]


def _average(group: Any, t: Tensor) -> Future[Tensor]:
    """Start the average of a tensor over the ranks, in place."""
    found = group_of(group)
    assert found is not None
    work: Any = all_reduce(t.div_(found.size()), group=found, async_op=True)
    average: Future[Tensor] = work.get_future().then(lambda f: f.value()[0])
    return average


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients over the ranks, as a module without a hook does.

    Args:
        process_group: ranks that take part. None means all.
        bucket: gradients.
    """
    return _average(process_group, bucket.buffer())


def _average_as(dtype: Any, process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    return _average(process_group, buffer.to(dtype)).then(lambda f: buffer.copy_(f.value()))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients as float16.

    Args:
        process_group: ranks that take part. None means all.
        bucket: gradients.
    """
    return _average_as(float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients as bfloat16.

    Args:
        process_group: ranks that take part. None means all.
        bucket: gradients.
    """
    return _average_as(bfloat16, process_group, bucket)


def _convert_around(hook: Hook, dtype: Any) -> Hook:
    def converted(state: Any, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda f: buffer.copy_(f.value()))

    return converted


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives its gradients to another hook as float16.

    Args:
        hook: other hook.
    """
    return _convert_around(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives its gradients to another hook as bfloat16.

    Args:
        hook: other hook.
    """
    return _convert_around(hook, bfloat16)


_refuse_absent(__name__)
