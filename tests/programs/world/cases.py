"""Fixed programs for each kind of place and effect, and for storing something in each kind of place."""

from __future__ import annotations

from tests.programs.world.effects import EFFECTS
from tests.programs.world.generate import Program, cases_of_effect, cases_of_place, cases_of_writing
from tests.programs.world.places import PLACES
from tests.programs.world.run import check

#: The programs of each kind, by "place: kind", "write: kind" or "effect: kind".
CASES: dict[str, list[Program]] = {
    **{f"place: {kind.name}": cases_of_place(kind) for kind in PLACES},
    **{f"write: {kind.name}": made for kind in PLACES if (made := cases_of_writing(kind))},
    **{f"effect: {kind.name}": cases_of_effect(kind) for kind in EFFECTS},
}


def first_difference(label: str, is_native: bool = False) -> str | None:
    """The first difference in the programs of a kind, with the program; None if there is none."""
    for program in CASES[label]:
        outcome = check(program.source, is_native)
        if outcome.error:
            return f"the program itself fails: {outcome.error}\n{program.source}"
        if outcome.difference is not None:
            return f"{outcome.difference.message} (call {outcome.difference.turn + 1})\n{program.source}"
    return None


def labelled_difference(label: str) -> tuple[str, str | None]:
    return label, first_difference(label)
