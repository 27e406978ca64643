"""Failures before, in or after a test are reported, although passing tests have shorter reports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests import run_protocol

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    @pytest.fixture
    def broken(): raise RuntimeError

    @pytest.fixture
    def broken_after():
        yield
        raise RuntimeError

    def test_passes(): pass
    def test_fails(): raise AssertionError
    def test_setup(broken): pass
    def test_teardown(broken_after): pass
    def test_skips(): pytest.skip()

    @pytest.mark.skip
    def test_skipped(): pass

    @pytest.mark.xfail
    def test_expected(): raise AssertionError
"""


class Reports:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seen.append((report.nodeid.rpartition("::")[2], report.when, report.outcome))


def test_a_worker_tells_of_calls_and_of_what_went_wrong_around_them(pytester):
    pytester.makepyfile(TESTS)
    reports = Reports()
    pytester.inline_run("-p", "no:hypothesispytest", "-p", "no:xdist", plugins=[run_protocol.ShortReports(), reports])
    assert reports.seen == [
        ("test_passes", "call", "passed"),
        ("test_fails", "call", "failed"),
        ("test_setup", "setup", "failed"),
        ("test_teardown", "call", "passed"),
        ("test_teardown", "teardown", "failed"),
        ("test_skips", "call", "skipped"),
        ("test_skipped", "setup", "skipped"),
        ("test_expected", "call", "skipped"),
    ]


def test_the_watchdog_is_set_again_after_a_while_and_after_a_failure(monkeypatch):
    set_for = []
    now = [0.0]
    monkeypatch.setattr(run_protocol, "faulthandler", SimpleNamespace(dump_traceback_later=lambda *_, **__: set_for.append(now[0])))
    monkeypatch.setattr(run_protocol, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watchdog = run_protocol.Watchdog()
    for now[0] in (0.0, 59.0, 60.0, 119.0):
        watchdog.pytest_runtest_setup()
    watchdog.pytest_exception_interact()
    watchdog.pytest_runtest_setup()
    assert set_for == [0.0, 60.0, 119.0]
