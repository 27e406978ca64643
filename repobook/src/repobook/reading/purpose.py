"""The purpose of a file: in its own words if it states one, else derived from the file's definitions.

A file states its purpose in a module docstring, in a header comment or in the documentation of its main class. Any
other comment speaks of the line below it. A derived purpose names what the file binds, registers, tests, implements or
defines.
"""

import re
from collections import Counter
from pathlib import PurePosixPath

from repobook.reading.comments import DOC_LIMIT, Block, is_directive, is_licence
from repobook.reading.engine import CLASSES
from repobook.reading.facts import Facts, Symbol

DERIVED = "derived"
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
_ABOUT_FILE = re.compile(r"\b(?:this|the) (?:file|header|module|script|package|crate|test suite)\b|[\\@]file\b", re.I)
# A comment that begins so speaks of one place, of work to be done or of where code came from.
_NO_PURPOSE = re.compile(
    r"\s*(?:[=*#~-]{3,}|NS\b|NB\b|N\.B\.|NOTE\b|Note\b|TODO|FIXME|XXX|HACK|BUG|WARNING\b|WARN\b|NOLINT|"
    r"See\b|Owner|@|-\*-|Uses code|"
    r"(?:this (?:file|code) (?:is|was) )?(?:auto(?:matically)?[- ]?)?generated (?:by|from|with)\b|"
    r"do not (?:edit|modify)\b|"
    r"(?:This (?:file|code) (?:is|was) |Tests? )?"
    r"(?:adapted|copied|ported|taken|borrowed|based on|originally|derived)\b)",
    re.I,
)
# A paragraph that begins so tells where code came from.
_ORIGIN = re.compile(
    r"\s*(?:this (?:file|code|module) (?:is|was) )?(?:mostly |largely |originally )?"
    r"(?:adapted|copied|ported|taken|borrowed|derived) from\b",
    re.I,
)
# A docstring that begins so is a list of remarks.
_REMARK = re.compile(r"(?:NOTES?|Notes?|TODO|FIXME|XXX)\b\s*:")
_RULE = re.compile(r"[\W_]*")
_CODE = re.compile(
    r"[;{}]\s*$|^\s*#\s*(?:include|define|if|endif)|^\s*(?:import|from|return|def|class) \S+$|=\s*\S+\($", re.M
)
_BEFORE_CODE = re.compile(
    rb"""(?:\s+|\#(?!\[)[^\n]*\n?|//[^\n]*|/\*.*?\*/|['"]use\ [a-z]+['"];?|<\?php|---)*""", re.S | re.X
)
_FIRST_IMPORT = re.compile(rb"^[ \t]*(?:#[ \t]*include\b|#[ \t]*import\b|import\b|from\b|use\b)", re.M)
_GUARD = re.compile(r"(?:_H|_HPP|_CUH|_INCLUDED|_H_|_HPP_)_*$")
_EXPOSED_TYPE = re.compile(rb'PyModule_AddObject(?:Ref)?\(\s*[\w.>-]+\s*,\s*"(\w+)"')
_PYBIND = re.compile(rb"\bpy::|\bpybind11\b")
_KEY = re.compile(r"TORCH_LIBRARY_IMPL\(\s*(\w+)\s*,\s*(\w+)")
_NAMED = 4


def find_purpose(facts: Facts, blocks: list[Block], path: str, source: bytes, docstring: str = "") -> None:
    """Set the purpose of a file and where it comes from."""
    stated = _strip_licence(docstring)
    if stated and not _REMARK.match(stated):
        facts.purpose, facts.purpose_origin = stated[:DOC_LIMIT], "docstring"
        return
    header = _header(facts, blocks, source)
    if header:
        facts.purpose, facts.purpose_origin = header[:DOC_LIMIT], "header"
        return
    main = _main_class(facts, path)
    if main is not None and main.doc and not is_licence(main.doc) and not _NO_PURPOSE.match(main.doc):
        facts.purpose, facts.purpose_origin = main.doc, main.qualified
        return
    facts.purpose = _derive(facts, path, source)
    facts.purpose_origin = DERIVED if facts.purpose else ""


