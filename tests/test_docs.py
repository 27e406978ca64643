"""Every example that a reader can copy is run: those of the pages, and those of the docstrings.

A page's ```python blocks run from top to bottom in one namespace, as a reader would type them. A block that
starts with `>>>` must print what it shows. The only way out is visible in the page's source and gives its
reason: a line `<!-- no-run: reason -->` before the block.
"""

from __future__ import annotations

import builtins
import doctest
import functools
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import pytest

import ndgrad

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    # written when the documentation is built: from docstrings, from programs, from the texts of error codes, which have tests of their own
    *sorted(
        p
        for p in (ROOT / "docs").rglob("*.md")
        if not {"_build", "reference", "gallery", "errors"} & set(p.relative_to(ROOT / "docs").parts)
    ),
]
PACKAGE = Path(ndgrad.__path__[0])
OPTIONAL = frozenset("cupy einops llvmlite ml_dtypes mpi4py onnx opt_einsum safetensors scipy".split())
FLAGS = doctest.ELLIPSIS


# ----- reading a page ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string, its text, the line where the text starts, and the comment above it."""

    info: str
    text: str
    line: int
    no_run: str | None

    @property
    def is_session(self) -> bool:
        return self.text.lstrip().startswith(">>>")


def blocks_of(page: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text, in order.

    A fence closes at the first bare fence of the same character that is at least as long, so that a page can
    show a fence within a longer one.
    """
    lines = page.splitlines()
    above = ""
    number = 0
    while number < len(lines):
        opening = re.match(r"(\s*)(`{3,}|~{3,})\s*(.*?)\s*$", lines[number])
        if opening is None:
            if lines[number].strip():
                above = lines[number].strip()
            number += 1
            continue
        indent, fence, info = opening.groups()
        start = number + 1
        closing = re.compile(rf"\s*{re.escape(fence[0])}{{{len(fence)},}}\s*$")
        end = next((n for n in range(start, len(lines)) if closing.match(lines[n])), None)
        if end is None:
            raise ValueError(f"line {start}: the fence that opens here is never closed")
        text = "".join(line.removeprefix(indent) + "\n" for line in lines[start:end])
        comment = re.fullmatch(r"<!--\s*no-run:\s*(.*?)\s*-->", above)
        yield Block(info, text, start + 1, comment and comment[1])
        above = ""
        number = end + 1


def python_blocks_of(page: str) -> Iterator[Block]:
    """The blocks that hold Python; a block that would slip past the reader of this file is an error."""
    for block in blocks_of(page):
        if block.info != "python":
            if block.is_session or re.search(r"\bpy(thon3?|con)?\b", block.info):
                raise ValueError(
                    f"line {block.line}: a block of Python is marked {block.info!r}, which nothing runs; "
                    "open it with ```python"
                )
            continue
        if not block.is_session and re.search(r"^\s*>>>", block.text, re.MULTILINE):
            raise ValueError(
                f"line {block.line}: plain lines above a `>>>` would be taken for prose and not run; "
                "make them two blocks"
            )
        if block.no_run == "":
            raise ValueError(f"line {block.line}: `no-run` needs a reason: <!-- no-run: reason -->")
        yield block


# ----- running examples -------------------------------------------------------------------------------------


def absent_library(error: BaseException | None) -> str | None:
    """The optional library whose absence led to this error, if that is what happened."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            library = error.name.partition(".")[0]
            if library in OPTIONAL and importlib.util.find_spec(library) is None:
                return library
        error = error.__cause__ or error.__context__
    return None


@pytest.fixture(autouse=True)
def readers_defaults() -> Iterator[None]:
    """The default dtype of a reader, since tests use double precision."""
    ndgrad.set_default_dtype(ndgrad.float32)
    yield
    leave_process_group()


def leave_process_group() -> None:
    """Leave the process group of an example that stopped early, or the next example could not make one."""
    if ndgrad.distributed.is_initialized():
        ndgrad.distributed.destroy_process_group()


#: A number with a point or an exponent. Integers, versions and names with digits are compared as text.
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.(\d*)(?:e([+-]?\d+))?|\d+e([+-]?\d+))(?![\w.])")


