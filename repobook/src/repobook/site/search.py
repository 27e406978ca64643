"""The search index of the static site: scripts that a page loads on demand, by the first letters of the typed text.

Note [ Shards ]
A name is found by the start of any of its words: `THPEngine_run_backward` stands under `thpenginerunbackward`,
`enginerunbackward`, `runbackward` and `backward` (letters and digits only, in lower case). The entries are divided by
their first letter, then by the next, until a shard is small; so whatever is typed, one script of bounded size answers.
The inner nodes of this tree are scripts too and hold the best of what lies below them, for when only a letter or two
were typed. Scripts, not JSON: a page opened from disk may load a script but may not fetch a file.
"""

import bisect
import gc
import hashlib
import itertools
import json
import sqlite3
from collections.abc import Iterable
from json.encoder import encode_basestring
from pathlib import Path
from typing import NamedTuple

from repobook.model.schema import FILE_SHIFT
from repobook.naming import page_base, word_starts

_LEAF = 60_000  # characters of a shard before it is divided; about 10 ms to load and search
_BEST = 120  # names that an inner node holds
_SHOWN = 3  # definitions of a name that stand under its inner words; under its own beginning all do
# Kinds by how often readers look for them. A step is worth about as much as twice the uses.
_KINDS = {
    "class": 6, "struct": 6, "interface": 6, "trait": 6, "union": 5, "enum": 5, "function": 5, "binding": 5, "macro": 4,
    "type": 4, "concept": 4, "method": 4, "note": 4, "file": 4, "namespace": 3, "module": 3, "constant": 3,
    "property": 2, "field": 2, "enumerator": 2, "variable": 2,
}  # fmt: skip
_TEST = -8  # definitions in tests come after those that they test


class Definition(NamedTuple):
    weight: int
    kind: str
    file: int  # index in the list of paths
    qualified: str  # '' where it is the name


class Name(NamedTuple):
    weight: int  # weight of its best definition
    name: str
    definitions: list[Definition]  # best first


def normal(name: str) -> str:
    """Letters and digits of a text in lower case, for comparison. `normal` of search.js does the same."""
    plain = name.lower().replace("_", "")
    return plain if plain.isalnum() else "".join(char for char in plain if char.isalnum())


def weight_of(kind: str, uses: int, test: bool) -> int:
    """Coarse in the uses, so that a change of a few leaves the index as it is."""
    return _KINDS.get(kind, 1) + (1 + uses).bit_length() + (_TEST if test else 0)


def stamp(db: sqlite3.Connection) -> str:
    """Equal where the index would be equal; much quicker to have than the index."""
    digest = hashlib.blake2b(_maker(), digest_size=16)
    rows = db.execute("SELECT id, name, qualified, kind, uses FROM symbols ORDER BY id")
    while batch := rows.fetchmany(10_000):
        digest.update(repr([(*row[:4], (1 + row[4]).bit_length()) for row in batch]).encode("utf-8", "replace"))
    for table in (
        "SELECT id, path, test, status IN ('binary', 'empty', 'unreadable') FROM files ORDER BY id",
        "SELECT file, title FROM remarks WHERE kind='note' ORDER BY file, title",
    ):
        digest.update(repr(db.execute(table).fetchall()).encode("utf-8", "replace"))
    return digest.hexdigest()


def _maker() -> bytes:
    return Path(__file__).read_bytes()


def index(db: sqlite3.Connection) -> dict[str, str]:
    """The scripts of the index by name."""
    collecting = gc.isenabled()
    gc.disable()  # it would look through millions of small objects, of which none is garbage
    try:
        return _index(db)
    finally:
        if collecting:
            gc.enable()


def _index(db: sqlite3.Connection) -> dict[str, str]:
    paths, names = _load_names(db)
    titles = sorted({definition.kind for name in names for definition in name.definitions})
    kinds = {kind: number for number, kind in enumerate(titles)}
    whole = [_row(name, len(name.definitions), kinds) for name in names]
    brief = [
        _row(name, _SHOWN, kinds) if len(name.definitions) > _SHOWN else text
        for name, text in zip(names, whole, strict=True)
    ]
    shards = _Shards(names, whole, brief)
    found = {"paths": f"repobook.paths({_script(_fold_paths(paths))})"}
    divided: list[str] = []
    leaves: list[str] = []
    for key, inner, rows in shards.made:
        (divided if inner else leaves).append(key)
        found[file_name(key)] = f"repobook.shard({_script(key)},[{','.join(rows)}])"
    short = {path: page_base(path) for path in paths if page_base(path) != path}
    manifest = {"kinds": titles, "divided": divided, "leaves": leaves, "short": short}
    found["manifest"] = f"repobook.manifest({_script(manifest)})"
    return found


def file_name(key: str) -> str:
    """The script of a shard; its name is safe on every file system. `fileName` of search.js does the same."""
    if key.isascii():
        return "s_" + key
    return "u_" + key.encode("utf-8", "replace").hex()


