"""Questions to the model: definitions, users and callers of a name."""

import re
import sqlite3
from dataclasses import asdict, dataclass

from repobook.model.schema import CALLS, CERTAINTY_NAMES, EDGE_NAMES, FILE_SHIFT
from repobook.model.store import places_of
from repobook.reading.facts import unpack

# Of a plain name with more definitions than this (`__init__`), the most used count.
_DEFINITIONS = 500
# Words that may stand in for a misspelled one.
_NEAR = 4


@dataclass(slots=True)
class Definition:
    id: int
    name: str
    qualified: str
    kind: str
    path: str
    line: int
    signature: str
    declaration: int

    def row(self) -> dict[str, object]:
        return asdict(self)


@dataclass(slots=True)
class Use:
    path: str
    line: int
    count: int
    inside: str  # qualified name of the enclosing symbol, '' at the top of the file
    target: str
    kind: str
    certainty: str

    def row(self) -> dict[str, object]:
        return asdict(self)


def find(db: sqlite3.Connection, name: str, limit: int = 50) -> list[Definition]:
    """Definitions of a name, a qualified name or its end (`SavedVariable::unpack`)."""
    last = name.rpartition("::")[2].rpartition(".")[2]
    rows = db.execute(
        "SELECT s.id, s.name, s.qualified, s.kind, f.path, s.line, s.signature, s.declaration FROM symbols s "
        f"JOIN files f ON f.id = s.id >> {FILE_SHIFT} WHERE s.name=? AND s.kind<>'file' ORDER BY s.declaration, "
        "f.test, f.path, s.line LIMIT ?",
        (last, limit if last == name else -1),
    )
    return [Definition(*row) for row in rows if _ends_with(row[2], name)][:limit]


def _ends_with(qualified: str, name: str) -> bool:
    if qualified == name or ("." not in name and "::" not in name):
        return True
    return qualified.endswith(("::" + name, "." + name))


def uses(db: sqlite3.Connection, name: str, calls_only: bool = False, limit: int = 200) -> list[Use]:
    """Places that use a name, the sure ones first."""
    last = name.rpartition("::")[2].rpartition(".")[2]
    only = f"AND kind={CALLS}" if calls_only else ""
    most = -1 if last != name else _DEFINITIONS
    query = "SELECT id, qualified FROM symbols WHERE name=? AND kind<>'file' ORDER BY uses DESC LIMIT ?"
    meant = [row for row in db.execute(query, (last, most)) if _ends_with(row[1], name)]
    # The sure ones of every definition before the less sure ones of any, and no more than are asked for: a name can
    # have a hundred thousand uses.
    chosen: list[tuple[int, int, int, str, int, int]] = []
    for certainty in sorted(CERTAINTY_NAMES, reverse=True):
        for symbol, qualified in meant:
            rows = db.execute(
                f"SELECT src, line, count, kind FROM edges WHERE dst=? AND certainty=? {only} LIMIT ?",
                (symbol, certainty, limit - len(chosen)),
            )
            chosen += [(src, line, count, qualified, kind, certainty) for src, line, count, kind in rows]
            if len(chosen) >= limit:
                break
        if len(chosen) >= limit:
            break
    found = []
    for src, line, count, target, kind, certainty in chosen:
        path, inside, inside_kind = db.execute(
            f"SELECT f.path, s.qualified, s.kind FROM symbols s JOIN files f ON f.id=s.id>>{FILE_SHIFT} WHERE s.id=?",
            (src,),
        ).fetchone()
        at_top = inside_kind == "file"
        found.append(
            Use(path, line, count, "" if at_top else inside, target, EDGE_NAMES[kind], CERTAINTY_NAMES[certainty])
        )
    order = {"certain": 0, "likely": 1, "candidate": 2}
    found.sort(key=lambda use: (order[use.certainty], use.path, use.line))
    return found


