"""The tree-sitter queries of each language, one file each."""

from importlib.resources import files


def text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
