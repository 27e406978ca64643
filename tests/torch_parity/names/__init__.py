"""Every public name of torch's namespaces, kept as data, and what became of each here.

    torch-2.13.txt     name and kind, one a line, as torch 2.13 has them (without a GPU)
    differs.txt        names that are here and differ on purpose: entry of docs/differences/, names

A name is `same` if it is here and is a thing of the same kind, `differs` if it stands in differs.txt, and `absent` if `missing_names` has
the reason. There is no fourth. `python -m tests.torch_parity.names` writes what follows from this: the counts in docs/parity.md, the page
docs/absent.md, and the table without patterns that nothing fits any more; with `--torch`, the list of names too, from the torch that is
installed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
NAMES, DIFFERS = HERE / "torch-2.13.txt", HERE / "differs.txt"

#: Namespaces whose names are listed. What torch has beside them (inductor, quantization's insides, ...) is its own machinery.
NAMESPACES = """
    torch torch.Tensor torch.nn torch.nn.functional torch.nn.init torch.nn.parameter torch.nn.modules torch.nn.utils torch.nn.utils.rnn
    torch.nn.utils.parametrize torch.nn.utils.parametrizations torch.nn.utils.prune torch.nn.utils.stateless torch.nn.utils.fusion
    torch.nn.attention torch.nn.parallel torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.optim.optimizer torch.autograd
    torch.autograd.functional torch.autograd.forward_ad torch.autograd.graph torch.autograd.profiler torch.autograd.gradcheck
    torch.autograd.function torch.autograd.grad_mode torch.func torch.linalg torch.fft torch.special torch.signal torch.signal.windows
    torch.distributions torch.distributions.constraints torch.distributions.transforms torch.distributions.kl
    torch.distributions.constraint_registry torch.utils torch.utils.data torch.utils.checkpoint torch.utils.dlpack torch.utils.hooks
    torch.utils.benchmark torch.sparse torch.nested torch.masked torch.amp torch.cuda torch.cuda.amp torch.cpu torch.cpu.amp torch.mps
    torch.xpu torch.accelerator torch.backends torch.backends.cudnn torch.backends.cuda torch.backends.mkl torch.backends.mps
    torch.backends.mkldnn torch.backends.openmp torch.backends.cpu torch.jit torch.random torch.multiprocessing torch.testing
    torch.profiler torch.onnx torch.hub torch.serialization torch.types torch.futures torch.overrides torch.fx torch.export torch.compiler
    torch.library torch.storage torch.version torch.torch_version torch.return_types torch.quantization torch.distributed torch.package
    torch.monitor torch.mtia
""".split()

#: Modules that programs import though `import torch` does not load them.
IMPORTED = [
    f"torch.utils.{name}"
    for name in "benchmark bundled_inputs cpp_extension file_baton mobile_optimizer model_zoo tensorboard".split()
]


# ----- names of torch -------------------------------------------------------------------------------------------------


def names_of_torch() -> list[str]:
    """The lines of the list, from the torch that is installed."""
    lines = []
    for namespace, home in [(namespace, _resolve(namespace)) for namespace in NAMESPACES]:  # all loaded before any is looked at
        lines += [f"{namespace}.{name} {kind(getattr(home, name))}" for name in _public(home)]
    return sorted({*lines, *(f"{name} module" for name in IMPORTED)})


def _public(home: Any) -> list[str]:
    """The public names of a namespace: those that it lists, and its submodules; without a list, what does not come from elsewhere."""
    listed = getattr(home, "__all__", None) if isinstance(home, ModuleType) else None
    listed = None if home.__name__ == "torch" or not isinstance(listed, (list, tuple)) else set(listed)
    names = []
    for name in sorted({*dir(home), *(listed or ())}):
        if name.startswith("_") or not hasattr(home, name):
            continue
        value = getattr(home, name)
        if isinstance(value, ModuleType):
            if value.__name__ == f"{home.__name__}.{name}":
                names.append(name)
        elif name in (listed or ()) or (listed is None and _is_own(value)):
            names.append(name)
    return names


def _is_own(value: Any) -> bool:
    """Whether a value of a torch module is torch's, and not what it imports to be written."""
    home = getattr(value, "__module__", None)
    if home is None or not (inspect.isclass(value) or inspect.isroutine(value)):
        return type(value).__module__ not in ("typing", "__future__")
    return str(home).partition(".")[0] == "torch"


def kind(value: Any) -> str:
    if isinstance(value, ModuleType):
        return "module"
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else "value"


def _resolve(name: str) -> Any:
    """A namespace by its name. A file may have the name of a function of its package, so a module is looked for first."""
    if name.endswith(".Tensor"):
        return importlib.import_module(name.removesuffix(".Tensor")).Tensor
    return importlib.import_module(name)


# ----- names of ndgrad ------------------------------------------------------------------------------------------------


@functools.cache
def listed() -> dict[str, str]:
    """Name -> its kind in torch."""
    return dict(line.rsplit(" ", 1) for line in NAMES.read_text().splitlines())


