"""Counts of floating-point operations of a block: products, convolutions and attention, as torch counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ndgrad._src.core.op_observers import DispatchMode, InPlaceForm
from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.flops import flops_of
from ndgrad._src.ops.table import Op
from ndgrad.nn import Module
from ndgrad.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ndgrad.ops.aten import Packet

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

#: Formulas of the user: op -> function of the arguments and `out_val`.
flop_registry: dict[Any, Callable[..., int]] = {}


def _unpack(op: Any) -> Any:
    """Return the object that modes see for an op, a packet or an overload."""
    if isinstance(op, (Packet, Op, InPlaceForm)):
        return op.op if isinstance(op, Packet) else op
    return getattr(op, "overloadpacket", op)


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that registers the count of an op.

    The decorated function takes the shapes of the arguments and `out_shape`.

    Args:
        targets: op, or list of ops.
        get_raw: whether the function takes the arguments and `out_val` themselves.

    >>> import ndgrad
    >>> from ndgrad.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
    >>> @register_flop_formula(ndgrad.ops.aten.sin)
    ... def count(x_shape, out_shape=None, **settings):
    ...     return 10 * x_shape[0]
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = ndgrad.ones(3).sin()
    >>> counter.get_total_flops()
    30
    >>> flop_registry.clear()
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            flop_registry[_unpack(target)] = formula if get_raw else _on_shapes(formula)
        return formula

    return register


def _on_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    def shape_of(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)([shape_of(v) for v in value])
        return value.shape if isinstance(value, Variable) else value

    def run(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return formula(*[shape_of(a) for a in args], out_shape=shape_of(out_val), **kwargs)

    return run


class FlopCounterMode(DispatchMode):
    """Counts the floating-point operations of a block, in total and per module. Operations of a backward pass count
    as global ones.

    Args:
        mods: module or modules whose names are used. Others are named by their class when they run.
        depth: depth of the printed table.
        display: whether a table is printed at the end of the block.
        custom_mapping: further counts by op, as for `register_flop_formula`.

    >>> import ndgrad
    >>> from ndgrad.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = ndgrad.nn.Sequential(ndgrad.nn.Linear(4, 8))(ndgrad.ones(3, 4))
    >>> counter.get_total_flops(), list(counter.get_flop_counts())
    (192, ['Global', 'Sequential', 'Sequential.0'])
    """

    def __init__(
        self,
        mods: Module | list[Module] | None = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        self.depth, self.display = depth, display
        own = custom_mapping or {}
        self._formulas = {_unpack(op): f if getattr(f, "_get_raw", False) else _on_shapes(f) for op, f in own.items()}
        self._counts: dict[str, dict[Any, int]] = {}
        self._open: list[str] = []
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []
        for root in [] if mods is None else [mods] if isinstance(mods, Module) else mods:
            self._add_names(root)

    def _add_names(self, root: Module) -> None:
        name = type(root).__name__
        for path, module in root.named_modules():
            self._names[id(module)] = f"{name}.{path}" if path else name

    def __enter__(self) -> Self:
        self._counts = {"Global": {}}
        self._open = []

        def enter(module: Module, args: Any) -> None:
            if id(module) not in self._names:
                self._add_names(module)
            self._open.append(self._names[id(module)])

        def leave(module: Module, args: Any, out: Any) -> None:
            if self._open:
                self._open.pop()

        self._handles = [
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *error: object) -> Any:
        for handle in self._handles:
            handle.remove()
        result = super().__exit__(*error)
        if self.display and error[0] is None:
            print(self.get_table(self.depth))
        return result

    def __ndgrad_dispatch__(
        self, func: Any, types: tuple[type[Any], ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        count = self._count(func, args, named, out)
        if count:
            key = Packet(func) if isinstance(func, Op) else _unpack(func)
            for name in dict.fromkeys(("Global", *self._open)):
                own = self._counts.setdefault(name, {})
                own[key] = own.get(key, 0) + count
        return out

    def _count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
        formula = self._formulas.get(_unpack(func)) or flop_registry.get(_unpack(func))
        if formula is not None:
            return int(formula(*args, **kwargs, out_val=out))
        if not isinstance(func, Op) or func.elementwise:  # torch counts products only
            return 0
        first = out[0] if isinstance(out, (tuple, list)) and out else out
        shapes = [tuple(a.shape) for a in args if isinstance(a, Variable)]
        return flops_of(func.name, shapes, tuple(first.shape)) if isinstance(first, Variable) and shapes else 0

    def get_total_flops(self) -> int:
        """Return the number of operations of the block."""
        return sum(self._counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the numbers of operations by module and op."""
        return {name: dict(own) for name, own in self._counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return a table of the numbers by module, down to a depth.

        Args:
            depth: largest depth of modules. The default is that of the constructor.
        """
        most = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        lines = [f"{'Module':<40}{'FLOP':>16}{'% Total':>10}"]
        for name, own in self._counts.items():
            level = 0 if name == "Global" else name.count(".") + 1
            if level <= most:
                number = sum(own.values())
                lines.append(f"{'  ' * level + name:<40}{number:>16,}{100 * number / total:>9.2f}%")
        return "\n".join(lines)
