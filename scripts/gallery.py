"""Run the programs of the gallery in full, and keep their pictures and what they print for the documentation.

    python scripts/gallery.py [NAME ...]

They take some minutes together, and say how far they are.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
from pathlib import Path

GALLERY = Path(__file__).resolve().parent.parent / "examples" / "gallery"


def run(name: str) -> str:
    """Run one program and keep what it made; what it printed."""
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", GALLERY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        spec.loader.exec_module(module)
        _, picture = module.main()
    (GALLERY / "pictures").mkdir(exist_ok=True)
    picture.save(GALLERY / "pictures" / f"{name}.svg")
    (GALLERY / "pictures" / f"{name}.txt").write_text(printed.getvalue(), encoding="utf-8")
    return printed.getvalue()


def main(wanted: list[str]) -> int:
    known = sorted(path.stem for path in GALLERY.glob("*.py"))
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"there is no {', '.join(unknown)} in the gallery, which has {', '.join(known)}", file=sys.stderr)
        return 2
    names = wanted or known
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", flush=True)
        try:
            print(run(name), flush=True)
        except ModuleNotFoundError as error:
            print(f'left as it is, since there is no {error.name}: pip install -e ".[examples]"\n', flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
