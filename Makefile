# Needs Python ≥ 3.11 and make. Everything is installed into .venv; a second call reuses it.
# Another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
PYTHONS ?= 3.11 3.12 3.13 3.14
OLDEST ?= python3.11
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo help test long slow fuzz pythons oldest check lint types docs format hooks clean

demo: $(VENV)/installed               ## train on cartpole and show the result (what `make` alone does)
	$(BIN)/ddopg train cartpole --steps 8000 --seed 16

help:                                 ## this list
	@awk -F ' *## *' '/^[a-z]+:.*##/ { sub(/:.*/, "", $$1); printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: $(VENV)/installed-test          ## the test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

long: $(VENV)/installed-test          ## longer tests: pages, figures, examples, killed processes, full disks, odd surroundings, a browser
	$(BIN)/python -m pytest -m 'long and not slow' -n 2 --dist worksteal

slow: $(VENV)/installed-slow          ## long learning runs, and what needs PyTorch, Ray, wandb or MLflow
	XLA_FLAGS= $(BIN)/python -m pytest -m slow --timeout 3600

fuzz: $(VENV)/installed-test          ## more than 100,000 hostile files of all kinds, counted
	$(BIN)/python -m tests.fuzz

pythons:                              ## both test suites on each Python of PYTHONS that is here, in .venv-3.11, .venv-3.12, …
	@for v in $(PYTHONS); do \
		if python$$v --version >/dev/null 2>&1; then $(MAKE) test long PYTHON=python$$v VENV=.venv-$$v || exit 1; \
		else echo "python$$v is not here"; fi; done

oldest: .venv-oldest/installed-test   ## both test suites with the oldest packages that pyproject.toml allows, in .venv-oldest
	.venv-oldest/bin/python -m pytest -m 'not slow' -n 2 --dist worksteal

check: lint types docs                ## everything that a change must pass: lint, types, docs, tests with 95 % of the lines
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist worksteal --cov

lint: $(VENV)/installed-dev           ## format and lint, nothing is changed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/installed-dev          ## types
	$(BIN)/mypy

docs: $(VENV)/installed-dev           ## the site, into site/; a broken link or an undocumented parameter is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/installed-dev         ## rewrite the files in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(VENV)/installed-dev          ## let git check format, lint and types before each commit
	$(PIP) pre-commit
	$(BIN)/pre-commit install

clean:                                ## remove what the other targets made
	rm -rf .venv .venv-* build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ddopg needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/installed

$(VENV)/installed-slow: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[test-slow]'
	touch $@ $(VENV)/installed $(VENV)/installed-test

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/installed $(VENV)/installed-test

.venv-oldest/installed-test: pyproject.toml
	$(OLDEST) -m venv --clear .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct --editable '.[test]'
	touch $@
