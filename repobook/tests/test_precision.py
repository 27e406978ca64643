"""Certain references against an independent tool: libclang for C++, jedi for Python (`pip install repobook[oracle]`)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Files, Repository
from oracle import Agreement, clang_truth, compare, jedi_truth

from repobook.model.schema import CERTAIN

SAMPLES = Path(__file__).parent / "samples"
Make = Callable[[Files], Repository]


def build_sample(make_repository: Make, sample: str) -> Repository:
    repository = make_repository({})
    shutil.copytree(SAMPLES / sample, repository.root, dirs_exist_ok=True)
    repository.build()
    return repository


def test_certain_references_of_cpp_agree_with_libclang(make_repository: Make) -> None:
    pytest.importorskip("clang.cindex")
    repository = build_sample(make_repository, "native")
    agreement = Agreement()
    for path in ("shapes.h", "shapes.cpp", "use.cpp"):
        compare(repository.db, path, clang_truth(repository.root, path, []), agreement)
    assert agreement.right[CERTAIN] > 100
    assert agreement.precision(CERTAIN) >= 0.995, agreement.mistakes
    assert agreement.recall >= 0.9


def test_certain_references_of_python_agree_with_jedi(make_repository: Make) -> None:
    pytest.importorskip("jedi")
    repository = build_sample(make_repository, "python")
    agreement = Agreement()
    for path in ("main.py", "shop/stock.py", "shop/prices.py", "shop/__init__.py"):
        compare(repository.db, path, jedi_truth(repository.root, path), agreement)
    assert agreement.right[CERTAIN] > 40
    assert agreement.precision(CERTAIN) >= 0.995, agreement.mistakes
    assert agreement.recall >= 0.85
