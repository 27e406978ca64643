"""Check what `make wheel` built: one typed pure-Python wheel below three megabytes, with every
source and no stray files."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

LIMIT = 3_000_000


def main(directory: str) -> None:
    wheels = sorted(Path(directory).glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"expected one wheel in {directory}, found {[wheel.name for wheel in wheels]}")
    (wheel,) = wheels
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    size = wheel.stat().st_size
    if not wheel.name.endswith("-py3-none-any.whl"):
        sys.exit(f"{wheel.name} is not a pure-Python wheel")
    if size >= LIMIT:
        sys.exit(f"{wheel.name} has {size:,} bytes; the limit is {LIMIT:,}")
    stray = [name for name in names if not name.startswith(("ndgrad/", "ndgrad-")) or "__pycache__" in name]
    if stray:
        sys.exit(f"{wheel.name} holds files that are no part of the package: {stray}")
    sources = Path(__file__).resolve().parent.parent / "src"
    wanted = {path.relative_to(sources).as_posix() for path in sources.glob("ndgrad/**/*.py")} | {"ndgrad/py.typed"}
    if wanted - set(names):
        sys.exit(f"{wheel.name} lacks {sorted(wanted - set(names))}")
    print(f"==> {wheel} ({size:,} bytes, {len(names)} files)")


if __name__ == "__main__":
    main(sys.argv[1])