class NumberChecker(doctest.OutputChecker):
    """Accepts another last digit. Functions such as exp round differently on other processors and NumPy versions."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        wanted, found = list(NUMBER.finditer(want)), list(NUMBER.finditer(got))
        if len(wanted) != len(found) or not all(map(differ_by_rounding, wanted, found)):
            return False
        same = iter(wanted)
        return super().check_output(unpadded(want), unpadded(NUMBER.sub(lambda _: next(same)[0], got)), optionflags)


def differ_by_rounding(want: re.Match[str], got: re.Match[str]) -> bool:
    """True if two printed numbers agree to about six digits, or in all of at least three decimals but the last."""
    a, b = float(want[0]), float(got[0])
    digits, exponent = min(len(want[1] or ""), len(got[1] or "")), int(want[2] or want[3] or 0)
    last = 1.01 * 10.0 ** (exponent - digits) if digits >= 3 else 0.0
    return abs(a - b) <= max(1e-6, 2e-6 * abs(a), last)


def unpadded(text: str) -> str:
    """A text without the spaces that bring columns of numbers into line."""
    return re.sub(r"([\[(]) ", r"\1", re.sub(r"[ \n]+", " ", text))


def run_session(session: doctest.DocTest) -> None:
    """Run a `>>>` session up to its first surprise, which is reported with the place where it stands."""
    try:
        doctest.DebugRunner(checker=NumberChecker(), optionflags=FLAGS).run(session, clear_globs=False)
        return
    except doctest.UnexpectedException as raised:
        error = raised.exc_info[1]
    except doctest.DocTestFailure as failure:
        if "[nd-install]" in failure.got and "[nd-install]" not in failure.example.want:
            pytest.skip("a library of this example is not installed")
        line = (session.lineno or 0) + failure.example.lineno + 1
        difference = doctest.OutputChecker().output_difference(failure.example, failure.got, FLAGS)
        error = pytest.fail.Exception(
            f"{session.filename}:{line}: {failure.example.source}{difference}", pytrace=False
        )
    skip_or_raise(error)


def skip_or_raise(error: BaseException) -> NoReturn:
    """Skip an example for which a library is missing, or whose function an older NumPy does not have."""
    library = absent_library(error)
    if library is not None:
        pytest.skip(f"{library} is not installed")
    if isinstance(error, AttributeError) and error.obj is ndgrad.numpy and not hasattr(np, error.name or ""):
        pytest.skip(f"this NumPy has no {error.name}")
    raise error


def run_page(path: Path, text: str, module: ModuleType) -> int:
    """Run a page's examples in the module's namespace; the number of blocks run."""
    count = 0
    for block in python_blocks_of(text):
        if block.no_run is not None:
            continue
        count += 1
        if block.is_session:
            parser = doctest.DocTestParser()
            session = parser.get_doctest(block.text, {}, path.name, str(path), block.line - 1)
            session.globs = module.__dict__  # the session's own copy would lose what it defines
            run_session(session)
        else:
            # Blank lines in front make tracebacks, and inspect.getsource, point into the page.
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
            try:
                exec(code, module.__dict__)
            except ImportError as error:
                skip_or_raise(error)
    return count


@pytest.fixture
def page_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """An empty module that classes of the page can name as theirs, in a directory that it may write to."""
    module = ModuleType("ndgrad_documentation_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    return module


# ----- the pages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_page_run(path: Path, page_module: ModuleType) -> None:
    run_page(path, path.read_text(encoding="utf-8"), page_module)


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_entrance_page_has_examples_to_run(name: str) -> None:
    assert ROOT / name in PAGES
    blocks = python_blocks_of((ROOT / name).read_text(encoding="utf-8"))
    assert any(block.no_run is None for block in blocks)


def test_every_page_stands_in_a_section_of_the_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^([\w/-]+)$", "\n".join(b.text for b in blocks_of(index) if b.info == "{toctree}"), flags=re.MULTILINE)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages - set(listed) == set(), "give the page a line in docs/index.md"
    assert set(listed) - pages == {"errors/index", "gallery/index", "reference/index", "tutorials/index"}
    assert len(listed) == len(set(listed))


# ----- the docstrings ---------------------------------------------------------------------------------------


def module_names() -> list[str]:
    """Every module of the package, found by its file: what cannot be imported must not go unnoticed."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def documented_in(name: str, owner: Any) -> Iterator[tuple[str, Any]]:
    """Return the members of a module or class, with those of its classes and names that are made on demand."""
    for attribute in sorted({*vars(owner), *(dir(owner) if inspect.ismodule(owner) else ())}):
        value = inspect.getattr_static(owner, attribute, None)
        if value is None and inspect.ismodule(owner):
            try:
                value = getattr(owner, attribute, None)
            except ImportError:
                continue  # made on demand by an optional library that is not there
        if inspect.ismodule(value):
            continue
        value = inspect.unwrap(getattr(value, "__func__", value))
        yield f"{name}.{attribute}", value
        if inspect.isclass(value) and value.__module__.startswith("ndgrad"):
            nested = f"{owner.__qualname__}." if inspect.isclass(owner) else ""
            if value.__qualname__.startswith(nested):
                yield from documented_in(f"{name}.{attribute}", value)


