"""Design patterns that a file's definitions show, and the settings it takes from outside, each with its line."""

import re
from bisect import bisect_right

from repobook.reading.engine import CLASSES, Scopes
from repobook.reading.facts import Facts, Finding, Symbol, unpack

# From the letters that all ways to ask for one share: a search for those is ten times as quick.
_ENVIRONMENT = re.compile(
    rb"""env(?:(?<=getenv)|(?<=[gs]et_env)|(?<=check_env)|(?<=has_env)|(?<=process\.env)|::var|"""
    rb"""iron(?:\s*\.\s*(?:get|setdefault|pop))?)\s*"""
    rb"""(?:\(|\[|\.)\s*(?:[furb]*["'])?([A-Z][A-Z0-9_]{2,})\b"""
)
_FLAG = re.compile(
    rb"""(?:add_argument|click\.option|\.option)\s*\(\s*(?:["']-\w["']\s*,\s*)?["'](--[\w-]+)["']|"""
    rb"""\b(?:C10_)?DEFINE_(?:bool|int|int32|int64|double|string|uint64)\s*\(\s*(\w+)"""
)
_SINGLETON = re.compile(
    r"^(?:get_?)?(?:instance|singleton|global|default_instance)$|^(?:get|Get)(?:Instance|Singleton|Global)$", re.I
)


def read_settings(source: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    """Environment variables and command-line flags."""
    if b"env" in source:
        for match in _ENVIRONMENT.finditer(source):
            _add(match.start(1), "environment variable", match.group(1), lines, scopes, facts)
    if b"add_argument" in source or b"DEFINE_" in source or b"option(" in source:
        for match in _FLAG.finditer(source):
            group = 1 if match.group(1) else 2
            _add(match.start(group), "flag", match.group(group), lines, scopes, facts)


def _add(at: int, rule: str, name: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    facts.findings.append(
        Finding(bisect_right(lines, at), "name", rule, name.decode("utf-8", "replace"), scopes.find_owner(at))
    )


def read_patterns(facts: Facts) -> None:
    """Design patterns, recognised by the shapes and names of definitions."""
    members: dict[int, dict[str, Symbol]] = {}
    for symbol in facts.symbols[1:]:
        members.setdefault(symbol.parent, {}).setdefault(symbol.name, symbol)
    for local, symbol in enumerate(facts.symbols):
        if symbol.kind in CLASSES:
            _add_class_patterns(local, symbol, members.get(local, {}), facts)
        elif symbol.kind in ("function", "method"):
            _add_function_patterns(local, symbol, members.get(local, {}), facts)
    for local in sorted(_find_wrappers(facts)):
        symbol = facts.symbols[local]
        if any(inner.kind == "function" for inner in members.get(local, {}).values()):
            _add_pattern(facts, symbol, local, "decorator", f"{symbol.qualified} wraps the function it is given")


def _find_wrappers(facts: Facts) -> set[int]:
    """The functions that call functools.update_wrapper."""
    places = facts.references.get(("update_wrapper", ""), []) + facts.references.get(
        ("update_wrapper", "functools"), []
    )
    return {unpack(place)[1] for place in places}


def _add_pattern(facts: Facts, symbol: Symbol, local: int, rule: str, detail: str) -> None:
    facts.findings.append(Finding(symbol.line, "pattern", rule, detail, local))


def _add_class_patterns(local: int, symbol: Symbol, members: dict[str, Symbol], facts: Facts) -> None:
    name = symbol.qualified
    if "__enter__" in members and "__exit__" in members:
        _add_pattern(facts, symbol, local, "context manager", f"{name} has __enter__ and __exit__")
    if "__get__" in members and ("__set__" in members or "__set_name__" in members):
        _add_pattern(facts, symbol, local, "descriptor", f"{name} has __get__")
    if "__iter__" in members and "__next__" in members:
        _add_pattern(facts, symbol, local, "iterator", f"{name} has __iter__ and __next__")
    destructor = members.get("~" + symbol.name)
    if (
        destructor is not None
        and symbol.name in members
        and "= default" not in destructor.signature
        and "virtual" not in destructor.signature
    ):
        _add_pattern(
            facts,
            symbol,
            local,
            "RAII",
            f"{name} has constructors and a destructor of its own (line {destructor.line})",
        )
    visits = [member for member in members if member.startswith(("visit_", "visit")) and len(member) > 6]
    if len(visits) > 1 or symbol.name.endswith("Visitor"):
        _add_pattern(
            facts, symbol, local, "visitor", f"{name}" + (f" with {len(visits)} visit methods" if visits else "")
        )
    if symbol.name.lower().endswith(("registry", "registerer", "registrar")):
        _add_pattern(facts, symbol, local, "registry", name)


def _add_function_patterns(local: int, symbol: Symbol, members: dict[str, Symbol], facts: Facts) -> None:
    signature = symbol.signature
    if _SINGLETON.match(symbol.name) and ("&" in signature or "cls" in signature or "static" in signature):
        _add_pattern(facts, symbol, local, "singleton", f"{symbol.qualified} gives the one instance")
    if "contextmanager" in signature.partition("def ")[0]:
        _add_pattern(facts, symbol, local, "context manager", f"{symbol.qualified} is a generator with @contextmanager")
    for inner in members.values():
        if inner.kind == "function" and "wraps(" in inner.signature.partition("def ")[0]:
            _add_pattern(facts, symbol, local, "decorator", f"{symbol.qualified} wraps the function it is given")
            break
    if symbol.name.startswith(("register_", "Register")) and not symbol.declaration:
        _add_pattern(facts, symbol, local, "registry", f"{symbol.qualified} registers")
