"""`ctx`, the first argument of a custom function's methods: declarations by forward, and values for backward.

It wraps the backward node, so user attributes live and die with the graph and cannot collide with attributes that the
engine keeps on the node.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._typing import FunctionNode, Tensor


@set_module("ndgrad.autograd.function")
class FunctionCtx:
    """Declarations that forward can make about the node; `ctx` in the methods of a `Function`.

    >>> import ndgrad
    >>> class Double(ndgrad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.factor = 2.0
    ...         return x * ctx.factor
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * ctx.factor
    >>> Double.apply(ndgrad.ones(1))
    tensor([2.])
    """

    _to_save: tuple[Tensor | None, ...] = ()
    _constants: tuple[Tensor, ...] = ()
    _to_save_forward: tuple[Tensor | None, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _non_differentiable: tuple[Tensor, ...] = ()
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    #: True if backward gets zeros, False if None, for outputs that forward marked as not differentiable.
    _materialize_non_diff_grads = True
    #: Set by forward: an output that is a view of an input may be written in place like any other view.
    _is_pure_view = False

    if TYPE_CHECKING:
        # The node has these at run time. Attributes that forward sets have any type.
        @property
        def saved_tensors(self) -> tuple[Tensor, ...]: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors (or None) for backward. Call it once, with inputs, outputs and other tensors that are needed.

        Args:
            *tensors: tensors, or None.
        """
        for t in tensors:
            if t is not None and not isinstance(t, Variable):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}. "
                    "Set anything else as an attribute: ctx.value = value. [nd-function]"
                )
        self._to_save = tensors

    # Declarations made by forward so far, under torch's names; None before the first, and after forward.

    @property
    def to_save(self) -> tuple[Tensor | None, ...] | None:
        return self.__dict__.get("_to_save")

    @property
    def dirty_tensors(self) -> tuple[Tensor, ...] | None:
        return self.__dict__.get("_dirty")

    @property
    def non_differentiable(self) -> tuple[Tensor, ...] | None:
        return self.__dict__.get("_non_differentiable")

    def save_constants(self, *tensors: Tensor) -> None:
        """Declare that saved tensors, made in forward, do not depend on the inputs (see Note
        [Saved intermediates]).

        Args:
            *tensors: tensors among those of `save_for_backward`.
        """
        self._constants = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`.

        Args:
            *tensors: tensors, or None.
        """
        for t in tensors:
            if t is not None and not isinstance(t, Variable):
                raise AssertionError(
                    f"save_for_forward expects all arguments to be tensors, but one is of type {type(t).__name__}. "
                    "Set anything else as an attribute: ctx.value = value. [nd-function]"
                )
        self._to_save_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare the inputs that forward changed in place; they must be returned.

        Args:
            *tensors: arguments of forward.
        """
        _check_tensors("mark_dirty", tensors)
        self._dirty = tensors

    def mark_shared_storage(self, *pairs: object) -> None:
        """Warn and do nothing: ndgrad detects tensors that share memory.

        Args:
            *pairs: not used.
        """
        warnings.warn(
            (
                "`mark_shared_storage` is deprecated and does nothing: ndgrad detects tensors that "
                "share memory. Remove the call."
            ),
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare the outputs that have no gradient.

        Args:
            *tensors: outputs of forward.
        """
        _check_tensors("mark_non_differentiable", tensors)
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether backward gets zeros (the default) or None for outputs without a gradient.

        Args:
            value: True for zeros, False for None.
        """
        if not isinstance(value, bool):
            raise TypeError(
                f"set_materialize_grads() takes a bool, but got {value!r}. Pass True or False. [nd-function]"
            )
        self.materialize_grads = value


#: torch's messages about arguments that are no tensors, by method.
_EXPECTED = dict.fromkeys(
    ("save_for_backward", "save_for_forward"), "can only save variables, but an argument is of type"
) | dict.fromkeys(("mark_dirty", "mark_non_differentiable"), "only accepts variable arguments, but got")


def _check_tensors(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        if not isinstance(value, Variable):
            raise RuntimeError(f"{name} {_EXPECTED[name]} {type(value).__name__}. Pass tensors. [nd-function]")


if TYPE_CHECKING:
    _ContextBase = FunctionCtx  # a Context forwards everything to a node, which is a FunctionCtx
else:
    _ContextBase = object


@set_module("ndgrad.autograd.function")
class Context(_ContextBase):
    """`ctx`: a node as seen by the user's methods.

    User attributes are kept separate from the engine's, so `ctx.shape = x.shape` does not change the node's own
    shape. Its methods are those of `FunctionCtx`.

    Args:
        node: node of the graph.

    >>> import ndgrad
    >>> isinstance(ndgrad.autograd.function.Context, type)
    True
    """

    __slots__ = ("__weakref__", "_node")
    _node: FunctionNode

    def __init__(self, node: FunctionNode) -> None:
        object.__setattr__(self, "_node", node)

    def __getattr__(self, name: str) -> Any:
        node = self._node
        notes = node.__dict__.get("_notes", ())
        return notes[name] if name in notes else getattr(node, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("materialize_grads", "needs_input_grad", "_materialize_non_diff_grads", "_is_pure_view"):
            setattr(self._node, name, value)
        else:
            self._node.__dict__.setdefault("_notes", {})[name] = value

    def __delattr__(self, name: str) -> None:
        notes = self._node.__dict__.get("_notes", {})
        if name not in notes:
            raise AttributeError(f"{self._node.name()}: ctx has no attribute {name!r} that forward set [nd-function]")
        del notes[name]
