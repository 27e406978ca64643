"""Collectives of Python objects, sent as pickles.

Unpickling runs code: the ranks of a job trust each other.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ndgrad.distributed import transport
from ndgrad.distributed.collectives import rank_in
from ndgrad.distributed.groups import ProcessGroup, group_of


def _pack(value: Any) -> Any:
    return np.frombuffer(pickle.dumps(value), np.uint8)


def _gather_all(group: ProcessGroup, value: Any) -> list[Any]:
    """Return the objects of all ranks."""
    mine = _pack(value)
    sizes = np.zeros(group.size(), np.int64)
    transport.all_gather(group, sizes, np.array([mine.size])).wait()
    whole = np.empty(int(sizes.sum()), np.uint8)
    counts = [int(n) for n in sizes]
    transport.all_gather_uneven(group, whole, mine, counts).wait()
    ends = np.cumsum([0, *counts])
    return [pickle.loads(whole[ends[i] : ends[i + 1]].tobytes()) for i in range(group.size())]


def _broadcast_from(group: ProcessGroup, value: Any, root: int) -> Any:
    """Return the object of the rank `root`."""
    mine = _pack(value if group.rank() == root else None)
    size = np.array([mine.size])
    transport.broadcast(group, size, root).wait()
    buffer = mine.copy() if group.rank() == root else np.empty(int(size[0]), np.uint8)
    transport.broadcast(group, buffer, root).wait()
    return pickle.loads(buffer.tobytes())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Write the object of each rank i to `object_list[i]`.

    Args:
        object_list: list that receives the objects, with one place per rank.
        obj: object of this rank, which can be pickled.
        group: group whose ranks take part. The default is the world.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> found = [None]
    >>> ndgrad.distributed.all_gather_object(found, {"loss": 1.0})
    >>> found
    [{'loss': 1.0}]
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return
    if len(object_list) != found.size():
        raise ValueError(
            f"all_gather_object: object_list has {len(object_list)} places, and the group {found.size()} ranks. Give "
            f"[None] * {found.size()}. [nd-collective]"
        )
    object_list[:] = _gather_all(found, obj)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Write the object of each rank i to `object_gather_list[i]` on the rank `dst`.

    Args:
        obj: object of this rank, which can be pickled.
        object_gather_list: list that receives the objects, with one place per rank; on `dst` only.
        dst: rank in the world that receives. The default is rank 0 of the group.
        group: group whose ranks take part. The default is the world.
        group_dst: rank in the group that receives, instead of `dst`.
    """
    found = group_of(group)
    if found is None:
        return
    if dst is None and group_dst is None:
        group_dst = 0
    root = rank_in("gather_object", found, dst, group_dst, "dst")
    mine = _pack(obj)
    sizes = np.zeros(found.size(), np.int64)
    transport.all_gather(found, sizes, np.array([mine.size])).wait()
    longest = int(sizes.max())
    padded = np.zeros(longest, np.uint8)
    padded[: mine.size] = mine
    here = found.rank() == root
    whole = np.empty((found.size(), longest), np.uint8) if here else None
    transport.gather(found, whole, padded, root).wait()
    if whole is not None:
        if object_gather_list is None or len(object_gather_list) != found.size():
            raise ValueError(
                f"gather_object: on the destination, object_gather_list must have {found.size()} places, one for each "
                "rank. [nd-collective]"
            )
        object_gather_list[:] = [pickle.loads(whole[i, : sizes[i]].tobytes()) for i in range(found.size())]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Copy `object_list` from the rank `src` to all ranks, in place.

    Args:
        object_list: objects that `src` sends, and that other ranks overwrite.
        src: rank in the world that sends. The default is rank 0 of the group.
        group: group whose ranks take part. The default is the world.
        device: accepted as in torch; has no effect, because objects travel through the host.
        group_src: rank in the group that sends, instead of `src`.
    """
    found = group_of(group)
    if found is None:
        return
    if src is None and group_src is None:
        group_src = 0
    root = rank_in("broadcast_object_list", found, src, group_src, "src")
    given = _broadcast_from(found, list(object_list), root)
    if len(given) != len(object_list):
        raise ValueError(
            f"broadcast_object_list: rank {found.global_rank(root)} has {len(given)} objects, and this rank "
            f"{len(object_list)} places. [nd-collective]"
        )
    object_list[:] = given


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Write the i-th object of the rank `src` to `scatter_object_output_list[0]` on rank i.

    Args:
        scatter_object_output_list: list whose first place receives this rank's object.
        scatter_object_input_list: objects to send, one per rank; on `src` only.
        src: rank in the world that sends. The default is rank 0 of the group.
        group: group whose ranks take part. The default is the world.
        group_src: rank in the group that sends, instead of `src`.
    """
    found = group_of(group)
    if found is None:
        return
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1. [nd-collective]"
        )
    if src is None and group_src is None:
        group_src = 0
    root = rank_in("scatter_object_list", found, src, group_src, "src")
    scatter_object_output_list[0] = _broadcast_from(found, scatter_object_input_list, root)[found.rank()]


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None,
    use_batch: bool = False,
) -> None:  # fmt: skip
    """Send objects to a rank.

    Args:
        object_list: objects to send.
        dst: rank in the world that receives.
        group: group whose ranks take part. The default is the world.
        device: accepted as in torch; has no effect, because objects travel through the host.
        group_dst: rank in the group that receives, instead of `dst`.
        use_batch: accepted as in torch; has no effect.
    """
    found = group_of(group)
    if found is None:
        return
    peer = rank_in("send_object_list", found, dst, group_dst, "dst")
    packed = _pack(list(object_list))
    transport.send(found, np.array([packed.size]), peer, 0).wait()
    transport.send(found, packed, peer, 0).wait()


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None,
    use_batch: bool = False,
) -> int:  # fmt: skip
    """Receive objects from the rank `src`, or from any rank if it is not given; return the sender's rank.

    Args:
        object_list: list that receives the objects, of the right length.
        src: rank in the world that sends. The default is any rank.
        group: group whose ranks take part. The default is the world.
        device: accepted as in torch; has no effect, because objects travel through the host.
        group_src: rank in the group that sends, instead of `src`.
        use_batch: accepted as in torch; has no effect.
    """
    found = group_of(group)
    if found is None:
        return -1
    peer = None if src is None and group_src is None else rank_in("recv_object_list", found, src, group_src, "src")
    size = np.zeros(1, np.int64)
    first = transport.receive(found, size, peer, 0)
    first.wait()
    buffer = np.empty(int(size[0]), np.uint8)
    transport.receive(found, buffer, first.source, 0).wait()
    given = pickle.loads(buffer.tobytes())
    if len(given) != len(object_list):
        raise ValueError(
            f"recv_object_list: {len(given)} objects came, but there are {len(object_list)} places. [nd-collective]"
        )
    object_list[:] = given
    return found.global_rank(first.source)
