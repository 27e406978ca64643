"""The graph: nodes, edges, sequence numbers.

A node represents one recorded op and turns the gradient of its outputs into gradients of its inputs. Every
differentiable eager op makes a node, so making one must be cheap: slots, no `__init__`, a class per op with `apply`
generated from the op's rules (see ndgrad._src.core.generate). `make_node` is the only function that makes nodes; the
generated functions inline the same lines. Rare data (hooks, metadata, a forward traceback) are kept in `extra`.
`route` selects the engine's code path for the node.

An edge to output 0 is the node itself; an edge to another output is an `Edge(node, input_nr)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from ndgrad._src.arrays.streams import streams
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    import numpy as np

    from ndgrad._src.core.hooks import RemovableHandle
    from ndgrad._typing import InputMetadata, Payload, Tensor, Vocabulary

N = TypeVar("N", bound="Node")

#: Process-wide counter. A consumer is always younger than its producers, so a larger number runs earlier in backward.
next_sequence_number = itertools.count().__next__

#: Gradient accumulators run as soon as they are ready.
FIRST = float("inf")

# Values of `Node.route`, the engine's code path for a node.
#: Call `apply`, which takes one gradient (or a list for several outputs) and returns one gradient per input.
RULE = 0
#: Call `apply_one`: an elementwise op of one argument. It has one edge, and both gradients have the same shape.
UNARY = 1
#: Call the engine's `run_node`: part reads and writes, most multi-output ops, leaves, custom functions, hooks.
GENERAL = 2
#: Same as GENERAL, for a write whose rule gives overwritten elements a zero gradient (see _src.core.exact_zeros).
OVERWRITE = 3

#: Kinds of ops that, as writes, ignore the old elements: copies, and choices by a mask.
OVERWRITING = ("overwrite", "choice")


class Sizes:
    """Array sizes (in elements) at which another code path becomes faster."""

    __slots__ = ("small_read",)

    def __init__(self) -> None:
        #: A read of a part of an array with fewer elements runs by its rule. Making and adding zeros of the whole array
        #: is then faster than a search for a gradient to add the part to (see ndgrad._src.core.part_gradients).
        self.small_read = 1024


sizes = Sizes()


class Edge(NamedTuple):
    """Destination of a gradient: input `input_nr` of `node` (an input of the backward node is an output of the op)."""

    node: Node
    input_nr: int


# Same value as a leaf's: the engine's loop leaves both to `send_apart`.
Edge.seq = FIRST  # type: ignore[attr-defined]  # not a field of the tuple


class Extra:
    """Rare data of a node: hooks by kind, user metadata, the forward traceback of anomaly mode, the GPU stream."""

    __slots__ = ("forward_trace", "metadata", "post_hooks", "pre_hooks", "retain", "stream", "tensor_hooks")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, Any] = {}  # output number -> ordered tensor hooks
        self.retain: dict[int, Any] = {}  # output number -> weak reference to the tensor that retains its gradient
        self.pre_hooks: Any = None
        self.post_hooks: Any = None
        self.metadata: dict[str, Any] | None = None
        self.forward_trace: Any = None
        self.stream: Any = None


@set_module("ndgrad.autograd.graph")
class Node:
    """A backward node. `next` holds the edges to the producers of the op's differentiable inputs."""

    __slots__ = ("__weakref__", "dtype", "extra", "next", "route", "seq", "shape")

    #: Number of outputs of the op. With more than one, the engine passes a list of gradients.
    outputs: int = 1
    #: Function-transform level of the node's graph.
    level: int = 0
    #: The node takes ownership of the incoming gradient and may change it (see the engine's Note [Owned gradients]).
    consumes: ClassVar[bool] = False
    #: Value of `route` until the node gets an `extra`.
    first_route: ClassVar[int] = GENERAL
    #: True if missing gradients of some outputs arrive as zeros.
    materialize_grads: bool = True
    #: True if the node runs even if no output has a gradient. Rules of ops are linear; a user's backward may not be.
    runs_undefined: ClassVar[bool] = False
    #: True if backward runs an inner pass, which may reach nodes without an edge from here (reentrant checkpoints).
    has_inner_pass: ClassVar[bool] = False
    #: True for a compiled program: `apply` runs no user code and reads no pass state, and all edges lead to different
    #: nodes. Such a node has `run_alone` and `gradients_of_one`.
    stands_alone: ClassVar[bool] = False
    #: (position, edge) pairs in sending order, if it differs from the order of `next` (a compiled program).
    sent_edges: ClassVar[Any] = None
    #: True if the op reads a part of its only differentiable input (see ndgrad._src.core.part_gradients).
    reads: ClassVar[bool] = False
    #: True if the op is a view of its whole input, through which parts can be looked up.
    passes_parts: ClassVar[bool] = False

    seq: float
    next: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: Any
    extra: Extra | None
    route: int

    def apply(self, grads: Any, ops: Vocabulary, keep: bool = True) -> tuple[Any, ...]:
        """Return the gradients of the inputs, on raw arrays (`ops` is the rules' vocabulary for their array library).

        Without `keep`, also release the saved values, which saves the engine a call per node.

        Args:
            grads: gradient of the output, or a list for several outputs.
            ops: vocabulary of the rules.
            keep: whether saved values stay for another backward.
        """
        raise NotImplementedError

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        """Return the gradients of the inputs, on tensors, so that the computation is itself recorded.

        Args:
            grads: gradient of the output, or a list for several outputs.
        """
        raise NotImplementedError

    def apply_payloads(self, grads: Any) -> tuple[Any, ...]:
        """Same as `apply_tensors`, for a graph of a transform: on the tensors of the levels below.

        Args:
            grads: gradient of the output, or a list for several outputs.
        """
        return self.apply_tensors(grads)

    def release(self) -> None:
        """Drop the values saved for backward."""

    def name(self) -> str:
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        return tuple(
            (None, 0) if e is None else (e.node, e.input_nr) if e.__class__ is Edge else (e, 0) for e in self.next
        )

    @property
    def metadata(self) -> dict[str, Any]:
        extra = extra_of(self)
        if extra.metadata is None:
            trace = extra.forward_trace
            extra.metadata = {} if trace is None else trace.metadata()
        return extra.metadata

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a function with the gradients that the node made and those that it got.

        Args:
            hook: function of (gradients of the inputs, gradients of the outputs). It may return new gradients of the
                inputs.

        Returns:
            A handle, whose `remove()` ends the calls.
        """
        from ndgrad._src.core.hooks import register_node_hook  # hooks imports this module

        return register_node_hook(self, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a function with the gradients that the node gets, before it runs.

        Args:
            hook: function of the gradients of the outputs. It may return new ones.

        Returns:
            A handle, whose `remove()` ends the calls.
        """
        from ndgrad._src.core.hooks import register_node_prehook  # hooks imports this module

        return register_node_prehook(self, hook)

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """Metadata of the gradients that the node takes: one entry per output of the op."""
        from ndgrad._src.core.input_metadata import input_metadata  # avoids an import cycle

        return input_metadata(self)

    @property
    def requires_grad(self) -> bool:
        return True

    def _register_hook_dict(self, tensor: Tensor) -> None:
        """Use the hooks of a tensor that this node made. They already run here; torch has the method."""
        from ndgrad._src.core.variable import Variable  # avoids an import cycle

        if not isinstance(tensor, Variable):
            raise TypeError(f"_register_hook_dict expected a variable, got {type(tensor).__name__}. [nd-type]")
        hooks = tensor._backward_hooks
        if hooks is not None:
            extra_of(self).tensor_hooks[tensor.output_nr] = hooks

    def _sequence_nr(self) -> int:
        return int(self.seq) if self.seq != FIRST else 2**64 - 1

    def _set_sequence_nr(self, number: int) -> None:
        from ndgrad._src.core.hooks import count_while_alive  # hooks imports this module

        self.seq = number
        count_while_alive(self)  # see the engine's Note [Two ways to the same order]

    def output_metadata(self, number: int) -> tuple[tuple[int, ...], Any]:
        """Return shape and dtype of output `number` of the op.

        Args:
            number: number of the output.
        """
        return self.shape, self.dtype

    def __call__(self, *grads: Any) -> Any:
        """Run only this node, on tensors, as `grad_fn(g)` does in torch."""
        count = 1 if self.outputs == 1 else len(self.metadata_of_outputs)  # type: ignore[attr-defined]  # of the nodes with several outputs
        if len(grads) != count:
            raise TypeError(
                f"{self.name()}: expected {count} arguments, got {len(grads)} instead: a node takes one gradient, or "
                "None, per output. [nd-arguments]"
            )
        out = self.apply_tensors(grads[0] if self.outputs == 1 else list(grads))
        return out[0] if len(out) == 1 else out

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def make_node(
    cls: type[N],
    edges: tuple[Any, ...],
    shape: Any = None,
    dtype: np.dtype[Any] | None = None,
    level: int = 0,
) -> N:
    """Make a node of the graph of `level`. Node classes outside transforms have no slot for the level."""
    node = cls()
    node.seq = next_sequence_number()
    node.next = edges
    node.shape = shape
    node.dtype = dtype
    node.route = cls.first_route
    node.extra = None
    if level:
        node.level = level
    if streams.current is not None:
        note_stream(node)
    return node


