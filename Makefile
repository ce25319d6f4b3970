# `make demo` and `make test` are all a newcomer needs; both install what they use first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed

.PHONY: setup demo test test-all check format docs

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "favano needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data,print,dev]'
	@touch $@

demo: setup
	$(BIN)/favano demo

test: setup
	$(BIN)/python -m pytest -m "not slow and not gpu"

test-all: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
