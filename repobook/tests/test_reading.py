"""Facts that each reader finds in a file: definitions, references, imports, notes."""

import pytest

from repobook.reading.facts import CALL, Facts, unpack
from repobook.reading.macros import Macros, attribute_macros, definitions
from repobook.reading.reader import read_file


def facts(language: str, text: str, macros: Macros | None = None) -> Facts:
    return read_file(text.encode(), "file", language, macros or Macros())


def defined(found: Facts) -> set[tuple[str, str]]:
    return {(symbol.kind, symbol.qualified) for symbol in found.symbols[1:]}


def test_python_definitions_with_fields_and_nesting() -> None:
    found = facts(
        "python",
        '"""What it is for."""\n'
        "LIMIT = 3\n"
        "class A(Base, metaclass=M):\n"
        '    """An A."""\n'
        "    kind: int = 1\n"
        "    def __init__(self, x: int = 0):\n"
        "        self.x = x\n"
        "        local = self.x\n"
        "        def inner(): return local\n"
        "async def f(a, *args, **kwargs): ...\n",
    )
    assert defined(found) == {
        ("variable", "LIMIT"), ("class", "A"), ("field", "A.kind"), ("method", "A.__init__"), ("field", "A.x"),
        ("function", "A.__init__.inner"), ("function", "f"),
    }  # fmt: skip
    by_name = {symbol.qualified: symbol for symbol in found.symbols}
    assert found.purpose == "What it is for."
    assert by_name["A"].doc == "An A."
    assert by_name["A"].bases == "Base, metaclass=M"
    assert by_name["A.__init__"].signature == "def __init__(self, x: int = 0)"
    assert by_name["f"].signature.startswith("async def f(a, *args, **kwargs)")


def test_locals_and_keyword_names_are_no_references() -> None:
    found = facts("python", "def f(a):\n    b = g(a, size=1)\n    for c in b: h(c)\n    return [d for d in b]\n")
    assert set(found.references) == {("g", ""), ("h", "")}


def test_words_of_comments_and_strings_are_no_references() -> None:
    found = facts("python", "# Although A word\nx = 'Quoted text'\nf(x)\n")
    assert {name for name, _ in found.references} == {"f", "x"}


def test_a_name_of_the_global_scope_keeps_its_scopes() -> None:
    found = facts("cpp", "int f() { return ::c10::detail::g() + A<int>::b() + 1.f + (x?y:z); }\n")
    scoped = {key for key in found.references if key[0] in ("c10", "detail", "g", "b", "y")}
    assert scoped == {("c10", ""), ("detail", "c10"), ("g", "c10::detail"), ("b", "?"), ("y", "")}


def test_code_in_strings_is_read_and_slices_are_no_scopes() -> None:
    found = facts(
        "python", """def f(n):\n    return f"text {g(x):>{width}} {f'{inner}'!r} {{plain}}" + a[::n] + a[0::m]\n"""
    )
    assert {name for name, _ in found.references} == {"g", "x", "inner", "a", "m"}


def test_receivers_of_known_type_are_named() -> None:
    found = facts(
        "python",
        "class A:\n    def m(self, other: B):\n        self.n()\n        other.k()\n        unknown().z()\n        self.x.y()\n",
    )
    assert {key for key in found.references if key[0] in "nkzy"} == {
        ("n", ":A"),
        ("k", ":B"),
        ("z", ":unknown()"),
        ("y", ":A|x"),
    }


def test_an_occurrence_knows_its_line_and_its_function() -> None:
    found = facts("python", "def f():\n    pass\n\ndef g():\n    return f()\n")
    line, local, flags = unpack(found.references["f", ""][0])
    assert (line, found.symbols[local].name, flags & CALL) == (5, "g", CALL)


def test_python_imports_of_every_form() -> None:
    found = facts(
        "python",
        "import a.b\nimport c as d\nfrom .x import y as z, w\nfrom q import *\nfrom __future__ import annotations\n",
    )
    assert [(i.line, i.module, i.name, i.alias) for i in found.imports] == [
        (1, "a.b", "", ""), (2, "c", "", "d"), (3, ".x", "y", "z"), (3, ".x", "w", ""), (4, "q", "*", ""),
    ]  # fmt: skip


