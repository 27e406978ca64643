"""`import torch` that means this package. In processes of their own, since a process has one torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ndgrad
from ndgrad._src.foundations import module_names
from ndgrad.as_torch import main

SOURCE = Path(ndgrad.__file__).parents[1]


def run(text: str, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], input=text, capture_output=True, text=True, env=environment, cwd=folder, timeout=120)


SCRIPT = """
import sys
import torch
import torch.nn as nn, torch.nn.functional as F, torch.utils.data
from torch import nn as other, Tensor
from torch.autograd import Function, gradcheck
from torch.optim.lr_scheduler import StepLR
import torch.autograd.forward_ad as fwAD
from neighbour import VALUE

print(torch.nn is nn is other, torch.nn.functional is F, VALUE, sys.argv[1:])
print(torch.__version__ >= "2.0", torch.__name__, callable(torch.autograd.gradcheck), __name__)
x = torch.ones(2, requires_grad=True)
(x * 3).sum().backward()
print(x.grad.tolist(), isinstance(x, Tensor), x.dtype == torch.float32)
loaded = [m for m in sys.modules if m.startswith("torch.")]
twice = [m for m in loaded if not sys.modules[m].__name__.startswith(("ndgrad", "torch."))]
print(twice, torch.nn.__name__, torch.nn.__spec__.name)
for name in ("export", "utils.tensorboard", "nonsense"):
    try:
        __import__(f"torch.{name}")
    except ModuleNotFoundError as error:
        print(error)
"""


def test_a_script_runs_by_the_command(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "neighbour.py").write_text("import torch\nVALUE = int(torch.tensor(7))\n")
    done = run("", "-m", "ndgrad.as_torch", "script.py", "--flag", "2", folder=tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "True True 7 ['--flag', '2']", "True torch True __main__", "[3.0, 3.0] True True", "[] ndgrad.nn ndgrad.nn",
    ]  # fmt: skip
    assert "tensorboardX" in lines[4]
    assert lines[5] == "No module named 'torch.nonsense' in ndgrad. docs/absent.md lists what is not here [nd-absent]"
    module = run("", "-m", "ndgrad.as_torch", "-m", "script", "--flag", "2", folder=tmp_path)
    assert module.stdout.splitlines()[0] == lines[0]


BLOCK = """
import sys, types
import ndgrad
with ndgrad.install_as_torch() as torch:
    import torch.nn
    assert sys.modules["torch"] is torch and torch.add is ndgrad.add
    torch.extra = 5
    assert ndgrad.extra == torch.extra == 5
    del torch.extra
    assert not hasattr(ndgrad, "extra")
    assert torch.tensor(1.0).dtype is torch.float32 and "tensor" in dir(torch)
    with ndgrad.install_as_torch():  # once is enough
        pass
    assert "torch" in sys.modules
    x = torch.ones(2, 3, dtype=torch.float64)
    assert str(x.dtype) == "torch.float64" and repr(x.shape) == "torch.Size([2, 3])" and x.type() == "torch.DoubleTensor"
    assert repr(torch.strided) == "torch.strided" and "dtype=torch.float64" in repr(x)
assert str(x.dtype) == "ndgrad.float64"
assert not [m for m in sys.modules if m == "torch" or m.startswith("torch.")]
ndgrad.uninstall_as_torch()
real = sys.modules["torch"] = types.ModuleType("torch")
real.__version__, real.__file__ = "2.13.0", "somewhere/torch/__init__.py"
try:
    ndgrad.install_as_torch()
except RuntimeError as error:
    print(error)
assert sys.modules["torch"] is real
"""


def test_a_block_ends_and_the_real_torch_is_left_alone():
    done = run(BLOCK, "-")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("install_as_torch: torch 2.13.0 has been imported in this process, from somewhere/torch/__init__.py.")
    assert "python -m ndgrad.as_torch" in done.stdout


def test_an_error_in_the_script_is_the_scripts(tmp_path):
    (tmp_path / "script.py").write_text("import torch\n\n\ndef f():\n    raise ValueError(torch.ones(1).item())\n\n\nf()\n")
    done = run("", "-m", "ndgrad.as_torch", "script.py", folder=tmp_path)
    assert done.returncode == 1
    assert "ValueError: 1.0" in done.stderr
    assert 'script.py", line 5, in f' in done.stderr


def test_submodules_of_renamed_modules_are_found():
    names = {
        "distributed.tensor": "distributed.tensor",
        "distributed._tensor.experimental": "distributed.tensor.experimental",
        "utils.data._utils.collate": "utils.data.collate",
        "_tensor.nn": "_tensor.nn",  # the names of the package itself are no submodules of `torch._tensor`
        "nn.nothing": "nn.nothing",
    }
    assert {name: module_names.resolve(name) for name in names} == names


def test_the_command_without_a_script(capsys):
    assert main([]) == 2
    assert main(["-m"]) == 2
    assert main(["--help"]) == 0
    assert "usage" in capsys.readouterr().out


def test_a_script_that_is_not_there(tmp_path):
    done = run("", "-m", "ndgrad.as_torch", "nowhere.py", folder=tmp_path)
    assert done.returncode == 2
    assert "no file 'nowhere.py'" in done.stderr


WARNINGS = """
import warnings
import numpy as np
import torch


def count(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in found]


