"""Libraries' own tests, run with torch and with ndgrad in its place, and compared test by test.

    python -m tests.ecosystem --suites [NAME ...] [--sample N --seed S]

A source distribution is downloaded in the pinned version, or the archive of a tag where the distribution has no tests.
The tests are unpacked into a folder without the library, so that they import the installed one. Some libraries install
their tests; these are run from there. A test that fails with torch, or that one of the two did not reach in its time, is
not counted. `REASONS` explains remaining differences.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import tarfile
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from urllib.request import urlopen

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
    #: "owner/repository/tag" if the source distribution has no tests.
    tag: str = ""
    #: Further folders that the tests import.
    helpers: str = ""


#: Suites by the name of the distribution. Examples that train for minutes are left out.
SUITES = {
    "torchdiffeq": Suite(
        " ".join(f"tests/{name}_tests.py" for name in ("api", "event", "gradient", "norm", "odeint")),
        tag="rtqichen/torchdiffeq/a88aac53cae738addee44251288ce5be9a018af3",
        helpers="tests",
    ),
    "torchsde": Suite("tests", select="not cuda"),
    "linear-operator": Suite("test/functions test/operators test/utils"),
    "gpytorch": Suite(
        "test/constraints test/distributions test/functions test/kernels test/likelihoods test/means test/metrics test/mlls test/models "
        "test/optim test/priors test/utils test/variational"
    ),
    "pyro-ppl": Suite(
        " ".join(f"tests/{name}" for name in ("distributions", "infer", "nn", "ops", "optim", "params", "poutine", "test_primitives.py")),
        tag="pyro-ppl/pyro/1.9.1",
    ),
    "geoopt": Suite("tests", tag="geoopt/geoopt/v0.5.1"),
    "e3nn": Suite("tests/o3 tests/math tests/nn tests/util"),
    "captum": Suite(
        " ".join(f"tests/{name}" for name in ("attr", "concept", "influence", "metrics", "module", "robust", "utils")),
        tag="pytorch/captum/v0.8.0",
        select="not GPU and not cuda",
    ),
    "torchopt": Suite("tests", tag="metaopt/torchopt/v0.7.3"),
    "pytorch-minimize": Suite("tests", tag="rfeinman/pytorch-minimize/v0.1.0"),
    "higher": Suite("tests", tag="facebookresearch/higher/v0.2.1"),
    "backpack-for-pytorch": Suite("test", select="not cuda"),
    "kornia": Suite("tests", tag="kornia/kornia/v0.8.3", helpers="testing"),
    "torchmetrics": Suite(
        " ".join(f"tests/unittests/{name}" for name in ("bases", "classification", "regression", "retrieval", "utilities", "wrappers")),
        tag="Lightning-AI/torchmetrics/v1.9.0",
    ),
    "einops": Suite("einops.tests", installed=True, variables={"EINOPS_TEST_BACKENDS": "numpy,torch"}),
    "pyhf": Suite("tests", tag="scikit-hep/pyhf/v0.7.6", select="pytorch"),
    "x-transformers": Suite("tests", tag="lucidrains/x-transformers/2.16.1"),
    "skorch": Suite(
        " ".join(f"skorch.tests.test_{name}" for name in ("classifier", "dataset", "net", "regressor", "toy", "utils")),
        installed=True,
    ),
}

#: Reasons of failures that stay, by patterns of `library::test`.
REASONS: dict[str, str] = {
    "einops::*test_torch_compile_for_layers": "The layers call a function directly that a `functools.lru_cache` also wraps. "
    "`compile` takes such a call for one of the cache, and `fullgraph=True` makes that an error.",
    "e3nn::*tests/o3/angular_spherical_harmonics_test.py::test_jit*": "`compile` with `fullgraph=True` refuses a function that "
    "reaches more than 20000 objects.",
    "e3nn::*norm_test.py::test_norm*": "The test was not collected: its parameters probably differ from "
    "run to run.",
    "e3nn::*tensor_product_test.py::test_bilinear_right_variance_equivariance*": "The test was not collected: its "
    "parameters probably differ from run to run.",
    "pytorch-minimize::*test_rosen_unconstrained": "The minimum is found, to 8e-12, but the search reports a "
    "direction that does not descend. The cause is not known.",
}


@dataclass
class Comparison:
    """Counts of a library, and the tests that only torch passes with the first lines of their errors."""

    library: str
    #: Number of the suite's tests, of which a sample was run.
    collected: int
    passed: int
    counted: int
    failures: list[tuple[str, str]]
    unreached: int


@dataclass(frozen=True)
class Limits:
    """Bounds of the run of a suite in one environment."""

    #: Seconds of CPU time for all tests, and for each of them. Elapsed time would depend on the load of the machine.
    whole: float = 300
    test: float = 30
    #: Number of tests, or 0 for all. The same seed selects the same tests.
    sample: int = 0
    seed: int = 0


@dataclass
class Outcomes:
    """Outcomes of a run by test, each with the first line of its error, and the sample that it has chosen."""

    tests: dict[str, tuple[str, str]]
    collected: int
    chosen: list[str]


def compare_suite(name: str, version: str, theirs: Path, ours: Path, folder: Path, limits: Limits) -> Comparison:
    """Run a suite in both environments."""
    suite = SUITES[name]
    place = folder / "suites" / f"{name}-{version}"
    if suite.installed:
        place.mkdir(parents=True, exist_ok=True)
    elif not place.is_dir():
        folders = {path.partition("/")[0] for path in f"{suite.tests} {suite.helpers}".split()}
        unpack(download(name, version, suite.tag, folder / "sources"), place, folders)
    outcomes = folder / "outcomes" / f"{name}-torch.jsonl"
    expected = run_suite(suite, theirs, place, outcomes, limits)
    # A test that takes longer with ndgrad is slow, not wrong.
    longer = replace(limits, whole=3 * limits.whole, test=3 * limits.test)
    found = run_suite(suite, ours, place, folder / "outcomes" / f"{name}-ndgrad.jsonl", longer, chosen=outcomes)
    return compare_outcomes(name, expected, found)


def download(name: str, version: str, tag: str, folder: Path) -> Path:
    """Return the source distribution of a library, or the archive of a tag of its repository."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{version}.tar.gz"
    if not file.is_file():
        if tag:
            owner, repository, tag = tag.split("/")
            address = f"https://github.com/{owner}/{repository}/archive/{tag}.tar.gz"
        else:
            with urlopen(f"https://pypi.org/simple/{name}/") as page:
                address = find_source(page.read().decode(), name, version)
        with urlopen(address) as source:
            file.write_bytes(source.read())
    return file


