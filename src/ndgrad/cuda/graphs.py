"""CUDA graphs: record the work of a GPU once, and run it again without Python.

    g = ndgrad.cuda.CUDAGraph()
    with ndgrad.cuda.graph(g):
        loss = step(x, y)          # recorded, not run
    x.copy_(new); g.replay()       # the same kernels on the same memory

As in torch, run the step a few times before recording it, so that kernels are compiled and optimizers have their
states. New inputs are written into the recorded tensors, and results are in the tensors that the recorded step has
returned. Memory of the recorded step belongs to the graph. Unlike in torch, optimizers need no `capturable`: values
that depend on the step number or on a changed learning rate are computed before each replay.

Steps that read values (`item()`, data-dependent branches), copy data from the host or draw random numbers cannot be
recorded, and raise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ndgrad._src.arrays import device_faults, device_kernels, graph_recording
from ndgrad._src.arrays.gpus import cupy_with_devices
from ndgrad.cuda.streams import Stream, current_stream, stream, synchronize

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def is_current_stream_capturing() -> bool:
    """True if a graph of the GPU's work is being recorded.

    >>> import ndgrad
    >>> ndgrad.cuda.is_current_stream_capturing()
    False
    """
    return graph_recording.active is not None


def graph_pool_handle() -> tuple[int, int]:
    """Return a name for memory shared by several graphs; here each graph has its own memory."""
    return (0, 1)


class CUDAGraph:
    """Recorded work of a GPU.

    Args:
        keep_graph: accepted as in torch; has no effect.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._cupy = cupy_with_devices("cuda.CUDAGraph()")
        self._graph: Any = None
        self._recording: graph_recording.Recording | None = None
        self._leaving: contextlib.ExitStack | None = None
        self._pool: Any = None
        self._stream: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin to record the work of the current stream, which must not be the default one.

        Args:
            pool: accepted as in torch; has no effect, because every graph has memory of its own.
            capture_error_mode: `"global"`, `"thread_local"` or `"relaxed"`. It is only checked.
        """
        if graph_recording.active is not None:
            raise RuntimeError("a CUDA graph is being recorded already, and one is recorded at a time. [nd-cuda-graph]")
        if self._graph is not None:
            raise RuntimeError(
                "this CUDAGraph holds a recording already. Call reset() first, or make another one. [nd-cuda-graph]"
            )
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"capture_error_mode is {capture_error_mode!r}, and can be one of {', '.join(map(repr, _MODES))}. "
                "[nd-cuda-graph]"
            )
        device_faults.settle()
        cuda = self._cupy.cuda
        self._stream = cuda.get_current_stream()
        if self._stream.ptr in (0, 1, 2):
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. "
                "Use `with ndgrad.cuda.graph(g):`, which has one. [nd-cuda-graph]"
            )
        self._pool = cuda.MemoryPool()
        with contextlib.ExitStack() as leaving:
            leaving.enter_context(cuda.using_allocator(self._pool.malloc))
            # The graph's own memory is allocated during the recording, which the stricter modes refuse.
            self._stream.begin_capture(_MODES["relaxed"])
            self._recording = graph_recording.active = graph_recording.Recording()
            self._leaving = leaving.pop_all()

    def capture_end(self) -> None:
        """End the recording."""
        if self._leaving is None:
            raise RuntimeError("capture_end() without capture_begin(). [nd-cuda-graph]")
        graph_recording.active = None
        leaving, self._leaving = self._leaving, None
        with leaving:
            self._graph = self._stream.end_capture()

    def _give_up(self) -> None:
        """End a failed recording, and discard it."""
        graph_recording.active = None
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            with leaving, contextlib.suppress(Exception):
                self._stream.end_capture()
        self._recording = self._graph = self._pool = None

    def replay(self) -> None:
        """Run the recorded work in the current stream."""
        if self._graph is None or self._recording is None:
            raise RuntimeError(
                "replay() of a CUDAGraph that holds no recording. Record one with `with ndgrad.cuda.graph(g):`. "
                "[nd-cuda-graph]"
            )
        for prepare in self._recording.before_replay:
            prepare()
        self._graph.launch(self._cupy.cuda.get_current_stream())

    def reset(self) -> None:
        """Discard the recording and its memory."""
        self._graph = self._recording = self._pool = None

    def pool(self) -> tuple[int, int]:
        """Return the name of its memory (`graph_pool_handle`)."""
        return graph_pool_handle()


class graph:
    """Block that records its GPU work without running it.

    Args:
        cuda_graph: graph that receives the recording.
        pool: accepted as in torch; has no effect, because every graph has memory of its own.
        stream: stream of the recording. The default is one of its own.
        capture_error_mode: `"global"`, `"thread_local"` or `"relaxed"`. It is only checked.
    """

    _default_stream: Stream | None = None

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
    ) -> None:
        self.cuda_graph = cuda_graph
        self._mode = capture_error_mode
        if stream is None:
            if graph._default_stream is None:
                graph._default_stream = Stream()
            stream = graph._default_stream
        self.capture_stream = stream
        self._block = self._open()

    @contextlib.contextmanager
    def _open(self) -> Iterator[None]:
        synchronize()
        self.capture_stream.wait_stream(current_stream())
        kernels = device_kernels.kernels()
        with stream(self.capture_stream):
            if kernels is not None:
                kernels.prepare_stream()
            self.cuda_graph.capture_begin(capture_error_mode=self._mode)
            try:
                yield
            except BaseException as error:
                self.cuda_graph._give_up()
                if "captur" in str(error).lower() and "recorded" not in str(error):
                    raise RuntimeError(
                        f"the GPU's driver refused a call while a graph was recorded: {error}. What waits for the GPU "
                        "or asks for values cannot be recorded; run it before or after. [nd-cuda-graph]"
                    ) from error
                raise
            try:
                self.cuda_graph.capture_end()
            except Exception:
                self.cuda_graph._give_up()
                raise

    def __enter__(self) -> None:
        self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, traceback)

