"""References of a small tree against the truth that a compiler would give, written by hand.

A row of the truth is (file, line, name, qualified name of the definition, file of the definition, certainty). A name
that no compiler would resolve to the tree has no certain and no likely row.
"""

from collections.abc import Callable

import pytest
from conftest import Files, Repository

from repobook.model.schema import CANDIDATE, CERTAIN, LIKELY
from repobook.reading.facts import unpack
from repobook.resolving import update
from repobook.resolving.edges import _scopes
from repobook.resolving.modules import Modules
from repobook.resolving.names import Names
from repobook.resolving.tables import Tables

Make = Callable[[Files], Repository]
Row = tuple[str, int, str, str, str, int]


def resolve(repository: Repository) -> set[Row]:
    """All references of a tree that lead to a definition."""
    tables = Tables(repository.db)
    names = Names(tables, Modules(tables.by_path))
    found: set[Row] = set()
    for file, path in tables.path.items():
        scopes = _scopes(names, file)
        for name, qualifier, blob in repository.db.execute(
            "SELECT name, qualifier, places FROM refs WHERE file=?", (file,)
        ).fetchall():
            for place in memoryview(blob).cast("Q"):
                line, local, flags = unpack(place)
                answer, certainty = names.resolve(file, name, qualifier, scopes[local], flags)
                found |= {(path, line, name, sym.qualified, tables.path[sym.file], certainty) for sym in answer}
    return found


def rows_of(found: set[Row], name: str, least: int = CERTAIN) -> set[tuple[str, int, str, str]]:
    """(file, line, definition, its file) of the references to a name with at least a certainty."""
    return {(path, line, full, home) for path, line, told, full, home, sure in found if told == name and sure >= least}


def test_anonymous_namespaces_and_statics_are_no_targets_of_other_files(make_repository: Make) -> None:
    repository = make_repository(
        {
            "api.h": "namespace n {\nint helper(int);\nint scale(int);\n}\n",
            "api.cpp": '#include "api.h"\nnamespace n {\nint helper(int x) { return x; }\nint scale(int x) { return x; }\n}\n',
            "one.cpp": (
                "namespace n {\nnamespace {\nint helper(int x) { return x; }\nstruct Hidden { int run(); };\n}\n"
                "static int scale(int x) { return x; }\nint first() { return helper(1) + scale(1); }\n}\n"
            ),
            "two.cpp": (
                '#include "api.h"\nnamespace n {\n'
                "int second() { return helper(2) + scale(2); }\n"
                "int third(Hidden& h) { return h.run(); }\n}\n"
            ),
            "template.cpp": "template <typename T>\nstatic T twice(T x) { return x; }\nint f() { return twice(1); }\n",
            "other.cpp": "int g() { return twice(1); }\n",
        }
    )
    repository.build()
    found = resolve(repository)
    assert rows_of(found, "helper", LIKELY) == {
        ("one.cpp", 7, "n::helper", "one.cpp"),
        ("two.cpp", 3, "n::helper", "api.cpp"),
    }
    assert rows_of(found, "scale", LIKELY) == {
        ("one.cpp", 7, "n::scale", "one.cpp"),
        ("two.cpp", 3, "n::scale", "api.cpp"),
    }
    assert rows_of(found, "Hidden", CANDIDATE) == set()
    assert rows_of(found, "run", CANDIDATE) == set()
    assert rows_of(found, "twice", CANDIDATE) == {("template.cpp", 3, "twice", "template.cpp")}
    twins = repository.db.execute(
        "SELECT f.path FROM symbols d JOIN symbols s ON s.id=d.twin JOIN files f ON f.id=s.id>>20 WHERE d.name='helper'"
    ).fetchall()
    assert twins == [("api.cpp",)]


def test_includes_choose_among_definitions(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a/config.h": "#define LIMIT 1\nusing size = int;\nstruct Box { int width; };\n",
            "b/config.h": "#define LIMIT 2\nusing size = long;\nstruct Box { int height; };\n",
            "a/all.h": '#include "config.h"\n',
            "a/use.cpp": '#include "all.h"\nint f(Box& box) { size n = LIMIT; return n + box.width; }\n',
            "b/use.cpp": '#include "config.h"\nint g(Box& box) { size n = LIMIT; return n + box.height; }\n',
            "far.h": "int far_away(int);\n",
            "none.cpp": "int h() { return far_away(1); }\n",
        }
    )
    repository.build()
    found = resolve(repository)
    for name, full in (("LIMIT", "LIMIT"), ("size", "size"), ("Box", "Box")):
        assert rows_of(found, name, LIKELY) == {
            ("a/use.cpp", 2, full, "a/config.h"),
            ("b/use.cpp", 2, full, "b/config.h"),
        }
    assert rows_of(found, "width") == {("a/use.cpp", 2, "Box::width", "a/config.h")}
    assert rows_of(found, "height") == {("b/use.cpp", 2, "Box::height", "b/config.h")}
    assert rows_of(found, "far_away", LIKELY) == set()
    assert rows_of(found, "far_away", CANDIDATE) == {("none.cpp", 1, "far_away", "far.h")}


