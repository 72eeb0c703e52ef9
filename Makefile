# Needs Python ≥ 3.11 and make. Everything is installed into .venv; a second call reuses it.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test slow check docs format clean

demo: .venv/installed                 ## train on cartpole and show the result
	$(BIN)/ddopg train cartpole --steps 8000 --seed 16

test: .venv/installed-test            ## the fast test suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

slow: .venv/installed-slow            ## long learning runs, and what needs PyTorch, Ray, wandb or MLflow
	$(BIN)/python -m pytest -m slow --timeout 3600

check: docs                           ## format, lint, types, tests, line coverage of at least 95 %, the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov

docs: .venv/installed-dev             ## the site, into site/; a broken link or an undocumented parameter is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: .venv/installed-dev           ## rewrite the files in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
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
