"""tests.mutants: what it changes, that it undoes it, and that it finds a removed test."""

from __future__ import annotations

import ast
import sys

import pytest

from tests import mutants

SOURCE = """\
def count(values, seen):
    if not values:
        return 0
    seen.append(len(values))
    seen[0] = 1
    return len(values)
"""


def test_mutations_are_undone():
    tree = ast.parse(SOURCE)
    ((path, function),) = mutants.functions(tree.body)
    assert path == ("count",)
    found = []
    for line, kind, apply in mutants.mutations(function):
        undo = apply()
        changed = ast.unparse(tree).splitlines()
        undo()
        assert ast.unparse(tree).splitlines() == SOURCE.splitlines()
        found.append((line, kind, changed[line - 1].strip()))
    assert sorted(found) == [
        (2, "negated", "if not not values:"),
        (3, "returns None", "return None"),
        (4, "left out", "pass"),
        (5, "left out", "pass"),
        (6, "returns None", "return None"),
    ]


def test_what_only_the_old_test_notices_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "counted.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    results = {"old": iter([True, True, False, False, False, False, False]), "new": iter([False, True, False, False, False])}

    def passes(files, function=None, code=None):
        if function is None:
            return True
        return next(results[files[0]])

    next(results["old"])
    monkeypatch.setattr(mutants, "passes", passes)
    monkeypatch.setattr(sys, "argv", ["mutants", "counted", "--old", "old", "--new", "new"])
    with pytest.raises(SystemExit) as ended:
        mutants.main()
    assert ended.value.code
    assert "5 mutants; 4 fail the old tests, 1 of them no new one" in capsys.readouterr().out
