"""Statements of pages against trees whose truth is evident: subjects of tests, counts, users, used names."""

import re
from collections.abc import Callable

import pytest
from conftest import Files, Repository

from repobook import check
from repobook.pages.wording import plural

Make = Callable[[Files], Repository]


def build(make_repository: Make, files: Files) -> Repository:
    repository = make_repository(files)
    repository.build()
    return repository


def first_paragraph(repository: Repository, path: str) -> str:
    head = repository.page(f"{path}_docs.md").partition("\n## ")[0]
    return re.sub(r"\]\([^()]*\)", "]", head).splitlines()[-1]


def section(repository: Repository, path: str, title: str) -> str:
    page = re.sub(r"\]\([^()]*\)", "]", repository.page(f"{path}_docs.md"))
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


STREAMS: Files = {
    "base/guard.h": "namespace base {\nstruct Guard { int id; };\n}\n",
    "base/stream.h": '#include "guard.h"\nnamespace base {\nstruct Stream { int wait(); };\nStream current();\n}\n',
    "base/stream.cpp": '#include "stream.h"\nnamespace base {\nint Stream::wait() { return 0; }\nStream current() { return {}; }\n}\n',
    "test/StreamTest.cpp": (
        '#include "../base/stream.h"\n'
        "TEST(Streams, Waits) {\n  base::Stream s = base::current();\n  base::Guard a;\n  base::Guard b;\n"
        "  base::Guard c;\n  s.wait();\n}\n"
    ),
    "test/mixed_test.cpp": '#include "../base/guard.h"\nTEST(Mixed, One) {\n  base::Guard a;\n}\n',
}


def test_a_test_is_of_the_file_that_has_its_name(make_repository: Make) -> None:
    repository = build(make_repository, STREAMS)
    assert first_paragraph(repository, "test/StreamTest.cpp").startswith("Tests of `stream.h`")
    assert first_paragraph(repository, "test/mixed_test.cpp") == "Tests: 1 test. They use `guard.h` most."


def test_names_of_namespaces_are_no_references_to_a_file(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "space.h": "namespace base {\n}\n",
            "thing.h": '#include "space.h"\nnamespace base {\nstruct Thing {};\n}\n',
            "use.cpp": '#include "thing.h"\nbase::Thing a;\nbase::Thing b;\nvoid f() { base::Thing c; }\n',
        },
    )
    assert "`thing.h`: 3 references" in section(repository, "use.cpp", "Related files").replace("[", "").replace(
        "]", ""
    )
    assert "space.h" not in section(repository, "use.cpp", "Related files")
    assert "use.cpp" not in section(repository, "space.h", "Related files")


def test_a_likely_reference_relates_files_only_with_an_import(make_repository: Make) -> None:
    member = "class Box:\n    def unwrap_all(self):\n        return 1\n"
    repository = build(
        make_repository,
        {
            "box.py": member,
            "near.py": "import box\n\n\ndef run(value):\n    return value.unwrap_all()\n",
            "far.py": "def run(value):\n    return value.unwrap_all()\n",
        },
    )
    assert "near.py" in section(repository, "box.py", "Related files")
    assert "far.py" not in section(repository, "box.py", "Related files")
    assert "box.py" not in section(repository, "far.py", "Related files")


def test_operators_are_named_without_their_overload(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "native_functions.yaml": (
                "- func: width.Dimname(Tensor self, Dimname dim) -> int\n  variants: function, method\n"
                "- func: fill_out.names(Tensor self) -> Tensor\n  variants: function, method\n"
            ),
            "use.cpp": "namespace at { struct Tensor; }\nint f(at::Tensor& x) { return at::width(x) + at::width(x); }\n",
        },
    )
    assert "It builds on [`native_functions.yaml`] (`width`)." in first_paragraph(repository, "use.cpp")


def test_an_import_of_objective_c_is_an_include(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "image.h": "int width(int x);\n",
            "image.mm": '#import "image.h"\nint width(int x) { return x; }\n',
            "view.mm": '#import <Foundation/Foundation.h>\n#import "image.h"\nint twice() { return width(2); }\n',
        },
    )
    rows = repository.db.execute(
        "SELECT f.path, i.module, i.line, t.path FROM imports i JOIN files f ON f.id=i.file LEFT JOIN files t ON t.id=i.target "
        "ORDER BY f.path, i.line"
    ).fetchall()
    assert rows == [
        ("image.mm", '"image.h"', 1, "image.h"),
        ("view.mm", "<Foundation/Foundation.h>", 1, None),
        ("view.mm", '"image.h"', 2, "image.h"),
    ]
    assert "imported by no file" not in repository.page("image.h_docs.md")


