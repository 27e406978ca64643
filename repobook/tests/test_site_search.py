"""The index of the site's search: what stands where, how big it gets, and what comes first."""

import json
import random
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from repobook.model.schema import FILE_SHIFT, TABLES
from repobook.naming import word_starts
from repobook.site import search

WORDS = (
    "tensor grad engine backward forward saved variable hook node edge graph stream device cuda cpu memory block cache "
    "index shape size stride dtype layout sparse dense quantize linear conv pool norm batch layer loss optim step "
    "schedule worker queue lock thread task event trace profile record replay export import load store save restore "
    "parse token lexer symbol scope type check infer unify lower fuse inline unroll vector loop kernel launch grid warp "
    "shared global local const static dynamic runtime compile guard frame code object dict list tuple set map reduce "
    "scan sort search filter group join split merge concat stack view slice gather scatter mask fill zero one random"
).split()


def symbols_database(count: int) -> tuple[sqlite3.Connection, list[str]]:
    """A model of `count` symbols with names as programs have them, and those names."""
    db = sqlite3.connect(":memory:")
    db.executescript(TABLES)
    chance = random.Random(0)
    files = max(1, count // 30)
    db.executemany(
        "INSERT INTO files(id, path, folder, language, status, test) VALUES(?,?,'','python','ok',0)",
        [(file, f"{WORDS[file % 97]}/{WORDS[file % 89]}/file_{file}.py") for file in range(1, files + 1)],
    )
    names: set[str] = set()
    while len(names) < count:
        parts = chance.choices(WORDS, k=chance.choice((2, 3, 3, 4)))
        names.add("".join(map(str.title, parts)) if chance.random() < 0.3 else "_".join(parts))
    ordered = sorted(names)
    chance.shuffle(ordered)
    local = [0] * (files + 1)
    rows = []
    for at, name in enumerate(ordered):
        file = at % files + 1
        local[file] += 1
        kind = "class" if name[0].isupper() else chance.choice(("function", "method", "variable"))
        uses = int(chance.paretovariate(1)) - 1
        rows.append((file << FILE_SHIFT | local[file], name, kind, f"{WORDS[at % 83].title()}.{name}", uses))
    db.executemany("INSERT INTO symbols(id, name, kind, qualified, uses) VALUES(?,?,?,?,?)", rows)
    return db, ordered


def small_index(rows: list[tuple[str, str, str, int, int]]) -> dict[str, str]:
    """The index of (name, kind, qualified, uses, test) rows, each in a file of its own."""
    db = sqlite3.connect(":memory:")
    db.executescript(TABLES)
    for at, (name, kind, qualified, uses, test) in enumerate(rows, 1):
        db.execute(
            "INSERT INTO files(id, path, folder, language, status, test) VALUES(?,?,'','python','ok',?)",
            (at, f"pkg/file{at}.py", test),
        )
        db.execute(
            "INSERT INTO symbols(id, name, kind, qualified, uses) VALUES(?,?,?,?,?)",
            (at << FILE_SHIFT | 1, name, kind, qualified, uses),
        )
    return search.index(db)


def test_words_of_a_name_begin_at_case_and_underscores() -> None:
    name = "THPEngine_run_backward2"
    assert [name[at:] for at in word_starts(name)] == ["Engine_run_backward2", "run_backward2", "backward2", "2"]


def test_shards_are_bounded_and_hold_every_name() -> None:
    db, names = symbols_database(20_000)
    scripts = search.index(db)
    assert max(map(len, scripts.values())) < 200_000
    manifest = json.loads(scripts["manifest"].removeprefix("repobook.manifest(").removesuffix(")"))
    divided, leaves = set(manifest["divided"]), set(manifest["leaves"])
    for name in names[:500]:
        key = search.normal(name)
        place = next(
            key[:end] for end in range(len(key) + 1) if key[:end] in leaves or key[: end + 1] not in divided | leaves
        )
        assert json.dumps(name) in scripts[search.file_name(place)]


def test_the_index_is_the_same_for_the_same_symbols() -> None:
    assert search.index(symbols_database(2_000)[0]) == search.index(symbols_database(2_000)[0])


def test_scripts_hold_no_markup_and_names_are_safe_for_file_systems() -> None:
    scripts = small_index([("</script><b>", "function", "x.</script><b>", 0, 0), ("größe", "function", "größe", 0, 0)])
    assert all("<" not in text for text in scripts.values())
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in scripts)


