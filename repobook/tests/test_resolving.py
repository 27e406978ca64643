"""Names to definitions across files and languages, with what cannot be told said so."""

from collections.abc import Callable

from conftest import Files, Repository

from repobook import ask
from repobook.model.schema import EDGE_NAMES
from repobook.resolving.modules import Modules

Make = Callable[[Files], Repository]


def users(repository: Repository, name: str, certainty: str | None = None) -> set[str]:
    return {f"{use.path}:{use.inside}" for use in ask.uses(repository.db, name) if certainty in (None, use.certainty)}


def test_imports_aliases_and_reexports(make_repository: Make) -> None:
    repository = make_repository(
        {
            "pkg/__init__.py": "from .core import thing as renamed\nfrom .star import *\n",
            "pkg/core.py": "def thing(): ...\n",
            "pkg/star.py": "def starred(): ...\ndef _hidden(): ...\n",
            "use/a.py": "import pkg\nfrom pkg import renamed, starred\nimport pkg.core as c\ndef f():\n    renamed(); starred(); c.thing(); pkg.core.thing()\n",
        }
    )
    repository.build()
    assert users(repository, "thing", "certain") >= {"use/a.py:f"}
    assert [use.count for use in ask.uses(repository.db, "thing") if use.inside == "f"] == [3]
    assert "use/a.py:f" in users(repository, "starred", "certain")


def test_a_name_from_outside_is_not_taken_for_ours(make_repository: Make) -> None:
    repository = make_repository(
        {"a.py": "def load(): ...\n", "b.py": "import numpy as np\nfrom json import load\nnp.load()\nload()\n"}
    )
    repository.build()
    assert users(repository, "load") == set()


def test_methods_through_self_bases_annotations_and_fields(make_repository: Make) -> None:
    repository = make_repository(
        {
            "base.py": "class Base:\n    def shared(self): ...\n",
            "a.py": (
                "from base import Base\n"
                "class Part:\n    def shared(self): ...\n    def own(self): ...\n"
                "class A(Base):\n"
                "    def __init__(self):\n        self.part = Part()\n"
                "    def m(self):\n        self.shared()\n        self.part.own()\n"
                "def f(x: A):\n    x.shared()\n"
            ),
        }
    )
    repository.build()
    shared = {(use.inside, use.target, use.certainty) for use in ask.uses(repository.db, "shared")}
    assert shared == {("A.m", "Base.shared", "certain"), ("f", "Base.shared", "certain")}
    assert {(use.inside, use.certainty) for use in ask.uses(repository.db, "own")} == {("A.m", "certain")}


def test_an_unknown_receiver_gives_candidates(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.py": "class A:\n    def go_there(self): ...\nclass B:\n    def go_there(self): ...\n    def only_here(self): ...\ndef f(x):\n    x.go_there()\n    x.only_here()\n"
        }
    )
    repository.build()
    assert {(use.target, use.certainty) for use in ask.uses(repository.db, "go_there")} == {
        ("A.go_there", "candidate"),
        ("B.go_there", "candidate"),
    }
    assert {use.certainty for use in ask.uses(repository.db, "only_here")} == {"likely"}


def test_python_callers_of_a_method_table_entry(make_repository: Make) -> None:
    repository = make_repository(
        {
            "ext/engine.cpp": (
                "static PyObject* Engine_run(PyObject* self, PyObject* args) { return nullptr; }\n"
                'static PyMethodDef Engine_methods[] = {{"run_backward", (PyCFunction)Engine_run, METH_VARARGS, nullptr}, {nullptr}};\n'
            ),
            "lib/__init__.py": "from lib._C import Engine\nengine = Engine()\ndef backward():\n    engine.run_backward()\n",
            "lib/_C.pyi": "class Engine:\n    def run_backward(self): ...\n",
            "tests/test_lib.py": "from lib import backward\ndef test_backward():\n    backward()\n",
        }
    )
    repository.build()
    assert users(repository, "Engine_run", "certain") >= {"lib/__init__.py:backward", "ext/engine.cpp:Engine_methods"}
    page = repository.page("ext/engine.cpp_docs.md")
    assert "test_backward" in page, "the test reaches the C++ function through Python"


