"""The files that a C-family file sees through its includes.

Note [ Reach of includes ]
A file sees itself, the files it includes, and what those include. A file that a single other file includes is a part of
that file, so it sees what the other file sees. Headers that a build generates are outside the tree, so the reach of a
file is a lower bound: a name that no include reaches can still be meant, but not for certain.
"""

from collections.abc import Iterable

from repobook.languages import C_FAMILY
from repobook.model.schema import FILE_SHIFT
from repobook.resolving.tables import Sym, Tables


class Includes:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._targets: dict[int, set[int]] = {}
        self._includers: dict[int, set[int]] | None = None
        self._reach: dict[int, dict[int, int]] = {}

    def reach(self, file: int) -> dict[int, int]:
        """The files that a file sees, with the length of the shortest chain of includes."""
        known = self._reach.get(file)
        if known is None:
            if len(self._reach) >= _KEPT:
                self._reach.clear()
            known = self._reach[file] = self._find(file)
        return known

    def sees(self, file: int, found: Iterable[Sym]) -> bool:
        """True if a file sees one of the symbols."""
        reach = self.reach(file)
        return any(sym[0] >> FILE_SHIFT in reach for sym in found)

    def nearest(self, file: int, found: list[Sym]) -> list[Sym]:
        """Of the symbols that a file sees, those of the nearest file; all symbols if it sees none."""
        reach, path = self.reach(file), self._tables.path
        homes = {sym[0] >> FILE_SHIFT for sym in found}
        if len(homes) == 1:
            return found
        near = min((home for home in homes if home in reach), key=lambda home: (reach[home], path[home]), default=0)
        return [sym for sym in found if sym[0] >> FILE_SHIFT == near] if near else found

    def _find(self, file: int) -> dict[int, int]:
        found = {file: 0}
        self._add(file, found)
        part = file
        for _ in range(_PARTS):
            includers = self._included_by(part)
            if len(includers) != 1 or not includers.isdisjoint(found):
                break
            part = next(iter(includers))
            found[part] = 1
            self._add(part, found)
        return found

    def _add(self, file: int, found: dict[int, int]) -> None:
        """Add the includes of a file to the files that are found."""
        level = self._includes(file).difference(found)
        depth = found[file]
        while level:
            depth += 1
            found.update(dict.fromkeys(level, depth))
            level = set().union(*map(self._includes, level)).difference(found)

    def _includes(self, file: int) -> set[int]:
        known = self._targets.get(file)
        if known is None:
            known = self._targets[file] = {
                row.target for row in self._tables.imports(file) if row.kind == "include" and row.target
            }
        return known

    def _included_by(self, file: int) -> set[int]:
        if self._includers is None:
            self._includers = {}
            for source, target in self._tables.db.execute(
                "SELECT DISTINCT file, target FROM imports WHERE kind='include' AND target IS NOT NULL"
            ):
                if self._tables.language[source] in C_FAMILY:
                    self._includers.setdefault(target, set()).add(source)
        return self._includers.get(file, _NONE)


# Files that include each other one by one, and answers that are kept.
_PARTS = 3
_KEPT = 500
_NONE: set[int] = set()