def test_a_prototype_in_a_source_file_has_no_users(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "register.h": "int register_all();\n",
            "register.cpp": '#include "register.h"\nint register_all() { return 1; }\n',
            "first.cpp": "int register_all();\nint first() { return register_all(); }\n",
            "second.cpp": '#include "register.h"\nint second() { return register_all() + register_all(); }\n',
        },
    )
    first = first_paragraph(repository, "first.cpp")
    assert "second.cpp" not in first and "The definitions stand" not in first
    assert "second.cpp" in first_paragraph(repository, "register.h")
    assert "The definitions stand in [`register.cpp`]." in first_paragraph(repository, "register.h")


def test_functions_of_a_shell_script_are_not_counted_as_tests(make_repository: Make) -> None:
    repository = build(make_repository, {"run_tests.sh": "#!/bin/bash\nDIR=$1\nrun() {\n  $DIR/$1\n}\nrun basic\n"})
    assert "test function" not in repository.page("run_tests.sh_docs.md")


def test_a_file_of_aliases_names_them_and_not_their_namespace(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {"mode.h": "#pragma once\nnamespace torch::autograd {\nusing InferenceMode = c10::InferenceMode;\n}\n"},
    )
    assert first_paragraph(repository, "mode.h") == "C++ file with `InferenceMode`."


@pytest.mark.parametrize(
    ("text", "purpose"),
    [
        ('"""Adapted from https://example.org/parsing.py."""\nx = 1\n', ""),
        (
            '"""This module was copied from elsewhere.\n\nParse expressions of axes.\n"""\n',
            "Parse expressions of axes.",
        ),
        ('"""Copies tensors from one device to another."""\n', "Copies tensors from one device to another."),
    ],
)
def test_the_origin_of_code_is_no_purpose(make_repository: Make, text: str, purpose: str) -> None:
    repository = build(make_repository, {"parsing.py": text})
    stated, origin = repository.db.execute("SELECT purpose, origin FROM files WHERE path='parsing.py'").fetchone()
    assert (stated if origin == "docstring" else "") == purpose


def test_used_names_stand_on_the_line_that_their_entry_gives(make_repository: Make) -> None:
    files: Files = {
        "pkg/__init__.py": "from pkg.native import count\n",
        "pkg/native.pyi": "def count(x): ...\n",
        "pkg/init.py": "def fill(x):\n    return x\n",
        "pkg/module.cpp": (
            "static PyObject* Module_count(PyObject* self, PyObject* x) { return x; }\n"
            'static PyMethodDef methods[] = {{"count", Module_count, METH_O, nullptr}, {nullptr}};\n'
        ),
        "use.py": (
            "import pkg\nimport pkg.init as setup\n\n\ndef run(x):\n    setup.fill(x)\n    pkg.init.fill(x)\n"
            "    return pkg.count(x)\n"
        ),
    }
    repository = build(make_repository, files)
    source = str(files["use.py"]).split("\n")
    page = repository.page("use.py_kw.md").partition("## Used names")[2].partition("\n## ")[0]
    entries = re.findall(r"^- `([^`]+)` → .*#L(\d+)\)\)$", page, re.M)
    assert {"fill", "pkg"} <= {name for name, _ in entries}
    for name, line in entries:
        assert re.search(rf"\b{re.escape(name)}\b", source[int(line) - 1]), (name, line)


def test_the_blank_identifier_of_go_and_rust_is_no_name(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "go.mod": "module example.org/x\n",
            "one.go": "package x\n\ntype One struct{}\n\nvar _ any = One{}\n",
            "two.go": "package x\n\nfunc Two() int {\n\t_, n := 1, 2\n\t_ = n\n\treturn n\n}\n",
            "src/lib.rs": "const _: () = ();\npub fn f(x: u8) -> u8 { let _ = x; match x { _ => 1 } }\n",
        },
    )
    assert repository.db.execute("SELECT COUNT(*) FROM symbols WHERE name='_'").fetchone() == (0,)
    assert repository.db.execute("SELECT COUNT(*) FROM refs WHERE name='_'").fetchone() == (0,)
    assert repository.db.execute("SELECT COUNT(*) FROM symbols WHERE name IN ('One', 'Two', 'f')").fetchone() == (3,)


def test_files_of_one_name_are_told_apart_by_their_folder(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "core/shapes.py": "class Shape:\n    pass\n",
            "full/shapes.py": "from core.shapes import Shape\n\n\nclass Full(Shape):\n    pass\n",
            "mini/shapes.py": "from core.shapes import Shape\n\n\nclass Mini(Shape):\n    pass\n",
        },
    )
    assert "[`full/shapes.py`] and [`mini/shapes.py`] use it." in first_paragraph(repository, "core/shapes.py")
    assert "It builds on [`core/shapes.py`] (`Shape`)." in first_paragraph(repository, "mini/shapes.py")


def test_a_file_of_rust_with_tests_inside_tests_itself(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "src/walk.rs": (
                "pub struct Walk;\nimpl Walk { pub fn unusual_step(&self) -> u8 { 1 } }\n"
                "#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn steps() { Walk.unusual_step(); }\n}\n"
            ),
            "tests/other.rs": "#[test]\nfn other() { make().unusual_step(); }\n",
        },
    )
    assert first_paragraph(repository, "src/walk.rs").endswith("The file tests itself.")


