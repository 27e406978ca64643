"""Entry point for reading any file: the reader of its language, or its text."""

from repobook.languages import C_FAMILY
from repobook.reading import cpp, generic, prose, python
from repobook.reading.facts import Facts
from repobook.reading.macros import Macros


def read_file(source: bytes, path: str, language: str, macros: Macros) -> Facts:
    if language == "python":
        return python.read_python(source, path)
    if language in C_FAMILY:
        return cpp.read_native(source, path, language, macros)
    if language in generic.LANGUAGES:
        return generic.read_generic(source, path, language)
    return prose.read_prose(source, path, language)


def is_binary(head: bytes) -> bool:
    return b"\0" in head[:8192]
