"""The bare tensor: an array plus autograd metadata that costs nothing until needed.

A tensor has four slots. `_array` holds the payload: an ndarray, a NumPy scalar (the ufunc result for 0-d, converted to
a 0-d array when its memory is needed), or a lower-level tensor inside a function transform. `_node` is the backward
node of a result, None for leaves and constants. `_storage` is shared by all tensors over the same memory and carries
the version; None means version 0, never viewed. `_meta` holds all rare metadata.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.node import FIRST, GENERAL, Edge, Node
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Storage, Tensor, ViewInfo


T = TypeVar("T", bound="Tensor")


class Meta:
    """The rare part of a tensor's metadata.

    Views, leaves and results of multi-output ops have a Meta, so making one must be cheap. Fields that the eager path
    reads are slots. The others are class attributes until they are set on an instance.
    """

    __slots__ = ("__dict__", "accumulator", "batch_level", "level", "output_nr", "requires_grad", "tangents", "view")

    #: Accumulated gradient of a leaf or of a tensor that retains its gradient.
    grad: Any = None
    #: Dtype of the accumulated gradient; None: the tensor's own dtype, "any": the dtype that arrives.
    grad_dtype: Any = None
    #: Hooks from `register_hook`, by registration number.
    hooks: dict[int, Any] | None = None
    #: Hooks from `register_post_accumulate_grad_hook`, by registration number.
    post_accumulate_hooks: dict[int, Any] | None = None
    #: True after `retain_grad` on a non-leaf.
    retains_grad = False
    #: Names of the dimensions.
    names: tuple[str | None, ...] | None = None
    #: Number of in-place changes of the tensor's own shape.
    geometry = 0
    #: In-place shape changes of a leaf, in order: (weak reference to the accumulator for the old shape, op, settings).
    reshapes: tuple[tuple[weakref.ref[Node] | None, Any, dict[str, Any]], ...] = ()
    #: Number of the innermost transform level that was open at creation.
    made_in = 0
    #: For a leaf's tangent-free copy: keeps the original leaf's accumulator alive.
    leaf_accumulator: Any = None
    #: For a stand-in of a view with unknown base: the path of view ops from that base.
    path: Any = None
    #: For a part that an index picks per vmap sample: the source of the part (see ndgrad._src.core.batched_parts).
    picked: Any = None
    #: For a 0-d Array that is an array in NumPy, not a scalar: indexing with it copies.
    indexes_as_array = False
    #: For a functionalize tensor made over a plain ndarray: that array, which receives the writes.
    lent: Any = None
    #: Origin of the value, in debug mode (see ndgrad._src.debug.provenance).
    provenance: Any = None

    def __init__(self) -> None:
        #: The `requires_grad` flag of a leaf; a result requires grad if it has a node.
        self.requires_grad = False
        #: Weak reference to the gradient accumulator of a leaf.
        self.accumulator: weakref.ref[Node] | None = None
        #: Position of the tensor among the outputs of its node.
        self.output_nr = 0
        #: Base, path and version of a view.
        self.view: ViewInfo | None = None
        #: Forward-mode tangents by dual level.
        self.tangents: dict[int, Any] | None = None
        #: Transform level of a tensor without a node: a leaf, a constant view, a functionalize value.
        self.level = 0
        #: vmap level of a batched tensor; dimension 0 of its payload is the batch.
        self.batch_level = 0


class BareTensor:
    """Base class with the four slots that the eager path uses; `ndgrad.Tensor` adds the methods."""

    __slots__ = ("__dict__", "__weakref__", "_array", "_meta", "_node", "_storage")

    if TYPE_CHECKING:  # `typing.get_type_hints` of a user's class could not resolve these
        _array: Any
        _node: Node | None
        _storage: Storage | None
        _meta: Meta | None

    #: Hook of classes that keep values and graph in other tensors: (op, args, settings) -> result.
    #: Dispatch calls it instead of the op if an argument is of such a class.
    run_op: Any = None
    #: Hook of the same classes: (function that makes a tensor like a given tensor, shape) -> a tensor like this one.
    made_alike: Any = None
    #: Hook of the same classes: (NumPy array) -> a constant tensor that can be used beside this one.
    constant_alike: Any = None
    #: Hook of the same classes: () -> the tensor whose graph is that of this tensor.
    graph_twin: Any = None
    #: Hook of the same classes: (gradient of this tensor, or None) -> gradient of its twin.
    to_twin_gradient: Any = None
    #: Hook of the same classes: (gradient of the twin) -> gradient of this tensor.
    from_twin_gradient: Any = None
    #: Hook of the same classes: (op, other arguments, settings) -> this tensor, set to the result of the op.
    take_result: Any = None
    #: Hook of the same classes: (tensor of the same shape) -> this tensor, with its values, for `out=`.
    take_whole: Any = None
    #: Hook of the same classes: () -> the values for value checks (ndgrad.storage.checkable).
    checked_values: Any = None


if TYPE_CHECKING:
    # BareTensor is only instantiated through Tensor, so every Variable has a Tensor's attributes.
    Variable: TypeAlias = Tensor
else:
    Variable = BareTensor


new = object.__new__


def wrap(tensor_type: type[T], array: Payload) -> T:
    """Return a constant of tensor class `tensor_type` over `array`."""
    t = new(tensor_type)
    t._array = array
    t._node = None
    t._storage = None
    t._meta = None
    return t


def twin(t: T) -> T:
    """Return another tensor over the same values, without history. A subclass keeps its attributes."""
    if t.tensor_type is t.__class__:
        other: T = wrap(t.__class__, t._array)
        if t._meta is not None and t._meta.batch_level:
            meta_of(other).batch_level = t._meta.batch_level
        return other
    from ndgrad._src.core.subclass import unshare  # subclass imports this module

    return unshare(t, (t,))  # type: ignore[return-value]  # of the same class


def meta_of(t: Variable) -> Meta:
    """Return the metadata of a tensor, made on first use."""
    meta: Meta | None = t._meta
    if meta is None:
        meta = t._meta = Meta()
    return meta


def own_level(t: Variable) -> int:
    """Return the number of a tensor's transform level, 0 for an ordinary tensor.

    For a view this is the level at its last refresh; `level_number` of ndgrad._src.interpreters.levels refreshes it.
    """
    meta, node = t._meta, t._node
    if meta is not None:
        if meta.batch_level:
            return int(meta.batch_level)
        if node is None:
            return int(meta.level)
    return 0 if node is None else node.level


def requires_grad(t: Variable) -> bool:
    """True if a gradient of `t` can be computed."""
    meta = t._meta
    if meta is None:
        return t._node is not None
    # A view with outdated history requires grad if its base does. This answer needs no new history.
    return (
        t._node is not None
        or meta.requires_grad
        or (meta.view is not None and meta.view.is_stale(t) and requires_grad(meta.view.base))
    )


def find_recorded(t: Variable) -> Variable:
    """Return the tensor that carries the history of `t`.

    This is `t` itself, except inside functionalize: there the value that `t` holds now carries the history.
    """
    while isinstance(t._array, Variable) and t._node is None and t._meta is not None:
        number = t._meta.level
        if not any(level.number == number and level.kind == "functional" for level in thread.levels):
            break
        t = t._array
    return t


ESCAPED = (
    "a tensor made inside a function transform (grad, vjp, jvp, vmap) was used after the transform had ended. "
    "Return it from the transformed function instead of keeping it. [nd-escaped]"
)


def edge(t: Any) -> Node | Edge | None:
    """Return the gradient edge of a tensor: the destination of gradients from uses of `t`; None if it requires none."""
    meta = t._meta
    node: Node | None
    if meta is None:
        node = t._node
        return node
    view = meta.view
    if view is not None and view.version != t._storage.version.number:
        view.refresh(t)
    node = t._node
    if node is not None:
        return node if node.outputs == 1 else Edge(node, meta.output_nr)
    if not meta.requires_grad:
        if meta.batch_level and not process.busy:
            raise RuntimeError(ESCAPED)
        return None
    ref = meta.accumulator
    return (ref and ref()) or accumulator(t)


# ----- gradient accumulators ---------------------------------------------------------------------------------------

# Gradients of one leaf may arrive from several threads. Leaves have no lock object of their own: a fixed set of locks
# is indexed by identity. The locks are reentrant, because a finalizer run by the garbage collector may start a
# backward pass while its thread holds a lock.
_LOCKS = tuple(make_lock() for _ in range(61))


def lock_of(t: Variable) -> threading.RLock:
    """Return the lock that protects a leaf's `.grad` and accumulator."""
    return _LOCKS[(id(t) >> 4) % len(_LOCKS)]


