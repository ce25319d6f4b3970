# `make demo` and `make test` are all a newcomer needs; both install what they use first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed

.PHONY: setup browser demo test test-all explore check format docs package site wheel-0.3.1

# Modules are compiled when they are first imported: most never are, and compiling takes minutes.
# What is compiled is kept, since tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "favano needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[data,print,cluster,flower,site,dev]'
	@touch $@

# The page is tested in Chromium; where there is none and none can be installed, those tests skip.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core; \
	  else echo "No Chromium found; install it to run the tests of the page."; fi; }

demo: setup
	@$(BIN)/favano demo

# One process per core, four at most, since each loads PyTorch; a file stays in one process. Those
# that need a GPU run one after the other. `make test PROCESSES=` uses one process.
PROCESSES ?= --numprocesses=auto --maxprocesses=4 --dist=loadfile
PYTEST = $(BIN)/python -m pytest --durations=25

test: setup
	$(PYTEST) $(PROCESSES) -m "not slow and not machine and not gpu"

test-all: setup
	$(PYTEST) $(PROCESSES) -m "not gpu"
	$(PYTEST) -m gpu

# Property tests with random examples, so many each; what they find is printed at the end, also after
# Ctrl-C. WHAT is a set of tests of tests/explore.py, a file or a folder.
EXAMPLES ?= 1000
WHAT     ?= properties

explore: setup
	$(BIN)/python -m tests.explore $(WHAT) $(EXAMPLES)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Wheel (made from the sdist, so that both are whole) in dist/, tried in an empty environment.
package: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	.ci/try_package

# Release 0.3.1, with which later ones are compared, from its commit: a tag need not travel.
COMMIT_0_3_1 := 209072e4f7809b9734cff3658d89bc37e06356af
WHEEL_0_3_1 := .wheels/favano-0.3.1-py3-none-any.whl
wheel-0.3.1: $(WHEEL_0_3_1)
$(WHEEL_0_3_1): | setup
	rm -rf build/release-0.3.1 && mkdir -p build/release-0.3.1
	git archive $(COMMIT_0_3_1) | tar -x -C build/release-0.3.1
	$(BIN)/python -m build --wheel --outdir .wheels build/release-0.3.1

docs: setup
	$(BIN)/python docs/make_tables.py

# Strict: a broken link, a page that nobody links to, or an undocumented name ends it, as does a block
# of code that fails. Then `python -m http.server -d site`.
site: setup
	$(PYTEST) $(PROCESSES) -m "not slow or quick" tests/docs
	PYTHONPATH=docs NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
