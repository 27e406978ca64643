"""Write the files that follow from the declarations of public functions: the stubs that type checkers and editors read,
and the names of families that are loaded when first used.

    python scripts/surface.py            write them
    python scripts/surface.py --check    say which would change (a test does this)

A function's declaration is its `def` in a file of _src/tensor/functions (or numpy): parameters, types, docstring.
Namespaces re-export it, so their stubs are lists of imports; methods have `self` in the place of the first parameter,
so theirs are written out.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "ndgrad"
NOTICE = "# Written by scripts/surface.py from the declarations of public functions. Do not edit.\n"
WIDTH = 120


# ----- declarations ---------------------------------------------------------------------------------------------------


def declaration(function: Any) -> Any:
    """The function as it was written."""
    return inspect.unwrap(function)


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


@functools.cache
def defined(module: str) -> frozenset[str]:
    """The names that a module's source defines by `def` or `class`."""
    return frozenset(n.name for n in ast.walk(_tree(module)) if isinstance(n, (ast.FunctionDef, ast.ClassDef)))


@functools.cache
def imports(module: str) -> dict[str, str]:
    """Name -> the import statement that brings it into a module, those for type checkers too."""
    found = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for a in node.names:
                known = a.asname or a.name
                found[known] = f"from {node.module} import {a.name} as {known}"
        elif isinstance(node, ast.Import):
            for a in node.names:
                found[a.asname or a.name.partition(".")[0]] = f"import {a.name}" + (
                    f" as {a.asname}" if a.asname else ""
                )
    own = [n.name for n in _tree(module).body if isinstance(n, ast.ClassDef)]
    own += [t.id for n in _tree(module).body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    own += [n.target.id for n in _tree(module).body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    return {**found, **{name: f"from {module} import {name} as {name}" for name in own}}


def numpy_forms(signature: inspect.Signature) -> list[inspect.Signature]:
    """Return the signatures of a torch function with NumPy's keywords: `axis=` and `keepdims=`, or a dim by
    position and `keepdims=`."""
    parameters = list(signature.parameters.values())
    names = [p.name for p in parameters]
    forms = []
    for name, other in (("dim", "axis"), ("dims", "axis"), ("keepdim", "keepdims")):
        place = names.index(name) if name in names else 0
        # the first parameter is the tensor; *dims has no name; a tensor in the place of a dim is another's elements
        if (
            place
            and parameters[place].kind is not inspect.Parameter.VAR_POSITIONAL
            and parameters[place].annotation != "Tensor"
        ):
            made = [p.replace(name="keepdims") if p.name == "keepdim" else p for p in parameters]
            after = [
                p.replace(kind=p.KEYWORD_ONLY) if p.kind is p.POSITIONAL_OR_KEYWORD else p for p in made[place + 1 :]
            ]
            made[place + 1 :] = after
            made[place] = made[place].replace(
                name=other, kind=inspect.Parameter.KEYWORD_ONLY, default=inspect.Parameter.empty
            )
            forms.append(signature.replace(parameters=made))
    return forms


class Stub:
    """A stub in the making: its imports and its lines."""

    def __init__(self, shadowed: Iterable[str] = ()) -> None:
        self.imports: set[str] = set()
        self.lines: list[str] = []
        #: names that mean something else inside the class, as `float` does beside a method of that name
        self.shadowed = frozenset(shadowed)

    def annotation(self, text: Any, module: str) -> str:
        """An annotation as it can stand here, with the imports that it needs."""
        if not isinstance(text, str):
            text = "None" if text is type(None) else inspect.formatannotation(text)
        text = text.strip("'\"") if text[:1] in "'\"" else text

        class Names(ast.NodeTransformer):
            def visit_Name(visitor, node: ast.Name) -> ast.AST:  # the stub is `self` here
                return ast.Name(self.name(node.id, module))

            def visit_Constant(visitor, node: ast.Constant) -> ast.AST:
                return node

        return ast.unparse(Names().visit(ast.parse(text, mode="eval")))

    def name(self, name: str, module: str) -> str:
        line = imports(module).get(name)
        if line is not None:
            if name in self.shadowed:
                line = re.sub(rf" as {name}$", f" as _{name}", line)
                name = f"_{name}"
            self.imports.add(line)
        elif name in self.shadowed:
            self.imports.add(f"from builtins import {name} as _{name}")
            name = f"_{name}"
        return name

    #: what stands in the place of Tensor in results
    tensor_type = "Tensor"

    def signature(self, function: Any, first: str | None, result: str | None, signature: inspect.Signature) -> str:
        """The parameters and the result of a function. `first` is what its first parameter is called here."""
        module = _home(declaration(function))
        parts: list[str] = []
        kinds = [p.kind for p in signature.parameters.values()]
        if hasattr(function, "of"):  # an op in place: arrays by position, settings by keyword
            self.imports |= {
                f"from ndgrad._typing import {name} as {name}" for name in ("Number", "Tensor", "TensorLike")
            }
            settings = {
                p.name: p.replace(annotation="Number")
                for p in signature.parameters.values()
                if p.kind is p.KEYWORD_ONLY
            }
            arrays = {
                p.name: p.replace(annotation="TensorLike")
                for p in signature.parameters.values()
                if p.name not in settings
            }
            arrays["self"] = arrays["self"].replace(annotation="Tensor")
            signature = signature.replace(parameters=[*arrays.values(), *settings.values()], return_annotation="Tensor")
        for i, p in enumerate(signature.parameters.values()):
            if p.kind is p.KEYWORD_ONLY and p.VAR_POSITIONAL not in kinds and p.KEYWORD_ONLY not in kinds[:i]:
                parts.append("*")
            if i == 0 and first is not None:
                parts.append(first)
                continue
            text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
            annotation = self.annotation("Any" if p.annotation is p.empty else p.annotation, module)
            text += f": {annotation}"
            if p.default is not p.empty:
                text += f" = {_default(p.default)}"
            parts.append(text)
            if p.kind is p.POSITIONAL_ONLY and (i + 1 == len(kinds) or kinds[i + 1] is not p.POSITIONAL_ONLY):
                parts.append("/")
        if result is None:
            returns = signature.return_annotation
            result = "Any" if returns is signature.empty else self.annotation(returns, module)
            result = re.sub(r"\bTensor\b", self.tensor_type, result)
        if "Any" in re.findall(r"\w+", " ".join([*parts, result])):
            self.imports.add("from typing import Any as Any")
        return f"({', '.join(parts)}) -> {result}"

    def define(
        self, name: str, function: Any, indent: str = "", first: str | None = None, result: str | None = None
    ) -> None:
        """Write a function out, with its overloads."""
        overloads = typing.get_overloads(declaration(function))
        forms = [(f, inspect.signature(declaration(f))) for f in overloads or [function]]
        if hasattr(declaration(function), "renames"):
            forms += [(f, other) for f, signature in forms for other in numpy_forms(signature)]
        if len(forms) > 1:
            self.imports.add("from typing import overload as overload")
        for f, signature in forms:
            if len(forms) > 1:
                self.lines.append(f"{indent}@overload")
            line = f"{indent}def {name}{self.signature(f, first, result, signature)}: ..."
            self.lines += _wrap_line(line, indent)

    def text(self) -> str:
        """The stub. A name that is imported from another is assigned, since a stub exports only what keeps its name."""
        imported, assigned = set(), []
        for line in self.imports:
            match = re.fullmatch(r"from (\S+) import (\w+) as ([^_]\w*|__\w+)", line)
            if match and match[2] != match[3]:
                line = f"from {match[1]} import {match[2]} as _{match[3].lstrip('_')}"
                assigned.append(f"{match[3]} = _{match[3].lstrip('_')}")
            imported.add(line)
        return (
            NOTICE
            + "\n"
            + "\n".join(_sorted_imports(imported))
            + "\n\n"
            + "\n".join([*sorted(assigned), *self.lines])
            + "\n"
        )


def _home(function: Any) -> str:
    """The module whose source has the function."""
    name = function.__globals__.get("__name__", "") if hasattr(function, "__globals__") else function.__module__
    return name or "ndgrad"


def _default(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float) and abs(value) < float("inf"):
        return repr(value)
    return "..."


def _wrap_line(line: str, indent: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    head, _, rest = line.partition("(")
    inside, _, tail = rest.rpartition(") -> ")
    rows = textwrap.wrap(inside, WIDTH - len(indent) - 4, break_long_words=False, break_on_hyphens=False)
    return [head + "(", *(f"{indent}    {row}" for row in rows), f"{indent}) -> {tail}"]


def _sorted_imports(lines: Iterable[str]) -> list[str]:
    """Import statements, one per module."""
    modules: dict[str, set[str]] = {}
    plain = set()
    for line in lines:
        match = re.fullmatch(r"from (\S+) import (.+)", line)
        if match:
            modules.setdefault(match[1], set()).add(match[2])
        else:
            plain.add(line)
    out = sorted(plain)
    for module in sorted(modules):
        names = sorted(modules[module])
        line = f"from {module} import {', '.join(names)}"
        if len(line) <= WIDTH:
            out.append(line)
        else:
            rows = textwrap.wrap(", ".join(names) + ",", WIDTH - 4)
            out += [f"from {module} import (", *(f"    {row}" for row in rows), ")"]
    return out


# ----- the files ------------------------------------------------------------------------------------------------------


def later() -> str:
    """The names of families that are loaded when first used."""
    from ndgrad._src.tensor import families

    lines = [
        '"""The names of families that are loaded when first used. Written by scripts/surface.py; do not edit."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for title, place, kind in (
        ("Family -> its functions.", 0, "_FUNCTIONS"),
        ("Family -> its methods of tensors.", 1, "METHODS"),
    ):
        lines += [f"#: {title}", f"{kind} = {{"]
        for family in families.WHEN_FIRST_USED:
            names = textwrap.wrap(" ".join(sorted(families.load(family)[place])), WIDTH - 12)
            if not names:
                continue
            if len(names) == 1 and len(line := f'    "{family}": "{names[0]}",') <= WIDTH:
                lines.append(line)
            else:
                rows = [f'        "{row} "' for row in names[:-1]] + [f'        "{names[-1]}"']
                lines += [f'    "{family}": (', *rows, "    ),"]
        lines += ["}", ""]
    lines += [
        "#: Function -> its family.",
        "FUNCTIONS = {name: family for family, names in _FUNCTIONS.items() for name in names.split()}",
    ]
    return "\n".join(lines) + "\n"


def _in_place_result(name: str) -> str | None:
    return "Self" if name.endswith("_") and not name.endswith("__") else None


_OPERATORS = {
    "arithmetic": "add sub mul truediv floordiv mod pow matmul radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul",
    "bits": "and or xor lshift rshift rand ror rxor rlshift rrshift",
    "comparison": "lt le gt ge",
    "in_place": "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift",
    "unary": "neg pos abs invert",
}


def methods() -> str:
    """The stub of the tensor's methods."""
    from ndgrad._src.tensor import families

    functions = dict(sorted(families.methods().items()))
    stub = Stub(shadowed=[*functions, "dtype", "device", "layout"])
    stub.imports |= {
        "from typing import Self as Self",
        *(f"from ndgrad._typing import {n} as {n}" for n in ("Tensor", "TensorLike")),
    }
    stub.lines += ["class TensorMethods:"]
    _write_operators(stub, "TensorLike")
    for name, function in functions.items():
        stub.define(name, function, "    ", "self", "Tensor" if name == "__getitem__" else _in_place_result(name))
    return stub.text()


def _write_operators(stub: Stub, other: str) -> None:
    tensor_type = stub.tensor_type
    for kind, names in _OPERATORS.items():
        for name in names.split():
            operand = "" if kind == "unary" else f", other: {other}"
            stub.lines.append(
                f"    def __{name}__(self{operand}) -> {'Self' if kind == 'in_place' else tensor_type}: ..."
            )
    for name in ("eq", "ne"):
        stub.lines.append(
            f"    def __{name}__(self, other: object) -> {tensor_type}: ...  # type: "
            "ignore[override]  # elementwise, as in NumPy"
        )
    stub.lines += [
        "    def __hash__(self) -> _int: ...",
        f"    def __divmod__(self, other: {other}) -> tuple[{tensor_type}, {tensor_type}]: ...",
        f"    def __rdivmod__(self, other: {other}) -> tuple[{tensor_type}, {tensor_type}]: ...",
        f"    def __round__(self, ndigits: _int | None = None) -> {tensor_type}: ...",
        "    def __trunc__(self) -> _int: ...",
    ]
    stub.imports.add("from builtins import int as _int")


def array_methods() -> str:
    """The stub of the Array's methods: NumPy's, and torch's where NumPy has none of that name."""
    from ndgrad._src.tensor import families
    from ndgrad.numpy._array import Array
    from ndgrad.numpy.methods import METHODS

    functions = dict(sorted(families.methods().items()))
    stub = Stub(shadowed=[*functions, *METHODS, *vars(Array), "device", "layout"])
    stub.tensor_type = "Array"
    stub.imports |= {
        "from typing import Self as Self",
        *(f"from ndgrad._typing import {n} as {n}" for n in ("Array", "ArrayLike")),
    }
    stub.lines += ["class ArrayMethods:"]
    _write_operators(stub, "ArrayLike")
    for name, function in sorted(METHODS.items()):
        stub.define(name, function, "    ", "self")
    for name, function in functions.items():
        if name not in METHODS and name not in vars(Array):
            stub.define(name, function, "    ", "self", _in_place_result(name))
    return stub.text()


def numpy_namespace() -> str:
    """The stub of NumPy's namespace."""
    import numpy

    import ndgrad.numpy as tensor_type
    from ndgrad.numpy.reexports import CONSTANTS, MODULES
    from ndgrad.numpy.ufunc_objects import FUNCTIONS

    stub = Stub(shadowed=[name for name in tensor_type.__all__ if hasattr(builtins, name)])
    stub.imports |= {f"from ndgrad.numpy._array import Array as {name}" for name in ("Array", "ndarray")}
    for family in tensor_type._FAMILIES:
        for name in family.__all__:
            if hasattr(tensor_type, name):
                _export(stub, name, getattr(tensor_type, name), family.__name__)
    stub.imports.add("from ndgrad.numpy.ufunc_objects import UniversalFunction as UniversalFunction")
    stub.lines += [f"{name}: UniversalFunction" for name in sorted(FUNCTIONS)]
    for name, value in sorted(CONSTANTS.items()):
        if isinstance(value, float) or value is None:
            stub.imports.add("from builtins import float as _float")
            stub.lines.append(f"{name}: {'None' if value is None else '_float'}")
        elif getattr(numpy, name, None) is value:
            stub.imports.add(f"from numpy import {name} as {name}")
        else:
            stub.imports.add("from typing import Any as Any")
            stub.lines.append(f"{name}: Any")
    stub.imports |= {f"from numpy import {name} as {name}" for name in MODULES}
    stub.imports |= {f"from ndgrad.numpy import {name} as {name}" for name in tensor_type._SUBMODULES}
    return stub.text()


def package() -> str:
    """The stub of the package's namespace."""
    import ndgrad
    from ndgrad._src.arrays import dtypes
    from ndgrad._src.tensor import families, typed_classes

    stub = Stub()
    made = dict(sorted(families.namespace().items()))
    shadowed = {*made, *ndgrad._CONSTANTS}
    stub.shadowed = frozenset(shadowed)
    for name, function in made.items():
        _export(stub, name, function)
    stub.imports.discard("from ndgrad._typing import Tensor as Tensor")
    for name in sorted(imports("ndgrad")):
        if not name.startswith("_") and name in ndgrad.__all__:
            stub.imports.add(imports("ndgrad")[name])
    for name, module in sorted(ndgrad._HOMES.items()):
        stub.imports.add(f"from ndgrad.{module} import {name} as {name}")
    for name in sorted(ndgrad._SUBMODULES):
        stub.imports.add(f"from ndgrad import {name} as {name}")
    stub.imports.discard("from ndgrad._src.tensor import return_types as return_types")  # the public one is imported
    stub.lines.append("__version__: str")
    for name, value in ndgrad._CONSTANTS.items():
        if isinstance(value, dtypes.dtype):
            stub.imports.add("from ndgrad._src.arrays.dtypes import dtype as dtype")
            stub.lines.append(f"{name}: dtype")
        elif name in typed_classes.CLASSES:
            stub.lines.append(f"{name}: type[Tensor]")
        elif isinstance(value, float):
            stub.imports.add("from builtins import float as _float")
            stub.lines.append(f"{name}: _float")
        elif value is None:
            stub.lines.append(f"{name}: None")
        else:
            stub.lines.append(f"{name}: {type(value).__name__}")
    return stub.text()


def _export(stub: Stub, name: str, function: Any, family: str = "") -> None:
    """Re-export a function from the file that declares it, or write it out if no `def` of its name stands there."""
    from ndgrad._src.foundations.public_path import defining_module

    if not inspect.isfunction(function) and not inspect.isclass(function):
        stub.imports.add(f"from {family} import {name} as {name}")
        return
    written = declaration(function)
    module = _home(written)
    own = getattr(written, "__name__", name)
    if inspect.isclass(function) and defining_module(function) == "ndgrad":
        pass  # the namespace imports the class by itself
    elif inspect.isclass(function):
        stub.imports.add(f"from {defining_module(function)} import {function.__name__} as {name}")
    elif own in defined(module) and not (hasattr(written, "renames") and numpy_forms(inspect.signature(written))):
        stub.imports.add(f"from {module} import {own} as {name}")
    else:
        stub.define(name, function)


def on_first_use(package: str) -> str:
    """The stub of a package whose names come from their files on first use (its `_HOMES` and `_SUBMODULES`)."""
    module = importlib.import_module(package)
    stub = Stub()
    for name, home in vars(module).get("_HOMES", {}).items():
        stub.imports.add(f"from {home if home.startswith('ndgrad.') else f'{package}.{home}'} import {name} as {name}")
    submodules = vars(module).get("_SUBMODULES") or ([] if "_HOMES" in vars(module) else dir(module))
    stub.imports |= {f"from {package} import {name} as {name}" for name in submodules}
    stub.lines += ["def __dir__() -> list[str]: ..."]
    return stub.text()


def array_api() -> str:
    """The stub of the array API's namespace."""
    import ndgrad.array_api as tensor_type

    stub = Stub()
    modules = [module for module in vars(tensor_type).values() if inspect.ismodule(module)]
    for name in tensor_type.__all__:
        home = next((m.__name__ for m in modules if name in vars(m).get("__all__", ())), None)
        if home is not None:
            stub.imports.add(f"from {home} import {name} as {name}")
        elif name != "newaxis":
            stub.imports.add(imports("ndgrad.array_api")[name])
        else:
            stub.lines.append(f"{name}: None")
    stub.imports |= {f"from ndgrad.array_api import {name} as {name}" for name in tensor_type._SUBMODULES}
    return stub.text()


FILES: dict[str, Callable[[], str]] = {
    "_src/tensor/lazy_names.py": later,
    "_src/tensor/methods.pyi": methods,
    "__init__.pyi": package,
    "numpy/_methods.pyi": array_methods,
    "numpy/__init__.pyi": numpy_namespace,
    "array_api/__init__.pyi": array_api,
    **{
        f"{name}/__init__.pyi": functools.partial(on_first_use, f"ndgrad.{name}")
        for name in ("autograd", "compiler", "func", "implicit", "scipy")
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT / "src"))
    stale = []
    for name, make in FILES.items():
        path, text = SRC / name, make()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    print("\n".join(f"{'stale' if check else 'written'}: {name}" for name in stale) or "all as declared")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
