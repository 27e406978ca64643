"""The layers of the package: their order, the imports that go against it, and the cycles that remain.

The docstring of ndgrad._src lists the layers. A module of a layer imports only earlier layers. A call in the other direction goes
through a hook of `foundations/registry.py`, or through an import inside a function that UPWARD names. Every list of exceptions here
may only shrink.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import ndgrad
from ndgrad import _src
from ndgrad._src import compiler
from ndgrad._src.foundations import registry

PACKAGE = Path(ndgrad.__path__[0])
CONTRIBUTING = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def listed(docstring: str | None) -> tuple[str, ...]:
    """Return the names that a docstring lists, one per indented line."""
    return tuple(re.findall(r"^    (\w+)  +\w", docstring or "", flags=re.MULTILINE))


#: Layers of the implementation, lowest first, and folders of the compiler, lowest first.
LAYERS, COMPILER = listed(_src.__doc__), listed(compiler.__doc__)
#: Layers over the public packages: lifted code runs on ndgrad.numpy, and commands call what users call.
OVER_PUBLIC = ("lifting", "command_line")
#: Imports of a higher layer, each inside a function that runs only when the higher layer is in use.
UPWARD = {
    ("_src.compiler.cuda.graph_capture", "cuda.graphs"),
    ("_src.compiler.cuda.program", "_src.compiler.runtime.backend"),
    ("_src.compiler.lower.native_program", "_src.compiler.runtime.backend"),
    ("_src.compiler.native.cache", ""),
    ("_src.compiler.runtime.entry", "_src.compiler.report.cuda_inspection"),
    ("_src.compiler.runtime.entry", "nn.modules.compiled"),
    ("_src.compiler.runtime.function", "_src.compiler.report.inspection"),
    ("_src.control_flow.loops", "_src.compiler.capture.control_flow"),
    ("_src.control_flow.loops", "_src.compiler.capture.while_loops"),
    ("_src.control_flow.samples", "_src.compiler.capture.control_flow"),
    ("_src.control_flow.samples", "_src.compiler.capture.subprograms"),
    ("_src.core.batched_parts", "_src.interpreters.transform_writes"),
    ("_src.core.inplace", "_src.interpreters.transform_writes"),
    ("_src.tensor.functions.gather", "sparse.lookups"),
    ("_src.tensor.functions.slices", "sparse.lookups"),
    ("_src.tensor.functions.sparse", "sparse"),
    ("_src.tensor.functions.sparse", "sparse.tensor"),
    ("_src.transforms.nested_arguments", "nested.tensor"),
    ("_src.transforms.transforms", "nested.mapped"),
}
#: Bounds that may only shrink: hooks of the registry; modules in the largest import cycle, without and with hooks. Eager ops
#: compile their bodies, so passes of the compiler are in the second one, and so is every file of kernels for eager ops.
MOST_HOOKS = 24
LARGEST_CYCLE = 34
LARGEST_CYCLE_WITH_HOOKS = 283


class Import(NamedTuple):
    source: str
    target: str
    line: int
    is_inside: bool  # inside a function
    has_reason: bool  # a comment on the line or the line above


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TEXTS = {_name(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def _targets(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    else:
        assert not node.level, f"relative import of {node.module}: imports are absolute"
        inner = [f"{node.module}.{a.name}" for a in node.names]
        names = [name if name.removeprefix("ndgrad.") in TEXTS else str(node.module) for name in inner]
    own = [n.removeprefix("ndgrad").removeprefix(".") for n in names if n.split(".")[0] == "ndgrad"]
    return [n for n in dict.fromkeys(own) if n in TEXTS]


@functools.cache
def _imports() -> list[Import]:
    found: list[Import] = []
    for module, text in TEXTS.items():
        _find_imports(ast.parse(text), False, module, text.splitlines(), found)
    return found


def _find_imports(node: ast.AST, is_inside: bool, module: str, rows: list[str], found: list[Import]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # an expression contains no statement
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue  # such imports do not run
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            has_reason = "#" in rows[child.lineno - 1] + rows[child.lineno - 2]
            found.extend(
                Import(module, t, child.lineno, is_inside, has_reason) for t in _targets(child) if t != module
            )
        is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        _find_imports(child, is_inside or is_function, module, rows, found)


def layer_of(module: str) -> int:
    """Return the number of a module's layer; public modules are above all layers."""
    parts = module.split(".")
    return LAYERS.index(parts[1]) if parts[0] == "_src" and len(parts) > 1 else len(LAYERS)