def _header(facts: Facts, blocks: list[Block], source: bytes) -> str:
    """The text of the comment that heads a file: above all code and not right above a definition."""
    matched = _BEFORE_CODE.match(source)
    code_line = source.count(b"\n", 0, matched.end() if matched else 0) + 1
    documented = [symbol for symbol in facts.symbols[1:] if symbol.kind not in ("package", "macro")]
    heads = {symbol.start_line or symbol.line for symbol in documented}
    included = _FIRST_IMPORT.search(source)
    included_at = included.start() if included else len(source)
    import_line = source.count(b"\n", 0, included.start()) + 1 if included else code_line + 1
    for block in blocks[:5]:
        if block.trailing or block.first > code_line:
            break
        text = _paragraphs(block.texts[1:] if block.first == 1 and source.startswith(b"#!") else block.texts)
        if block.first > import_line and not _ABOUT_FILE.search(text):
            continue  # behind the imports a comment speaks of the code below it
        if not _can_state(text):
            continue
        glued = block.last + 1 in heads or (block.last + 1 == import_line and source.startswith(b"#", included_at))
        glued = glued and not block.inner
        if not glued or _ABOUT_FILE.search(text):
            return text
    return ""


def _strip_licence(text: str) -> str:
    """The paragraphs of a docstring above its licence, which ends many; without the origin of the code."""
    kept: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        if is_licence(paragraph):
            break
        if not _ORIGIN.match(paragraph):
            kept.append(paragraph)
    return "\n\n".join(kept).strip()


def _can_state(text: str) -> bool:
    """True for prose of some words that is no licence, directive, remark or code."""
    if not text or is_directive(text) or is_licence(text) or len(_WORD.findall(text)) < 4:
        return False
    # A header may show examples below its first paragraph.
    return not (_NO_PURPOSE.match(text) or _CODE.search(text.partition("\n\n")[0]) or text.startswith("!"))


def _paragraphs(texts: list[str]) -> str:
    """A comment without rulers and without the paragraphs that are a licence."""
    kept: list[list[str]] = [[]]
    for text in texts:
        if _RULE.fullmatch(text):
            kept.append([])
        else:
            kept[-1].append(text)
    said = ["\n".join(lines) for lines in kept if lines]
    if any(is_licence(text) for text in said):
        # The rest of a comment behind a licence is most often more of the licence.
        said = said[: next(at for at, text in enumerate(said) if is_licence(text))]
    return "\n\n".join(said).strip()