def note_stream(node: Node) -> None:
    """Store the current stream in a node, unless it is the default stream (see ndgrad._src.engine.streams)."""
    side = streams.side()
    if side is not None:
        extra_of(node).stream = side


def extra_of(node: Node) -> Extra:
    """Return the `extra` of a node, made on first use. A node with extra data takes the general route."""
    extra = node.extra
    if extra is None:
        extra = node.extra = Extra()
        if node.route != OVERWRITE:
            node.route = GENERAL
    return extra


class MultiNode(Node):
    """A node of an op with several outputs. Shape and dtype are kept for each output."""

    __slots__ = ("metadata_of_outputs",)
    metadata_of_outputs: list[tuple[tuple[int, ...], Any] | None]

    def output_metadata(self, number: int) -> tuple[tuple[int, ...], Any]:
        known = self.metadata_of_outputs[number]
        if known is None:
            raise RuntimeError(f"{self.name()}: output {number} is not differentiable and takes no gradient [nd-bug]")
        return known

    def with_zeros(self, grads: Sequence[Payload], zeros: Callable[..., Payload]) -> list[Any]:
        """Return the gradients of the outputs, with zeros for differentiable outputs that received none."""
        pairs = zip(grads, self.metadata_of_outputs, strict=True)
        return [zeros(*known) if g is None and known is not None else g for g, known in pairs]


def output_count(node: Any) -> int:
    """Return the number of outputs of a node's op."""
    return 1 if node.outputs == 1 else len(node.metadata_of_outputs)


def edge_node(edge: Node | Edge) -> Node:
    node: Node = edge.node if isinstance(edge, Edge) else edge
    return node


def edge_number(edge: Node | Edge) -> int:
    number: int = edge.input_nr if isinstance(edge, Edge) else 0
    return number


def can_sum_to(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """True if `have` reduces to `want` by undoing broadcasting."""
    lead = len(have) - len(want)
    return lead >= 0 and all(w in (1, h) for h, w in zip(have[lead:], want, strict=True))
