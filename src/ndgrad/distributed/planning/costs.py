"""Cost of a collective: formulas for rings and trees, from a latency and a bandwidth.

A message of n bytes takes a + n / b: a is the latency of a link, b its bandwidth. With p ranks, each of which sends and
receives one message at a time,

    ring all_reduce         2 (p - 1) steps with n / p bytes each
    halving and doubling    2 log2(p) steps, which send 2 (p - 1) / p n bytes in all
    tree all_reduce         log2(p) steps with n bytes each
    ring all_gather         p - 1 steps with n / p bytes each; n is the result's size
    reduce_scatter          the same; n is the argument's size
    all_to_all              p - 1 steps with n / p bytes each
    broadcast, reduce       log2(p) steps with n bytes (tree), or scattered and gathered
    gather, scatter         log2(p) steps, (p - 1) / p n bytes at the root

MPI chooses the fastest algorithm for the size, and so does this model. Ranks that share nodes reduce inside each node
first, then between nodes, each rank its piece, then spread the result: three of the above.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Link(NamedTuple):
    """Connection between ranks.

    Args:
        latency: seconds per message.
        bandwidth: bytes per second.

    >>> from ndgrad.distributed.planning import Link
    >>> Link(latency=2e-6, bandwidth=1e10).seconds(10_000_000)
    0.001002
    """

    latency: float
    bandwidth: float

    def seconds(self, nbytes: float) -> float:
        """Return the time of one message.

        Args:
            nbytes: bytes of the message.
        """
        return self.latency + nbytes / self.bandwidth


class Cost(NamedTuple):
    """Time of a collective in two parts.

    Args:
        latency: seconds of latency of its messages.
        transfer: seconds in which their bytes are transferred.
    """

    latency: float
    transfer: float

    @property
    def seconds(self) -> float:
        """The sum of both."""
        return self.latency + self.transfer

    def __add__(self, other: object) -> Cost:
        assert isinstance(other, Cost)
        return Cost(self.latency + other.latency, self.transfer + other.transfer)


NOTHING = Cost(0.0, 0.0)


def _steps(count: float, nbytes: float, link: Link) -> Cost:
    return Cost(count * link.latency, nbytes / link.bandwidth)


def _quickest(*ways: Cost) -> Cost:
    return min(ways, key=lambda way: way.seconds)


def flat(kind: str, nbytes: float, ranks: int, link: Link) -> Cost:
    """Return the cost of a collective among ranks with one kind of link between all of them."""
    p, n = ranks, nbytes
    if p <= 1:
        return NOTHING
    depth = math.ceil(math.log2(p))
    most = (p - 1) / p * n
    if kind == "all_reduce":
        return _quickest(
            _steps(2 * (p - 1), 2 * most, link), _steps(2 * depth, 2 * most, link), _steps(depth, depth * n, link)
        )
    if kind in ("all_gather", "reduce_scatter"):
        return _quickest(_steps(p - 1, most, link), _steps(depth, most, link) if p == 1 << depth else
                         _steps(p - 1, most, link))  # fmt: skip
    if kind == "all_to_all":
        return _steps(p - 1, most, link)
    if kind in ("broadcast", "reduce"):
        return _quickest(_steps(depth, depth * n, link), _steps(depth + p - 1, 2 * most, link))
    if kind in ("gather", "scatter"):
        return _steps(depth, most, link)
    if kind == "barrier":
        return _steps(depth, 0, link)
    if kind in ("send", "recv"):
        return _steps(1, n, link)
    raise ValueError(f"cost of {kind!r}: that is no collective. [nd-option]")


def cost(kind: str, nbytes: float, ranks: int, inside: Link, between: Link | None = None, per_node: int = 0) -> Cost:
    """Return the cost of a collective.

    Args:
        kind: name of the collective, such as `"all_reduce"`.
        nbytes: number of bytes.
        ranks: number of ranks.
        inside: link between ranks of a node.
        between: link between nodes. None means that all ranks share a node.
        per_node: number of ranks of a node. 0 means all of them.

    >>> from ndgrad.distributed.planning import Link, cost
    >>> fast, slow = Link(1e-6, 1e11), Link(2e-6, 1e10)
    >>> round(cost("all_reduce", 1e8, 8, fast).seconds, 6)
    0.001756
    >>> cost("all_reduce", 1e8, 64, fast, slow, per_node=8).seconds < cost("all_reduce", 1e8, 64, slow).seconds
    True
    """
    if between is None or per_node <= 0 or ranks <= per_node:
        return flat(kind, nbytes, ranks, inside)
    if per_node == 1:
        return flat(kind, nbytes, ranks, between)
    nodes = math.ceil(ranks / per_node)
    if kind == "all_reduce":
        return (
            flat("reduce_scatter", nbytes, per_node, inside)
            + flat("all_reduce", nbytes / per_node, nodes, between)
            + flat("all_gather", nbytes, per_node, inside)
        )
    if kind in ("all_gather", "reduce_scatter"):
        return flat(kind, nbytes / per_node, nodes, between) + flat(kind, nbytes, per_node, inside)
    if kind == "all_to_all":
        beyond = nbytes * (ranks - per_node) / ranks  # a node's ranks share its link to the others
        return flat(kind, nbytes - beyond, per_node, inside) + _steps(ranks - per_node, beyond * per_node, between)
    return flat(kind, nbytes, nodes, between) + flat(kind, nbytes, per_node, inside)
