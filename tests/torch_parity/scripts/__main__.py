"""Run the scripts of this folder with whatever `import torch` gives, and print what they printed as JSON.

    python tests/torch_parity/scripts                         with torch
    python -m ndgrad.as_torch tests/torch_parity/scripts/__main__.py     with ndgrad
"""

import contextlib
import io
import json
import runpy
import sys
import traceback
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_SCRIPTS = ("__init__", "__main__", "starting")


def run(path):
    """Return the output of a script, and the last line of its error."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Exception:
            out.write("stopped: " + traceback.format_exc())
    return out.getvalue()


def scripts():
    return sorted(path for path in HERE.glob("*.py") if path.stem not in NOT_SCRIPTS)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    wanted = sys.argv[1:]
    print(json.dumps({path.stem: run(path) for path in scripts() if not wanted or path.stem in wanted}))