def test_all_is_read() -> None:
    assert facts("python", '__all__ = ["a", "b"]\n__all__ += ["c"]\n').exports == ["a", "b", "c"]


CPP = """
namespace a::b {
/// A snapshot.
class EXPORT_API Saved final : public Base<int>, Other {
 public:
  Saved() = default;
  ~Saved();
  int get(const Node& n) const { return n.value(); }
  static int count;
  std::shared_ptr<Node> next_;
  enum Kind { One, Two };
};
#define TWICE(x) ((x) * 2)
using Alias = Saved;
int Saved::helper(int k) { int unused = 1; return k + free_function(unused); }
extern const char* ERR_TWICE;
}
"""


def test_cpp_definitions_behind_an_export_macro() -> None:
    macros = Macros(attribute_macros(definitions(b'#define EXPORT_API __attribute__((visibility("default")))\n')))
    found = facts("cpp", CPP, macros)
    assert {
        ("namespace", "a"), ("namespace", "a::b"), ("class", "a::b::Saved"), ("method", "a::b::Saved::Saved"),
        ("method", "a::b::Saved::~Saved"), ("method", "a::b::Saved::get"), ("field", "a::b::Saved::count"),
        ("field", "a::b::Saved::next_"), ("enum", "a::b::Saved::Kind"), ("enumerator", "a::b::Saved::Kind::One"),
        ("macro", "TWICE"), ("type", "a::b::Alias"), ("method", "a::b::Saved::helper"), ("variable", "a::b::ERR_TWICE"),
    } <= {(kind, name.removeprefix("a::b::") if kind == "macro" else name) for kind, name in defined(found)}  # fmt: skip
    saved = next(s for s in found.symbols if s.kind == "class")
    assert (saved.name, saved.bases, saved.doc) == ("Saved", "Base<int>, Other", "A snapshot.")
    assert ("EXPORT_API", "") in found.references, "the macro is used here, and the index says so"
    assert ("value", ":Node") in found.references
    assert not any(name in ("k", "n", "unused") for name, _ in found.references)


def test_an_export_macro_is_known_by_its_place_too() -> None:
    chosen = attribute_macros(definitions(b"class SOME_API Name : public Base {};\nstruct Plain final {};\n"))
    assert "SOME_API" in chosen
    assert "Plain" not in chosen


def test_a_macro_that_is_a_value_or_a_guard_is_not_blanked() -> None:
    chosen = attribute_macros(
        definitions(
            b"#define SIZE 3\n#define FOO_H\n#define USE_CUDA\n#define CALL(x) x\n#define MY_INLINE inline __attribute__((always_inline))\n"
        )
    )
    assert {"SIZE", "FOO_H", "USE_CUDA", "CALL"}.isdisjoint(chosen)
    assert "MY_INLINE" in chosen


def test_blanking_keeps_every_offset() -> None:
    source = b"class API X {};\n#define API\nAPI int f();\n"
    blanked, places = Macros(frozenset({"API"})).blank(source)
    assert len(blanked) == len(source)
    assert places == [("API", 6), ("API", 28)]
    assert b"#define API" in blanked


def test_method_tables_and_pybind_register_names() -> None:
    found = facts(
        "cpp",
        "static PyMethodDef methods[] = {\n"
        '  {"run", castPyCFunctionWithKeywords(THP_run), METH_VARARGS | METH_KEYWORDS, nullptr},\n'
        "  {nullptr}};\n"
        "static PyGetSetDef props[] = {\n"
        '  {"grad", (getter)THP_get, (setter)THP_set, nullptr, nullptr}};\n'
        "PYBIND11_MODULE(ext, m) {\n"
        '  m.def("add", &ns::add);\n'
        '  m.def("sub", [](int a) { return helper(a); });\n'
        "}\n",
    )
    rows = {(b.kind, b.exposed, b.target) for b in found.bindings}
    assert rows == {
        ("method table", "run", "THP_run"), ("getset table", "grad", "THP_get"),
        ("getset table, setter", "grad", "THP_set"),
        ("pybind11", "add", "ns::add"), ("pybind11", "sub", ""),
    }  # fmt: skip
    sub = next(index for index, s in enumerate(found.symbols) if s.name == "sub")
    assert [unpack(place)[1] for place in found.references["helper", ""]] == [sub], "the lambda is the caller"


