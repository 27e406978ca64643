"""Check what `make wheel` built: one typed pure-Python wheel with every source file and nothing else.

The limits find data and generated files that were packed by accident. Sources are small, one subject to a file, and
grow with the documentation of parameters, so the limit of a single file is the strict one."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path, PurePosixPath

WHEEL_LIMIT = 5_000_000
FILE_LIMIT = 100_000
SUFFIXES = {".py", ".pyi", ".typed", ".md", ".txt", ".css", ".js"}


def main(directory: str) -> None:
    wheels = sorted(Path(directory).glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"expected one wheel in {directory}, found {[wheel.name for wheel in wheels]}")
    (wheel,) = wheels
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    names = [entry.filename for entry in entries]
    size = wheel.stat().st_size
    if not wheel.name.endswith("-py3-none-any.whl"):
        sys.exit(f"{wheel.name} is not a pure-Python wheel")
    if size >= WHEEL_LIMIT:
        sys.exit(f"{wheel.name} has {size:,} bytes; the limit is {WHEEL_LIMIT:,}")
    stray = [name for name in names if not _belongs(name)]
    if stray:
        sys.exit(f"{wheel.name} holds files that are no part of the package: {stray}")
    large = [e.filename for e in entries if e.file_size > FILE_LIMIT and e.filename.startswith("ndgrad/")]
    if large:
        sys.exit(f"{wheel.name} holds files of more than {FILE_LIMIT:,} bytes: {large}")
    sources = Path(__file__).resolve().parent.parent / "src"
    wanted = {path.relative_to(sources).as_posix() for path in sources.glob("ndgrad/**/*.py")} | {"ndgrad/py.typed"}
    if wanted - set(names):
        sys.exit(f"{wheel.name} lacks {sorted(wanted - set(names))}")
    print(f"==> {wheel} ({size:,} bytes, {len(names)} files)")


def _belongs(name: str) -> bool:
    """True if a file of the wheel is a source, a text that the package reads, or metadata of the distribution."""
    if name.startswith("ndgrad-"):
        return ".dist-info/" in name
    return name.startswith("ndgrad/") and "__pycache__" not in name and PurePosixPath(name).suffix in SUFFIXES


if __name__ == "__main__":
    main(sys.argv[1])