def _load_names(db: sqlite3.Connection) -> tuple[list[str], list[Name]]:
    paths: list[str] = []
    at: dict[int, int] = {}
    tests: set[int] = set()
    for file, path, test in db.execute(
        "SELECT id, path, test FROM files WHERE status NOT IN ('binary', 'empty', 'unreadable') ORDER BY path"
    ):
        at[file] = len(paths)
        paths.append(path)
        if test:
            tests.add(file)
    by_name: dict[str, list[Definition]] = {}
    seen: set[tuple[int, str]] = set()
    for symbol, name, qualified, kind, uses in db.execute("SELECT id, name, qualified, kind, uses FROM symbols"):
        file = symbol >> FILE_SHIFT
        place = at.get(file)
        if place is None:
            continue
        if kind == "file":
            name = qualified = paths[place].rpartition("/")[2]
        elif (place, qualified) in seen:
            continue  # overloads share one anchor
        else:
            seen.add((place, qualified))
        by_name.setdefault(name, []).append(
            Definition(weight_of(kind, uses, file in tests), kind, place, "" if qualified == name else qualified)
        )
    for file, title in db.execute("SELECT DISTINCT file, title FROM remarks WHERE kind='note'"):
        if file in at:
            note = Definition(weight_of("note", 0, file in tests), "note", at[file], "")
            by_name.setdefault(title, []).append(note)
    names = []
    for name, definitions in by_name.items():
        definitions.sort(key=lambda row: (-row.weight, row.file, row.qualified, row.kind))
        names.append(Name(definitions[0].weight, name, definitions))
    names.sort(key=lambda row: (-row.weight, len(row.name), row.name))
    return paths, names


class _Shards:
    """The tree of shards. A name is known by its rank: its place in the list of names, best first."""

    def __init__(self, names: list[Name], whole: list[str], short: list[str]) -> None:
        own: dict[str, list[int]] = {}  # key -> ranks of the names that it is
        parts: dict[str, list[int]] = {}  # key -> ranks of the names that end with it
        for rank, name in enumerate(names):
            key = normal(name.name)
            own.setdefault(key, []).append(rank)
            for start in word_starts(name.name):
                part = normal(name.name[start:])
                if len(part) > 1 and part != key:
                    parts.setdefault(part, []).append(rank)
        self.own, self.parts = own, parts
        self.whole, self.short = whole, short
        self.keys = sorted(own.keys() | parts.keys())
        self.sizes = [0, *itertools.accumulate(map(self._size, self.keys))]  # total size of the keys before each key
        self.made: list[tuple[str, bool, list[str]]] = []  # key, whether an inner node, rows
        self._divide("", 0, len(self.keys))

    def _size(self, key: str) -> int:
        whole, short = self.whole, self.short
        return sum(len(whole[rank]) for rank in self.own.get(key, ())) + sum(
            len(short[rank]) for rank in self.parts.get(key, ())
        )

    def _divide(self, prefix: str, low: int, high: int) -> list[int]:
        """Make the shards of a range of keys that begin with `prefix`; returns the best ranks among them."""
        exact = low + (low < high and self.keys[low] == prefix)
        if prefix and (self.sizes[high] - self.sizes[low] <= _LEAF or exact == high):
            return self._make(prefix, False, self.keys[low:high], ())
        place = len(self.made)
        best: set[int] = set()
        while exact < high:
            child = self.keys[exact][: len(prefix) + 1]
            end = bisect.bisect_left(self.keys, child + "\U0010ffff", exact, high)
            best.update(self._divide(child, exact, end))
            exact = end
        found = self._make(prefix, True, [prefix], sorted(best)[:_BEST])
        self.made.insert(place, self.made.pop())  # in the order of the keys
        return found

    def _make(self, prefix: str, inner: bool, keys: list[str], more: Iterable[int]) -> list[int]:
        """A shard of the names of some keys and some more; best first, each name once. Returns its best ranks."""
        own = {rank for key in keys for rank in self.own.get(key, ())}
        ranks = sorted(own.union(more, *(self.parts.get(key, ()) for key in keys)))
        self.made.append((prefix, inner, [self.whole[rank] if rank in own else self.short[rank] for rank in ranks]))
        return ranks[:_BEST]


def _row(name: Name, shown: int, kinds: dict[str, int]) -> str:
    """[name, number of definitions, kind, file, weight, qualified, kind, file, …] as a script has it"""
    definitions = ",".join(
        f"{kinds[row.kind]},{row.file},{row.weight},{encode_basestring(row.qualified) if row.qualified else 0}"
        for row in name.definitions[:shown]
    )
    return _escape_json(f"[{encode_basestring(name.name)},{len(name.definitions)},{definitions}]")


def _fold_paths(paths: list[str]) -> list[list[object]]:
    """Paths as [folder, [names]], in order: folders are not repeated."""
    found: list[list[object]] = []
    names: list[str] = []
    last = None
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder != last:
            names = []
            found.append([folder, names])
            last = folder
        names.append(name)
    return found


def _script(value: object) -> str:
    return _escape_json(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _escape_json(text: str) -> str:
    """JSON that is also safe inside a script."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