def test_a_table_names_functions_behind_casts_and_templates() -> None:
    found = facts(
        "cpp",
        "static PyMethodDef methods[] = {\n"
        '  {(char*)"name", THP_name, METH_NOARGS, nullptr},\n'
        '  {"fast", castPyCFunctionFast(THP_fast), METH_FASTCALL, nullptr},\n'
        "};\n"
        'static PyGetSetDef properties[] = {{"kept", getObject<&THP::kept>, setObject<&THP::kept>, nullptr, nullptr}};\n',
    )
    assert [(b.exposed, b.target) for b in found.bindings] == [
        ("name", "THP_name"), ("fast", "THP_fast"), ("kept", "getObject"), ("kept", "setObject"),
    ]  # fmt: skip


def test_marked_documentation_holds_over_a_blank_line_and_signatures_end_before_initialisers() -> None:
    found = facts(
        "cpp",
        "/// What A is.\n\nstruct A {\n  A(\n      int x) : x_(x) {}\n  int x_;\n};\n// A heading.\n\nstruct B {};\n",
    )
    by_name = {(symbol.kind, symbol.name): symbol for symbol in found.symbols}
    assert by_name["struct", "A"].doc == "What A is."
    assert by_name["struct", "B"].doc == ""
    assert by_name["method", "A"].signature == "A(int x)"


def test_words_of_a_message_are_no_functions() -> None:
    found = facts("objc", "void f() { [d setObject:x forKey:k]; switch (x) { case Kind: g(); } }\n")
    assert {name for name, _ in found.references} >= {"d", "x", "k", "Kind", "g"}
    assert not {"setObject", "forKey"} & {name for name, _ in found.references}


def test_a_concept_is_a_phrase_of_words_and_has_the_line_where_it_stands() -> None:
    lines = [
        "# The unpack step.",
        "x = 1",
        "# a pack_hook and pack_hook/unpack_hook again",
        "# a tensor hook, a tensor",
        "# the tensor hook",
    ]
    found = facts("python", "\n".join([*lines, "# tensor hook", "# and so on with ordinary words"]) + "\n")
    assert found.words == {"tensor hook": (3, 4)}


def test_a_remark_is_read_to_its_end_and_a_note_whole() -> None:
    text = "# TODO: call it once the state\n# can be cleared safely.\n# This is another matter.\n\n# Note [ Long ]\n"
    text += "".join(f"# line {number} of the note says something\n" for number in range(300)) + "x = 1\n"
    remarks = {remark.kind: remark for remark in facts("python", text).remarks}
    assert remarks["todo"].text == "call it once the state can be cleared safely."
    assert remarks["note"].text.endswith("line 299 of the note says something")


def test_a_remark_ends_before_what_is_said_to_a_linter_and_is_no_invariant_too() -> None:
    text = "// TODO: make it declarable\n// NOLINTNEXTLINE(modernize-avoid-c-arrays)\nint a[2];\n\n"
    text += "// TODO: a better invariant is that the tag must never be lost.\nint b;\n"
    found = [(remark.kind, remark.text) for remark in facts("cpp", text).remarks]
    assert found == [
        ("todo", "make it declarable"),
        ("todo", "a better invariant is that the tag must never be lost."),
    ]


def test_the_signature_of_a_macro_ends_before_its_body() -> None:
    found = facts("cpp", "#define CHECKED(condition, ...) \\\n  do { f(condition); } while (0)\n#define ONE 1\n")
    assert [symbol.signature for symbol in found.symbols[1:]] == ["#define CHECKED(condition, ...)", "#define ONE"]


def test_what_is_said_to_a_linter_is_no_concept() -> None:
    text = (
        "x = 1  # type: ignore[arg-type]\ny = 2  # noqa: B950\n" * 6
        + "# the flywheel, the flywheel\n# and the flywheel\n"
    )
    assert set(facts("python", text).words) == {"flywheel"}
    text = "// NOLINTNEXTLINE(bugprone-thing)\nint a;\n} // namespace gears\n" * 6
    assert not facts("cpp", text).words