def test_a_change_of_includes_changes_the_definitions_behind_it(make_repository: Make) -> None:
    files = {
        "a.h": "#define LIMIT 1\n",
        "b.h": "#define LIMIT 2\n",
        "middle.h": '#include "a.h"\n',
        "use.cpp": '#include "middle.h"\nint f() { return LIMIT; }\n',
    }
    repository = make_repository(files)
    repository.build()
    assert rows_of(resolve(repository), "LIMIT") == {("use.cpp", 2, "LIMIT", "a.h")}
    (repository.root / "middle.h").write_text('#include "b.h"\n', encoding="utf-8")
    repository.build()
    edges = repository.db.execute(
        "SELECT f.path, certainty FROM edges e JOIN files f ON f.id=e.dst>>20 JOIN symbols s ON s.id=e.dst "
        "WHERE s.name='LIMIT'"
    ).fetchall()
    assert edges == [("b.h", CERTAIN)]


def test_members_of_specialisations_are_candidates(make_repository: Make) -> None:
    repository = make_repository(
        {
            "vec.h": "template <typename T>\nstruct Vec { T first() { return T(); } T only() { return T(); } };\n",
            "vec_float.h": '#include "vec.h"\ntemplate <>\nstruct Vec<float> { float first() { return 0; } };\n',
            "use.cpp": '#include "vec_float.h"\nfloat f(Vec<float>& v) { return v.first() + v.only(); }\n',
            "plain.cpp": '#include "vec.h"\nint g(Vec<int>& v) { return v.first(); }\n',
        }
    )
    repository.build()
    found = resolve(repository)
    assert rows_of(found, "first") == {("plain.cpp", 2, "Vec::first", "vec.h")}
    assert {row[:2] for row in rows_of(found, "first", CANDIDATE)} == {("plain.cpp", 2), ("use.cpp", 2)}


def test_overloads_of_the_standard_library_and_templates_stay_open(make_repository: Make) -> None:
    repository = make_repository(
        {
            "half.h": (
                "struct Half {};\nnamespace std {\ntemplate <>\nclass numeric_limits<Half> {\n public:\n"
                "  static Half lowest();\n};\ninline Half floor(Half x) { return x; }\n}\n"
            ),
            "use.cpp": (
                '#include "half.h"\ntemplate <typename T>\nT f(T x) { return std::numeric_limits<T>::lowest(); }\n'
                "double g(double x) { return std::floor(x); }\n"
            ),
        }
    )
    repository.build()
    found = resolve(repository)
    assert rows_of(found, "lowest", LIKELY) == set()
    assert rows_of(found, "floor", LIKELY) == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("#define CHECK(x) \\\n  check(x, \\\n", set()),
        ("REGISTER(add, {\n  const auto& self = input(0);\n  auto dim = input(1);\n})\n", set()),
        ("auto ops = make({[](int* s) { auto self = pop(s); return self; }});\n", {"ops"}),
        ("struct A { int x, y, z; };\n", {"A", "A::x", "A::y", "A::z"}),
        ("void f(int n) {\n  FOR_EACH(i, n) {\n    g(i);\n  }\n}\n", {"f"}),
        ("MY_IMPL_FUNC(add_out)(int x) {\n  g(x);\n}\n", {"MY_IMPL_FUNC(add_out)"}),
        ("namespace a::inline b {\nstruct S { int f(); };\n}\n", {"a", "a::b", "a::b::S", "a::b::S::f"}),
        (
            "namespace a {\nenum class K {\n#define ONE(T) T,\n  ALL(ONE)\n#undef ONE\n};\nstruct S { int f; };\n}\n",
            {"a", "a::S", "a::S::f"},
        ),
        (
            "namespace a {\nvoid broken( { ;\nnamespace b {\nstruct S { int f; };\n}\n}\n",
            {"a", "a::b", "a::b::S", "a::b::S::f"},
        ),
    ],
)
def test_text_that_only_reads_like_a_definition_defines_nothing(
    make_repository: Make, source: str, names: set[str]
) -> None:
    repository = make_repository({"x.cpp": source})
    repository.build()
    kinds = "('variable', 'field', 'function', 'method', 'struct', 'namespace')"
    rows = repository.db.execute(f"SELECT qualified FROM symbols WHERE kind IN {kinds}").fetchall()
    assert {row[0] for row in rows} == names


