"""Sequences of different lengths in one tensor: padded to the longest, or packed without padding.

A packed sequence holds, for each step, the elements of all sequences that are still running, the longest first. Packing
and unpacking are one gather each, and so are their gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.data import as_tensor, tensor
from ndgrad._src.tensor.functions.join import cat, stack

if TYPE_CHECKING:
    import numpy.typing as npt

    from ndgrad._typing import Tensor

    #: The lengths of sequences.
    Lengths: TypeAlias = "Tensor | Sequence[int] | npt.NDArray[Any]"

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """The result of `pack_padded_sequence`, for recurrent modules; not to be constructed by hand.

    Args:
        data: elements of all sequences, step by step.
        batch_sizes: number of running sequences at each step.
        sorted_indices: permutation from the given order to decreasing lengths. None means sorted sequences.
        unsorted_indices: inverse of this permutation, computed by default.

    >>> import ndgrad
    >>> from ndgrad.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([ndgrad.tensor([1, 2]), ndgrad.tensor([3])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 3, 2]), tensor([2, 1]))
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            raise ValueError(
                "a PackedSequence needs batch_sizes: how many sequences are running at each step. "
                "Use pack_padded_sequence. [nd-arguments]"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequence with its data converted or moved.

        Args:
            *args, **kwargs: arguments of `Tensor.to`.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return PackedSequence(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def double(self) -> PackedSequence:
        """Return the sequence as float64."""
        return self.to("float64")

    def float(self) -> PackedSequence:
        """Return the sequence as float32."""
        return self.to("float32")

    def half(self) -> PackedSequence:
        """Return the sequence as float16."""
        return self.to("float16")

    def cpu(self) -> PackedSequence:
        """Return the sequence on the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any) -> PackedSequence:
        """Return the sequence on a GPU.

        Args:
            *args: arguments of `Tensor.to`. The default is the current GPU.
        """
        return self.to(*(args or ("cuda",)))

    @property
    def is_cuda(self) -> bool:
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation.

    Args:
        permutation: permutation of 0, 1, ..., or None.

    Returns:
        A tensor, or None for None.

    >>> import ndgrad
    >>> ndgrad.nn.utils.rnn.invert_permutation(ndgrad.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    return tensor(np.argsort(_numbers(permutation), kind="stable"))


def _numbers(t: Lengths) -> npt.NDArray[Any]:
    return t.detach().numpy(force=True) if isinstance(t, Variable) else np.asarray(t)


# ----- packing --------------------------------------------------------------------------------------------------------


def pack_padded_sequence(
    input: Tensor, lengths: Lengths, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded tensor, without the padding.

    Args:
        input: padded tensor of shape (T, N, ...).
        lengths: length of each sequence, at least 1.
        batch_first: whether `input` has shape (N, T, ...).
        enforce_sorted: whether lengths must be decreasing. Otherwise sequences are sorted here, and recurrent modules
            undo the sorting.

    Raises:
        RuntimeError: if a length is 0, too large, or not in order.

    >>> import ndgrad
    >>> padded = ndgrad.tensor([[1, 2], [3, 0]])
    >>> ndgrad.nn.utils.rnn.pack_padded_sequence(padded, [2, 1], batch_first=True).data
    tensor([1, 3, 2])
    """
    counts = _numbers(lengths).astype(np.int64)
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    if counts.ndim != 1 or len(counts) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {counts.size} (batch_size={batch}). [nd-shape]"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
        input = input.index_select(1, tensor(order))
    if np.any(np.diff(counts) > 0):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True, "
            f"but is {counts.tolist()}. Pass enforce_sorted=False to have the sequences sorted. [nd-values]"
        )
    if len(counts) == 0 or counts[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0. "
            "[nd-values]"
        )
    if counts[0] > steps:
        raise RuntimeError(f"pack_padded_sequence: a length of {counts[0]} for an input of {steps} steps. [nd-range]")
    batch_sizes = (counts[None, :] > np.arange(counts[0])[:, None]).sum(1, dtype=np.int64)
    data = input.reshape(steps * batch, *input.shape[2:]).index_select(0, tensor(_rows(batch_sizes, batch)))
    return PackedSequence(data, tensor(batch_sizes), None if order is None else tensor(order))


def _rows(batch_sizes: npt.NDArray[Any], batch: int) -> npt.NDArray[Any]:
    """Return the indices of the packed rows in the padded tensor."""
    return np.concatenate([step * batch + np.arange(n) for step, n in enumerate(batch_sizes)])


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return a packed sequence as a padded tensor, and its lengths.

    Args:
        sequence: packed sequence.
        batch_first: whether the padded tensor is (N, T, ...) instead of (T, N, ...).
        padding_value: value of the padding.
        total_length: size T of the result. The default is the largest length.

    Returns:
        The padded tensor and an integer tensor of lengths, in the order before packing.

    >>> import ndgrad
    >>> from ndgrad.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([ndgrad.tensor([1, 2]), ndgrad.tensor([3])])
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    sizes = _numbers(sequence.batch_sizes)
    steps, batch = len(sizes), int(sizes[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}. [nd-range]"
            )
        steps = total_length
    data = sequence.data
    empty = data.new_full((steps * batch, *data.shape[1:]), padding_value)
    padded = empty.index_copy(0, tensor(_rows(sizes, batch)), data).reshape(steps, batch, *data.shape[1:])
    lengths = tensor((sizes[:, None] > np.arange(batch)[None, :]).sum(0, dtype=np.int64))
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices)
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return tensors of different lengths as one, padded to the longest.

    Args:
        sequences: tensors of shapes (length, ...).
        batch_first: whether the padded tensor is (N, T, ...) instead of (T, N, ...).
        padding_value: value of the padding.
        padding_side: `"right"` for padding at the end, `"left"` for padding at the start.

    >>> import ndgrad
    >>> ndgrad.nn.utils.rnn.pad_sequence([ndgrad.tensor([1, 2]), ndgrad.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if isinstance(sequences, Variable):
        sequences = sequences.unbind(0)
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}. [nd-type]"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence: padding_side must be 'left' or 'right', but is {padding_side!r}. [nd-option]"
        )
    tensors = tuple(sequences)
    if not tensors:
        raise RuntimeError("pad_sequence: received an empty list of sequences. [nd-too-few]")
    longest = max(t.shape[0] for t in tensors)
    padded = []
    for t in tensors:
        missing = longest - t.shape[0]
        padding = t.new_full((missing, *t.shape[1:]), padding_value)
        padded.append(t if not missing else cat((t, padding) if padding_side == "right" else (padding, t)))
    return stack(padded, dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Lengths, batch_first: bool = False) -> list[Tensor]:
    """Return the tensors that were padded.

    Args:
        padded_sequences: tensor of shape (T, N, ...).
        lengths: length of each sequence.
        batch_first: whether the tensor has shape (N, T, ...).

    >>> import ndgrad
    >>> ndgrad.nn.utils.rnn.unpad_sequence(ndgrad.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [t[: int(n)] for t, n in zip(padded_sequences, _numbers(lengths), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return tensors of different lengths as one packed sequence.

    Args:
        sequences: tensors of shapes (length, ...).
        enforce_sorted: whether lengths must be decreasing. Otherwise sequences are sorted here, and recurrent modules
            undo the sorting.

    >>> import ndgrad
    >>> ndgrad.nn.utils.rnn.pack_sequence([ndgrad.tensor([1, 2]), ndgrad.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = as_tensor([t.shape[0] for t in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the tensors that were packed.

    Args:
        packed_sequences: packed sequence.

    >>> import ndgrad
    >>> from ndgrad.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> unpack_sequence(pack_sequence([ndgrad.tensor([1, 2]), ndgrad.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
