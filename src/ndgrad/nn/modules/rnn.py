"""Recurrent networks: RNN, LSTM and GRU, over whole sequences and one step at a time.

The product of the input with its weights does not depend on the state, so it is computed for all steps at once. The
loop over time does the rest. It iterates over "steps", tensors that may have fewer rows than the one before. So packed
sequences, in which short ones end early, run through the same code as padded ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ndgrad._src.arrays import device_kernels
from ndgrad._src.arrays.dtypes import float32, float64
from ndgrad._src.arrays.precision import FLOATING
from ndgrad._src.compiler.capture.graph_break import current_tracer
from ndgrad._src.core.modes import modes
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import recurrent
from ndgrad._src.ops.recurrent_layer import recurrent_layer
from ndgrad._src.tensor.functions.creation import zeros
from ndgrad._src.tensor.functions.join import cat, stack
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.amp.autocast_mode import is_autocast_enabled
from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.module import Module, new_parameter
from ndgrad.nn.parameter import Parameter
from ndgrad.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

State: TypeAlias = "tuple[Tensor, ...]"
S = TypeVar("S", "Tensor", PackedSequence)
#: Weights that act on the state: weight_hh, bias_hh, weight_hr.
Weights: TypeAlias = "tuple[Any, ...]"


# ----- one step -------------------------------------------------------------------------------------------------------

# Each step function takes the input's part of the gates, the state, and the weights that act on the state. It returns
# the new state, whose first part is the output.


def _plain_step(activation: Callable[[Tensor], Tensor]) -> Callable[..., State]:
    def step(gates: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> State:
        return (activation(gates + F.linear(state[0], w_hh, b_hh)),)

    return step


def _lstm_step(gates: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> State:
    h, c = recurrent.lstm_cell.eager(gates, F.linear(state[0], w_hh, b_hh), state[1])
    return (h if w_hr is None else F.linear(h, w_hr)), c


def _gru_step(gates: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> State:
    return (recurrent.gru_cell.eager(gates, F.linear(state[0], w_hh, b_hh), state[0]),)


_STEPS: dict[str, Callable[..., State]] = {
    "RNN_TANH": _plain_step(F.tanh),
    "RNN_RELU": _plain_step(F.relu),
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


# ----- over time ------------------------------------------------------------------------------------------------------


def _run_steps(
    step: Callable[..., State], gates: Sequence[Tensor], first: State, weights: Weights, backwards: bool
) -> tuple[list[Tensor], State]:
    """Run through the steps; return the outputs in the order of time, and the last state of every sequence."""
    return _backwards(step, gates, first, weights) if backwards else _forwards(step, gates, first, weights)


def _forwards(
    step: Callable[..., State], gates: Sequence[Tensor], state: State, weights: Weights
) -> tuple[list[Tensor], State]:
    outputs: list[Tensor] = []
    ended: list[State] = []  # last states of finished sequences, the shortest first
    for g in gates:
        running, now = state[0].shape[0], g.shape[0]
        if now < running:
            ended.append(tuple(s[now:] for s in state))
            state = tuple(s[:now] for s in state)
        state = step(g, state, *weights)
        outputs.append(state[0])
    if ended:
        state = tuple(cat(parts) for parts in zip(state, *reversed(ended), strict=True))
    return outputs, state


def _backwards(
    step: Callable[..., State], gates: Sequence[Tensor], first: State, weights: Weights
) -> tuple[list[Tensor], State]:
    """Run from the last step to the first: shorter sequences join when their ends are reached."""
    outputs: list[Tensor] = []
    running = gates[-1].shape[0]
    state = first if running == first[0].shape[0] else tuple(s[:running] for s in first)
    for g in reversed(gates):
        now = g.shape[0]
        if now > running:
            state = tuple(cat((s, new[running:now])) for s, new in zip(state, first, strict=True))
            running = now
        state = step(g, state, *weights)
        outputs.append(state[0])
    return outputs[::-1], state


# ----- a layer as one op ----------------------------------------------------------------------------------------------


def _runs_as_one_op(rows: Tensor, first: State, weights: Weights) -> bool:
    """True if a layer runs as one op (ndgrad._src.ops.recurrent_layer) after the products of its input.

    On a device that is outside of transforms, whose rules are those of single steps. On the CPU it needs plain tensors
    of one dtype, float32 or float64. A compiled function is traced step by step there, and its loop is compiled.
    Autocast and subclasses of tensors act on the products of each step.
    """
    w_hh, b_hh, w_hr = weights
    if w_hr is not None:
        return False
    if rows.device.type == "cuda":
        now = modes()
        return np_dtype(rows).kind in FLOATING and not (now.levels or now.dual_levels or now.function_modes)
    tensors = [rows, *first, w_hh, *([] if b_hh is None else [b_hh])]
    return (
        rows.dtype in (float32, float64)
        and current_tracer.get() is None
        and not is_autocast_enabled("cpu")
        and all(type(t) in (Tensor, Parameter) and t.dtype == rows.dtype and t.device.type == "cpu" for t in tensors)
    )


def _run_layer(
    mode: str, rows: Tensor, first: State, weights: Weights, sizes: list[int], backwards: bool
) -> tuple[Tensor, State]:
    """Run a layer by one op; under autocast in the dtype of the input's products, as torch does."""
    dtype = rows.dtype
    parts = [t if t is None or t.dtype == dtype else t.to(dtype) for t in (*first, *weights[:2])]
    state, (w, b) = parts[:-2], parts[-2:]
    cell = state[1] if mode == "LSTM" else None
    keeps = rows.device.type == "cuda" and dtype in (float32, float64) and device_kernels.kernels() is not None
    settings = {"mode": mode, "sizes": tuple(sizes), "reverse": backwards, "keeps": keeps}
    out, h, c, *_ = recurrent_layer.eager(rows, state[0], cell, w, b, **settings)
    return out, (h, c) if mode == "LSTM" else (h,)


