"""The entry of one public name in the reference: signature with types, docstring with its example, counterparts in torch
and NumPy and differences, the ops it uses, and its place in the source. All of it is read from the objects.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
from docs.reference_pages import markup
from docs.reference_pages.markup import Linker
from docs.reference_pages.namespaces import CLASSES, Namespace, get
from tests.torch_parity import names as torch_names

from ndgrad._src.foundations.public_path import defining_module
from ndgrad._src.ops.table import Op, table

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


# ----- reading an object ----------------------------------------------------------------------------------------------


def unwrap(value: Any) -> Any:
    """Return the function or class as it is in the source."""
    value = getattr(value, "__func__", value)
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    try:
        return inspect.unwrap(value)
    except ValueError:
        return value


def source_of(value: Any) -> tuple[str, int] | None:
    """Return the file below src/ and the line of a function or class; None for objects made at run time."""
    thing = unwrap(value)
    code = getattr(thing, "__code__", None)
    if code is not None:
        path, line = code.co_filename, code.co_firstlineno
    elif inspect.isclass(thing) and (module := sys.modules.get(defining_module(thing))) is not None:
        path = getattr(module, "__file__", None) or ""
        line = _lines_of(path).get(thing.__qualname__, 0)
        if not line:
            return None
    else:
        return None
    try:
        return str(Path(path).resolve().relative_to(SOURCE)), line
    except ValueError:
        return None


@functools.cache
def _lines_of(path: str) -> dict[str, int]:
    """Return the first lines of the classes and functions of a file, by qualified names. The file is read once."""
    found: dict[str, int] = {}
    if not path.endswith(".py") or not Path(path).is_relative_to(SOURCE):
        return found
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(Path(path).read_text(encoding="utf-8")))]
    while waiting:
        prefix, parent = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = node.lineno
                waiting.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found[prefix + node.name] = node.lineno
            elif isinstance(node, (ast.If, ast.Try)):
                waiting.append((prefix, node))
    return found


def parameters_of(value: Any, *, drop_first: bool = False) -> tuple[list[str] | None, str]:
    """Return the parameters, each as `name: type = default`, and the type of the result; None if not callable."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ["..."], ""
    parameters = list(signature.parameters.values())
    if (
        drop_first
        and parameters
        and parameters[0].kind in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD)
    ):
        parameters = parameters[1:]
    shown: list[str] = []
    kinds = [p.kind for p in parameters]
    for position, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and p.VAR_POSITIONAL not in kinds and kinds.index(p.KEYWORD_ONLY) == position:
            shown.append("*")
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        text = stars + p.name + (f": {_annotation(p.annotation)}" if p.annotation is not p.empty else "")
        if p.default is not p.empty:
            text += (" = " if p.annotation is not p.empty else "=") + _default(p.default)
        shown.append(text)
        if p.kind is p.POSITIONAL_ONLY and (position + 1 == len(kinds) or kinds[position + 1] is not p.POSITIONAL_ONLY):
            shown.append("/")
    result = signature.return_annotation
    return shown, "" if result is signature.empty else _annotation(result)


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(
        r"\b(ndgrad\._typing|ndgrad\._tensor|ndgrad\.\w+(?:\.\w+)*|collections\.abc|typing)\.", "", text.strip("'\"")
    )
    return text


def _default(value: Any) -> str:
    if isinstance(value, type):
        return value.__qualname__
    text = repr(value)
    if text == repr(numpy._NoValue) or not _parses(text) or len(text) > 60 or "\n" in text:
        return getattr(value, "__name__", "...") if _parses(getattr(value, "__name__", "!")) else "..."
    return text


def _parses(text: str) -> bool:
    try:
        compile(text, "", "eval")
    except (SyntaxError, ValueError):
        return False
    return True


def ops_of(value: Any) -> list[str]:
    """Return the ops of the table that a function names, in order."""
    if isinstance(op := getattr(value, "op", getattr(value, "of", None)), Op):
        return [op.name]
    function = unwrap(value)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None:
        return []
    modules = [
        m for n in code.co_names if isinstance(m := scope.get(n), ModuleType) and m.__name__.startswith("ndgrad._src.ops")
    ]
    found = []
    for name in code.co_names:
        candidates = [scope.get(name), *(vars(m).get(name) for m in modules)]
        found += [c.name for c in candidates if isinstance(c, Op) and c.name in table]
    return list(dict.fromkeys(found))


