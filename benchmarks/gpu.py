"""Programs on a GPU, through torch and ndgrad in one process: `python -m benchmarks.gpu`.

Each row is one step, forward and backward (and an optimizer if the row says so), written once in the dialect of
both libraries. A sample is some steps between two waits for the device. Samples of the libraries alternate, and
the fastest of several counts. Both get the same numbers, and their losses are compared. `--compiled` adds the same
steps by `torch.compile` and `ndgrad.compile`, and `--memory` adds the memory peaks of the eager steps.
The program prints a Markdown table.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Step = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A named step; `make` takes the library's namespace."""

    name: str
    title: str
    make: Callable[[Any], Step]
    #: Largest difference of the losses of two libraries, relative to their size.
    tolerance: float = 1e-3
    #: True if the step is a recorded graph, which cannot be compiled.
    is_recorded: bool = False


ROWS: list[Row] = []


def row(name: str, title: str, tolerance: float = 1e-3) -> Callable[[Callable[[Any], Step]], Callable[[Any], Step]]:
    """Add a function to the table."""

    def enter(make: Callable[[Any], Step]) -> Callable[[Any], Step]:
        ROWS.append(Row(name, title, make, tolerance, name.endswith("-graph")))
        return make

    return enter


def on_device(torch: Any, array: np.ndarray, dtype: Any = None, leaf: bool = False) -> Any:
    t = torch.tensor(array, device="cuda")
    t = t if dtype is None else t.to(dtype)
    return t.requires_grad_() if leaf else t


def draw_normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def fill_parameters(torch: Any, model: Any, dtype: Any = None) -> Any:
    """Move a module to the device, with parameters that are the same for all libraries."""
    random = np.random.default_rng(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            shape = tuple(p.shape)
            values = (
                random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
                if len(shape) > 1
                else np.full(shape, 0.0 if "bias" in name else 1.0)
            )
            p.copy_(torch.tensor(values.astype(np.float32)))
    return model.to("cuda") if dtype is None else model.to("cuda").to(dtype)


def backward_step(loss: Callable[[], Any], parameters: list[Any]) -> Step:
    def step() -> Any:
        for p in parameters:
            p.grad = None
        value = loss()
        value.backward()
        return value

    return step


# ----- elementwise ----------------------------------------------------------------------------------------------------


def _chain(torch: Any, size: int) -> Step:
    x = on_device(torch, draw_normal(size) * 0.1, leaf=True)

    def loss() -> Any:
        y = x
        for _ in range(10):
            y = torch.sin(y) * 0.9
            y = torch.tanh(y + 0.1)
            y = y * y + x
        return y.sum()

    return backward_step(loss, [x])


@row("chain-100", "chain of 50 ops, size 100")
def chain_small(torch: Any) -> Step:
    return _chain(torch, 100)


@row("chain-1M", "chain of 50 ops, size 1M")
def chain_large(torch: Any) -> Step:
    return _chain(torch, 1 << 20)


@row("gelu-64M", "tanh-GELU of 64M float32, forward and backward")
def gelu(torch: Any) -> Step:
    x = on_device(torch, np.resize(draw_normal(1 << 20), 1 << 26), leaf=True)
    g = torch.ones_like(x.detach())

    def step() -> Any:
        x.grad = None
        y = torch.nn.functional.gelu(x, approximate="tanh")
        y.backward(g)
        return y[:8].sum()

    return step


@row("gelu-64M-forward", "tanh-GELU of 64M float32, forward alone")
def gelu_forward(torch: Any) -> Step:
    x = on_device(torch, np.resize(draw_normal(1 << 20), 1 << 26))
    return lambda: torch.nn.functional.gelu(x, approximate="tanh")


# ----- networks -------------------------------------------------------------------------------------------------------


def _mlp(torch: Any, batch: int) -> Step:
    nn = torch.nn
    model = fill_parameters(
        torch, nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    )
    x = on_device(torch, draw_normal(batch, 784))
    y = on_device(torch, np.random.default_rng(2).integers(0, 10, batch))
    return backward_step(lambda: nn.functional.cross_entropy(model(x), y), list(model.parameters()))


@row("mlp-64", "MLP 784-256-256-10, batch 64")
def mlp_small(torch: Any) -> Step:
    return _mlp(torch, 64)


@row("mlp-4096", "MLP 784-256-256-10, batch 4096")
def mlp_large(torch: Any) -> Step:
    return _mlp(torch, 4096)


def block(torch: Any, width: int, heads: int) -> Any:
    """Return a pre-norm transformer layer with causal attention."""
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    return Layer()


def _layer(torch: Any, dtype: Any) -> Step:
    model = fill_parameters(torch, block(torch, 512, 8), dtype)
    x = on_device(torch, draw_normal(16, 512, 512), dtype)
    return backward_step(lambda: model(x).float().square().mean(), list(model.parameters()))


@row("layer-f32", "transformer layer, d 512, 8 heads, seq 512, batch 16, float32")
def layer_single(torch: Any) -> Step:
    return _layer(torch, torch.float32)


@row("layer-bf16", "the same in bfloat16", tolerance=0.05)
def layer_half(torch: Any) -> Step:
    return _layer(torch, torch.bfloat16)


@row("convnet", "convnet 3-32-64 on 64 x 64, batch 64", tolerance=1e-2)
def convnet(torch: Any) -> Step:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 16 * 16, 10),
    )  # fmt: skip
    model = fill_parameters(torch, model)
    x = on_device(torch, draw_normal(64, 3, 64, 64))
    y = on_device(torch, np.random.default_rng(2).integers(0, 10, 64))
    return backward_step(lambda: nn.functional.cross_entropy(model(x), y), list(model.parameters()))


