"""Colours for the languages of which a tree has most: one regular expression for comments, strings, numbers, words.

It colours less than pygments does and takes a tenth of its time (0.35 MB/s there, 4 MB/s here; PyTorch has 98 MB of C++
and Python). Every other language goes through pygments, in source.py.
"""

import keyword
import re
from html import escape


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PYTHON = frozenset(keyword.kwlist) | {"match", "case"}
_SELF = frozenset({"self", "cls", "this", "super"})
_C = _words(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "bool true false nullptr NULL"
)
_CPP = _C | _words(
    "alignas alignof and catch class co_await co_return co_yield concept consteval constexpr constinit const_cast "
    "decltype delete dynamic_cast explicit export final friend mutable namespace new noexcept not operator or "
    "override private protected public reinterpret_cast requires static_assert static_cast template thread_local "
    "throw try typeid typename using virtual wchar_t size_t __device__ __global__ __host__ __shared__ __constant__ "
    "__restrict__"
)
_JS = _words(
    "async await break case catch class const continue debugger default delete do else export extends false finally "
    "for from function get if import in instanceof let new null of return set static switch throw true try typeof "
    "undefined var void while with yield"
)
_TS = _JS | _words(
    "abstract any as asserts boolean declare enum implements infer interface is keyof module namespace never number "
    "object private protected public readonly satisfies string symbol type unknown"
)
_JAVA = _words(
    "abstract assert boolean break byte case catch char class continue default do double else enum extends false "
    "final finally float for if implements import instanceof int interface long native new null package private "
    "protected public record return sealed short static switch synchronized throw throws true try var void "
    "volatile while yield"
)
_GO = _words(
    "break case chan const continue default defer else fallthrough false for func go goto if import interface iota "
    "map nil package range return select string struct switch true type var bool byte error int int64 uint64 "
    "float64"
)
_RUST = _words(
    "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move "
    "mut pub ref return self Self static struct super trait true type unsafe use where while bool char f32 f64 i32 "
    "i64 str u8 u32 u64 usize"
)
_WORDS = {
    "python": _PYTHON, "starlark": _PYTHON, "c": _C, "cpp": _CPP, "cuda": _CPP, "objc": _CPP, "javascript": _JS,
    "typescript": _TS, "tsx": _TS, "java": _JAVA, "go": _GO, "rust": _RUST,
}  # fmt: skip
# Words after which a name is defined, and the class of that name.
_NAMING = {
    "def": "f", "function": "f", "func": "f", "fn": "f", "class": "t", "struct": "t", "enum": "t", "union": "t",
    "interface": "t", "trait": "t", "namespace": "t",
}  # fmt: skip

_STRING = r""""(?:[^"\\\n]|\\.)*"?"""
_NUMBER = r"(?P<n>\b\d[\w.]*)"
_WORD = r"(?P<w>[^\W\d]\w*)"
_HASH = re.compile(
    r"(?P<c>\#[^\n]*)"
    r"""|(?P<s>(?:\b[bBfFrRuU]{1,2})?(?:\"{3}(?:[^\\]|\\.)*?(?:\"{3}|\Z)|'{3}(?:[^\\]|\\.)*?(?:'{3}|\Z)"""
    rf"""|{_STRING}|'(?:[^'\\\n]|\\.)*'?))|(?P<d>^[ \t]*@[\w.]+)|{_NUMBER}|{_WORD}""",
    re.M | re.S,
)


def _slashes(character: str, extra: str = "") -> re.Pattern[str]:
    """Comments of // and /* */, strings, numbers, words; `character`: pattern behind a single quote.

    A string or comment that is not closed ends with its line or the text, so that no text is scanned repeatedly.
    """
    return re.compile(
        rf"(?P<c>//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z))|(?P<d>^[ \t]*\#[ \t]*\w+)|(?P<s>{extra}{_STRING}|'{character})"
        rf"|(?P<n>\b\d[\w.']*)|{_WORD}",
        re.M | re.S,
    )


_ONE = r"(?:\\[^\n']*'?|[^'\\\n])'"  # a character; Rust's lifetimes have no second quote
_FEW = r"(?:\\[^\n']*'?|[^'\\\n]{1,4})'"
_CPLUSPLUS = _slashes(_FEW, r'R"(?P<raw>\w*)\(.*?(?:\)(?P=raw)"|\Z)|')
_SCRIPT = _slashes(r"(?:[^'\\\n]|\\.)*'?", r"`(?:[^`\\]|\\.)*(?:`|\Z)|")
_SCANNERS = {
    "python": _HASH, "starlark": _HASH, "c": _CPLUSPLUS, "cpp": _CPLUSPLUS, "cuda": _CPLUSPLUS, "objc": _CPLUSPLUS,
    "javascript": _SCRIPT, "typescript": _SCRIPT, "tsx": _SCRIPT, "java": _slashes(_ONE), "rust": _slashes(_ONE),
    "go": _slashes(_ONE, r"`[^`]*(?:`|\Z)|"),
}  # fmt: skip


def knows(language: str) -> bool:
    return language in _SCANNERS


def colour(text: str, language: str) -> list[str]:
    """Each line as HTML, with the classes of the style sheet: c comment, s string, n number, k keyword, …"""
    words = _WORDS[language]
    parts: list[str] = []
    at = 0
    naming = ""
    for match in _SCANNERS[language].finditer(text):
        kind = match.lastgroup or ""
        if kind == "raw":
            kind = "s"
        if kind == "w":
            word = match[0]
            if word in words:
                kind, naming = "k", _NAMING.get(word, "")
            elif naming:
                kind, naming = naming, ""
            elif word in _SELF:
                kind = "b"
            else:
                continue
        start, end = match.span()
        parts.append(escape(text[at:start]))
        shown = escape(text[start:end])
        opened = f'<i class="{kind}">'
        parts.append(opened + (shown.replace("\n", "</i>\n" + opened) if "\n" in shown else shown) + "</i>")
        at = end
    parts.append(escape(text[at:]))
    return "".join(parts).split("\n")