def docstring(value: Any) -> str:
    """Return an object's own docstring, cleaned; empty if it comes from Python, NumPy or SciPy."""
    thing = unwrap(value)
    text = getattr(thing, "__doc__", None)
    if not isinstance(text, str) or (text == type(thing).__doc__ and not inspect.isclass(thing)):
        return ""
    counterpart = sys.modules["numpy"].__dict__.get(getattr(thing, "__name__", ""))
    is_ours = source_of(value) is not None or str(getattr(thing, "__module__", "")).startswith("ndgrad")
    return inspect.cleandoc(text) if is_ours and text != getattr(counterpart, "__doc__", None) else ""


# ----- counterparts ---------------------------------------------------------------------------------------------------


@functools.cache
def differences() -> dict[str, tuple[str, str]]:
    """Return entry of docs/differences/ -> torch's behaviour, ndgrad's behaviour."""
    page = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs" / "differences").glob("*.md")))
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \|", page, flags=re.MULTILINE)
    return {name: (theirs, ours) for name, theirs, ours in rows}


#: Prefix of a name in ndgrad, prefix of its counterpart, name of that library, and the page that compares them.
_ELSEWHERE = (
    ("ndgrad.numpy.Array.", "numpy.ndarray.", "NumPy", "numpy"),
    ("ndgrad.numpy.", "numpy.", "NumPy", "numpy"),
    ("ndgrad.scipy.", "scipy.", "SciPy", "scipy-functions"),
    ("ndgrad.compat.autograd.", "autograd.", "HIPS autograd", "from-hips-autograd"),
    ("ndgrad.array_api.", "", "the array API standard", "array-api"),
)


def counterparts(qualified: str, up: str, link: Linker) -> list[str]:
    """Return the names of the counterparts and the differences; `up` leads to docs/."""
    for ours, theirs, library, page in _ELSEWHERE:
        if qualified.startswith(ours):
            name = theirs + qualified.removeprefix(ours)
            known = not theirs or _exists(name)
            return [f'In {library}: <code>{name}</code> (<a href="{up}{page}.html">differences</a>).'] if known else []
    name = "torch" + qualified.removeprefix("ndgrad")
    if name not in torch_names.listed():
        return []
    entry = torch_names.differing().get(name)
    if entry is None:
        return [f"In torch: <code>{name}</code>."]
    theirs, ours = differences()[entry]
    return [
        f'In torch: <code>{name}</code>, which differs (<a href="{up}differences.html">{entry}</a>). '
        f"Torch: {markup.inline(theirs, link)}. Here: {markup.inline(ours, link)}."
    ]


@functools.cache
def _exists(name: str) -> bool:
    module, _, last = name.rpartition(".")
    if module == "numpy.ndarray":
        return hasattr(numpy.ndarray, last)
    try:
        return hasattr(importlib.import_module(module), last)
    except ImportError:
        return module.startswith("autograd")  # HIPS autograd need not be installed


# ----- entries --------------------------------------------------------------------------------------------------------


@dataclass
class Site:
    """The places of all entries: public name -> page, op -> page, object -> the name with the full entry."""

    pages: dict[str, str]
    ops: dict[str, str]
    shared: dict[int, str]


