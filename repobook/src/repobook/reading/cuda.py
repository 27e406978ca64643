"""CUDA: kernels, their launches with the configuration, and shared memory."""

import re
from bisect import bisect_right
from collections.abc import Iterable

from repobook.reading.engine import Scopes, Span
from repobook.reading.facts import Facts, Finding

SECTION = "cuda"
KERNEL, LAUNCH, SHARED = "kernel", "launch", "shared memory"
# `name<template arguments><<<`
_LAUNCH = re.compile(rb"([A-Za-z_][\w:]*)\s*(<[^;{}]{0,300}?>)?\s*<<<")
_VARIABLE = re.compile(rb"\s*(?:__align__\s*\([^)]*\)\s*)?([^;{}=]{1,200}?)\s*(?:=[^;]*)?;")
_EXTERN = re.compile(rb"extern\s*\Z")
_TITLES = ("grid", "block", "shared memory", "stream")
_MOST = 100


def read_cuda(
    source: bytes,
    lines: list[int],
    comments: list[Span],
    blanked: Iterable[tuple[str, int]],
    scopes: Scopes,
    facts: Facts,
) -> None:
    """Findings for each kernel, each launch `kernel<<<grid, block, shared memory, stream>>>` and each shared variable.

    `blanked` tells where the qualifiers stood that the parser does not see.
    """
    for name, at in blanked:
        if name == "__global__":
            _kernel(at, lines, facts)
        elif name == "__shared__":
            _add_shared_memory(source, at + len(name), lines, scopes, facts)
    if b"<<<" not in source:
        return
    starts = [start for start, _ in comments]
    for match in _LAUNCH.finditer(source):
        place = bisect_right(starts, match.start()) - 1
        if place >= 0 and match.start() < comments[place][1]:
            continue
        arguments = _split(source, match.end())
        if not arguments:
            continue
        given = [f"{title} {value}" for title, value in zip(_TITLES, arguments, strict=False) if value not in ("", "0")]
        name = match.group(1).decode("utf-8", "replace")
        _add(match.start(1), LAUNCH, f"{name}: {', '.join(given)}", lines, scopes, facts)


def _kernel(at: int, lines: list[int], facts: Facts) -> None:
    """The function behind `__global__` is the first whose name stands at or below it."""
    line = bisect_right(lines, at)
    below = [
        (symbol.line, local)
        for local, symbol in enumerate(facts.symbols)
        if symbol.kind in ("function", "method") and line <= symbol.line <= line + 12
    ]
    if below:
        local = min(below)[1]
        facts.findings.append(Finding(line, SECTION, KERNEL, facts.symbols[local].qualified, local))


def _add_shared_memory(source: bytes, at: int, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    match = _VARIABLE.match(source, at)
    if match is not None:
        text = " ".join(match.group(1).decode("utf-8", "replace").split())
        start = at - len("__shared__")
        dynamic = "dynamic: " if _EXTERN.search(source, max(0, start - 40), start) else ""
        _add(start, SHARED, dynamic + text, lines, scopes, facts)


def _add(at: int, rule: str, detail: str, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    facts.findings.append(Finding(bisect_right(lines, at), SECTION, rule, detail, scopes.find_owner(at)))


def _split(source: bytes, start: int) -> list[str]:
    """The arguments between `<<<` and `>>>`; none if they do not end near."""
    depth = 0
    found: list[str] = []
    begun = start
    for at in range(start, min(len(source), start + 1500)):
        byte = source[at : at + 1]
        if depth == 0 and source.startswith(b">>>", at):
            return [*found, _text(source[begun:at])]
        if byte in b"([{":
            depth += 1
        elif byte in b")]}":
            depth -= 1
        elif byte == b"," and depth == 0:
            found.append(_text(source[begun:at]))
            begun = at + 1
        elif byte == b";":
            return []
    return []


def _text(piece: bytes) -> str:
    text = " ".join(piece.decode("utf-8", "replace").split())
    return text if len(text) <= _MOST else text[:_MOST] + " …"
