"""`repobook mcp`: the book as tools of the Model Context Protocol, over stdio, with the official SDK."""

from pathlib import Path

from mcp.server.mcpserver import MCPServer

from repobook import __version__, answers
from repobook.build import database
from repobook.model import store

_INSTRUCTIONS = (
    "Answers about one repository, derived from its source. Every place is path:line. What is only a candidate is said "
    "to be so. A budget is in tokens."
)


def make_server(root: Path, output: Path) -> MCPServer:
    server: MCPServer = MCPServer("repobook", version=__version__, instructions=_INSTRUCTIONS)

    @server.tool()
    def search(words: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """Symbols whose names, parts of names or documentation match words."""
        return answers.search(store.connect(database(output), readonly=True), words, budget)

    @server.tool()
    def definition(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """Where a name or qualified name is defined, with signature and documentation."""
        return answers.definition(store.connect(database(output), readonly=True), name, budget)

    @server.tool()
    def uses(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """Who uses a name, across languages; uncertain uses are marked."""
        return answers.uses(store.connect(database(output), readonly=True), name, False, budget)

    @server.tool()
    def callers(name: str, budget: int = answers.DEFAULT_BUDGET) -> str:
        """Who calls a function, also through method tables and pybind11."""
        return answers.uses(store.connect(database(output), readonly=True), name, True, budget)

    @server.tool()
    def impact(name: str = "", revision: str = "", budget: int = answers.DEFAULT_BUDGET) -> str:
        """What a change touches: of a symbol (name), or since a git revision (revision)."""
        db = store.connect(database(output), readonly=True)
        if revision:
            return answers.diff(db, root, revision, budget)
        return answers.touched(db, name, budget) if name else "give a name or a revision"

    @server.tool()
    def page(path: str, section: str = "", budget: int = answers.DEFAULT_BUDGET) -> str:
        """The page of a file, or one of its sections, such as 'Security'."""
        return answers.page(output, path, section, budget)

    return server


def serve(root: Path, output: Path) -> None:
    make_server(root, output).run("stdio")
