"""A profile as a table, with formats of times and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

_GAP = "  "
_SOURCE = "Source Location"


def format_time(time_us: float) -> str:
    """Return a time in microseconds as text: 999.400us, 1.235s."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if time_us >= size:
            return f"{time_us / size:.3f}{unit}"
    return f"{time_us:.3f}us"


def _format_time_in(time_us: float, unit: str | None) -> str:
    sizes = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit is None:
        return format_time(time_us)
    if unit not in sizes:
        raise ValueError(f"time_unit is {unit!r}. Give 's', 'ms' or 'us', or leave it out. [nd-option]")
    return f"{time_us / sizes[unit]:.3f}{unit}"


def format_time_share(time_us: float, total_time_us: float) -> str:
    """Return a time in percent of another."""
    if total_time_us == 0:
        if time_us != 0:
            raise AssertionError(f"{time_us} us cannot be a share of 0 us [nd-bug]")
        return "NaN"
    return f"{100.0 * time_us / total_time_us:.2f}%"


def format_memory(nbytes: float) -> str:
    """Return a number of bytes as text, in steps of 1024."""
    for unit, size in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def _format_flops(flops: float) -> str:
    if not flops:
        return "--"
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if flops >= size:
            return f"{flops / size:.3f} {unit}"
    return f"{flops:.0f}"


class _Column(NamedTuple):
    title: str
    cells: list[str]
    widest: int = 10**9
    keeps_end: bool = False  # the end of a path is the most informative part


def _columns(
    shown: list[Any],
    total: float,
    widths: tuple[int, int, int],
    unit: str | None,
    memory: bool,
    flops: bool,
    device: bool = False,
) -> list[_Column]:
    """Return the columns of the table. Columns that would be empty in every row are left out."""

    def times(values: Iterable[float]) -> list[str]:
        return [_format_time_in(value, unit) for value in values]

    columns = [
        _Column("Name", [e.key for e in shown], widths[0]),
        _Column("Self CPU %", [format_time_share(e.self_cpu_time_total, total) for e in shown]),
        _Column("Self CPU", times(e.self_cpu_time_total for e in shown)),
        _Column("CPU total %", [format_time_share(e.cpu_time_total, total) if total else "NaN" for e in shown]),
        _Column("CPU total", times(e.cpu_time_total for e in shown)),
        _Column("CPU time avg", times(e.cpu_time for e in shown)),
    ]
    columns += _device_columns(shown, times) if device else []
    if memory:
        columns.append(_Column("CPU Mem", [format_memory(e.cpu_memory_usage) for e in shown]))
        columns.append(_Column("Self CPU Mem", [format_memory(e.self_cpu_memory_usage) for e in shown]))
        columns.append(_Column("Saved", [format_memory(e.saved_bytes) for e in shown]))
    columns.append(_Column("# of Calls", [str(e.count) for e in shown]))
    if any(e.input_shapes for e in shown):
        columns.append(_Column("Input Shapes", [str(e.input_shapes) for e in shown], widths[1]))
    if any(e.stack for e in shown):
        columns.append(_Column(_SOURCE, [e.stack[0] if e.stack else "" for e in shown], widths[2], keeps_end=True))
    if flops:
        columns.append(_Column("Total FLOPs", [_format_flops(e.flops or 0) for e in shown]))
    return columns


def _device_columns(shown: list[Any], times: Callable[[Iterable[float]], list[str]]) -> list[_Column]:
    """Return the columns for GPU time."""
    return [
        _Column("Self CUDA", times(e.self_device_time_total for e in shown)),
        _Column("CUDA total", times(e.device_time_total for e in shown)),
        _Column("CUDA time avg", times(e.device_time for e in shown)),
    ]


def _sizes(columns: list[_Column]) -> list[int]:
    """Return the width of each column: that of its longest cell, between its limits."""
    sizes = []
    for number, column in enumerate(columns):
        longest = max(len(cell) for cell in column.cells)
        sizes.append(min(max(longest, len(column.title), 12 if number else 0), column.widest))
    return sizes


def build_table(
    events: list[Any],
    *,
    total: float,
    row_limit: int = 100,
    widths: tuple[int, int, int] = (55, 80, 75),
    header: str | None = None,
    only_top: bool = False,
    time_unit: str | None = None,
    with_memory: bool = False,
    with_flops: bool = False,
    with_device: bool = False,
) -> str:
    """Return a table with a row per event, up to `row_limit`."""
    if not events:
        return ""
    shown = events if row_limit < 0 else events[:row_limit]
    columns = _columns(shown, total, widths, time_unit, with_memory, with_flops, with_device)
    sizes = _sizes(columns)
    rule = _GAP.join("-" * size for size in sizes) + _GAP
    lines = []
    if header is not None:
        lines += ["=" * len(rule), header, "=" * len(rule)]
    if only_top:
        lines.append("This report only shows calls that no other call contains")
    lines += [rule, _row([c.title for c in columns], columns, sizes), rule]
    for number, event in enumerate(shown):
        lines.append(_row([c.cells[number] for c in columns], columns, sizes))
        for frame in event.stack[1:]:
            lines.append(_row([frame if c.title == _SOURCE else "" for c in columns], columns, sizes))
    lines += [rule, f"Self CPU time total: {_format_time_in(total, time_unit)}"]
    if with_device:
        on_device = sum(event.self_device_time_total for event in events)
        lines.append(f"Self CUDA time total: {_format_time_in(on_device, time_unit)}")
    lines.append("")
    return "\n".join(lines)


def _row(cells: list[str], columns: list[_Column], sizes: list[int]) -> str:
    out = []
    for cell, column, size in zip(cells, columns, sizes, strict=True):
        if len(cell) > size:
            cell = "..." + cell[len(cell) - size + 3 :] if column.keeps_end else cell[: size - 3] + "..."
        out.append(f"{cell:>{size}}" if not column.keeps_end else f"{cell:<{size}}")
    return _GAP.join(out) + _GAP
