"""The map of the code: the order of its rooms, which imports go against it, how tangled imports are, how complex functions are.

CONTRIBUTING.md describes the rooms. A room may import those before it in ROOMS. What must be called the other way is registered in
ndgrad._src.foundations.registry, or stands in UPWARD below. Every list of exceptions here may only shrink.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import ndgrad
from ndgrad._src.foundations import registry

PACKAGE = Path(ndgrad.__path__[0])

#: Rooms from the ground up, and the modules in each. The first pattern that fits counts, from the top of PLACES on.
ROOMS = ("foundations", "ops", "core", "debug", "tensor", "func", "profiler", "autograd", "numpy", "over")
PLACES = (
    ("foundations", r"_arrivals|whole_files|mapped_files"),
    ("foundations", r"_registry|_locks|absent|naming|arrays(\..*)?|devices|dtypes|sizes|pytree|generator|device_generator|shadowing"),
    ("over", r"ops\.(aten|profiler)|func\.(modules|control_flow|associative|carry|samples)"),  # torch's names; modules, loops
    ("ops", r"ops(\..*)?"),
    ("autograd", r"autograd|autograd\.(anomaly_mode|functional|gradcheck(\..*)?|profiler|profiler_util|old_variable)"),  # torch's namespace
    ("core", r"autograd\..*"),
    ("debug", r"debug(\..*)?"),
    ("tensor", r"|_tensor|_methods|storage|printing|return_types|api(\..*)?|(sparse|nested|named)(\..*)?|linalg|fft|special|random"),
    ("func", r"func(\..*)?"),
    ("profiler", r"profiler(\..*)?"),
    ("numpy", r"numpy(\..*)?"),
    ("over", r".*"),
)

#: Imports of a room above, beside what the registry loads on demand.
UPWARD: set[tuple[str, str]] = set()
MOST_UPWARD = 11
#: The largest set of modules each of which imports all others, over however many steps.
LARGEST_KNOT = 12
#: Functions with more than this many branches.
MOST_COMPLEX = 25
COMPLEX: set[str] = set()

#: The core in reading order (docs/design.md), and how long it may be.
CORE = (
    "autograd.variable", "autograd.node", "autograd.versions", "autograd.view", "autograd.saved", "autograd.record",
    "autograd.generate", "autograd.dispatch", "autograd.inplace", "autograd.engine",
)  # fmt: skip
LONGEST_CORE = 4000
#: Folders that CONTRIBUTING.md names as a whole.
WHOLE = r"(api|arrays\.special|debug\.drawing|func\.sparsity|autograd\.gradcheck)\..*"

_BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.With, ast.IfExp, ast.comprehension, ast.Assert, ast.match_case)
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.alias)


class Import(NamedTuple):
    source: str
    target: str
    line: int
    inside: bool  # a function
    said: bool  # why


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
def _facts() -> tuple[list[Import], dict[str, int]]:
    """All imports, and how complex each function is. No tree is kept: there are a million nodes in all."""
    imports: list[Import] = []
    complexity: dict[str, int] = {}
    for module, text in TEXTS.items():
        tree = ast.parse(text)
        _find_imports(tree, False, module, text.splitlines(), imports)
        _count_branches(tree, module, complexity)
    return imports, complexity


def _imports() -> list[Import]:
    return _facts()[0]


def _find_imports(node: ast.AST, inside: bool, module: str, rows: list[str], found: list[Import]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # which holds no statement
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue  # what only a type checker reads imports nothing
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            said = "#" in rows[child.lineno - 1] + rows[child.lineno - 2]
            found.extend(Import(module, t, child.lineno, inside, said) for t in _targets(child) if t != module)
        _find_imports(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)), module, rows, found)


def _count_branches(node: ast.AST, module: str, complexity: dict[str, int]) -> int:
    """The places where the way divides, as linters count; a function's complexity is one more than those in it."""
    count = isinstance(node, _BRANCHES) + (len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _LEAVES):
            count += _count_branches(child, module, complexity)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        name = f"{module}.{node.name}"
        complexity[name] = max(count + 1, complexity.get(name, 0))
    return count


