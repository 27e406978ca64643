"""`Module`: the base class of all networks, composed of its parts.

`registry` holds parameters, buffers and submodules, `hooks` the calls, `state` saving and loading. This file has
creation, modes, conversions and text.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Self, cast

from ndgrad._src.arrays import dtypes
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.functions.convert import _read_to, convert_tensor
from ndgrad._src.tensor.functions.creation import empty, empty_like
from ndgrad.nn.modules.hooks import (
    Hooked,
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from ndgrad.nn.modules.registry import (
    _REGISTRATION_HOOKS,
    Registry,
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ndgrad.nn.modules.state import EXTRA, Stateful
from ndgrad.nn.modules.state import _IncompatibleKeys as _IncompatibleKeys
from ndgrad.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

# torch's names in this file
_EXTRA_STATE_KEY_SUFFIX = EXTRA
_global_parameter_registration_hooks = _REGISTRATION_HOOKS["parameter"]
_global_buffer_registration_hooks = _REGISTRATION_HOOKS["buffer"]
_global_module_registration_hooks = _REGISTRATION_HOOKS["module"]


class Module(Hooked, Stateful, Registry):
    """A function with parameters. A subclass creates its parts in `__init__` and computes in `forward`.

    Args:
        *args, **kwargs: must be empty, unless `call_super_init` is set. They then go to the next base class.

    >>> import ndgrad
    >>> from ndgrad import nn
    >>> class Network(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(2, 8)
    ...         self.out = nn.Linear(8, 1)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).tanh())
    >>> network = Network()
    >>> network(ndgrad.zeros(5, 2)).shape
    ndgrad.Size([5, 1])
    >>> [name for name, _ in network.named_parameters()]
    ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
    """

    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = (
                f"{len(args) + 1} positional arguments were given"
                if args
                else f"an unexpected keyword argument '{next(iter(kwargs))}'"
            )
            raise TypeError(
                f"{type(self).__name__}.__init__() takes no arguments of its own, but got {what}. [nd-module]"
            )
        # Write to the instance's dict directly: __setattr__ uses dictionaries that do not exist yet.
        own = self.__dict__
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        own["_non_persistent_buffers_set"] = set()
        self._init_hooks()
        self._init_state_hooks()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        own = self.__dict__
        for name in ("_parameters", "_buffers", "_modules"):
            own.setdefault(name, {})
        own.setdefault("_non_persistent_buffers_set", set())
        self._init_hooks()
        self._init_state_hooks()

    if TYPE_CHECKING:
        forward: Callable[..., Any]  # subclasses may take any arguments; calls are typed by it (see hooks)
    else:

        def forward(self, *input: Any) -> Any:
            """Compute the result of the module; subclasses define it.

            Args:
                *input: arguments of a call.
            """
            raise NotImplementedError(
                f'Module [{type(self).__name__}] is missing the required "forward" function. Define it in the class. '
                "[nd-define]"
            )

    def share_memory(self) -> Self:
        """Move parameters and buffers into memory that other processes can share.

        >>> import ndgrad
        >>> ndgrad.nn.Linear(2, 1).share_memory().weight.is_shared()
        True
        """
        for t in (*self.parameters(), *self.buffers()):
            t.share_memory_()
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile calls of this module in place, hooks included.

        A copy of the module, or one that is loaded from a file, is not compiled.

        Args:
            *args, **kwargs: arguments of `ndgrad.compile` after the function.

        >>> import ndgrad
        >>> layer = ndgrad.nn.ReLU()
        >>> layer.compile()
        >>> layer(ndgrad.tensor([-1.0, 1.0]))
        tensor([0., 1.])
        """
        from ndgrad._src.compiler.runtime.entry import compile  # avoids an import cycle

        compiled = compile(self._call_impl, *args, **kwargs)
        # With `disable=True`, or a backend that compiles nothing, the method is unchanged.
        self.__dict__["_compiled_call_impl"] = None if compiled == self._call_impl else compiled

    # ----- modes -----

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training or to evaluation.

        In training dropout drops elements, and batch normalisation uses and records statistics of the batch.

        Args:
            mode: True for training, False for evaluation.

        Returns:
            This module.

        >>> import ndgrad
        >>> ndgrad.nn.Dropout(0.5).train(False)(ndgrad.ones(2))
        tensor([1., 1.])
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, but is {mode!r}. Pass True or False. [nd-type]")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Switch to evaluation: `train(False)`.

        >>> import ndgrad
        >>> ndgrad.nn.Dropout(0.5).eval().training
        False
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters require gradients.

        Args:
            requires_grad: whether autograd records operations on the parameters.

        Returns:
            This module.

        >>> import ndgrad
        >>> ndgrad.nn.Linear(2, 1).requires_grad_(False).weight.requires_grad
        False
        """
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters: set them to None, or to zeros in place.

        Args:
            set_to_none: whether `grad` becomes None. False writes zeros into the present gradients.

        >>> import ndgrad
        >>> layer = ndgrad.nn.Linear(2, 1)
        >>> layer(ndgrad.ones(2)).backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    if p.grad.grad_fn is not None:
                        p.grad.detach_()
                    else:
                        p.grad.requires_grad_(False)
                    p.grad.zero_()

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call a function with every submodule and then with this module, for example to initialise weights.

        Args:
            fn: function of a module. Its result is ignored.

        Returns:
            This module.

        >>> import ndgrad
        >>> _ = ndgrad.nn.Sequential(ndgrad.nn.ReLU()).apply(lambda module: print(type(module).__name__))
        ReLU
        Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ----- conversions -----

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the contents of every tensor by `fn` of it; parameters keep their identity."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for p in self._parameters.values():
            if p is None:
                continue
            if is_lazy(p):
                p._convert(fn)
                continue
            with no_grad():
                converted, grad = fn(p), None if p.grad is None else fn(p.grad)
            if converted is p and grad is p.grad:
                continue
            wants_grad = p.grad is not None and p.grad.requires_grad
            p.grad = None  # its dtype or device would not fit for a moment
            p.data = converted
            if grad is not None:
                p.grad = grad.requires_grad_(wants_grad)
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                buffer._convert(fn)
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and convert parameters and buffers, in place.

        Forms of the call are `to(dtype)`, `to(device)`, `to(device, dtype)` and `to(tensor)`. Integer buffers keep
        their dtype.

        Args:
            *args, **kwargs: a floating or complex dtype, a device, or a tensor that has both; `non_blocking` for copies
                that do not wait; `memory_format` for tensors of 4 or 5 dimensions.

        Returns:
            This module.

        >>> import ndgrad
        >>> ndgrad.nn.Linear(2, 1).to(ndgrad.float64).weight.dtype
        ndgrad.float64
        """
        dtype, device, _, order, non_blocking = _read_to(args, dict(kwargs))
        if dtype is not None:
            dtype = dtypes.as_dtype(dtypes.as_numpy_dtype(dtype))
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}. "
                    "[nd-dtype]"
                )
            if dtype.is_complex:
                warnings.warn(
                    (
                        "Complex modules are a new feature under active development whose design may change, and some "
                        "modules might not work as expected when using complex tensors as parameters or buffers."
                    ),
                    stacklevel=2,
                )

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            if order is not None and t.dim() in (4, 5):
                return convert_tensor(t, wanted, device, False, order, non_blocking)
            return convert_tensor(t, wanted, device, False, None, non_blocking)

        return self._apply(convert)

    def type(self, dst_type: Dtype) -> Self:
        """Convert all parameters and buffers, integer ones too.

        Args:
            dst_type: new dtype.

        Returns:
            This module.
        """
        return self._apply(lambda t: cast("Tensor", t.type(dst_type)))

    def _to_float(self, dtype: dtypes.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._to_float(dtypes.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._to_float(dtypes.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._to_float(dtypes.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._to_float(dtypes.bfloat16)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Device = None) -> Self:
        """Move all parameters and buffers to a GPU.

        Args:
            device: number of the GPU. The default is the current one.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Give all parameters and buffers memory on a device, without values.

        Args:
            device: new device.
            recurse: whether submodules are included.

        Returns:
            This module.
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    # ----- text -----

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return the text that `repr` shows in addition to the name and the submodules; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indent(repr(module), 2)}" for name, module in self._modules.items()]
        body = lines + children
        if not body:
            return f"{self._get_name()}()"
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(body) + "\n)"

    def _repr_html_(self) -> str:
        """Return the display in a notebook: a tree of modules that can be opened and closed, with parameter counts."""
        return self._tree_html("", is_open=True)

    def _tree_html(self, name: str, is_open: bool) -> str:
        """Return a part of that tree, with its name in the parent module; only the first two levels are open."""
        count = sum(p.numel() for p in self.parameters())
        extra = self.extra_repr().replace("\n", ", ")
        called = f"{escape(name)}: " if name else ""
        head = f"{called}<b>{escape(self._get_name())}</b>({escape(extra)}) <small>{count:,} parameters</small>"
        if not self._modules:
            return f"<div>{head}</div>"
        parts = (
            f"{escape(n)}: None" if module is None else module._tree_html(n, not name)
            for n, module in self._modules.items()
        )
        inside = "".join(f'<div style="margin-left:1.2em">{part}</div>' for part in parts)
        return f"<details{' open' if is_open else ''}><summary>{head}</summary>{inside}</details>"


def indent(text: str, spaces: int) -> str:
    """Indent all lines but the first."""
    first, newline, rest = text.partition("\n")
    return first + newline + textwrap.indent(rest, " " * spaces, lambda line: True) if newline else text


def new_parameter(*shape: int, device: Device = None, dtype: Dtype = None) -> Parameter:
    """Create a parameter without values, for a module to initialise."""
    return Parameter(empty(shape, device=device, dtype=dtype))


def settings_text(module: Module, *names: str) -> str:
    """Return settings as `extra_repr` shows them: 'alpha=1.0'; `inplace` only if it is set."""
    shown = [f"{name}={getattr(module, name)!r}" for name in names if name != "inplace"]
    if "inplace" in names and module.inplace:
        shown.append("inplace=True")
    return ", ".join(shown)
