"""Programs as CUDA graphs: what moves is copied in, results are copied out, and what cannot be recorded runs as before. Over the
stand-in, a graph is a list of launches, and their memory is kept."""

from __future__ import annotations

import contextlib
import shutil

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import device_kernels
from ndgrad._src.compiler.cuda import graph_capture, launch
from ndgrad.cuda import graphs
from tests.compiler.cuda import emulator

cupy = pytest.importorskip("cupy")
ON_GPU = device_kernels.kernels() is not None
if not ON_GPU and shutil.which("g++") is None:
    pytest.skip("there is neither a GPU nor a C++ compiler", allow_module_level=True)


class Recorded:
    """In the place of CUDAGraph: the launches of a block."""

    at_work = None

    def __init__(self):
        self.launches, self._pool = [], self

    def total_bytes(self):
        return 1000

    def replay(self):
        for start, arguments in self.launches:
            start(*arguments)


class Functions(emulator.Functions):
    def start(self, *arguments):
        if Recorded.at_work is None:
            super().start(*arguments)
        else:
            Recorded.at_work.launches.append((super().start, arguments))


@contextlib.contextmanager
def recording(made):
    Recorded.at_work = made
    try:
        yield
    finally:
        Recorded.at_work = None


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    if ON_GPU:
        return
    monkeypatch.setattr(launch, "Functions", Functions)
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "can_be_made", lambda: True)
    monkeypatch.setattr(graphs, "CUDAGraph", Recorded)
    monkeypatch.setattr(graphs, "graph", recording)
    stream, make = type(cupy.cuda.get_current_stream()), cupy.empty
    monkeypatch.setattr(stream, "begin_capture", None, raising=False)
    monkeypatch.setattr(graph_capture, "_kernels", {})

    def empty(*arguments, **settings):
        array = make(*arguments, **settings)
        if Recorded.at_work is not None:
            Recorded.at_work.launches.append((lambda array: None, (array,)))  # a graph's memory lives as long as it
        return array

    monkeypatch.setattr(cupy, "empty", empty)
    monkeypatch.setattr(cupy.ndarray, "set", lambda self, array: self.__setitem__(..., cupy.asarray(array)), raising=False)


def function(x, y, scale):
    """Four kernels, none of which can be joined with another."""
    rows, columns = (x * scale).softmax(-1), y.exp().sum(0)
    return rows, columns, (rows.sum(0) + 1).sum(), y.amax(1) * scale


def program_of(compiled):
    return compiled.entries[-1].specialisation.plan.run_forward.known_on_device


def host(t):
    return t.cpu().numpy()


def draw(*shape, seed):
    return ndgrad.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), device="cuda")


def test_inputs_that_move_are_copied_in_and_results_stay():
    compiled = ndgrad.compile(function, fullgraph=True)
    y, kept = draw(50, 16, seed=0), []
    for n in range(6):
        x, scale = draw(6, 40, seed=n + 1), ndgrad.tensor(1.0 + n)  # the latter on the host
        kept.append((compiled(x, y, scale), function(x, y, scale)))
    graph = program_of(compiled).capturing
    assert graph.problem is None
    assert graph.is_recorded
    for got, want in kept:
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(host(a), host(b), rtol=1e-5, atol=1e-6)


def test_what_is_written_in_place_is_written_by_the_graph():
    x, total = draw(6, 40, seed=0), ndgrad.zeros(6, 40, device="cuda")

    @ndgrad.compile
    def step(y):
        total.add_(x.softmax(-1) * y)
        return y.exp().sum(0), y.sum(), y.amax(1)

    want = np.zeros((6, 40), np.float32)
    for n in range(6):
        y = draw(6, 40, seed=n + 1)
        step(y)
        want += host(x.softmax(-1) * y)
        np.testing.assert_allclose(host(total), want, rtol=1e-5, atol=1e-5)


def test_few_launches_are_not_recorded(monkeypatch):
    compiled = ndgrad.compile(lambda x: x.sin() * 2)
    for _ in range(4):
        compiled(draw(8, seed=0))
    assert program_of(compiled).capturing.problem == "it has few launches"
    assert "few launches" in str(ndgrad.compiler.explain(compiled, draw(8, seed=0)))
    monkeypatch.setenv("NDGRAD_CUDA_GRAPHS", "0")
    compiled = ndgrad.compile(function)
    compiled(draw(6, 40, seed=0), draw(50, 16, seed=0), ndgrad.tensor(1.0))
    assert program_of(compiled).capturing.problem == "NDGRAD_CUDA_GRAPHS is 0"


def test_what_cannot_be_recorded_runs_as_before(monkeypatch):
    def refuses(made):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs, "graph", refuses)
    compiled = ndgrad.compile(function)
    for n in range(5):
        x, y, scale = draw(6, 40, seed=n), draw(50, 16, seed=n), ndgrad.tensor(2.0)
        for a, b in zip(compiled(x, y, scale), function(x, y, scale), strict=True):
            np.testing.assert_allclose(host(a), host(b), rtol=1e-5, atol=1e-6)
    assert "not permitted" in program_of(compiled).capturing.problem


def test_the_spectra_of_many_rows_stay_inside_of_their_memory():
    def loss(x, kernel):
        product = ndgrad.fft.rfft(x, 32_768) * ndgrad.fft.rfft(kernel, 32_768)
        return ndgrad.fft.irfft(product, 32_768)[:, :16_384].square().mean()

    x, kernel = draw(64, 16_384, seed=0), draw(16_384, seed=1)
    compiled = ndgrad.compile(ndgrad.func.grad(loss, argnums=1), fullgraph=True)
    assert np.array_equal(compiled(x, kernel).cpu().numpy(), ndgrad.func.grad(loss, argnums=1)(x, kernel).cpu().numpy())
    groups = program_of(compiled).plan.groups
    for place in groups.places.values():
        low = place.offset + sum((n - 1) * min(s, 0) for n, s in zip(place.shape, place.strides, strict=True))
        last = place.offset + sum((n - 1) * max(s, 0) for n, s in zip(place.shape, place.strides, strict=True))
        assert 0 <= low <= last < max(place.root.size, 1), place