def record_graph(torch: Any, step: Step) -> Step:
    """Record a step as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay(parts: Any = step) -> Any:  # the default keeps `step` alive; a graph does not
        graph.replay()
        return loss

    return replay


@row("mlp-64-graph", "MLP 784-256-256-10, batch 64, as a CUDA graph")
def mlp_recorded(torch: Any) -> Step:
    return record_graph(torch, _mlp(torch, 64))


@row("convnet-graph", "convnet 3-32-64, as a CUDA graph", tolerance=1e-2)
def convnet_recorded(torch: Any) -> Step:
    return record_graph(torch, convnet(torch))


@row("gpt-bf16-graph", "12 layers, d 768, bfloat16, AdamW, as a CUDA graph", tolerance=0.05)
def language_recorded(torch: Any) -> Step:
    return record_graph(torch, language(torch, capturable=True))


@row("gpt-bf16", "12 layers, d 768, 12 heads, seq 512, batch 16, bfloat16, AdamW", tolerance=0.05)
def language(torch: Any, capturable: bool = False) -> Step:
    nn, functional = torch.nn, torch.nn.functional
    width, length, batch, words = 768, 512, 16, 8192

    class Language(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.layers = nn.Sequential(*[block(torch, width, 12) for _ in range(12)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.places(torch.arange(length, device="cuda"))
            return self.head(self.norm(self.layers(x)))

    model = fill_parameters(torch, Language(), torch.bfloat16)
    ids = on_device(torch, np.random.default_rng(3).integers(0, words, (batch, length)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=capturable)

    def step() -> Any:
        optimizer.zero_grad()
        logits = model(ids)
        loss = functional.cross_entropy(logits.reshape(-1, words).float(), ids.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


# ----- timing ---------------------------------------------------------------------------------------------------------

#: Number of samples of each variant, many and short, so that some are undisturbed; seconds of one; steps before them.
SAMPLES, SECONDS, BEFORE = 21, 0.05, 4
LIBRARIES = ("torch", "ndgrad")


@dataclass
class Way:
    """One variant of a row's step: a library, compiled or not."""

    library: str
    is_compiled: bool
    #: Seconds of the fastest sample per step, the loss of the first step, or the reason for their absence.
    seconds: float = float("inf")
    loss: float = float("nan")
    problem: str = ""
    #: Peak bytes in use during an eager step, above the bytes in use before the model was made.
    peak: int = 0


def find_wait(name: str) -> Callable[[], None]:
    """Return a function that waits until the device has finished the work of a library."""
    if name == "torch":
        wait: Callable[[], None] = importlib.import_module("torch").cuda.synchronize
        return wait
    cupy = importlib.import_module("cupy")
    return lambda: cupy.cuda.get_current_stream().synchronize()


def prepare(wanted: Row, way: Way) -> tuple[Step, int] | None:
    """Run a step once. Return it with the number of steps in a sample; None if there is a problem, which is noted."""
    torch = importlib.import_module(way.library)
    wait = find_wait(way.library)
    try:
        step = wanted.make(torch)
        step = torch.compile(step) if way.is_compiled else step
        way.loss = float(step().detach().float().sum())
        for _ in range(BEFORE):
            step()
        wait()
        start = time.perf_counter()
        step()
        wait()
        return step, max(1, min(300, int(SECONDS / (time.perf_counter() - start))))
    except Exception as error:  # the other rows still run
        way.problem = f"{type(error).__name__}: {str(error)[:160]}"
        return None


