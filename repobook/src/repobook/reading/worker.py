"""Reading one file in a worker process: its row, the rows of its facts, and a problem in one line."""

import hashlib
import os
import re
from dataclasses import dataclass
from typing import IO, NamedTuple

from repobook.config import Config
from repobook.languages import language_of
from repobook.model import store
from repobook.reading import macros as macro_reader
from repobook.reading.facts import LINE_MASK, Facts, Symbol
from repobook.reading.macros import Macros
from repobook.reading.purpose import DERIVED
from repobook.reading.reader import is_binary, read_file


@dataclass(slots=True)
class Task:
    file: int
    path: str
    size: int
    mtime: int


@dataclass(slots=True)
class Setting:
    root: str
    config: Config
    macros: Macros


# Symbols and lines of one file that the model can tell apart.
MOST = LINE_MASK
_HEAD = 1 << 16
_FILLED = re.compile(rb"[^\s][^\n]*")

_setting: Setting


def start(setting: Setting) -> None:
    global _setting
    _setting = setting


def read_task(task: Task) -> tuple[store.Row, store.Rows, str]:
    setting = _setting
    config = setting.config
    test = is_test(task.path, config)
    try:
        with open(os.path.join(setting.root, task.path), "rb") as file:
            source = file.read(config.max_file_size + 1)
            text = by_text(source, file) if len(source) > config.max_file_size else None
    except OSError as error:
        row = store.file_row(
            task.file, task.path, language_of(task.path), task.size, task.mtime, b"", "unreadable", test, None
        )
        return row, {}, f"{task.path}: not read: {error.strerror}"
    language = language_of(task.path, source[:200])
    digest = content_digest(source) if text is None else text.digest
    problem = ""
    facts: Facts | None = None
    status = "ok"
    if not source:
        status = "empty"
    elif is_binary(source):
        status = "binary"
    elif text is not None:
        status = "large"
        problem = f"{task.path}: {task.size:,} bytes, larger than max_file_size: read by its text, not parsed"
    else:
        try:
            source.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"{task.path}: not UTF-8 (byte {error.start}): read with replacement characters"
        try:
            facts = read_file(source, task.path, language, setting.macros)
        except RecursionError:
            problem = f"{task.path}: nested too deep: described, not parsed"
            status = "unparsed"
        except Exception as error:
            # One file that a reader fails on must not end the build; the line below tells which and why.
            problem = f"{task.path}: described, not parsed: {type(error).__name__}: {error}"
            status = "unparsed"
        if facts is not None and max(len(facts.symbols), facts.lines) > MOST:
            # An id has twenty bits for a symbol of a file, an occurrence twenty for its line.
            problem = f"{task.path}: more than {MOST:,} symbols or lines: read by its text, not parsed"
            status, text = "large", by_text(source, None)
    if text is not None and status == "large":
        facts = Facts(symbols=[Symbol(task.path, "file", 1, text.lines)], lines=text.lines, code=text.filled)
        # The head of a file states its purpose.
        head = read_file(source[:_HEAD].rpartition(b"\n")[0], task.path, language, setting.macros)
        if head.purpose_origin != DERIVED:
            facts.purpose, facts.purpose_origin = head.purpose, head.purpose_origin
    row = store.file_row(task.file, task.path, language, task.size, task.mtime, digest, status, test, facts)
    return row, store.rows_of(task.file, facts) if facts is not None else {}, problem


class Text(NamedTuple):
    """Facts from the bytes of a file, without a parse."""

    digest: bytes
    lines: int
    filled: int  # lines that are not blank


def by_text(begun: bytes, file: IO[bytes] | None) -> Text:
    """The text of a file that is too large to parse, of which a part was read; however long, in little memory."""
    digest = hashlib.blake2b(digest_size=16)
    lines = filled = 0
    rest = b""
    piece = begun
    while piece:
        digest.update(piece)
        lines += piece.count(b"\n")
        whole, _, rest = (rest + piece).rpartition(b"\n")
        filled += sum(1 for _ in _FILLED.finditer(whole))
        piece = file.read(_HEAD) if file is not None else b""
    filled += bool(rest.strip())
    return Text(digest.digest(), lines + bool(rest), filled)


def content_digest(source: bytes) -> bytes:
    return hashlib.blake2b(source, digest_size=16).digest()


def macros_task(task: Task) -> tuple[int, list[tuple[str, str | None, str]]]:
    """Every `#define` of a file."""
    try:
        with open(os.path.join(_setting.root, task.path), "rb") as file:
            source = file.read(_setting.config.max_file_size)
    except OSError:
        return task.file, []
    return task.file, [
        (
            name.decode("utf-8", "replace"),
            None if parameters is None else " ".join(parameters.decode("utf-8", "replace").split()),
            body.decode("utf-8", "replace")[:2000],
        )
        for name, parameters, body in macro_reader.definitions(source)
    ]


def is_test(path: str, config: Config) -> bool:
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    return (
        stem.startswith("test_") or stem.endswith(("_test", "_tests", "-test")) or ".test." in name or ".spec." in name
        or any(folder in config.test_patterns for folder in folders)
    )  # fmt: skip
