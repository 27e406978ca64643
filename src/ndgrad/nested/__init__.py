"""`torch.nested`: tensors of components that differ in one size.

A nested tensor of shape (B, j1, D) holds B sequences of different lengths without padding; `docs/nested.md` describes
everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import ndgrad
from ndgrad._src.arrays.jagged import Layout, ragged_size
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.foundations import devices
from ndgrad._src.ops.vocabulary import tensor_ops as _ops
from ndgrad._src.tensor.public import publish_namespace
from ndgrad._src.tensor.structured import constant
from ndgrad.nested import attention, functions, kinds, shapes  # noqa: F401  # they fill the tables of handlers
from ndgrad.nested.tensor import HANDLERS, build, is_nested, make_layout
from ndgrad.nested.tensor import NestedTensor as NestedTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Device, Dtype, Number, Tensor
    from ndgrad._typing import Layout as LayoutName

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip


def _check_layout(name: str, layout: LayoutName) -> None:
    if layout not in (None, devices.strided, devices.jagged):
        raise RuntimeError(
            f"{name}(): Specified layout is unsupported for nested tensors: {layout!r}. Use layout=ndgrad.jagged. "
            "[nd-nested]"
        )


def _join(name: str, parts: list[Any]) -> NestedTensor:
    """Return a nested tensor of these components, which keeps their history."""
    if not parts:
        raise RuntimeError(f"{name}(): Cannot construct a nested tensor from an empty tensor list. [nd-nested]")
    sizes = [tuple(p.shape) for p in parts]
    if any(is_nested(p) for p in parts):
        raise RuntimeError(f"{name}(): a component is nested itself. Only one dimension can be ragged. [nd-nested]")
    for what, found in (("dim", {len(s) for s in sizes}), ("dtype", {np_dtype(p) for p in parts})):
        if len(found) > 1:
            names = ", ".join(sorted(str(f) for f in found))
            raise RuntimeError(
                f"{name}(): When constructing a nested tensor, all tensors in list must have the same {what}, but "
                f"there are {names}. Convert them first. [nd-nested]"
            )
    if not sizes[0]:
        raise RuntimeError(
            f"{name}(): Cannot construct a nested tensor from a list of zero-dim tensors. Use stack(). [nd-nested]"
        )
    if len({s[1:] for s in sizes}) > 1:
        raise RuntimeError(
            f"{name}(): Cannot represent given tensor list as a nested tensor with the jagged layout: shapes "
            f"{', '.join(map(str, sizes[:8]))}. Note that the jagged layout only allows for a single ragged dimension, "
            "the first of the components. [nd-nested]"
        )
    values = parts[0].clone() if len(parts) == 1 else _ops.cat(*parts, dim=0)
    return build(values, Layout(ragged_size([s[0] for s in sizes])))


def nested_tensor(
    tensor_list: Sequence[Any] | Tensor,
    *,
    dtype: Dtype = None,
    layout: LayoutName = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """Create a nested tensor, a leaf, from copies of these components: tensors, arrays or lists.

    Args:
        tensor_list: components, which differ only in their first size.
        dtype: dtype of the result. None means that of the components.
        layout: accepted as in torch: strided, jagged or None. The result is always jagged.
        device: device of the result.
        requires_grad: whether autograd records operations on the result.
        pin_memory: accepted as in torch. It has no effect, because NumPy's memory cannot be pinned.

    >>> import ndgrad
    >>> ndgrad.nested.nested_tensor([ndgrad.ones(2, 3), ndgrad.ones(1, 3)], layout=ndgrad.jagged)
    NestedTensor(size=(2, j..., 3), offsets=tensor([0, 2, 3]), contiguous=True)
    """
    _check_layout("nested_tensor", layout)
    parts = [p.detach() if isinstance(p, ndgrad.Tensor) else ndgrad.tensor(p) for p in tensor_list]
    if dtype is not None or device is not None:
        parts = [p.to(dtype=dtype, device=device) for p in parts]
    made: NestedTensor = _join("nested_tensor", parts)
    if requires_grad:
        made.requires_grad_()
    return made


def as_nested_tensor(
    ts: Tensor | Sequence[Tensor], dtype: Dtype = None, device: Device = None, layout: LayoutName = None
) -> NestedTensor:
    """Create a nested tensor from tensors, which get its gradients. A dense tensor counts as its rows.

    Args:
        ts: list or tuple of tensors that differ only in their first size, a dense tensor, or a nested one.
        dtype: dtype of the result. None means that of the tensors.
        device: device of the result.
        layout: accepted as in torch: strided, jagged or None. The result is always jagged.

    >>> import ndgrad
    >>> a = ndgrad.ones(2, requires_grad=True)
    >>> ndgrad.nested.as_nested_tensor([a, ndgrad.zeros(1)], layout=ndgrad.jagged).sum().backward()
    >>> a.grad
    tensor([1., 1.])
    """
    _check_layout("as_nested_tensor", layout)
    if is_nested(ts):
        kept: NestedTensor = ts if dtype is None and device is None else HANDLERS["to"](ts, dtype=dtype, device=device)
        return kept
    if isinstance(ts, ndgrad.Tensor):
        if ts.ndim < 2:
            raise RuntimeError(
                f"as_nested_tensor(): Expected tensor argument to have dim() > 1, but its shape is {tuple(ts.shape)}. "
                "Give one row for each component. [nd-nested]"
            )
        ts = ts.to(dtype=dtype, device=device) if dtype is not None or device is not None else ts
        rows = _ops.reshape(ts, shape=(ts.shape[0] * ts.shape[1], *ts.shape[2:]))
        whole: NestedTensor = build(rows, Layout(ragged_size([ts.shape[1]] * ts.shape[0])))
        return whole
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, ndgrad.Tensor) for t in ts):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors, but got "
            f"{type(ts).__name__}. Use nested_tensor() for lists of numbers. [nd-type]"
        )
    parts = [t.to(dtype=dtype, device=device) for t in ts] if dtype is not None or device is not None else list(ts)
    made: NestedTensor = _join("as_nested_tensor", parts)
    return made


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Create a nested tensor over values: component i is the range `offsets[i]` to `offsets[i + 1]`, or has
    `lengths[i]` rows.

    Args:
        values: rows of all components, one after another.
        offsets: first row of each component, and the end of the last one.
        lengths: number of rows of each component. Together with `offsets`, rows behind them are holes.
        jagged_dim: dimension of the result whose sizes differ. None means 1.
        min_seqlen, max_seqlen: smallest and largest length, which are compared with the actual ones.

    Raises:
        RuntimeError: if neither `offsets` nor `lengths` is given, or they do not fit.

    >>> import ndgrad
    >>> x = ndgrad.nested.nested_tensor_from_jagged(ndgrad.arange(5), ndgrad.tensor([0, 2, 5]))
    >>> x.unbind()
    (tensor([0, 1]), tensor([2, 3, 4]))
    """
    name = "nested_tensor_from_jagged"
    if offsets is None and lengths is None:
        raise RuntimeError(f"{name}(): At least one of offsets or lengths is required. [nd-nested]")
    if not isinstance(values, ndgrad.Tensor) or is_nested(values):
        raise TypeError(f"{name}(): values must be a dense Tensor, but are {type(values).__name__}. [nd-type]")
    arrays = []
    for what, given in (("offsets", offsets), ("lengths", lengths)):
        if given is not None and not isinstance(given, ndgrad.Tensor):
            raise TypeError(
                f"{name}(): argument '{what}' must be Tensor, not {type(given).__name__}. Wrap it with "
                "ndgrad.as_tensor(...). [nd-type]"
            )
        arrays.append(None if given is None else np.array(given.detach()._array))
    found = make_layout(f"{name}()", tuple(values.shape), arrays[0], arrays[1], 1 if jagged_dim is None else jagged_dim)
    for what, known, right in (
        ("min_seqlen", min_seqlen, min(found.size.lengths.tolist(), default=0)),
        ("max_seqlen", max_seqlen, found.size.longest),
    ):
        if known is not None and int(known) != right:
            raise RuntimeError(
                f"{name}(): {what}={known}, and the lengths {found.size.describe()} say {right}. Leave it out. "
                "[nd-nested]"
            )
    made: NestedTensor = build(values, found)
    return made


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: LayoutName = None
) -> NestedTensor:
    """Return a part of each row of a dense tensor: `length[i]` rows of `tensor[i]` from `start[i]` on.

    The result shares the memory of the tensor, with holes.

    Args:
        tensor: dense tensor of shape (B, N, ...).
        dim: dimension to narrow, which must be 1.
        start: first row, for all or for each component.
        length: number of rows, for all or for each component.
        layout: accepted as in torch: strided, jagged or None. The result is always jagged.

    >>> import ndgrad
    >>> x = ndgrad.arange(6).reshape(2, 3)
    >>> ndgrad.nested.narrow(x, 1, ndgrad.tensor([0, 1]), ndgrad.tensor([1, 2]), layout=ndgrad.jagged).unbind()
    (tensor([0]), tensor([4, 5]))
    """
    _check_layout("narrow", layout)
    if tensor.ndim < 2 or dim not in (1, 1 - tensor.ndim):
        raise RuntimeError(
            f"narrow(): jagged layout only supports dim=1, and dim={dim} of shape {tuple(tensor.shape)} was given. "
            "[nd-nested]"
        )
    batch, rows = tensor.shape[0], tensor.shape[1]
    starts, lengths = (
        np.broadcast_to(np.asarray(v.detach()._array if isinstance(v, ndgrad.Tensor) else v, np.int64), (batch,))
        for v in (start, length)
    )
    if (starts < 0).any() or (lengths < 0).any() or (starts + lengths > rows).any():
        raise RuntimeError(
            f"narrow(): starts {starts.tolist()} and lengths {lengths.tolist()} do not lie inside dimension 1 of shape "
            f"{tuple(tensor.shape)}. Each start + length is at most {rows}. [nd-nested]"
        )
    begins = np.arange(batch) * rows + starts
    ends = begins + lengths
    values = _ops.reshape(tensor, shape=(batch * rows, *tensor.shape[2:]))
    if batch and np.array_equal(begins[1:], ends[:-1]):  # adjacent, without holes
        values = _ops.slice(values, dim=0, start=int(begins[0]), stop=int(ends[-1]), step=1)
        packed: NestedTensor = build(values, Layout(ragged_size(lengths)))
        return packed
    offsets = np.append(begins, ends[-1:])
    made: NestedTensor = build(values, make_layout("narrow()", tuple(values.shape), offsets, lengths, 1))
    return made


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """Return the elements of each row selected by a mask, as a nested tensor.

    Args:
        tensor: dense tensor, whose lines along the last dimension become components.
        mask: tensor of dtype bool that broadcasts to the shape of `tensor`.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ndgrad.nested.masked_select(x, x > 1.5).unbind()
    (tensor([2.]), tensor([3., 4.]))
    """
    if np_dtype(mask).kind != "b":
        raise RuntimeError(
            f"masked_select: expected BoolTensor for mask, but it is {mask.dtype!r}. Compare first. [nd-dtype]"
        )
    if tensor.ndim < 1:
        raise RuntimeError("masked_select: a tensor without dimensions has no rows. Use where(). [nd-nested]")
    full = np.broadcast_to(np.asarray(mask.detach()._array), tuple(tensor.shape))
    lengths = full.reshape(-1, full.shape[-1]).sum(axis=1)
    values = _ops.index(tensor, *(constant(i) for i in np.nonzero(full)))
    made: NestedTensor = build(values, Layout(ragged_size(lengths)))
    return made


def to_padded_tensor(input: Tensor, padding: Number, output_size: Sequence[int] | None = None) -> Tensor:
    """Return a dense tensor of all components, padded with `padding` to the longest, or to `output_size`.

    Args:
        input: nested tensor.
        padding: value of missing elements.
        output_size: shape of the result. None means the longest component.

    >>> import ndgrad
    >>> ndgrad.nested.to_padded_tensor(ndgrad.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=ndgrad.jagged), 0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    return input.to_padded_tensor(padding, output_size)


for _name in __all__:
    HANDLERS[f"nested_{_name}"] = globals()[_name]
publish_namespace(globals())