def occurrences(db: sqlite3.Connection, name: str, limit: int = 200) -> list[tuple[str, int]]:
    """(path, line) of every occurrence of a plain name in code, resolved or not."""
    found: list[tuple[str, int]] = []
    for path, blob in db.execute(
        "SELECT f.path, r.places FROM refs r JOIN files f ON f.id=r.file WHERE r.name=? ORDER BY f.path", (name,)
    ):
        found += [(path, unpack(place)[0]) for place in places_of(blob)]
        if len(found) > limit:
            break
    return found[:limit]


def search(db: sqlite3.Connection, words: str, limit: int = 20) -> list[Definition]:
    """Names and parts of names (`saved var` finds SavedVariable), and words of documentation, best first.

    Words that occur nowhere are taken for misspelled: the nearest words of the tree stand in for them.
    """
    parts = re.findall(r"\w+", words.lower())
    if not parts:
        return []
    found = _match(db, [[part] for part in parts], limit)
    return found or _match(db, [_correct(db, part) for part in parts], limit)


def _match(db: sqlite3.Connection, choices: list[list[str]], limit: int) -> list[Definition]:
    """Symbols with one word of each choice; the first word of a choice is the best."""
    if not all(choices):
        return []
    query = " AND ".join("(" + " OR ".join(f'"{word}"*' for word in words) + ")" for words in choices)
    rows = db.execute(
        "SELECT s.id, s.name, s.qualified, s.kind, f.path, s.line, s.signature, s.declaration FROM search "
        f"JOIN symbols s ON s.id=search.rowid JOIN files f ON f.id=s.id>>{FILE_SHIFT} WHERE search MATCH ? "
        "ORDER BY bm25(search, 10.0, 4.0, 1.0) - MIN(s.uses, 1000) / 500.0 - (LOWER(s.name)=?) * 20, f.test, "
        "LENGTH(s.name), f.path LIMIT ?",
        (query, "".join(words[0] for words in choices), limit),
    )
    return [Definition(*row) for row in rows]


def allowed_errors(length: int) -> int:
    """Letters of a word that may be wrong."""
    if length < 4:
        return 0
    return 1 if length < 8 else 2


def count_errors(one: str, two: str, most: int) -> int:
    """Letters that differ, are missing, are too many or are exchanged with their neighbour; `most + 1` stands for more.

    This is the optimal string alignment distance.
    """
    if abs(len(one) - len(two)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(two) + 1))
    for at, letter in enumerate(one, 1):
        above, before, row = before, row, [at]
        for place, other in enumerate(two, 1):
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != other))
            if at > 1 and place > 1 and letter == two[place - 2] and one[at - 2] == other:
                cost = min(cost, above[place - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def _correct(db: sqlite3.Connection, word: str) -> list[str]:
    """The word itself if it occurs, or else the nearest words of names and documentation; [] if none is near."""
    if db.execute("SELECT 1 FROM search WHERE search MATCH ? LIMIT 1", (f'"{word}"*',)).fetchone():
        return [word]
    most = allowed_errors(len(word))
    if not most:
        return []
    rows = _vocabulary(db).execute(
        "SELECT term, doc FROM temp.vocabulary WHERE LENGTH(term) BETWEEN ? AND ?", (len(word) - most, len(word) + most)
    )
    near = []
    for term, count in rows:
        errors = count_errors(word, term, most)
        if errors <= most:
            near.append((errors, term[:1] != word[:1], -count, term))
    return [term for _, _, _, term in sorted(near)[:_NEAR]]


def _vocabulary(db: sqlite3.Connection) -> sqlite3.Connection:
    """The words of the search index as a table. It is temporary: nothing is written to the model."""
    db.execute("PRAGMA query_only=0")
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab('main', 'search', 'row')")
    return db


def suggest(db: sqlite3.Connection, name: str, most: int = 5) -> list[str]:
    """Qualified names like one that the tree does not define."""
    last = name.rpartition("::")[2].rpartition(".")[2]
    found = [row for row in search(db, last, 40) if row.kind != "file"]
    return list(dict.fromkeys(row.qualified for row in found))[:most]
