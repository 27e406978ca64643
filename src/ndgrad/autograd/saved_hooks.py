"""Hooks on saved tensors: what is kept for backward may be packed into anything else, and unpacked when needed.

Note [Pack and unpack]
A pack hook gets the tensor that is being saved and returns any object; the unpack hook gets that object and returns a
tensor. Hooks nest: the innermost pair is the one that counts. A pack hook sees the very tensor, so writing it in place would corrupt
the forward: that is refused by comparing versions. An output is packed detached, and gets its history back when unpacked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad.autograd.modes import enter, leave, thread
from ndgrad.autograd.saved import SavedTensor
from ndgrad.autograd.variable import Variable, meta_of, wrap
from ndgrad.autograd.versions import version_number


def pack(value: Any, hooks: tuple[tuple[Any, Any], ...]) -> Any:
    """A tensor that is being saved, through the innermost pack hook."""
    if not isinstance(value, Variable):
        return value
    pack_hook, unpack_hook = hooks[-1]
    return SavedTensor(_run_pack(pack_hook, value, hooks), unpack_hook)


def pack_output(node: Any, name: str, hooks: tuple[tuple[Any, Any], ...]) -> None:
    """As `pack`, for an output that the node holds as a bare array."""
    from ndgrad.tensor import Tensor

    pack_hook, unpack_hook = hooks[-1]
    bare = wrap(Tensor, getattr(node, name))
    number = int(name[3:] or 0)
    packed = _run_pack(pack_hook, bare, hooks)

    def unpack(value: Any) -> Any:
        made = unpack_hook(value)
        if isinstance(made, Variable) and thread.grad_enabled:
            made = wrap(made.face, made._array)
            made._node = node
            meta_of(made).output_nr = number
        return made

    setattr(node, name, SavedTensor(packed, unpack, is_output=True))


def _run_pack(hook: Callable[[Any], Any], value: Any, hooks: tuple[tuple[Any, Any], ...]) -> Any:
    before = version_number(value)
    was = thread.saved_hooks, thread.grad_enabled
    thread.saved_hooks, thread.grad_enabled = (), False
    try:
        packed = hook(value)
    finally:
        thread.saved_hooks, thread.grad_enabled = was
    if version_number(value) != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place: the forward pass still uses that tensor. "
            "Work on a clone(): pack = lambda t: t.clone().mul_(2)."
        )
    return packed


class saved_tensors_hooks:
    """A context in which saved tensors pass through a pair of hooks.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> with ndgrad.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), ndgrad.tensor):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if thread.saved_hooks_disabled is not None:
            raise RuntimeError(thread.saved_hooks_disabled)
        enter()
        thread.saved_hooks = (*thread.saved_hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(self, *exc: object) -> None:
        thread.saved_hooks = thread.saved_hooks[:-1]
        leave()


class save_on_cpu(saved_tensors_hooks):
    """A context in which saved tensors are kept on the CPU and brought back when needed."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks:
    """A context in which saved-tensor hooks may not be used; using them raises with `error_message`."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message
        self._stack: list[str | None] = []

    def __enter__(self) -> None:
        if thread.saved_hooks:
            raise RuntimeError(self.message)
        self._stack.append(thread.saved_hooks_disabled)
        thread.saved_hooks_disabled = self.message

    def __exit__(self, *exc: object) -> None:
        thread.saved_hooks_disabled = self._stack.pop()


class allow_mutation_on_saved_tensors:
    """A context in which writes to saved tensors first set the saved values aside, so that backward stays right."""

    def __init__(self) -> None:
        self._stack: list[bool] = []

    def __enter__(self) -> None:
        enter()
        self._stack.append(thread.copy_on_write)
        thread.copy_on_write = True

    def __exit__(self, *exc: object) -> None:
        thread.copy_on_write = self._stack.pop()
        leave()