class Writer:
    """Entries of one page. A name that several namespaces share has its text in one; the others link to it."""

    def __init__(self, namespace: Namespace, page: str, site: Site) -> None:
        self.namespace, self.page, self.site = namespace, page, site
        self.up = "../" * page.count("/")

    def link(self, name: str) -> str | None:
        """Return the link from this page to a public name, given in full or abbreviated."""
        home = self.namespace.name
        # A single word is a name of the same namespace, or else perhaps a parameter.
        for candidate in (name, f"{home}.{name}", *([f"ndgrad.{name}"] if "." in name else [])):
            target = self.site.pages.get(candidate)
            if target is not None:
                return f"#{candidate}" if target == self.page else f"{self.up}{target}.html#{candidate}"
        return None

    def summary(self, name: str) -> str:
        """Return the first sentence about a name, or the value of a constant."""
        value = get(self.namespace, name)
        if _is_plain(value):
            return _of_value(value)
        return markup.inline(markup.first_sentence(docstring(value)), lambda name: None)

    def entry(self, name: str) -> str:
        value = get(self.namespace, name)
        qualified = f"{self.namespace.name}.{name}"
        kind = _kind(value, self.namespace)
        if _is_plain(value):
            return markup.entry("data", qualified, "", f"<p>{_of_value(value)}</p>")
        first = self.site.shared.get(id(value), qualified) if _can_be_shared(value) else qualified
        parameters = markup.signature(*self._parameters(value), self.link)
        if first != qualified:
            text = markup.inline(markup.first_sentence(docstring(value)), self.link)
            return markup.entry(
                kind, qualified, parameters, f"<p>{text} The same as {markup.code(first, self.link)}.</p>"
            )
        body = [markup.prose(self._text(value), self.link), self._facts(qualified, value)]
        if inspect.isclass(value):
            body += list(self._members(qualified, value))
        return markup.entry(kind, qualified, parameters, "\n".join(b for b in body if b))

    def _parameters(self, value: Any) -> tuple[list[str] | None, str]:
        if inspect.isclass(value):
            return (
                (parameters_of(value)[0], "") if "__init__" in vars(value) or "__new__" in vars(value) else (None, "")
            )
        if not callable(value):
            return None, ""
        is_method = self.namespace.is_class and not inspect.ismethod(value)
        return parameters_of(value, drop_first=is_method)

    def _text(self, value: Any) -> str:
        """Return the docstring; that of a method does not describe the object, which a function takes as an argument."""
        text = docstring(value)
        if self.namespace.is_class and inspect.isfunction(value):
            text = markup.without_argument(text, next(iter(inspect.signature(value).parameters), ""))
        return text

    def _facts(self, qualified: str, value: Any) -> str:
        facts = counterparts(qualified, self.up, self.link)
        used = [op for op in ops_of(value) if op in self.site.ops]
        if used:
            links = ", ".join(f'<a href="{self.up}{self.site.ops[op]}.html#op-{op}">{op}</a>' for op in used[:12])
            facts.append(f"Made of the op{'s' * (len(used) > 1)} {links}.")
        place = source_of(value)
        if place is not None:
            inside = getattr(unwrap(value), "__qualname__", "")  # objects made at run time have one, too
            inside = inside if inside in _lines_of(str(SOURCE / place[0])) else ""
            facts.append(f"Written in {markup.in_book(self.up, place[0], inside)}, line {place[1]}.")
        return f'<p class="facts">{" ".join(facts)}</p>' if facts else ""

    def _members(self, qualified: str, cls: type[Any]) -> Iterator[str]:
        """Yield the public members that a class itself defines; inherited ones are listed with the base."""
        if qualified in CLASSES:
            yield f'<p>Its methods and attributes: <a href="{self.up}reference/{qualified}.html">{qualified}</a>.</p>'
            return
        for name, member in vars(cls).items():
            if name.startswith("_") or inspect.isclass(member):
                continue
            if isinstance(member, (property, functools.cached_property)):
                yield markup.entry("property", f"{qualified}.{name}", "", markup.prose(docstring(member), self.link))
            elif isinstance(member, (staticmethod, classmethod)) or inspect.isfunction(member):
                function = getattr(member, "__func__", member)
                parameters = markup.signature(
                    *parameters_of(function, drop_first=not isinstance(member, staticmethod)), self.link
                )
                yield markup.entry(
                    "method", f"{qualified}.{name}", parameters, markup.prose(docstring(function), self.link)
                )


def _can_be_shared(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value)


def _is_plain(value: Any) -> bool:
    """True for a plain value: no class, no function, no docstring."""
    return not (inspect.isclass(value) or callable(value) or isinstance(value, (property, functools.cached_property)))


def _of_value(value: Any) -> str:
    text = repr(value)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    short = len(text) < 200 and "\n" not in text
    return f"<code>{escape(text)}</code>" if short else f"An object of <code>{type(value).__name__}</code>."


def _kind(value: Any, namespace: Namespace) -> str:
    if inspect.isclass(value):
        return "class"
    if isinstance(value, (property, functools.cached_property)):
        return "property"
    return "method" if namespace.is_class else "function"


def shared_names(every: dict[str, Namespace]) -> dict[int, str]:
    """Return object -> the qualified name of its full entry: in the module that it comes from, or its shortest
    name."""
    best: dict[int, tuple[tuple[bool, int, str], str]] = {}
    for namespace in every.values():
        for name in namespace.names:
            value = get(namespace, name)
            if not _can_be_shared(value):
                continue
            qualified = f"{namespace.name}.{name}"
            at_home = getattr(value, "__module__", "") == namespace.name
            rank = (not at_home, qualified.count("."), qualified)
            if id(value) not in best or rank < best[id(value)][0]:
                best[id(value)] = rank, qualified
    return {key: name for key, (_, name) in best.items()}
