"""Tables of op names outside the op table.

A fact about an op belongs to its block (`Facts` in ndgrad._src.ops.table). Other modules ask the op. The remaining tables hold
functions or spellings of one target, such as the code of a primitive in LLVM. Both lists here may only shrink.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ndgrad
from ndgrad._src.ops.table import table
from ndgrad._src.ops.vocabulary import load_all

PACKAGE = Path(ndgrad.__path__[0])
load_all()
_SOURCES = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "_src" / "ops").glob("*.py"))
#: The ops of the table. Other modules and tests add their own.
OPS = frozenset(name for name in table if f'"{name}"' in _SOURCES)

#: Tables keyed by op names, by module.
TABLES = {
    "_src/arrays/device_draws.DRAWS",
    "_src/arrays/device_draws.FROM_ARRAYS",
    "_src/compiler/capture/random_draws._FORMULAS",
    "_src/compiler/cuda/complex_elementwise._OPS",
    "_src/compiler/cuda/eager._OWN",
    "_src/compiler/cuda/eager._POWERS",
    "_src/compiler/cuda/extrema.OPS",
    "_src/compiler/cuda/fusion.REDUCTIONS",
    "_src/compiler/cuda/fusion._OPERATORS",
    "_src/compiler/cuda/moves._SOURCES",
    "_src/compiler/cuda/small_matrices._BODIES",
    "_src/compiler/cuda/values._FUNCTIONS",
    "_src/compiler/kernels/error_notes._NOTES",
    "_src/compiler/kernels/maths/functions.FORMULAS",
    "_src/compiler/kernels/operations.OPERATIONS",
    "_src/compiler/kernels/reductions.REDUCTIONS",
    "_src/compiler/lower/float_errors.SILENT",
    "_src/compiler/lower/routines._ROUTINES",
    "_src/core/generated_names._EXAMPLES",
    "_src/transforms/sparsity/contractions._SUBSCRIPTS",
    "distributed/tensor/dtensor._FILLERS",
    "onnx/elementwise._NODES",
    "ops/aten._SAME",
    "sparse/functions.KEEPS_ZEROS",
    "sparse/functions._LINEAR",
}
#: Tables of other names, many of which are also names of ops: Python's and NumPy's functions and methods, functions of torch's
#: namespace, and values of options.
OTHER_NAMES = {
    "array_api/special._PARAMETERS",
    "_src/arrays/meta._OTHERS",
    "_src/arrays/meta._REDUCTIONS",
    "_src/arrays/special_source._OWN",
    "_src/compiler/capture/number_placeholders._CERTAIN",
    "_src/compiler/capture/number_placeholders._IN_PROGRAMS",
    "_src/compiler/capture/number_placeholders._LATE_KINDS",
    "_src/compiler/capture/number_placeholders._MATH_CONDITIONS",
    "_src/compiler/capture/number_placeholders._MATH_KINDS",
    "_src/compiler/capture/traced_arrays._READING",
    "_src/compiler/capture/python_while_loops._OPS",
    "_src/compiler/cuda/class_loss._REDUCTIONS",
    "_src/compiler/cuda/indexed._COMBINATIONS",
    "_src/compiler/kernels/slices.PARAMETERS",
    "_src/lifting/namespaces._LINALG",
    "_src/lifting/numbers._CMATH",
    "_src/lifting/numbers._DOMAINS",
    "_src/lifting/numbers._MATH",
    "_src/lifting/numbers._OF_MATH",
    "_src/lifting/subclasses._KEEPING",
    "_src/lifting/taped_numbers.BINARY",
    "_src/lifting/taped_numbers.UNARY",
    "_src/lifting/taped_numbers._INLINE",
    "_src/lifting/taped_numbers._OF_UFUNCS",
    "_src/lifting/taped_numbers._REFLECTED_INLINE",
    "_src/tensor/functions/comparison._IN_PLACE",
    "_src/tensor/functions/elementwise._DIVISIONS",
    "_src/tensor/functions/extremum.METHODS",
    "_src/tensor/functions/gather._EXTREMES",
    "_src/tensor/functions/join.ALIASES",
    "_src/tensor/functions/order.METHODS",
    "_src/tensor/functions/pointwise.ALIASES",
    "_src/tensor/functions/pointwise._OTHER_NAMES",
    "_src/tensor/functions/reduce.METHODS",
    "_src/tensor/functions/scan.METHODS",
    "_src/tensor/functions/segments._KINDS",
    "_src/tensor/functions/statistics.METHODS",
    "compat/autograd/numpy/lists.OF_ARRAYS",
    "compat/autograd/numpy/lists.OF_MATRICES",
    "distributed/collectives._HOST_ONLY",
    "distributed/tensor/placements._REDUCTIONS",
    "fx/_code.magic_methods",
    "nested/kinds._KEEPS_SIZES",
    "nn/functional/reduction._KINDS",
    "numpy/ufuncs._OPS",
    "numpy/ufuncs._OTHER_MEANING",
    "numpy/ufuncs._SCIPY_NAMES",
    "_src/tensor/list_functions.BINARY",
    "_src/tensor/list_functions.POINTWISE",
    "_src/tensor/list_functions.UNARY",
    "_src/tensor/list_functions._WITH_ALPHA",
    "_src/tensor/list_functions._WITH_TENSOR",
    "distributed/tensor/placements.ALL_REDUCE_OPS",
}


def _strings(node: ast.expr | None) -> list[str]:
    """Return the string members of a collection in source code: the keys of a dict, or its values if the keys are no op names."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Dict(keys=keys, values=values):
            found = [s for k, v in zip(keys, values, strict=True) for s in _strings(v if k is None else k)]
            return found if _is_table(found) else [s for v in values for s in _strings(v)]
        case ast.Set(elts=elements) | ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [s for e in elements for s in _strings(e)]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split")):
            return text.split()
        case ast.Call(func=ast.Attribute(attr="fromkeys"), args=[keys, *_]):
            return _strings(keys)
        case ast.Call(func=ast.Name(id="dict" | "frozenset" | "set" | "tuple" | "list"), args=arguments, keywords=keywords):
            return [s for a in arguments for s in _strings(a)] + [k.arg for k in keywords if k.arg]
        case ast.BinOp(left=left, right=right):
            return _strings(left) + _strings(right)
        case ast.SetComp(generators=generators) | ast.DictComp(generators=generators) | ast.GeneratorExp(generators=generators):
            return [s for g in generators for s in _strings(g.iter)]
        case ast.Starred(value=value):
            return _strings(value)
    return []


