"""Rules of the op `implicit`, and the rule of a whole batch.

A rule gets the value, the parameters and the cotangent or tangents as tensors of any kind (plain, recorded, of a
transform's level). It computes with ops and transforms, and so is itself differentiable: this gives second and higher
orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.modes import restore, scope
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.ops.implicit import implicit
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad._src.transforms.transforms import vmap

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tensors = Sequence[Any]


class Rule:
    """Derivative of a solution, computed from the solution."""

    def value(self, x: NDArray[Any], *params: Any) -> NDArray[Any]:
        """Return the op's result on arrays (with batches in front): the solution, which was computed before the op is
        called.
        """
        return x.copy()

    def pull(self, out: Tensor, params: Tensors, g: Tensor, needs: Sequence[bool]) -> Tensors:
        """Return cotangents of the parameters (None if not needed) for the cotangent `g` of the solution."""
        raise NotImplementedError

    def pull_arrays(self, out: NDArray[Any], params: Tensors, g: NDArray[Any], needs: Sequence[bool]) -> Tensors:
        """Same as `pull` for an ordinary backward, on arrays."""
        # Recording is on for plain tensors, for which nothing is recorded. A graph in the result shows that the rule
        # used a tensor which it does not know, and whose gradient would be lost.
        outside = scope()
        try:
            restore(outside.recording(True))
            grads = self.pull(wrap(Tensor, out), tuple(wrap(Tensor, p) for p in params), wrap(Tensor, g), needs)
        finally:
            restore(outside)
            del outside
        for t in grads:
            if t is not None and (t._node is not None or isinstance(t._array, Variable)):
                raise RuntimeError(
                    "a function that was solved uses a tensor now, while derivatives are computed, that it did not use "
                    "while it was solved, so the gradient of that tensor would be lost. Pass it through args=(...). "
                    "[nd-drops-gradient]"
                )
        return tuple(None if t is None else t._array for t in grads)

    def push(self, out: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
        """Return the tangent of the solution for tangents (None for zero) of the parameters."""
        raise NotImplementedError

    def batched(self, batched: Sequence[bool], size: int) -> Rule:
        """Return the rule of a batch of solutions, with some parameters batched too."""
        return BatchedRule(self, batched)


class BatchedRule(Rule):
    """A rule for every sample: the inner rule under vmap, so that its computation runs for the whole batch at once."""

    def __init__(self, inner: Rule, batched: Sequence[bool]) -> None:
        self.inner = inner
        self.dims = tuple(0 if b else None for b in batched)

    def value(self, x: NDArray[Any], *params: Any) -> NDArray[Any]:
        return self.inner.value(x, *(p if d == 0 else p[None] for p, d in zip(params, self.dims, strict=True)))

    def pull(self, out: Tensor, params: Tensors, g: Tensor, needs: Sequence[bool]) -> Tensors:
        if not any(needs):
            return (None,) * len(needs)

        def one(out: Tensor, g: Tensor, *params: Any) -> tuple[Tensor, ...]:
            return tuple(t for t in self.inner.pull(out, params, g, needs) if t is not None)

        found = list(vmap(one, (0, 0, *self.dims))(out, g, *params))
        # All samples share an unbatched parameter, so its cotangents add up.
        return tuple(
            None if not need else found.pop(0) if dim == 0 else tensor_ops.sum(found.pop(0), dim=(0,), keepdim=False)
            for need, dim in zip(needs, self.dims, strict=True)
        )

    def push(self, out: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
        moving = [i for i, t in enumerate(tangents) if t is not None]
        dims = (0, *self.dims, *(self.dims[i] for i in moving))

        def one(out: Tensor, *rest: Any) -> Tensor:
            params, given = rest[: len(params_all)], iter(rest[len(params_all) :])
            return self.inner.push(
                out, params, tuple(next(given) if i in moving else None for i in range(len(params_all)))
            )

        params_all = tuple(params)
        return vmap(one, dims)(out, *params_all, *(tangents[i] for i in moving))


def replace_some(params: Tensors, places: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """Return the parameters with some of them replaced."""
    out = list(params)
    for i, v in zip(places, values, strict=True):
        out[i] = v
    return out


def attach(solution: Tensor, params: Tensors, rule: Rule) -> Tensor:
    """Return the solution (a constant) as a differentiable function of the parameters."""
    return implicit(solution, *params, rule=rule)


__all__ = ["BatchedRule", "Rule", "attach", "replace_some"]
