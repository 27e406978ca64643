"""`repobook mcp`: the book as tools of the Model Context Protocol, over stdio, with the official SDK."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from mcp.server.mcpserver import MCPServer

from repobook import __version__, answers
from repobook.build import open_model
from repobook.config import ConfigError

_INSTRUCTIONS = (
    "Answers about one repository, derived from its source. Every place is path:line. Uncertain answers are marked. "
    "The argument `budget` is the longest answer in tokens (one token is about three characters; 2000 if not given)."
)


def _answer(output: Path, ask: Callable[[sqlite3.Connection], str]) -> str:
    """The answer to a question; a book that cannot be read is an answer too."""
    try:
        db = open_model(output)
        try:
            return ask(db)
        finally:
            db.close()
    except ConfigError as error:
        return str(error).removeprefix("repobook: ")
    except sqlite3.Error as error:
        return f"the model of the book cannot be used: {error}; `repobook build` makes it anew"


def make_server(root: Path, output: Path) -> MCPServer:
    server: MCPServer = MCPServer("repobook", version=__version__, instructions=_INSTRUCTIONS)

    @server.tool()
    def search(words: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """Symbols whose names or documentation match words; misspelled words are corrected. Budget in tokens."""
        return _answer(output, lambda db: answers.search(db, words, budget))

    @server.tool()
    def definition(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """The definitions of a name or qualified name, with signature and documentation. Budget in tokens."""
        return _answer(output, lambda db: answers.definition(db, name, budget))

    @server.tool()
    def uses(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """The uses of a name, across languages; uncertain uses are marked. Budget in tokens."""
        return _answer(output, lambda db: answers.uses(db, name, False, budget))

    @server.tool()
    def callers(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """The callers of a function, also through method tables and pybind11. Budget in tokens."""
        return _answer(output, lambda db: answers.uses(db, name, True, budget))

    @server.tool()
    def impact(name: str = "", revision: str = "", budget: int = answers.DEFAULT_BUDGET) -> str:
        """The users and tests that a change touches: of a symbol (name), or since a git revision. Budget in tokens."""
        if revision:
            return _answer(output, lambda db: answers.diff(db, root, revision, budget))
        return _answer(output, lambda db: answers.touched(db, name, budget)) if name else "give a name or a revision"

    @server.tool()
    def page(path: str, section: str = "", budget: int = answers.DEFAULT_BUDGET) -> str:
        """The page of a file, or one of its sections, such as 'Security'. Budget in tokens."""
        return answers.page(output, path, section, budget)

    return server


def serve(root: Path, output: Path) -> None:
    make_server(root, output).run("stdio")