@functools.cache
def differing() -> dict[str, str]:
    """Name -> the entry of docs/differences/."""
    rows = [line.partition(":") for line in DIFFERS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: entry for entry, _, names in rows for name in names.split()}


def here(name: str) -> Any:
    """Return the object of this name here; AttributeError if there is none."""
    namespace, _, last = name.rpartition(".")
    try:
        home = _resolve("ndgrad" + namespace.removeprefix("torch"))
    except ImportError as error:
        raise AttributeError(str(error)) from None
    value = getattr(home, last)
    if type(value).__module__ == "__future__":  # what a file imports to be written
        raise AttributeError(name)
    return value


def is_here(name: str) -> bool:
    try:
        here(name)
    except AttributeError:
        return False
    return True


@functools.cache
def standing() -> dict[str, str]:
    """Name -> same, differs, absent or unknown."""
    from ndgrad._src.foundations import missing_names as absent

    found = {}
    for name in listed():
        if is_here(name):
            found[name] = "differs" if name in differing() else "same"
        else:
            found[name] = "absent" if absent.find(name.removeprefix("torch.")) else "unknown"
    return found


def counts() -> dict[str, Counter[str]]:
    """Namespace (two levels of it) -> how many of its names stand how."""
    table: dict[str, Counter[str]] = {}
    for name, state in standing().items():
        parts = name.split(".")
        heading = ".".join(parts[:2]) if len(parts) > 2 else "torch"
        table.setdefault(heading, Counter())[state] += 1
    return table


# ----- results --------------------------------------------------------------------------------------------------------


def counts_table() -> str:
    """The table of docs/parity.md."""
    lines = ["| namespace | names | same | differ on purpose | absent with a reason |", "|---|---|---|---|---|"]
    table = counts()
    total: Counter[str] = sum(table.values(), Counter())
    for heading, found in [("**all**", total), *sorted(table.items())]:
        shown = heading if heading.startswith("**") else f"`{heading}`"
        row = [shown, found.total(), *(found[state] for state in ("same", "differs", "absent"))]
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines) + "\n"


def absent_page() -> str:
    """docs/absent.md."""
    from ndgrad._src.foundations import missing_names as absent

    lines = [
        "# Missing names",
        "",
        "This page lists the names of torch 2.13 that ndgrad does not have, with the reason and an alternative. Accessing one "
        "(`ndgrad.hub`) raises",
        "an AttributeError with the same text. Importing one under [`install_as_torch`](as-torch.md) raises a ModuleNotFoundError.",
        "`python -m tests.torch_parity.names` writes this page from `src/ndgrad/_src/foundations/missing_names.txt`. A test checks every",
        "public name of torch ([the comparison](parity.md)).",
    ]
    heading = ""
    missing = [name.removeprefix("torch.") for name, state in standing().items() if state == "absent"]
    for row in absent.table():
        found = [name for name in missing if absent.find(name) is row]
        if not found:
            continue
        if row.heading != heading:
            heading = row.heading
            lines += ["", f"## {heading}"]
        lines += ["", f"{row.reason} {row.instead}", "", _listed_names(found)]
    return "\n".join(lines) + "\n"


def _listed_names(found: list[str]) -> str:
    """Names as one paragraph: those of one namespace together, a whole namespace by its name."""
    whole = [name for name in found if listed().get(f"torch.{name}") == "module" and any(o.startswith(f"{name}.") for o in found)]
    rest = [name for name in found if not any(name.startswith(f"{w}.") for w in whole)]
    return ", ".join(f"`{name}`" + (" and all of it" if name in whole else "") for name in rest) + "."


def stale() -> list[str]:
    """Patterns of the table that no missing name fits."""
    from ndgrad._src.foundations import missing_names as absent

    missing = [name.removeprefix("torch.") for name, state in standing().items() if state == "absent"]
    patterns = [p for row in absent.table() for p in row.patterns]
    return [p for p in patterns if not any(map(absent.compile_pattern(p).fullmatch, missing))]


def prune() -> None:
    """Take patterns that no missing name fits out of the table, and rows that have none left."""
    from ndgrad._src.foundations import missing_names as absent

    gone = set(stale())
    if not gone:
        return
    made: list[str] = []
    for line in Path(absent.__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("    "):
            if made and " | " in made[-1] and not made[-1].startswith("#"):
                made.pop()  # a row without names
            made.append(line)
        elif kept := [pattern for pattern in line.split() if pattern not in gone]:
            made.append("    " + " ".join(kept))
    Path(absent.__file__).with_suffix(".txt").write_text("\n".join(made) + "\n", encoding="utf-8")
    for cache in (absent.table, absent._patterns, standing):
        cache.cache_clear()


def idle() -> list[str]:
    """Rows of the table that no missing name fits."""
    from ndgrad._src.foundations import missing_names as absent

    patterns = set(stale())
    return [row.reason for row in absent.table() if patterns.issuperset(row.patterns)]
