"""Random numbers of a program. They are drawn before it runs and are its inputs. A GPU generator draws on the GPU.

Note [Random numbers as inputs]
A program depends on its inputs only; passes drop, move and repeat its instructions. Random numbers do not fit this:
they depend on the order of draws, and a draw changes its generator. So a trace keeps a *tape* of the function's draws,
in order, and each draw is an input. A call draws in that order from the same generators, as eager code would. The same
seed gives the same numbers, and the generators end in the same states. Backward programs, and derivatives that are
traced later, use the numbers of the forward call.

During a trace numbers are really drawn, so that generators pass through their usual states. A draw that repeats another
one from the same state (`checkpoint`, `fork_rng`) is recognised in this way: it is the same input. At the end the
generators are restored.

A draw from a distribution given by tensors is a number of a fixed distribution and a formula (`bernoulli`, `normal`).
Some draws have no formula: the count of numbers that `poisson` takes from its generator depends on values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.arrays.device_draws import DRAWS, Source
from ndgrad._src.arrays.generator import Generator, default_generator, default_on, defaults_of_devices
from ndgrad._src.arrays.host_draws import cast
from ndgrad._src.arrays.placement import device_of
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.memory_order import MOST_OF_RESULT, settle_array
from ndgrad._src.compiler.capture.traced_arrays import Memory, TracedArray
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops import random
from ndgrad._src.ops.vocabulary import find
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.tracer import Tracer


class Draw(NamedTuple):
    """Numbers of a fixed distribution, named as in `ndgrad._src.ops.random`."""

    generator: Generator
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    settings: tuple[tuple[str, Any], ...] = ()
    #: Order of dimensions in the memory that the numbers fill; None if it is contiguous.
    layout: tuple[int, ...] | None = None

    def take(self) -> Any:
        """Draw the numbers."""
        settings, where = dict(self.settings), self.generator.device
        if where.type == "cpu":
            draw, source = random.SHAPE_ONLY[self.name], random.source_of(self.generator)
            drawn = random.draw_in_layout(draw, source, self.shape, self.dtype, self.layout, settings)
            return cast(drawn, self.dtype)
        found = library.device_library
        with found.cuda.Device(where.index or 0):  # on the device itself, by the kernels of eager draws
            drawn = DRAWS[self.name](Source(found, self.generator), self.shape, self.dtype, **settings)
        return drawn.astype(self.dtype, copy=False)


class Tape:
    """The draws of a function, in order."""

    def __init__(self) -> None:
        self.draws: list[Draw] = []
        #: Generators to be left in the state they had before draw `number`.
        self.rewound: list[tuple[Generator, int]] = []

    def take(self) -> list[Any]:
        """Make all draws."""
        states = [b""] * len(self.rewound)
        found: list[Any] = []
        for number, draw in enumerate(self.draws):
            for k, (generator, before) in enumerate(self.rewound):
                if before == number:
                    states[k] = generator._packed_state()
            found.append(draw.take())
        for (generator, _), state in zip(self.rewound, states, strict=True):
            generator._resume_from(state)
        return found

    def states(self) -> list[tuple[Generator, bytes]]:
        """Return the generators that the tape draws from, with their states."""
        return [
            (generator, generator._packed_state())
            for generator in {id(d.generator): d.generator for d in self.draws}.values()
        ]


def restore_states(states: Sequence[tuple[Generator, bytes]]) -> None:
    """Restore the states of generators."""
    for generator, state in states:
        generator._resume_from(state)


class _Unreadable(Memory):
    """Memory of a generator state."""

    __slots__ = ()

    @property
    def value(self) -> Value:  # has none
        raise GraphBreak("the function reads the state of a generator of random numbers")

    @value.setter
    def value(self, value: Value) -> None:
        pass


class TracedDraws:
    """The draws of a function during its trace."""

    def __init__(self, state_of: Callable[[Generator], bytes | None] | None = None) -> None:
        """Create the record. `state_of` returns the state of a generator before the function ran, or None for a
        generator that the function has made.
        """
        self.tape = Tape()
        #: Tensors to use for the draws, in order, if they were drawn before: for derivatives of an earlier call.
        self.given: Sequence[Any] = ()
        #: True if the function has returned, and only its gradients are taken.
        self.is_over = False
        self._state_of = state_of
        #: States of the default generators, by identity.
        self._starts = {id(g): g._packed_state() for g in (default_generator, *defaults_of_devices())}
        #: Number of each draw, by its initial state.
        self._known: dict[tuple[bytes, Draw], int] = {}
        #: For each generator: the generator, and its states at the start and after each draw with the number of the
        #: next draw.
        self._states: dict[int, tuple[Generator, dict[bytes, int]]] = {}
        self._last: dict[int, bytes] = {}
        #: States that the function has requested, by the identity of the returned tensor.
        self._asked: dict[int, tuple[Any, bytes]] = {}

    def state(self, tracer: Tracer, generator: Generator) -> Any:
        """Return a tensor for a generator state. Its values cannot be read, because they differ in each call."""
        packed = generator._packed_state()
        value = Value((len(packed),), np.dtype(np.uint8))
        payload = TracedArray(value, _Unreadable(tracer, value))
        payload.version = -1  # forces a read of the memory
        t = wrap(Tensor, payload)
        self._asked[id(t)] = t, packed
        return t

    def go_on_from(self, generator: Generator, state: Any) -> None:
        """Set a generator to a state that the function has requested."""
        if id(state) not in self._asked:
            raise GraphBreak("the function sets the state of a generator of random numbers")
        generator._resume_from(self._asked[id(state)][1])

    def add(self, draw: Draw) -> tuple[int, Any]:
        """Make a draw. Return its number and the numbers drawn, or None for these if it repeats an earlier draw."""
        generator, key = draw.generator, id(draw.generator)
        state = generator._packed_state()
        array = draw.take()
        repeated = self._known.get((state, draw))
        if repeated is not None:
            return repeated, None
        if self.is_over:
            raise GraphBreak("a backward pass draws random numbers of its own")
        if key not in self._states:
            start = self._initial_state(generator)
            self._states[key], self._last[key] = (generator, {start: len(self.tape.draws)}), start
        if state != self._last[key]:
            raise GraphBreak("a generator of random numbers is in a state that no draw has led to")
        number = self._known[state, draw] = len(self.tape.draws)
        self.tape.draws.append(draw)
        self._last[key] = generator._packed_state()
        self._states[key][1][self._last[key]] = number + 1
        return number, array

    def _initial_state(self, generator: Generator) -> bytes:
        start = self._starts.get(id(generator))
        if start is None and self._state_of is not None:
            start = self._state_of(generator)
        if start is None:
            raise GraphBreak("the function makes a generator of random numbers and draws from it")
        return start

    def end(self) -> None:
        """End the function's draws: record the final states of the generators, and restore them."""
        self.is_over = True
        for generator, states in self._states.values():
            state = generator._packed_state()
            if state not in states:
                raise GraphBreak("a generator of random numbers is left in a state that no draw has led to")
            if state != self._last[id(generator)]:
                self.tape.rewound.append((generator, states[state]))
        self.undo()

    def undo(self) -> None:
        """Restore the generators."""
        for generator, states in self._states.values():
            generator._resume_from(next(iter(states)))


