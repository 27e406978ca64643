"""Random programs over tensors, and of nested loops and branches, compiled and eager.

`python -m tests.programs --compiled` searches for more.
"""

from __future__ import annotations

import pytest

from ndgrad._src.compiler.native.target import available
from tests.programs.check import Result
from tests.programs.compiled import examine_loop, examine_tensors, report


@pytest.fixture(params=["numpy", "native"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test natively and on NumPy."""
    if request.param == "native" and not available():
        pytest.skip("llvmlite is not installed")
    if request.param == "numpy":
        monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")


def no_finding(results: list[Result]) -> None:
    for result in results:
        assert not result.outcome.is_finding, report(result)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(5))
def test_random_loops_compiled_are_themselves(seed: int) -> None:
    no_finding(examine_loop(seed))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_over_tensors_compiled_are_themselves(seed: int) -> None:
    no_finding(examine_tensors(seed, most=2))