def room_of(module: str) -> str:
    return next(room for room, pattern in PLACES if re.fullmatch(pattern, module))


def is_upward(source: str, target: str) -> bool:
    return ROOMS.index(room_of(target)) > ROOMS.index(room_of(source))


def test_no_room_imports_one_above_it():
    upward = {(i.source, i.target) for i in _imports() if is_upward(i.source, i.target)}
    assert upward - UPWARD == set(), "register what the lower room calls (_src.foundations.registry), or move the file to the room it belongs to"
    assert UPWARD - upward == set(), "gone: take it out of UPWARD"


def test_few_rooms_are_loaded_from_below():
    assert len(UPWARD) + len(set(registry.LOADED_ON_DEMAND.values())) < MOST_UPWARD
    assert [home for home in registry.LOADED_ON_DEMAND.values() if home.removeprefix("ndgrad.") not in TEXTS] == []


def test_every_name_of_the_registry_is_provided_and_called():
    text = "\n".join(text for module, text in TEXTS.items() if module != "_registry")
    provided = set(re.findall(r"(\w+)=", " ".join(re.findall(r"\nregister\((.*?)\)\n", text, flags=re.DOTALL))))
    called = set(re.findall(r"registry\.(\w+)", text))
    for group in re.findall(r"from ndgrad\._registry import ([^#\n]+)", text):
        called |= {name.split(" as ")[0].strip() for name in group.split(",")}
    assert provided - {"interpreters"} == registry._NAMES - {"interpreters", "LOADED_ON_DEMAND"}
    assert provided - called == set(), "nobody calls it: take it out of the registry"


def test_imports_inside_functions_say_why():
    assert [f"{i.source}:{i.line}" for i in _imports() if i.inside and not i.said] == []


def test_no_modules_import_each_other_at_their_head():
    assert [len(knot) for knot in _knots([i for i in _imports() if not i.inside]) if len(knot) > 1] == []


def test_the_largest_knot_of_imports_is_small():
    largest = max(_knots(_imports()), key=len)
    assert len(largest) <= LARGEST_KNOT, sorted(largest)
    assert {room_of(module) for module in largest} == {"core"}


def test_the_core_is_short_enough_to_be_read():
    assert {room_of(module) for module in CORE} == {"core"}
    assert sum(len(TEXTS[module].splitlines()) for module in CORE) <= LONGEST_CORE


def test_every_file_below_the_namespaces_is_on_the_map():
    page = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\| `.*", page, flags=re.MULTILINE))
    named = {name.rpartition("/")[2] for name in re.findall(r"`([\w/]+)`", rows)}
    last = {m: m.rpartition(".")[2] for m in TEXTS if room_of(m) not in ("numpy", "over") and not re.fullmatch(WHOLE, m)}
    packages = {m for m in last if any(other.startswith(f"{m}.") for other in TEXTS)} | {""}
    assert [m for m, name in last.items() if m not in packages and name not in named] == []


def test_functions_are_not_too_complex():
    found = {name for name, count in _facts()[1].items() if count > MOST_COMPLEX}
    assert found - COMPLEX == set(), "take a part of it out into a function of its own"
    assert COMPLEX - found == set(), "simpler now: take it out of COMPLEX"


def _knots(imports: list[Import]) -> list[list[str]]:
    """The strongly connected components of the graph of imports (Tarjan)."""
    edges: dict[str, set[str]] = defaultdict(set)
    for i in imports:
        edges[i.source].add(i.target)
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    knots: list[list[str]] = []

    def enter(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in edges[module]:
            if target not in order:
                enter(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            at = stack.index(module)
            knots.append(stack[at:])
            del stack[at:]

    for module in list(edges):
        if module not in order:
            enter(module)
    return knots
