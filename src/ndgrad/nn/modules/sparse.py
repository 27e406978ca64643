"""Embeddings: a learned vector for every number of a vocabulary, and bags of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ndgrad._src.core.grad_mode import no_grad
from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.module import Module, new_parameter
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = ["Embedding", "EmbeddingBag"]


def _padding(padding_idx: int | None, num_embeddings: int) -> int | None:
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise AssertionError(
            f"padding_idx must be within num_embeddings: {padding_idx} is not one of {num_embeddings} rows. [nd-target]"
        )
    return padding_idx % num_embeddings


class _Table(Module):
    """Base class: a table of vectors."""

    weight: Parameter
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool

    def _make_table(self, weight: Tensor | None, freeze: bool, device: Device, dtype: Dtype) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if weight is None:
            self.weight = new_parameter(*shape, device=device, dtype=dtype).requires_grad_(not freeze)
            self.reset_parameters()
            return
        if tuple(weight.shape) != shape:
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim: "
                f"{tuple(weight.shape)} is not {shape}. [nd-shape]"
            )
        self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Fill with normal numbers, and with zeros for the padding."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def _build_from_table(cls, embeddings: Tensor, freeze: bool, **settings: Any) -> Self:
        if embeddings.dim() != 2:
            raise AssertionError(
                f"Embeddings parameter is expected to be 2-dimensional, but has shape {tuple(embeddings.shape)}. "
                "[nd-ndim]"
            )
        rows, columns = embeddings.shape
        made = cls(rows, columns, _weight=embeddings, **settings)
        made.weight.requires_grad = not freeze
        return made

    def _settings_text(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, default in (
            ("padding_idx", None),
            ("max_norm", None),
            ("norm_type", 2),
            ("scale_grad_by_freq", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text + (", sparse=True" if self.sparse else "")


class Embedding(_Table):
    """A table of learned vectors, looked up by index.

    Args:
        num_embeddings: number of rows of the table.
        embedding_dim: length of a row.
        padding_idx: row that starts as zeros and gets no gradient.
        max_norm: largest norm of a row. Longer rows among those that are read are scaled down, in place.
        norm_type: p of the p-norm for `max_norm`.
        scale_grad_by_freq: whether the gradient of a row is divided by the number of times it is read.
        sparse: whether the gradient of the weight is a sparse tensor. See `ndgrad.optim.SparseAdam`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.Embedding(10, 3)(ndgrad.tensor([[1, 2], [4, 5]])).shape
    ndgrad.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _padding(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_table(_weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows at given indices.

        Args:
            input: integer tensor of any shape.

        Returns:
            A tensor of shape (*input.shape, embedding_dim).
        """
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        return self._settings_text()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Create an embedding from a given table.

        Args:
            embeddings: table of shape (num_embeddings, embedding_dim).
            freeze: whether the table gets no gradient.
            padding_idx: row that gets no gradient.
            max_norm: largest norm of a row. Longer rows among those that are read are scaled down, in place.
            norm_type: p of the p-norm for `max_norm`.
            scale_grad_by_freq: whether the gradient of a row is divided by the number of times it is read.
            sparse: whether the gradient of the weight is a sparse tensor. See `ndgrad.optim.SparseAdam`.

        >>> import ndgrad
        >>> layer = ndgrad.nn.Embedding.from_pretrained(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> layer(ndgrad.tensor([1]))
        tensor([[3., 4.]])
        """
        return cls._build_from_table(
            embeddings,
            freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of the vectors of bags of indices.

    Args:
        num_embeddings: number of rows of the table.
        embedding_dim: length of a row.
        max_norm: largest norm of a row. Longer rows among those that are read are scaled down, in place.
        norm_type: p of the p-norm for `max_norm`.
        scale_grad_by_freq: whether the gradient of a row is divided by the number of times it is read.
        mode: `"sum"`, `"mean"` or `"max"`.
        sparse: whether the gradient of the weight is a sparse tensor. See `ndgrad.optim.SparseAdam`.
        include_last_offset: whether `offsets` has one more entry, the end of the last bag.
        padding_idx: index that does not count in its bag and gets no gradient. Its row starts as zeros.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.EmbeddingBag(10, 3)(ndgrad.tensor([[1, 2], [4, 5]])).shape
    ndgrad.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _padding(padding_idx, num_embeddings)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._make_table(_weight, False, device, dtype)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one vector per bag.

        Args:
            input: indices. Bags are the rows of a matrix, or the parts of a vector that start at `offsets`.
            offsets: start of each bag in a vector `input`. The first is 0.
            per_sample_weights: factors of the rows, of the shape of `input`, for the mode `"sum"`.

        Returns:
            A tensor of shape (bags, embedding_dim).
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, default in (("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        text += f", mode={self.mode!r}"
        return text + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Create bags over a given table.

        Args:
            embeddings: table of shape (num_embeddings, embedding_dim).
            freeze: whether the table gets no gradient.
            max_norm: largest norm of a row. Longer rows among those that are read are scaled down, in place.
            norm_type: p of the p-norm for `max_norm`.
            scale_grad_by_freq: whether the gradient of a row is divided by the number of times it is read.
            mode: `"sum"`, `"mean"` or `"max"`.
            sparse: whether the gradient of the weight is a sparse tensor. See `ndgrad.optim.SparseAdam`.
            include_last_offset: whether `offsets` has one more entry, the end of the last bag.
            padding_idx: index that does not count in its bag and gets no gradient.

        >>> import ndgrad
        >>> layer = ndgrad.nn.EmbeddingBag.from_pretrained(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
        >>> layer(ndgrad.tensor([[0, 1]]))
        tensor([[4., 6.]])
        """
        return cls._build_from_table(
            embeddings,
            freeze,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
