"""The package `torch` that `python -m ndgrad.as_torch --install` writes, in a folder of its own, and torch's modules in `sys.modules`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ndgrad
from ndgrad._src.command_line import torch_package
from ndgrad.as_torch import VERSION, main

SOURCE = Path(ndgrad.__file__).parents[1]

PROGRAM = """
import importlib.metadata, importlib.util, multiprocessing, sys, typing

def child(queue):
    import torch
    queue.put((torch.__version__, float(torch.ones(2).sum())))

if __name__ == "__main__":
    assert importlib.util.find_spec("torch") is not None
    import torch, torch.nn.functional as F, functorch
    version = importlib.metadata.version("torch")
    assert version == torch.__version__ and "ndgrad" in version, version
    assert torch.torch is torch and torch.nn.functional is F and functorch.vmap is torch.functorch.vmap
    assert sys.modules["torch.nn.init"].normal_ is torch.nn.init.normal_
    assert sys.modules["torch.nn.init"] is torch.nn.init
    sys.modules["torch.nn.utils.rnn"].marker = 5
    assert torch.nn.utils.rnn.marker == 5
    assert importlib.import_module("torch.optim.rmsprop") is torch.optim.rmsprop and torch.optim.rmsprop.RMSprop is torch.optim.RMSprop
    assert "weight" in typing.get_type_hints(torch.nn.Linear) and typing.get_type_hints(torch.Tensor) is not None
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == (version, 2.0)
    process.join()
    print("agree")
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH comes before installed packages, so a real torch in this environment is not seen.
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, timeout=120, check=False)


@pytest.fixture
def no_other_torch(monkeypatch):
    """Look only at the folder under test, since the environment of the tests may have the real torch."""
    monkeypatch.setattr(sys, "path", [])


def test_imports_metadata_and_processes_agree(tmp_path, no_other_torch):
    torch_package.install(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run(tmp_path, str(tmp_path / "program.py"))
    assert done.stdout == "agree\n", done.stderr


def test_install_is_repeatable_and_uninstall_leaves_nothing(tmp_path, no_other_torch):
    (tmp_path / "torch-2.0.0+ndgrad.0.0.1.dist-info").mkdir()  # An older version is replaced.
    (tmp_path / "torch-2.0.0+ndgrad.0.0.1.dist-info" / "INSTALLER").write_text("ndgrad.as_torch\n")
    assert str(VERSION) in torch_package.install(tmp_path)
    torch_package.install(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["functorch", "torch", f"torch-{VERSION}.dist-info"]
    record = (tmp_path / f"torch-{VERSION}.dist-info" / "RECORD").read_text()
    assert all((tmp_path / line.split(",")[0]).is_file() for line in record.splitlines())
    torch_package.uninstall(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="torch is not installed"):
        torch_package.uninstall(tmp_path)


def test_a_real_torch_is_left_alone(tmp_path, no_other_torch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '2.13.0'\n")
    with pytest.raises(RuntimeError, match="a package `torch`"):
        torch_package.install(tmp_path)
    info = tmp_path / "torch-2.13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n")
    (info / "INSTALLER").write_text("pip\n")
    with pytest.raises(RuntimeError, match="torch 2.13.0 is installed"):
        torch_package.install(tmp_path)
    with pytest.raises(RuntimeError, match="did not write"):
        torch_package.uninstall(tmp_path)
    assert (tmp_path / "torch" / "__init__.py").read_text() == "__version__ = '2.13.0'\n"


def test_the_command_takes_no_more_arguments(capsys):
    assert main(["--install", "here"]) == 2
    assert "takes no arguments" in capsys.readouterr().err


def test_versions_without_installing():
    program = (
        "import ndgrad, importlib.metadata as m\nndgrad.install_as_torch()\nimport torch\n"
        "assert m.version('torch') == torch.__version__\nndgrad.uninstall_as_torch()\n"
    )
    assert run(Path(), "-c", program).stderr == ""
