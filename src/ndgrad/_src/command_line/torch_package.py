"""`python -m ndgrad.as_torch --install`: a package `torch` in the current environment that imports ndgrad.

The package is two small files, `torch/__init__.py` and `functorch/__init__.py`, and the metadata of a distribution
`torch`. So `import torch`, `importlib.metadata.version("torch")`, pip, entry points and new processes agree. The record
of files follows the standard of installed projects, so `pip uninstall torch` removes the package, too.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.machinery
import importlib.metadata
import shutil
import sys
import sysconfig
from pathlib import Path

from ndgrad import as_torch

_INSTALLER = "ndgrad.as_torch"

_CODE = '''"""`import {name}` imports ndgrad. Written, and removed, by `python -m ndgrad.as_torch`."""

try:
    from ndgrad import as_torch
except ModuleNotFoundError as error:
    if error.name != "ndgrad":
        raise
    raise ModuleNotFoundError(
        "The package `{name}` of this environment imports ndgrad, which is not installed. Install ndgrad, or run "
        "`pip uninstall torch`.", name="ndgrad",
    ) from None
as_torch.run_{name}_package()
'''

_METADATA = """Metadata-Version: 2.1
Name: torch
Version: {version}
Summary: ndgrad under the name of torch
Requires-Dist: numpy
"""


def main(command: str, rest: list[str]) -> int:
    """Install or uninstall the package, and print the result."""
    if rest:
        print(f"python -m ndgrad.as_torch --{command} takes no arguments, but got {' '.join(rest)}", file=sys.stderr)
        return 2
    try:
        print(install() if command == "install" else uninstall())
    except RuntimeError as error:
        print(f"python -m ndgrad.as_torch --{command}: {error}", file=sys.stderr)
        return 1
    return 0


def install(folder: Path | None = None) -> str:
    """Write the package into the folder of installed packages, and return a message. A real torch is left alone."""
    folder = folder or Path(sysconfig.get_path("purelib"))
    if other := find_other_torch(folder):
        raise RuntimeError(f"{other} is installed here. Uninstall it, or use another environment. [nd-call-order]")
    _remove(folder)
    info = f"torch-{as_torch.VERSION}.dist-info"
    files = {
        "torch/__init__.py": _CODE.format(name="torch"),
        "functorch/__init__.py": _CODE.format(name="functorch"),
        f"{info}/METADATA": _METADATA.format(version=as_torch.VERSION),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: ndgrad\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/INSTALLER": f"{_INSTALLER}\n",
        f"{info}/top_level.txt": "functorch\ntorch\n",
    }
    record = "".join(f"{name},{_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return f"torch {as_torch.VERSION}, which is ndgrad, is installed in {folder}"


def uninstall(folder: Path | None = None) -> str:
    """Remove the package that `install` wrote, and return a message."""
    folder = folder or Path(sysconfig.get_path("purelib"))
    if not _remove(folder):
        other = find_other_torch(folder)
        reason = f"{other} is installed, which this command did not write" if other else "torch is not installed"
        raise RuntimeError(f"{reason} in {folder}. There is nothing to remove. [nd-call-order]")
    return f"torch {as_torch.VERSION} is removed from {folder}"


def find_other_torch(folder: Path) -> str | None:
    """Return a description of a torch that `install` did not write, or None."""
    for found in importlib.metadata.distributions(name="torch", path=[str(folder), *sys.path]):
        if (found.read_text("INSTALLER") or "").strip() != _INSTALLER:
            return f"torch {found.version}"
    for name in ("torch", "functorch"):
        spec = importlib.machinery.PathFinder.find_spec(name, [str(folder), *sys.path])
        if spec is None:
            continue
        source = Path(spec.origin or "")
        if not source.is_file() or source.read_text(encoding="utf-8", errors="replace") != _CODE.format(name=name):
            return f"a package `{name}` ({spec.origin or ', '.join(spec.submodule_search_locations or ())})"
    return None


def _remove(folder: Path) -> bool:
    """Delete the files of earlier installations, also of other versions. True if there were any."""
    found = [
        info for info in folder.glob("torch-*.dist-info")
        if (info / "INSTALLER").is_file() and (info / "INSTALLER").read_text(encoding="utf-8").strip() == _INSTALLER
    ]
    for info in found:
        shutil.rmtree(info)
        for name in ("torch", "functorch"):
            (folder / name / "__init__.py").unlink(missing_ok=True)
            shutil.rmtree(folder / name / "__pycache__", ignore_errors=True)
            if (folder / name).is_dir() and not any((folder / name).iterdir()):
                (folder / name).rmdir()
    return bool(found)


def _digest(text: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