zeros = torch.zeros(2)
for call in (
    lambda: zeros.log(), lambda: 1 / zeros, lambda: torch.tensor([1e38]) * 10, lambda: torch.tensor([]).mean(),
    lambda: torch.tensor([float("nan")]).long(), lambda: torch.tensor([1e10]).half(),
    lambda: torch.compile(lambda x: (x.log() * 2).sum())(zeros),
):
    assert count(call) == [], count(call)
assert count(lambda: np.log(np.zeros(1))) == ["divide by zero encountered in log"]
assert count(lambda: zeros.numpy() / 0) == ["invalid value encountered in divide"]
warnings.simplefilter("error")
assert zeros.log().tolist() == [-float("inf")] * 2
with np.errstate(divide="raise"):  # settings of the program count
    try:
        zeros.log()
    except FloatingPointError:
        print("raised")
"""


def test_tensors_are_silent_about_infinities_and_numpy_is_not(tmp_path):
    (tmp_path / "script.py").write_text(WARNINGS)
    done = run("", "-m", "ndgrad.as_torch", "script.py", folder=tmp_path)
    assert (done.stdout, done.stderr) == ("raised\n", "")


def test_numpys_settings_return_when_the_block_ends():
    done = run("import ndgrad, numpy as np\nbefore = np.geterr()\nwith ndgrad.install_as_torch():\n    import torch\n"
               "assert np.geterr() == before and np.geterrcall() is None, np.geterr()\n", "-")  # fmt: skip
    assert done.returncode == 0, done.stderr


NUMPY_ON_CONSTANTS = """
import numpy as np
import torch

x = torch.arange(3.0)
kinds = {
    "stack": np.stack([x, x]), "norm": np.linalg.norm(x), "interp": np.interp(1.5, x, x), "std": np.std(x),
    "where": np.where(x > 0, x, x), "sin": np.sin(x), "divmod": np.divmod(x, 2)[1], "squeeze": np.squeeze(x[None]),
    "reduce": np.add.reduce(x), "left": np.ones(3) + x,
}
print({name: type(value).__name__ for name, value in kinds.items()})
assert np.allclose(kinds["sin"], np.sin([0.0, 1, 2])) and kinds["std"] == np.std(np.arange(3, dtype="f"))
assert (np.ndim(x), np.size(x), np.shape(x)) == (1, 3, (3,))
# A tensor that requires a gradient, a transform and a dual keep their derivatives.
y = torch.arange(3.0, requires_grad=True)
np.sum(np.sin(y)).backward()
assert np.allclose(y.grad, np.cos(y.detach()))
assert np.allclose(torch.func.grad(lambda t: np.sum(np.sin(t)))(x), np.cos(x))
import torch.autograd.forward_ad as fwAD
with fwAD.dual_level():
    assert np.allclose(fwAD.unpack_dual(np.sin(fwAD.make_dual(x, torch.ones(3)))).tangent, np.cos(x))
f = torch.compile(lambda t: torch.as_tensor(np.sin(t)) + 1)
assert np.allclose(f(x), np.sin(x.numpy()) + 1) and type(f(x)) is torch.Tensor
"""


def test_numpys_functions_compute_on_the_values_of_constants(tmp_path):
    (tmp_path / "script.py").write_text(NUMPY_ON_CONSTANTS)
    done = run("", "-m", "ndgrad.as_torch", "script.py", folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout == (
        "{'stack': 'ndarray', 'norm': 'float32', 'interp': 'float64', 'std': 'float32', 'where': 'ndarray', 'sin': 'Tensor', "
        "'divmod': 'Tensor', 'squeeze': 'Tensor', 'reduce': 'Tensor', 'left': 'Tensor'}\n"
    )


COMPILED_LIBRARY = """
import torch
try:
    torch.library.register_fake("vision::nms")(len)
except RuntimeError as error:
    print(str(error)[:32])
try:
    torch.ops.load_library("vision.so")
except OSError as error:
    print("refused")
# Rules for ops that the refused library would define do not stop the import of its Python part.
@torch.library.register_fake("vision::nms")
def fake(boxes):
    return boxes
print(fake(3), hasattr(torch.ops.vision, "nms"))
import torch.onnx.symbolic_opset11, torch.utils.model_zoo, torch._custom_ops
from torch.onnx.symbolic_helper import parse_args
from torch.jit.annotations import BroadcastingList2, List
torch.onnx.register_custom_op_symbolic("vision::nms", parse_args("v")(lambda g, x: x), 11)
from torch.hub import _get_torch_home, tqdm, get_dir
print(get_dir().startswith(_get_torch_home()), [i for i in tqdm([1, 2], disable=True)], torch.utils.model_zoo.tqdm is tqdm)
keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
with torch.autocast("cpu"), torch._C._ExcludeDispatchKeyGuard(keys):
    print((torch.ones(1, 1) @ torch.ones(1, 1)).dtype)
try:
    torch._C._ExcludeDispatchKeyGuard(keys | torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU))
except NotImplementedError as error:
    print("AutogradCPU" in str(error))
"""


def test_the_python_part_of_a_library_with_compiled_ops_can_be_imported(tmp_path):
    (tmp_path / "script.py").write_text(COMPILED_LIBRARY)
    done = run("", "-m", "ndgrad.as_torch", "script.py", folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "operator vision::nms does not ex", "refused", "3 False", "True [1, 2] True", "torch.float32", "True",
    ]  # fmt: skip
