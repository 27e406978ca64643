"""Convolution, and half-precision attention, by cuDNN through its Python front end, if installed. Convolution also
works without it (ndgrad._src.compiler.cuda.cudnn_backend).

A plan is made for shapes, layouts and dtype when they are first met (milliseconds for a convolution, a second for the
first attention), and kept. A call then passes only addresses. Without a plan the result is None, and the kernels of
ndgrad._src.compiler.cuda compute it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays import determinism as repeatable
from ndgrad._src.arrays import gpu_switches, library
from ndgrad._src.arrays.correlation import Axis
from ndgrad._src.compiler.cuda import cudnn_backend, launch
from ndgrad._src.compiler.cuda.copies import in_order

#: cuDNN's names of dtypes, by their characters.
_NAMES = {"f": "FLOAT", "d": "DOUBLE", "e": "HALF", "E": "BFLOAT16"}
#: Maximum number of plans that are kept.
_MOST = 512
_BYTE = np.dtype(np.uint8)


@functools.lru_cache(maxsize=1)
def front_end() -> Any:
    """Return the module `cudnn`; None if it is not installed or cannot load the cuDNN library."""
    try:
        import cudnn

        cudnn.backend_version()
    except Exception:  # an import that fails half-way may raise anything
        return None
    return cudnn


def _is_wanted() -> bool:
    return bool(gpu_switches.cudnn.enabled) and front_end() is not None


# ----- plans ----------------------------------------------------------------------------------------------------------


class _Here(threading.local):
    """The handles of a thread by device, each with the stream that was last set."""

    def __init__(self) -> None:
        self.handles: dict[int, list[Any]] = {}


_here = _Here()


def handle(device: int) -> Any:
    """Return a handle of this thread on the current stream."""
    stream = library.device_library.cuda.get_current_stream().ptr
    found = _here.handles.get(device)
    if found is None:
        found = _here.handles[device] = [front_end().create_handle(), None]
    if found[1] != stream:
        front_end().set_stream(handle=found[0], stream=stream)
        found[1] = stream
    return found[0]


class Plan:
    """A graph of cuDNN with its chosen plan. Its tensors are numbered from 1 on."""

    def __init__(self, dtype: str, device: int) -> None:
        cudnn = front_end()
        self.device = device
        self._type = getattr(cudnn.data_type, _NAMES[dtype])
        single = cudnn.data_type.DOUBLE if dtype == "d" else cudnn.data_type.FLOAT
        self.graph = cudnn.pygraph(
            handle=handle(device), io_data_type=self._type, intermediate_data_type=single, compute_data_type=single
        )

    def input(self, uid: int, shape: Sequence[int], strides: Sequence[int], single: bool = False) -> Any:
        """Add a tensor that is read, of single precision if requested."""
        type = front_end().data_type.FLOAT if single else self._type
        return self.graph.tensor(
            name=f"t{uid}", uid=uid, dim=list(shape), stride=list(strides), data_type=type
        )

    def output(self, tensor: Any, uid: int, shape: Sequence[int], strides: Sequence[int], single: bool = False) -> None:
        """Set the layout of a result."""
        tensor.set_output(True).set_uid(uid).set_dim(list(shape)).set_stride(list(strides))
        if single:
            tensor.set_data_type(front_end().data_type.FLOAT)

    def build(self, exactly: bool = False) -> Plan:
        """Choose a plan. With `exactly`, tensor cores do not round single precision."""
        cudnn, graph = front_end(), self.graph
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        if exactly:
            graph.deselect_numeric_notes([cudnn.numerical_note.TENSOR_CORE])
        graph.check_support()
        graph.build_plans()
        self.workspace: int = graph.get_workspace_size()
        # This takes a third of the time of `execute`, which inspects arrays of many libraries.
        self._run = getattr(getattr(graph, "_lowered_graph", None), "_execute", None)
        return self

    def __call__(self, *arrays: Any) -> None:
        """Run it on arrays by their numbers."""
        addresses = {uid: a.data.ptr for uid, a in enumerate(arrays, 1) if a is not None}
        workspace = launch.new((self.workspace,), _BYTE).data.ptr if self.workspace else 0
        here = handle(self.device)
        if self._run is None:
            self.graph.execute(addresses, workspace, handle=here)
        else:
            self._run(addresses, workspace, here.backend_handle, None, None, None)


def _planned(make: Callable[..., Any]) -> Callable[..., Any]:
    """Cache the result of a function by its arguments; None if cuDNN has no plan."""

    @functools.lru_cache(maxsize=_MOST)
    def find(*key: Any) -> Any:
        try:
            return make(*key)
        except Exception:  # errors of many classes, which all mean that there is no plan
            return None

    return find


def _strides(a: Any) -> tuple[int, ...]:
    item = a.dtype.itemsize
    return tuple([s // item for s in a.strides])


def _dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    steps = [1]
    for n in reversed(shape[1:]):
        steps.append(steps[-1] * n)
    return tuple(reversed(steps))


# ----- convolution ----------------------------------------------------------------------------------------------------

_Geometry = tuple[tuple[int, ...], ...]


def _convolution(
    kind: str, char: str, device: int, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], how: _Geometry,
    exactly: bool,
) -> Plan:  # fmt: skip
    plan = Plan(char, device)
    shapes = {1: x, 2: w, 3: y}
    settings = {"pre_padding": list(how[0]), "post_padding": list(how[1]), "stride": list(how[2]), "dilation": list(how[3])}

    def add_input(uid: int) -> Any:
        return plan.input(uid, shapes[uid], _dense_strides(shapes[uid]))

    if kind == "forward":
        made, uid = plan.graph.conv_fprop(image=add_input(1), weight=add_input(2), **settings), 3
    elif kind == "input":
        made, uid = plan.graph.conv_dgrad(loss=add_input(3), filter=add_input(2), **settings), 1
    else:
        made, uid = plan.graph.conv_wgrad(image=add_input(1), loss=add_input(3), **settings), 2
    plan.output(made, uid, shapes[uid], _dense_strides(shapes[uid]))
    return plan.build(exactly)


def convolution_switches() -> tuple[bool, bool, bool]:
    """Return the settings that plans of convolutions depend on in addition to arrays.

    They are: cuDNN may be used, single precision may be rounded for tensor cores, each run must have the same result.
    """
    switches = gpu_switches.cudnn
    return switches.enabled, switches.allow_tf32, repeatable.demand != "no"


def convolution(
    kind: str, like: Any, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], axes: tuple[Axis, ...]
) -> Any:
    """Return a plan for a convolution ("forward": y from x and w) or one of its adjoints; None if there is none.

    The adjoints are "input" (x from y and w) and "weight" (w from x and y). Arrays are contiguous, of these shapes, and
    the plan is run on (x, w, y).
    """
    enabled, allow_tf32, repeatably = convolution_switches()
    char, device = like.dtype.char, like.data.device_id
    return _find_plan(kind, char, device, x, w, y, axes, char == "f" and not allow_tf32, repeatably) if enabled else None


@functools.lru_cache(maxsize=_MOST)
def _find_plan(
    kind: str, char: str, device: int, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], axes: tuple[Axis, ...],
    exactly: bool, repeatably: bool,
) -> Any:  # fmt: skip
    """Find the plan of `convolution` for such arrays."""
    if front_end() is None and cudnn_backend.functions() is None:
        return None
    before = tuple([a.before for a in axes])
    after = tuple([(a.out - 1) * a.stride + (a.taps - 1) * a.dilation + 1 - a.size - a.before for a in axes])
    after = tuple([max(0, n) if n > -a.stride else n for n, a in zip(after, axes, strict=True)])  # unread inputs
    if min(after) < 0:
        return None
    how: _Geometry = (before, after, tuple([a.stride for a in axes]), tuple([a.dilation for a in axes]))
    if len(axes) == 1:  # cuDNN has only two or three dimensions
        x, w, y = ((*s[:2], 1, s[2]) for s in (x, w, y))
        how = tuple([(k, n[0]) for k, n in zip((0, 0, 1, 1), how, strict=True)])
    try:
        if front_end() is not None:
            return _convolution(kind, char, device, x, w, y, how, exactly)
        before, after, stride, dilation = how
        return cudnn_backend.Convolution(kind, char, device, (x, w, y), before, after, stride, dilation, exactly, repeatably)
    except Exception:  # errors of many classes, which all mean that there is no plan
        return None


# ----- attention ------------------------------------------------------------------------------------------------------

_Layout = tuple[tuple[int, ...], tuple[int, ...]]


@_planned
def _forward(char: str, device: int, q: _Layout, k: _Layout, v: _Layout, o: _Layout, causal: bool, scale: float) -> Plan:
    plan = Plan(char, device)
    o_made, stats = plan.graph.sdpa(
        q=plan.input(1, *q), k=plan.input(2, *k), v=plan.input(3, *v), generate_stats=True, attn_scale=scale,
        use_causal_mask=causal,
    )  # fmt: skip
    plan.output(o_made, 4, *o)
    shape = (*q[0][:3], 1)
    plan.output(stats, 5, shape, _dense_strides(shape), single=True)
    return plan.build()


@_planned
def _backward(
    char: str, device: int, inputs: tuple[_Layout, ...], outputs: tuple[_Layout, ...], causal: bool, scale: float,
    repeatable: bool,
) -> Plan:  # fmt: skip
    plan = Plan(char, device)
    q, k, v, o, g = inputs
    shape = (*q[0][:3], 1)
    made = plan.graph.sdpa_backward(
        q=plan.input(1, *q), k=plan.input(2, *k), v=plan.input(3, *v), o=plan.input(4, *o),
        stats=plan.input(5, shape, _dense_strides(shape), single=True), dO=plan.input(6, *g),
        attn_scale=scale, use_causal_mask=causal, use_deterministic_algorithm=repeatable,
    )  # fmt: skip
    for uid, (tensor, layout) in enumerate(zip(made, outputs, strict=True), 7):
        plan.output(tensor, uid, *layout)
    return plan.build()


def _four(a: Any) -> Any:
    """Return an array as (samples, heads, length, size), with contiguous elements as cuDNN requires."""
    lead = a.shape[:-2]
    if len(lead) != 2:
        a = a.reshape(-1, lead[-1] if lead else 1, *a.shape[-2:])
    item = a.dtype.itemsize
    aligned = all(place % 16 == 0 for place in (*a.strides[:-1], a.data.ptr))
    if a.strides[-1] == item and aligned and min(a.strides) > 0:
        return a
    return in_order(a)


def _like(a: Any, size: int) -> Any:
    """Return a new array with the layout of another, and other lengths of rows."""
    samples, heads, length, _ = a.shape
    if a.strides[1] < a.strides[2]:
        return launch.new((samples, length, heads, size), a.dtype).swapaxes(1, 2)
    return launch.new((samples, heads, length, size), a.dtype)


def _layout(a: Any) -> _Layout:
    return a.shape, _strides(a)


def takes_attention(q: Any, v: Any) -> bool:
    """True if cuDNN may have a plan for attention of such arrays."""
    sizes = q.shape[-1], v.shape[-1]
    return q.dtype.char in "eE" and max(sizes) <= 128 and not any(n % 8 for n in sizes) and _is_wanted()


def attention(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> Any:
    """Return softmax(q k' scale) v; None without a plan."""
    shape = (*q.shape[:-1], v.shape[-1])
    found = _attended(_four(q), _four(k), _four(v), is_causal, scale)
    return None if found is None else found[0].reshape(shape)


def _attended(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, Any] | None:
    """Return the result, and for each query the logarithm of the sum of its exponentials."""
    out = _like(q, v.shape[3])
    plan = _forward(
        q.dtype.char, q.data.device_id, _layout(q), _layout(k), _layout(v), _layout(out), is_causal, scale
    )
    if plan is None:
        return None
    stats = launch.new((*q.shape[:3], 1), launch.SINGLE)
    plan(q, k, v, out, stats)
    return out, stats


def attention_gradients(g: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, ...] | None:
    """Return the gradients in q, k and v; None without a plan. The forward values are computed again."""
    shapes = [a.shape for a in (q, k, v)]
    g, q, k, v = (_four(a) for a in (g, q, k, v))
    found = _attended(q, k, v, is_causal, scale)
    if found is None:
        return None
    grads = [_like(a, a.shape[3]) for a in (q, k, v)]
    inputs = tuple([_layout(a) for a in (q, k, v, found[0], g)])
    outputs = tuple([_layout(a) for a in grads])
    plan = _backward(
        q.dtype.char, q.data.device_id, inputs, outputs, is_causal, scale, repeatable.demand != "no"
    )
    if plan is None:
        return None
    plan(q, k, v, *found, g, *grads)
    return tuple([a.reshape(shape) for a, shape in zip(grads, shapes, strict=True)])