def test_pybind_functions_and_lambdas(make_repository: Make) -> None:
    repository = make_repository(
        {
            "m.cpp": 'int add_impl(int a) { return a; }\nPYBIND11_MODULE(ext, m) {\n  m.def("add_numbers", &add_impl);\n  m.def("twice_it", [](int a) { return add_impl(a); });\n}\n',
            "a.py": "def f(ext):\n    ext.add_numbers(1)\n    ext.twice_it(2)\n",
        }
    )
    repository.build()
    assert "a.py:f" in users(repository, "add_impl", "likely")
    assert "a.py:f" in users(repository, "twice_it")
    assert any("twice_it" in user for user in users(repository, "add_impl", "certain"))


def test_cpp_scopes_overloads_and_declarations(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": "namespace n { struct S { void go(int); void go(double); int x; }; void free_one(); }\n",
            "a.cpp": '#include "a.h"\nnamespace n { void S::go(int) { x = 1; }\nvoid S::go(double) {}\nvoid free_one() {} }\n',
            "b.cpp": '#include "a.h"\nusing namespace n;\nvoid f(S& s) { s.go(1); free_one(); n::free_one(); }\nnamespace other { void free_one(); }\n',
        }
    )
    repository.build()
    assert {(use.path, use.certainty) for use in ask.uses(repository.db, "n::free_one")} == {("b.cpp", "certain")}
    assert "b.cpp:f" in users(repository, "S::go", "certain")
    assert "a.cpp:n::S::go" in users(repository, "S::x", "certain")
    twin = repository.db.execute("SELECT COUNT(*) FROM symbols WHERE declaration=1 AND twin IS NOT NULL").fetchone()[0]
    assert twin == 3


def test_locals_shadow_functions(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.py": "def size(): ...\ndef f(size):\n    return size\ndef g():\n    size = 1\n    return size\ndef h():\n    return size()\n"
        }
    )
    repository.build()
    assert users(repository, "size") == {"a.py:h"}


def test_inheritance_edges(make_repository: Make) -> None:
    repository = make_repository({"a.py": "class A: ...\n", "b.py": "import a\nclass B(a.A): ...\n"})
    repository.build()
    assert {(use.inside, use.kind) for use in ask.uses(repository.db, "A")} >= {("B", "inherits")}
    assert "derived" in repository.page("a.py_docs.md")
    assert "classDiagram" in repository.page("b.py_docs.md")


def test_include_paths() -> None:
    paths = {
        path: n
        for n, path in enumerate(
            ["aten/src/ATen/core/Tensor.h", "c10/util/string.h", "a/b/x.h", "a/c/x.h", "a/c/y.cpp"]
        )
    }
    modules = Modules(paths)
    assert modules.include("<ATen/core/Tensor.h>", "a/c/y.cpp") == "aten/src/ATen/core/Tensor.h"
    assert modules.include('"x.h"', "a/c/y.cpp") == "a/c/x.h"
    assert modules.include('"../b/x.h"', "a/c/y.cpp") == "a/b/x.h"
    assert modules.include("<string.h>", "a/c/y.cpp") is None, "a system header, whatever file has its name"
    assert modules.include('"../../../../etc/passwd"', "a/c/y.cpp") is None
    assert modules.include('"/etc/passwd"', "a/c/y.cpp") is None


def test_python_module_paths() -> None:
    paths = {
        p: n
        for n, p in enumerate(
            [
                "src/pkg/__init__.py",
                "src/pkg/a.py",
                "src/pkg/sub/__init__.py",
                "tests/test_a.py",
                "tests/common.py",
                "tools/common.py",
            ]
        )
    }
    modules = Modules(paths)
    assert modules.python("pkg.a", "tests/test_a.py") == "src/pkg/a.py"
    assert modules.python(".a", "src/pkg/__init__.py") == "src/pkg/a.py"
    assert modules.python("..a", "src/pkg/sub/__init__.py") == "src/pkg/a.py"
    assert modules.python("common", "tests/test_a.py") == "tests/common.py"
    assert modules.python("os", "tests/test_a.py") is None


