"""Random numbers of spread tensors: the same as in one process.

Every rank draws for the whole tensor and keeps its piece, so results do not depend on how a tensor is spread, nor on
the number of ranks. All ranks need generators in the same state; they check this before they draw. An op whose draws
depend on values (`poisson`, `standard_gamma`) would need the values of other ranks, and has no rule.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from ndgrad._src.arrays.generator import Generator, default_generator
from ndgrad._src.arrays.host_draws import HostSource
from ndgrad._src.ops.random import source_of
from ndgrad._src.ops.table import Op
from ndgrad.distributed.agreement import Call, Pending
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.errors import DistBackendError
from ndgrad.distributed.tensor.signatures import Labels, Shape, Signature, elementwise, signature_rule


class Piece:
    """This rank's part of a result: the shape of the whole, and the start and end of the part in each dimension."""

    __slots__ = ("bounds", "ndim")

    def __init__(self, ndim: int, bounds: dict[int, tuple[int, int, int]]) -> None:
        self.ndim, self.bounds = ndim, bounds

    def whole(self, shape: Shape) -> tuple[Shape, tuple[slice, ...]]:
        """Return the shape of the whole, and the index of the piece in it, for draws in the shape of a piece. Complex
        numbers have one more dimension, for their two parts.
        """
        full, index = list(shape), [slice(None)] * len(shape)
        for dim, (start, stop, length) in self.bounds.items():
            full[dim], index[dim] = length, slice(start, stop)
        return tuple(full), tuple(index)


class _PieceSource(HostSource):
    """Numbers of a generator that draws for the whole and returns a piece."""

    __slots__ = ("_piece",)

    #: A piece may lie in memory in another order than the whole does in one process.
    ignores_layout = True

    def __init__(self, generator: Generator, piece: Piece) -> None:
        super().__init__(generator)
        self._piece = piece

    def words(self, shape: Any) -> Any:
        whole, index = self._piece.whole(shape)
        return super().words(whole)[index]

    def word_pairs(self, shape: Any) -> Any:
        whole, index = self._piece.whole(shape)
        return super().word_pairs(whole)[index]

    def normal(self, shape: Any, dtype: Any, mean: float, std: float, contiguous: bool = True) -> Any:
        whole, index = self._piece.whole(shape)
        return HostSource(self.generator).normal(whole, dtype, mean, std, contiguous)[index]

    def serial_normal(self, shape: Any) -> Any:
        whole, index = self._piece.whole(shape)
        return HostSource(self.generator).serial_normal(whole)[index]

    def permutation(self, shape: Any) -> Any:
        whole, index = self._piece.whole(shape)
        return HostSource(self.generator).permutation(whole)[index]


class PieceGenerator:
    """Replacement of a generator: ops that draw from it get this rank's piece."""

    def __init__(self, generator: Any, piece: Piece) -> None:
        # Numbers are drawn on the host; a GPU generator raises an error.
        self.source, self.device = _PieceSource(source_of(generator).generator, piece), default_generator.device


def agree_on_state(op: Op, mesh: DeviceMesh, generator: Any) -> None:
    """Raise on every rank unless all have the generator in the same state."""
    found = default_generator if generator is None else generator
    state = zlib.crc32(found._packed_state())
    for dim in range(mesh.ndim):
        group = mesh.get_group(dim)
        if group.size() == 1:
            continue
        try:
            Pending(group, Call(f"{op.name} with a generator", (), "", f"state {state:08x}"), (), None, ()).wait()
        except DistBackendError as error:
            raise DistBackendError(
                f"{op.name} of a DTensor: the ranks' random numbers would differ, since their generators are not in "
                f"the same state ({error}) Call ndgrad.manual_seed(seed) with one seed on all ranks, and draw the same "
                "on all of them; use a Generator of its own for what differs. [nd-peer]"
            ) from None


@signature_rule(
    "uniform", "normal", "log_normal", "exponential", "cauchy", "geometric", "random", "bernoulli_scalar", "bernoulli",
    "normal_tensor", "normal_mean", "normal_std", "bernoulli_tensor",
)  # fmt: skip
def _every_element(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature:
    made = elementwise(op, shapes)
    made.draws = True
    return made


@signature_rule("permutation", "multinomial")
def _lines(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature:
    (shape,) = shapes
    assert shape is not None
    labels: Labels = (*range(len(shape) - 1), None)
    made = Signature([labels], labels)
    made.draws = True
    return made
