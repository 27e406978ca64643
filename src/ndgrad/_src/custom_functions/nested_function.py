"""Custom functions of nested structures: dicts, lists and tuples of tensors as arguments and results.

A Function takes and returns tensors side by side. Here structures are flattened on the way in and rebuilt on the
way out. Backward receives and returns structures of the same form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.custom_functions.function import Function
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from ndgrad._typing import FunctionNode


@set_module("ndgrad.autograd")
class NestedIOFunction(Function):
    """A Function whose arguments and results are nested structures.

    Define `forward_extended(ctx, *args)` and `backward_extended(ctx, *grads)`. Backward gets the gradients in the
    structure of the results. It returns a tuple with one entry per argument: the argument's structure with gradients
    (or None) as leaves, or None for a whole argument.

    >>> import ndgrad
    >>> class Scaled(ndgrad.autograd.function.NestedIOFunction):
    ...     @staticmethod
    ...     def forward_extended(ctx, parts, scale):
    ...         ctx.scale = scale
    ...         return {"sum": (parts["a"] + parts["b"]) * scale}
    ...     @staticmethod
    ...     def backward_extended(ctx, grads):
    ...         g = grads["sum"] * ctx.scale
    ...         return {"a": g, "b": g}, None
    >>> a, b = ndgrad.ones(2, requires_grad=True), ndgrad.ones(2, requires_grad=True)
    >>> Scaled.apply({"a": a, "b": b}, 3.0)["sum"].sum().backward()
    >>> a.grad
    tensor([3., 3.])
    """

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward_extended on nested arguments, and record it as one node.

        Args:
            *args: nested structures of tensors and other values.
            **kwargs: refused: arguments are positional.

        Returns:
            The result of `forward_extended`, with its structure.

        Raises:
            TypeError: if keyword arguments are given.
        """
        if kwargs:
            raise TypeError(
                f"{cls.__name__}.apply() takes positional arguments only, but got {', '.join(kwargs)}. "
                "Put them in order. [nd-function]"
            )
        leaves, spec = tree_flatten(args)
        shapes: list[Any] = []
        results = super().apply(spec, shapes, *leaves)
        return tree_unflatten(results, shapes[0])

    @staticmethod
    def forward(ctx: Any, spec: Any, shapes: list[Any], *leaves: Any) -> Any:
        """Run forward_extended on flat arguments. `apply` calls it.

        Args:
            ctx: context.
            spec: structure of the arguments.
            shapes: list that receives the structure of the result.
            *leaves: leaves of the arguments.
        """
        out = ctx.function.forward_extended(ctx, *tree_unflatten(leaves, spec))
        results, ctx._nested_result = tree_flatten(out)
        ctx._nested_input = spec
        shapes.append(ctx._nested_result)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run backward_extended on flat gradients. The engine calls it.

        Args:
            ctx: context with the saved values.
            *grads: gradient of each leaf of the result.
        """
        function = ctx.function
        made = function.backward_extended(ctx, tree_unflatten(grads, ctx._nested_result))
        made = made if isinstance(made, tuple) else (made,)
        specs = ctx._nested_input.children_specs
        if len(made) != len(specs):
            raise RuntimeError(
                f"{function.__name__}.backward_extended returned {len(made)} gradients for {len(specs)} arguments. "
                "Return one per argument, each of its argument's structure, or None. [nd-function]"
            )
        flat: list[Any] = []
        for spec, g in zip(specs, made, strict=True):
            flat += [None] * spec.num_leaves if g is None else spec.flatten_up_to(g)
        return None, None, *flat

    @staticmethod
    def forward_extended(ctx: FunctionNode, *args: Any, **options: Any) -> Any:
        """Compute the result. To be overridden.

        Args:
            ctx: context, in which values for backward are saved.
            *args: arguments of `apply`, with their structure.
            **options: none. An override may have parameters of its own.
        """
        raise NotImplementedError("A NestedIOFunction needs a forward_extended(ctx, *args). [nd-function]")

    @staticmethod
    def backward_extended(ctx: FunctionNode, *grads: Any, **options: Any) -> Any:
        """Return one gradient (or None) per argument, with its structure. To be overridden.

        Args:
            ctx: context with the saved values.
            *grads: gradients with the structure of the result.
            **options: none. An override may have parameters of its own.
        """
        raise NotImplementedError(
            "A NestedIOFunction needs a backward_extended(ctx, *grads) to be used with backward. [nd-function]"
        )
