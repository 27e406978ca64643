"""Custom autograd functions of Python: the values that `forward` keeps on `ctx`, and their readers in `backward`.

A custom function is a class with a method `backward` whose first parameter is the context, usually named `ctx`, beside
`forward` or `setup_context`.
"""

import re
from bisect import bisect_right

from repobook.reading.engine import CLASSES, Scopes
from repobook.reading.facts import Facts, Finding, Symbol

CUSTOM_FUNCTION = "custom autograd function"

_PARAMETERS = re.compile(r"def\s+\w+\s*\(\s*(\w+)\s*[,:)]\s*")
_WRITERS = ("forward", "setup_context")
_READERS = ("backward", "vjp", "jvp", "vmap")
_USE = re.compile(rb"\b(\w+)\.(\w+)[ \t]*(=(?!=)|\+=|\()?")
_KEEPS = {
    "save_for_backward": "saves {} for `backward`",
    "save_for_forward": "saves {} for `jvp`",
    "mark_dirty": "marks {} as changed in place",
    "mark_non_differentiable": "marks {} as not differentiable",
}
_MOST = 120  # characters of arguments


def read_custom_functions(source: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    """One finding per statement of a custom function that keeps or reads a value on the context."""
    if b"def backward" not in source:
        return
    members: dict[int, dict[str, int]] = {}
    for local, symbol in enumerate(facts.symbols):
        if local and facts.symbols[symbol.parent].kind in CLASSES and symbol.kind == "method":
            members.setdefault(symbol.parent, {})[symbol.name] = local
    contexts = {}  # method -> (class, name of its context)
    for owner, methods in members.items():
        if "backward" not in methods or not any(name in methods for name in _WRITERS):
            continue
        context = _first_parameter(facts.symbols[methods["backward"]])
        if context in ("self", "cls", ""):
            continue
        for name in (*_WRITERS, *_READERS):
            if name in methods:
                contexts[methods[name]] = (owner, _context_of(facts.symbols[methods[name]], context))
    if contexts:
        _read_uses(source, lines, scopes, facts, contexts)


def _first_parameter(symbol: Symbol) -> str:
    match = _PARAMETERS.search(symbol.signature)
    return match.group(1) if match else ""


def _context_of(symbol: Symbol, usual: str) -> str:
    """The name of the context in a method; `vmap` and others have it at another place."""
    return usual if re.search(rf"\b{re.escape(usual)}\b", symbol.signature) else _first_parameter(symbol)


def _read_uses(
    source: bytes, lines: list[int], scopes: Scopes, facts: Facts, contexts: dict[int, tuple[int, str]]
) -> None:
    kept: dict[tuple[int, str], list[tuple[int, str, bool]]] = {}  # (class, attribute) -> line, method, whether set
    for match in _USE.finditer(source):
        method = scopes.find_owner(match.start())
        while method and method not in contexts:
            method = facts.symbols[method].parent
        if not method or match.group(1).decode("utf-8", "replace") != contexts[method][1]:
            continue
        owner = contexts[method][0]
        line = bisect_right(lines, match.start())
        name, said = match.group(2).decode("utf-8", "replace"), facts.symbols[method].name
        if name in _KEEPS:
            arguments = _arguments(source, match.end()) if match.group(3) == b"(" else ""
            detail = f"`{said}` {_KEEPS[name].format(f'`{arguments}`' if arguments else 'tensors')}"
            facts.findings.append(Finding(line, "pattern", CUSTOM_FUNCTION, detail, owner))
        else:
            kept.setdefault((owner, name), []).append((line, said, match.group(3) in (b"=", b"+=")))
    for (owner, name), uses in kept.items():
        written = [(line, said) for line, said, is_set in uses if is_set]
        read = [(line, said) for line, said, is_set in uses if not is_set]
        first = (written or read)[0][0]
        parts = []
        if written:
            parts.append("set in " + _places(written))
        if read:
            parts.append("read in " + _places(read))
        detail = f"`{contexts_name(contexts, owner)}.{name}` is {' and '.join(parts)}"
        facts.findings.append(Finding(first, "pattern", CUSTOM_FUNCTION, detail, owner))


def contexts_name(contexts: dict[int, tuple[int, str]], owner: int) -> str:
    return next(name for found, name in contexts.values() if found == owner)


def _places(uses: list[tuple[int, str]]) -> str:
    methods: dict[str, list[int]] = {}
    for line, method in uses:
        methods.setdefault(method, []).append(line)
    return ", ".join(
        f"`{method}` (line{'s' if len(found) > 1 else ''} {', '.join(map(str, dict.fromkeys(found[:4])))})"
        for method, found in methods.items()
    )


def _arguments(source: bytes, start: int) -> str:
    """The arguments of a call, from behind its opening parenthesis."""
    depth = 1
    for at in range(start, min(len(source), start + 2000)):
        byte = source[at]
        if byte in b"([{":
            depth += 1
        elif byte in b")]}":
            depth -= 1
            if not depth:
                text = " ".join(source[start:at].decode("utf-8", "replace").split()).rstrip(",")
                return text.replace("`", "'") if len(text) <= _MOST else text[:_MOST].replace("`", "'") + " …"
    return ""