def test_titled_notes_todo_and_invariants() -> None:
    found = facts(
        "cpp",
        "// Note [ Locking order ]\n// Take a before b.\n\n// See Note [Locking order] and TODO(me): mend it.\n// The pointer must never be null here.\nint x;\n",
    )
    rows = {(r.kind, r.title) for r in found.remarks}
    assert ("note", "Locking order") in rows
    assert ("note-reference", "Locking order") in rows
    assert ("todo", "TODO(me)") in rows
    assert any(r.kind == "invariant" and "never be null" in r.text for r in found.remarks)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("javascript", "export class A extends B { m() { return this.m() } }\nconst f = (x) => x\nfunction g() {}", {("class", "A"), ("method", "A.m"), ("function", "f"), ("function", "g")}),
        ("typescript", "interface I { a: number }\ntype U = string\nenum E { X }\nclass C { p = 1 }", {("interface", "I"), ("field", "I.a"), ("type", "U"), ("enum", "E"), ("enumerator", "E.X"), ("class", "C"), ("field", "C.p")}),
        ("java", "package p; class A { int f; void m() {} enum K { P } }", {("package", "p"), ("class", "A"), ("field", "A.f"), ("method", "A.m"), ("enum", "A.K"), ("enumerator", "A.K.P")}),
        ("go", "package p\ntype S struct { F int }\nfunc (s *S) M() {}\nfunc G() {}\nconst C = 1", {("package", "p"), ("struct", "S"), ("field", "S.F"), ("method", "S.M"), ("function", "G"), ("constant", "C")}),
        ("rust", "struct S { f: u8 }\nimpl S { fn m(&self) {} }\ntrait T { fn z(&self); }\nmacro_rules! mm { () => {} }", {("struct", "S"), ("field", "S::f"), ("method", "S::m"), ("trait", "T"), ("method", "T::z"), ("macro", "mm")}),
        ("bash", "export A=1\nf() { local b=2; g; }\n", {("variable", "A"), ("function", "f")}),
        ("cmake", "function(my_fn a)\nendfunction()\nadd_library(lib a.cpp)\noption(USE_X \"x\" ON)\n", {("function", "my_fn"), ("target", "lib"), ("constant", "USE_X")}),
        ("starlark", "load('//a:b.bzl', 'r')\ndef f(x):\n  return r(x)\ncc_library(name = 'q')\n", {("function", "f"), ("target", "q")}),
        ("json", '{"a": {"b": 1}}', {("key", "a"), ("key", "a.b")}),
        ("toml", "[t]\nk = 1\n", {("section", "t"), ("key", "t.k")}),
        ("yaml", "a: 1\nb:\n  c: 2\n", {("key", "a"), ("key", "b"), ("key", "b.c")}),
        ("c", "struct S { int a; };\nstatic int f(int x) { return x; }\n#define M 1\n", {("struct", "S"), ("field", "S::a"), ("function", "f"), ("macro", "M")}),
        ("cuda", "__global__ void k(int* a) { a[0] = 1; }\n", {("function", "k")}),
    ],
)  # fmt: skip
def test_other_languages(language: str, text: str, expected: set[tuple[str, str]]) -> None:
    assert expected <= defined(facts(language, text))


def test_objective_cpp_has_both_languages() -> None:
    text = (
        '#import "a.h"\nnamespace n { int plain(int a) { return a; } }\n'
        "@interface Thing : NSObject\n@property int size;\n- (void)go:(int)a;\n@end\n"
        "@implementation Thing\n- (void)go:(int)a { n::plain(a); }\n@end\n"
    )
    names = {s.name for s in facts("objc", text).symbols}
    assert {"plain", "Thing", "go"} <= names


def test_macros_that_define_can_be_configured() -> None:
    macros = Macros(definers={"MY_CASE": "test"})
    found = facts("cpp", "MY_CASE(Suite, name) { run(); }\n", macros)
    assert ("test", "Suite.name") in defined(found)
    assert ("test", "Suite.name") in defined(facts("cpp", "TEST(Suite, name) { run(); }\n"))