class RNNBase(Module):
    """Base class of RNN, LSTM and GRU: layers, directions, weights and their names.

    Args:
        mode: kind of step, `"RNN_TANH"`, `"RNN_RELU"`, `"LSTM"` or `"GRU"`.
        input_size: number of features of an input.
        hidden_size: number H of features of the state.
        num_layers: number of layers, each of which reads the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs have the batch first, (N, T, features). States do not change.
        dropout: probability that an output of a layer but the last is dropped in training.
        bidirectional: whether each layer also runs backwards. Outputs of both directions are concatenated.
        proj_size: number of features to which each output of an LSTM is projected, or 0 for no projection.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> output, last = ndgrad.nn.RNNBase("GRU", 3, 5)(ndgrad.zeros(7, 2, 3))
    >>> output.shape
    ndgrad.Size([7, 2, 5])
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        if mode not in _STEPS:
            raise ValueError(f"Unrecognized RNN mode: {mode!r}. Choose one of {', '.join(_STEPS)}. [nd-option]")
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being "
                f"zeroed, but is {dropout!r}. [nd-range]"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                (
                    "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                    f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}"
                ),
                stacklevel=3,
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}. [nd-type]")
        for name, value in (("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero, but is {value}. [nd-range]")
        if proj_size < 0:
            raise ValueError(
                f"proj_size should be a positive integer or zero to disable projections, but is {proj_size}. [nd-range]"
            )
        if proj_size and mode != "LSTM":
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU. [nd-exclusive]")
        if proj_size >= hidden_size:
            raise ValueError(
                f"proj_size has to be smaller than hidden_size: {proj_size} is not smaller than {hidden_size}. "
                "[nd-range]"
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        self._make_weights(device, dtype)
        self.reset_parameters()

    def _make_weights(self, device: Device, dtype: Dtype) -> None:
        rows, out = _GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        for layer in range(self.num_layers):
            for suffix in ("", "_reverse")[:directions]:
                columns = self.input_size if layer == 0 else out * directions
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, out)}
                if self.bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if self.proj_size:
                    shapes["weight_hr"] = (self.proj_size, self.hidden_size)
                names = []
                for kind, shape in shapes.items():
                    names.append(f"{kind}_l{layer}{suffix}")
                    setattr(self, names[-1], new_parameter(*shape, device=device, dtype=dtype))
                self._all_weights.append(names)

    def reset_parameters(self) -> None:
        """Fill with uniform numbers up to 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[self._weight(name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [self._weight(name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Sequence[Any]) -> None:
        # The tensors to compute with, in place of parameters, as libraries that compute weights set them.
        self.__dict__["_given_weights"] = dict(zip(self._flat_weights_names, weights, strict=True))

    def _weight(self, name: str) -> Any:
        given = self.__dict__.get("_given_weights")
        return getattr(self, name) if given is None or name not in given else given[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_flat_weights":  # a property; Module's own method would register the tensors
            object.__setattr__(self, name, value)
            return
        self.__dict__.get("_given_weights", {}).pop(name, None)
        super().__setattr__(name, value)

    def flatten_parameters(self) -> None:
        """Do nothing: torch arranges the weights for its GPU kernels here."""

    # ----- checks -----

    @property
    def _state_sizes(self) -> tuple[int, ...]:
        """Return the sizes of the state's parts: of the output and, for LSTM, of the cell."""
        out = self.proj_size or self.hidden_size
        return (out, self.hidden_size) if self.mode == "LSTM" else (out,)

    def _check_input(self, input: Tensor | PackedSequence) -> None:
        name = type(self).__name__
        if not isinstance(input, PackedSequence) and input.dim() not in (2, 3):
            raise ValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}D (shape {tuple(input.shape)}) instead. "
                "[nd-ndim]"
            )
        data = input.data if isinstance(input, PackedSequence) else input
        weight = self._flat_weights[0]
        if data.dtype != weight.dtype:
            raise ValueError(
                f"{name}: RNN input dtype ({data.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert the input with .to({weight.dtype}), or the model with .to({data.dtype}). [nd-dtype-mismatch]"
            )
        if data.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {data.shape[-1]}. [nd-shape]"
            )

    def _check_state(self, state: State, batch: int, unbatched: bool) -> State:
        """Return the initial state with a batch dimension, or raise an error that states the expected shape."""
        name, dims = type(self).__name__, 2 if unbatched else 3
        if any(s.dim() != dims for s in state):
            kind = f"unbatched {dims}-D" if unbatched else f"batched {dims}-D"
            found = ", ".join(f"{s.dim()}-D" for s in state)
            raise RuntimeError(
                f"{name}: For {kind} input, the hidden state should also be {dims}-D but got {found}. [nd-ndim]"
            )
        if unbatched:
            state = tuple(s.unsqueeze(1) for s in state)
        layers = self.num_layers * (2 if self.bidirectional else 1)
        for number, (s, size) in enumerate(zip(state, self._state_sizes, strict=True)):
            if tuple(s.shape) != (layers, batch, size):
                which = f"hidden[{number}]" if len(state) > 1 else "hidden"
                raise RuntimeError(
                    f"{name}: Expected {which} size {(layers, batch, size)}, got {list(s.shape)}. [nd-shape]"
                )
        return state

    # ----- the loop -----

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Run over a sequence.

        Args:
            input: tensor of shape (T, N, input_size), (N, T, input_size) with `batch_first`, or (T, input_size) for one
                sample; or a `PackedSequence`.
            hx: initial state of shape (layers * directions, N, H), for LSTM a pair (h, c). The default is zeros.

        Returns:
            The outputs of the last layer, of shape (T, N, directions * H) or packed like the input, and the last state.
        """
        self._check_input(input)
        packed = input if isinstance(input, PackedSequence) else None
        unbatched = packed is None and input.dim() == 2
        if packed is not None:
            data, sizes = packed.data, packed.batch_sizes.tolist()
        else:
            padded = input.unsqueeze(1) if unbatched else input.transpose(0, 1) if self.batch_first else input
            if padded.shape[0] == 0:
                raise RuntimeError(
                    f"{type(self).__name__}: Expected sequence length to be larger than 0 in RNN. [nd-too-few]"
                )
            sizes = [padded.shape[1]] * padded.shape[0]
            data = padded.reshape(-1, padded.shape[-1])
        state = self._first_state(hx, data, sizes[0], unbatched, packed)
        data, last = self._layers(data, sizes, state)
        if packed is not None:
            output: Any = PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
            if packed.unsorted_indices is not None:
                last = tuple(s.index_select(1, packed.unsorted_indices) for s in last)
        else:
            output = data.reshape(len(sizes), sizes[0], -1)
            if unbatched:
                output, last = output.squeeze(1), tuple(s.squeeze(1) for s in last)
            elif self.batch_first:
                output = output.transpose(0, 1)
        return output, (last if len(last) > 1 else last[0])

    def _first_state(
        self, hx: Any, data: Tensor, batch: int, unbatched: bool, packed: PackedSequence | None
    ) -> State:
        if hx is None:
            layers = self.num_layers * (2 if self.bidirectional else 1)
            return tuple(zeros(layers, batch, size, dtype=data.dtype, device=data.device) for size in self._state_sizes)
        parts = tuple(hx) if self.mode == "LSTM" else (hx,)
        if len(parts) != len(self._state_sizes):
            raise RuntimeError(
                f"LSTM: expected the hidden state as a pair (h, c), but got {len(parts)} parts. [nd-type]"
            )
        state = self._check_state(parts, batch, unbatched)
        if packed is not None and packed.sorted_indices is not None:
            state = tuple(s.index_select(1, packed.sorted_indices) for s in state)
        return state

    def _layers(self, data: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
        """Run all layers over rows of data, `sizes` of them per step; return the rows of output and the last states."""
        step, directions = _STEPS[self.mode], 2 if self.bidirectional else 1
        lasts: list[State] = []
        even = sizes[0] == sizes[-1]
        for layer in range(self.num_layers):
            if layer and self.dropout:
                data = F.dropout(data, self.dropout, self.training)
            outputs = []
            for direction in range(directions):
                place = layer * directions + direction
                w_ih, w_hh, b_ih, b_hh, w_hr = self._weights(place)
                first = tuple(s[place] for s in state)
                if self.mode != "GRU" and b_ih is not None and b_hh is not None:
                    b_ih, b_hh = b_ih + b_hh, None  # a step adds both to the same sum
                rows, weights = F.linear(data, w_ih, b_ih), (w_hh, b_hh, w_hr)
                if _runs_as_one_op(rows, first, weights):
                    out, last = _run_layer(self.mode, rows, first, weights, sizes, direction == 1)
                else:
                    if even:
                        rows = rows.reshape(len(sizes), sizes[0], -1)
                    gates = rows.unbind(0) if even else rows.split(sizes)
                    parts, last = _run_steps(step, gates, first, weights, backwards=direction == 1)
                    out = cat(parts)
                outputs.append(out)
                lasts.append(last)
            data = outputs[0] if directions == 1 else cat(outputs, -1)
        return data, tuple(stack(parts) for parts in zip(*lasts, strict=True))

    def _weights(self, place: int) -> tuple[Any, ...]:
        by_kind = {name.rsplit("_l", 1)[0]: self._weight(name) for name in self._all_weights[place]}
        return tuple(by_kind.get(kind) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"))

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """Run an Elman network over a sequence.

    A step is `h = tanh(W_ih @ x + b_ih + W_hh @ h + b_hh)`.

    Args:
        input_size: number of features of an input.
        hidden_size: number H of features of the state.
        num_layers: number of layers, each of which reads the outputs of the one before.
        nonlinearity: `"tanh"` or `"relu"`.
        bias: whether there are biases.
        batch_first: whether inputs and outputs have the batch first, (N, T, features). States do not change.
        dropout: probability that an output of a layer but the last is dropped in training.
        bidirectional: whether each layer also runs backwards. Outputs of both directions are concatenated.
        proj_size: must be 0; only LSTM has projections.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> output, last = ndgrad.nn.RNN(3, 5)(ndgrad.zeros(7, 2, 3))
    >>> output.shape, last.shape
    (ndgrad.Size([7, 2, 5]), ndgrad.Size([1, 2, 5]))
    """

    if TYPE_CHECKING:  # the output is packed if the input is

        def forward(self, input: S, hx: Tensor | None = None) -> tuple[S, Tensor]: ...
        def __call__(  # type: ignore[override]  # a call is forward
            self, input: S, hx: Tensor | None = None
        ) -> tuple[S, Tensor]: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity {nonlinearity!r}. Select from 'tanh' or 'relu'. [nd-option]")
        mode, settings = "RNN_" + nonlinearity.upper(), (bias, batch_first, dropout, bidirectional, proj_size)
        super().__init__(mode, input_size, hidden_size, num_layers, *settings, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Run long short-term memory over a sequence. The state is a pair (h, c).

    A step is `c = f * c + i * g` and `h = o * tanh(c)`. The gates i, f, o are sigmoids and g is a tanh of affine maps
    of x and h.

    Args:
        input_size: number of features of an input.
        hidden_size: number H of features of the state.
        num_layers: number of layers, each of which reads the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs have the batch first, (N, T, features). States do not change.
        dropout: probability that an output of a layer but the last is dropped in training.
        bidirectional: whether each layer also runs backwards. Outputs of both directions are concatenated.
        proj_size: number of features to which each output is projected, or 0 for no projection.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> output, (h, c) = ndgrad.nn.LSTM(3, 5)(ndgrad.zeros(7, 2, 3))
    >>> output.shape, h.shape, c.shape
    (ndgrad.Size([7, 2, 5]), ndgrad.Size([1, 2, 5]), ndgrad.Size([1, 2, 5]))
    """

    if TYPE_CHECKING:  # the output is packed if the input is

        def forward(self, input: S, hx: tuple[Tensor, Tensor] | None = None) -> tuple[S, tuple[Tensor, Tensor]]: ...
        def __call__(  # type: ignore[override]  # a call is forward
            self, input: S, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[S, tuple[Tensor, Tensor]]: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        settings = (num_layers, bias, batch_first, dropout, bidirectional, proj_size)
        super().__init__("LSTM", input_size, hidden_size, *settings, device, dtype)


class GRU(RNNBase):
    """Run gated recurrent units over a sequence.

    A step is `h = (1 - z) * n + z * h`. The gates r, z are sigmoids of affine maps of x and h; `n = tanh(W_in @ x +
    b_in + r * (W_hn @ h + b_hn))`.

    Args:
        input_size: number of features of an input.
        hidden_size: number H of features of the state.
        num_layers: number of layers, each of which reads the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs have the batch first, (N, T, features). States do not change.
        dropout: probability that an output of a layer but the last is dropped in training.
        bidirectional: whether each layer also runs backwards. Outputs of both directions are concatenated.
        proj_size: must be 0; only LSTM has projections.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> output, last = ndgrad.nn.GRU(3, 5, bidirectional=True)(ndgrad.zeros(7, 2, 3))
    >>> output.shape, last.shape
    (ndgrad.Size([7, 2, 10]), ndgrad.Size([2, 2, 5]))
    """

    if TYPE_CHECKING:  # the output is packed if the input is

        def forward(self, input: S, hx: Tensor | None = None) -> tuple[S, Tensor]: ...
        def __call__(  # type: ignore[override]  # a call is forward
            self, input: S, hx: Tensor | None = None
        ) -> tuple[S, Tensor]: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        settings = (num_layers, bias, batch_first, dropout, bidirectional, proj_size)
        super().__init__("GRU", input_size, hidden_size, *settings, device, dtype)


# ----- cells ----------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """Base class of cells: the weights of one step of a recurrent network.

    Args:
        input_size: number of features of an input.
        hidden_size: number of features of the state.
        bias: whether there are biases.
        num_chunks: number of gates, each of size `hidden_size`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> isinstance(ndgrad.nn.GRUCell(3, 5), ndgrad.nn.RNNCellBase)
    True
    """

    nonlinearity = "tanh"
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter  # None with bias=False, as bias_hh
    bias_hh: Parameter

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = new_parameter(rows, input_size, device=device, dtype=dtype)
        self.weight_hh = new_parameter(rows, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter(rows, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill with uniform numbers up to 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, mode: str, input: Tensor, state: State | None) -> State:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{name}: Expected input to be 1D or 2D, got {input.dim()}D (shape {tuple(input.shape)}) instead. "
                "[nd-ndim]"
            )
        if state is not None and any(s.dim() not in (1, 2) for s in state):
            raise ValueError(
                f"{name}: Expected hidden to be 1D or 2D, got {', '.join(f'{s.dim()}D' for s in state)} instead. "
                "[nd-ndim]"
            )
        batched = input.dim() == 2
        own = input if batched else input.unsqueeze(0)
        if own.shape[1] != self.input_size:
            raise RuntimeError(
                f"{name}: input has inconsistent input_size: got {own.shape[1]} expected {self.input_size}. [nd-shape]"
            )
        if state is None:
            state = tuple(own.new_zeros((own.shape[0], self.hidden_size)) for _ in range(2 if mode == "LSTM" else 1))
        elif not batched:
            state = tuple(s.unsqueeze(0) if s.dim() == 1 else s for s in state)
        for number, s in enumerate(state):
            if s.shape[0] != own.shape[0]:
                raise RuntimeError(
                    f"{name}: Input batch size {own.shape[0]} doesn't match hidden{number} batch size {s.shape[0]}. "
                    "[nd-shape]"
                )
            if s.dim() != 2 or s.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"{name}: hidden{number} has inconsistent hidden_size: got {s.shape[-1]}, "
                    f"expected {self.hidden_size}. [nd-shape]"
                )
        gates = F.linear(own, self.weight_ih, self.bias_ih)
        made = _STEPS[mode](gates, state, self.weight_hh, self.bias_hh, None)
        return made if batched else tuple(s.squeeze(0) for s in made)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.nonlinearity != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """Run one step of an Elman network.

    Args:
        input_size: number of features of an input.
        hidden_size: number H of features of the state.
        bias: whether there are biases.
        nonlinearity: `"tanh"` or `"relu"`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.RNNCell(3, 5)(ndgrad.zeros(2, 3)).shape
    ndgrad.Size([2, 5])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state.

        Args:
            input: tensor of shape (N, input_size), or (input_size,) for one sample.
            hx: state of shape (N, H), or (H,). The default is zeros.
        """
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}. Select from 'tanh' or 'relu'. [nd-option]")
        return self._step("RNN_" + self.nonlinearity.upper(), input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """Run one step of an LSTM.

    Args:
        input_size: number of features of an input.
        hidden_size: number H of features of the state.
        bias: whether there are biases.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> h, c = ndgrad.nn.LSTMCell(3, 5)(ndgrad.zeros(2, 3))
    >>> h.shape, c.shape
    (ndgrad.Size([2, 5]), ndgrad.Size([2, 5]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next state.

        Args:
            input: tensor of shape (N, input_size), or (input_size,) for one sample.
            hx: pair (h, c) of states of shape (N, H), or (H,). The default is zeros.

        Returns:
            The pair (h, c).
        """
        h, c = self._step("LSTM", input, None if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """Run one step of a GRU.

    Args:
        input_size: number of features of an input.
        hidden_size: number H of features of the state.
        bias: whether there are biases.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.GRUCell(3, 5)(ndgrad.zeros(2, 3)).shape
    ndgrad.Size([2, 5])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state.

        Args:
            input: tensor of shape (N, input_size), or (input_size,) for one sample.
            hx: state of shape (N, H), or (H,). The default is zeros.
        """
        return self._step("GRU", input, None if hx is None else (hx,))[0]
