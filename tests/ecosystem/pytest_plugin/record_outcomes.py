"""A pytest plugin that runs a sample of the tests, and appends the outcome of each to a file, as one line of JSON.

Environment variables: OUTCOMES is that file. It is complete up to the last test even if pytest is stopped. SAMPLE is the
number of tests (0 for all) and SEED selects them. CHOSEN is the file of another run, whose sample is run instead.
TEST_SECONDS is the CPU time of a test. A test that takes longer fails.
The plugin has a folder of its own, since that folder is on the import path of other people's tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest


def pytest_configure(config: Any) -> None:
    random.seed(0)  # names of parameters may be drawn


@pytest.hookimpl(trylast=True)  # after -k and the tests' own selection
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    names = [find_name(item.nodeid) for item in items]
    size = int(os.environ.get("SAMPLE") or 0)
    if os.environ.get("CHOSEN"):
        with open(os.environ["CHOSEN"], encoding="utf-8") as file:
            chosen = next((row["chosen"] for row in map(json.loads, file) if "chosen" in row), names)
    elif size:
        # Tests that are skipped by a mark say nothing. Sorting by a hash does not depend on the number of tests or their order.
        running = [name for name, item in zip(names, items) if not is_skipped(item)]
        seed = os.environ.get("SEED", "0")
        chosen = sorted(running, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())[:size]
    else:
        chosen = names
    wanted = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if find_name(item.nodeid) not in wanted])
    items[:] = [item for item in items if find_name(item.nodeid) in wanted]
    append({"collected": len(names), "chosen": [find_name(item.nodeid) for item in items]})


def find_name(identity: str) -> str:
    """Return the name of a test without the addresses of objects, which differ between runs."""
    return re.sub(r" at 0x[0-9a-f]+", "", identity)


def is_skipped(item: Any) -> bool:
    """True if a mark skips the test. A condition of text is evaluated by pytest only."""
    return item.get_closest_marker("skip") is not None or any(mark.args and mark.args[0] is True for mark in item.iter_markers("skipif"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    def stop(*_: Any) -> None:
        pytest.fail(f"takes more than {seconds:.0f} s of CPU time")

    seconds = float(os.environ.get("TEST_SECONDS") or 0)
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        write(report.nodeid, report)


def pytest_collectreport(report: Any) -> None:
    if report.outcome == "failed":
        write(report.nodeid, report)


def write(name: str, report: Any) -> None:
    error = ""
    if report.outcome == "failed":
        lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
        error = (lines or report.longreprtext.splitlines() or [""])[0]
    seconds = round(getattr(report, "duration", 0.0), 3)
    append({"test": find_name(name), "outcome": report.outcome, "error": error[:200], "seconds": seconds})


def append(row: dict[str, Any]) -> None:
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