def test_go_rust_and_javascript_imports(make_repository: Make) -> None:
    repository = make_repository(
        {
            "go.mod": "module example.com/m\n",
            "util/u.go": "package util\nfunc Help() {}\n",
            "main.go": 'package main\nimport "example.com/m/util"\nfunc main() { util.Help() }\n',
            "src/lib.rs": "mod part;\nuse crate::part::helper;\npub fn run() { helper(); }\n",
            "src/part.rs": "pub fn helper() {}\n",
            "web/a.js": "export function show() {}\n",
            "web/b.js": "import { show } from './a.js';\nfunction main() { show(); }\n",
        }
    )
    repository.build()
    assert users(repository, "Help", "certain") == {"main.go:main"}
    assert users(repository, "helper", "certain") == {"src/lib.rs:run"}
    assert users(repository, "show", "certain") == {"web/b.js:main"}


def test_search_finds_parts_of_names(make_repository: Make) -> None:
    repository = make_repository({"a.py": "class SavedVariableHooks: ...\ndef unrelated(): ...\n"})
    repository.build()
    assert [row.name for row in ask.search(repository.db, "saved var")] == ["SavedVariableHooks"]


def test_a_source_file_keeps_its_own_types_and_statics(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.cpp": "using getter = int (*)(int);\nstatic int twice(int x) { return 2 * x; }\nint shared_one(int x) { return x; }\n",
            "b.cpp": "int shared_one(int);\nint f(int x) { return (getter)(x) + twice(x) + shared_one(x); }\n",
            "all.cc": '#include "part.cc"\nint shared_one(int);\nint g() { return part_type(1) + shared_one(2); }\n',
            "part.cc": "using part_type = int;\n",
        }
    )
    repository.build()
    assert users(repository, "getter") == set()
    assert users(repository, "twice") == set()
    assert users(repository, "shared_one", "certain") >= {"b.cpp:f", "all.cc:g"}
    assert users(repository, "part_type") == {"all.cc:g"}


def test_a_scope_outside_the_tree_is_no_receiver(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": "struct Object { bool has_attr(int); };\n",
            "b.cpp": '#include "a.h"\nbool f(int x) { return py::has_attr(x); }\nbool g(Unknown& o) { return o->inner.has_attr(1); }\n',
        }
    )
    repository.build()
    assert users(repository, "has_attr") == {"b.cpp:g"}


def test_a_type_outside_the_tree_has_no_members_of_the_tree(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": "struct Guard { void disarm(); };\n",
            "b.cpp": '#include "a.h"\nvoid f(lib::release& r) { r.disarm(); }\nvoid g(T& r) { r.disarm(); }\n',
        }
    )
    repository.build()
    assert users(repository, "disarm") == {"b.cpp:g"}


def test_members_in_languages_without_rules_of_their_own(make_repository: Make) -> None:
    repository = make_repository(
        {
            "lib/app.js": "var app = {};\napp.handle = function handle(req) { return this.pick(req); };\napp.other = { pick: function () {} };\napp.listen_here = function (port, done) { this.handle(port); };\n",
            "lib/use.js": "var app = require('./app');\nfunction f(x) { app.handle(1); x.listen_here(2); x.get(3); }\n",
            "lib/map.js": "class Store { get(key) { return key; } }\n",
            "src/a.rs": "struct P { chars: u8 }\nimpl P { fn take_all(&self) -> u8 { self.chars } }\nfn f(s: &str, p: P) { s.chars(); p.take_all(); P::take_all(&p); }\n",
        }
    )
    repository.build()
    assert users(repository, "app.handle", "certain") >= {"lib/app.js:app.listen_here", "lib/use.js:f"}
    assert "lib/app.js:app.handle" not in users(repository, "pick", "certain"), "pick belongs to another object"
    assert users(repository, "listen_here", "likely") == {"lib/use.js:f"}
    assert users(repository, "Store.get", "candidate") == {"lib/use.js:f"}, "a Map has it too"
    assert users(repository, "chars") == {"src/a.rs:P::take_all"}
    page = repository.page("lib/app.js_docs.md")
    assert "app.listen_here = function (port, done)" in page


def test_overloads_are_one_name_among_the_most_used(make_repository: Make) -> None:
    text = (
        "from typing import overload\n@overload\ndef go(a: int): ...\n@overload\ndef go(a: str): ...\ndef go(a): ...\n"
    )
    repository = make_repository({"p/a.py": text, "b.py": "from p.a import go\ngo(1)\ngo('x')\n"})
    repository.build()
    assert repository.page("doc.md").count("- [`go`]") == 1
    assert repository.page("p/doc.md").count("- [`go`]") == 1


