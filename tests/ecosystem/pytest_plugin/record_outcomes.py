"""A pytest plugin that appends the outcome of each test to a file, as one line of JSON.

The file is named by the environment variable OUTCOMES. It is complete up to the last test even if pytest is stopped.
The plugin has a folder of its own, since that folder is on the import path of other people's tests.
"""

from __future__ import annotations

import json
import os
from typing import Any


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
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": name, "outcome": report.outcome, "error": error[:200]}) + "\n")
