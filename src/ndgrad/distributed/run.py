"""torch's `distributed.run`, the command `torchrun`: start a program that imports torch, on several ranks.

    python -m ndgrad.distributed.run --standalone --nproc-per-node=4 train.py

`import torch` in the program imports ndgrad. See `ndgrad.launch` for the options.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ndgrad import launch

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command with torchrun's arguments."""
    return launch.main(["--as-torch", "--no-labels", *(sys.argv[1:] if args is None else args)])


if __name__ == "__main__":
    sys.exit(main())
