"""Measurements in a file, one per line as they are made: a process that ends early loses only the current one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Notebook:
    """Measurements by their keys, in memory and in a file if a folder is given."""

    def __init__(self, folder: Path | None, name: str, resume: bool) -> None:
        self._found: dict[str, Any] = {}
        self._path = None if folder is None else folder / f"{name}.jsonl"
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if resume and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                key, value = json.loads(line)
                self._found[key] = "the process ended here" if value is None else value
        else:
            self._path.write_text("", encoding="utf-8")

    def begin(self, key: str) -> bool:
        """Note that a measurement begins. Return False if it has been made, or has ended a process."""
        if key in self._found:
            return False
        self._add(key, None)
        return True

    def end(self, key: str, value: Any) -> None:
        """Note the result of a measurement."""
        self._found[key] = value
        self._add(key, value)

    def result_of(self, key: str) -> Any:
        """Return the result of a measurement, a text if the process ended in it, or None if it was not begun."""
        return self._found.get(key)

    def _add(self, key: str, value: Any) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, value]) + "\n")
