"""Run the tutorials and keep their pictures for the documentation: `python scripts/tutorials.py [NAME ...]`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]


def main(wanted: list[str]) -> int:
    from docs.gallery_pages import tutorials

    for name in wanted or tutorials.names():
        print(name, *tutorials.draw(name), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
