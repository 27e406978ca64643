"""Streams of a GPU in backward.

As in torch, a node runs on the stream of its op, independent of the stream on which backward is called. If a value of
one stream is used on another, that stream waits for it on the GPU; the host does not wait. Sums of gradients that meet
at a node are computed on its stream, those of leaves on the stream of the call. At the end of a pass, that stream has
waited for all others, so `.grad` can be used without further synchronisation. The other streams wait for it before they
reuse the memory of gradients.

Nodes of the default stream store no stream. While only the default stream is in use and no node has another one, passes
skip all of this (ndgrad._src.arrays.streams).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import library
from ndgrad._src.core.node import FIRST, edge_node

if TYPE_CHECKING:
    from ndgrad._src.core.node import Edge, Node
    from ndgrad._src.engine.engine import GraphTask
    from ndgrad._typing import Payload


class Crossing:
    """The streams of one pass."""

    def __init__(self) -> None:
        cuda = library.device_library.cuda
        #: the stream of the call, and the stream of nodes that store none
        self.here, self.default = cuda.get_current_stream(), cuda.Stream.null
        #: stream on which the gradients that are being sent were computed
        self._last = self.here
        self._used = {self.here.ptr: self.here}
        #: gradients used by two streams: kept, so that neither reuses the memory before the other has read it
        self._kept: list[Any] = []

    def _stream_of(self, node: Node) -> Any:
        if node.seq is FIRST:
            return self.here
        return self.default if node.extra is None or node.extra.stream is None else node.extra.stream.stream

    def wrap_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `run(task, node, gradient)` to run on the node's stream."""

        def run_there(task: GraphTask, node: Node, g: Payload) -> Any:
            self._last = stream = self._stream_of(node)
            with stream:
                return run(task, node, g)

        return run_there

    def wrap_send(self, send: Callable[..., bool]) -> Callable[..., bool]:
        """Wrap `send(task, edge, gradient, fresh)` to run on the stream of the destination node."""

        def send_there(task: GraphTask, e: Node | Edge, g: Payload, fresh: bool = False) -> bool:
            stream, last = self._stream_of(edge_node(e)), self._last
            if stream.ptr != last.ptr:
                self._used[stream.ptr], self._used[last.ptr] = stream, last
                stream.wait_event(last.record())
                self._kept.append(g)
            with stream:
                return send(task, e, g, fresh)

        return send_there

    def join(self) -> None:
        """Synchronise the streams at the end of the pass."""
        others = [stream for pointer, stream in self._used.items() if pointer != self.here.ptr]
        for stream in others:
            self.here.wait_event(stream.record())
        for stream in others:
            stream.wait_event(self.here.record())
        self._kept.clear()