def _is_table(names: list[str]) -> bool:
    known = sum(name in OPS for name in names)
    return known >= 2 and 2 * known > len(names)


def _tables(source: str) -> Iterator[str]:
    """Yield the names of module-level variables, and of class attributes, that hold mostly op names."""
    body = ast.parse(source).body
    for statement in [*body, *(s for c in body if isinstance(c, ast.ClassDef) for s in c.body)]:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value):
                strings = _strings(value)
                names = strings[0].split() if isinstance(value, ast.Constant) and strings else strings
                if name not in ("__all__", "__slots__") and _is_table(names):
                    yield name


def test_tables_of_op_names_outside_the_op_table_are_known():
    found = {
        f"{path.relative_to(PACKAGE).with_suffix('').as_posix()}.{name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent != PACKAGE / "_src" / "ops"
        for name in _tables(path.read_text(encoding="utf-8"))
    }
    assert found == TABLES | OTHER_NAMES
    assert len(TABLES) <= 25


def test_a_table_of_op_names_is_found_in_each_form():
    sources = (
        '_A = frozenset("add sub".split())', '_B: dict[str, int] = {"add": 1, **dict.fromkeys(["sub"], 2)}',
        '_C = ("add", "sub", "no op")', '_D = {2: "square", 3: "exp"}', '_E = "add sub"', 'class _F:\n    _G = {"add", "sub"}',
    )  # fmt: skip
    assert [name for source in sources for name in _tables(source)] == ["_A", "_B", "_C", "_D", "_E", "_G"]
    assert [*_tables('_H = ("add", "no", "op")'), *_tables('__all__ = ["add", "sub"]'), *_tables('"add sub"')] == []
