"""The graph: nodes, edges, sequence numbers.

A node stands for one recorded op and knows how to turn the gradient of its outputs into gradients of its inputs.
Ordinary nodes are made on every differentiable eager op, so making one must be cheap: slots, no `__init__`, a class
per op with `apply` generated from the op's rules (see ndgrad._src.core.generate). `make_node` is the one function that
makes them (the generated functions have the same lines written out). Anything a node rarely has (hooks, metadata, a
forward traceback) hangs on `extra`. `route` says how the engine runs the node.

An edge is the node itself when it leads to output 0, and an `Edge(node, input_nr)` otherwise.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from ndgrad._src.arrays.streams import streams

if TYPE_CHECKING:
    from ndgrad._typing import InputMetadata

N = TypeVar("N", bound="Node")

#: Process-wide: a consumer is always younger than its producers, so a larger number runs earlier in backward.
next_sequence_number = itertools.count().__next__

#: Gradient accumulators run as soon as they are ready.
FIRST = float("inf")

#: How the engine runs a node (`Node.route`): by `apply`, which takes one gradient (or those of all
#: outputs) and gives one per input;
RULE = 0
#: by `apply_one`: an elementwise op of one argument, so the gradient has one shape on both sides and there is one edge;
UNARY = 1
#: by the engine's `run_node`: reads and writes of parts, most ops of several outputs, leaves, custom
#: functions, nodes with hooks;
GENERAL = 2
#: likewise: a write whose rule gives the overwritten elements a gradient of zero (see ndgrad._src.core.exact_zeros).
OVERWRITE = 3

#: The kinds of ops that, as writes, overwrite elements whatever these were: copies, and choices by a mask.
OVERWRITING = ("overwrite", "choice")


class Sizes:
    """Numbers of elements at which another way is the quicker."""

    __slots__ = ("small_read",)

    def __init__(self) -> None:
        #: A read of a part of an array with fewer runs by its rule: to make zeros of the whole and add them is quicker
        #: than to look for the gradient to which the part could be added (see ndgrad._src.core.part_gradients).
        self.small_read = 1024


sizes = Sizes()


class Edge(NamedTuple):
    """Where a gradient goes: input `input_nr` of `node` (an input of the backward node is an output of the op)."""

    node: Node
    input_nr: int


# As that of a leaf: in the engine's loop, both are left to `send_apart`.
Edge.seq = FIRST  # type: ignore[attr-defined]  # no field of the tuple


class Extra:
    """What few nodes have: hooks by kind, user metadata, the forward traceback of anomaly mode, the stream of a GPU."""

    __slots__ = ("forward_trace", "metadata", "post_hooks", "pre_hooks", "retain", "stream", "tensor_hooks")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, Any] = {}  # output number -> ordered hooks of the tensor
        self.retain: dict[int, Any] = {}  # output number -> the tensor (weakly) that retains its gradient
        self.pre_hooks: Any = None
        self.post_hooks: Any = None
        self.metadata: dict[str, Any] | None = None
        self.forward_trace: Any = None
        self.stream: Any = None


class Node:
    """A backward node. `next` are the edges to the producers of the op's differentiable inputs."""

    __slots__ = ("__weakref__", "dtype", "extra", "next", "route", "seq", "shape")

    #: How many outputs the op had; more than one makes the engine pass a list of gradients.
    outputs: int = 1
    #: Function-transform level whose graph this node belongs to.
    level: int = 0
    #: Takes ownership of the incoming gradient and may change it (see the engine's Note [Owned gradients]).
    consumes: ClassVar[bool] = False
    #: What `route` is until a node has something extra.
    first_route: ClassVar[int] = GENERAL
    #: Whether missing gradients of some outputs arrive as zeros.
    materialize_grads: bool = True
    #: Whether the node runs though no output has a gradient: rules of ops are linear, a user's may be anything.
    runs_undefined: ClassVar[bool] = False
    #: Whether its backward runs a pass of its own, which may reach what no edge leads to (reentrant checkpoints).
    has_inner_pass: ClassVar[bool] = False
    #: Whether `apply` runs no code of the user's and asks nothing of the pass, and edges lead to different nodes: a
    #: compiled program. It has `run_alone`, `gradients_of_one`.
    stands_alone: ClassVar[bool] = False
    #: Positions and edges in the order in which gradients are sent, if it is another one (a compiled program).
    sent_edges: ClassVar[Any] = None
    #: Whether the op reads a part of its one differentiable input (see ndgrad._src.core.part_gradients).
    reads: ClassVar[bool] = False
    #: Whether the op is a view of all of its input, in which parts can be looked up.
    passes_parts: ClassVar[bool] = False

    seq: float
    next: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: Any
    extra: Extra | None
    route: int

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        """Gradients of the inputs, on raw arrays (`ops` is the vocabulary of rules for their array library).

        Without `keep`, what was saved is released as well, which saves the engine a call per node.
        """
        raise NotImplementedError

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        """Gradients of the inputs, on tensors, so that the computation is itself recorded."""
        raise NotImplementedError

    def apply_payloads(self, grads: Any) -> tuple[Any, ...]:
        """As `apply_tensors`, for a graph of a transform: on the tensors of the levels below."""
        return self.apply_tensors(grads)

    def release(self) -> None:
        """Drop what was saved for backward."""

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

    def register_hook(self, hook: Any) -> Any:
        from ndgrad._src.core.hooks import register_node_hook  # hooks imports this module

        return register_node_hook(self, hook)

    def register_prehook(self, hook: Any) -> Any:
        from ndgrad._src.core.hooks import register_node_prehook  # hooks imports this module

        return register_node_prehook(self, hook)

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """What the gradients that the node takes look like: one entry per output of the op."""
        from ndgrad._src.core.input_metadata import input_metadata  # which describes nodes

        return input_metadata(self)

    @property
    def requires_grad(self) -> bool:
        return True

    def _register_hook_dict(self, tensor: Any) -> None:
        """Let the hooks of a tensor that this node made run here; they do so already, and torch has the method."""
        from ndgrad._src.core.variable import Variable  # which ends in nodes

        if not isinstance(tensor, Variable):
            raise TypeError(f"_register_hook_dict expected a variable, and got {type(tensor).__name__}. [nd-type]")
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
        """Shape and dtype of output `number` of the op."""
        return self.shape, self.dtype

    def __call__(self, *grads: Any) -> Any:
        """Run this node alone on tensors, as `grad_fn(g)` does in torch."""
        out = self.apply_tensors(grads[0] if self.outputs == 1 else list(grads))
        return out[0] if len(out) == 1 else out

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def make_node(cls: type[N], edges: tuple[Any, ...], shape: Any = None, dtype: Any = None, level: int = 0) -> N:
    """A node of the graph of `level`. A class of nodes that belong to no level has no place for its number."""
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
    """Let a node remember the stream in use, if it is not the default one (see ndgrad._src.engine.streams)."""
    side = streams.side()
    if side is not None:
        extra_of(node).stream = side


