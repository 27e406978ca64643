"""Correlation of groups with one input channel each, as in depthwise convolution.

The matrix products of `correlation` have few rows here and nothing to reuse, so copying the patches is most of the
work. This file is shaped by the fact that only long copies are fast. Tap k reads the input at

    o * s + k * d - p = s * (o + k * d // s) + (k * d % s) - p

so with the input split into planes by residues modulo the stride s, it reads plane k * d % s shifted by k * d // s.
Patches and outputs get the row length of the planes, and the values beyond the end of an output row are computed and
discarded. A shift along all axes is then one offset into a plane, and each tap is one copy of contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.arrays import threads
from ndgrad._src.arrays.correlation import SCRATCH_BYTES, WORK_PER_THREAD, Array, Axes, Index

_COST = 8  # cost of a multiplication here, in the multiplications that WORK_PER_THREAD counts

Block = tuple[slice, slice]  # slices of samples and of groups


class _Planes:
    """Scratch memory for blocks of one size: the input as planes, and its patches (N, G, taps, length)."""

    def __init__(self, axes: Axes, samples: int, groups: int, dtype: np.dtype[Any]) -> None:
        self.shape = (samples, groups)
        self.sizes, self.taps, self.copies = _geometry(axes)
        self.length = _offset([axis.out - 1 for axis in axes], self.sizes) + 1
        self.inside: Index = tuple(slice(axis.out) for axis in axes)
        strides = [axis.stride for axis in axes]
        self.planes = np.zeros((samples, groups, *strides, *self.sizes), dtype)
        self.flat = self.planes.reshape(samples, groups, prod(strides), prod(self.sizes))
        self.patches = np.empty((samples, groups, len(self.taps), self.length), dtype)

    def fill(self, x: Array) -> None:
        """Copy the values of x (N, G, 1, *S)."""
        for target, source in self.copies:
            self.planes[target] = x[source]
        for tap, (plane, start) in enumerate(self.taps):
            self.patches[:, :, tap] = self.flat[:, :, plane, start : start + self.length]

    def outputs(self, channels: int) -> tuple[Array, Array]:
        """Return zeros in the layout of the planes, as views (N, G, M, *O) and (N, G, M, length)."""
        padded = np.zeros((*self.shape, channels, *self.sizes), self.planes.dtype)
        return padded[(..., *self.inside)], padded.reshape(*self.shape, channels, -1)[..., : self.length]


@lru_cache(maxsize=128)
def _geometry(axes: Axes) -> tuple[tuple[int, ...], list[tuple[int, int]], list[tuple[Index, Index]]]:
    """Return the sizes of a plane, the plane and offset of each tap, and the target and source index of each plane."""
    strides = [axis.stride for axis in axes]
    sizes = tuple(axis.out + (axis.reach - 1) // axis.stride for axis in axes)
    offsets = []
    copies: dict[int, tuple[Index, Index]] = {}
    for taps in product(*(range(axis.taps) for axis in axes)):
        steps = [divmod(tap * axis.dilation, axis.stride) for axis, tap in zip(axes, taps, strict=True)]
        residues = [residue for _, residue in steps]
        plane = _offset(residues, strides)
        offsets.append((plane, _offset([shift for shift, _ in steps], sizes)))
        if plane not in copies:
            reads = [
                axis._replace(before=axis.before - residue, out=size).reads(0)
                for axis, residue, size in zip(axes, residues, sizes, strict=True)
            ]
            target = (slice(None), slice(None), *residues, *(here for here, _ in reads))
            copies[plane] = (target, (slice(None), slice(None), 0, *(there for _, there in reads)))
    return sizes, offsets, list(copies.values())


def _offset(index: Sequence[int], shape: Sequence[int]) -> int:
    """Return the position of an index in row-major order."""
    offset = 0
    for place, size in zip(index, shape, strict=True):
        offset = offset * size + place
    return offset


def _blocks(axes: Axes, x: Array) -> list[Block]:
    batch, groups = x.shape[:2]
    sizes, offsets, _ = _geometry(axes)
    bytes_of_all = groups * len(offsets) * prod(sizes) * x.itemsize
    groups_here = -(-groups // min(groups, -(-bytes_of_all // SCRATCH_BYTES)))
    samples = max(1, min(batch, SCRATCH_BYTES // bytes_of_all))
    return [
        (slice(n, min(n + samples, batch)), slice(start, min(start + groups_here, groups)))
        for n in range(0, batch, samples)
        for start in range(0, groups, groups_here)
    ]


def correlate_depthwise(x: Array, w: Array, axes: Axes, out: Array) -> None:
    """Write the correlation of x (N, G, 1, *S) with w (G, M, 1, *K) to out (N, G, M, *O)."""
    weight = np.ascontiguousarray(w.reshape(*w.shape[:2], -1))  # flipped weights are views that BLAS cannot use

    def worker(blocks: Iterator[Block]) -> None:
        planes = None
        for block in blocks:
            x_part = x[block]
            if planes is None or planes.shape != x_part.shape[:2]:
                planes = _Planes(axes, x_part.shape[0], x_part.shape[1], out.dtype)
                result, flat = planes.outputs(w.shape[1])
            planes.fill(x_part)
            np.matmul(weight[block[1]], planes.patches, out=flat)
            out[block] = result

    work = _COST * out.size * weight.shape[-1]
    threads.share(_blocks(axes, x), worker, threads=work // WORK_PER_THREAD)


def correlate_weight_depthwise(g: Array, x: Array, axes: Axes) -> Array:
    """Return the sum over samples and outputs of g (N, G, M, *O) times the patches of x (N, G, 1, *S): (G, M, 1,
    *K).
    """
    groups, outputs = g.shape[1:3]
    taps = [axis.taps for axis in axes]
    blocks = _blocks(axes, x)
    # Each slice of samples has its own part of the sum. So no two threads add to one element, and their order does not
    # matter.
    starts = sorted({samples.start for samples, _ in blocks})
    totals = np.zeros((len(starts), groups, outputs, prod(taps)), g.dtype)

    def worker(blocks_here: Iterator[Block]) -> None:
        planes = None
        for block in blocks_here:
            x_part = x[block]
            if planes is None or planes.shape != x_part.shape[:2]:
                planes = _Planes(axes, x_part.shape[0], x_part.shape[1], g.dtype)
                g_part, flat = planes.outputs(outputs)
            planes.fill(x_part)
            g_part[...] = g[block]
            products = np.matmul(flat, planes.patches.swapaxes(2, 3))
            totals[starts.index(block[0].start), block[1]] = products.sum(0)

    threads.share(blocks, worker, threads=_COST * g.size * prod(taps) // WORK_PER_THREAD)
    return np.asarray(totals.sum(0)).reshape(groups, outputs, 1, *taps)