_ENGINE = """
const fs = require("fs"), vm = require("vm");
const input = JSON.parse(fs.readFileSync(0, "utf8"));
const context = vm.createContext({TextEncoder});
context.document = {documentElement: {dataset: {base: ""}}, createElement: () => ({}), head: {append(script) {
  const text = input.scripts[script.src.replace(/^search\\//, "").replace(/\\.js$/, "")];
  if (text) vm.runInContext(text, context);
  script.onload();
}}};
vm.runInContext(input.code + ";globalThis.repobook = repobook;", context);
(async () => {
  const found = {};
  for (const query of input.queries) found[query] = await context.repobook.search(query);
  console.log(JSON.stringify(found));
})();
"""


def ask(scripts: dict[str, str], *queries: str) -> dict[str, list[dict[str, object]]]:
    """Return the answers of the site's own script."""
    code = (Path(search.__file__).parent / "assets/search.js").read_text()
    given = json.dumps({"scripts": scripts, "code": code, "queries": queries})
    done = subprocess.run(["node", "-e", _ENGINE], input=given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def names(rows: list[dict[str, object]]) -> list[object]:
    return [row["name"] for row in rows]


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the site's script")


@needs_node
def test_ranking() -> None:
    scripts = small_index(
        [
            ("unpack_hook", "function", "unpack_hook", 500, 0),
            ("unpack", "variable", "a.unpack", 0, 0),
            ("unpack", "method", "SavedVariable::unpack", 9, 0),
            ("test_unpack", "function", "test_unpack", 0, 1),
            ("run_unpack", "function", "run_unpack", 1, 0),
            ("Unpack", "class", "Unpack", 0, 0),
            ("sunpack", "function", "sunpack", 0, 0),
        ]
    )
    found = ask(
        scripts,
        "unpack",
        "Unpack",
        "SavedVariable::unpack",
        "saved unpack",
        "hook",
        "runun",
        "npack",
        "zzzzz",
        "UNPACK_H",
    )
    # The very name, best kind and most used first; then but for case; then beginnings; then words inside; tests last.
    assert names(found["unpack"]) == [
        "SavedVariable::unpack", "a.unpack", "Unpack", "unpack_hook", "run_unpack", "test_unpack",
    ]  # fmt: skip
    assert names(found["Unpack"])[0] == "Unpack"
    assert names(found["SavedVariable::unpack"])[0] == "SavedVariable::unpack"
    assert names(found["saved unpack"]) == ["SavedVariable::unpack"]
    assert names(found["hook"]) == ["unpack_hook"]
    assert names(found["runun"]) == ["run_unpack"]
    assert found["npack"] and all(row["misspelled"] for row in found["npack"]), (
        "no word begins so, but some are like it"
    )
    assert found["zzzzz"] == []
    assert names(found["UNPACK_H"]) == ["unpack_hook"]
    assert found["hook"][0]["href"] == "pkg/file1.py_docs.html#d-unpack_hook"


@needs_node
def test_any_of_many_names_is_found_by_its_name_and_by_a_beginning() -> None:
    db, known = symbols_database(20_000)
    chosen = random.Random(2).sample(known, 40)
    found = ask(search.index(db), *chosen)
    assert all(found[name][0]["last"] == name for name in chosen)


@needs_node
def test_names_without_letters_and_of_other_scripts() -> None:
    scripts = small_index(
        [("größe", "function", "größe", 0, 0), ("_", "function", "_", 0, 0), ("变量", "class", "变量", 0, 0)]
    )
    found = ask(scripts, "grö", "_", "变", "", "  ")
    assert names(found["grö"]) == ["größe"] and names(found["变"]) == ["变量"]
    assert names(found["_"])[0] == "_"
    assert found[""] == found["  "] == []