def test_fields_of_inline_types_do_not_describe_a_file(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {"parse.ts": "export const parse: (x: string, p?: { callee?: string }) => string = make;\n"},
    )
    assert first_paragraph(repository, "parse.ts") == "TypeScript file with `parse`."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "mpirun -n 4 \\\n  ./train \\\n  -p 1 \\\n"),
        ("open.py", "def f(\n"),
        ("open.cpp", "int f() {\n"),
        ("open.ts", "export function f() {\n\n"),
        ("open.rs", "fn f() {"),
    ],
)
def test_a_syntax_error_at_the_end_is_on_the_last_line(make_repository: Make, name: str, text: str) -> None:
    repository = build(make_repository, {name: text})
    (line,) = repository.db.execute("SELECT errors FROM files WHERE path=?", (name,)).fetchone()
    assert 1 <= line <= max(1, text.count("\n") + (not text.endswith("\n")))
    assert list(check.dead_links(repository.output)) == []


def test_methods_called_test_do_not_make_a_test(make_repository: Make) -> None:
    methods = "".join(f"    def step_{at}(self):\n        pass\n\n" for at in range(8))
    tests = "    def test_client(self):\n        pass\n\n    def test_runner(self):\n        pass\n\n"
    repository = build(
        make_repository,
        {
            "app.py": f"class App:\n{tests}{methods}\n\ndef main():\n    pass\n",
            "checks.py": f"class Checks:\n{tests}    def start(self):\n        pass\n",
        },
    )
    purposes = dict(repository.db.execute("SELECT path, purpose FROM files"))
    assert purposes["app.py"] == "Defines `App` and the function `main`."
    assert purposes["checks.py"].startswith("Tests: `test_client`, `test_runner`")


def test_a_variable_that_several_programs_define_is_no_certain_use(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "common.h": "extern int device;\nextern int only;\n",
            "one.cpp": '#include "common.h"\nint device;\nint only;\nint main() { return device; }\n',
            "two.cpp": '#include "common.h"\nint device;\nint main() { return device; }\n',
            "use.h": '#include "common.h"\ninline int half() { return device / 2 + only; }\n',
        },
    )
    rows = repository.db.execute(
        "SELECT t.qualified, f.path, e.certainty FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols t ON t.id=e.dst "
        "JOIN files f ON f.id=t.id>>20 WHERE s.name='half' ORDER BY 1, 2"
    ).fetchall()
    assert {row[:2] for row in rows if row[2] == 3} == {("only", "one.cpp")}
    assert {row[:2] for row in rows if row[2] == 2} == {("device", "one.cpp"), ("device", "two.cpp")}


def test_shortcut_links_of_a_readme_are_words(make_repository: Make) -> None:
    text = (
        "# X\n\nX is a [WSGI] framework that began as a wrapper of [Jinja][] and keeps a[0] and [sic] as they are.\n\n"
    )
    repository = build(
        make_repository, {"README.md": f"{text}[wsgi]: https://wsgi.example/\n[Jinja]: https://x.example/\n"}
    )
    book = repository.page("comprehensive_book.md")
    assert "X is a WSGI framework that began as a wrapper of Jinja and keeps a" in book
    assert "WSGI" in book and "sic\\]" in book


def test_newer_readers_read_the_tree_anew(make_repository: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = build(make_repository, {"a.py": "x = 1\n"})
    assert repository.build().read == 0
    monkeypatch.setattr("repobook.build.digest_code", lambda *packages: "another")
    assert repository.build().read == 1


def test_users_of_a_namespace_are_no_users_of_a_file_that_opens_it(make_repository: Make) -> None:
    repository = build(
        make_repository,
        {
            "alias.h": "struct Alias {};\nnamespace shared {\ntemplate <typename T> struct Hash {};\n}\n",
            "other.h": '#include "alias.h"\nnamespace shared {\nint f();\n}\n',
            "use.cpp": '#include "other.h"\nint g() { return shared::f() + shared::f(); }\n',
            "real.cpp": '#include "alias.h"\nAlias a;\n',
        },
    )
    assert "[`real.cpp`] uses it." in first_paragraph(repository, "alias.h")
    assert "use.cpp" not in section(repository, "alias.h", "Before a change")


def test_a_custom_class_of_torchscript_is_not_bound_by_pybind11(make_repository: Make) -> None:
    text = 'static auto r = torch::class_<Mine>("space", "Mine").def("forward", &Mine::forward);\n'
    repository = build(
        make_repository, {"mine.cpp": f"struct Mine {{ int forward(); }};\nint f() {{ {text} return 1; }}\n"}
    )
    page = repository.page("mine.cpp_docs.md")
    assert "Binds `forward` for Python: custom class of TorchScript." in page


def test_plurals_of_words_that_end_in_y() -> None:
    assert [plural(kind, 2) for kind in ("key", "entry", "class", "file")] == ["keys", "entries", "classes", "files"]
