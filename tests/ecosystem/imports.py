"""Import every modeling module of transformers, and print counts as one line of JSON."""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path


def main() -> None:
    warnings.simplefilter("ignore")
    import transformers

    root = Path(transformers.__file__).parent
    names = sorted(
        ".".join(("transformers", *path.relative_to(root).with_suffix("").parts)) for path in (root / "models").rglob("modeling_*.py")
    )
    failures, needs_more = {}, []
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            # A module that needs a library beside torch (torchaudio, for example) is not counted.
            if (error.name or "").partition(".")[0] in ("torch", "ndgrad"):
                failures[name] = str(error)
            else:
                needs_more.append(name)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
    count = len(names) - len(needs_more)
    print(json.dumps({"modules": count, "imported": count - len(failures), "failures": failures}))


if __name__ == "__main__":
    main()
