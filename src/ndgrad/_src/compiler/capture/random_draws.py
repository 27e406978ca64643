"""Random numbers of a program: they are drawn before it runs, and are inputs of it. Those of a GPU's generator are drawn
there.

Note [Random numbers as inputs]
A program computes what its inputs say and nothing else; passes drop, move and repeat its instructions. Numbers that are
drawn are none of that: they depend on the order of draws, and a draw changes its generator. So a trace keeps a *tape*
of the draws of the function, in their order, and each is an input. A call draws them in that order, from the same
generators, as eager code would: for the same seed the same numbers, and the generators are left where eager leaves
them. Backward programs, and derivatives that are traced later, get the numbers that forward was given.

While a function is traced, numbers are drawn in earnest, so that generators go through the states that they would have.
That is how a draw is recognised that repeats another one from the same state (`checkpoint`, `fork_rng`): it is the same
input. At the end generators are put back.

What is drawn from a distribution given by tensors is a number of a fixed distribution, and a formula (`bernoulli`,
`normal`). Some cannot be written so: how many numbers `poisson` takes from its generator depends on values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.arrays.device_draws import DRAWS, Source
from ndgrad._src.arrays.generator import Generator, default_generator, default_on, defaults_of_devices
from ndgrad._src.arrays.placement import device_of
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.traced_arrays import Memory, TracedArray
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops import random
from ndgrad._src.ops.vocabulary import find
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.tracer import Tracer


class Draw(NamedTuple):
    """Numbers of a fixed distribution: one of those of `ndgrad._src.ops.random`, by its name."""

    generator: Generator
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    settings: tuple[tuple[str, Any], ...] = ()

    def take(self) -> Any:
        """Draw them."""
        settings, where = dict(self.settings), self.generator.device
        if where.type == "cpu":
            drawn = random.SHAPE_ONLY[self.name](self.generator.numpy, self.shape, self.dtype, **settings)
            return np.asarray(drawn).astype(self.dtype, copy=False)
        found = library.device_library
        with found.cuda.Device(where.index or 0):  # on the device itself, by the kernels of eager draws
            drawn = DRAWS[self.name](Source(found, self.generator), self.shape, self.dtype, **settings)
        return drawn.astype(self.dtype, copy=False)


class Tape:
    """The draws of a function, in order."""

    def __init__(self) -> None:
        self.draws: list[Draw] = []
        #: generators that are to be left in the state that they had before draw `number`
        self.rewound: list[tuple[Generator, int]] = []

    def take(self) -> list[Any]:
        """Draw everything."""
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
        """The generators that it draws from, and their states."""
        return [
            (generator, generator._packed_state())
            for generator in {id(d.generator): d.generator for d in self.draws}.values()
        ]


def put_back(states: Sequence[tuple[Generator, bytes]]) -> None:
    """Let generators go on from states that they had."""
    for generator, state in states:
        generator._resume_from(state)


class _Unreadable(Memory):
    """Memory that holds a state."""

    __slots__ = ()

    @property
    def value(self) -> Value:  # of which there is none
        raise GraphBreak("the function reads the state of a generator of random numbers")

    @value.setter
    def value(self, value: Value) -> None:
        pass


class TracedDraws:
    """The draws of a function that is being traced."""

    def __init__(self, state_of: Callable[[Generator], bytes | None] | None = None) -> None:
        """`state_of` gives the state that a generator had before the function ran, None for one that
        the function has made."""
        self.tape = Tape()
        #: the tensors to be used for draws, in their order, where they were drawn before:
        #: derivatives of a call that is over
        self.given: Sequence[Any] = ()
        #: whether the function has returned, and only its gradients are taken
        self.is_over = False
        self._state_of = state_of
        #: the states of the default generators, by identity
        self._starts = {id(g): g._packed_state() for g in (default_generator, *defaults_of_devices())}
        #: the number of each draw by the state that it began with
        self._known: dict[tuple[bytes, Draw], int] = {}
        #: of each generator: itself, and its states, at the start and after each of its draws, with
        #: the number of the next draw
        self._states: dict[int, tuple[Generator, dict[bytes, int]]] = {}
        self._last: dict[int, bytes] = {}
        #: states that the function has asked for, by the identity of what it got for them
        self._asked: dict[int, tuple[Any, bytes]] = {}

    def state(self, tracer: Tracer, generator: Generator) -> Any:
        """What the function gets for a state: a tensor of values that nobody can read, since they
        are others in each call."""
        packed = generator._packed_state()
        value = Value((len(packed),), np.dtype(np.uint8))
        payload = TracedArray(value, _Unreadable(tracer, value))
        payload.version = -1  # so that the memory is asked
        t = wrap(Tensor, payload)
        self._asked[id(t)] = t, packed
        return t

    def go_on_from(self, generator: Generator, state: Any) -> None:
        """Let a generator continue from a state that the function has asked for."""
        if id(state) not in self._asked:
            raise GraphBreak("the function sets the state of a generator of random numbers")
        generator._resume_from(self._asked[id(state)][1])

    def number(self, draw: Draw) -> tuple[int, Any]:
        """The number of a draw, which is made, and the numbers drawn; None for these, if the draw repeats one."""
        generator, key = draw.generator, id(draw.generator)
        state = generator._packed_state()
        array = draw.take()
        repeated = self._known.get((state, draw))
        if repeated is not None:
            return repeated, None
        if self.is_over:
            raise GraphBreak("a backward pass draws random numbers of its own")
        if key not in self._states:
            start = self._begun(generator)
            self._states[key], self._last[key] = (generator, {start: len(self.tape.draws)}), start
        if state != self._last[key]:
            raise GraphBreak("a generator of random numbers is in a state that no draw has led to")
        number = self._known[state, draw] = len(self.tape.draws)
        self.tape.draws.append(draw)
        self._last[key] = generator._packed_state()
        self._states[key][1][self._last[key]] = number + 1
        return number, array

    def _begun(self, generator: Generator) -> bytes:
        start = self._starts.get(id(generator))
        if start is None and self._state_of is not None:
            start = self._state_of(generator)
        if start is None:
            raise GraphBreak("the function makes a generator of random numbers and draws from it")
        return start

    def end(self) -> None:
        """The function has returned: note in which states it leaves the generators, and put them back."""
        self.is_over = True
        for generator, states in self._states.values():
            state = generator._packed_state()
            if state not in states:
                raise GraphBreak("a generator of random numbers is left in a state that no draw has led to")
            if state != self._last[id(generator)]:
                self.tape.rewound.append((generator, states[state]))
        self.undo()

    def undo(self) -> None:
        """Put the generators back."""
        for generator, states in self._states.values():
            generator._resume_from(next(iter(states)))


# ----- ops ------------------------------------------------------------------------------------------------------------


def drawn(tracer: Tracer, op: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Value:
    """The value of an op that draws."""
    settings = dict(settings)
    generator = settings.pop("generator", None)
    if generator is None:
        where = device_of(arrays[0])
        generator = default_generator if where.type != "cuda" else default_on(where.index or 0)
    if op.name in random.SHAPE_ONLY:
        shape, dtype = tuple(arrays[0].shape), arrays[0].dtype
        return tracer.drawn(Draw(generator, op.name, shape, dtype, tuple(settings.items())))
    formula = _FORMULAS.get(op.name)
    if formula is None:
        raise GraphBreak(f"{op.name} draws random numbers, and how many depends on values")
    return formula(tracer, generator, [tracer.argument(a) for a in arrays], settings)


def _bernoulli(tracer: Tracer, generator: Generator, arguments: list[Any], settings: dict[str, Any]) -> Value:
    (p,) = arguments
    return _less(tracer, generator, p.shape, p, p.dtype)


def _bernoulli_tensor(tracer: Tracer, generator: Generator, arguments: list[Any], settings: dict[str, Any]) -> Value:
    x, p = arguments
    return _less(tracer, generator, x.shape, p, x.dtype)


def _less(tracer: Tracer, generator: Generator, shape: tuple[int, ...], p: Any, dtype: Any) -> Value:
    """Where a number of [0, 1) is less than a probability."""
    u = tracer.drawn(Draw(generator, "uniform", shape, np.dtype(np.float64), (("low", 0.0), ("high", 1.0))))
    (less,) = tracer.emit(find("lt"), (u, p), {})
    return tracer.emit(find("cast"), (less,), {"dtype": dtype})[0]


def _normal(tracer: Tracer, generator: Generator, arguments: list[Any], settings: dict[str, Any]) -> Value:
    """mean + std z, of which one may be a number."""
    mean = settings["mean"] if "mean" in settings else arguments[0]
    std = settings["std"] if "std" in settings else arguments[-1]
    shape = np.broadcast_shapes(*[a.shape for a in arguments])
    dtype = np.result_type(*[a.dtype for a in arguments])
    if dtype.kind != "f" or dtype.itemsize < 4:
        raise GraphBreak(f"normal numbers are drawn as {dtype}")
    z = tracer.drawn(Draw(generator, "normal", shape, dtype, (("mean", 0.0), ("std", 1.0))))
    (scaled,) = tracer.emit(find("mul"), (std, z), {})
    return tracer.emit(find("add"), (mean, scaled), {})[0]


_FORMULAS: dict[str, Callable[..., Value]] = {
    "bernoulli": _bernoulli,
    "bernoulli_tensor": _bernoulli_tensor,
    "normal_tensor": _normal,
    "normal_mean": _normal,
    "normal_std": _normal,
}
