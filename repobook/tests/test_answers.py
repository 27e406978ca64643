"""Answers for assistants: within the budget, and honest about what is not certain."""

import asyncio
import os
import sys
from collections.abc import Callable

import pytest
from conftest import Files, Repository

from repobook import answers

Make = Callable[[Files], Repository]

TREE: Files = {
    "a.py": '"""A."""\ndef base():\n    """The base of it."""\n\ndef middle():\n    return base()\n',
    "b.py": "from a import middle\nclass X:\n    def twice(self): ...\nclass Y:\n    def twice(self): ...\ndef top(z):\n    z.twice()\n    return middle()\n",
    "tests/test_b.py": "from b import top\ndef test_top():\n    top(1)\n",
}


def test_a_budget_is_kept_and_what_is_left_off_is_counted() -> None:
    text = answers.fit([f"line {n} of many" for n in range(1000)], 100)
    assert len(text) <= 100 * 3 + 80
    assert "more lines left off" in text


def test_answers(make_repository: Make) -> None:
    repository = make_repository(TREE)
    repository.build()
    db = repository.db
    assert "a.py:2: function base" in answers.definition(db, "base")
    assert "The base of it." in answers.definition(db, "base")
    assert answers.uses(db, "base") == "a.py:6: middle calls base"
    assert "uncertain" in answers.uses(db, "X.twice")
    assert "no definition" in answers.definition(db, "nothing_here")
    assert "test tests/test_b.py:3: test_top (3 steps)" in answers.touched(db, "base")
    assert answers.search(db, "mid").startswith("a.py:5: function middle")
    assert "## Testing" in answers.page(repository.output, "a.py", "testing")
    assert "no page" in answers.page(repository.output, "../../etc/passwd")


def test_the_mcp_server_answers_over_stdio(make_repository: Make) -> None:
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import stdio_client

    repository = make_repository(TREE)
    repository.build()
    arguments = ["-m", "repobook", "mcp", "--path", str(repository.root)]

    async def talk() -> tuple[set[str], str]:
        parameters = mcp.StdioServerParameters(
            command=sys.executable,
            args=arguments,
            env=dict(os.environ, GIT_CEILING_DIRECTORIES=str(repository.root.parent)),
        )
        async with stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            tools = {tool.name for tool in (await session.list_tools()).tools}
            answer = await session.call_tool("callers", {"name": "base"})
            impact = await session.call_tool("impact", {"revision": "HEAD", "budget": -1})
            assert "cannot compare" in impact.content[0].text
            empty = await session.call_tool("definition", {"name": ""})
            assert empty.content[0].text == "no definition of '' in this tree"
            (repository.output / ".repobook/model.sqlite").write_bytes(b"x" * 4096)
            damaged = await session.call_tool("definition", {"name": "base"})
            assert "`repobook build` makes it anew" in damaged.content[0].text
            return tools, answer.content[0].text

    tools, text = asyncio.run(asyncio.wait_for(talk(), 60))
    assert tools == {"search", "definition", "uses", "callers", "impact", "page"}
    assert text == "a.py:6: middle calls base"
