"""`repobook mcp`: the book as tools of the Model Context Protocol, over stdio, with the official SDK."""

from pathlib import Path

from mcp.server.mcpserver import MCPServer

from repobook import __version__, answers
from repobook.build import database
from repobook.model import store

_INSTRUCTIONS = (
    "Answers about one repository, derived from its source. Every place is path:line. Uncertain answers are marked. "
    "The argument `budget` is the longest answer in tokens (one token is about three characters; 2000 if not given)."
)


def make_server(root: Path, output: Path) -> MCPServer:
    server: MCPServer = MCPServer("repobook", version=__version__, instructions=_INSTRUCTIONS)

    @server.tool()
    def search(words: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """Symbols whose names or documentation match words; misspelled words are corrected. Budget in tokens."""
        return answers.search(store.connect(database(output), readonly=True), words, budget)

    @server.tool()
    def definition(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """Where a name or qualified name is defined, with signature and documentation. Budget in tokens."""
        return answers.definition(store.connect(database(output), readonly=True), name, budget)

    @server.tool()
    def uses(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """The uses of a name, across languages; uncertain uses are marked. Budget in tokens."""
        return answers.uses(store.connect(database(output), readonly=True), name, False, budget)

    @server.tool()
    def callers(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """The callers of a function, also through method tables and pybind11. Budget in tokens."""
        return answers.uses(store.connect(database(output), readonly=True), name, True, budget)

    @server.tool()
    def impact(name: str = "", revision: str = "", budget: int = answers.DEFAULT_BUDGET) -> str:
        """The users and tests that a change touches: of a symbol (name), or since a git revision. Budget in tokens."""
        db = store.connect(database(output), readonly=True)
        if revision:
            return answers.diff(db, root, revision, budget)
        return answers.touched(db, name, budget) if name else "give a name or a revision"

    @server.tool()
    def page(path: str, section: str = "", budget: int = answers.DEFAULT_BUDGET) -> str:
        """The page of a file, or one of its sections, such as 'Security'. Budget in tokens."""
        return answers.page(output, path, section, budget)

    return server


def serve(root: Path, output: Path) -> None:
    make_server(root, output).run("stdio")
