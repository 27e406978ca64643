"""All references of a file as edges between symbols: calls, uses, inheritance, registrations."""

import sqlite3

from repobook.languages import C_FAMILY
from repobook.model.schema import BINDS, CALLS, CERTAIN, FILE_SHIFT, INHERITS, NO_USE, OVERRIDES, USES
from repobook.reading.engine import CLASSES
from repobook.reading.facts import CALL, LINE_BITS, LINE_MASK, LOCAL_MASK
from repobook.resolving.modules import Modules
from repobook.resolving.names import Names
from repobook.resolving.tables import Sym, Tables

Edge = tuple[int, int, int, int, int, int]  # src, dst, kind, certainty, line, count


def resolve_imports(
    db: sqlite3.Connection, tables: Tables, modules: Modules, files: list[int] | None = None
) -> set[int]:
    """Set the target file of every import (of the given files, or of all); returns the files that a change concerns."""
    concerned: set[int] = set()
    where = "" if files is None else f" WHERE file IN ({','.join(map(str, files))})"
    updates = []
    known: dict[tuple[str, str, str, str, str], int | None] = {}
    for rowid, file, kind, module, name, old in db.execute(
        f"SELECT rowid, file, kind, module, name, target FROM imports{where}"
    ):
        path = tables.path[file]
        key = (kind, module, name, tables.language[file], path.rpartition("/")[0])
        if key not in known:
            target = modules.resolve(kind, module, name, tables.language[file], path)
            known[key] = tables.by_path[target] if target else None
        new = known[key]
        if new != old:
            updates.append((new, rowid))
            concerned.update(number for number in (file, old, new) if number is not None)
    db.executemany("UPDATE imports SET target=? WHERE rowid=?", updates)
    return concerned


# Endings of names that a build generates from tables of operators.
_GENERATED = ("_symint", "_out", "_outf")
# Kind, certainty, first line and count of an edge, by source and destination.
_Edges = dict[tuple[int, int], list[int]]


def edges_of(db: sqlite3.Connection, names: Names, file: int) -> list[Edge]:
    """The edges that start in a file."""
    found: _Edges = {}
    _add_references(db, names, file, found)
    _add_classes(names, file, found)
    _add_bindings(db, names, file, found)
    return [(src, dst, kind, certainty, line, count) for (src, dst), (kind, certainty, line, count) in found.items()]


def _add_references(db: sqlite3.Connection, names: Names, file: int, found: _Edges) -> None:
    """Calls and uses, one edge per pair of symbols."""
    base = file << FILE_SHIFT
    tables = names.tables
    resolve = names.resolve
    scopes = _scopes(names, file)
    native = tables.language[file] in C_FAMILY
    for name, qualifier, blob in db.execute("SELECT name, qualifier, places FROM refs WHERE file=?", (file,)):
        if native and not tables.native(name) and not tables.exposed(name) and not name.endswith(_GENERATED):
            continue  # defined nowhere in the tree: half of all names
        by_key: dict[int, tuple[list[int], int]] = {}
        last = -1
        for place in memoryview(blob).cast("Q"):
            local = place >> LINE_BITS & LOCAL_MASK
            flags = place >> 40
            key = scopes[local] << 8 | flags
            if key != last:
                last = key
                answer = by_key.get(key)
                if answer is None:
                    syms, certainty = resolve(file, name, qualifier, scopes[local], flags)
                    answer = by_key[key] = ([sym[0] for sym in syms], certainty)
                targets, certainty = answer
            if targets:
                kind = CALLS if flags & CALL else USES
                _count(found, base | local, targets, kind, certainty, place & LINE_MASK)


def _count(found: _Edges, src: int, targets: list[int], kind: int, certainty: int, line: int) -> None:
    """Add a reference to the edges of its targets."""
    for dst in targets:
        if dst == src and kind != CALLS:
            continue
        edge = found.get((src, dst))
        if edge is None:
            found[src, dst] = [kind, certainty, line, 1]
            continue
        edge[3] += 1
        if line < edge[2]:
            edge[2] = line
        if certainty > edge[1]:
            edge[1] = certainty
        if kind == CALLS and edge[0] == USES:
            edge[0] = CALLS


def _add_classes(names: Names, file: int, found: _Edges) -> None:
    """Bases of classes, and the methods of bases that methods override. An override is no use of the other."""
    for sym in names.tables.symbols(file)[1:]:
        if not sym.bases or sym.kind not in CLASSES:
            continue
        for parent in names.bases(sym):
            edge = found.setdefault((sym.id, parent.id), [INHERITS, CERTAIN, 0, 0])
            edge[0] = INHERITS
        for method, above in names.list_overridden(sym):
            if method.id != above.id:
                found.setdefault((method.id, above.id), [OVERRIDES, NO_USE, 0, 0])


def _add_bindings(db: sqlite3.Connection, names: Names, file: int, found: _Edges) -> None:
    """Functions that are registered under a name."""
    for line, target, local in db.execute(
        "SELECT line, target, local FROM bindings WHERE file=? AND target<>''", (file,)
    ):
        for sym in names.bound_target(file, target):
            edge = found.setdefault((file << FILE_SHIFT | local, sym.id), [BINDS, CERTAIN, line, 1])
            edge[0] = BINDS


def twins_of(tables: Tables, file: int) -> list[tuple[int, int]]:
    """(definition, declaration) pairs for the declarations of a file."""
    pairs = []
    for sym in tables.symbols(file)[1:]:
        if not sym.declaration:
            continue
        found = [
            other
            for other in tables.find_named(sym.name)
            if not other.declaration
            and other.qualified == sym.qualified
            and other.kind == sym.kind
            and tables.seen_from(other, file)
        ]
        if found:
            pairs.append((_likeliest(tables, file, found).id, sym.id))
    return pairs


def _likeliest(tables: Tables, file: int, found: list[Sym]) -> Sym:
    """The definition that completes a declaration: of the same file, of one with its name, of one that imports it."""
    if len(found) == 1:
        return found[0]
    stem = tables.path[file].rpartition("/")[2].partition(".")[0]

    def distance(sym: Sym) -> tuple[bool, bool, bool, str, int]:
        path = tables.path[sym.file]
        other_name = path.rpartition("/")[2].partition(".")[0] != stem
        imports = any(row.target == file for row in tables.imports(sym.file))
        return sym.file != file, other_name, not imports, path, sym.id & LOCAL_MASK

    return min(found, key=distance)


def _scopes(names: Names, file: int) -> list[int]:
    """Per local symbol, one that stands for its scope: references from all functions of a class resolve alike."""
    tables = names.tables
    symbols = tables.symbols(file)
    base = file << FILE_SHIFT
    nests = tables.has_children(file)
    native = tables.language[file] in C_FAMILY
    first: dict[str, int] = {}
    found: list[int] = []
    for local, sym in enumerate(symbols):
        if local == 0 or base | local in nests:
            found.append(local)
            continue
        if native:
            prefix = sym.qualified.rpartition("::")[0]
            found.append(first.setdefault(prefix, local))
        else:
            found.append(found[sym.parent & LOCAL_MASK])
    return found
