"""Hostile and broken input: escaped, reported in one line each, and the build goes on."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Files, Repository
from test_site import build_site

from repobook import answers, ask, check, cli
from repobook.config import Config, ConfigError
from repobook.discover import discover
from repobook.naming import page_name
from repobook.pages.markdown import code, escape, fenced, prose
from repobook.reading import worker
from repobook.site import links

Make = Callable[[Files], Repository]


def test_files_that_are_not_utf8(make_repository: Make) -> None:
    repository = make_repository({"a.py": b"# caf\xe9\ndef good(): ...\n", "ok.py": "x = 1\n"})
    outcome = repository.build()
    assert [line for line in outcome.problems if line.startswith("a.py: not UTF-8")]
    assert "`good`" in repository.page("a.py_docs.md")


def test_binary_empty_and_large_files(make_repository: Make) -> None:
    big = '"""What it is for."""\n\n' + "x = 1\n" * 2000
    repository = make_repository({"b.bin": b"\0\1\2", "empty.py": b"", "big.py": big, "ok.py": "y = 2\n"})
    repository.config.max_file_size = 5000
    outcome = repository.build()
    assert any("big.py" in line and "larger" in line for line in outcome.problems)
    index = repository.page("index.md")
    assert "b.bin" in index and "(binary" in index and "(empty" in index
    page = repository.page("big.py_docs.md")
    assert "larger than the 5,000 bytes up to which this book parses; read by its text alone" in page
    assert "2,002 (1 blank)" in page and "What it is for." in page and "Not looked for" in page
    assert "1 symbol." in index
    assert not (repository.output / "b.bin_docs.md").exists()
    assert list(check.dead_links(repository.output)) == []


def test_a_file_too_large_to_parse_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes((b"a line of text\n\n" * 1000 + b"x") * 100)
    with open(path, "rb") as file:
        tracemalloc.start()
        found = worker.by_text(file.read(5000), file)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found == (worker.content_digest(path.read_bytes()), 200_001, 100_001)
    assert peak < 500_000


def test_symlinks_are_not_followed(make_repository: Make) -> None:
    repository = make_repository({"d/a.py": "x = 1\n"})
    os.symlink("..", repository.root / "d/loop")
    os.symlink("/etc/passwd", repository.root / "d/outside.txt")
    os.symlink("nowhere", repository.root / "dangling")
    assert repository.build().files == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser reads everything")
def test_unreadable_folder(make_repository: Make) -> None:
    repository = make_repository({"d/a.py": "x = 1\n", "b.py": "y = 1\n"})
    (repository.root / "d").chmod(0)
    try:
        outcome = repository.build()
    finally:
        (repository.root / "d").chmod(0o755)
    assert outcome.files == 1
    assert any(line.startswith("d/: folder not read") for line in outcome.problems)


def test_names_with_spaces_unicode_and_markup(make_repository: Make) -> None:
    names = ["a b.py", "ü/ñ.py", "[x](y).py", "<script>.py", "`tick`.py", "a|b.md", "#hash.py", "100%.py", "a'b\"c.py"]
    repository = make_repository(dict.fromkeys(names, "def f(): ...\n"))
    repository.build()
    assert list(check.dead_links(repository.output)) == []
    index = check.strip_code(repository.page("index.md"))
    assert "<script>" not in index


def test_contents_cannot_break_out_of_their_place(make_repository: Make) -> None:
    evil = "</details><script>alert(1)</script> [x](javascript:alert(1)) ````` ![i](http://evil/x.png) | <img src=x onerror=1> "
    repository = make_repository(
        {
            "a.py": f"'''{evil}'''\n# TODO: {evil}\n# Note [ {evil.replace('[', '').replace(']', '')} ]\n# body\ndef f(x='''{evil}'''):\n    '''{evil}'''\n",
            "b.cpp": f'#include "{evil.replace(chr(34), "")}"\n#include "../../../../etc/passwd"\n// {evil}\nint g();\n',
            "c.md": f"# {evil}\n\n{evil}\n",
            "d.unknown": evil + "\n```\n# x\n",
        }
    )
    repository.build()
    for name, data in repository.pages().items():
        text = check.strip_code(data.decode())
        assert "<script" not in text, name
        assert "<img" not in text, name
        assert "](javascript" not in text.replace("\\]", ""), name
        assert "](http" not in text.replace("\\]", ""), name
    assert list(check.dead_links(repository.output)) == []


@pytest.mark.parametrize(
    "text", ["`", "a`b``c", "|", "", " ", "a\nb", "\x00\x1b[31m", "<b>", "*x*", "[a](b)", "\u202e"]
)
def test_escaping_leaves_one_line_without_markup(text: str) -> None:
    for shown in (escape(text), code(text), prose(text), prose(f"a `{text}` b")):
        assert "\n" not in shown and "\x00" not in shown and "\x1b" not in shown and "\u202e" not in shown
    assert "<" not in escape(text)


def test_what_an_author_put_between_backticks_is_code() -> None:
    assert prose("Sets the `requires_grad` of <T>") == "Sets the `requires_grad` of &lt;T&gt;"
    assert prose("an odd ` one_x") == "an odd \\` one\\_x"


def test_a_fence_is_longer_than_any_in_its_text() -> None:
    block = fenced("a\n`````\nb", "text")
    assert block.startswith("``````text\n") and block.endswith("\n``````\n")


def test_deep_nesting_does_not_stop_the_build(make_repository: Make) -> None:
    repository = make_repository(
        {
            "deep.py": "x = " + "(" * 3000 + ")" * 3000 + "\n",
            "deep.json": "[" * 5000 + "]" * 5000,
            "deep.cpp": "int f() {" + "{" * 3000 + "}" * 3000 + "}\n",
            "ok.py": "def fine(): ...\n",
        }
    )
    repository.build()
    assert "`fine`" in repository.page("ok.py_docs.md")


def test_a_repository_without_git_and_an_empty_one(make_repository: Make) -> None:
    repository = make_repository({})
    repository.build()
    assert "0 files" in repository.page("index.md")


def test_many_empty_files_are_quick(tmp_path: Path) -> None:
    root = tmp_path / "many"
    for folder in range(20):
        (root / f"d{folder}").mkdir(parents=True)
        for number in range(100):
            (root / f"d{folder}/f{number}.txt").touch()
    repository = Repository(root, root / "book")
    outcome = repository.build()
    assert outcome.files == 2000
    assert "and 0 more" not in repository.page("d0/index.md")


def test_gitignore_is_honoured(make_repository: Make) -> None:
    repository = make_repository(
        {
            ".gitignore": "*.log\n/build/\n!keep.log\ndeep/**/x.py\n# comment\n\\#odd\n",
            "a.log": "x", "keep.log": "x", "build/b.py": "x", "src/build/c.py": "x", "deep/a/b/x.py": "x", "deep/y.py": "x", "#odd": "x",
            "src/.gitignore": "c2.py\n", "src/c2.py": "x", "c2.py": "x",
        }
    )  # fmt: skip
    found = {entry.path for entry in discover(repository.root, Config(), None).entries}
    assert found == {".gitignore", "keep.log", "src/build/c.py", "deep/y.py", "src/.gitignore", "c2.py"}


def test_include_and_exclude(make_repository: Make) -> None:
    repository = make_repository({"a/x.py": "1", "a/y.txt": "1", "b/x.py": "1"})
    found = {
        entry.path for entry in discover(repository.root, Config(include=("a/",), exclude=("*.txt",)), None).entries
    }
    assert found == {"a/x.py"}


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        Config.from_table({"colour": 1}, "repobook.toml")
    with pytest.raises(ConfigError, match="must be a tuple"):
        Config.from_table({"exclude": "x"}, "repobook.toml")


def test_a_damaged_database_is_made_anew(make_repository: Make) -> None:
    repository = make_repository({"a.py": "def f(): ...\n"})
    repository.build()
    (repository.output / ".repobook/model.sqlite").write_bytes(b"not a database" * 1000)
    repository.build()
    assert "`f`" in repository.page("a.py_docs.md")


def test_more_symbols_than_an_id_can_tell_apart(make_repository: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST", 50)
    many = "".join(f"name_{n} = {n}\n" for n in range(60))
    repository = make_repository({"many.py": many, "next.py": "name_55 = 1\ndef after(): ...\n"})
    outcome = repository.build()
    assert outcome.problems == ["many.py: more than 50 symbols or lines: read by its text, not parsed"]
    assert "more symbols or lines than this book can number" in repository.page("many.py_docs.md")
    assert [found.path for found in ask.find(repository.db, "name_55")] == ["next.py"]


def test_the_git_file_of_a_work_tree_is_no_file_of_the_tree(make_repository: Make) -> None:
    repository = make_repository({".git": "gitdir: elsewhere\n", "a.py": "x = 1\n"})
    assert [entry.path for entry in discover(repository.root, Config(), None).entries] == ["a.py"]


def test_names_as_long_as_a_file_system_allows(make_repository: Make) -> None:
    names = ["a" * 240 + ".py", "b" * 252 + ".py", "ü" * 120 + ".py", "pkg/" + "c" * 248 + ".py", "c" * 248 + ".py"]
    repository = make_repository({name: f"def f{at}(): ...\n" for at, name in enumerate(names)})
    build_site(repository)
    assert list(check.dead_links(repository.output)) == []
    assert list(check.find_stale(repository.db, repository.root, repository.output, repository.config)) == []
    assert list(links.dead_links(repository.output / "html")) == []
    for at, name in enumerate(names):
        page = (repository.output / page_name(name)).read_text()
        assert f"`f{at}`" in page and name in page
    assert len({page_name(name) for name in names}) == len(names)
    assert page_name(names[0]) == names[0] + "_docs.md", "a name that leaves room stays as it is"
    assert cli.main(["page", names[1], "--path", str(repository.root)]) == 0


BAD_COMMANDS = [
    ["find", ""],
    ["uses", " "],
    ["search", ""],
    ["find", "f", "--limit", "-1"],
    ["search", "f", "--limit", "0"],
    ["build", "-j", "-2"],
    ["build", "-j", "two"],
    ["serve", "--port", "-1"],
    ["diff", ""],
    ["unknown"],
    [],
]


@pytest.mark.parametrize("command", BAD_COMMANDS, ids=" ".join)
def test_a_bad_command_is_one_line_and_exit_code_2(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(command)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.startswith("repobook")


def test_a_bad_place_is_one_line_and_nothing_is_lost(
    make_repository: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    repository = make_repository({"a.py": "x = 1\n", "docs/index.md": "# mine\n"})
    root = repository.root
    (tmp_path / "file").write_text("precious")
    for output in (tmp_path / "file", tmp_path / "file" / "below", root, tmp_path, root / "docs"):
        assert cli.main(["build", str(root), "-q", "-j", "1", "-o", str(output)]) == 2, output
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and said.err.startswith("repobook: "), said.err
    assert (tmp_path / "file").read_text() == "precious"
    assert (root / "docs/index.md").read_text() == "# mine\n"
    assert sorted(path.name for path in root.iterdir()) == ["a.py", "docs"]


def test_a_comparison_without_git_is_one_line(
    make_repository: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository({"a.py": "x = 1\n"})
    repository.build()
    command = ["diff", "HEAD", "--path", str(repository.root)]
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repository.root.parent))
    assert cli.main(command) == 2
    assert "ot a git repository" in capsys.readouterr().err
    assert "ot a git repository" in answers.diff(repository.db, repository.root, "HEAD")
    monkeypatch.setenv("PATH", str(repository.root))
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "git cannot be run" in said and said.count("\n") == 1


def test_a_question_to_a_damaged_or_missing_book_is_one_line(
    make_repository: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = make_repository({"a.py": "x = 1\n"})
    command = ["find", "x", "--path", str(repository.root)]
    assert cli.main(command) == 2
    repository.build()
    (repository.output / ".repobook/model.sqlite").write_bytes(b"not a database" * 1000)
    assert cli.main(command) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "no book at" in said[0] and "`repobook build` makes it anew" in said[1]


def test_a_reader_that_fails_on_a_file_does_not_end_the_build(
    make_repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = worker.read_file

    def fail(source: bytes, path: str, *others: object) -> object:
        if path == "bad.py":
            raise KeyError("unexpected node")
        return original(source, path, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(worker, "read_file", fail)
    repository = make_repository({"bad.py": "def f(): ...\n", "good.py": "def g(): ...\n"})
    assert repository.build().problems == ["bad.py: described, not parsed: KeyError: 'unexpected node'"]
    assert "its reader failed" in repository.page("bad.py_docs.md")
    assert "`g`" in repository.page("good.py_docs.md")


def test_negative_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'history' in .* must be 0 or more, not -1"):
        Config.from_table({"history": -1}, "repobook.toml")
