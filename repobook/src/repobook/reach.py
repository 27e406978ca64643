"""Tests that reach a file: the search goes backwards along the edges, level by level, up to the first tests.

A test of Python code reaches the C++ behind it through the bindings. Only certain and likely edges count.
"""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

_LEVELS = 6
# A path over more symbols than this says little about a test.
_VISITS = 600


@dataclass(slots=True)
class Reach:
    tests: list[tuple[int, int]]  # (test symbol, the symbol of the level below it)
    distance: int
    complete: bool  # False where the search was given up


class Callers:
    """Users of a symbol; answers are kept."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._known: dict[int, list[int]] = {}
        # All users at once, in order of the used symbols: numbers in arrays, which forked workers share without a copy.
        self._used: array[int] | None = None
        self._users: array[int] = array("q")

    def load_all(self) -> None:
        used, users = array("q"), array("q")
        rows = self.db.execute("SELECT dst, src FROM edges WHERE certainty>1 ORDER BY dst")
        while batch := rows.fetchmany(50_000):
            used.extend([row[0] for row in batch])
            users.extend([row[1] for row in batch])
        self._used, self._users = used, users

    def list_callers(self, symbol: int) -> list[int]:
        found = self._known.get(symbol)
        if found is not None:
            return found
        if self._used is None:
            rows = self.db.execute("SELECT src FROM edges WHERE dst=? AND certainty>1", (symbol,))
            found = sorted([row[0] for row in rows])
        else:
            start = bisect_left(self._used, symbol)
            found = sorted(self._users[start : bisect_left(self._used, symbol + 1, start)])
        self._known[symbol] = found
        return found


def tests_of(
    symbols: list[int], callers: Callers, is_test: Callable[[int], bool], place: Callable[[int], tuple[int, int]]
) -> Reach:
    """The nearest tests that reach any of the symbols; `place` orders symbols."""
    seen = set(symbols)
    level = sorted(symbols, key=place)
    for distance in range(1, _LEVELS + 1):
        found: dict[int, int] = {}
        following: dict[int, int] = {}
        for symbol in level:
            for user in callers.list_callers(symbol):
                if user in seen:
                    continue
                seen.add(user)
                if is_test(user):
                    found[user] = symbol
                elif user & 0xFFFFF:
                    following[user] = symbol
        if found:
            return Reach(sorted(found.items(), key=lambda row: place(row[0])), distance, True)
        if not following:
            return Reach([], 0, True)
        if len(seen) > _VISITS:
            return Reach([], 0, False)
        level = sorted(following, key=place)
    return Reach([], 0, False)