def test_headings_and_purpose_of_markdown() -> None:
    text = (
        "[![badge](b.svg)](x)\n\nTitle\nof two lines\n===\n\n- An item that is long enough to be taken for a purpose.\n\n"
        "`code` begins a paragraph that says\nwhat this is about.\n\n"
        "```\n# not one\n```\n\n<!--\n# nor this\n-->\n\n    # nor code\n\n~~~sh\n```\n# nor this\n~~~\n\n## Second ##\n\nThird\n---\n"
    )
    found = facts("markdown", text)
    assert [(r.line, r.title, r.text) for r in found.remarks] == [
        (3, "Title of two lines", "1"),
        (27, "Second", "2"),
        (29, "Third", "2"),
    ]
    assert found.purpose == "`code` begins a paragraph that says what this is about."


def test_headings_and_purpose_of_rst() -> None:
    text = (
        "=====\nTitle\n=====\n\n.. figure:: x.png\n\n   A figure that is no paragraph of the document.\n\nShort\n\n"
        "Part\n====\n\n.. code-block:: text\n\n   Not\n   ---\n\n::\n\n   nor\n   ---\n\n"
        "The paragraph that says\nwhat this is about.\n\nSmall\n-----\n\nPart two\n========\n"
    )
    found = facts("rst", text)
    assert [(r.line, r.title, r.text) for r in found.remarks] == [
        (2, "Title", "1"),
        (11, "Part", "2"),
        (27, "Small", "3"),
        (30, "Part two", "2"),
    ]
    assert found.purpose == "The paragraph that says what this is about."


@pytest.mark.parametrize(("language", "note", "code"), [
    ("markdown", "```{note}\nthe %s, the %s\n```\n\n", "```python\n# the %s, the %s\n```\n\n"),
    ("rst", ".. note:: the %s,\n   the %s\n\n", ".. code-block:: python\n\n   # the %s, the %s\n\n"),
])  # fmt: skip
def test_terms_of_a_document_stand_in_its_prose(language: str, note: str, code: str) -> None:
    text = "See https://example.org for the licence.\n\n" + "The flywheel turns.\n\n" * 4
    text += note % ("crankshaft", "crankshaft") * 3 + code % ("ignored", "ignored") * 3
    assert set(facts(language, text).words) == {"flywheel turns", "crankshaft"}


def test_complexity_counts_branches_and_nesting() -> None:
    found = facts(
        "python",
        "def f(x):\n    if x:\n        for y in x:\n            if y and x:\n                pass\n    return 1\n",
    )
    f = found.symbols[1]
    assert (f.complexity, f.nesting) == (5, 4)


def test_findings_name_the_rule_and_the_line() -> None:
    found = facts("python", "import pickle\ndef f(x):\n    eval(x)\n    return pickle.loads(x)\n")
    assert {(f.line, f.section, f.rule) for f in found.findings} == {
        (3, "safety", "dynamic code"),
        (4, "safety", "unpickling"),
    }
    found = facts(
        "cpp",
        "void f() { for (;;) { std::lock_guard<std::mutex> g(m); } memcpy(a, b, n); pybind11::gil_scoped_release r; }\n",
    )
    assert {(f.section, f.rule) for f in found.findings} >= {
        ("performance", "lock in a loop"),
        ("safety", "raw memory"),
        ("performance", "GIL"),
    }


def test_findings_of_languages_that_a_query_alone_reads() -> None:
    script = facts("javascript", "function f(x) {\n  el.innerHTML = x;\n  return eval(x);\n}\n").findings
    assert {(f.rule, f.line) for f in script} == {("markup from text", 2), ("dynamic code", 3)}
    rust = facts("rust", "fn f(x: Option<u8>) -> u8 {\n    x.unwrap()\n}\n").findings
    assert {(f.section, f.rule, f.line) for f in rust} == {("safety", "exception safety", 2)}
    go = facts("go", 'package p\nimport "os/exec"\nfunc f() {\n\texec.Command("ls")\n}\n').findings
    assert {(f.rule, f.line) for f in go} == {("subprocess", 4)}


