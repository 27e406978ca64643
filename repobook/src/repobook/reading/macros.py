"""Macros that hide structure from a parser, found by their own definitions in the tree.

Note [ Blanked macros ]
A macro whose body is empty, an attribute, a linkage or another such macro says nothing about structure, yet
`class TORCH_API Tensor {` parses as a function. Such names are replaced by spaces of the same length before the
parse, so that every byte offset stays true, and each place is recorded as a reference to the macro.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?[ \t]*((?:[^\n\\]|\\\r?\n|\\.)*)", re.M)
_ATTRIBUTE = re.compile(
    rb"^(?:__attribute__\s*\(\(.*\)\)|__declspec\s*\(.*\)|\[\[.*\]\]|_Pragma\s*\(.*\)|__forceinline|__inline__|__inline|inline|"
    rb"static|extern|constexpr|noexcept|__restrict__|__restrict|restrict|__device__|__host__|__global__|__forceinline__|"
    rb"__noinline__|__cdecl|__stdcall|virtual|final|override|volatile|extern "
    rb"\"C\"|always_inline|thread_local|__thread|\s)*$",
    re.S,
)
# `class SOME_API Name {`: a class has one name, so the first word is a macro even where its definition is not seen.
_BEFORE_NAME = re.compile(
    rb"\b(?:class|struct|union)[ \t\n]+([A-Z_][A-Z0-9_]+)[ \t\n]+(?!final\b)\w+[ \t\n]*(?:final[ \t\n]*)?[:{]"
)
# `class Name SOME_FINAL : public Base`: no variable has bases, so the second word is a macro.
_AFTER_NAME = re.compile(
    rb"\b(?:class|struct)[ \t\n]+\w+[ \t\n]+([A-Z][A-Z0-9]*_[A-Z0-9_]+)[ \t\n]*:[ \t\n]*"
    rb"(?:public|private|protected|virtual)\b"
)
# Keywords of Metal before a type: they say in which memory a value lies, or that a function is a kernel.
_METAL = re.compile(rb"(?<![\w.:>])(?:device|constant|threadgroup|thread|kernel)(?=\s+[A-Za-z_])")
# `int count_ GUARDED_BY(lock_) = 0;`: an attribute between the name of a field and its value.
_GUARDED = re.compile(rb"\b[A-Z_]*GUARDED_BY\((?:[^()\n]|\([^()\n]*\))*\)(?=\s*[;={])")
_GLOBAL_BASE = re.compile(rb"\b((?:public|private|protected|virtual)[ \t]+)::(?=\w)")
# `SOME_NAMESPACE_BEGIN(a, b)` on a line of its own, and its counterpart: they open and close namespaces.
_OPENS = re.compile(rb"^(\w*NAMESPACE_(?:BEGIN|OPEN)\(([\w, :]+)\));?[ \t]*$", re.M)
_CLOSES = re.compile(rb"^(\w*NAMESPACE_(?:END|CLOSE)\([\w, :]*\));?[ \t]*$", re.M)
# `namespace a::inline b {`: the grammar does not know the word in this place.
_NESTED_INLINE = re.compile(rb"(?<=::)inline(?=[ \t]+\w+[ \t]*\{)")
# A condition chooses between two lines that introduce the same template; the second one is kept.
_TEMPLATES = re.compile(
    rb"^#if[^\n]*\ntemplate\s*<[^\n;{}]*>\n#else[^\n]*\n(?=template\s*<[^\n;{}]*>\n(#endif[^\n]*)$)", re.M
)
# `${name}` of a template that a generator fills in: alone on its line it stands for declarations, else for a name.
_ALONE = re.compile(rb"^[ \t]*\$(?:\{\w+\}|\w+)[ \t]*;?$", re.M)
_FILLED_IN = re.compile(rb"\$\{\w+\}")
# `SOME_MACRO(a, b)` on lines of its own, without a semicolon: no grammar knows its expansion.
_STATEMENT = re.compile(
    rb"""^[ \t]*[A-Z][A-Z0-9_]{2,}\((?:[^;{}()"]|"(?:[^"\\\n]|\\.)*"|\((?:[^;{}()"]|"(?:[^"\\\n]|\\.)*")*\))*\)"""
    rb"""(?=[ \t]*(?://[^\n]*)?\n\s*(?:[A-Za-z_}#~/\[]|\Z))""",
    re.M,
)
# `SOME_MACRO(const T&, name);`: an argument that is a type makes no expression.
_TYPE_FIRST = re.compile(
    rb"""^[ \t]*[A-Z][A-Z0-9_]{2,}\(\s*(?:const\b[^;{}()"',]*|void|bool|int|float|double|size_t|[\w:<>]+[&*])\s*,"""
    rb"""(?:[^;{}()"]|"(?:[^"\\\n]|\\.)*"|\([^;{}()"]*\))*\)(?=[ \t]*;)""",
    re.M,
)
_STARTS = re.compile(rb"(?:[;{}):]|\*/)[ \t]*(?://[^\n]*)?\s*\Z|(?:\A|\n)[ \t]*(?:\#|//)[^\n]*\s*\Z|\A\s*\Z")
_LOOK_BACK = 400
# `__launch_bounds__(n)` of a kernel, before its name.
_BOUNDS = re.compile(rb"__launch_bounds__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
# A condition of the preprocessor in the middle of an expression, which no grammar knows.
_CONDITION = re.compile(rb"\n[ \t]*#[ \t]*(?:if|else|elif|endif)[^\n]*(?=\n\s*(\S.))")
# `f(const List& x = {})`: the grammar knows no empty list as the default of a parameter.
_EMPTY_DEFAULT = re.compile(rb"= \{\}(?=\s*[,)])")
_INTERFACE = re.compile(rb"^@(?:interface|protocol)\s+\w+[^;\n]*\n.*?^@end", re.M | re.S)
_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*"')
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.S)
_GUARD = re.compile(rb"(?:_H_?|_HPP_?|_INCLUDED|_CUH_?)$")

# Object-like macros that expand to members or attributes but whose definition is outside most trees.
WELL_KNOWN = (
    "PyObject_HEAD",
    "PyObject_VAR_HEAD",
    "PyMODINIT_FUNC",
    "PyAPI_FUNC",
    "Q_OBJECT",
    "JNIEXPORT",
    "JNICALL",
    "CUDARTAPI",
    "WINAPI",
    "__host__",
    "__device__",
    "__forceinline__",
    "__global__",
    "__shared__",
    "__constant__",
    "__restrict__",
)
_REPLACED = {b"PyMODINIT_FUNC": b"PyObject *     "}


# Kinds of definitions by macro: `KIND(Name, ...) {` at file scope.
DEFINERS = {
    "TEST": "test", "TEST_F": "test", "TEST_P": "test", "TYPED_TEST": "test", "TYPED_TEST_P": "test",
    "BENCHMARK_F": "test", "BENCHMARK_DEFINE_F": "test",
    "PYBIND11_MODULE": "registration", "TORCH_LIBRARY": "registration", "TORCH_LIBRARY_IMPL": "registration",
    "TORCH_LIBRARY_FRAGMENT": "registration", "BOOST_PYTHON_MODULE": "registration", "NB_MODULE": "registration",
}  # fmt: skip


def definitions(source: bytes) -> list[tuple[bytes, bytes | None, bytes]]:
    """(name, parameters or None, body) of each `#define`."""
    found = [(m.group(1), m.group(2), _COMMENT.sub(b" ", m.group(3)).strip()) for m in _DEFINE.finditer(source)]
    for pattern in (_BEFORE_NAME, _AFTER_NAME):
        found += [(m.group(1), None, b"__declspec()") for m in pattern.finditer(source)]
    return found


@dataclass(slots=True)
class Macros:
    """The macros of one tree that matter to the parse."""

    blanked: frozenset[str] = frozenset()
    # Macros that define something by their arguments: name -> kind of the definition.
    definers: dict[str, str] = field(default_factory=lambda: dict(DEFINERS))
    # Macros that define a function whose name is one of their arguments: name -> place of that argument.
    named_argument: dict[str, int] = field(default_factory=dict)
    _pattern: re.Pattern[bytes] | None = None
    _tests: re.Pattern[bytes] | None = None

    def to_text(self) -> str:
        """All macros as lines, which `from_text` reads."""
        definers = [f"{name}={kind}" for name, kind in self.definers.items()]
        named = [f"{name}#{at}" for name, at in self.named_argument.items()]
        return "\n".join(sorted([*self.blanked, *definers, *named]))

    @classmethod
    def from_text(cls, text: str) -> "Macros":
        rows = text.split("\n")
        definers = dict(row.split("=", 1) for row in rows if "=" in row)
        named = {name: int(at) for name, at in (row.split("#") for row in rows if "#" in row and "=" not in row)}
        return cls(frozenset(row for row in rows if "=" not in row and "#" not in row), definers, named)

    def test_names(self, source: bytes) -> list[tuple[int, int]]:
        """Spans of macro arguments that only name a test: the second one, and for a plain `TEST` the suite too."""
        if b"TEST" not in source and b"BENCHMARK" not in source:
            return []
        if self._tests is None:
            named = [re.escape(name) for name, kind in self.definers.items() if kind == "test" and name != "TEST"]
            others = "|".join(named) or "(?!)"
            self._tests = re.compile(rf"\b(?:TEST\(\s*(\w+\s*,\s*\w+)|(?:{others})\(\s*\w+\s*,\s*(\w+))\s*\)".encode())
        return [match.span(match.lastindex or 0) for match in self._tests.finditer(source)]

    def blank(self, source: bytes) -> tuple[bytes, list[tuple[str, int]]]:
        """The source with the blanked macros as spaces, and where each stood."""
        if self._pattern is None:
            self._pattern = _pattern(self.blanked)
        places: list[tuple[str, int]] = []
        pieces: list[bytes] = []
        at = 0
        for match in self._pattern.finditer(source):
            start, end = match.span()
            line = source.rfind(b"\n", 0, start) + 1
            head = source[line:start].lstrip()
            if head.startswith(b"#"):
                continue  # its own definition, or a condition on it
            name = match.group(1)
            places.append((name.decode("utf-8", "replace"), start))
            pieces += source[at:start], _REPLACED.get(name, b"")[: end - start].ljust(end - start)
            at = end
        if pieces:
            pieces.append(source[at:])
            source = b"".join(pieces)
        if b"GUARDED_BY(" in source:
            source = _GUARDED.sub(_blank_text, source)
        if b"<metal_" in source:
            source = _METAL.sub(_blank_text, source)
        if b"NAMESPACE_" in source:
            source = _CLOSES.sub(lambda match: b"}".ljust(len(match.group())), _OPENS.sub(_namespace, source))
        if b"${" in source:
            source = _ALONE.sub(lambda match: b" " * len(match.group()), source)
            source = _FILLED_IN.sub(lambda match: b"_" * len(match.group()), source)
        if b"::inline " in source:
            source = _NESTED_INLINE.sub(_blank_text, source)
        # The grammar does not know a base class that is named from the global namespace.
        return _GLOBAL_BASE.sub(rb"\1  ", source), places


def derive_definers(found: Iterable[tuple[str, str | None, str]], definers: dict[str, str]) -> dict[str, str]:
    """The macros that define something by their arguments, and those of the tree that only stand for one of them."""
    derived = dict(definers)
    for name, parameters, body in found:
        called = _CALLS.match(body)
        if parameters is not None and called is not None and called.group(1) in definers:
            derived.setdefault(name, definers[called.group(1)])
    return derived


def find_named_arguments(found: Iterable[tuple[str, str | None, str]]) -> dict[str, int]:
    """The macros of the tree that define a function under the name of an argument, with the place of that argument.

    `#define ARG(T, name) auto name(const T& value) { ... }` defines `alpha` in `ARG(double, alpha)`."""
    named: dict[str, int] = {}
    for name, parameters, body in found:
        if not parameters or "{" not in body:
            continue
        names = [part.strip() for part in parameters.strip("()").split(",")]
        for match in _NAMES_FUNCTION.finditer(body):
            if match.group(1) in names:
                named.setdefault(name, names.index(match.group(1)))
                break
    return named


_CALLS = re.compile(r"(\w+)\(")
_NAMES_FUNCTION = re.compile(r"(?:\bauto|\bvoid|[\w>][&*]?)\s+[&*]?(\w+)\((?!\))")


def hide_statements(source: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """The source as the parser gets it: macros that stand for whole statements are empty statements of their length.

    The strings inside them come back too, because no node of the tree says where they are."""
    strings: list[tuple[int, int]] = []
    if b"__launch_bounds__" in source:
        source = _BOUNDS.sub(_blank_text, source)
    if b"#if" in source:
        source = _hide_templates(source)
    source = _CONDITION.sub(_hide_condition, _EMPTY_DEFAULT.sub(b"= 00", source))
    pieces: list[bytes] = []
    at = 0
    statements = [*_STATEMENT.finditer(source), *_TYPE_FIRST.finditer(source)]
    for match in sorted(statements, key=lambda match: match.start()):
        start, end = match.span()
        if start < at:
            continue
        before = source[max(0, start - _LOOK_BACK) : start]
        # Behind `template <typename T>` it is an attribute of the declaration below.
        is_attribute = before.rstrip().endswith(b">")
        if not is_attribute and not _STARTS.search(before):
            continue
        text = match.group()
        strings += [(start + found.start(), start + found.end()) for found in _STRING.finditer(text)]
        hidden = b"\n".join(b" " * len(line) for line in text[:-1].split(b"\n"))
        pieces += source[at:start], hidden, b" " if is_attribute else b";"
        at = end
    if not pieces:
        return source, strings
    return b"".join([*pieces, source[at:]]), strings


def hide_interfaces(source: bytes) -> bytes:
    """The source without the declarations of Objective-C, which the grammar of C++ takes for variables."""
    return _INTERFACE.sub(_blank_text, source)


def _hide_templates(source: bytes) -> bytes:
    """One of two lines that introduce the same template, of the same length in all."""
    pieces: list[bytes] = []
    at = 0
    for match in _TEMPLATES.finditer(source):
        end, directive = match.end(), match.span(1)
        pieces += source[at : match.start()], _blank_text(match), source[end : directive[0]]
        pieces.append(b" " * (directive[1] - directive[0]))
        at = directive[1]
    return b"".join([*pieces, source[at:]]) if pieces else source


def _blank_text(match: re.Match[bytes]) -> bytes:
    """Spaces in the place of a text, with its lines."""
    return b"\n".join(b" " * len(line) for line in match.group().split(b"\n"))


def _hide_condition(match: re.Match[bytes]) -> bytes:
    """A condition as a blank line if it stands inside an expression, unchanged otherwise."""
    text, behind = match.group(), match.group(1)
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()].rstrip()[-1:]
    if (before and before in b",(=&|?+") or behind[:1] in b".,);?&|+" or behind in (b"->", b"<<"):
        return b"\n" + b" " * (len(text) - 1)
    return text


def _namespace(match: re.Match[bytes]) -> bytes:
    """`SOME_NAMESPACE_BEGIN(a, b)` -> `namespace a::b {`, of the same length; unchanged where it does not fit."""
    text = b"namespace " + b"::".join(part.strip() for part in match.group(2).split(b",")) + b" {"
    whole = match.group()
    return text.ljust(len(whole)) if len(text) <= len(whole) else whole


def _pattern(names: Iterable[str]) -> re.Pattern[bytes]:
    ordered = sorted(names, key=lambda name: (-len(name), name))
    if not ordered:
        return re.compile(rb"(?!)")
    # Grouped by first letter: at most places the first letter already says no.
    by_letter: dict[str, list[str]] = {}
    for name in ordered:
        by_letter.setdefault(name[0], []).append(name[1:])
    groups = [re.escape(letter) + "(?:" + "|".join(map(re.escape, rests)) + ")" for letter, rests in by_letter.items()]
    letters = "".join(map(re.escape, by_letter))
    return re.compile(rf"\b(?=[{letters}])({'|'.join(groups)})\b(?!\s*\()".encode())


def attribute_macros(
    found: Iterable[tuple[bytes, bytes | None, bytes]], configured: Iterable[str] = ()
) -> frozenset[str]:
    """Of all macros of the tree, those that stand for attributes or nothing in every one of their definitions."""
    bodies: dict[bytes, set[bytes]] = {}
    for name, parameters, body in found:
        bodies.setdefault(name, set()).add(b"(" + body if parameters is not None else body)
    chosen = {name.encode() for name in (*WELL_KNOWN, *configured)}
    changed = True
    while changed:
        changed = False
        for name, texts in bodies.items():
            if name in chosen or _GUARD.search(name) or any(text.startswith(b"(") for text in texts):
                continue
            if texts == {b""}:
                # Defined as nothing everywhere: a flag for #if, unless its name says that it is an attribute.
                suitable = name.endswith(
                    (b"_API", b"_EXPORT", b"_EXPORTS", b"_PUBLIC", b"_HIDDEN", b"_LOCAL", b"_INLINE")
                )
            else:
                suitable = all(_stands_for_attribute(text, chosen) or _opens_block(text, bodies) for text in texts)
            if suitable:
                chosen.add(name)
                changed = True
    return frozenset(name.decode("utf-8", "replace") for name in chosen)


def _stands_for_attribute(body: bytes, chosen: set[bytes]) -> bool:
    words = re.sub(rb"\b\w+\b", lambda match: b"" if match.group() in chosen else match.group(), body)
    return bool(_ATTRIBUTE.match(words))


def _opens_block(body: bytes, bodies: dict[bytes, set[bytes]]) -> bool:
    """True for a macro that opens or closes a block (`try {`); the code between two of them parses only without."""
    if body.count(b"{") != body.count(b"}"):
        return True
    first = re.match(rb"\w+", body)
    texts = bodies.get(first.group(), set()) if first is not None else set()
    return bool(texts) and all(text.count(b"{") != text.count(b"}") for text in texts)
