# The same few commands for people and machines. Everything runs in .venv, built from uv.lock.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
UV := .headrace/bootstrap/bin/uv
UV_VERSION := 0.13.9
RUN := .venv/bin/python
SYNC := UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy $(UV) sync --locked --quiet --all-extras
# Groups beyond dev that a target needs; the demo's texts are a dependency of the demo only.
ROWS ?=
MODEL ?= sim
PYTEST_ARGS ?=
# Two processes: all tests of Spark in one, the others wherever there is time. Both must find the same tests, some of
# which are named by sets.
PARALLEL ?= -n 2

# Compiled modules are kept, beside nobody's files: hundreds of processes would each compile all that they import.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.headrace/pycache
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-iceberg chaos bench check up-local down-local spark-zip

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(UV) ## Real texts through the whole pipeline on this machine (ROWS=2000|all, MODEL=sim|local)
	@$(SYNC) --group demo $(if $(filter local,$(MODEL)),--group local-model) $(POSTGRES_GROUP)
	@$(RUN) -m deploy.demo --rows "$(ROWS)" --model "$(MODEL)"

test: $(UV) ## The tests, with real Kafka, Postgres and Spark
	@$(SYNC) --group demo $(POSTGRES_GROUP)
	@PYTHONHASHSEED=0 $(RUN) -m pytest -m "not slow" $(PARALLEL) $(PYTEST_ARGS)

test-all: $(UV) ## The tests, and those that take long
	@$(SYNC) --group demo $(POSTGRES_GROUP)
	@$(RUN) -m pytest $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory test-iceberg

test-iceberg: $(UV) ## Sources and targets on the newest Spark that Iceberg has a jar for, in .headrace/iceberg
	@UV_PROJECT_ENVIRONMENT=.headrace/iceberg UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy \
	  $(UV) sync --locked --quiet --group iceberg $(POSTGRES_GROUP)
	@.headrace/iceberg/bin/python -m pytest -k iceberg tests/integration/test_backfill_run.py \
	  tests/spark/test_sources.py tests/spark/test_backfill_iceberg_target.py $(PYTEST_ARGS)

chaos: $(UV) ## A fleet under every fault at once, 20,000 messages, real leases (HEADRACE_SEED=n replays one)
	@$(SYNC) --group demo $(POSTGRES_GROUP)
	@HEADRACE_CHAOS=full $(RUN) -m pytest tests/chaos $(PYTEST_ARGS)

bench: $(UV) ## The figures: ours, reference, ratio, goal, on real services
	@$(SYNC) --group demo $(POSTGRES_GROUP)
	@status=0; for part in simulator worker limits producer backfill scale scrapers; do $(RUN) -m bench.$$part || status=1; done; exit $$status

check: $(UV) ## Format, lint, types, import rules
	@$(SYNC) --group demo
	@.venv/bin/ruff format --check . && .venv/bin/ruff check . && .venv/bin/mypy && .venv/bin/lint-imports

up-local: $(UV) ## Kafka and Postgres without Docker; their addresses go to .headrace/local.env
	@$(SYNC) $(POSTGRES_GROUP)
	@$(RUN) -m deploy.local up

down-local: ## Stop them; their data stay
	@$(RUN) -m deploy.local down

spark-zip: $(UV) ## dist/headrace-spark.zip for spark-submit --py-files
	@$(SYNC)
	@$(RUN) -m deploy.spark_zip

# The wheel with a Postgres server, where the machine has none.
POSTGRES_GROUP = $(shell command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo --group postgres)

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or newer is needed: install it, or name it with make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv .headrace/bootstrap || \
	  { echo "python3 -m venv failed: install your system's venv package (Debian: apt install python3-venv)" >&2; exit 2; }
	@.headrace/bootstrap/bin/pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)" || \
	  { echo "pip could not install uv $(UV_VERSION): check that this machine reaches its package registry" >&2; exit 4; }
