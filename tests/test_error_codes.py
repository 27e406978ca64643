"""Every error ends in a code, every code is explained, and the examples of the explanations say what they show.

An error is looked at where the source makes it: in a `raise`, or in a function that returns it. Its message ends in `[nd-...]`,
in the text itself. These are left out, and nothing else:

1. what has no text of its own: `raise`, `raise error`, an exception without arguments (of an abstract method, of an iterator), assertions;
2. classes that ndgrad itself catches, whose text goes into another message: private ones, and those of `INSIDE`;
3. classes that write their own text, which is looked at in their `__init__` instead;
4. an AttributeError that says no more than Python would, since tools read that;
5. text that is handed over as a whole: a user's, or another error's (`HANDED_OVER` bounds how often).
"""

from __future__ import annotations

import ast
import builtins
import doctest
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import ndgrad
from ndgrad._src.foundations.error_codes import PAGES, entries, page
from tests.test_docs import ROOT, blocks_of, readers_defaults, run_session

__all__ = ["readers_defaults"]  # a fixture: examples run with what a reader has

PACKAGE = Path(ndgrad.__path__[0])
CODE = re.compile(r"(?:^|\s)\[(nd-[a-z-]+)\]$")
#: Classes that are caught by their name somewhere in ndgrad, and never reach a user.
INSIDE = {
    "Disagreement", "FloatFlags", "LoopRefused", "Mispredicted", "NoFormula", "NoRule", "TooLong", "Unhashable", "Unreached",
    "Unreadable", "Unrecorded", "UsersError",
}  # fmt: skip
#: Messages that come whole from elsewhere: a number that may only shrink.
HANDED_OVER = 18
#: Explanations whose example needs other machines.
WITHOUT_EXAMPLE = 11

#: The end of what Python says of a missing attribute.
PYTHONS = "has no attribute"

_TEXT = (ast.JoinedStr, ast.Constant, ast.BinOp, ast.IfExp)
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.alias)


# ----- classes of errors ----------------------------------------------------------------------------------------------


@functools.cache
def texts() -> dict[str, str]:
    """Path below the package -> source."""
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def classes_of_errors() -> frozenset[str]:
    """The names of all classes of errors: Python's, NumPy's and ours."""
    known = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)}
    known = {name for name in known if not re.search("Warning|Stop", name)} | {"LinAlgError", "UnpicklingError", "AxisError"}
    defined = [d for text in texts().values() for d in re.findall(r"^ *class (\w+)\(([^)]*)\):", text, re.MULTILINE)]
    bases = {name: {base.rpartition(".")[2].strip() for base in bases.split(",")} for name, bases in defined}
    while new := {name for name, of in bases.items() if name not in known and of & known}:
        known |= new
    return frozenset(known)


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


# ----- end of a message -----------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Scopes of a module in which names have values: functions, from the outside in."""

    module: ast.Module
    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, ...]

    def is_parameter(self, name: str) -> bool:
        every = [(*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) for a in (f.args for f in self.functions)]
        return any(p is not None and p.arg == name for parameters in every for p in parameters)

    def is_caught(self, name: str) -> bool:
        return any(isinstance(n, ast.ExceptHandler) and n.name == name for f in self.functions for n in ast.walk(f))

    def values(self, name: str) -> list[ast.expr]:
        """Return the values assigned to a name, in the innermost scope that has any."""
        if not name or self.is_parameter(name):
            return []
        for function in reversed(self.functions):
            if found := _assigned(ast.walk(function), name):
                return found
        if found := _assigned(iter(self.module.body), name):
            return found
        for node in self.module.body:
            if isinstance(node, ast.ImportFrom) and node.module and any(a.name == name for a in node.names):
                return _constant(node.module.removeprefix("ndgrad.").replace(".", "/") + ".py", name)
        return []

    def returned(self, name: str) -> list[ast.expr]:
        """Return the values that a function of this module returns."""
        made = [n for n in self.module.body if isinstance(n, ast.FunctionDef) and n.name == name]
        return [n.value for f in made for n in ast.walk(f) if isinstance(n, ast.Return) and n.value is not None]


def _assigned(nodes: Iterator[ast.AST], name: str) -> list[ast.expr]:
    return [n.value for n in nodes if isinstance(n, ast.Assign) and any(_name(t) == name for t in n.targets)]


@functools.cache
def _constant(path: str, name: str) -> list[ast.expr]:
    return _assigned(iter(ast.parse(texts()[path]).body), name) if path in texts() else []


