"""torch's `utils.flop_counter`: floating-point operations of products of matrices and convolutions in a block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.ops.flops import flops_of
from ndgrad.nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ndgrad.utils._python_dispatch import TorchDispatchMode

__all__ = ["FlopCounterMode"]

#: Ops that have a count but are not counted in torch, which leaves out elementwise ops.
_ELEMENTWISE = ("add", "mul")


class FlopCounterMode(TorchDispatchMode):
    """Count the floating-point operations in a block: of products of matrices and convolutions, two for each
    multiplication and addition. The backward pass counts, too.

    `custom_mapping` maps further ops to functions `(*args, out_val=result) -> count`. Counts belong to the modules that
    are being called, down to `depth` names; a table is printed at the end of the block if `display` is true.

    >>> import ndgrad
    >>> from ndgrad.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = ndgrad.ones(3, 4) @ ndgrad.ones(4, 5)
    >>> counter.get_total_flops()
    120
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True,
        custom_mapping: dict[Any, Callable[..., int]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.depth, self.display = depth, display
        self.custom_mapping = dict(custom_mapping or {})
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        given = [mods] if isinstance(mods, Module) else list(mods or ())
        self._names = {
            id(m): f"{type(root).__name__}{'.' if name else ''}{name}"
            for root in given
            for name, m in root.named_modules()
        }
        self._open: list[str] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for hook in self._hooks:
            hook.remove()
        self._open.clear()
        super().__exit__(kind, error, trace)
        if self.display:
            print(self.get_table(self.depth))

    def _enter_module(self, module: Module, args: Any) -> None:
        self._open.append(self._names.get(id(module), type(module).__name__))

    def _leave_module(self, module: Module, args: Any, result: Any) -> None:
        if self._open:
            self._open.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        count = self._count(func, args, kwargs or {}, out)
        if count:
            for place in dict.fromkeys(["Global", *self._open]):
                self.flop_counts[place][func] += count
        return out

    def _count(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> int:
        for op, rule in self.custom_mapping.items():
            if op == func:
                return int(rule(*args, **kwargs, out_val=out))
        name = getattr(func, "name", "")
        if name in _ELEMENTWISE or not isinstance(out, Variable):
            return 0
        return flops_of(name, [tuple(a.shape) for a in args if isinstance(a, Variable)], tuple(out.shape))

    def get_total_flops(self) -> int:
        """Return the count of the block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the counts by module and op; "Global" has all of them."""
        return {place: dict(counts) for place, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as text, of modules down to `depth` names."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        lines = ["Module                          FLOP    % Total"]
        for place, counts in self.flop_counts.items():
            if place.count(".") < depth:
                count = sum(counts.values())
                lines.append(f"{place:<24} {count:>11} {100 * count / max(total, 1):>9.2f}%")
        return "\n".join(lines)


_refuse_absent(__name__)
