"""Tests of the compiler use a cache folder of their own, and fail if code generation fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NDGRAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("NDGRAD_COMPILE_RAISE", "1")
        yield