def ends(node: ast.expr, place: Place) -> Iterator[str | None]:
    """The last piece of text of each form that a message can have; None where it is handed over."""
    if isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else None
    elif isinstance(node, ast.JoinedStr):
        yield from _ends_of_joined(node, place)
    elif isinstance(node, ast.BinOp):
        for end in ends(node.right, place):
            yield from ends(node.left, place) if end == "" else [end]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "replace"):
        yield from ends(node.func.value, place)
    else:
        if isinstance(node, ast.IfExp):
            forms = [node.body, node.orelse]
        elif isinstance(node, ast.Name):
            forms = place.values(node.id)
        else:
            forms = place.returned(_name(node.func)) if isinstance(node, ast.Call) else []
        for form in forms:
            yield from ends(form, place)
        if not forms:
            yield None


def _ends_of_joined(node: ast.JoinedStr, place: Place) -> Iterator[str | None]:
    last = node.values[-1] if node.values else ast.Constant("")
    if isinstance(last, ast.Constant):
        yield str(last.value)
    elif isinstance(last, ast.FormattedValue) and place.is_caught(_name(last.value)):
        yield None  # another error's text
    else:
        values = place.values(_name(last.value)) if isinstance(last, ast.FormattedValue) else []
        for end in [end for value in values for end in ends(value, place)]:
            yield from _ends_of_joined(ast.JoinedStr(node.values[:-1]), place) if end == "" else [end]
        if not values:
            yield PYTHONS if _says_no_more_than_python(node) else "{}"


def _says_no_more_than_python(message: ast.expr) -> bool:
    return isinstance(message, ast.Name) or re.search(r"has no attribute [`']?\{[^{}]*\}[`']?[\"']$", ast.unparse(message)) is not None


# ----- every error has a code -----------------------------------------------------------------------------------------


class Found(NamedTuple):
    """Findings in the sources."""

    #: class, place in the source, message, how it can end
    errors: list[tuple[str, str, str, tuple[str | None, ...]]]
    #: classes that write their own text
    writing: set[str]
    #: classes that are caught by name
    caught: set[str]

    def without_code(self) -> dict[str, str]:
        wrong = [e for e in self._looked_at() if any(end is not None and not CODE.search(end) for end in e[3])]
        return {where: message for _, where, message, _ in wrong}

    def handed_over(self) -> list[str]:
        return [f"{where} {message}" for _, where, message, forms in self._looked_at() if None in forms]

    def codes(self) -> set[str]:
        return {code[1] for _, _, _, forms in self.errors for end in forms if end is not None and (code := CODE.search(end))}

    def _looked_at(self) -> list[tuple[str, str, str, tuple[str | None, ...]]]:
        return [e for e in self.errors if not (e[0] in self.writing | INSIDE or e[0].startswith("_"))]


def look(sources: dict[str, str]) -> Found:
    """Walk through sources. No tree is kept: there are a million nodes in all."""
    found = Found([], set(), set())
    for path, text in sources.items():
        tree = ast.parse(text)
        _walk(tree, Place(tree, ()), "", None, path, found)
    return found


def _walk(node: ast.AST, place: Place, cls: str, raised: ast.expr | None, path: str, found: Found) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        place = Place(place.module, (*place.functions, node))
    elif isinstance(node, ast.ClassDef):
        cls = node.name
    elif isinstance(node, ast.Raise):
        raised = node.exc
    elif isinstance(node, ast.ExceptHandler):
        found.caught.update(_name(kind) for kind in (node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]))
    elif isinstance(node, ast.Call) and node.args:
        _look_at_call(node, place, cls, node is raised, path, found)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _LEAVES):
            _walk(child, place, cls, raised, path, found)


def _takes_class_of_errors(place: Place, name: str) -> bool:
    """True if the name is a parameter `error: type[Exception]` of a function around the place."""
    arguments = [a for f in place.functions for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)]
    return any(a.arg == name and a.annotation is not None and "Exception]" in ast.unparse(a.annotation) for a in arguments)


def _look_at_call(node: ast.Call, place: Place, cls: str, is_raised: bool, path: str, found: Found) -> None:
    name, message = _name(node.func), node.args[0]
    if cls in classes_of_errors() and name == "__init__" and ast.unparse(node.func) == "super().__init__":
        if isinstance(message, (ast.Name, ast.Attribute)) or cls in INSIDE:
            return  # the text that the error was given
        found.writing.add(cls)
        name = f"{cls}'s own text"
    elif name not in classes_of_errors():
        # A class in a variable is told from a function that makes the error by what it is given.
        is_made = is_raised or _takes_class_of_errors(place, name)
        if not (is_made and isinstance(node.func, ast.Name) and isinstance(message, _TEXT)) or place.returned(name):
            return
        if not (place.is_parameter(name) or _assigned((n for f in place.functions for n in ast.walk(f)), name)):
            return
    elif name == "AttributeError" and _says_no_more_than_python(message):
        return
    forms = tuple(end for end in ends(message, place) if not (name == "AttributeError" and end == PYTHONS))
    found.errors.append((name, f"{path}:{node.lineno}", f"{name}({ast.unparse(message)[:120]})", forms))


