"""Write the pages that follow from the names, and remove names that exist by now from missing_names.txt.

    python -m tests.torch_parity.names [--torch]
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.torch_parity import names  # noqa: E402  (found by the lines above)

PARITY, ABSENT = ROOT / "docs" / "parity.md", ROOT / "docs" / "absent.md"
_TABLE = re.compile(r"(?<=<!-- names -->\n)(\|.*\n)+")


def parity_page() -> str:
    return _TABLE.sub(lambda _: names.counts_table(), PARITY.read_text(encoding="utf-8"), count=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true", help="list the names anew, from the torch that is installed")
    if parser.parse_args().torch:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names.NAMES.write_text("\n".join(names.names_of_torch()) + "\n")
        names.listed.cache_clear()
    names.prune()
    PARITY.write_text(parity_page(), encoding="utf-8")
    ABSENT.write_text(names.absent_page(), encoding="utf-8")
    unknown = [name for name, state in names.standing().items() if state == "unknown"]
    print("\n".join(f"no reason for {name}: give it one in src/ndgrad/_src/foundations/missing_names.txt" for name in unknown))
    print(names.counts_table())
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
