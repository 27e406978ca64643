# Every target makes the environment it needs from nothing but Python 3.11 or later.
#
#   make test PYTHON=python3.12 VENV=.venv-3.12     another interpreter, in an environment of its own
#   make test ARGS="-k views -x"                    more arguments for pytest (also for demo and bench)

PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= auto
ARGS    ?=
PYTHONS := 3.11 3.12 3.13 3.14

PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check -qq
PYTEST := $(PY) -m pytest --numprocesses=$(WORKERS) --maxprocesses=8
SUITE  := tests --ignore=tests/torch_parity

.DEFAULT_GOAL := help
# Workers and the interpreters that tests start read compiled files, whoever has set what.
unexport PYTHONDONTWRITEBYTECODE
# Targets share one environment, which two installers must not change at once.
.NOTPARALLEL:
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ----- environments -----------------------------------------------------------------------------------------

# pip is the last thing that venv puts in place, so its presence means that the environment is whole.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("ndgrad needs Python 3.11 or later, but " + \
	    sys.executable + " is " + sys.version.split()[0] + "; name another: make PYTHON=python3.12 ...")'
	@echo "==> making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# One stamp per extra of pyproject.toml, and one for none: what a target does not need is not installed.
$(VENV)/.package: pyproject.toml | $(VENV)/bin/pip
	@echo "==> installing ndgrad into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.extra-%: pyproject.toml | $(VENV)/bin/pip
	@echo "==> installing ndgrad[$*] into $(VENV)"
	@$(PIP) install --editable '.[$*]'
	@touch $@

# repobook is a distribution of its own; its tests drive its optional parts too.
$(VENV)/.repobook: repobook/pyproject.toml | $(VENV)/bin/pip
	@echo "==> installing repobook into $(VENV)"
	@$(PIP) install --editable './repobook[mcp,sphinx,test]'
	@touch $@

# ----- tests ------------------------------------------------------------------------------------------------

# Workers run side by side; BLAS threads inside each would only fight over the same cores.
test test-torch test-long test-arrayapi run-minimal: export OPENBLAS_NUM_THREADS = 1
test test-torch test-long test-arrayapi run-minimal: export OMP_NUM_THREADS = 1

.PHONY: test-ecosystem
.PHONY: test test-torch test-long test-arrayapi test-browser test-minimal test-matrix test-all
test: $(VENV)/.extra-test $(VENV)/.repobook ## the test suites, less the comparison with torch and what is slow
# Both suites run, and a failure of either is a failure of the target.
	@status=0; \
	$(PYTEST) $(SUITE) -m "not slow and not stress and not browser" $(ARGS) || status=$$?; \
	(cd repobook && $(abspath $(PY)) -m pytest --numprocesses=$(WORKERS) --maxprocesses=8 -q) || status=$$?; \
	exit $$status

test-torch: $(VENV)/.extra-test $(VENV)/.extra-torch ## the same programs through torch and ndgrad
	@$(PY) -c 'import torch; print("==> comparing with torch", torch.__version__)'
	@$(PYTEST) tests/torch_parity $(ARGS)

test-gpu: $(VENV)/.extra-test $(VENV)/.extra-cuda ## the tests of GPUs on a machine that has one, every op in every floating dtype
	@$(PY) -c 'import cupy; print("==> on", cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())'
	@$(PYTEST) tests/gpu tests/compiler/cuda $(ARGS)

test-long: $(VENV)/.extra-test ## slow and stress tests too, and 500 examples per property
	@$(PYTEST) $(SUITE) --hypothesis-profile=long $(ARGS)

test-ecosystem: ## libraries built on torch, on ndgrad, against values written by torch; writes docs/what-runs.md
	@$(PYTHON) -m tests.ecosystem --python $(PYTHON) $(ARGS)

test-arrayapi: $(VENV)/.extra-test $(VENV)/.extra-arrayapi ## the public array API suite, its checkout given by ARRAY_API_TESTS
	@$(PYTEST) tests/array_api
	@$(PY) -m tests.array_api.public_suite $(ARGS)

test-browser: $(VENV)/.extra-test ## the interactive pages in a headless Chromium (apt-get install chromium)
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || { echo "==> installing chromium"; $$(test $$(id -u) = 0 || echo sudo) sh -c 'apt-get update -qq && apt-get install -qq -y chromium'; }
	@$(PY) -m pytest tests/browser -q $(ARGS)

