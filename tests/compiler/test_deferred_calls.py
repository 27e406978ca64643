"""Logging and printing in compiled functions: the same records and texts as in eager code, in the same order."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import ndgrad

logger = logging.getLogger("tests.deferred_calls")


@contextmanager
def capture_log() -> Iterator[Any]:
    """Return a stream that only the logger writes to, with the source line of each record."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s:%(lineno)d %(message)s"))
    before, logger.handlers, logger.propagate = logger.handlers, [handler], False  # pytest has handlers of its own
    try:
        yield stream
    finally:
        logger.handlers, logger.propagate = before, True
        logger.setLevel(logging.NOTSET)


def logs(x: Any) -> Any:
    loss = (x * x).sum()
    logger.info("loss %.4f of %d in %s", loss.item(), 3, "a text")
    logger.log(logging.ERROR, "twice")
    logger.warning("mean %r", x.mean().item())
    return loss


@pytest.mark.parametrize("level", [logging.CRITICAL, logging.WARNING, logging.DEBUG])
def test_records_are_those_of_eager_code(level: int) -> None:
    compiled = ndgrad.compile(logs, fullgraph=True)
    texts = []
    for f in (logs, compiled):
        with capture_log() as stream:
            logger.setLevel(level)
            for i in range(4):
                f(ndgrad.full((2,), float(i)))
            texts.append(stream.getvalue())
    assert texts[0] == texts[1]
    assert bool(texts[0]) is (level < logging.CRITICAL)
    with capture_log() as stream:
        logger.setLevel(logging.ERROR)  # the guard sees the change
        compiled(ndgrad.ones(2))
        assert stream.getvalue().startswith("ERROR logs:")
        assert len(stream.getvalue().splitlines()) == 1


def test_code_that_asks_for_the_level() -> None:
    f = lambda x: x * 2 if logger.isEnabledFor(logging.INFO) else x
    g = ndgrad.compile(f)
    for level in (logging.INFO, logging.ERROR, logging.INFO):
        logger.setLevel(level)
        assert g(ndgrad.ones(1)).item() == f(ndgrad.ones(1)).item()


class Capturing(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: Any) -> None:
        self.seen.append(record.getMessage())


def test_handlers_of_other_classes_and_objects_that_change_run_eagerly() -> None:
    names: list[str] = []

    def f(x: Any) -> Any:
        logger.info("%s", names)
        names.append("a")
        return x

    g = ndgrad.compile(logs)
    for level in (logging.CRITICAL, logging.DEBUG):  # a logger that is disabled, and then enabled
        with capture_log():
            logger.setLevel(level)
            g(ndgrad.ones(1))
            handler = Capturing()
            logger.addHandler(handler)
            if level == logging.DEBUG:
                assert "log" in str(ndgrad.compiler.explain(f, ndgrad.ones(1)).reason)
                assert "log" in str(ndgrad.compiler.explain(logs, ndgrad.ones(1)).reason)
            for _ in range(3):
                g(ndgrad.ones(1))
            assert len(handler.seen) == (9 if level == logging.DEBUG else 0)


def test_printed_lines(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("loss", x.sum().item(), sep=": ", end=";\n")
        print("next")
        return x * 2

    g = ndgrad.compile(f, fullgraph=True)
    for run in (f, g):
        for i in range(3):
            run(ndgrad.full((2,), float(i)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == lines[6:] == ["loss: 0.0;", "next", "loss: 2.0;", "next", "loss: 4.0;", "next"]
    assert not ndgrad.compiler.explain(lambda x: print(x), ndgrad.ones(1)).compiled