def test_environment_variables_and_flags() -> None:
    found = facts(
        "python",
        "import os\nx = os.environ.get('MY_FLAG', 1)\nos.getenv(\"OTHER_ONE\")\np.add_argument('--deep', action='store_true')\n",
    )
    assert {(f.rule, f.detail) for f in found.findings if f.section == "name"} == {
        ("environment variable", "MY_FLAG"), ("environment variable", "OTHER_ONE"), ("flag", "--deep"),
    }  # fmt: skip


def test_patterns_are_found_where_they_are() -> None:
    found = facts("python", "class C:\n    def __enter__(self): ...\n    def __exit__(self, *a): ...\n")
    assert [(f.rule, f.line) for f in found.findings if f.section == "pattern"] == [("context manager", 1)]
    found = facts("python", "def deco(f):\n    def inner(*a): ...\n    return update_wrapper(inner, f)\n")
    assert [(f.rule, f.line) for f in found.findings if f.section == "pattern"] == [("decorator", 1)]
    found = facts("cpp", "class Guard { public: Guard() { lock(); } ~Guard() { unlock(); } };\n")
    assert ("RAII", 1) in {(f.rule, f.line) for f in found.findings}


def test_broken_syntax_still_yields_what_is_whole() -> None:
    found = facts("python", "def good():\n    return 1\n\nclass (:\n  = 3\n\ndef also_good():\n    return 2\n")
    assert {"good", "also_good"} <= {s.name for s in found.symbols}
    assert found.errors > 0


def test_words_are_names_only_where_the_grammar_says_so() -> None:
    found = facts("python", 'def g(v): return f"{name!r:>{8}} {other}" if v else None\nimport skipped.too\nx = 1.e5\n')
    assert {name for name, _ in found.references} == {"name", "other"}
    found = facts(
        "cpp",
        '#define LOOP(word) word_in_body(word)\nvoid f(Tensor t, T1 t1) { if (t.defined()) { use(1.f, L"text", t1.size()); } }\n',
    )
    assert {("defined", ":Tensor"), ("size", ":T1"), ("use", "")} <= set(found.references)
    names = {name for name, _ in found.references}
    assert not names & {"if", "void", "define", "f", "L", "text", "word_in_body"}


def test_a_call_that_reads_like_a_declaration_defines_nothing() -> None:
    found = facts("cpp", "namespace n { std::move(x); void real(); }\n")
    assert not any("move" in name for _, name in defined(found))
    assert ("function", "n::real") in defined(found)


def safety(found: Facts, rule: str) -> list[tuple[int, str]]:
    return [(row.line, row.detail) for row in found.findings if row.rule == rule]


def test_lock_order() -> None:
    found = facts(
        "cpp",
        "void f() {\n  std::lock_guard<std::mutex> a(first_);\n  std::unique_lock<std::mutex> b{second_};\n}\n"
        "void g() {\n  { std::lock_guard<std::mutex> a(first_); }\n  std::lock_guard<std::mutex> b(third_);\n}\n"
        "void k() { std::lock_guard a(first_); later([this](int x) { std::lock_guard b(fourth_); }); }\n"
        "void h() {\n  std::lock_guard lock(second_);\n  if (x) {\n    std::lock_guard other(first_);\n  }\n}\n",
    )
    assert safety(found, "lock order") == [
        (3, "takes second_ while it holds first_; line 13 takes them the other way round"),
        (13, "takes first_ while it holds second_; line 3 takes them the other way round"),
    ]
    found = facts(
        "python",
        "def f(self):\n    with self._lock:\n        go()\n        with other_lock:\n            pass\n"
        "def g():\n    with a_lock:\n        pass\n    with b_lock:\n        pass\n",
    )
    assert safety(found, "lock order") == [(4, "takes other_lock while it holds self._lock")]


