# The README's commands. Everything runs from .venv, made from the hashed lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Says each package as it comes, without a bar for each.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off

.PHONY: setup run test test-all most check style types units fuzz bench bench-memory eval-routing chaos look lock console-vendor screenshots

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Pentad needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing what requirements.lock names into $(VENV), about $$(grep -c '^[a-z0-9]' requirements.lock) packages: once, a minute or so" >&2
	@$(PIP) --require-hashes -r requirements.lock >&2
	@echo "installing pentad itself into $(VENV)" >&2
	@$(PIP) --no-build-isolation --no-deps --editable . >&2
	@touch $@

run: $(STAMP)
	@exec $(BIN)/pentad up $(ARGS)

# A worker takes a third of the tests as they stand, so that what a file's tests share is started once. Tests wait as much
# as they work: three workers keep two cores busy.
PYTEST := $(BIN)/pytest -n 3 --dist worksteal
# What takes longest begins first.
TESTS := tests/acceptance tests/integration tests/fuzz tests/fundamentals tests/unit tests/contract tests/architecture

check: style
	@$(MAKE) --no-print-directory --jobs 2 types units

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/lint-imports

units: $(STAMP)
	$(PYTEST) tests/unit tests/contract tests/architecture

# All but what is marked slow (CONTRIBUTING.md), beside the check of types.
test: style
	@$(MAKE) --no-print-directory --jobs 2 types most

most: $(STAMP)
	$(PYTEST) -m "not slow" $(TESTS)

test-all: style types
	$(PYTEST) $(TESTS)

fuzz: $(STAMP)
	FUZZ_EXAMPLES=$(or $(EXAMPLES),1500) $(PYTEST) tests/fuzz --hypothesis-show-statistics
	$(BIN)/python -m tests.fuzz.memory

bench: $(STAMP)
	$(BIN)/python -m tests.bench $(ARGS)

bench-memory: $(STAMP)
	@test -n "$(DATA)" || { echo "which data? make bench-memory DATA=FILE [EMBED=simple|local]" >&2; exit 2; }
	$(BIN)/python -m tests.evaluation.memory --data "$(DATA)" --embed $(or $(EMBED),simple) $(ARGS)

eval-routing: $(STAMP)
	@test -n "$(DATA)" || { echo "which data? make eval-routing DATA=FILE [EMBED=simple|local] [MODEL=id]" >&2; exit 2; }
	$(BIN)/python -m tests.evaluation.routing --data "$(DATA)" --embed $(or $(EMBED),simple) $(if $(MODEL),--model $(MODEL)) $(ARGS)

chaos: $(STAMP)
	$(BIN)/python -m tests.acceptance.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5) --tasks $(or $(TASKS),100) --each $(or $(EACH),1) $(if $(VICTIMS),--victims $(VICTIMS)) $(if $(DISKS),--full-disks $(DISKS)) $(if $(CLOCKS),--clocks) $(if $(HANDS),--hands)

# Who imports whom: ROOM=shared/memory for the modules of one folder, ARGS=--dot for Graphviz.
look: $(STAMP)
	@$(BIN)/python -m tests.architecture.look $(ROOM) $(ARGS)

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock:
	$(LOCK) --extra server --extra a2a --extra anthropic --extra code --extra local --extra mcp --extra stores --extra dev --output-file requirements.lock pyproject.toml
	$(LOCK) --no-annotate --extra server --extra anthropic --extra code --extra mcp --extra stores --constraint requirements.lock --output-file requirements-runtime.lock pyproject.toml
	echo hatchling | $(LOCK) --no-annotate --constraint requirements.lock --output-file requirements-build.lock -

# The console's libraries in one file, from their lock (services/gateway/console/README.md). Needs Node and npm.
console-vendor:
	cd services/gateway/console/vendor && npm ci --no-audit --no-fund && npm run bundle && rm -rf node_modules

# The pictures of the README, as the console draws them. Needs Chromium.
screenshots: $(STAMP)
	@mkdir -p docs/images
	SCREENSHOTS=$(CURDIR)/docs/images $(PYTEST) tests/acceptance/test_console.py -k pictures