def test_inside_a_class_its_name_means_the_class(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": "namespace n { struct Engine { Engine(); static Engine& get(); }; }\n",
            "a.cpp": '#include "a.h"\nnamespace n { Engine::Engine() {}\nEngine& Engine::get() { static Engine one; return one; } }\n',
        }
    )
    repository.build()
    assert users(repository, "Engine::get") == set()
    assert "a.cpp:n::Engine::get" not in users(repository, "Engine::Engine")
    rows = repository.db.execute("SELECT COUNT(*) FROM edges e JOIN symbols s ON s.id=e.dst WHERE s.kind='struct'")
    assert rows.fetchone()[0] >= 1


def test_tests_that_reach_a_class_beside_an_alias_that_tests_name(make_repository: Make) -> None:
    repository = make_repository(
        {
            "saved.h": "using Alias = int;\n// NOLINTNEXTLINE(x)\nstruct Saved { int unpack(); };\n",
            "use.cpp": '#include "saved.h"\nint run_ints(int n) { Saved s; return s.unpack(); }\n',
            "tests/test_a.cpp": '#include "../saved.h"\nint run_ints(int);\nint test_it() { Alias a = 1; return run_ints(a); }\n',
        }
    )
    repository.build()
    page = repository.page("saved.h_docs.md")
    assert "**Tests that reach it**, in 2 steps (1)" in page
    assert "→ `Alias`" in page
    assert "NOLINT" not in page.partition("## Detailed analysis")[2]


def test_what_arrays_have_too_is_no_more_than_a_candidate(make_repository: Make) -> None:
    text = "class Hooks:\n    def any(self): ...\n    def only_ours(self): ...\ndef f(x):\n    x.any()\n    x.only_ours()\n"
    repository = make_repository({"a.py": text})
    repository.build()
    assert users(repository, "any", "candidate") == {"a.py:f"}
    assert users(repository, "only_ours", "likely") == {"a.py:f"}


def test_a_module_that_javascript_requires_from_outside_has_no_members_of_the_tree(make_repository: Make) -> None:
    repository = make_repository(
        {
            "view.js": "function View() {}\nView.prototype.lookupAll = function lookupAll(name) {}\n",
            "a.js": "var mime = require('mime-types');\nfunction outer(x) { return mime.lookupAll(x) }\n",
            "b.js": "import * as mime from 'mime-types';\nfunction other(x) { return mime.lookupAll(x) }\n",
            "c.js": "function third(view) { return view.lookupAll(1) }\n",
        }
    )
    repository.build()
    assert users(repository, "lookupAll") == {"c.js:third"}


def test_rust_paths_of_either_edition() -> None:
    modules = Modules(
        {path: at for at, path in enumerate(["src/main.rs", "src/util.rs", "src/cmd/mod.rs", "src/cmd/sort.rs"], 1)}
    )
    assert modules.rust("util", "src/cmd/sort.rs") == "src/util.rs"
    assert modules.rust("crate::util::f", "src/cmd/sort.rs") == "src/util.rs"
    assert modules.rust("super::sort", "src/cmd/sort.rs") == "src/cmd/sort.rs"
    assert modules.rust("std::cmp", "src/cmd/sort.rs") is None


def edges(repository: Repository, kind: str) -> set[tuple[str, str]]:
    number = {name: value for value, name in EDGE_NAMES.items()}[kind]
    rows = repository.db.execute(
        "SELECT s.qualified, d.qualified FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols d ON d.id=e.dst "
        "WHERE e.kind=?",
        (number,),
    )
    return set(rows)


def test_a_name_before_a_scope_is_a_namespace_or_a_type(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.cpp": (
                "namespace at { namespace native { int std(int x) { return x; }\n"
                "int f(int x) { std::move(x); return std(x); }\n"
                "template <class T> int g() { return Limits<T>::std() + T::std(); } } }\n"
            ),
        }
    )
    repository.build()
    rows = repository.db.execute(
        "SELECT s.name, e.count FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols d ON d.id=e.dst "
        "WHERE d.name='std' AND e.certainty>1"
    ).fetchall()
    assert rows == [("f", 1)]