@functools.cache
def docstring_sessions() -> dict[str, list[doctest.DocTest]]:
    """The sessions in the docstrings of each module, each docstring once.

    A name that several modules export belongs to the module where it says it was made; what was generated,
    and says nothing useful, to the first module that shows it.
    """
    sessions: dict[str, list[doctest.DocTest]] = {}
    strays: list[tuple[str, str, Any]] = []
    seen: set[str] = set()

    def add(module: ModuleType, name: str, documented: Any) -> None:
        text = getattr(documented, "__doc__", None)
        if not isinstance(text, str) or ">>>" not in text or text in seen:
            return
        seen.add(text)
        # The two imports that every docstring may take for granted, beside names of its file that hide no builtin.
        file = getattr(documented, "__globals__", vars(module))
        own = {key: value for key, value in file.items() if not hasattr(builtins, key)}
        namespace = {**own, "ndgrad": ndgrad, "np": np}
        session = doctest.DocTestParser().get_doctest(
            inspect.cleandoc(text), namespace, name, f"docstring of {name}", 0
        )
        sessions.setdefault(module.__name__, []).append(session)

    for module_name in module_names():
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue  # its own test below says why
        add(module, module_name, module)
        for name, value in documented_in(module_name, module):
            home = getattr(value, "__module__", None)
            if home == module_name:
                add(module, name, value)
            elif str(home).startswith("ndgrad") or isinstance(value, (property, functools.cached_property)):
                strays.append((module_name, name, value))
    for module_name, name, value in strays:
        add(sys.modules[module_name], name, value)
    return sessions


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples_of_module_run(
    name: str, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        skip_or_raise(error)
    monkeypatch.chdir(tmp_path)
    for session in docstring_sessions().get(name, []):
        with subtests.test(session.name):
            run_session(session)
        leave_process_group()


def test_docstrings_have_examples() -> None:
    assert any(docstring_sessions().values())


# ----- the reader of pages itself ---------------------------------------------------------------------------


def test_blocks_of_a_page_share_a_namespace(page_module: ModuleType) -> None:
    page = "```python\nx = 20\n```\nprose\n```python\n>>> x + 1\n21\n>>> y = x\n```\n```python\nz = y\n```\n"
    assert run_page(Path("page.md"), page, page_module) == 3
    assert page_module.__dict__["z"] == 20


def test_wrong_output_in_a_page_fails(page_module: ModuleType) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:4: 1 \+ 1"):
        run_page(Path("page.md"), "# Title\n\n```python\n>>> 1 + 1\n3\n```\n", page_module)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("tensor([0., 3.])", "tensor([0.0000, 3.0000])"),
        ("tensor([0.])", "tensor([-1.1921e-07])"),
        ("4.0", "4.000000953674316"),
        ("tensor([0.1234, 2.0000])", "tensor([0.1235, 2.0000])"),
        ("tensor([[ 0.5000, -0.0000],\n        [ 1.0000,  2.0000]])", "tensor([[0.5000, 0.0000],\n        [1.0000, 2.0000]])"),
        ("tensor([1.2346e+08])", "tensor([1.2347e+08])"),
        ("array([1., 2.]), dtype=..., 3.5", "array([1., 2.]), dtype=float32, 3.5"),
    ],
)
def test_a_printed_number_may_differ_in_its_last_digit(want: str, got: str) -> None:
    assert NumberChecker().check_output(f"{want}\n", f"{got}\n", FLAGS)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("2.", "3."),
        ("3", "3.0"),
        ("3", "4"),
        ("0.5", "0.6"),
        ("tensor([2.])", "tensor([2.0001])"),
        ("tensor([0.1234])", "tensor([0.1236])"),
        ("tensor([1.2346e+08])", "tensor([1.2346e+07])"),
        ("tensor([1., 2.])", "tensor([1., 2.], requires_grad=True)"),
        ("tensor([1.])", "tensor([nan])"),
        ("2.0.1", "2.0.2"),
        ("(1.0, 2.0)", "(1.0,)"),
    ],
)
def test_any_other_difference_of_outputs_fails(want: str, got: str) -> None:
    assert not NumberChecker().check_output(f"{want}\n", f"{got}\n", FLAGS)


def test_error_in_a_page_fails(page_module: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError):
        run_page(Path("page.md"), "```python\n1 / 0\n```\n", page_module)


def test_no_run_comment_excuses_the_next_block_only(page_module: ModuleType) -> None:
    page = "<!-- no-run: needs a GPU -->\n```python\n1 / 0\n```\n```python\nx = 1\n```\n"
    assert run_page(Path("page.md"), page, page_module) == 1


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("<!-- no-run: -->\n```python\n1 / 0\n```\n", "needs a reason"),
        ("```python\nx = 1\n", "never closed"),
        ("```py\nx = 1\n```\n", "which nothing runs"),
        ("```python title='x'\nx = 1\n```\n", "which nothing runs"),
        ("```{code-block} python\nx = 1\n```\n", "which nothing runs"),
        ("```\n>>> 1 + 1\n2\n```\n", "which nothing runs"),
        ("```python\nx = 1\n>>> x\n1\n```\n", "two blocks"),
    ],
)
def test_block_that_would_escape_is_refused(page: str, complaint: str, page_module: ModuleType) -> None:
    with pytest.raises(ValueError, match=complaint):
        run_page(Path("page.md"), page, page_module)


def test_fence_within_a_longer_fence_is_text() -> None:
    page = "````markdown\n```python\n1 / 0\n```\n````\n```python\nx = 1\n```\n"
    assert [block.text for block in python_blocks_of(page)] == ["x = 1\n"]
