# Needs python3 (3.11 or later) and make; everything else is installed into $(VENV).

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
SEEDS ?= 10000

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO := .demo
SECRET := $(DEMO)/data/resume-token.secret

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo lint docs format test test-slow test-broker test-browser bench simulate mutation soak clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

venv: $(INSTALLED) ## install the package and the development tools

# pip before 25.1 does not know dependency groups, so it goes first.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

demo: $(INSTALLED) ## 1,000 payments through an await boundary, from file to file
	@rm -rf $(DEMO) && mkdir -p $(DEMO)/data
	@umask 077 && $(PYTHON) -c 'import secrets; print(secrets.token_urlsafe(32))' > $(SECRET)
	PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET="$$(cat $(SECRET))" \
	$(BIN)/tpf-streams run topologies/csv_payments/pipeline.yaml \
		--input topologies/csv_payments/data/payments_1k.csv \
		--output-dir $(DEMO)/out --data-dir $(DEMO)/data --simulate-provider reject=0.08

lint: $(INSTALLED) ## ruff, mypy and the import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(INSTALLED) ## write the tables of README and the JSON Schema anew from the code
	$(BIN)/python -m tests.architecture.generated

format: $(INSTALLED) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Long and short tests lie side by side, so an idle worker takes over what the other has not begun.
test: lint ## lint, then every test that needs nothing but this machine
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal -m 'not broker and not slow and not browser'

test-slow: $(INSTALLED) ## the tests too long for every change
	$(BIN)/pytest -m 'slow and not broker' --timeout 3600

# One broker serves them all, so they run one after another.
test-broker: $(INSTALLED) ## the tests that need a running Apache Kafka
	$(BIN)/pytest -m broker

# Where the packages are missing every one of them fails, and says which.
test-browser: $(INSTALLED) ## the pages in headless Chromium; needs Debian's chromium and chromium-driver
	$(BIN)/pytest -m browser

bench: $(INSTALLED) ## figures of this machine: rate, latency, memory, window
	$(BIN)/python -m tests.benchmarks --all
	$(BIN)/python -m tests.benchmarks.kafka
	$(BIN)/python -m tests.benchmarks.telemetry

simulate: $(INSTALLED) ## the seeded simulation, SEEDS=n of them
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

mutation: $(INSTALLED) ## small wrongs put into the machine, and whether its tests see them; an hour at most
	$(BIN)/python -m tests.mutation

soak: $(INSTALLED) ## workers on Kafka through 20 kills, then the simulation without end, on from where it stopped
	$(BIN)/python -m tests.e2e.fleet --kills 20
	$(BIN)/python -m tests.simulation --soak .cache/soak

clean: ## remove what these targets made
	rm -rf $(VENV) $(DEMO) .try .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist build
	find tpf_streams topologies tests -name __pycache__ -type d -prune -exec rm -rf {} +