# ----- ops ------------------------------------------------------------------------------------------------------------


def trace_draw(tracer: Tracer, op: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Value:
    """Return the value of an op that draws."""
    settings = dict(settings)
    generator = settings.pop("generator", None)
    if generator is None:
        where = device_of(arrays[0])
        generator = default_generator if where.type != "cuda" else default_on(where.index or 0)
    if op.name in random.SHAPE_ONLY:
        shape, dtype = tuple(arrays[0].shape), arrays[0].dtype
        layout = _find_layout(generator, arrays[0])
        return tracer.add_draw(Draw(generator, op.name, shape, dtype, tuple(settings.items()), layout))
    formula = _FORMULAS.get(op.name)
    if formula is None:
        raise GraphBreak(f"{op.name} draws random numbers, and how many depends on values")
    if op.name == "bernoulli_tensor":
        settings["layout"] = _find_layout(generator, arrays[0])
    return formula(tracer, generator, [tracer.argument(a) for a in arrays], settings)


def _find_layout(generator: Generator, array: Any) -> tuple[int, ...] | None:
    """Return the layout of an array that a generator fills. A device's generator draws independently of it."""
    if generator.device.type != "cpu":
        return None
    if isinstance(array, TracedArray) and array.ndim > 1:
        settle_array(array, MOST_OF_RESULT)
    return random.layout_of(array)


def _bernoulli(tracer: Tracer, generator: Generator, arguments: list[Any], settings: dict[str, Any]) -> Value:
    (p,) = arguments
    return _less(tracer, generator, p.shape, p, p.dtype, None)


def _bernoulli_tensor(tracer: Tracer, generator: Generator, arguments: list[Any], settings: dict[str, Any]) -> Value:
    x, p = arguments
    return _less(tracer, generator, x.shape, p, x.dtype, settings["layout"])


def _less(
    tracer: Tracer, generator: Generator, shape: tuple[int, ...], p: Any, dtype: Any, layout: tuple[int, ...] | None
) -> Value:
    """Return 1 for uniform numbers in [0, 1) that are less than a probability, else 0."""
    single = generator.device.type == "cpu" and p.dtype != np.float64
    precision = np.dtype(np.float32 if single else np.float64)
    if single and p.dtype != precision:
        (p,) = tracer.emit(find("cast"), (p,), {"dtype": precision})
    u = tracer.add_draw(Draw(generator, "uniform", shape, precision, (("low", 0.0), ("high", 1.0)), layout))
    (less,) = tracer.emit(find("lt"), (u, p), {})
    return tracer.emit(find("cast"), (less,), {"dtype": dtype})[0]


def _normal(tracer: Tracer, generator: Generator, arguments: list[Any], settings: dict[str, Any]) -> Value:
    """Return mean + std z. One of both may be a number. A number for std is a setting of the draw."""
    mean = settings["mean"] if "mean" in settings else arguments[0]
    std = settings["std"] if "std" in settings else arguments[-1]
    shape = np.broadcast_shapes(*[a.shape for a in arguments])
    dtype = np.result_type(*[a.dtype for a in arguments])
    if dtype.kind != "f" or dtype.itemsize < 4:
        raise GraphBreak(f"normal numbers are drawn as {dtype}")
    is_setting = "std" in settings and generator.device.type == "cpu"
    z = tracer.add_draw(Draw(generator, "normal", shape, dtype, (("mean", 0.0), ("std", std if is_setting else 1.0))))
    if not is_setting:
        (z,) = tracer.emit(find("mul"), (z, std), {})
    return tracer.emit(find("add"), (z, mean), {})[0]


_FORMULAS: dict[str, Callable[..., Value]] = {
    "bernoulli": _bernoulli,
    "bernoulli_tensor": _bernoulli_tensor,
    "normal_tensor": _normal,
    "normal_mean": _normal,
    "normal_std": _normal,
}