def test_exceptions_that_are_lost_or_fatal() -> None:
    found = facts(
        "cpp",
        "struct S { ~S() { throw Bad(); } };\nvoid f() noexcept { throw Bad(); }\nvoid g() noexcept { try { throw Bad(); } catch (...) {} }\n"
        "void h() { try { x(); } catch (...) { log(); throw; } }\n",
    )
    assert safety(found, "exception safety") == [
        (3, "catches whatever is thrown and drops it"),
        (4, "catches whatever is thrown"),
        (1, "throws in a destructor: the program ends"),
        (2, "throws in a noexcept function: the program ends"),
    ]
    found = facts(
        "python",
        "try:\n    f()\nexcept:\n    log()\ntry:\n    f()\nexcept Exception:\n    pass\ntry:\n    f()\nexcept ValueError:\n    pass\n",
    )
    assert safety(found, "exception safety") == [
        (3, "catches everything, KeyboardInterrupt too"),
        (7, "drops every Exception"),
    ]


def test_the_purpose_of_a_change_log_is_no_list_item() -> None:
    found = facts(
        "markdown",
        "# Changes\n\n- One thing\n  that goes on. {issue}`1`\n- Two\n\nReleases follow the calendar, one in each quarter.\n",
    )
    assert found.purpose == "Releases follow the calendar, one in each quarter."


def test_bounds_of_a_kernel_are_not_its_name() -> None:
    found = facts("cuda", "__global__ void __launch_bounds__(f(256), 2) run(int n) { int i = n; }\n")
    assert [(symbol.name, symbol.kind) for symbol in found.symbols[1:]] == [("run", "function")]


def test_a_macro_behind_the_name_of_a_class_is_no_function() -> None:
    source = "struct First GEN_FINAL : private Base {\n  int x;\n};\nstruct Second GEN_FINAL : private Base {};\n"
    macros = Macros(attribute_macros(definitions(source.encode())))
    found = facts("cpp", source, macros)
    assert {("struct", "First"), ("struct", "Second"), ("field", "First::x")} <= defined(found)
    assert not any(kind == "function" for kind, _ in defined(found))


def test_keywords_of_metal_name_nothing() -> None:
    source = (
        "#include <metal_stdlib>\nkernel void copy(device float* to, constant int& n) {\n  thread float x = 0;\n}\n"
    )
    found = facts("cpp", source)
    assert ("function", "copy") in defined(found)
    assert not {name for name, _ in found.references} & {"device", "constant", "thread", "kernel"}
    # A file of another language calls a function of that name.
    other = facts("cpp", "int f() { return device (3) + g(device); }\n")
    assert "device" in {name for name, _ in other.references}


def test_a_macro_call_with_types_ends_at_its_semicolon() -> None:
    source = (
        "class A : public ::n::Store {\n public:\n  bool has() const override {\n"
        '    OVERRIDE_NAME(\n        bool, ::n::Store, "has", has);\n  }\n};\n'
        "class B : public ::n::Request {\n  const std::string& body() const override {\n"
        "    OVERRIDE_PURE(const std::string&, ::n::Request, body);\n  }\n};\n"
        "int after() { return 1; }\n"
    )
    assert {("method", "A::has"), ("class", "B"), ("method", "B::body"), ("function", "after")} <= defined(
        facts("cpp", source)
    )


def test_the_name_of_a_test_refers_to_nothing() -> None:
    found = facts("cpp", "TEST(Suite, Int) { use(1); }\nTEST_F(\n    Fixture,\n    Long) { use(Int); }\n")
    assert {("test", "Suite.Int"), ("test", "Fixture.Long")} <= defined(found)
    names = {name for name, _ in found.references}
    assert {"Fixture", "use", "Int"} <= names and not names & {"Suite", "Long"}
    assert [unpack(place)[0] for place in found.references["Int", ""]] == [4]


def test_a_guarded_field_keeps_its_name() -> None:
    found = facts(
        "cpp",
        "class A {\n  std::mutex lock_;\n  Time at_ MY_GUARDED_BY(lock_) =\n      Time(0);\n  bool b_ GUARDED_BY(lock_);\n};\n",
    )
    assert {kind_name for kind_name in defined(found) if kind_name[0] == "field"} == {
        ("field", "A::lock_"),
        ("field", "A::at_"),
        ("field", "A::b_"),
    }
