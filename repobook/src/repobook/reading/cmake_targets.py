"""Targets of CMake: their source files and the targets they depend on."""

import re
from bisect import bisect_right

from repobook.reading.facts import SOURCE, TARGET, Facts, pack

_COMMENT = re.compile(r"#[^\n]*")
_COMMAND = re.compile(
    r"\b(set|list|add_library|add_executable|python_add_library|cuda_add_library|target_sources|target_link_libraries|"
    r"add_dependencies)\s*\(([^()]*)\)",
    re.I,
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_WORDS = frozenset(
    """
    PUBLIC PRIVATE INTERFACE STATIC SHARED MODULE OBJECT IMPORTED GLOBAL EXCLUDE_FROM_ALL ALIAS WIN32 CACHE STRING
    PARENT_SCOPE FORCE APPEND LINK_PUBLIC LINK_PRIVATE
    """.split()  # noqa: SIM905
)
_ROOTS = re.compile(r"\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR|PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR)\}/")
_DEPTH = 5
_MOST = 4000
_ENDINGS = (".c", ".cc", ".cpp", ".cxx", ".cu", ".m", ".mm", ".h", ".hpp", ".cuh", ".S", ".asm")


def read_targets(source: bytes, lines: list[int], facts: Facts) -> None:
    """References from each target to its sources and to the targets that it links or depends on."""
    text = _COMMENT.sub(lambda match: " " * len(match.group()), source.decode("latin-1"))
    targets = {symbol.name: local for local, symbol in enumerate(facts.symbols) if symbol.kind == "target"}
    variables: dict[str, list[str]] = {}
    for match in _COMMAND.finditer(text):
        command, words = match.group(1).lower(), match.group(2).replace('"', " ").split()
        if command == "set" and words:
            variables[words[0]] = words[1:]
        elif command == "list" and len(words) > 1 and words[0] == "APPEND":
            variables.setdefault(words[1], []).extend(words[2:])
        elif command not in ("set", "list") and words:
            local = targets.get(words[0], 0)
            line = bisect_right(lines, match.start())
            links = command in ("target_link_libraries", "add_dependencies")
            for word in _expand(words[1:], variables, 0)[:_MOST]:
                _refer(_ROOTS.sub("", word), links, line, local, facts)


def _expand(words: list[str], variables: dict[str, list[str]], depth: int) -> list[str]:
    """The words of a command with the variables that this file sets in their place."""
    found: list[str] = []
    for word in words:
        named = _VARIABLE.fullmatch(word)
        if named is not None and depth < _DEPTH and named.group(1) in variables:
            found += _expand(variables[named.group(1)], variables, depth + 1)
        elif word not in _WORDS and not word.startswith("$<"):
            found.append(word)
    return found


def _refer(word: str, links: bool, line: int, local: int, facts: Facts) -> None:
    if "${" in word or word.startswith("-"):
        return
    if not links and not word.endswith(_ENDINGS):
        return
    place = pack(line, local, 0)
    places = facts.references.setdefault((word, TARGET if links else SOURCE), [])
    if place not in places:
        places.append(place)
