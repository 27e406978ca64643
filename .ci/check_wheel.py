"""Check what `make wheel` built: typed pure-Python wheels below a megabyte each, with no stray files, and every source in one of them."""

from __future__ import annotations

import ast
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
    sources = Path(__file__).resolve().parent.parent / "src"
    missing = {path.relative_to(sources).as_posix() for path in sources.glob("ndgrad/**/*.py")} - core - scipy
    if missing:
        sys.exit(f"neither wheel holds {sorted(missing)}")
    for name in sorted(core):
        # compat is a layer of names, whose scipy part says what to install
        wrong = set() if name.startswith("ndgrad/compat/") else imported_at_once((sources / name).read_text()) & scipy
        if wrong:
            sys.exit(f"{name} imports {sorted(wrong)}, which the core wheel does not hold")


def imported_at_once(source: str) -> set[str]:
    """The files of the package that a module imports as soon as it is imported itself."""
    found = set()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            names = [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
        else:
            continue
        for path in (name.replace(".", "/") for name in names):
            found |= {f"{path}.py", f"{path}/__init__.py"}
    return found


if __name__ == "__main__":
    main(sys.argv[1])