def test_attributes_of_modules_are_not_methods_and_getters_are_not_setters(make_repository: Make) -> None:
    repository = make_repository(
        {
            "ext/var.cpp": (
                "PyObject* Var_half(PyObject* self) { return self; }\n"
                "PyObject* Var_get_grad(PyObject* self, void*) { return self; }\n"
                "int Var_set_grad(PyObject* self, PyObject* value, void*) { return 0; }\n"
                'static PyMethodDef var_methods[] = {{"half", Var_half, METH_NOARGS, nullptr}, {nullptr}};\n'
                'static PyGetSetDef var_props[] = {{"grad", (getter)Var_get_grad, (setter)Var_set_grad, nullptr}};\n'
                "PyTypeObject VarType = {var_methods, var_props};\n"
            ),
            "lib/__init__.py": "from lib._C import *\n",
            "lib/_C.pyi": "class Var:\n    grad: int\n",
            "use.py": "import lib\ndef read(x):\n    lib.half\n    return x.grad\ndef write(x):\n    x.grad = x.half()\n",
        }
    )
    repository.build()
    assert users(repository, "Var_half", "likely") == {"use.py:write"}
    assert users(repository, "Var_get_grad", "likely") == {"use.py:read"}
    assert users(repository, "Var_set_grad", "likely") == {"use.py:write"}


def test_kernels_of_dispatch_keys_are_bound_not_called(make_repository: Make) -> None:
    repository = make_repository(
        {
            "r.cpp": ('void refuse() {}\nTORCH_LIBRARY_IMPL(aten, Batched, m) {\n  m.impl("randn", refuse);\n}\n'),
            "lib/__init__.py": "",
            "a.py": "import lib\ndef f(x):\n    lib.randn(1)\n    x.randn(2)\n",
        }
    )
    repository.build()
    assert users(repository, "refuse") == {"r.cpp:TORCH_LIBRARY_IMPL(aten, Batched, m)"}
    assert edges(repository, "binds") == {("TORCH_LIBRARY_IMPL(aten, Batched, m)", "refuse")}


def test_types_from_auto_results_and_factories(make_repository: Make) -> None:
    repository = make_repository(
        {
            "engine.h": (
                "#include <memory>\nnamespace n {\n"
                "struct Engine { static Engine& get(); virtual void execute(int); std::shared_ptr<Engine> next(); };\n"
                "struct Other { void execute(int); };\n"
                "struct Special : Engine { void execute(int) override; };\n}\n"
            ),
            "engine.cpp": '#include "engine.h"\nnamespace n {\nvoid Engine::execute(int) {}\nvoid Special::execute(int) {}\nvoid Other::execute(int) {}\n}\n',
            "use.cpp": (
                '#include "engine.h"\nnamespace n {\n'
                "void a() { auto& e = Engine::get(); e.execute(1); }\n"
                "void b() { Engine::get().execute(2); }\n"
                "void c() { auto o = std::make_shared<Other>(); o->execute(3); }\n"
                "void d(Engine& e) { auto x = e.next(); x->execute(4); }\n"
                "void h(Engine& e) { e.next()->next()->execute(5); }\n}\n"
            ),
        }
    )
    repository.build()
    assert users(repository, "n::Engine::execute", "certain") == {f"use.cpp:n::{name}" for name in "abdh"}
    assert users(repository, "n::Other::execute", "certain") == {"use.cpp:n::c"}
    assert ("n::Special::execute", "n::Engine::execute") in edges(repository, "overrides")
    page = repository.page("engine.cpp_docs.md")
    assert "Overrides [`n::Engine::execute`]" in page
    assert "Overridden by [`n::Special::execute`]" in page


def test_a_smart_pointer_has_members_of_its_own(make_repository: Make) -> None:
    text = (
        "#include <memory>\nstruct Part { void reset(); void go(); };\n"
        "void f(std::unique_ptr<Part> p) { p.reset(); p->reset(); p->go(); }\n"
    )
    repository = make_repository({"a.cpp": text})
    repository.build()
    rows = repository.db.execute(
        "SELECT e.count FROM edges e JOIN symbols d ON d.id=e.dst WHERE d.name='reset' AND e.certainty>1"
    ).fetchall()
    assert rows == [(1,)]


