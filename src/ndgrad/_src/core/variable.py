"""The bare tensor: an array plus autograd metadata that costs nothing until needed.

Four slots. `_array` holds the payload: an ndarray, a NumPy scalar (what ufuncs return for 0-d results; it becomes a
0-d array when someone needs its memory), or a lower-level tensor inside a function transform. `_node` is the backward
node of a result, None for leaves and constants. `_storage` is shared by all tensors over the same memory and carries
the version; None means version 0, never viewed. `_meta` holds everything rare.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.node import FIRST, GENERAL, Edge, Node
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from ndgrad._typing import Storage, Tensor, ViewInfo


class Meta:
    """The rare part of a tensor's metadata.

    Views, leaves and results of multi-output ops have one, so making it must be cheap: what the eager path reads has
    slots, the rest are class attributes until someone sets them.
    """

    __slots__ = ("__dict__", "accumulator", "batch_level", "level", "output_nr", "requires_grad", "tangents", "view")

    grad: Any = None
    grad_dtype: Any = None
    hooks: dict[int, Any] | None = None
    post_accumulate_hooks: dict[int, Any] | None = None
    retains_grad = False
    names: tuple[str | None, ...] | None = None
    #: how often the tensor has changed its own shape in place
    geometry = 0
    #: of a leaf: those changes in order, each with the accumulator (weakly) of the shape before, if there was
    #: one, the op and its settings
    reshapes: tuple[tuple[weakref.ref[Node] | None, Any, dict[str, Any]], ...] = ()
    #: the innermost transform level that was open when the tensor was made
    made_in = 0
    #: of a leaf stripped of its tangents: the accumulator of the leaf itself, kept alive for it
    leaf_accumulator: Any = None
    #: of a tensor that stands for a view and does not know the base: how the view was taken from it
    path: Any = None
    #: of a part that an index picks for each sample of a vmap: whose part it is (see ndgrad._src.core.batched_parts)
    picked: Any = None
    #: of an Array without dimensions that NumPy has as an array, not as a scalar: as an index, it copies
    indexes_as_array = False
    #: of a tensor of functionalize that was made over a plain ndarray: that array, which sees what is written
    lent: Any = None
    #: where the value came from, in debug mode (see ndgrad._src.debug.provenance)
    provenance: Any = None

    def __init__(self) -> None:
        self.requires_grad = False  # of a leaf; a result requires grad by having a node
        self.accumulator: weakref.ref[Node] | None = None
        self.output_nr = 0
        self.view: ViewInfo | None = None
        self.tangents: dict[int, Any] | None = None
        self.level = 0  # of a tensor of a transform without a node: a leaf, a constant view, a value of functionalize
        self.batch_level = 0  # of a tensor batched by vmap: the payload's dimension 0 is the batch


class BareTensor:
    """What the eager path reads and writes; `ndgrad.Tensor` adds the methods."""

    __slots__ = ("__dict__", "__weakref__", "_array", "_meta", "_node", "_storage")

    _array: Any
    _node: Node | None
    _storage: Storage | None
    _meta: Meta | None

    #: Of a class whose tensors keep their values and their graph in other tensors: (op, args, settings) -> result,
    #: called instead of the op wherever one of them is an argument.
    run_op: Any = None
    #: Of such a class: (function that makes a tensor like one that it is given) -> a tensor like this one.
    made_alike: Any = None
    checked_values: Any = None  # () -> the values for those who check them (ndgrad.storage.checkable)


if TYPE_CHECKING:
    # Nothing else is made of the bare class, so what is a Variable has a Tensor's attributes.
    Variable: TypeAlias = Tensor
else:
    Variable = BareTensor


new = object.__new__


def wrap(face: type[Any], array: Any) -> Any:
    """A constant of class `face` over `array`."""
    t = new(face)
    t._array = array
    t._node = None
    t._storage = None
    t._meta = None
    return t


def twin(t: Any) -> Any:
    """Another tensor over the same values, without history; of a subclass, with its attributes."""
    if t.face is t.__class__:
        other = wrap(t.__class__, t._array)
        if t._meta is not None and t._meta.batch_level:
            meta_of(other).batch_level = t._meta.batch_level
        return other
    from ndgrad._src.core.subclass import unshared  # subclass imports this module

    return unshared(t, (t,))


def meta_of(t: Any) -> Meta:
    meta: Meta | None = t._meta
    if meta is None:
        meta = t._meta = Meta()
    return meta


def own_level(t: Any) -> int:
    """The number of the transform level that a tensor belongs to, 0 for an ordinary one; of a view, the level it had
    when last somebody looked (`level_number` of ndgrad._src.interpreters.levels looks)."""
    meta, node = t._meta, t._node
    if meta is not None:
        if meta.batch_level:
            return int(meta.batch_level)
        if node is None:
            return int(meta.level)
    return 0 if node is None else node.level


def requires_grad(t: Any) -> bool:
    meta = t._meta
    if meta is None:
        return t._node is not None
    # a view whose history is out of date will have one if its base has: to know that, no history need be made
    return (
        t._node is not None
        or meta.requires_grad
        or (meta.view is not None and meta.view.is_stale(t) and requires_grad(meta.view.base))
    )


def recorded(t: Any) -> Any:
    """The tensor that carries the history of `t`: the tensor itself, or of one inside functionalize, whose history is
    that of the values it is given, the value that it holds now."""
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
    """The gradient edge of a tensor: where the gradient of a use of `t` goes; None when it requires none."""
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

# Gradients of one leaf may arrive from several threads. A fixed set of locks, picked by identity, keeps leaves free
# of a lock object of their own. A finalizer that the collector runs may start a backward pass while its thread
# holds one, hence the kind.
_LOCKS = tuple(make_lock() for _ in range(61))


def lock_of(t: Any) -> threading.RLock:
    """The lock under which a leaf's `.grad` and accumulator change."""
    return _LOCKS[(id(t) >> 4) % len(_LOCKS)]