def test_every_error_ends_in_a_code_that_is_explained():
    found = look(texts())
    missing = found.without_code()
    assert not missing, "errors without a code at the end of their text (`ndgrad explain` lists the codes):\n" + "\n".join(
        f"  {where}: {what}" for where, what in missing.items()
    )
    assert len(found.handed_over()) <= HANDED_OVER, "\n".join(found.handed_over())
    assert found.codes() - set(entries()) == set(), "codes without a section in src/ndgrad/_src/foundations/error_codes"
    written = {code for path, text in texts().items() if "error_codes" not in path for code in re.findall(r"\[(nd-[a-z-]+)\]", text)}
    assert set(entries()) - written == set(), "sections for codes that no error has"
    assert found.caught & classes_of_errors() >= INSIDE


def test_a_missing_code_is_found():
    source = """
class GraphBreak(RuntimeError):
    def __init__(self, x):
        super().__init__(f"x is {x}. Give another.")  # missing: 4

def f(x, kind, message):
    if x:
        raise ValueError(f"x is {x}. Give another.")  # missing: 8
    if x is None:
        raise kind(f"x is {x}" + (" [nd-range]" if x else ". Give one."))  # missing: 10
    if not x:
        raise GraphBreak(x)
    raise kind(message)

def g(name):
    raise AttributeError(f"module has no attribute {name!r}")

def h(x):
    why = f" because of {x} [nd-range]" if x else ""
    return ValueError(f"no{why}")  # missing: 20

def i(x):
    raise ValueError(text(x)) from None  # missing: 23

def text(x):
    return "wrong [nd-range]" if x else f"wrong {x}"

def j():
    try:
        f(1, ValueError, "")
    except ValueError as error:
        raise ValueError(f"in j: {error}") from None  # handed over: 32

def k(x):
    x[0] = "wrong [nd-range]"
    raise ValueError(f"wrong: {str(x)}")  # missing: 36
"""
    found = look({"probe.py": source})
    assert sorted(found.without_code()) == [f"probe.py:{n}" for n in (10, 20, 23, 36, 4, 8)]
    assert [text.split()[0] for text in found.handed_over()] == ["probe.py:32"]
    assert found.codes() == {"nd-range"}


# ----- every code is explained ----------------------------------------------------------------------------------------


def test_codes_are_short_and_stand_once():
    written = [code for name in PAGES for code in re.findall(r"^## (.*)$", page(name), re.MULTILINE)]
    assert written == list(entries())
    assert all(re.fullmatch(r"nd-[a-z]+(-[a-z]+)*", code) and len(code) <= 22 for code in written)
    assert sorted(path.stem for path in (PACKAGE / "_src" / "foundations" / "error_codes").glob("*.md")) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_explanations_have_cause_example_and_cure(name):
    for entry in (e for e in entries().values() if e.page == name):
        assert "\n" not in entry.summary
        form = r"\*\*Cause\.\*\* [^\n]+\n\n(<!-- no-run: .+ -->\n)?```python\n>>> .+\n```\n\n\*\*Cure\.\*\* [^\n]+"
        assert re.fullmatch(form, entry.text, re.DOTALL), entry.code
        (block,) = blocks_of(entry.text)
        shown = re.search(rf"\n[\w.]+: [^\n]*\[{entry.code}\]\"?(\.\.\.)?\n$", block.text)
        assert shown, f"the example of {entry.code} does not show its code"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", [e.code for e in entries().values() if "<!-- no-run" not in e.text])
def test_example_says_what_it_shows(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = entries()[code]
    (block,) = blocks_of(entry.text)
    run_session(doctest.DocTestParser().get_doctest(block.text, {"ndgrad": ndgrad, "np": np}, code, f"{entry.page}.md", 0))


def test_few_examples_need_other_machines():
    assert sum(page(name).count("<!-- no-run") for name in PAGES) <= WITHOUT_EXAMPLE


def test_links_to_codes_resolve():
    for path in (ROOT / "docs").glob("*.md"):
        for name, code in re.findall(r"\(errors/(\w+)\.md#(nd-[a-z-]+)\)", path.read_text(encoding="utf-8")):
            assert entries()[code].page == name, f"{path.name} links to {name}#{code}"


def test_index_has_every_code():
    from docs.reference_pages import errors  # below docs/, which only a checkout has

    pages = errors.pages()
    assert set(pages) == {f"errors/{name}" for name in (*PAGES, "index")}
    assert re.findall(r"^\| \[`(nd-[a-z-]+)`\]", pages["errors/index"], re.MULTILINE) == sorted(entries())
