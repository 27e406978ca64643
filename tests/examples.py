"""Number of examples tried: of a property, and of a family of similar cases."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TypeVar

import pytest
from hypothesis import settings

Case = TypeVar("Case")


def at_least(number: int) -> settings:
    """This many examples in a short run, and as many as any other property in a long one."""
    return settings(max_examples=max(number, settings.default.max_examples))


def in_a_long_run() -> bool:
    """Whether this is `make test-long`: its profile of Hypothesis is chosen before tests are collected."""
    return settings.default.max_examples > settings.get_profile("short").max_examples


def few(number: int, cases: Iterable[Case]) -> list[Case]:
    """The first cases of a family in a short run, and all of them in a long one."""
    return [*cases][: None if in_a_long_run() else number]


def thin_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A short run takes one of n cases of a test with the mark `one_in(n)`. A case asked for by its name always runs.

    The checksum of a case's name decides, so that the cases taken are spread over all that varies, and stay the same when others join.
    """
    if in_a_long_run() or any("::" in argument for argument in config.args):
        return
    left = [item for item in items if (mark := item.get_closest_marker("one_in")) and zlib.crc32(item.name.encode()) % mark.args[0]]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = {id(item) for item in left}
        items[:] = [item for item in items if id(item) not in gone]
