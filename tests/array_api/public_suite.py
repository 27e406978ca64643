"""The public test suite of the array API standard, on ndgrad and on NumPy: ndgrad may fail only where NumPy fails too.

    ARRAY_API_TESTS=<checkout of array-api-tests, with its submodule> python -m tests.array_api.public_suite [pytest's arguments]

The suite is no part of this project; `make test-arrayapi` calls this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from ndgrad.array_api.version import VERSION

ROOT = Path(__file__).parents[2]
VARIABLE = "ARRAY_API_TESTS"


def checkout() -> Path:
    given = os.environ.get(VARIABLE)
    if not given:
        sys.exit(f"*** {VARIABLE} must name a checkout of data-apis/array-api-tests: make test-arrayapi {VARIABLE}=../array-api-tests")
    path = Path(given).expanduser().resolve()
    if not (path / "array_api_tests").is_dir():
        sys.exit(f"*** {VARIABLE}={given} holds no folder array_api_tests, so it is no checkout of data-apis/array-api-tests.")
    if not (path / "array-api" / "src").is_dir():
        sys.exit(f"*** {path} lacks its submodule. Run there: git submodule update --init")
    return path


def failures(module: str, where: Path, arguments: list[str], tests: list[str]) -> tuple[int, set[str]]:
    """Return the number of tests that ran on a module, and the names of failed ones."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", *tests, "-q", "--tb=no", "-p", "no:cacheprovider", "--disable-deadline",
            f"--junitxml={report}", *arguments,
        ]  # fmt: skip
        paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "ARRAY_API_TESTS_MODULE": module,
            "ARRAY_API_TESTS_VERSION": VERSION,
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        }
        done = subprocess.run(command, cwd=where, env=environment, check=False)
        if not report.exists():
            sys.exit(f"*** the suite did not run on {module} (pytest ended with {done.returncode}): see above")
        cases = list(ElementTree.parse(report).iter("testcase"))
    bad = {_name(c) for c in cases if c.find("failure") is not None or c.find("error") is not None}
    return len(cases), bad


def _name(case: ElementTree.Element) -> str:
    """Return pytest's name of a test. The report has its file as a module, followed by a class if there is one."""
    package, file, *classes = (case.get("classname") or "").split(".")
    return "::".join([f"{package}/{file}.py", *classes, case.get("name") or ""])


def main(arguments: list[str]) -> None:
    where = checkout()
    # derandomized, so that both modules get the same examples as far as their types allow
    arguments = ["--derandomize", *(arguments or ["--max-examples=100"])]
    found = {}
    for module in ("numpy", "ndgrad.array_api"):
        print(f"==> array-api-tests on {module}", flush=True)
        count, found[module] = failures(module, where, arguments, ["array_api_tests"])
        print(f"==> {module}: {count} tests, {len(found[module])} failures", flush=True)
    only_ours = sorted(found["ndgrad.array_api"] - found["numpy"])
    if only_ours:
        # what a test shows depends on the examples drawn: NumPy is looked at again, with others
        print(f"==> {len(only_ours)} of them on numpy, with other examples", flush=True)
        for seed in range(10):
            found["numpy"] |= failures("numpy", where, ["--max-examples=500", f"--hypothesis-seed={seed}"], only_ours)[1]
        only_ours = [name for name in only_ours if name not in found["numpy"]]
    print("\n".join(f"    both fail: {name}" for name in sorted(found["ndgrad.array_api"] & found["numpy"])))
    if only_ours:
        sys.exit("\n".join(["*** ndgrad fails where NumPy does not:", *(f"    {name}" for name in only_ours)]))
    print("==> ndgrad fails nowhere that NumPy does not")


if __name__ == "__main__":
    main(sys.argv[1:])
