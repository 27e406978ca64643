"""Fixed programs for each kind of place and effect, and for storing something in each kind of place."""

from __future__ import annotations

from dataclasses import dataclass

from tests.programs.world.computations import COMPUTATIONS
from tests.programs.world.effects import EFFECTS
from tests.programs.world.generate import Program, cases_of_effect, cases_of_place, cases_of_writing
from tests.programs.world.places import PLACES
from tests.programs.world.run import check
from tests.programs.world.scenarios import SCENARIOS


def texts(programs: list[Program]) -> list[str]:
    return [program.source for program in programs]


#: The programs of each kind as text, by "place: kind", "write: kind", "effect: kind", "op: kind" or "scenario: name".
CASES: dict[str, list[str]] = {
    **{f"place: {kind.name}": texts(cases_of_place(kind)) for kind in PLACES},
    **{f"write: {kind.name}": made for kind in PLACES if (made := texts(cases_of_writing(kind)))},
    **{f"effect: {kind.name}": texts(cases_of_effect(kind)) for kind in EFFECTS},
    **{f"op: {kind.name}": texts(cases_of_effect(kind, "op")) for kind in COMPUTATIONS},
    **{f"scenario: {name}": [text] for name, text in SCENARIOS.items()},
}


@dataclass(frozen=True)
class Case:
    """The outcome of all programs of a kind."""

    label: str
    #: the first difference, with its program
    difference: str | None
    calls: int
    compiled: int


def examine(label: str, is_native: bool = False) -> Case:
    """Run the programs of a kind."""
    found, calls, compiled = None, 0, 0
    for source in CASES[label]:
        outcome = check(source, is_native)
        calls, compiled = calls + outcome.calls, compiled + outcome.compiled
        if found is None and outcome.error:
            found = f"the program itself fails: {outcome.error}\n{source}"
        if found is None and outcome.difference is not None:
            found = f"{outcome.difference.message} (call {outcome.difference.turn + 1})\n{source}"
    return Case(label, found, calls, compiled)
