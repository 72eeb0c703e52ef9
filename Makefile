# Needs Python ≥ 3.11 and make. Everything is installed into .venv; a second call reuses it.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo help test slow fuzz check lint types docs format hooks clean

demo: .venv/installed                 ## train on cartpole and show the result (what `make` alone does)
	$(BIN)/ddopg train cartpole --steps 8000 --seed 16

help:                                 ## this list
	@awk -F ' *## *' '/^[a-z]+:.*##/ { sub(/:.*/, "", $$1); printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: .venv/installed-test            ## the fast test suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

slow: .venv/installed-slow            ## long learning runs, and what needs PyTorch, Ray, wandb or MLflow
	$(BIN)/python -m pytest -m slow --timeout 3600

fuzz: .venv/installed-test            ## more than 100,000 hostile files of all kinds, counted
	$(BIN)/python -m tests.fuzz

check: lint types docs                ## everything that a change must pass: lint, types, docs, tests with 95 % of the lines
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov

lint: .venv/installed-dev             ## format and lint, nothing is changed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/installed-dev            ## types
	$(BIN)/mypy

docs: .venv/installed-dev             ## the site, into site/; a broken link or an undocumented parameter is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: .venv/installed-dev           ## rewrite the files in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: .venv/installed-dev            ## let git check format, lint and types before each commit
	$(PIP) pre-commit
	$(BIN)/pre-commit install

clean:                                ## remove what the other targets made
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ddopg needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(PIP) --editable .
	touch $@

.venv/installed-test: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[test]'
	touch $@ .venv/installed

.venv/installed-slow: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[test-slow]'
	touch $@ .venv/installed .venv/installed-test

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ .venv/installed .venv/installed-test
