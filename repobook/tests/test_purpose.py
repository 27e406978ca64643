"""The purpose of a file: stated in a docstring, a header or the main class; derived otherwise."""

import pytest

from repobook.reading.macros import Macros
from repobook.reading.reader import read


def purpose(path: str, language: str, text: str) -> tuple[str, str]:
    found = read(text.encode(), path, language, Macros())
    return found.purpose, found.purpose_origin


@pytest.mark.parametrize(
    ("path", "language", "text", "expected"),
    [
        ("a.py", "python", '"""Reads the mail."""\nimport os\n', ("Reads the mail.", "docstring")),
        ("b.py", "python", '"""\nb\n~\n\nReads the mail.\n\n:copyright: (c) 2012 by them.\n:license: a, see LICENSE.\n"""\nx = 1\n', ("b\n~\n\nReads the mail.", "docstring")),
        ("l.rs", "rust", "/*!\nWalks over folders in threads.\n\n# Example\n\n```\nlet a = walk();\n```\n*/\nuse std::io;\nfn f() {}\n", ("Walks over folders in threads.\n\nExample\n\nlet a = walk();", "header")),
        ("a.h", "cpp", "#pragma once\n// Converts between text and numbers here.\n\n#include <x>\nint f();\n", ("Converts between text and numbers here.", "header")),
        ("a.rs", "rust", "//! Walks over folders in parallel threads.\nuse std::io;\nfn f() {}\n", ("Walks over folders in parallel threads.", "header")),
        ("a.go", "go", "// Package a opens files of all kinds.\npackage a\nfunc F() {}\n", ("Package a opens files of all kinds.", "header")),
        ("engine.h", "cpp", "#include <x>\nint helper();\n// Runs the graph of tasks backwards.\nstruct Engine { int run(); };\n", ("Runs the graph of tasks backwards.", "Engine")),
    ],
)  # fmt: skip
def test_a_stated_purpose_has_its_origin(path: str, language: str, text: str, expected: tuple[str, str]) -> None:
    assert purpose(path, language, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "#include <x>\n// This function is called from three other places.\nint first() { return 1; }\nint second() { return 2; }\n",
        "// TODO: remove this file when nothing needs it.\n\nint first() { return 1; }\nint second() { return 2; }\n",
        "// Copyright 2020 The authors. All rights reserved.\n\nint first() { return 1; }\nint second() { return 2; }\n",
        "// Adapted from the code of another library.\n\nint first() { return 1; }\nint second() { return 2; }\n",
        "#include <x>\n// Forward-declare the classes that we need.\n\nint first() { return 1; }\nint second() { return 2; }\n",
        "// The next header must come before all others.\n#include <x>\nint first() { return 1; }\nint second() { return 2; }\n",
        "int first() { return 1; }\n// A comment between two functions of a file.\n\nint second() { return 2; }\n",
    ],
)
def test_any_other_comment_is_no_purpose(text: str) -> None:
    assert purpose("a.cpp", "cpp", text) == ("Defines the functions `first`, `second`.", "derived")


def test_a_file_of_bindings_names_its_table_and_type() -> None:
    text = (
        "static PyObject* Engine_run(PyObject* self, PyObject* args) { return nullptr; }\n"
        'static PyMethodDef Engine_methods[] = {{"run_backward", Engine_run, METH_VARARGS, nullptr}, {nullptr}};\n'
        'bool init(PyObject* module) { return PyModule_AddObject(module, "_ImperativeEngine", (PyObject*)&T); }\n'
    )
    assert purpose("e.cpp", "cpp", text)[0] == "Binds `run_backward` for Python: method table of `_ImperativeEngine`."


def test_derived_purposes_of_implementations_tests_and_registrations() -> None:
    assert purpose("a.cpp", "cpp", "void A::f() {}\nint A::g() { return 1; }\n")[0] == "Implements `A`."
    assert purpose("t.py", "python", "def test_a(): ...\ndef test_b(): ...\n")[0] == "Tests: `test_a`, `test_b`."
    text = 'TORCH_LIBRARY_IMPL(aten, Batched, m) {\n  m.impl("randn", refuse);\n}\n'
    assert purpose("r.cpp", "cpp", text)[0] == "Registers kernels of `randn` for the dispatch key `Batched`."


def test_files_that_only_collect_others_and_scripts_with_an_interpreter() -> None:
    assert purpose("a.h", "cpp", "#ifndef A_H\n#define A_H\n#include <x.h>\n#endif\n")[0] == "Includes `x.h`."
    text = "#!/usr/bin/env python3\nimport os\ndef run(): ...\n"
    assert purpose("a.py", "python", text) == ("Defines the function `run`.", "derived")