def _strip_underscores(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _main_class(facts: Facts, path: str) -> Symbol | None:
    """The class that a file is named after, or the only one at its top."""
    symbols = facts.symbols
    tops = [
        symbol
        for symbol in symbols[1:]
        if symbol.kind in CLASSES and symbols[symbol.parent].kind in ("file", "namespace", "module", "package")
    ]
    stem = _strip_underscores(PurePosixPath(path).name.partition(".")[0])
    named = [symbol for symbol in tops if _strip_underscores(symbol.name) == stem]
    if named:
        return named[0]
    functions = [s for s in symbols[1:] if s.kind == "function" and symbols[s.parent].kind in ("file", "namespace")]
    return tops[0] if len(tops) == 1 and not functions else None


def _list_names(names: list[str], most: int = _NAMED) -> str:
    names = list(dict.fromkeys(names))
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _derive(facts: Facts, path: str, source: bytes) -> str:
    for derive in (
        _describe_tests,
        _describe_bindings,
        _describe_registrations,
        _describe_operators,
        _describe_methods,
        _describe_definitions,
    ):
        text = derive(facts, source)
        if text:
            return text
    return ""


def _describe_bindings(facts: Facts, source: bytes) -> str:
    """Names that another language sees."""
    rows = [row for row in facts.bindings if row.kind not in ("operator", "kernel", "dispatch key")]
    functions = sum(symbol.kind in ("function", "method") for symbol in facts.symbols)
    if not rows or len(rows) * 6 < functions:
        return ""
    tables = list(dict.fromkeys(row.kind.partition(",")[0] for row in rows))
    types = list(dict.fromkeys(match.decode() for match in _EXPOSED_TYPE.findall(source)))
    owners = types or list(dict.fromkeys(row.owner for row in rows if row.owner))
    if b"torch::class_<" in source and not _PYBIND.search(source):
        tables, owners = ["custom class of TorchScript"], []  # its first string is a namespace
    of = f" of {_list_names(owners, 2)}" if owners else ""
    return f"Binds {_list_names([row.exposed for row in rows])} for Python: {' and '.join(tables[:2])}{of}."


def _describe_registrations(facts: Facts, source: bytes) -> str:
    """Kernels that are registered for dispatch keys."""
    blocks = [symbol for symbol in facts.symbols if symbol.kind == "registration"]
    keys = [match.group(2) for symbol in blocks if (match := _KEY.search(symbol.name))]
    if not keys:
        return ""
    operators = [row.exposed for row in facts.bindings if row.kind == "dispatch key"]
    named = f" of {_list_names(operators)}" if operators else ""
    return f"Registers kernels{named} for the dispatch key {_list_names(keys, 3)}."


def _describe_tests(facts: Facts, source: bytes) -> str:
    """Tests, if they are a good part of the functions; `test_client` can be a method of an application."""
    functions = [symbol for symbol in facts.symbols if symbol.kind in ("function", "method", "test")]
    tests = [symbol.name for symbol in functions if symbol.kind == "test" or symbol.name.startswith("test_")]
    return f"Tests: {_list_names(tests)}." if len(tests) > 1 and 3 * len(tests) >= len(functions) else ""


def _describe_operators(facts: Facts, source: bytes) -> str:
    operators = [symbol for symbol in facts.symbols if symbol.kind == "operator"]
    if not operators:
        return ""
    kernels = any(row.kind == "kernel" for row in facts.bindings)
    what = "schemas and kernels" if kernels else "formulas of the gradients"
    return f"Table of {what} of {len(operators):,} operators."


def _describe_methods(facts: Facts, source: bytes) -> str:
    """Methods that are defined outside their class, most often declared in a header."""
    classes = Counter(
        symbol.qualified.rpartition("::")[0]
        for symbol in facts.symbols
        if symbol.kind == "method" and not symbol.declaration and facts.symbols[symbol.parent].kind not in CLASSES
    )
    classes.pop("", None)
    defined = sum(symbol.kind == "function" and not symbol.declaration for symbol in facts.symbols)
    if not classes or classes.total() * 2 < defined:
        return ""
    chosen = [name.rpartition("::")[2] for name, _ in classes.most_common()]
    functions = [
        symbol.name
        for symbol in facts.symbols
        if symbol.kind == "function" and not symbol.declaration and not symbol.name.startswith("_")
    ]
    rest = f", and defines {_list_names(functions, 3)}" if functions else ""
    return f"Implements {_list_names(chosen, 3)}{rest}."


def _describe_definitions(facts: Facts, source: bytes) -> str:
    """The types of a file, else its functions, else its other definitions."""
    symbols = facts.symbols
    tops = [s for s in symbols[1:] if symbols[s.parent].kind in ("file", "namespace", "module", "package")]
    classes = [s.name for s in tops if s.kind in CLASSES]
    functions = [s.name for s in tops if s.kind == "function" and not s.declaration]
    declared = [s.name for s in tops if s.kind == "function" and s.declaration]
    parts = []
    if classes:
        parts.append(f"defines {_list_names(classes)}")
    if functions:
        parts.append(
            ("" if classes else "defines ") + f"the {_words('function', functions)} {_list_names(functions, 3)}"
        )
    if declared and not functions:
        parts.append(f"declares the {_words('function', declared)} {_list_names(declared, 3)}")
    if not parts:
        parts = _describe_others([symbol for symbol in tops if not _GUARD.search(symbol.name)]) or _describe_imports(
            facts
        )
    text = " and ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def _words(word: str, names: list[str]) -> str:
    return word if len(set(names)) == 1 else word + "s"


def _describe_imports(facts: Facts) -> list[str]:
    """A file that only imports others."""
    rows = [one for one in facts.imports if one.kind in ("include", "import", "from", "export")]
    modules = [one.module.strip('<>"') for one in rows]
    verb = "includes" if rows and rows[0].kind == "include" else "imports"
    return [f"{verb} {_list_names(modules)}"] if modules else []


def _describe_others(tops: list[Symbol]) -> list[str]:
    for kind, word in (
        ("macro", "macro"), ("type", "type"), ("variable", "variable"), ("constant", "constant"), ("target", "target"),
        ("entry", "entry"), ("key", "key"), ("section", "section"), ("enumerator", "enumerator"),
    ):  # fmt: skip
        names = [symbol.name for symbol in tops if symbol.kind == kind]
        if names:
            plural = word if len(set(names)) == 1 else word.removesuffix("y") + "ies" if word == "entry" else word + "s"
            return [f"{'has' if kind in ('key', 'entry', 'section') else 'defines'} the {plural} {_list_names(names)}"]
    return []
