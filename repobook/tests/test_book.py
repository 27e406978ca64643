"""The book on disk: names of pages, sections, links, changes, interruption."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Files, Repository

from repobook import ask, check, cli
from repobook.pages import writer

Make = Callable[[Files], Repository]

TREE: Files = {
    "README.md": "# Thing\n\nA thing that does things for those who need it done.\n",
    "pkg/__init__.py": '"""The package."""\nfrom .core import Engine\n__all__ = ["Engine"]\n',
    "pkg/core.py": '"""The core of it."""\nimport os\n\n\nclass Engine:\n    """Runs."""\n\n    def run(self):\n        """Go."""\n        return helper()\n\n\ndef helper():\n    return os.getenv("PKG_DEBUG")\n',
    "pkg/native.cpp": "// Note [ Order ]\n// One before two.\nint native_one() { return 1; }\n// see Note [Order]\nint native_two() { return native_one(); }\n",
    "tests/test_core.py": "from pkg import Engine\n\n\ndef test_run():\n    assert Engine().run() is None\n",
}
SECTIONS = [
    "File metadata", "Original source", "High-level overview", "Before a change", "Detailed analysis", "Architecture & design", "Dependencies",
    "Performance considerations", "Security & safety", "Testing & usage", "Related files",
]  # fmt: skip


def test_pages_have_the_names_and_places_of_the_old_book(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    pages = set(repository.pages())
    assert {
        "index.md",
        "doc.md",
        "sub.md",
        "keywords.md",
        "comprehensive_book.md",
        "pkg/index.md",
        "pkg/doc.md",
        "pkg/sub.md",
    } <= pages
    for path in TREE:
        assert {f"{path}_docs.md", f"{path}_kw.md"} <= pages


def test_every_file_page_has_every_section_in_order(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    for path in TREE:
        found = re.findall(r"^## (.*)$", check.strip_code(repository.page(f"{path}_docs.md")), re.M)
        assert found == SECTIONS, path


def test_every_link_of_the_book_resolves(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    assert list(check.dead_links(repository.output)) == []


def test_links_resolve_for_every_language(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.rs": "pub struct S { f: u8 }\nimpl S { pub fn m(&self) {} }\nimpl Clone for Vec<S> { fn z(&self) {} }\n",
            "b.go": "package p\ntype I interface { M() }\ntype F func(int)\n",
            "c.ts": "namespace N { export enum E { A } }\nabstract class C<T> { abstract m(): void }\n",
            "d.java": "package a.b; @interface Ann { int x(); } record R(int a) { }\n",
            "e.js": "exports.f = function f(x) { return x };\nconst o = { m() {}, k: () => 1 };\n",
            "f.cmake": "macro(mm)\nendmacro()\nset(X 1)\n",
            "g.toml": "[a.b]\nc = 1\n", "h.yaml": "a: 1\n", "i.json": '{"a b": {"c\\"d": 1}}',
            "j.cu": "template <typename T> __global__ void k(T* x) { x[0] = 1; }\nunion U { int a; };\n",
            "k.sh": "f() { g; }\n", "l.bzl": "cc_library(name = 'x y')\n", "m.cpp": "concept_like x;\nint operator+(A, B);\nA::operator bool() const { return 1; }\n",
        }
    )  # fmt: skip
    repository.build()
    assert list(check.dead_links(repository.output)) == []
    assert not [use for use in ask.uses(repository.db, "f") if use.path == "e.js"], "a function's own name is no call"


def test_the_checker_sees_dead_links_of_each_kind(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    page = repository.output / "index.md"
    page.write_text(
        page.read_text()
        + "\n[a](nowhere.md) [b](keywords.md#no-such) [c](../pkg/core.py#L999) [d](pkg/core.py_docs.md#d-Engine) `[e](code.md)`\n"
    )
    found = sorted(line.rpartition(": ")[2] for line in check.dead_links(repository.output))
    assert found == ["no such anchor", "no such file", "the file has fewer lines"]


def test_what_the_page_says_is_derived(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    page = repository.page("pkg/core.py_docs.md")
    assert "The core of it." in page
    assert "Tests that use it" in page and "test_run" in page
    assert "`Engine.run`" in page
    keywords = repository.page("pkg/core.py_kw.md")
    assert "`PKG_DEBUG`" in keywords
    assert "### Classes" in keywords and "[`Engine`](core.py_docs.md#d-Engine)" in keywords
    native = repository.page("pkg/native.cpp_docs.md")
    assert "Note \\[ Order \\]" in native and "referred to at [native.cpp:4]" in native


def test_an_unchanged_tree_writes_nothing(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    outcome = repository.build()
    assert (outcome.read, outcome.written, outcome.removed) == (0, 0, 0)


def test_a_file_that_was_only_touched_is_not_read(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    os.utime(repository.root / "pkg/core.py", ns=(1, 1))
    assert repository.build().read == 0


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("body", lambda root: (root / "pkg/core.py").write_text('"""The core of it."""\n\n\nclass Engine:\n    def run(self):\n        return helper(1)\n\n\ndef helper(x):\n    return x\n')),
    ("renamed function", lambda root: (root / "pkg/native.cpp").write_text("int native_first() { return 1; }\nint native_two() { return native_first(); }\n")),
    ("new file", lambda root: (root / "pkg/more.py").write_text("from pkg.core import helper\ndef more():\n    return helper()\n")),
    ("deleted file", lambda root: (root / "pkg/core.py").unlink()),
    ("deleted folder", lambda root: [(root / "tests/test_core.py").unlink(), (root / "tests").rmdir()]),
    ("new macro", lambda root: (root / "pkg/api.h").write_text("#define PKG_API __attribute__((visibility(\"default\")))\nclass PKG_API Thing { int x; };\n")),
    ("import cycle", lambda root: (root / "pkg/core.py").write_text("import pkg\nclass Engine:\n    def run(self): ...\n")),
    ("header comment", lambda root: (root / "pkg/native.h").write_text("// The native part speaks C++ to the machine.\nint native_one();\n")),
    ("test of that name", lambda root: (root / "tests/test_native.py").write_text("def test_nothing():\n    pass\n")),
    ("readme", lambda root: (root / "README.md").write_text("# Thing\n\nAnother thing that is much better than the first one was.\n")),
    ("test runner", lambda root: (root / "vitest.config.ts").write_text("export default {}\n")),
    ("note moved", lambda root: (root / "pkg/core.py").write_text("# Note [ Order ]\n# Two before one.\nclass Engine:\n    def run(self): ...\n")),
]  # fmt: skip


@pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES])
def test_a_change_leaves_the_book_that_a_full_build_would_make(
    make_repository: Make, change: Callable[[Path], object]
) -> None:
    more: Files = {
        "pkg/use.h": "class PKG_API Used { int y; };\n", "pkg/native.h": "// The native part.\nint native_one();\n",
        "web/a.ts": "export function go() {}\n", "web/a.spec.ts": "import { go } from './a'\ngo()\n",
    }  # fmt: skip
    repository = make_repository(TREE | more)
    repository.build()
    change(repository.root)
    repository.build()
    changed = repository.pages()
    links = list(check.dead_links(repository.output))
    subprocess.run(["rm", "-rf", str(repository.output)], check=True)
    repository.build()
    fresh = repository.pages()
    assert links == []
    assert changed.keys() == fresh.keys()
    different = [name for name in fresh if fresh[name] != changed[name]]
    assert different == []


def test_its_own_output_is_never_its_input(make_repository: Make) -> None:
    repository = make_repository(TREE)
    first = repository.build()
    second = repository.build()
    assert first.files == second.files == len(TREE)
    # A book elsewhere in the tree, made by another call, is no input either.
    other = Repository(repository.root, repository.root / "docs" / "other")
    assert other.build().files == len(TREE)


def test_parallel_and_serial_builds_give_the_same_book(make_repository: Make) -> None:
    files: Files = {
        f"m/f{n}.py": f"from m import f{(n + 1) % 60}\ndef g{n}():\n    return f{(n + 1) % 60}.g{(n + 1) % 60}()\n"
        for n in range(60)
    }
    one, two = make_repository(files), make_repository(files)
    one.config.title = two.config.title = "Same"
    one.build(jobs=1)
    two.build(jobs=2)
    first, second = one.pages(), two.pages()
    assert first == second


def test_an_interrupted_build_leaves_the_book_whole_and_goes_on(
    make_repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(TREE)
    repository.build()
    before = repository.pages()
    (repository.root / "pkg/core.py").write_text("class Motor:\n    def run(self): ...\n")
    written = 0
    original = writer.write_atomically

    def stop(path: str, data: bytes, spare: str) -> None:
        nonlocal written
        written += 1
        if written > 2:
            raise KeyboardInterrupt
        original(path, data, spare)

    monkeypatch.setattr(writer, "write_atomically", stop)
    with pytest.raises(KeyboardInterrupt):
        repository.build()
    monkeypatch.undo()
    assert not list(repository.output.rglob("*.new"))
    assert repository.pages().keys() >= before.keys(), "every page is there, old or new"
    repository.build()
    assert "Motor" in repository.page("pkg/core.py_docs.md")
    assert not any(
        line for line in check.find_stale(repository.db, repository.root, repository.output, repository.config)
    )
    assert list(check.dead_links(repository.output)) == []


def test_check_reports_stale_missing_and_undocumented(
    make_repository: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = make_repository(TREE)
    repository.build()
    arguments = ["check", str(repository.root), "-o", str(repository.output)]
    assert cli.main(arguments) == 0
    assert cli.main([*arguments, "--undocumented", "pkg/"]) == 1
    assert "pkg/core.py:13: function helper has no documentation" in capsys.readouterr().out
    (repository.root / "pkg/core.py").write_text("x = 1\n")
    (repository.output / "pkg/index.md").unlink()
    assert cli.main(arguments) == 1
    out = capsys.readouterr().out
    assert "pkg/core.py: changed since the book was built" in out
    assert "pkg/index.md: page is missing" in out


def test_git_history_and_diff(make_repository: Make, capsys: pytest.CaptureFixture[str]) -> None:
    repository = make_repository(TREE)

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", str(repository.root), "-c", "user.name=Ann", "-c", "user.email=a@b.c", *arguments],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    text = (repository.root / "pkg/core.py").read_text()
    (repository.root / "pkg/core.py").write_text(text.replace("os.getenv", "os.environ.get"))
    git("commit", "-qam", "two")
    repository.build()
    page = repository.page("pkg/core.py_docs.md")
    assert "2 changes" in page and "Ann (2)" in page
    assert cli.main(["diff", "HEAD~1", "--path", str(repository.root)]) == 0
    out = capsys.readouterr().out
    assert "function helper" in out and "Engine.run" in out and "pkg/core.py_docs.md" in out


def test_commands_answer_in_text_and_json(make_repository: Make, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    repository = make_repository(TREE)
    place = ["--path", str(repository.root)]
    assert cli.main(["build", str(repository.root), "-q", "-j", "1"]) == 0
    capsys.readouterr()
    assert cli.main(["find", "Engine", *place]) == 0
    assert capsys.readouterr().out == "pkg/core.py:5: class Engine\n"
    assert cli.main(["uses", "helper", "--json", *place]) == 0
    assert json.loads(capsys.readouterr().out)[0]["inside"] == "Engine.run"
    assert cli.main(["callers", "Engine.run", *place]) == 0
    assert "test_run" in capsys.readouterr().out
    assert cli.main(["page", "pkg/core.py", *place]) == 0
    assert "## File metadata" in capsys.readouterr().out
    assert cli.main(["find", "no_such_name", *place]) == 1
    assert cli.main(["page", "../secret", *place]) == 2
    assert cli.main(["find", "x", "--path", str(repository.root / "nowhere")]) == 2


def test_the_hook_brings_the_book_up_to_date(make_repository: Make, capsys: pytest.CaptureFixture[str]) -> None:
    repository = make_repository(TREE)
    assert cli.main(["hook", str(repository.root)]) == 0
    (repository.root / "pkg/core.py").write_text("class Motor: ...\n")
    assert cli.main(["hook", str(repository.root)]) == 0
    assert "Motor" in repository.page("pkg/core.py_docs.md")
    assert "whole and up to date" in capsys.readouterr().out


def test_a_file_called_keywords_and_the_group_of_kw(make_repository: Make) -> None:
    repository = make_repository({"keywords": "plain text\n", "a.py": "def kwargs_of(): ...\n"})
    repository.build()
    assert "Keywords of `keywords`" in repository.page("keywords_kw.md")
    assert "kwargs_of" in repository.page("keywords_kw-.md")
    assert list(check.dead_links(repository.output)) == []


def test_what_is_used_most_is_no_namespace(make_repository: Make) -> None:
    uses = "".join(f"int f{n}() {{ return space::value_of({n}); }}\n" for n in range(4))
    repository = make_repository(
        {"a/a.h": "namespace space { int value_of(int); }\n", "a/b.cpp": '#include "a.h"\n' + uses}
    )
    repository.build()
    for page in ("doc.md", "keywords.md", "a/a.h_docs.md"):
        used = repository.page(page).partition("Used most")[2].partition("\n## ")[0]
        assert "value_of" in used and "(namespace)" not in used, page
    assert "doc.md)" not in repository.page("index.md").partition("## ")[2]


def test_a_callee_is_named_once_and_a_declaration_leads_to_its_line(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": "#ifdef X\n#define CHECK(x) one(x)\n#else\n#define CHECK(x) two(x)\n#endif\n",
            "b.cpp": '#include "a.h"\nstatic int later(int x);\nint f(int x) { CHECK(x); CHECK(x); return later(x); }\nstatic int later(int x) { return x; }\n',
        }
    )
    repository.build()
    page = repository.page("b.cpp_docs.md")
    calls = next(line for line in page.splitlines() if line.startswith("Calls "))
    assert calls.count("CHECK") == 2  # the name and its anchor
    assert calls.count("later") == 2
    assert "declared; defined at [line 4]" in page


PAIR: Files = {
    "gear.h": "struct Gear {\n  void turn(int n);\n  void turn(long n);\n  int teeth_;\n};\nvoid grind(Gear& g);\n",
    "gear.cpp": '#include "gear.h"\nvoid Gear::turn(int n) { teeth_ = n; teeth_ += teeth_; }\n'
    "void Gear::turn(long n) { teeth_ = n; }\nvoid grind(Gear& g) { g.turn(1); g.turn(2); }\n"
    'static const char* table[] = {"' + '", "'.join("a row of a long table" for _ in range(12)) + '"};\n',
    "mill.cpp": '#include "gear.h"\nvoid mill(Gear& g) { grind(g); g.turn(1); }\n',
    "tests/test_gear.cpp": '#include "gear.h"\n'
    + "".join(f"void test_grind{n}() {{ Gear g; grind(g); }}\n" for n in range(30))
    + "void test_turn() { Gear g; g.turn(3); }\n",
}


def test_the_file_that_implements_a_header_is_no_other_user_of_it(make_repository: Make) -> None:
    repository = make_repository(PAIR)
    repository.build()
    overview = repository.page("gear.h_docs.md").partition("## High-level overview")[2].partition("\n## ")[0]
    assert "`grind`" in overview and "`Gear::turn`" in overview
    assert "teeth_" not in overview, "only gear.cpp uses it"


def test_a_reference_to_a_name_with_overloads_is_one_reference(make_repository: Make) -> None:
    repository = make_repository(PAIR)
    repository.build()
    related = repository.page("gear.h_docs.md").partition("## Related files")[2]
    depends = repository.page("mill.cpp_docs.md").partition("## Dependencies")[2].partition("\n## ")[0]
    # `Gear`, `grind` and one call of `turn`, which is declared twice.
    assert "[`mill.cpp`](mill.cpp_docs.md): 3 references between them" in related
    assert ", 2 references)" in depends, "`grind` is defined in gear.cpp"


def test_the_map_of_keywords_says_what_the_sections_say(make_repository: Make) -> None:
    repository = make_repository(PAIR | TREE)
    repository.build()
    for path in (*PAIR, *TREE):
        page = repository.page(f"{path}_docs.md")
        sections = dict(part.partition("\n")[::2] for part in re.split(r"^## ", page, flags=re.M)[1:])
        rows = repository.page(f"{path}_kw.md").partition("## Keyword → section map")[2]
        for row in re.findall(r"^- \[(.*?)\]\(.*?\): (.*)$", rows, re.M):
            text = sections[row[0].replace("&amp;", "&")].lower()
            for name in re.findall(r"`(.+?)`", row[1]):
                assert name.lower() in text, (path, row[0], name)


def test_places_show_each_symbol_before_more_of_one(make_repository: Make) -> None:
    repository = make_repository(PAIR)
    repository.build()
    tests = repository.page("gear.h_docs.md").partition("## Testing & usage")[2]
    assert "test_grind0" in tests and "and 11 more" in tests
    assert "test_turn" in tests, "the one test of another symbol is not lost among thirty of the first"


def test_a_long_table_is_shown_by_what_it_is(make_repository: Make) -> None:
    repository = make_repository(PAIR)
    repository.build()
    assert "`static const char* table[] = { … }`" in repository.page("gear.cpp_docs.md")


def test_concepts_of_several_files_have_a_page_that_leads_to_them(make_repository: Make) -> None:
    said = '"""Ruler of the wobble matrix. The wobble matrix is a wobble matrix."""\n\n\ndef turn():\n    """Turns the flange. A flange is turned as flange."""\n'
    repository = make_repository({f"pkg/m{number}.py": said for number in range(4)} | {"other.py": "x = 1\n"})
    repository.build()
    page = repository.page("concepts_w.md")
    assert 'id="d-wobble.matrix"></a>wobble matrix, 4 files: [pkg/m0.py](pkg/m0.py_kw.md#concepts)' in page
    assert "[wobble matrix](concepts_w.md#d-wobble.matrix): 4 files" in repository.page("concepts.md")
    words = repository.page("pkg/m1.py_kw.md")
    assert "[wobble matrix](m1.py_docs.md#high-level-overview): 3 places" in words
    assert "in [4 files](../concepts_w.md#d-wobble.matrix)" in words
    assert "[flange](m1.py_docs.md#d-turn)" in words
    assert list(check.dead_links(repository.output)) == []
    (repository.root / "pkg/m1.py").unlink()
    repository.build()
    assert "pkg/m1.py" not in repository.page("concepts_w.md")
    assert list(check.dead_links(repository.output)) == []


def test_a_registered_function_shows_its_tests_beside_those_of_its_neighbour(make_repository: Make) -> None:
    repository = make_repository(
        {
            "mod.cpp": "#include <Python.h>\nstatic PyObject* Mod_go(PyObject* s, PyObject* a) { return a; }\n"
            "static PyObject* Mod_stop(PyObject* s, PyObject* a) { return a; }\n"
            'static PyMethodDef methods[] = {{"engine_go", Mod_go, METH_O, nullptr}, {"engine_stop", Mod_stop, METH_O, nullptr}};\n',
            "pkg/run.py": "def run(engine):\n    return engine.engine_go(1)\n",
            "tests/test_run.py": "from pkg.run import run\n\n\ndef test_go():\n    run(1)\n\n\ndef test_stop(engine):\n    engine.engine_stop(1)\n",
        }
    )
    repository.build()
    page = repository.page("mod.cpp_docs.md")
    assert "`engine_go` → [`Mod_go`](#d-Mod_go) (method table in `methods`)" in page
    page = page.partition("## Testing & usage")[2]
    assert "**Tests that use it** (1)" in page and "[`test_stop`]" in page
    assert "**Tests that reach `Mod_go`**, in 2 steps (1)" in page and "[`test_go`]" in page


def test_a_build_from_nothing_that_ends_early_forgets_no_page(
    make_repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(TREE)
    repository.build()
    (repository.root / "pkg/native.cpp").unlink()
    repository.config.title = "another stamp"

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("repobook.build.resolve_all", fail)
        with pytest.raises(KeyboardInterrupt):
            repository.build()
    assert "pkg/native.cpp_docs.md" in repository.pages(), "the book on disk stays whole"
    repository.build()
    assert "pkg/native.cpp_docs.md" not in repository.pages()
    assert list(check.dead_links(repository.output)) == []


def test_a_type_of_two_headers_is_listed_once_among_the_most_used(make_repository: Make) -> None:
    uses = "".join(f"int f{n}(Object* x);\n" for n in range(4))
    repository = make_repository(
        {
            "a/a.h": "typedef struct _o Object;\n",
            "a/b.h": "typedef struct _o Object;\n",
            "b/c.cpp": '#include "../a/a.h"\n#include "../a/b.h"\n' + uses,
        }
    )
    repository.build()
    used = repository.page("doc.md").partition("## Used most")[2].partition("\n## ")[0]
    assert used.count("[`Object`]") == 1


def test_a_use_of_a_module_names_its_file(make_repository: Make) -> None:
    repository = make_repository(
        {
            "lib/__init__.py": "",
            "lib/core.py": "def f(): ...\n",
            "test_lib.py": "import lib.core\n\ndef test_it():\n    print(lib.core)\n",
        }
    )
    repository.build()
    page = repository.page("lib/core.py_docs.md")
    assert "→ `core.py`" in page and "→ ` `" not in page