def extra_of(node: Node) -> Extra:
    extra = node.extra
    if extra is None:
        extra = node.extra = Extra()
        if node.route != OVERWRITE:
            node.route = GENERAL
    return extra


class MultiNode(Node):
    """A node of an op with several outputs; shape and dtype are kept for each."""

    __slots__ = ("metadata_of_outputs",)
    metadata_of_outputs: list[tuple[tuple[int, ...], Any] | None]

    def output_metadata(self, number: int) -> tuple[tuple[int, ...], Any]:
        known = self.metadata_of_outputs[number]
        if known is None:
            raise RuntimeError(f"{self.name()}: output {number} is not differentiable and takes no gradient [nd-bug]")
        return known

    def with_zeros(self, grads: Any, zeros: Any) -> list[Any]:
        """The gradients of the outputs, with zeros for those that received none and are differentiable."""
        pairs = zip(grads, self.metadata_of_outputs, strict=True)
        return [zeros(*known) if g is None and known is not None else g for g, known in pairs]


def output_count(node: Any) -> int:
    """How many outputs the op of a node had."""
    return 1 if node.outputs == 1 else len(node.metadata_of_outputs)


def edge_node(edge: Any) -> Node:
    node: Node = edge.node if edge.__class__ is Edge else edge
    return node


def edge_number(edge: Any) -> int:
    number: int = edge.input_nr if edge.__class__ is Edge else 0
    return number


def can_sum_to(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Whether a gradient of shape `have` is one of a value of shape `want`, or of what broadcasting made of it."""
    lead = len(have) - len(want)
    return lead >= 0 and all(w in (1, h) for h, w in zip(have[lead:], want, strict=True))
