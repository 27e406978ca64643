"""A cheaper version of pytest's work around each test: there are tens of thousands, most of two milliseconds."""

from __future__ import annotations

import faulthandler
import os
import time

import pytest
from _pytest.runner import runtestprotocol

#: Seconds after which a test counts as hanging, and how many of them may belong to the tests before it.
HANGING, EARLIER = 300.0, 60.0


class Watchdog:
    """A deadlock shows its stacks instead of a silent hang.

    pytest's own `faulthandler_timeout` starts and joins a thread for each test. This one is set for many tests at once.
    """

    def __init__(self) -> None:
        self.stderr = os.dup(2)  # as it is before pytest captures it
        self.set_at = float("-inf")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        now = time.monotonic()
        if now - self.set_at >= EARLIER:
            faulthandler.dump_traceback_later(HANGING, file=self.stderr)
            self.set_at = now

    def pytest_exception_interact(self) -> None:
        self.set_at = float("-inf")  # pytest has cancelled it, lest it disturb a debugger

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self.stderr)


class ShortReports:
    """A worker tells the controlling process once how a test went, and again only of what went wrong around it.

    xdist's own way is five messages: started, set up, called, torn down, finished. Writing, reading and counting them takes as long as
    the test. Only `--durations` reads the others.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                report.keywords = {}  # every mark and every name on the way to the test, for hooks that we have not
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def register(config: pytest.Config) -> None:
    """Adds to `config` what this process has use for."""
    config.pluginmanager.register(Watchdog())
    if hasattr(config, "workerinput") and config.option.durations is None:
        config.pluginmanager.register(ShortReports())
