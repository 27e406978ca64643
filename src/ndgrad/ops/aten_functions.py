"""torch's forms of calls: ops with the arguments of torch's schemas, as functions of tensors.

Most of torch's schemas are the signatures of public functions and methods. Here are those that differ.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import ndgrad
from ndgrad._src.core.op_observers import InPlaceForm
from ndgrad._src.ops.table import Op
from ndgrad._src.tensor.functions.index import put_at, put_into_copy
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn import functional as F

#: Prefixes of names in torch's schemas, and the namespaces of their functions.
_PREFIXES = {"linalg_": "ndgrad.linalg", "fft_": "ndgrad.fft", "special_": "ndgrad.special"}


def _slice(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    return x[(slice(None),) * (dim % x.dim()) + (slice(start, end, step),)]


def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    n = x.dim() - 2
    if transposed:
        return getattr(F, f"conv_transpose{n}d")(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, f"conv{n}d")(x, weight, bias, stride, padding, dilation, groups)


def _backward_of(forward: Callable[..., Any], inputs: tuple[Any, ...], grad: Tensor, mask: Any) -> tuple[Any, ...]:
    """Return gradients of a function of tensors; None where the mask is False."""
    with ndgrad.enable_grad():
        own = [None if t is None else t.detach().requires_grad_(True) for t in inputs]
        out = forward(*own)
        wanted = [t for t, m in zip(own, mask, strict=True) if m and t is not None]
        found = iter(ndgrad.autograd.grad(out, wanted, grad))
    return tuple([next(found) if m and t is not None else None for t, m in zip(own, mask, strict=True)])


def _convolution_backward(
    grad_output: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: Any,
) -> Any:  # fmt: skip
    bias = None if not output_mask[2] else weight.new_zeros(bias_sizes or [grad_output.shape[1]])
    return _backward_of(
        lambda x, w, b: _convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups),
        (x, weight, bias),
        grad_output,
        output_mask,
    )


def _native_layer_norm(x: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    dims = tuple(range(-len(normalized_shape), 0))
    mean = x.mean(dims, keepdim=True)
    rstd = (x.var(dims, correction=0, keepdim=True) + eps).rsqrt()
    return F.layer_norm(x, list(normalized_shape), weight, bias, eps), mean, rstd


def _native_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    dims = [d for d in range(x.dim()) if d != 1]
    out = F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)
    if not training:
        return out, x.new_empty(0), x.new_empty(0)
    return out, x.mean(dims), (x.var(dims, correction=0) + eps).rsqrt()


def _multiply_and_reduce(x: Tensor, other: Tensor, reduce: str) -> tuple[Any, Any]:
    """Return the product of a csr matrix with a reduction, and the positions of chosen terms: none for sums."""
    if reduce in ("amax", "amin"):
        raise NotImplementedError(
            f"_sparse_mm_reduce_impl: positions for {reduce!r} are not kept. Use ndgrad.sparse.mm. [nd-unsupported]"
        )
    return ndgrad.sparse.mm(x, other, reduce), ndgrad.empty(0, dtype=ndgrad.int64)


def _softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    return ((grad - (grad * output).sum(dim, keepdim=True)) * output).to(input_dtype)


def _log_softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    return (grad - output.exp() * grad.sum(dim, keepdim=True)).to(input_dtype)


def _gelu_backward(grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    return _backward_of(lambda x: F.gelu(x, approximate=approximate), (x,), grad, [True])[0]


def _to_copy(x: Tensor, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **others: Any) -> Tensor:
    if any(v not in (None, False, ndgrad.strided) for v in others.values()):
        raise NotImplementedError(f"_to_copy with {others} [nd-unsupported]")
    return x.to(
        device=device or x.device,
        dtype=dtype or x.dtype,
        copy=True,
        memory_format=memory_format or ndgrad.preserve_format,
    )


def _index(x: Tensor, indices: Any) -> Tensor:
    return x[tuple([slice(None) if i is None else i for i in indices])]


def _index_put(x: Tensor, indices: Any, values: Any, accumulate: bool, in_place: bool) -> Tensor:
    items = tuple([slice(None) if i is None else i for i in indices])
    if not in_place:
        return put_into_copy(x, items, values, accumulate=accumulate)
    put_at(x, items, values, accumulate=accumulate)
    return x


def _embedding(
    weight: Tensor, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx, None, 2.0, scale_grad_by_freq, sparse)


#: Functions whose form is not that of a public function of the same name.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_softmax": lambda x, dim, half_to_float: F.softmax(x, dim),
    "_log_softmax": lambda x, dim, half_to_float: F.log_softmax(x, dim),
    "_pin_memory": lambda x, device=None: x.pin_memory(device),
    "_sparse_addmm": lambda x, mat1, mat2, *, beta=1, alpha=1: ndgrad.sparse.addmm(
        x, mat1, mat2, beta=beta, alpha=alpha
    ),
    "_sparse_mm_reduce_impl": _multiply_and_reduce,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "_unsafe_view": lambda x, size: x.reshape(size),
    "_reshape_alias": lambda x, size, stride: x.reshape(size),
    "_to_copy": _to_copy,
    "cast": _to_copy,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "embedding": _embedding,
    "gelu_backward": _gelu_backward,
    "index": _index,
    "index_put": lambda x, indices, values, accumulate=False: _index_put(x, indices, values, accumulate, False),
    "index_put_": lambda x, indices, values, accumulate=False: _index_put(x, indices, values, accumulate, True),
    "lift_fresh_copy": lambda x: x.clone(),
    "max_pool2d_with_indices": lambda x, *args, **kwargs: F.max_pool2d(x, *args, return_indices=True, **kwargs),
    "native_layer_norm": _native_layer_norm,
    "native_batch_norm": _native_batch_norm,
    "_native_batch_norm_legit_no_training": lambda x, w, b, mean, var, momentum, eps: _native_batch_norm(
        x, w, b, mean, var, False, momentum, eps
    ),
    "batch_norm": lambda x, w, b, mean, var, training, momentum, eps, cudnn_enabled=False: F.batch_norm(
        x, mean, var, w, b, training, momentum, eps
    ),
    "layer_norm": lambda x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True: F.layer_norm(
        x, list(shape), weight, bias, eps
    ),
    "scalar_tensor": lambda s, **options: ndgrad.tensor(s, **options),
    "sigmoid_backward": lambda grad, output: grad * (1 - output) * output,
    "silu_backward": lambda grad, x: grad * x.sigmoid() * (1 + x * (1 - x.sigmoid())),
    "slice": _slice,
    "softmax": lambda x, dim, dtype=None: F.softmax(x, dim, dtype=dtype),
    "log_softmax": lambda x, dim, dtype=None: F.log_softmax(x, dim, dtype=dtype),
    "sym_size": lambda x, dim=None: tuple(x.shape) if dim is None else int(x.shape[dim]),
    "sym_numel": lambda x: math.prod(x.shape),
    "sym_stride": lambda x, dim=None: x.stride() if dim is None else x.stride(dim),
    "sym_storage_offset": lambda x: x.storage_offset(),
    "tanh_backward": lambda grad, output: grad * (1 - output * output),
    "threshold_backward": lambda grad, x, threshold: ndgrad.where(x <= threshold, ndgrad.zeros_like(grad), grad),
    "view": lambda x, size: x.view(size),
    "add": lambda x, other, *, alpha=1: ndgrad.add(x, other, alpha=alpha),
    "sub": lambda x, other, *, alpha=1: ndgrad.sub(x, other, alpha=alpha),
}


def find_function(name: str) -> Callable[..., Any] | None:
    """Return the function of tensors with the arguments of torch's op of a name; None if there is none."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.endswith("_") and not name.startswith("_"):
        return getattr(Tensor, name, None)
    for prefix, namespace in _PREFIXES.items():
        if name.startswith(prefix):
            return getattr(importlib.import_module(namespace), name.removeprefix(prefix), None)
    for home in (ndgrad, Tensor, F, importlib.import_module("ndgrad.special")):
        try:
            found = getattr(home, name)
        except AttributeError:
            continue
        if callable(found) and not isinstance(found, type):
            return found
    return None


def call_in_torch_form(op: Op | InPlaceForm, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an op of the table with the arguments of torch's schema."""
    inner = op.op if isinstance(op, InPlaceForm) else op
    if "self" in kwargs:
        kwargs = dict(kwargs)
        args = (kwargs.pop("self"), *args)
    for name in dict.fromkeys(
        (op.name, inner.aten_name + ("_" if inner is not op else ""), op.name.replace("_all", ""))
    ):
        found = find_function(name)
        if found is not None:
            return found(*args, **kwargs)
    raise TypeError(
        f"{op.name}: its tensors are {', '.join(inner.args)}, and its settings, by name, {', '.join(inner.settings)}. "
        "There is no function with other arguments. [nd-arguments]"
    )
