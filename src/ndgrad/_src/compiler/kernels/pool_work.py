"""Wrap kernels as work for the pool of threads.

A kernel takes many arguments and a range of chunks; the pool calls `void work(ptr argument, i64 chunk, i64 worker)`. A
function of a few instructions connects them, which reads the kernel's arguments from memory:

    argument = 8-byte words: the parameters of the kernel in their order, without `begin` and `end`, and at the end the bytes between
               the buffers of two workers, if there is a `buffer`

Worker number w packs into its own piece of the buffer, `buffer + w * bytes`. Chunk c is the range c..c + 1.
"""

from __future__ import annotations

from ndgrad._src.compiler.native.ir import Function


def words(parameters: str) -> list[str]:
    """Return the names of the words of a kernel's argument."""
    names = [word.split()[-1].lstrip("%") for word in parameters.split(", ")]
    return [n for n in names if n not in ("begin", "end")] + (["buffer_step"] if "buffer" in names else [])


def work_function(kernel: str, parameters: str) -> Function:
    """Write `void {kernel}_work(ptr argument, i64 chunk, i64 worker)` for a kernel with these parameters."""
    f = Function(f"{kernel}_work", "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    types = {word.split()[-1].lstrip("%"): word.split()[0] for word in parameters.split(", ")} | {"buffer_step": "i64"}
    values = {
        name: f.set(f"load {types[name]}, ptr {f.ahead('%argument', 8 * n)}")
        for n, name in enumerate(words(parameters))
    }
    values |= {"begin": "%chunk", "end": f.add("%chunk", 1)}
    if "buffer" in types:
        values["buffer"] = f.ahead(values["buffer"], f.mul("%worker", values["buffer_step"]))
    arguments = (word.split() for word in parameters.split(", "))
    f.call_void(kernel, *(f"{type[0]} {values[type[-1].lstrip('%')]}" for type in arguments))
    f.returns()
    return f
