"""Number of programs of the comparison with torch, by heading: `docs/parity.md` states it and `test_ledger` checks it.

A program is one function in the `PROGRAMS` table of a test file, counted once however many values it tries. After adding or removing some,
`python -m tests.torch_parity.ledger` writes the page's table anew. Its counts are lower bounds, so that few changes touch it.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "parity.md"


@dataclass(frozen=True)
class Heading:
    name: str
    files: tuple[str, ...]
    least: int = 20


@dataclass(frozen=True)
class Group:
    name: str
    least: int
    headings: tuple[Heading, ...]


GROUPS = (
    Group(
        "autograd",
        300,
        (
            Heading("hooks", ("hooks",)),
            Heading("saved tensors", ("saved_tensors",)),
            Heading("custom functions", ("function", "custom_function_arguments", "custom_functions")),
            Heading("the engine", ("engine", "engine_edges", "accumulation", "nested_passes")),
            Heading("views and writes in place", ("views_inplace",)),
            Heading("anomaly mode", ("anomaly",)),
            Heading("checkpointing", ("checkpoint", "checkpoint_kinds", "selective_checkpoint")),
            Heading("graph inspection", ("graph_inspection", "graph_namespace")),
            Heading("the profiler", ("profiler",)),
            Heading("modes", ("grad_modes", "modes")),
            Heading("inference mode", ("inference_rules",)),
            Heading("tensor subclasses", ("subclass", "wrapper_subclasses")),
            Heading("dispatch modes, overrides, trees", ("dispatch_and_overrides", "trees")),
            Heading("conjugates", ("conjugates",)),
            Heading("texts of errors and warnings", ("messages", "refusals")),
            Heading("behaviours across these", ("behaviours",)),
        ),
    ),
    Group(
        "transforms and checks",
        300,
        (
            Heading("`torch.func`", ("func", "functorch"), least=150),
            Heading("custom functions inside transforms", ("custom_transforms",)),
            Heading("forward mode", ("forward_ad", "forward_ad_compositions")),
            Heading("`torch.autograd.functional`", ("functional",)),
            Heading("gradient checking", ("gradcheck",)),
        ),
    ),
    Group("families of ops", 60, (Heading("signals, histograms, copies, masks, factorisations, kernels", ("op_families",), least=60),)),
    Group("networks", 50, (Heading("parametrizations, pruning, losses, optimizers", ("networks",), least=50),)),
    Group(
        "kinds of tensor",
        90,
        (Heading("sparse tensors", ("sparse",), least=60), Heading("nested tensors", ("nested_tensors",), least=30)),
    ),
    Group("probability", 100, (Heading("distributions, transforms of samples, divergences", ("distributions",), least=100),)),
    Group(
        "whole programs",
        60,
        (
            Heading("training, science, probability, automatic differentiation", ("programs",)),
            Heading("autocast and scaled gradients", ("amp",)),
            Heading("the machine: devices, backends, settings, versions", ("machine",), least=10),
            Heading("scripts that say `import torch`", ("scripts",), least=30),
        ),
    ),
)


def programs(file: str) -> list[str]:
    """The names of a test file's programs, by the file they are written in."""
    table = importlib.import_module(f"tests.torch_parity.test_{file}").PROGRAMS
    return list(table) if isinstance(table, dict) else [f"{f.__module__}.{f.__name__}" for f in table]


def count(heading: Heading) -> int:
    return sum(len(programs(file)) for file in heading.files)


def repeated(file: str) -> list[str]:
    return [name for name, times in Counter(programs(file)).items() if times > 1]


def table() -> str:
    """The page's table, as Markdown."""
    lines = ["| heading | programs | in `tests/torch_parity` |", "|---|---|---|"]
    for group in GROUPS:
        lines.append(f"| **{group.name}** | {_rounded(sum(map(count, group.headings)))} | |")
        lines += [f"| {h.name} | {_rounded(count(h))} | {', '.join(f'`test_{file}.py`' for file in h.files)} |" for h in group.headings]
    return "\n".join(lines) + "\n"


def _rounded(number: int) -> str:
    return f"{number // 10 * 10}+"


def bounds(text: str) -> tuple[str, list[int]]:
    """A table without its counts, and its counts."""
    return re.sub(r"\d+\+", "", text), [int(number) for number in re.findall(r"(\d+)\+", text)]


_TABLE = re.compile(r"^(\|.*\n)+", flags=re.MULTILINE)


def read_table() -> str:
    """The table as the page has it."""
    found = _TABLE.search(PAGE.read_text())
    return found[0] if found else ""


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text(), count=1))
