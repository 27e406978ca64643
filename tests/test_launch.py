"""`ndgrad.launch` without MPI: processes on systems that lack os.fork, os.killpg, SIGKILL or prctl."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ndgrad import launch

ROOT = Path(__file__).parents[1]
STARTER = """#!{python}
import subprocess, sys, os
count = int(sys.argv[2])
ranks = [subprocess.Popen(sys.argv[3:], env=os.environ | {{"PMI_RANK": str(i), "PMI_SIZE": str(count)}}) for i in range(count)]
sys.exit(max(r.wait() for r in ranks))
"""
# As on Windows: none of these attributes is there.
WITHOUT = "import os, signal\nfor module, name in ((os, 'fork'), (os, 'killpg'), (signal, 'SIGKILL')):\n    delattr(module, name)\n"


@pytest.fixture
def starter(tmp_path, monkeypatch):
    """A stand-in for mpiexec, which starts processes and tells them their ranks."""
    path = tmp_path / "mpiexec"
    path.write_text(STARTER.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setattr(launch, "find_mpiexec", lambda: str(path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "src")]))
    for name in (*launch._RANKS, *launch._SIZES, "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    return path


def run_job(tmp_path, program, count=2):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    with open(tmp_path / "out", "w+") as out:
        job = launch.Job(count, [str(path)], stdout=out, stderr=subprocess.STDOUT)
        try:
            status = job.wait()
        finally:
            job.close()
        out.seek(0)
        return status, sorted(out.read().splitlines())


NAMES = "import os\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['LOCAL_RANK'])\n"


def test_ranks_know_their_place(starter, tmp_path):
    assert run_job(tmp_path, NAMES) == (0, ["[0] 0 2 0", "[1] 1 2 1"])


def test_ranks_know_their_place_without_fork(starter, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    assert run_job(tmp_path, NAMES) == (0, ["[0] 0 2 0", "[1] 1 2 1"])


def test_a_job_ends_without_process_groups(starter, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "killpg")
    monkeypatch.setattr(launch, "_KILL", signal.SIGTERM)
    path = tmp_path / "program.py"
    path.write_text("import time\ntime.sleep(60)\n")
    job = launch.Job(2, [str(path)])
    while len(job.pids()) < 2:
        time.sleep(0.02)
    pids = job.pids().values()
    job.close()
    wait_for_the_end_of(pids)


def test_a_rank_that_has_ended_gets_no_signal(starter, tmp_path, monkeypatch):
    """Another process may have its id."""
    path = tmp_path / "program.py"
    path.write_text("")
    job = launch.Job(2, [str(path)])
    job.wait()
    sent = []
    monkeypatch.setattr(launch, "_send", lambda pid, number: sent.append(pid))
    job.close()
    assert sent == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="guards are forked")
def test_ranks_end_when_the_launcher_is_killed_without_prctl(starter, tmp_path):
    """As on macOS."""
    (tmp_path / "sitecustomize.py").write_text(
        "import ctypes\nclass CDLL:\n    def __init__(self, *a): raise OSError\nctypes.CDLL = CDLL\n"
    )
    (tmp_path / "program.py").write_text("import time\ntime.sleep(60)\n")
    code = f"""
        import time
        from ndgrad import launch
        launch.find_mpiexec = lambda: {str(starter)!r}
        job = launch.Job(2, [{str(tmp_path / "program.py")!r}])
        while len(job.pids()) < 2:
            time.sleep(0.02)
        print(*job.pids().values(), flush=True)
        job.wait()
    """
    launcher = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in launcher.stdout.readline().split()]
    assert len(pids) == 2
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    wait_for_the_end_of(pids)


def wait_for_the_end_of(pids):
    end = time.monotonic() + 30
    while any(map(launch._is_running, pids)):
        assert time.monotonic() < end, "a rank was left behind"
        time.sleep(0.05)