class AccumulateGrad(Node):
    """The end of the graph at a leaf. The leaf holds it weakly and graphs strongly; it keeps the leaf alive.

    It has no `apply`: the engine hands raw gradients to `accumulate_array`, which must know how many hold them.
    """

    __slots__ = ("variable",)
    variable: Any

    def release(self) -> None:
        """A leaf's accumulator outlives backward passes."""

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        registry.accumulate.accumulate_tensor(self, grads)
        return ()


class LevelAccumulator(AccumulateGrad):
    """The accumulator of a leaf that a grad transform made; its gradient is captured, never accumulated."""

    __slots__ = ("level",)
    level: int


def accumulator(t: Any) -> AccumulateGrad:
    """The accumulator of a leaf that requires grad, made again when no graph holds it any more.

    There is never more than one: threads that build graphs on one leaf must agree on where its gradient goes. The first
    op on a leaf of every graph comes here, so only the exchange is done under the lock.
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
    wanted = meta.grad_dtype  # None: the tensor's own; "any": whatever arrives
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


def np_dtype(t: Any) -> np.dtype[Any]:
    """The NumPy dtype of a tensor at any level."""
    array = t._array  # as in `innermost_array`, without the call: most functions ask
    while isinstance(array, Variable):
        array = array._array
    dtype: np.dtype[Any] = array.dtype
    return dtype


def shape_of(t: Any) -> tuple[int, ...]:
    """The shape of a tensor at any level, as a plain tuple: `t.shape` makes a Size."""
    array, meta = t._array, t._meta
    shape: tuple[int, ...] = shape_of(array) if isinstance(array, Variable) else array.shape
    return shape[1:] if meta is not None and meta.batch_level else shape


def beside(like: Any, array: Any) -> Any:
    """A NumPy array as a constant tensor where the data of the tensor `like` lie."""
    library = library_of(innermost_array(like))
    return wrap(like.face, array if library is np else library.asarray(array))


def innermost_array(t: Any) -> Any:
    """The array under all the levels of a tensor."""
    array = t._array
    while isinstance(array, Variable):
        array = array._array
    return array


