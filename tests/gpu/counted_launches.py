"""Count the GPU work of steps on a machine without a GPU: `python -m tests.gpu.counted_launches`.

The stand-in for CuPy, with kernels that are counted and not run, and products likewise: all of the host's part of the kernels of
ndgrad._src.compiler.cuda runs, with shapes, dtypes and addresses as on a GPU; values are zeros. Functions of CuPy's that are called
besides are counted by name. Prints JSON, by step.
"""

from __future__ import annotations

import collections
import json
import sys
import types

import numpy

from tests.gpu import stand_in

COUNTS: collections.Counter = collections.Counter()
#: Functions of CuPy's, and methods of its arrays, that ask something of the GPU.
FUNCTIONS = "zeros ones full where copyto sum mean concatenate".split()
METHODS = "astype copy fill sum mean max any all".split()


class Memory:
    """New memory, which an array takes for its own."""

    device_id = 0

    def __init__(self, size):
        self.array = stand_in.wrap_results(numpy.zeros(max(1, size), numpy.uint8))
        self.offset, self.ptr = 0, stand_in.pointer(self.array._bare)


class Module:
    """Compiled code, all of whose functions do nothing."""

    def __init__(self, code, options=()):
        assert "(const Arguments a)" in code

    def get_function(self, name):
        return types.SimpleNamespace(kernel=types.SimpleNamespace(ptr=1))


class Pinned(bytearray):
    ptr = 0


def count_calls(name, function):
    def call(*args, **kwargs):
        COUNTS[f"cupy.{name}"] += 1
        return function(*args, **kwargs)

    return call


def counting(name):
    def call(*args):
        COUNTS[name] += 1

    return call


def install():
    stand_in.install()
    cupy, ndarray = sys.modules["cupy"], stand_in.ndarray
    plain = ndarray.__init__

    def init(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        if isinstance(memptr, Memory):
            assert memptr.array.size >= numpy.dtype(dtype).itemsize * int(numpy.prod(shape)), "more elements than memory"
            memptr = stand_in.Pointer(memptr.array)
        plain(self, shape, dtype, memptr, strides, order)
        self.base = None  # as CuPy's own, which does not know whose memory it is

    ndarray.__init__ = init
    ndarray._c_contiguous = property(lambda self: self._bare.flags.c_contiguous)
    stand_in.Pointer.device_id = 0
    stand_in._Device.compute_capability = "90"
    stand_in.Pointer.memset_async = counting("memset")
    cupy.RawModule = Module
    cupy.cuda.alloc, cupy.cuda.alloc_pinned_memory = Memory, Pinned
    cupy.cuda.runtime.memcpyAsync = counting("memcpy")
    cupy.cuda.device = types.SimpleNamespace(get_cublas_handle=lambda: 0)
    made = {name: types.ModuleType(name) for name in ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api")}
    made["cupy_backends.cuda.api.driver"] = types.ModuleType("driver")
    made["cupy_backends.cuda.libs"] = types.ModuleType("libs")
    made["cupy_backends.cuda.api.driver"].launchKernel = counting("kernel")
    made["cupy_backends.cuda.api"].driver = made["cupy_backends.cuda.api.driver"]
    cublas = made["cupy_backends.cuda.libs"].cublas = types.ModuleType("cublas")
    cublas.gemmEx, cublas.gemmStridedBatchedEx = counting("product"), counting("products")
    sys.modules.update(made)
    for name in FUNCTIONS:
        setattr(cupy, name, count_calls(name, getattr(cupy, name)))
    for name in METHODS:
        setattr(ndarray, name, count_calls(name, getattr(ndarray, name)))


def steps():
    """Steps of forward and backward by name, of small networks."""
    import ndgrad
    import ndgrad.nn.functional as F
    from ndgrad import nn

    def trained(model, loss):
        model = model.to("cuda")
        parameters = list(model.parameters())

        def step():
            for p in parameters:
                p.grad = None
            loss(model).backward()
            for p in parameters:
                assert p.grad.shape == p.shape
                assert p.grad.dtype is p.dtype

        return step

    y = ndgrad.tensor([0, 1, 2, 1], device="cuda")
    x = ndgrad.zeros(4, 8, device="cuda", dtype=ndgrad.float32)
    mlp = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)).float()
    yield "mlp", trained(mlp, lambda m: F.cross_entropy(m(x), y))
    for dtype in (ndgrad.float32, ndgrad.bfloat16):
        z = ndgrad.zeros(2, 4, 8, device="cuda", dtype=dtype)
        norm = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(approximate="tanh"), nn.Linear(16, 8)).to(dtype)
        yield f"feed forward {dtype}", trained(norm, lambda m, z=z: (z + m(z)).float().square().mean())
    q = ndgrad.zeros(2, 2, 4, 8, device="cuda", dtype=ndgrad.float32)
    heads = nn.Linear(8, 8).float()
    yield "attention", trained(heads, lambda m: F.scaled_dot_product_attention(m(q), m(q), m(q), is_causal=True).sum())
    image = ndgrad.zeros(4, 2, 8, 8, device="cuda", dtype=ndgrad.float32)
    convnet = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 3)).float()
    yield "convnet", trained(convnet, lambda m: F.cross_entropy(m(image), y))
    yield "batch norm", trained(nn.BatchNorm2d(2).float(), lambda m: m(image).sum())
    heads_first = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True).float()
    z = ndgrad.zeros(2, 4, 8, device="cuda", dtype=ndgrad.float32)
    yield "packed attention", trained(heads_first, lambda m: m(z, z, z, need_weights=False)[0].sum())
    w = ndgrad.zeros(100, device="cuda", dtype=ndgrad.float32, requires_grad=True)

    def chain():
        w.grad = None
        (ndgrad.tanh(ndgrad.sin(w) * 0.9 + 0.1) * w).sum().backward()

    yield "chain", chain
    yield "dropout", lambda: F.dropout(ndgrad.randn(100, device="cuda"), 0.5)


def main():
    install()
    found = {}
    for name, step in steps():
        step()
        step()
        COUNTS.clear()
        step()
        found[name] = dict(sorted(COUNTS.items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