test-minimal: ## the test suite on the oldest NumPy, without optional libraries
	@$(MAKE) --no-print-directory run-minimal VENV=.venv-minimal

.PHONY: run-minimal
run-minimal: $(VENV)/.minimal
	@$(PYTEST) $(SUITE) -m "not slow and not stress and not browser" $(ARGS)

# NumPy 2.0 has no wheels for Python 3.13, hence the choice of interpreter here.
$(VENV)/.minimal: pyproject.toml .ci/find-python
	@$(MAKE) --no-print-directory $(VENV)/bin/pip PYTHON="$$(.ci/find-python 3.11)"
	@echo "==> installing ndgrad with NumPy 2.0.0 and no extras into $(VENV)"
	@$(PIP) install --editable . 'numpy==2.0.0' 'pytest>=9' pytest-xdist hypothesis
	@touch $@

test-matrix: ## a part of the tests on every installed Python, the oldest NumPy, without optional libraries, on a plain processor
	@.ci/matrix $(ARGS)

# The interpreters are looked for before the first minute is spent.
test-all: ## everything, on every supported Python (ALLOW_MISSING=1 tolerates absent ones)
	@missing=; \
	for version in $(PYTHONS); do .ci/find-python $$version >/dev/null || missing="$$missing $$version"; done; \
	if [ -n "$$missing" ] && [ "$(ALLOW_MISSING)" != 1 ]; then \
	    echo "*** install Python$$missing, or accept less with: make test-all ALLOW_MISSING=1" >&2; exit 1; fi; \
	set -e; \
	for version in $(PYTHONS); do \
	    case " $$missing " in *" $$version "*) continue;; esac; \
	    echo "==> Python $$version"; \
	    $(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON="$$(.ci/find-python $$version)"; \
	done; \
	case " $$missing " in *" 3.11 "*) ;; *) $(MAKE) --no-print-directory test-minimal;; esac; \
	$(MAKE) --no-print-directory test-long; \
	$(MAKE) --no-print-directory test-torch ARGS="$(ARGS) --hypothesis-profile=long"; \
	if [ -n "$$missing" ]; then echo "*** NOT TESTED on Python$$missing" >&2; fi

# ----- the rest ---------------------------------------------------------------------------------------------

.PHONY: demo gallery bench lint docs wheel book clean
demo: $(VENV)/.package ## train a small transformer, check its gradients, draw what was learned
	@$(PY) -m demo $(ARGS)

gallery: $(VENV)/.extra-examples ## run the gallery's programs in full and the tutorials, and keep their pictures for the documentation
	@$(PY) scripts/gallery.py $(ARGS)
	@test -n "$(ARGS)" || $(PY) scripts/tutorials.py

book: $(VENV)/.repobook ## the book of this repository: a page per file, keywords, search
	@$(PY) -m repobook build . --html
	@$(PY) -m repobook check .

bench: $(VENV)/.extra-bench ## time ndgrad beside torch, jax and HIPS autograd
	@$(PY) -m benchmarks $(ARGS)

lint: $(VENV)/.extra-lint $(VENV)/.repobook ## ruff, mypy --strict, and both type checkers over what users write
	@$(PY) -m ruff check .
	@$(PY) scripts/check_prose.py
# pyright beside mypy: each takes one core, and what mypy knows of the package serves its second run.
	@$(PY) scripts/check_types.py pyright & pyright=$$!; \
	$(PY) -m mypy && $(PY) scripts/check_types.py mypy && (cd repobook && $(abspath $(PY)) -m mypy); mypy=$$?; \
	wait $$pyright && exit $$mypy

docs: $(VENV)/.extra-docs $(VENV)/.repobook ## build the documentation and the book of the source; a warning is an error
# On a terminal Sphinx says how far it is. The substitution has its own standard output, so the test is made outside.
	@test -t 1 && quiet= || quiet=--quiet; $(PY) -m sphinx $$quiet --fail-on-warning --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	@$(PY) scripts/check_links.py docs/_build/html
	@echo "==> docs/_build/html/index.html"

wheel: $(VENV)/bin/pip ## build the wheel and check its size and contents
	@rm -rf dist
	@$(PIP) wheel --no-deps --wheel-dir dist .
	@$(PY) .ci/check_wheel.py dist

clean: ## remove environments, built pages, wheels and caches (git-ignored files that targets make)
	@rm -rf .venv .venv-* dist docs/_build docs/reference docs/gallery docs/errors docs/tutorials/*.ipynb demo/out .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "==> clean"