class AccumulateGrad(Node):
    """The end of the graph at a leaf. The leaf holds it weakly and graphs strongly; it keeps the leaf alive.

    It has no `apply`: the engine passes raw gradients to `accumulate_array`, which checks their reference counts.
    """

    __slots__ = ("variable",)
    variable: Any

    def release(self) -> None:
        """Do nothing: a leaf's accumulator outlives backward passes."""

    def apply_tensors(self, grads: Variable | None) -> tuple[Any, ...]:
        registry.accumulate.accumulate_tensor(self, grads)
        return ()


class LevelAccumulator(AccumulateGrad):
    """Accumulator of a leaf of a grad transform. Its gradient is captured, never accumulated."""

    __slots__ = ("level",)
    level: int


def accumulator(t: Any) -> AccumulateGrad:
    """Return the accumulator of a leaf that requires grad; make a new one if no graph holds it any more.

    A leaf never has more than one: threads that build graphs on one leaf must agree on the destination of its gradient.
    The first op on a leaf of every graph calls this function, so only the exchange is done under the lock.
    """
    meta: Meta = t._meta
    made = AccumulateGrad()
    if meta.level:
        made = inner = LevelAccumulator()
        inner.level = meta.level
    array = t._array
    plain = (array.__class__ is np.ndarray or is_on_device(array)) and not meta.batch_level
    made.seq = FIRST
    made.next = ()
    made.shape = array.shape if plain else tuple(t.shape)
    wanted = meta.grad_dtype  # None: the tensor's own dtype; "any": the dtype that arrives
    made.dtype = (array.dtype if plain else np_dtype(t)) if wanted is None else None if wanted == "any" else wanted
    made.route = GENERAL
    made.extra = None
    made.variable = t
    reference: weakref.ref[Node] = weakref.ref(made)
    with _LOCKS[(id(t) >> 4) % 61]:
        before = meta.accumulator and meta.accumulator()
        if before is not None:
            return before  # type: ignore[return-value]  # the node of a leaf is its accumulator
        meta.accumulator = reference
    return made


def np_dtype(t: Variable) -> np.dtype[Any]:
    """Return the NumPy dtype of a tensor at any level."""
    array = t._array  # same loop as `innermost_array`, inlined because most functions call this
    while isinstance(array, Variable):
        array = array._array
    dtype: np.dtype[Any] = array.dtype
    return dtype


def shape_of(t: Variable) -> tuple[int, ...]:
    """Return the shape of a tensor at any level as a plain tuple (`t.shape` makes a Size)."""
    array, meta = t._array, t._meta
    shape: tuple[int, ...] = shape_of(array) if isinstance(array, Variable) else array.shape
    return shape[1:] if meta is not None and meta.batch_level else shape


def wrap_like(like: Variable, array: Payload) -> Variable:
    """Return a NumPy array as a constant tensor on the device of the tensor `like`."""
    if like.run_op is not None:
        made: Variable = like.constant_alike(array)
        return made
    library = library_of(innermost_array(like))
    return wrap(like.tensor_type, array if library is np else library.asarray(array))


def innermost_array(t: Variable) -> Payload:
    """Return the array under all levels of a tensor."""
    array = t._array
    while isinstance(array, Variable):
        array = array._array
    return array