def test_macros_that_define_members_under_the_name_of_an_argument(make_repository: Make) -> None:
    repository = make_repository(
        {
            "arg.h": "#define MY_ARG(T, name) \\\n  auto name(const T& value) { return value; }\n",
            "options.h": '#include "arg.h"\nstruct Options {\n  MY_ARG(double, alpha) = 1.0;\n};\n',
            "use.cpp": '#include "options.h"\ndouble f(Options& o) { return o.alpha(2); }\n',
        }
    )
    repository.build()
    found = resolve(repository)
    assert rows_of(found, "alpha") == {("use.cpp", 2, "Options::alpha", "options.h")}
    assert rows_of(found, "MY_ARG") == {("options.h", 3, "MY_ARG", "arg.h")}


def test_enumerators_of_a_scoped_enumeration_need_its_name(make_repository: Make) -> None:
    repository = make_repository(
        {
            "k.h": "enum class Kind { c, d };\nenum Plain { e };\n",
            "use.cpp": '#include "k.h"\nint f() { return c(1) + int(Kind::d) + e; }\n',
        }
    )
    repository.build()
    found = resolve(repository)
    assert rows_of(found, "c", CANDIDATE) == set()
    assert rows_of(found, "d") == {("use.cpp", 2, "Kind::d", "k.h")}
    assert rows_of(found, "e") == {("use.cpp", 2, "Plain::e", "k.h")}


def test_an_initialised_member_is_not_called(make_repository: Make) -> None:
    repository = make_repository({"a.h": "struct A {\n  int size_;\n  A(int n) : size_(n) {}\n};\n"})
    repository.build()
    kinds = repository.db.execute("SELECT e.kind FROM edges e JOIN symbols s ON s.id=e.dst WHERE s.name='size_'")
    assert kinds.fetchall() == [(2,)]


def test_members_of_a_container_are_outside(make_repository: Make) -> None:
    repository = make_repository(
        {
            "q.cpp": (
                "#include <queue>\nstruct Ready {\n  void enqueue(int x);\n  std::queue<int> heap_;\n};\n"
                "void Ready::enqueue(int x) { heap_.enqueue(x); }\n"
            )
        }
    )
    repository.build()
    assert rows_of(resolve(repository), "enqueue", CANDIDATE) == set()


def test_getters_overloads_and_classes_of_tests_in_python(make_repository: Make) -> None:
    repository = make_repository(
        {
            "shop.py": (
                "from typing import overload\n\n\nclass Shelf:\n    @property\n    def items(self):\n        return 1\n\n"
                "    @items.setter\n    def items(self, value):\n        pass\n\n\n"
                "@overload\ndef pick(x: int) -> int: ...\n@overload\ndef pick(x: str) -> str: ...\n"
                "def pick(x):\n    return x\n"
            ),
            "use.py": (
                "from shop import Shelf, pick\n\n\ndef f(shelf: Shelf, thing):\n    shelf.items = pick(1)\n"
                "    return shelf.items + thing.rare_member\n"
            ),
            "tests/test_shop.py": "class Mock:\n    rare_member = 1\n\n\ndef test_it(thing):\n    thing.rare_member\n",
        }
    )
    repository.build()
    lines = repository.db.execute(
        "SELECT s.name, s.line, e.line FROM edges e JOIN symbols s ON s.id=e.dst JOIN files f ON f.id=e.src>>20 "
        "WHERE f.path='use.py' AND s.name IN ('items', 'pick') ORDER BY 1, 2"
    ).fetchall()
    assert lines == [("items", 6, 6), ("items", 10, 5), ("pick", 18, 5)]
    assert {row[0] for row in rows_of(resolve(repository), "rare_member", CANDIDATE)} == {"tests/test_shop.py"}


def test_classes_of_one_name_in_several_modules_are_several(make_repository: Make) -> None:
    message = "class Message:\n    severity = 1\n"
    repository = make_repository({"a.py": message, "b.py": message, "use.py": "def f(x):\n    return x.severity\n"})
    repository.build()
    found = resolve(repository)
    assert rows_of(found, "severity", LIKELY) == set()
    assert {row[3] for row in rows_of(found, "severity", CANDIDATE)} == {"a.py", "b.py"}


