"""Shape ops: views of the same memory wherever NumPy can make one. Dims are non-negative."""

from __future__ import annotations

from typing import Any

from ndgrad.ops.table import NOT_DIFFERENTIABLE, op

alias = op(
    "alias", "x",
    lambda np, x: x[...],
    vjp={"x": lambda g: g},
    jvp="linear",
    batch="leading",
    view=True,
)  # fmt: skip

detach = op(
    "detach", "x",
    lambda np, x: x,
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    shares_storage=True,
)  # fmt: skip

reshape = op(
    "reshape", "x",
    lambda np, x, *, shape: x.reshape(shape),
    settings={"shape": ()},
    vjp={"x": lambda g, x_shape, ops: ops.reshape(g, shape=x_shape)},
    jvp="linear",
    batch=lambda x, shape, ops: ops.reshape(x, shape=(x.shape[0], *shape)),
    view=True,
    backward_name="ViewBackward0",
)  # fmt: skip

expand = op(
    "expand", "x",
    lambda np, x, *, shape: np.broadcast_to(x, shape),
    settings={"shape": ()},
    vjp={"x": lambda g, x_shape, ops: sum_to(g, x_shape, ops)},
    jvp="linear",
    batch=lambda x, shape, ops: ops.expand(_pad_rank(x, len(shape) + 1, ops), shape=(x.shape[0], *shape)),
    view=True,
)  # fmt: skip


def _pad_rank(x: Any, ndim: int, ops: Any) -> Any:
    """Insert dimensions of size one behind the batch dimension."""
    missing = ndim - len(x.shape)
    return ops.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:])) if missing else x


def sum_to(g: Any, shape: tuple[int, ...], ops: Any) -> Any:
    """The transpose of broadcasting `shape` to g's shape."""
    lead = len(g.shape) - len(shape)
    dims = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1)
    return ops.reshape(ops.sum(g, dim=dims, keepdim=False), shape=shape) if dims else g


permute = op(
    "permute", "x",
    lambda np, x, *, dims: x.transpose(dims),
    settings={"dims": ()},
    vjp={"x": lambda g, dims, ops: ops.permute(g, dims=inverse_permutation(dims))},
    jvp="linear",
    batch=lambda x, dims, ops: ops.permute(x, dims=(0, *(d + 1 for d in dims))),
    view=True,
)  # fmt: skip


def inverse_permutation(dims: tuple[int, ...]) -> tuple[int, ...]:
    out = [0] * len(dims)
    for i, d in enumerate(dims):
        out[d] = i
    return tuple(out)
