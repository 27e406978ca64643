"""Comparison of the outcomes of other libraries' tests, as `make test-ecosystem` counts them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from tests.ecosystem.library_tests import Outcomes, compare_outcomes, unpack

PASSED, FAILED, SKIPPED = ("passed", ""), ("failed", "E"), ("skipped", "")


def outcomes(tests: dict[str, tuple[str, str]], not_reached: tuple[str, ...] = ()) -> Outcomes:
    """Return the outcomes of a run that chose some tests and ended before it reached the last of them."""
    chosen = [*tests, *not_reached]
    return Outcomes(tests, len(chosen), chosen)


def test_a_test_counts_if_torch_passes_it_and_both_reach_it() -> None:
    expected = outcomes(
        {"a.py::ok": PASSED, "a.py::bad": PASSED, "a.py::torch_fails": FAILED, "a.py::skip": SKIPPED, "a.py::late": PASSED},
        not_reached=("a.py::torch_late",),
    )
    found = outcomes(
        {"a.py::ok": PASSED, "a.py::bad": FAILED, "a.py::torch_fails": PASSED, "a.py::skip": PASSED, "a.py::torch_late": FAILED},
        not_reached=("a.py::late",),
    )
    result = compare_outcomes("lib", expected, found)
    assert (result.passed, result.counted, result.unreached) == (1, 2, 2)
    assert result.failures == [("a.py::bad", "failed: E")]


def test_a_test_that_only_ndgrad_skips_is_a_failure() -> None:
    result = compare_outcomes("lib", outcomes({"a.py::t": PASSED}), outcomes({"a.py::t": SKIPPED}))
    assert (result.passed, result.counted, result.failures) == (0, 1, [("a.py::t", "skipped")])


def test_tests_of_a_file_that_cannot_be_collected_are_failures() -> None:
    expected = outcomes({"a.py::one": PASSED, "a.py::two": PASSED, "b.py::three": PASSED})
    result = compare_outcomes("lib", expected, outcomes({"a.py": ("failed", "ImportError: x"), "b.py::three": PASSED}))
    assert (result.passed, result.counted, result.unreached) == (1, 3, 0)
    assert result.failures == [("a.py::one", "failed: ImportError: x"), ("a.py::two", "failed: ImportError: x")]


def test_sources_are_unpacked_without_the_library_itself(tmp_path: Path) -> None:
    source = tmp_path / "lib-1.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        for name in ("lib-1.0/lib/__init__.py", "lib-1.0/tests/a/test_x.py", "lib-1.0/pyproject.toml", "lib-1.0/README.md"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"#"))
    unpack(source, tmp_path / "out", {"tests"})
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"tests/a/test_x.py", "pyproject.toml"}
