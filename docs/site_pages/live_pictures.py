"""The pictures of docs/pictures.md: the files that the code of the page writes, made when the documentation is built.

The page shows each file in a frame, so graphs and flame views can be used there. Times in them are those of the build.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

#: File that the code of the page writes -> name among the built pages.
FILES = {name: f"picture-{name}" for name in ("graph.html", "flame.html", "memory.html", "chart.svg")}


def write(docs: Path, target: Path) -> None:
    """Run the code of the page, and write its pictures beside the built page."""
    page = (docs / "pictures.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        # A process of its own: the flame view begins with the program, and not with Sphinx.
        Path(folder, "program.py").write_text("\n".join(blocks), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        subprocess.run([sys.executable, "program.py"], cwd=folder, env=environment, check=True)
        for name, shown in FILES.items():
            text = Path(folder, name).read_text(encoding="utf-8").replace(str(Path(folder, "program.py")), "program.py")
            (target / shown).write_text(text, encoding="utf-8")
