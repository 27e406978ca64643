"""References as other tools see them: libclang for C++, jedi for Python; and how ours agree with them.

Run as a program it states the figures for files of any tree, from the model of its book:

    python tests/oracle.py ROOT BOOK FILE... -- CLANG-ARGUMENT...
"""

import sqlite3
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repobook.build import database
from repobook.model.schema import CERTAIN, CERTAINTY_NAMES, LIKELY
from repobook.model.store import connect
from repobook.reading.facts import unpack
from repobook.resolving.edges import _scopes
from repobook.resolving.modules import Modules
from repobook.resolving.names import Names
from repobook.resolving.tables import Sym, Tables

# (line, name) -> the definitions that the other tool gives: (path from the root, qualified name).
Truth = dict[tuple[int, str], set[tuple[str, str]]]


@dataclass
class Agreement:
    """Counts of right and wrong references by certainty, and of the references that the other tool knows."""

    right: Counter[int] = field(default_factory=Counter)
    wrong: Counter[int] = field(default_factory=Counter)
    known: int = 0
    found: int = 0
    mistakes: list[str] = field(default_factory=list)

    def precision(self, certainty: int) -> float:
        return self.right[certainty] / max(1, self.right[certainty] + self.wrong[certainty])

    @property
    def recall(self) -> float:
        return self.found / max(1, self.known)


def clang_truth(root: Path, path: str, arguments: list[str]) -> Truth:
    """The references of a file by libclang; a local has no definition that counts."""
    from clang import cindex

    kinds = cindex.CursorKind
    wanted = {kinds.DECL_REF_EXPR, kinds.MEMBER_REF_EXPR, kinds.TYPE_REF, kinds.TEMPLATE_REF, kinds.MEMBER_REF}
    wanted.add(kinds.NAMESPACE_REF)
    unit = cindex.Index.create().parse(str(root / path), args=["-x", "c++", "-std=c++20", "-w", *arguments])
    lines = (root / path).read_bytes().split(b"\n")
    found: Truth = defaultdict(set)

    def walk(cursor: Any) -> None:
        for child in cursor.get_children():
            place = child.location
            here = place.file is not None and Path(place.file.name) == root / path
            if not here and cursor.kind == kinds.TRANSLATION_UNIT:
                continue
            target = child.referenced if here and child.kind in wanted else None
            if target is not None and target.kind != kinds.OVERLOADED_DECL_REF:
                name = target.spelling.partition("<")[0]
                written = lines[place.line - 1][place.column - 1 :][: len(name)].decode("utf-8", "replace")
                if name and written == name:
                    found[place.line, name].add((_relative(root, target.location.file), _qualified(target, kinds)))
            walk(child)

    walk(unit.cursor)
    return found


def _relative(root: Path, file: Any) -> str:
    path = Path(file.name) if file is not None else Path()
    return str(path.relative_to(root)) if path.is_relative_to(root) else ""


def _qualified(cursor: Any, kinds: Any) -> str:
    parts: list[str] = []
    while cursor is not None and cursor.kind != kinds.TRANSLATION_UNIT:
        if cursor.spelling and "(anonymous" not in cursor.spelling and cursor.kind != kinds.LINKAGE_SPEC:
            parts.append(cursor.spelling.partition("<")[0])
        cursor = cursor.semantic_parent
    return "::".join(reversed(parts))


def jedi_truth(root: Path, path: str) -> Truth:
    """The references of a file by jedi: where each name is defined, through imports."""
    import jedi

    script = jedi.Script(path=root / path, project=jedi.Project(root, smart_sys_path=False, added_sys_path=[str(root)]))
    found: Truth = defaultdict(set)
    for name in script.get_names(all_scopes=True, references=True, definitions=False):
        if name.get_line_code().lstrip().startswith(("import ", "from ")):
            continue  # an import is no reference of its own
        for target in name.goto(follow_imports=True):
            if (
                target.type != "param"
                and target.module_path is not None
                and Path(target.module_path).is_relative_to(root)
            ):
                inside = str(Path(target.module_path).relative_to(root))
                found[name.line, name.name].add((inside, "" if target.type == "module" else target.name))
    return found


def compare(db: sqlite3.Connection, path: str, truth: Truth, agreement: Agreement) -> None:
    """Judge the references of a file that both tools resolve."""
    tables = Tables(db)
    names = Names(tables, Modules(tables.by_path))
    file = tables.by_path[path]
    scopes = _scopes(names, file)
    told: set[tuple[int, str]] = set()
    for name, qualifier, blob in db.execute("SELECT name, qualifier, places FROM refs WHERE file=?", (file,)):
        for place in memoryview(blob).cast("Q"):
            line, local, flags = unpack(place)
            symbols, certainty = names.resolve(file, name, qualifier, scopes[local], flags)
            if certainty < LIKELY or not symbols:
                continue
            told.add((line, name))
            expected = truth.get((line, name))
            if expected is None:
                continue
            if any(_same(tables, symbol, one) for symbol in symbols for one in expected):
                agreement.right[certainty] += 1
            else:
                agreement.wrong[certainty] += 1
                agreement.mistakes.append(
                    f"{CERTAINTY_NAMES[certainty]}: {path}:{line} {name}: {symbols[0].qualified}, not {sorted(expected)}"
                )
    known = [key for key, targets in truth.items() if any(_in_tree(tables, name, key[1]) for name in targets)]
    agreement.known += len(known)
    agreement.found += sum(key in told for key in known)


def _in_tree(tables: Tables, target: tuple[str, str], name: str) -> bool:
    """True if the tree defines a target, so that it is no local."""
    if target[0] not in tables.by_path:
        return False
    last = target[1].rpartition("::")[2]
    symbols = tables.symbols(tables.by_path[target[0]])
    return not target[1] or any(symbol.name == last and _same(tables, symbol, target) for symbol in symbols)


def _same(tables: Tables, symbol: Sym, target: tuple[str, str]) -> bool:
    """True if a symbol is the one that the other tool gives; a constructor counts as its class."""
    path, qualified = target
    if tables.path[symbol.file].endswith(".py"):
        return tables.path[symbol.file] == path and qualified in (symbol.name if symbol.kind != "file" else "", "")
    if symbol.qualified == qualified:
        return True
    if symbol.kind == "operator":
        # The build generates the functions and methods of C++ from the operators.
        name = symbol.qualified.partition(".")[0]
        return qualified.rpartition("::")[2].removesuffix("_symint").removesuffix("_out") == name.removesuffix("_out")
    scope, _, last = qualified.rpartition("::")
    return symbol.qualified in (scope if scope.rpartition("::")[2] == last else qualified, f"{qualified}::{last}")


def main() -> None:
    """State precision and recall for files of a tree."""
    root, book, *rest = sys.argv[1:]
    split = rest.index("--") if "--" in rest else len(rest)
    agreement = Agreement()
    for path in rest[:split]:
        truth = (
            jedi_truth(Path(root), path) if path.endswith(".py") else clang_truth(Path(root), path, rest[split + 1 :])
        )
        compare(connect(database(Path(book)), readonly=True), path, truth, agreement)
    for title, certainty in (("certain", CERTAIN), ("likely", LIKELY)):
        judged = agreement.right[certainty] + agreement.wrong[certainty]
        print(f"{title}: {agreement.precision(certainty):.2%} of {judged:,} are right")
    print(f"recall: {agreement.recall:.1%} of {agreement.known:,}")
    print(*sorted(agreement.mistakes)[:80], sep="\n")


if __name__ == "__main__":
    main()
