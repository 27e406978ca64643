"""Streams of a GPU in backward.

As in torch, a node runs on the stream on which its op ran, whatever stream backward is called on. What was computed on
one stream and is used on another is waited for there, by the GPU and not by the host; sums of gradients that meet at a
node are made on its stream, those of leaves on the stream of the call. When a pass has ended, that stream has waited
for all others, so `.grad` can be used without more ado; and they wait for it before they use memory anew that
gradients had.

Nodes of the default stream remember none. As long as there are no others, and none but the default stream is in use,
passes look for none (ndgrad._src.arrays.streams).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad._src.arrays import library
from ndgrad._src.core.node import FIRST, edge_node


class Crossing:
    """The streams of one pass."""

    def __init__(self) -> None:
        cuda = library.device_library.cuda
        #: the stream of the call, and the one of nodes that remember none
        self.here, self.default = cuda.get_current_stream(), cuda.Stream.null
        #: where the gradients that are being sent were computed
        self._last = self.here
        self._used = {self.here.ptr: self.here}
        #: gradients that two streams use: none of them is to use their memory anew before the other has read it
        self._kept: list[Any] = []

    def _stream_of(self, node: Any) -> Any:
        if node.seq is FIRST:
            return self.here
        return self.default if node.extra is None or node.extra.stream is None else node.extra.stream.stream

    def running(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run(task, node, gradient)` on the node's stream."""

        def run_there(task: Any, node: Any, g: Any) -> Any:
            self._last = stream = self._stream_of(node)
            with stream:
                return run(task, node, g)

        return run_there

    def sending(self, send: Callable[..., bool]) -> Callable[..., bool]:
        """`send(task, edge, gradient, fresh)` on the stream of the node that it is sent to."""

        def send_there(task: Any, e: Any, g: Any, fresh: bool = False) -> bool:
            stream, last = self._stream_of(edge_node(e)), self._last
            if stream.ptr != last.ptr:
                self._used[stream.ptr], self._used[last.ptr] = stream, last
                stream.wait_event(last.record())
                self._kept.append(g)
            with stream:
                return send(task, e, g, fresh)

        return send_there

    def join(self) -> None:
        """The end of the pass."""
        others = [stream for pointer, stream in self._used.items() if pointer != self.here.ptr]
        for stream in others:
            self.here.wait_event(stream.record())
        for stream in others:
            stream.wait_event(self.here.record())
        self._kept.clear()