def test_using_brings_names_of_headers_into_namespaces(make_repository: Make) -> None:
    repository = make_repository(
        {
            "at.h": "namespace at { struct Tensor { int dim(); }; }\n",
            "stable.h": "HIDDEN_NAMESPACE_BEGIN(torch, stable)\nstruct Tensor { int dim(); };\nHIDDEN_NAMESPACE_END(torch, stable)\n",
            "types.h": '#include "at.h"\nnamespace torch { using namespace at; }\n',
            "use.cpp": '#include "types.h"\nnamespace torch { namespace nn { int f(Tensor t) { return t.dim(); } } }\n',
        }
    )
    repository.build()
    assert users(repository, "at::Tensor", "certain") >= {"use.cpp:torch::nn::f"}
    assert users(repository, "torch::stable::Tensor") == set()
    assert users(repository, "at::Tensor::dim", "certain") == {"use.cpp:torch::nn::f"}


def test_operators_lead_from_python_to_kernels_and_formulas(make_repository: Make) -> None:
    repository = make_repository(
        {
            "native_functions.yaml": (
                "- func: twice(Tensor self) -> Tensor\n  variants: function, method\n  dispatch:\n    CPU: twice_cpu\n    CUDA: twice_cuda\n\n"
                "- func: twice.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  structured_delegate: twice\n"
            ),
            "derivatives.yaml": "- name: twice(Tensor self) -> Tensor\n  self: twice_backward(grad)\n",
            "k.cpp": "namespace at { namespace native { int twice_cpu(int x) { return x; } } }\n",
            "f.cpp": "namespace torch { namespace autograd { int twice_backward(int g) { return g; } } }\n",
            "c.cpp": "int user(int x) { return at::twice(x) + at::twice_out(x); }\n",
            "lib/__init__.py": "from lib._C import *\n",
            "test_lib.py": "import lib\ndef test_twice():\n    lib.twice(1)\n",
        }
    )
    repository.build()
    assert ("twice", "at::native::twice_cpu") in edges(repository, "binds")
    assert users(repository, "twice_backward", "certain") == {"derivatives.yaml:twice"}
    operator = repository.db.execute("SELECT id FROM symbols WHERE kind='operator' AND qualified='twice'").fetchall()
    assert len(operator) == 2
    sources = {
        row[0]
        for row in repository.db.execute(
            "SELECT s.qualified FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols d ON d.id=e.dst "
            "WHERE d.name='twice' AND d.kind='operator' AND e.certainty>1"
        )
    }
    assert sources == {"twice", "twice.out", "user", "test_twice"}
    assert "test_twice" in repository.page("k.cpp_docs.md"), "a test reaches the kernel through the operator"


def test_targets_of_cmake_have_sources_and_dependencies(make_repository: Make) -> None:
    repository = make_repository(
        {
            "CMakeLists.txt": (
                "set(SRCS a.cpp ${CMAKE_CURRENT_SOURCE_DIR}/sub/b.cpp)\nadd_library(core STATIC ${SRCS})\n"
                "add_executable(app main.cpp)\ntarget_link_libraries(app PRIVATE core pthread)\n"
            ),
            "a.cpp": "int a();\n",
            "sub/b.cpp": "int b();\n",
            "main.cpp": "int main() { return 0; }\n",
        }
    )
    repository.build()
    rows = repository.db.execute(
        "SELECT s.name, f.path, d.kind, d.name FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols d ON d.id=e.dst "
        "JOIN files f ON f.id=d.id>>20 WHERE s.kind='target'"
    )
    found = {(source, name if kind == "target" else path) for source, path, kind, name in rows if kind != "variable"}
    assert found == {("core", "a.cpp"), ("core", "sub/b.cpp"), ("app", "main.cpp"), ("app", "core")}


def test_pyo3_items_are_seen_by_python(make_repository: Make) -> None:
    repository = make_repository(
        {
            "src/lib.rs": (
                "#[pyfunction]\nfn concat_all(x: u8) -> u8 { x }\n"
                "#[pyclass]\npub struct PyFrame { x: u8 }\n"
                '#[pymethods]\nimpl PyFrame {\n    #[pyo3(name = "height_of")]\n    fn height(&self) -> u8 { self.x }\n}\n'
            ),
            "lib/__init__.py": "",
            "use.py": "def f(frame, native):\n    frame.height_of()\n    native.concat_all(1)\n",
        }
    )
    repository.build()
    assert users(repository, "PyFrame::height", "likely") == {"use.py:f"}
    assert users(repository, "concat_all", "likely") == {"use.py:f"}