def test_a_header_of_objective_c_defines_no_variables(make_repository: Make) -> None:
    repository = make_repository(
        {"Image.h": "#include <x>\n\n@interface Image (Tensor)\n\n- (int)readCount;\n\n@end\n"}
    )
    repository.build()
    rows = repository.db.execute("SELECT kind FROM symbols WHERE name='Image'").fetchall()
    assert ("variable",) not in rows


def test_targets_belong_to_their_build_system(make_repository: Make) -> None:
    repository = make_repository(
        {
            "CMakeLists.txt": "add_executable(app app.cpp)\ntarget_link_libraries(app gtest own)\nadd_library(own own.cpp)\n",
            "BUCK": 'cxx_library(name = "gtest")\n',
            "defs.bzl": 'cxx_library(name = "gtest")\n',
        }
    )
    repository.build()
    found = {row[2:5:2] for row in resolve(repository) if row[0] == "CMakeLists.txt"}
    assert ("own", "CMakeLists.txt") in found
    assert not any(name == "gtest" for name, _ in found)


def test_a_docstring_of_remarks_states_no_purpose(make_repository: Make) -> None:
    repository = make_repository(
        {"a.py": '"""NOTES:\nWe need a module that does more than this one.\n"""\n\n\ndef f():\n    pass\n'}
    )
    repository.build()
    assert repository.db.execute("SELECT origin FROM files").fetchall() == [("derived",)]


def test_a_test_of_a_name_that_two_files_have_counts_for_the_one_it_imports(make_repository: Make) -> None:
    repository = make_repository(
        {
            "core/device.py": "def a():\n    pass\n",
            "other/device.py": "def b():\n    pass\n",
            "tests/test_device.py": "import core.device\n\n\ndef test_nothing():\n    pass\n",
            "tests/device.py": "def c():\n    pass\n",
        }
    )
    repository.build()
    assert "test_device.py" in repository.page("core/device.py_docs.md").partition("## Before a change")[2]
    assert "test_device.py" not in repository.page("other/device.py_docs.md").partition("## Before a change")[2]
    assert "tests/device.py" not in repository.page("core/device.py_docs.md").partition("## Before a change")[2]


def test_a_namespace_that_no_include_reaches_hides_no_outer_one(make_repository: Make) -> None:
    repository = make_repository(
        {
            "log.h": "namespace std {\nstruct tag {};\n}\n",
            "defaults.h": "namespace at {\nnamespace detail {\nint get();\n}\n}\n",
            "far.cuh": "namespace at {\nnamespace native {\nnamespace std {\nclass complex;\n}\nnamespace detail {\nint far();\n}\n}\n}\n",
            "use.cpp": (
                '#include "log.h"\n#include "defaults.h"\nnamespace at {\nnamespace native {\n'
                "int f() { std::vector<int> v; std::tag t; return detail::get(); }\n}\n}\n"
            ),
            "none.cpp": "namespace at {\nnamespace native {\nint g() { std::vector<int> v; return 1; }\n}\n}\n",
        }
    )
    repository.build()
    found = resolve(repository)
    assert {row for row in rows_of(found, "std") if row[0] == "use.cpp"} == {("use.cpp", 5, "std", "log.h")}
    assert rows_of(found, "detail") == {("use.cpp", 5, "at::detail", "defaults.h")}
    assert rows_of(found, "get") == {("use.cpp", 5, "at::detail::get", "defaults.h")}
    assert not any(full == "at::native::std" for _, _, full, _ in rows_of(found, "std", CANDIDATE))


def test_a_change_without_new_includes_resolves_the_changed_file_alone(
    make_repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: Files = {f"part{at}.h": f"#pragma once\nint part{at}();\n" for at in range(5)}
    files["all.h"] = "".join(f'#include "part{at}.h"\n' for at in range(5))
    files["engine.cpp"] = '#include "all.h"\nint run() { return part1(); }\n'
    files["other.cpp"] = '#include "all.h"\nint walk() { return part2(); }\n'
    repository = make_repository(files)
    repository.build()
    resolved: list[str] = []
    original = update._resolve_affected

    def note(db: object, affected: list[int], *rest: object) -> None:
        resolved[:] = [dict(repository.db.execute("SELECT id, path FROM files"))[file] for file in affected]
        original(db, affected, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(update, "_resolve_affected", note)
    repository.write({"engine.cpp": "\n" + str(files["engine.cpp"]) + "// one line\n"}).build()
    assert resolved == ["engine.cpp"]
    repository.write({"engine.cpp": '#include "part0.h"\nint run() { return part1(); }\n'}).build()
    assert "engine.cpp" in resolved
    assert (("engine.cpp", 2, "part1", "part1", "part1.h", CERTAIN)) not in resolve(repository)
