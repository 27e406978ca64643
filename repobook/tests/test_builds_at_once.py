"""Several builds of one book, readers beside them, and builds that are stopped or killed: the book stays whole."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Files, Repository

from repobook import check
from repobook.build import database
from repobook.lock import BookLocked, lock_book

Make = Callable[[Files], Repository]


def ring(count: int) -> Files:
    """Files that import each other in a circle."""
    return {
        f"m/f{n}.py": f'"""Part {n}."""\nfrom m.f{(n + 1) % count} import g{(n + 1) % count}\n\n\n'
        f"def g{n}():\n    return g{(n + 1) % count}()\n"
        for n in range(count)
    }


SOME = ring(60)  # enough for worker processes while reading and writing
MANY = ring(210)  # enough for worker processes while resolving


def command(repository: Repository, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "repobook", *arguments, "-o", str(repository.output)]


def start_build(repository: Repository, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command(repository, "build", str(repository.root), "-j", "2", *options),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def assert_whole(repository: Repository) -> None:
    assert list(check.find_stale(repository.db, repository.root, repository.output, repository.config)) == []
    assert list(check.dead_links(repository.output)) == []
    assert repository.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def wait_for(process: "subprocess.Popen[str]", stage: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.strip() == f"repobook: {stage}":
            return
    raise AssertionError(f"no stage {stage}")


def test_four_builds_at_once_leave_one_whole_book(make_repository: Make) -> None:
    repository = make_repository(SOME)
    builds = [start_build(repository) for _ in range(4)]
    said = [build.communicate(timeout=240) for build in builds]
    assert [build.returncode for build in builds] == [0] * 4, said
    assert not any("Traceback" in errors for _, errors in said)
    assert sum("60 read" in out for out, _ in said) == 1, "one build reads, the others find nothing to do"
    assert any("waiting for its end" in errors for _, errors in said)
    assert_whole(repository)


def test_readers_see_a_whole_model_while_it_is_built_anew(make_repository: Make) -> None:
    repository = make_repository(SOME)
    repository.build()
    for name in SOME:
        path = repository.root / name
        path.write_text(path.read_text() + "\n\ndef more():\n    return 1\n")
    build = start_build(repository)
    answers = set()
    while build.poll() is None:
        asked = subprocess.run(
            command(repository, "find", "g7", "--path", str(repository.root)), capture_output=True, text=True
        )
        answers.add((asked.returncode, asked.stdout, asked.stderr))
    build.communicate()
    assert build.returncode == 0
    assert answers <= {(0, "m/f7.py:5: function g7\n", "")}
    assert_whole(repository)


def test_a_build_can_refuse_to_wait(make_repository: Make) -> None:
    repository = make_repository({"a.py": "x = 1\n"})
    with lock_book(repository.output):
        with pytest.raises(BookLocked), lock_book(repository.output, wait=False):
            pass
        refused = start_build(repository, "--no-wait")
        out, errors = refused.communicate(timeout=60)
    assert refused.returncode == 2 and out == ""
    assert errors.count("\n") == 1 and f"process {os.getpid()} is writing the book" in errors
    repository.build()
    assert_whole(repository)


@pytest.mark.parametrize("stage", ["reading", "resolving", "writing"])
def test_an_interrupt_is_one_line_and_loses_nothing(make_repository: Make, stage: str) -> None:
    repository = make_repository(MANY)
    process = start_build(repository)
    wait_for(process, stage)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 0), "0: it had ended before the signal came"
    assert "Traceback" not in errors
    if process.returncode:
        assert errors.strip().splitlines()[-1].startswith("repobook: interrupted; the book on disk is whole")
    repository.build()
    assert_whole(repository)


def test_a_killed_build_frees_the_book_and_its_workers_end(make_repository: Make) -> None:
    repository = make_repository(SOME)
    process = start_build(repository)
    wait_for(process, "reading")
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            with lock_book(repository.output, wait=False):
                break
        except BookLocked:
            time.sleep(0.2)
    else:
        raise AssertionError("the workers of a killed build still hold its lock")
    repository.build()
    assert not list(repository.output.rglob("*.new*"))
    assert_whole(repository)


def test_a_model_that_is_damaged_is_built_anew(make_repository: Make) -> None:
    repository = make_repository(SOME)
    repository.build()
    path = database(repository.output)
    data = bytearray(path.read_bytes())
    for at in range(8192, len(data) - 4096, 8192):
        data[at : at + 2048] = b"\xff" * 2048
    path.write_bytes(data)
    (repository.root / "m/f3.py").write_text("def g3():\n    return 4\n")
    build = start_build(repository)
    _, errors = build.communicate(timeout=120)
    assert build.returncode == 0, errors
    assert "Traceback" not in errors
    assert_whole(repository)


def test_a_moved_book_is_written_anew(make_repository: Make, tmp_path: Path) -> None:
    repository = make_repository(SOME)
    repository.build()
    target = tmp_path / "some" / "where" / "else"
    target.parent.mkdir(parents=True)
    repository.output.rename(target)
    moved = Repository(repository.root, target)
    outcome = moved.build()
    assert outcome.read == 0 and outcome.written > len(SOME)
    assert_whole(moved)


def test_pages_that_were_removed_come_back(make_repository: Make) -> None:
    repository = make_repository({"pkg/a.py": "x = 1\n", "b.py": "y = 1\n"})
    repository.build()
    (repository.output / "pkg/a.py_docs.md").unlink()
    assert repository.build().written == 1
    assert_whole(repository)