def find_source(page: str, name: str, version: str) -> str:
    """Return the address of a source distribution from the package's page of the index."""
    file = f"{re.sub('[-_.]+', '[-_.]', name)}-{re.escape(version)}[.]tar[.]gz"
    return re.findall(f'href="([^"#]*/{file})[#"]', page)[0]


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


def run_suite(suite: Suite, environment: Path, place: Path, outcomes: Path, limits: Limits, chosen: Path | None = None) -> Outcomes:
    """Run a suite in one environment, or of it the tests that another run has `chosen`."""
    outcomes.parent.mkdir(parents=True, exist_ok=True)
    outcomes.unlink(missing_ok=True)
    print(f"==> {place.name} in {environment.name}", flush=True)
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **suite.variables}
    variables |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE / "pytest_plugin"), "OUTCOMES": str(outcomes.resolve())}
    variables |= {"TEST_SECONDS": str(limits.test), "SAMPLE": str(limits.sample), "SEED": str(limits.seed)}
    variables |= {"CHOSEN": str(chosen.resolve()) if chosen else ""}
    variables["PATH"] = os.pathsep.join((str((environment / "bin").absolute()), os.environ.get("PATH", "")))  # tests run `python`
    # -P: the folder of the tests is not on the import path unless pytest puts it there.
    command = [str(environment / "bin" / "python"), "-P", "-m", "pytest", "-q", "-p", "record_outcomes", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=", "--tb", "short", "--continue-on-collection-errors"]
    command += [*(["--pyargs"] if suite.installed else []), *suite.tests.split(), *(["-k", suite.select] if suite.select else [])]
    seconds = int(limits.whole)
    command = ["/bin/sh", "-c", f'ulimit -t {seconds}; exec "$@"', "sh", *command]
    with outcomes.with_suffix(".log").open("w", encoding="utf-8") as log:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            # A test that sleeps or waits uses no CPU time.
            subprocess.run(command, cwd=place, env=variables, stdout=log, stderr=log, check=False, timeout=10 * seconds)
        except subprocess.TimeoutExpired:
            print(f"    stopped after {10 * seconds} s", flush=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"    {after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f} s of CPU time", flush=True)
    return read_outcomes(outcomes)


def read_outcomes(outcomes: Path) -> Outcomes:
    """Read the file that the plugin has written."""
    rows = [json.loads(line) for line in outcomes.read_text(encoding="utf-8").splitlines()] if outcomes.is_file() else []
    tests = {row["test"]: (row["outcome"], row["error"]) for row in rows if "test" in row}
    for name, (outcome, error) in tests.items():
        if outcome == "failed" and "::" not in name:
            print(f"    {name} cannot be collected: {error}", flush=True)
    return Outcomes(tests, *next(((row["collected"], row["chosen"]) for row in rows if "collected" in row), (0, [])))


def compare_outcomes(name: str, expected: Outcomes, found: Outcomes) -> Comparison:
    """Count the tests that torch passes. A test that could not be collected with ndgrad has failed."""
    broken = {test: error for test, (outcome, error) in found.tests.items() if outcome == "failed" and "::" not in test}
    chosen = set(found.chosen)
    passed = counted = 0
    unreached = sum(test not in expected.tests for test in expected.chosen)
    failures = []
    for test, (outcome, _) in expected.tests.items():
        if outcome != "passed":
            continue
        if test not in found.tests and test in chosen:
            unreached += 1
            continue
        counted += 1
        result, error = found.tests.get(test, ("failed", broken.get(test.partition("::")[0], "is not collected")))
        if result == "passed":
            passed += 1
        else:
            failures.append((test, f"{result}: {error}" if error else result))
    return Comparison(name, expected.collected, passed, counted, failures, unreached)


def find_reason(name: str, test: str) -> str:
    """Return the known reason of a failure."""
    # fnmatch reads brackets as a set of letters; parameters of tests are matched by "*".
    return next((reason for pattern, reason in REASONS.items() if fnmatch(f"{name}::{test}", pattern)), "")
