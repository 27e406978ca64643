"""Ops of torch that are no public functions: the kernels of softmax, and gradients of functions as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ndgrad
from ndgrad._src.tensor.private_functions import _softmax_backward_data as _softmax_backward_data

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def _pull_back(function: Callable[..., Tensor], grad_output: Tensor, *args: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of a function of tensors."""
    found: tuple[Tensor, ...] = ndgrad.func.vjp(function, *args)[1](grad_output)
    return found


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Return softmax along a dimension; in float32 if `half_to_float`."""
    return ndgrad.softmax(self, dim, dtype=ndgrad.float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Return the logarithm of softmax along a dimension; in float32 if `half_to_float`."""
    return ndgrad.log_softmax(self, dim, dtype=ndgrad.float32 if half_to_float else None)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """Return the gradient of log_softmax from its result."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def silu_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """Return the gradient of silu."""
    return _pull_back(ndgrad.nn.functional.silu, grad_output, self)[0]


def gelu_backward(grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    """Return the gradient of gelu."""
    return _pull_back(lambda x: ndgrad.nn.functional.gelu(x, approximate=approximate), grad_output, self)[0]


def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """Return the gradient of sigmoid from its result."""
    return grad_output * (output * (1 - output)).conj()


def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """Return the gradient of tanh from its result."""
    return grad_output * (1 - output * output).conj()


def threshold_backward(grad_output: Tensor, self: Tensor, threshold: float) -> Tensor:
    """Return the gradient of threshold, and of relu: the part where the input is above it."""
    return ndgrad.where(self <= threshold, 0, grad_output)


def convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of a convolution for input, weight and bias, None for those that the mask leaves out."""

    def convolve(x: Tensor, w: Tensor) -> Tensor:
        return ndgrad.convolution(
            x, w, None, list(stride), list(padding), list(dilation), transposed, list(output_padding), groups
        )

    grads: list[Any] = [*_pull_back(convolve, grad_output, input, weight), None]
    if output_mask[2]:
        grads[2] = grad_output.sum([d for d in range(grad_output.dim()) if d != 1])
        grads[2] = grads[2] if bias_sizes is None else grads[2].reshape(tuple(bias_sizes))
    return tuple(g if wanted else None for g, wanted in zip(grads, output_mask, strict=True))


def _sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return `beta * self + alpha * (mat1 @ mat2)`, for a sparse `mat1`."""
    return ndgrad.sparse.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _sparse_mm_reduce_impl(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    """Return the product of a csr matrix with a reduction other than a sum, and the positions of largest or smallest
    terms, which are empty for other reductions.
    """
    if reduce in ("amax", "amin"):
        raise NotImplementedError(
            f"_sparse_mm_reduce_impl: positions for {reduce!r} are not kept. Use ndgrad.sparse.mm. [nd-unsupported]"
        )
    return ndgrad.sparse.mm(self, other, reduce), ndgrad.empty(0, dtype=ndgrad.int64)
