"""`ModuleTracker`: the names of the modules whose forward or backward is running."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable
from ndgrad.autograd.graph import register_multi_grad_hook
from ndgrad.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ndgrad.pytree import tree_leaves

if TYPE_CHECKING:
    from ndgrad._src.core.hooks import RemovableHandle
    from ndgrad.nn.modules.module import Module

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A block that keeps the qualified names of running modules in `parents`, which always contains "Global".

    In backward, a module runs from the gradients of its outputs to the gradients of its inputs.

    >>> import ndgrad
    >>> from ndgrad.utils.module_tracker import ModuleTracker
    >>> class Net(ndgrad.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.act = ndgrad.nn.ReLU()
    ...     def forward(self, x):
    ...         print(sorted(tracker.parents))
    ...         return self.act(x)
    >>> with ModuleTracker() as tracker:
    ...     y = Net()(ndgrad.ones(2))
    ['Global', 'Net']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[RemovableHandle] = []

    @property
    def is_bw(self) -> bool:
        """True inside a backward pass."""
        return thread.task is not None

    def _name(self, module: Module) -> str:
        """Return the name of a module: the one under its parent if the parent has run, otherwise its class."""
        known = self._names.get(module)
        if known is None:
            known = self._names[module] = type(module).__name__
        for child_name, child in module.named_children():
            self._names[child] = f"{known}.{child_name}"
        return known

    def _enter(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        tensors = [t for t in tree_leaves(args) if isinstance(t, Variable) and t.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, lambda grads: self.parents.discard(name)))

    def _leave(self, module: Module, args: Any, output: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        tensors = [t for t in tree_leaves(output) if isinstance(t, Variable) and t.requires_grad]
        if tensors:
            self._handles.append(
                register_multi_grad_hook(tensors, lambda grad: self.parents.add(name), mode="any")
            )

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for handle in self._handles[:2]:  # hooks on gradients end with their graphs
            handle.remove()
        self._handles = []
        self.parents = {"Global"}
