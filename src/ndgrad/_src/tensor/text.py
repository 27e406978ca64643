"""Text of a tensor for `repr` and `print`: torch's text with autograd's additions."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ndgrad._src.arrays import dtypes
from ndgrad._src.core.variable import Variable, np_dtype, own_level
from ndgrad._src.core.view import tangents_of
from ndgrad._src.tensor.printing import format_tensor

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def tensor_text(t: Tensor) -> str:
    """Return the text of a tensor; inside a transform, the wrapper's text around that of its payload.

    >>> import ndgrad
    >>> tensor_text(ndgrad.tensor([1.0, 2.0], requires_grad=True))
    'tensor([1., 2.], requires_grad=True)'
    """
    if isinstance(t._array, Variable):
        batched = t._meta is not None and t._meta.batch_level
        head = (
            f"BatchedTensor(lvl={own_level(t)}, bdim=0, value="
            if batched
            else f"GradTrackingTensor(lvl={own_level(t)}, value="
        )
        return f"{head}\n{textwrap.indent(repr(t._array), '    ')}\n)"
    array = t._array
    if not hasattr(array, "flags"):
        array = array[...]
    dtype = dtypes.as_dtype(np_dtype(t))
    name, extra = "tensor", []
    has_names = t._meta is not None and t._meta.names is not None
    if t.__class__ is not t.tensor_type and not has_names:
        name = t.__class__.__name__
    if t._meta is not None:
        extra += [f"tangent={tangent!r}" for _, tangent in sorted((tangents_of(t) or {}).items())]
        if has_names:
            extra.append(f"names={t._meta.names}")
    return format_tensor(
        array,
        default_dtype=dtypes.get_default_dtype().numpy,
        dtype_name=repr(dtype),
        requires_grad=t.requires_grad if t._node is None else True,
        grad_fn_name=_history(t),
        device=t.device,
        extra=extra,
        name=name,
    )


def _history(t: Tensor) -> str | None:
    try:
        node = t.grad_fn
    except RuntimeError:
        return "Invalid"  # The base of this view was written in a way that cannot be differentiated.
    return None if node is None else str(node.name())