def test_super_in_rust_receivers_in_go_and_namespaces_in_typescript(make_repository: Make) -> None:
    repository = make_repository(
        {
            "src/lib.rs": "pub mod deep;\npub struct Error;\n",
            "src/deep/mod.rs": "pub mod leaf;\npub struct Error;\n",
            "src/deep/leaf.rs": (
                "pub fn f() -> super::Error { super::Error }\npub struct Mine;\nmod tests { fn t() { super::Mine; } }\n"
            ),
            "cmd/root.go": "package cmd\ntype Command struct { flags *Flags }\nfunc (c *Command) Name() {}\nfunc New() *Command { return nil }\n",
            "cmd/flags.go": "package cmd\ntype Flags struct {}\nfunc (f *Flags) Parse() {}\nfunc (c *Command) run() { c.flags.Parse(); x := New(); x.Name() }\n",
            "cmd/other.go": "package cmd\ntype Other struct {}\nfunc (o *Other) Name() {}\nfunc (o *Other) Parse() {}\n",
            "web/util.ts": "export function show() {}\nexport function hide() {}\n",
            "web/index.ts": "export * from './util'\nexport { hide as cover } from './util'\n",
            "web/main.ts": "import * as util from './util'\nimport { show as display } from './index'\nfunction main() { util.hide(); display(); }\n",
        }
    )
    repository.build()
    targets = {
        (use.inside, use.path): repository.db.execute(
            "SELECT f.path FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols d ON d.id=e.dst JOIN files f ON "
            "f.id=d.id>>20 WHERE s.qualified='f' AND d.name='Error'"
        ).fetchall()
        for use in ask.uses(repository.db, "Error")
    }
    assert targets[("f", "src/deep/leaf.rs")] == [("src/deep/mod.rs",)]
    assert users(repository, "Mine", "certain") == {"src/deep/leaf.rs:tests::t"}
    assert users(repository, "Flags.Parse", "certain") == {"cmd/flags.go:Command.run"}
    assert users(repository, "Command.Name", "certain") == {"cmd/flags.go:Command.run"}
    assert users(repository, "Other.Name") == set()
    assert users(repository, "hide", "certain") == {"web/main.ts:main"}
    assert users(repository, "show", "certain") == {"web/main.ts:main"}


def test_macros_that_stand_for_statements_hide_no_definition(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": (
                'DECLARE_DISPATCH(copy_fn, copy_stub)\nstruct A {\n  template <typename T>\n  OLD_MESSAGE("use b()")\n  int a();\n'
                '  int b(const List& x = {});\n};\nint f() {\n  CHECK_IT(1, "not a name")\n  auto m = g()\n#ifdef X\n      .h()\n#endif\n      .k();\n  return m;\n}\n'
            ),
        }
    )
    repository.build()
    rows = repository.db.execute("SELECT qualified, kind FROM symbols WHERE kind<>'file' ORDER BY id").fetchall()
    assert rows == [("A", "struct"), ("A::a", "method"), ("A::b", "method"), ("f", "function")]
    names = {row[0] for row in repository.db.execute("SELECT name FROM refs")}
    assert {"DECLARE_DISPATCH", "copy_stub", "CHECK_IT"} <= names
    assert "name" not in names


def test_keyword_pages_list_used_names_with_their_definitions(make_repository: Make) -> None:
    repository = make_repository(
        {
            "edge.h": "struct Edge { int number; };\n",
            "use.cpp": '#include "edge.h"\nint f(Edge edge, PyObject* object) { return edge.number + PyLong_AsLong(object); }\n',
        }
    )
    repository.build()
    page = repository.page("use.cpp_kw.md")
    used = page.partition("## Used names")[2].partition("## Concepts")[0]
    assert "- `Edge` → [`Edge`](edge.h_docs.md#" in used
    assert "- `number` → [`Edge::number`](edge.h_docs.md#" in used
    assert "`PyLong_AsLong`, `PyObject`" in used
    assert "`edge`, `object`" in used
    assert page.index("### Functions") < page.index("## Used names")


