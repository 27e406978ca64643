"""Casts between dtypes, with the values that NumPy gives on x86.

Floats are truncated towards 0 when they become integers. Numbers out of range (and NaN) are undefined in C, in which
NumPy's casts are written. Here they give the values of x86 on every machine. The result is the least int64 or int32,
and narrower types are the low bits of the int32. An unsigned number of 32 or 64 bits has the bits of the signed one
below 2^31 or 2^63. From there on it has those of the excess, with the highest bit flipped. Anything but 0 is true.
"""

from __future__ import annotations

from ndgrad._src.compiler.native.ir import SIZES, TYPES, Function, Vector

_FLOATS = ("float32", "float64")


def cast(f: Function, value: str, source: str, target: str, lanes: int = 1) -> str:
    """Return a value of one dtype as another."""
    if source == target:
        return value
    have, want = Vector(TYPES[source], lanes), Vector(TYPES[target], lanes)
    if target == "bool":
        return _truth(f, value, source, have, lanes)
    if source in _FLOATS:
        if target in _FLOATS:
            return f.set(f"{'fpext' if target == 'float64' else 'fptrunc'} {have} {value} to {want}")
        return _to_integer(f, value, have, target, lanes)
    signed = source.startswith("int")
    if target in _FLOATS:
        return f.set(f"{'sitofp' if signed else 'uitofp'} {have} {value} to {want}")
    size, wanted = SIZES[have.element], SIZES[want.element]
    if size == wanted:
        return value
    return f.set(f"{'trunc' if size > wanted else 'sext' if signed else 'zext'} {have} {value} to {want}")


def _truth(f: Function, value: str, source: str, have: Vector, lanes: int) -> str:
    test = "fcmp une" if source in _FLOATS else "icmp ne"
    return f.set(f"zext {have.mask} {f.set(f'{test} {have} {value}, {have.constant(0)}')} to {Vector('i8', lanes)}")


def _to_integer(f: Function, value: str, have: Vector, target: str, lanes: int) -> str:
    want = Vector(TYPES[target], lanes)
    if target in ("uint32", "uint64"):
        width = 8 * SIZES[want.element]
        half = have.constant(2.0 ** (width - 1))
        high = f.set(f"fcmp oge {have} {value}, {half}")
        less = f.set(f"fsub {have} {value}, {half}")
        whole = _truncated(f, f.set(f"select {have.mask} {high}, {have} {less}, {have} {value}"), have, width, lanes)
        back = f.set(
            f"select {have.mask} {high}, {want} {want.constant(-(2 ** (width - 1)))}, {want} {want.constant(0)}"
        )
        return f.set(f"xor {want} {whole}, {back}")
    width = 64 if target == "int64" else 32
    whole = _truncated(f, value, have, width, lanes)
    wide = Vector(f"i{width}", lanes)
    return whole if want == wide else f.set(f"trunc {wide} {whole} to {want}")


def _truncated(f: Function, value: str, have: Vector, width: int, lanes: int) -> str:
    """Return a float as a signed integer; the least one if it does not fit."""
    want = Vector(f"i{width}", lanes)
    limit = 2.0 ** (width - 1)
    below = f.set(f"fcmp olt {have} {value}, {have.constant(limit)}")
    least = -limit - 1.0 if have.element == "double" and width == 32 else -limit
    above = f.set(f"fcmp {'ogt' if least < -limit else 'oge'} {have} {value}, {have.constant(least)}")
    fits = f.set(f"and {have.mask} {below}, {above}")
    safe = f.set(f"select {have.mask} {fits}, {have} {value}, {have} {have.constant(0.0)}")
    whole = f.set(f"fptosi {have} {safe} to {want}")
    return f.set(f"select {have.mask} {fits}, {want} {whole}, {want} {want.constant(-(2 ** (width - 1)))}")