def sample(way: Way, step: Step, count: int) -> None:
    """Time some steps between two waits."""
    wait = find_wait(way.library)
    start = time.perf_counter()
    for _ in range(count):
        step()
    wait()
    way.seconds = min(way.seconds, (time.perf_counter() - start) / count)


def measure(wanted: Row, compiled: bool) -> list[Way]:
    """Time all variants of a row. Samples of two libraries alternate, so that disturbances affect both."""
    found: list[Way] = []
    for is_compiled in (False, True) if compiled and not wanted.is_recorded else (False,):
        ways = [Way(name, is_compiled) for name in LIBRARIES]
        steps = [(way, made) for way in ways if (made := prepare(wanted, way)) is not None]
        gc.collect()
        gc.disable()  # as `timeit` does
        for _ in range(SAMPLES):
            for way, (step, count) in steps:
                sample(way, step, count)
        gc.enable()
        first, second = ways
        if not (first.problem or second.problem):
            if not abs(first.loss - second.loss) <= wanted.tolerance * max(1.0, abs(first.loss)):
                second.problem = f"other loss: {second.loss} for {first.loss}"
        found += ways
        del steps
        for name in LIBRARIES:
            # Compiled functions of a row are not used again, and torch keeps at most eight of a function.
            importlib.import_module(name)._dynamo.reset()
        release()
    return found


def release() -> None:
    """Free the memory of a row."""
    gc.collect()
    for name in LIBRARIES:
        importlib.import_module(name).cuda.empty_cache()


def measure_memory(wanted: Row, ways: list[Way]) -> None:
    """Note the peaks of eager steps. This comes after all timing, because counting allocations slows them down."""
    for way in ways:
        if way.is_compiled or way.problem or wanted.is_recorded:  # a graph holds all its memory at any time
            continue
        cuda = importlib.import_module(way.library).cuda
        before = cuda.memory_allocated()
        step = wanted.make(importlib.import_module(way.library))
        step()
        find_wait(way.library)()
        cuda.reset_peak_memory_stats()
        for _ in range(2):
            step()
        way.peak = cuda.max_memory_allocated() - before
        del step
        release()


# ----- the table ------------------------------------------------------------------------------------------------------


def cells_of(ways: list[Way]) -> list[str]:
    """Return the milliseconds of two libraries, and their ratio."""
    cells = [way.problem or f"{way.seconds * 1e3:.3f}" for way in ways]
    if len(ways) < 2:
        return ["", "", ""]
    return [*cells, "" if any(way.problem for way in ways) else f"{ways[1].seconds / ways[0].seconds:.2f}"]


def line_of(wanted: Row, ways: list[Way], compiled: bool, memory: bool) -> str:
    eager, rest = ways[:2], ways[2:]
    cells = [wanted.title, *cells_of(eager)]
    if compiled:
        cells += cells_of(rest)
    if memory:
        cells += [f"{way.peak / 2**20:.1f}" if way.peak else "" for way in eager]
    return f"| {' | '.join(cells)} |"


def head_of(compiled: bool, memory: bool) -> str:
    titles = ["step", "torch, ms", "ndgrad, ms", "ratio"]
    if compiled:
        titles += ["torch.compile, ms", "ndgrad.compile, ms", "ratio"]
    if memory:
        titles += ["torch, peak MiB", "ndgrad, peak MiB"]
    return f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="names of rows")
    parser.add_argument("--compiled", action="store_true", help="the steps by compile, too")
    parser.add_argument("--memory", action="store_true", help="the peaks of memory, too")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if not arguments.only or row.name in arguments.only]
    found = []
    for wanted in rows:
        found.append(measure(wanted, arguments.compiled))
        print(line_of(wanted, found[-1], arguments.compiled, False), file=sys.stderr, flush=True)
    if arguments.memory:
        for wanted, ways in zip(rows, found, strict=True):
            measure_memory(wanted, ways)
    print(head_of(arguments.compiled, arguments.memory))
    for wanted, ways in zip(rows, found, strict=True):
        print(line_of(wanted, ways, arguments.compiled, arguments.memory))


if __name__ == "__main__":
    main()
