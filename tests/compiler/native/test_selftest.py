"""Kernels are held against NumPy before they are used."""

from __future__ import annotations

import threading
import time
from ctypes import c_double
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.native import selftest
from ndgrad._src.compiler.native.selftest import difference, problem
from ndgrad._src.compiler.native.target import Code

TWICE = "define double @twice(double %x) {\n  %y = fmul double %x, 2.0\n  ret double %y\n}\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NDGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(selftest, "_verdicts", {})
    return tmp_path / "native"


class Counted:
    """A check that counts its runs: the function gives `factor` times its argument, within 1e-15."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.runs = 0

    def __call__(self, code: Code) -> str | None:
        self.runs += 1
        twice = code.function("twice", c_double, c_double)
        x = np.linspace(-3, 3, 7)
        return difference("twice", np.array([twice(v) for v in x]), self.factor * x, 1e-15)


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_verdicts", {})


def test_a_library_that_agrees_is_checked_once_per_machine(place: Path, monkeypatch: pytest.MonkeyPatch):
    check = Counted(2.0)
    for _ in range(3):
        assert problem("doublings", Code(TWICE), check) is None
    assert check.runs == 1
    new_process(monkeypatch)
    assert problem("doublings", Code(TWICE), check) is None
    assert check.runs == 1  # known from the cache
    assert problem("doublings", Code(TWICE, level=0), check) is None  # another object
    assert check.runs == 2
    monkeypatch.setenv("NDGRAD_COMPILE_CPU", "generic")  # another processor
    assert problem("doublings", Code(TWICE), check) is None
    assert check.runs == 3
    for file in place.iterdir():
        file.write_bytes(b"rubbish")
    new_process(monkeypatch)
    assert problem("doublings", Code(TWICE), check) is None
    assert check.runs == 4


def test_a_library_that_disagrees_is_refused_with_one_warning(place: Path, monkeypatch: pytest.MonkeyPatch):
    check = Counted(2.5)
    code = Code(TWICE)
    said = r"doublings do not agree with NumPy.*twice is off by 1.5, with values up to 7.5"
    with pytest.warns(RuntimeWarning, match=said) as seen:
        reasons = {problem("doublings", code, check) for _ in range(2)}
    assert len(reasons) == 1
    assert None not in reasons
    assert len(seen) == 1
    assert check.runs == 1
    new_process(monkeypatch)
    with pytest.warns(RuntimeWarning):
        assert problem("doublings", code, check) is not None  # never kept: the next process looks again
    assert check.runs == 2


def test_a_check_that_raises_is_a_reason(place: Path):
    def check(_: Code) -> str | None:
        raise ZeroDivisionError("nothing")

    with pytest.warns(RuntimeWarning, match="ZeroDivisionError: nothing"):
        assert problem("doublings", Code(TWICE), check) == "the check failed with ZeroDivisionError: nothing"


def test_without_a_cache_every_process_checks(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NDGRAD_CACHE_DIR", "")
    check = Counted(2.0)
    assert problem("doublings", Code(TWICE), check) is None
    new_process(monkeypatch)
    assert problem("doublings", Code(TWICE), check) is None
    assert check.runs == 2


def test_threads_that_ask_at_once_share_one_check(place: Path):
    runs: list[int] = []

    def check(_: Code) -> str | None:
        runs.append(1)
        time.sleep(0.05)
        return None

    code = Code(TWICE)
    threads = [threading.Thread(target=problem, args=("doublings", code, check)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 1


def test_differences_in_words():
    x = np.array([1.0, -4.0, np.nan, np.inf])
    assert difference("x", x, x.copy(), 0.0) is None
    assert difference("x", x + [0, 1e-9, 0, 0], x, 1e-9) is None  # relative to the largest
    assert "off by" in str(difference("x", x + [0, 1e-3, 0, 0], x, 1e-9))
    assert "not finite" in str(difference("x", np.array([1.0, -4.0, 1.0, np.inf]), x, 1.0))
    assert "not finite" in str(difference("x", np.array([1.0, -4.0, np.nan, -np.inf]), x, 1.0))
    assert "off by" in str(difference("x", np.array([np.nan, -4.0, np.nan, np.inf]), x, 1.0))
    assert "float32" in str(difference("x", x.astype("f4"), x, 1.0))
    assert "(3,)" in str(difference("x", x[:3], x, 1.0))
    assert difference("x", np.zeros((0, 3)), np.zeros((0, 3)), 0.0) is None
    assert difference("x", np.zeros(3), np.zeros(3), 0.0) is None
