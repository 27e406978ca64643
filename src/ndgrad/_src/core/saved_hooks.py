"""Hooks on saved tensors: values kept for backward may be packed into any object, and unpacked when needed.

Note [Pack and unpack]
A pack hook gets the tensor that is being saved and returns any object; the unpack hook gets that object and returns a
tensor. Hooks nest: only the innermost pair applies. A pack hook sees the tensor itself, so an in-place write would
corrupt the forward; a comparison of versions detects and refuses it. An output is packed detached, and gets its history
back when unpacked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.borrowed_memory import Lent
from ndgrad._src.core.grad_mode import Mode
from ndgrad._src.core.modes import Block, Modes, SavedHooks, restore, scope, thread
from ndgrad._src.core.node import GENERAL
from ndgrad._src.core.saved import is_differentiable_output
from ndgrad._src.core.stored_tensors import Packed, keep_array, keep_lent
from ndgrad._src.core.variable import Variable, meta_of, wrap
from ndgrad._src.core.versions import version_number
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._src.core.saved import RuleNode
    from ndgrad._typing import Payload, Tensor


def pack(
    value: Variable | Packed,
    hooks: tuple[SavedHooks, ...],
    saving: tuple[Any, str],
    node: Node | None = None,
    number: int = 0,
) -> Packed:
    """Pass a tensor that is being saved through the innermost pack hook.

    `saving` is the node that saves, and the name of the value in its rules. With `node`, the tensor is output `number`
    of that node, and is packed without its history.
    """
    if not isinstance(value, Variable):
        return value
    pack_hook, unpack_hook, _ = hooks[-1]
    if node is not None:
        meta_of(value).output_nr = number
        value._node = node  # only during the hook: the object that it keeps must not hold the node
    try:
        made = Packed(run_pack(pack_hook, value, saving), unpack_hook, is_output=node is not None)
    finally:
        if node is not None:
            value._node = None
    made.watch(value, saving[0].level)
    # An unpack hook may ask for the running node, and register hooks on it.
    saving[0].route = max(saving[0].route, GENERAL)
    return made


def pack_input(value: Payload, hooks: tuple[SavedHooks, ...], saving: tuple[Any, str]) -> Payload:
    """Same as `pack`, for an argument, which may be in the user's memory (see Note [Lent memory])."""
    if not isinstance(value, Variable):
        return keep_array(value)
    return pack(keep_lent(value, value, hooked=True) if value._storage.__class__ is Lent else value, hooks, saving)


def pack_output(node: RuleNode, name: str, hooks: tuple[SavedHooks, ...], storage: Any) -> None:
    """Same as `pack`, for an output that the node holds as a bare array; `storage` belongs to the result tensor."""
    bare = wrap(registry.Tensor, getattr(node, name))
    bare._storage = storage
    if node.level:
        meta_of(bare).level = node.level  # an output without gradient has no node that stores the level of its payload
    setattr(node, name + "_s", storage)
    setattr(node, name + "_v", storage.version)
    made = pack(bare, hooks, (node, name), node if is_differentiable_output(node, name) else None, int(name[3:] or 0))
    made.is_output = True
    setattr(node, name, made)


def run_pack(hook: Callable[[Any], Any], value: Variable, saving: tuple[Any, str] | None) -> object:
    """Return the object that a pack hook makes from a tensor. It runs without hooks or recording; writes raise."""
    before = version_number(value)
    outside = scope()
    try:
        restore(outside.with_changes(grad_enabled=False, saved_hooks=(), saving=saving))
        packed = hook(value)
    finally:
        restore(outside)
        del outside
    if version_number(value) != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place: the forward pass still uses that tensor. "
            "Work on a clone(): pack = lambda t: t.clone().mul_(2). [nd-saved-hook]"
        )
    return packed


@set_module("ndgrad.autograd.graph")
class saved_tensors_hooks(Block):
    """A context manager in which saved tensors pass through a pair of hooks.

    Args:
        pack_hook: function of a tensor that is saved. Its result is kept in place of the tensor.
        unpack_hook: function of that result, which returns the tensor when backward needs it.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> with ndgrad.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), ndgrad.tensor):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    level: int | None = None  # see SavedHooks

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def begin(self) -> None:
        if thread.saved_hooks_disabled is not None:
            raise RuntimeError(thread.saved_hooks_disabled)

    def change(self, modes: Modes) -> None:
        """Add the hooks to those of a thread. Entering the block calls this method.

        Args:
            modes: modes of the thread, which are changed.
        """
        modes.entered += 1
        modes.saved_hooks = (*modes.saved_hooks, SavedHooks(self.pack_hook, self.unpack_hook, self.level))


@set_module("ndgrad.autograd.graph")
class save_on_cpu(saved_tensors_hooks):
    """A context manager that keeps saved tensors on the CPU and copies them back when needed.

    Args:
        pin_memory: accepted as in torch. It has no effect, because NumPy's memory cannot be pinned.
        device_type: accepted as in torch. It has no effect: tensors return to their own device.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with ndgrad.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


@set_module("ndgrad.autograd.graph")
class disable_saved_tensors_hooks(Mode):
    """A context manager or decorator that forbids saved-tensor hooks; using them raises with `error_message`.

    Args:
        error_message: message of the error.

    >>> import ndgrad
    >>> with ndgrad.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     y = ndgrad.ones(2, requires_grad=True) * 2
    """

    def __init__(self, error_message: str) -> None:
        super().__init__()
        self.message = error_message

    def fresh(self) -> Mode:
        return type(self)(self.message)

    def begin(self) -> None:
        if thread.saved_hooks:
            raise RuntimeError(self.message)

    def change(self, modes: Modes) -> None:
        """Forbid hooks in a thread. Entering the block calls this method.

        Args:
            modes: modes of the thread, which are changed.
        """
        modes.saved_hooks_disabled = self.message


@set_module("ndgrad.autograd.graph")
class allow_mutation_on_saved_tensors(Mode):
    """A context manager or decorator in which a write to a saved tensor first copies the saved values.

    Backward then stays correct. The copies belong to the graph and die with it, and backward may also run after the
    block.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> with ndgrad.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 1
    ...     z = (y**2).sum()
    ...     y.zero_()
    tensor([0., 0.], grad_fn=<ZeroBackward0>)
    >>> z.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    names_itself = True

    def begin(self) -> None:
        if thread.copy_on_write:
            raise RuntimeError(
                "allow_mutation_on_saved_tensors contexts cannot be nested: one is enough for everything inside it. "
                "[nd-saved-hook]"
            )

    def change(self, modes: Modes) -> None:
        """Switch copies on in a thread. Entering the block calls this method.

        Args:
            modes: modes of the thread, which are changed.
        """
        modes.entered += 1
        modes.copy_on_write = True

    def clear(self) -> None:
        """Do nothing, for compatibility with torch: the copies belong to the graph, not to the context."""
