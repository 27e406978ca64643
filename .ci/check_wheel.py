"""Check what `make wheel` built: typed pure-Python wheels below a megabyte each, with no stray files and none in both."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

LIMIT = 1_000_000
#: Distribution -> files it must hold.
REQUIRED = {
    "ndgrad": ("ndgrad/__init__.py", "ndgrad/py.typed"),
    "ndgrad_scipy": ("ndgrad/scipy/__init__.py", "ndgrad/implicit/__init__.py"),
}


def check(wheel: Path) -> set[str]:
    """The Python files of a wheel that passes; the program ends at one that does not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    size = wheel.stat().st_size
    if not wheel.name.endswith("-py3-none-any.whl"):
        sys.exit(f"{wheel.name} is not a pure-Python wheel")
    if size >= LIMIT:
        sys.exit(f"{wheel.name} has {size:,} bytes; the limit is {LIMIT:,}")
    distribution = wheel.name.split("-")[0]
    for required in REQUIRED[distribution]:
        if required not in names:
            sys.exit(f"{wheel.name} lacks {required}")
    stray = [name for name in names if not name.startswith(("ndgrad/", f"{distribution}-")) or "__pycache__" in name]
    if stray:
        sys.exit(f"{wheel.name} holds files that are no part of the package: {stray}")
    print(f"==> {wheel} ({size:,} bytes, {len(names)} files)")
    return {name for name in names if name.startswith("ndgrad/")}


def main(directory: str) -> None:
    wheels = sorted(Path(directory).glob("*.whl"))
    if [wheel.name.split("-")[0] for wheel in wheels] != list(REQUIRED):
        sys.exit(f"expected wheels of {', '.join(REQUIRED)} in {directory}, found {[wheel.name for wheel in wheels]}")
    core, scipy = map(check, wheels)
    if core & scipy:
        sys.exit(f"both wheels hold {sorted(core & scipy)}")


if __name__ == "__main__":
    main(sys.argv[1])
