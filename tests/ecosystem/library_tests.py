"""Libraries' own tests, run with torch and with ndgrad in its place, and compared test by test.

    python -m tests.ecosystem --suites [NAME ...]

A source distribution is downloaded in the pinned version, and its tests are unpacked into a folder without the library,
so that they import the installed one. Some libraries install their tests; these are run from there. A test that fails
with torch, or that one of the two did not reach in its time, is not counted. `REASONS` explains remaining differences.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).parent
#: Files at the top of a source distribution that pytest reads.
SETTINGS = ("conftest.py", "pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini")


@dataclass(frozen=True)
class Suite:
    """The tests of a library that are run."""

    #: Files and folders of the source distribution, or modules that the library installs.
    tests: str
    #: True if `tests` are modules.
    installed: bool = False
    #: Argument `-k` of pytest.
    select: str = ""
    #: Environment variables.
    variables: dict[str, str] = field(default_factory=dict)


#: Suites by the name of the distribution. Examples that train for minutes are left out.
SUITES = {
    "einops": Suite("einops.tests", installed=True, variables={"EINOPS_TEST_BACKENDS": "numpy,torch"}),
    "skorch": Suite(
        " ".join(f"skorch.tests.test_{name}" for name in ("classifier", "dataset", "net", "regressor", "toy", "utils")),
        installed=True,
    ),
    "torchopt": Suite("tests/test_import.py tests/test_utils.py"),  # the others import a file that the distribution lacks
    "torchsde": Suite("tests/test_brownian_interval.py tests/test_sdeint.py", select="not cuda"),
    "e3nn": Suite("tests/o3 tests/math tests/util"),
    "linear-operator": Suite("test/functions test/operators test/utils"),
    "gpytorch": Suite("test/constraints test/distributions test/kernels test/likelihoods test/means test/mlls test/priors"),
}

#: Reasons of failures that stay, by patterns of `library::test`.
REASONS: dict[str, str] = {
    "einops::*test_torch_compile*": "`compile` runs a function with `functools.lru_cache` eagerly until its result is cached, "
    "and `fullgraph=True` makes that an error.",
    "e3nn::tests/o3/angular_spherical_harmonics_test.py::test_jit*": "`compile` with `fullgraph=True` refuses a function that "
    "reaches more than 20000 objects.",
}


@dataclass
class Comparison:
    """Counts of a library, and the tests that only torch passes with the first lines of their errors."""

    library: str
    passed: int
    counted: int
    failures: list[tuple[str, str]]
    unreached: int


def compare_suite(name: str, version: str, theirs: Path, ours: Path, folder: Path, limit: float) -> Comparison:
    """Run a suite in both environments."""
    suite = SUITES[name]
    place = folder / "suites" / f"{name}-{version}"
    if suite.installed:
        place.mkdir(parents=True, exist_ok=True)
    elif not place.is_dir():
        unpack(download(name, version, theirs, folder / "sources"), place, {path.partition("/")[0] for path in suite.tests.split()})
    expected = run_suite(suite, theirs, place, folder / "outcomes" / f"{name}-torch.jsonl", limit)
    found = run_suite(suite, ours, place, folder / "outcomes" / f"{name}-ndgrad.jsonl", limit)
    return compare_outcomes(name, expected, found)


def download(name: str, version: str, environment: Path, folder: Path) -> Path:
    """Return the source distribution of a library."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = f"{name}-{version}.tar.gz".replace("-", "_").lower()
    for again in (False, True):
        for file in folder.glob("*.tar.gz"):
            if file.name.replace("-", "_").lower() == wanted:
                return file
        if not again:
            pip = [str(environment / "bin" / "python"), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
            subprocess.run([*pip, "--dest", str(folder), f"{name}=={version}"], check=True)
    raise FileNotFoundError(f"pip has not written {wanted} into {folder}")


def unpack(source: Path, place: Path, folders: set[str]) -> None:
    """Unpack the given top-level folders of a source distribution, and the files that pytest reads."""
    with tarfile.open(source) as archive:
        for member in archive:
            parts = Path(member.name).parts[1:]
            if not parts or ".." in parts or not (parts[0] in folders or (len(parts) == 1 and parts[0] in SETTINGS)):
                continue
            content = archive.extractfile(member)  # None for folders and links
            if content is not None:
                file = place.joinpath(*parts)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.read())


def run_suite(suite: Suite, environment: Path, place: Path, outcomes: Path, limit: float) -> dict[str, tuple[str, str]]:
    """Return (outcome, first line of the error) of each test that ended within `limit` seconds."""
    outcomes.parent.mkdir(parents=True, exist_ok=True)
    outcomes.unlink(missing_ok=True)
    print(f"==> {place.name} in {environment.name}", flush=True)
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **suite.variables}
    variables |= {"PYTHONPATH": str(HERE / "pytest_plugin"), "OUTCOMES": str(outcomes.resolve())}
    variables["PATH"] = os.pathsep.join((str((environment / "bin").absolute()), os.environ.get("PATH", "")))  # tests run `python`
    # -P: the folder of the tests is not on the import path unless pytest puts it there.
    command = [str(environment / "bin" / "python"), "-P", "-m", "pytest", "-q", "-p", "record_outcomes", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=", "--timeout", "300", "--tb", "short", "--continue-on-collection-errors"]
    command += [*(["--pyargs"] if suite.installed else []), *suite.tests.split(), *(["-k", suite.select] if suite.select else [])]
    try:
        subprocess.run(command, cwd=place, env=variables, capture_output=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"    stopped after {limit:.0f} s", flush=True)
    if not outcomes.is_file():
        return {}
    rows = [json.loads(line) for line in outcomes.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if row["outcome"] == "failed" and "::" not in row["test"]:
            print(f"    {row['test']} cannot be collected: {row['error']}", flush=True)
    return {row["test"]: (row["outcome"], row["error"]) for row in rows}


def compare_outcomes(name: str, expected: dict[str, tuple[str, str]], found: dict[str, tuple[str, str]]) -> Comparison:
    """Count the tests that torch passes. A test whose file could not be collected with ndgrad has failed."""
    broken = {test: error for test, (outcome, error) in found.items() if outcome == "failed" and "::" not in test}
    passed = counted = 0
    unreached = sum("::" in test and test not in expected for test in found)
    failures = []
    for test, (outcome, _) in expected.items():
        if outcome != "passed":
            continue
        file = test.partition("::")[0]
        if test not in found and file not in broken:
            unreached += 1
            continue
        counted += 1
        result, error = found.get(test, ("failed", broken.get(file, "")))
        if result == "passed":
            passed += 1
        else:
            failures.append((test, f"{result}: {error}" if error else result))
    return Comparison(name, passed, counted, failures, unreached)


def find_reason(name: str, test: str) -> str:
    """Return the known reason of a failure."""
    # fnmatch reads brackets as a set of letters; parameters of tests are matched by "*".
    return next((reason for pattern, reason in REASONS.items() if fnmatch(f"{name}::{test}", pattern)), "")