def test_a_variable_of_a_source_file_needs_a_declaration(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.cpp": "int hidden = 1;\nint shown = 2;\n",
            "a.h": "extern int shown;\n",
            "b.cpp": '#include "a.h"\nint f() { return hidden + shown; }\n#define TWICE(hidden) 2\n',
        }
    )
    repository.build()
    assert users(repository, "hidden") == set()
    assert users(repository, "shown", "certain") == {"b.cpp:f"}


def test_the_name_of_a_base_means_the_class(make_repository: Make) -> None:
    repository = make_repository(
        {"a.cpp": "struct Base { Base(int); int go(); };\nstruct Derived : public Base { Base* next; };\n"}
    )
    repository.build()
    rows = repository.db.execute(
        "SELECT d.kind FROM edges e JOIN symbols d ON d.id=e.dst JOIN symbols s ON s.id=e.src WHERE d.name='Base'"
    )
    assert {row[0] for row in rows} == {"struct"}


def test_an_enumerator_is_seen_in_the_scope_of_its_enumeration(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": "namespace n { enum Mode { constant, linear }; }\n",
            "b.cpp": '#include "a.h"\nint f(int constant_);\nint g() { return constant; }\nnamespace n { int h() { return linear; } }\n',
        }
    )
    repository.build()
    assert users(repository, "constant") == set()
    assert users(repository, "linear", "certain") == {"b.cpp:n::h"}


def test_a_macro_of_two_headers_is_certain_in_neither(make_repository: Make) -> None:
    repository = make_repository(
        {
            "a.h": "#define LIMIT 1\n",
            "b.h": "#define LIMIT 2\n",
            "c.h": "#define ONLY 2\n",
            "u.cpp": '#include "c.h"\nint f() { return LIMIT + ONLY; }\n',
        }
    )
    repository.build()
    assert users(repository, "LIMIT", "certain") == set()
    assert users(repository, "LIMIT", "candidate") == {"u.cpp:f"}
    assert users(repository, "ONLY", "certain") == {"u.cpp:f"}


def test_kernels_and_calls_of_an_operator_keep_its_overloads_apart(make_repository: Make) -> None:
    repository = make_repository(
        {
            "native_functions.yaml": (
                "- func: most(Tensor self) -> Tensor\n\n"
                "- func: most.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n"
            ),
            "k.cpp": "namespace at::native { int most(int x) { return x; }\nint most_out(int x, int y) { return y; } }\n",
            "k.cu": "namespace at::native { inline int most(int x, int y) { return x; } }\n",
            "c.cpp": "int plain(int x) { return at::most(x); }\nint writing(int x) { return at::most_out(x, x); }\n",
        }
    )
    repository.build()
    rows = repository.db.execute(
        "SELECT s.name, f.path, d.name FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols d ON d.id=e.dst "
        "JOIN files f ON f.id=d.id>>20 WHERE s.kind='operator' AND d.kind='function'"
    )
    assert set(rows) == {("most", "k.cpp", "most"), ("most.out", "k.cpp", "most_out")}
    rows = repository.db.execute(
        "SELECT s.name, d.name FROM edges e JOIN symbols s ON s.id=e.src JOIN symbols d ON d.id=e.dst "
        "WHERE d.kind='operator' AND e.certainty>1"
    )
    assert set(rows) == {("plain", "most"), ("writing", "most.out")}


def test_a_receiver_that_may_be_a_module_or_a_class_of_a_stub_is_no_more_than_a_candidate(make_repository: Make) -> None:
    """`ready` is a function of a module, too, and `squared` a method that only a stub describes: neither is unique."""
    repository = make_repository(
        {
            "own.py": "class Own:\n    def ready(self): ...\n    def squared(self): ...\n    def alone(self): ...\n",
            "device.py": "def ready(): ...\n",
            "tensor.pyi": "class Tensor:\n    def squared(self) -> Tensor: ...\n",
            "use.py": "def f(x):\n    x.ready()\n    x.squared()\n    x.alone()\n",
        }
    )
    repository.build()
    assert users(repository, "Own.ready", "likely") == users(repository, "Own.squared", "likely") == set()
    assert users(repository, "Own.alone", "likely") == {"use.py:f"}
