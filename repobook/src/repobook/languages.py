"""The language of a file, and the grammar that parses it."""

import importlib
from functools import cache
from pathlib import PurePosixPath

from tree_sitter import Language

_EXTENSIONS = {
    "python": "py pyi pyw",
    "c": "c",
    "cpp": "cpp cc cxx c++ h hh hpp hxx h++ inl ipp tcc inc cppm hip metal",
    "cuda": "cu cuh",
    "objc": "m mm",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "java": "java",
    "go": "go",
    "rust": "rs",
    "bash": "sh bash zsh ksh",
    "cmake": "cmake",
    "starlark": "bzl star bazel bara sky",
    "yaml": "yml yaml clang-format clang-tidy",
    "toml": "toml",
    "json": "json jsonc geojson ipynb",
    "markdown": "md markdown mdown",
    "rst": "rst",
    "glsl": "glsl vert frag comp",
    "assembly": "s asm",
    "batch": "bat cmd ps1",
    "html": "html htm",
    "css": "css scss less",
    "ini": "ini cfg conf editorconfig",
    "sql": "sql",
    "kotlin": "kt kts gradle groovy",
    "diff": "diff patch",
    "csv": "csv tsv",
    "xml": "xml svg plist",
    "ruby": "rb",
    "csharp": "cs",
    "swift": "swift",
    "lua": "lua",
    "perl": "pl pm",
    "text": "txt text expect log",
}
_BY_EXTENSION = {extension: language for language, row in _EXTENSIONS.items() for extension in row.split()}
_BY_NAME = {
    "CMakeLists.txt": "cmake",
    "BUILD": "starlark",
    "BUCK": "starlark",
    "WORKSPACE": "starlark",
    "MODULE.bazel": "starlark",
    "TARGETS": "starlark",
    "BUCK.oss": "starlark",
    "Dockerfile": "docker",
    "Makefile": "make",
    "GNUmakefile": "make",
    "Cargo.lock": "toml",
}
_GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "cuda": ("tree_sitter_cuda", "language"),
    "objc": ("tree_sitter_objc", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "java": ("tree_sitter_java", "language"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "bash": ("tree_sitter_bash", "language"),
    "cmake": ("tree_sitter_cmake", "language"),
    "starlark": ("tree_sitter_starlark", "language"),
    "yaml": ("tree_sitter_yaml", "language"),
    "toml": ("tree_sitter_toml", "language"),
    "json": ("tree_sitter_json", "language"),
    "markdown": ("tree_sitter_markdown", "language"),
    "rst": ("tree_sitter_rst", "language"),
}
TITLES = {
    "python": "Python", "c": "C", "cpp": "C++", "cuda": "CUDA", "objc": "Objective-C++", "javascript": "JavaScript",
    "typescript": "TypeScript", "tsx": "TypeScript (TSX)", "java": "Java", "go": "Go", "rust": "Rust", "bash": "shell",
    "cmake": "CMake", "starlark": "Starlark", "yaml": "YAML", "toml": "TOML", "json": "JSON", "markdown": "Markdown",
    "rst": "reStructuredText", "glsl": "GLSL", "html": "HTML", "css": "CSS", "ini": "INI", "sql": "SQL", "xml": "XML",
    "csv": "CSV", "make": "Make", "docker": "Dockerfile",
}  # fmt: skip
C_FAMILY = frozenset({"c", "cpp", "cuda", "objc"})
# The linker alone shows the symbols of a source file to other files, unless one of them includes it.
SOURCES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".cu", ".hip", ".m", ".mm", ".metal")


def language_of(path: str, head: bytes = b"") -> str:
    """The language of a path; a `#!` line decides where the name does not."""
    pure = PurePosixPath(path)
    name = pure.name
    if name in _BY_NAME:
        return _BY_NAME[name]
    suffix = pure.suffix[1:]
    if suffix == "in" and pure.stem in _BY_NAME:
        return _BY_NAME[pure.stem]
    if suffix in ("in", "tmpl", "template"):
        suffix = PurePosixPath(pure.stem).suffix[1:]
    found = _BY_EXTENSION.get(suffix) or _BY_EXTENSION.get(suffix.lower())
    if found:
        return found
    if suffix == "BUILD" or name.endswith(".BUILD"):
        return "starlark"
    if name.startswith(("Dockerfile.", "Makefile.")):
        return _BY_NAME[name.partition(".")[0]]
    if head.startswith(b"#!"):
        line = head[: head.find(b"\n")] if b"\n" in head else head
        if b"python" in line:
            return "python"
        if b"sh" in line:
            return "bash"
        if b"node" in line:
            return "javascript"
    return "text"


def title_of(language: str) -> str:
    return TITLES.get(language, language)


@cache
def grammar(language: str) -> Language | None:
    """The tree-sitter grammar of a language, or None where there is none and the file is read as text."""
    entry = _GRAMMARS.get(language)
    if entry is None:
        return None
    module = importlib.import_module(entry[0])
    return Language(getattr(module, entry[1])())
