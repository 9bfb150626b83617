# Everything runs in .venv, which the first target that needs it builds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-long bench lint clean

$(STAMP): pyproject.toml requirements-dev.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "memplane needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -r requirements-dev.txt
	touch $(STAMP)

demo: $(STAMP)  ## import a sample session and this repository's commits, ask three questions
	$(BIN)/python tools/demo.py

test: $(STAMP)  ## every promise, in a few minutes
	$(BIN)/python -m pytest -q -m "not long" -n auto --dist worksteal tests scenarios

test-long: $(STAMP)  ## the slow sweeps: crashes, fuzz, many packs; hours
	$(BIN)/python -m pytest -q --timeout 7200 --scenario-long -n auto --dist worksteal tests scenarios

bench: $(STAMP)  ## the table of speeds, with a peer or a floor beside each figure
	$(BIN)/python benchmarks/run.py

lint: $(STAMP)  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:  ## what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