def is_upward(source: str, target: str) -> bool:
    if not source.startswith("_src.") or source.split(".")[1] in OVER_PUBLIC:
        return False
    if source.startswith("_src.compiler.") and target.startswith("_src.compiler."):
        folders = source.split(".")[2], target.split(".")[2]
        return folders[0] in COMPILER and folders[1] in COMPILER and COMPILER.index(folders[1]) > COMPILER.index(folders[0])
    return layer_of(target) > layer_of(source)


def package_of(module: str) -> str:
    """Return the folder that counts as a module's package: a layer, a folder of the compiler, or a public package."""
    parts = module.split(".")
    if parts[0] != "_src":
        return parts[0]
    return "/".join(parts[: 3 if parts[1:2] == ["compiler"] else 2])


def _hook_edges() -> list[tuple[str, str]]:
    """Return the edges that the registry hides: from a module that uses a hook to the module behind it."""
    homes = {hook: home.removeprefix("ndgrad.") for hook, home in registry.MODULES.items()}
    edges = [(module, homes[hook]) for module, text in TEXTS.items() for hook in _hooks_in(text) & homes.keys()]
    for value in registry._VALUES:
        provider = next(module for module, text in TEXTS.items() if re.search(rf"\nregister\(.*\b{value}=", text))
        edges += [(module, provider) for module, text in TEXTS.items() if value in _hooks_in(text)]
    return edges


def _hooks_in(text: str) -> set[str]:
    imported = re.findall(r"from ndgrad\._src\.foundations\.registry import (\w+)", text)
    return {*re.findall(r"registry\.(\w+)", text), *imported}


def test_the_list_of_layers_is_the_listing_of_the_folder():
    assert sorted(LAYERS) == sorted({m.split(".")[1] for m in TEXTS if m.startswith("_src.")})
    assert sorted(COMPILER) == sorted({m.split(".")[2] for m in TEXTS if m.startswith("_src.compiler.")})


def test_no_module_imports_a_higher_layer():
    upward = {(i.source, i.target) for i in _imports() if is_upward(i.source, i.target)}
    assert upward - UPWARD == set(), "declare a hook (foundations/registry.py), or move the module to its layer"
    assert UPWARD - upward == set(), "gone: remove it from UPWARD"
    assert [i for i in _imports() if not i.is_inside and (i.source, i.target) in UPWARD] == [], "import it inside a function"


def test_packages_form_no_cycle():
    edges = {(package_of(i.source), package_of(i.target)) for i in _imports() if not i.is_inside and i.target}
    assert [cycle for cycle in _cycles((a, b) for a, b in edges if a != b) if len(cycle) > 1] == []


def test_hooks_are_few_and_each_is_used():
    used = {hook for module, text in TEXTS.items() if module != "_src.foundations.registry" for hook in _hooks_in(text)}
    hooks = {*registry.MODULES, *registry._VALUES}
    assert hooks - used == set(), "no module uses it: remove it from the registry"
    assert len(hooks) <= MOST_HOOKS
    assert [home for home in registry.MODULES.values() if home.removeprefix("ndgrad.") not in TEXTS] == []


def test_imports_inside_functions_say_why():
    assert [f"{i.source}:{i.line}" for i in _imports() if i.is_inside and not i.has_reason] == []


def test_no_modules_import_each_other_at_their_head():
    heads = [(i.source, i.target) for i in _imports() if not i.is_inside]
    assert [len(cycle) for cycle in _cycles(heads) if len(cycle) > 1] == []


def test_import_cycles_are_small():
    edges = [(i.source, i.target) for i in _imports() if i.target]
    largest = max(_cycles(edges), key=len)
    assert len(largest) <= LARGEST_CYCLE, sorted(largest)
    largest = max(_cycles([*edges, *_hook_edges()]), key=len)
    assert len(largest) <= LARGEST_CYCLE_WITH_HOOKS, len(largest)


def test_contributing_describes_every_layer():
    named = set(re.findall(r"^\| `_src/(\w+)/?`", CONTRIBUTING, flags=re.MULTILINE))
    assert named == set(LAYERS)


def _cycles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the strongly connected components of a graph (Tarjan)."""
    after: dict[str, set[str]] = defaultdict(set)
    for source, target in edges:
        after[source].add(target)
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def enter(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in list(after[module]):
            if target not in order:
                enter(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            at = stack.index(module)
            found.append(stack[at:])
            del stack[at:]

    for module in list(after):
        if module not in order:
            enter(module)
    return found
