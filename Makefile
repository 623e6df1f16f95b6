# Every target sets up what it needs; nothing else is assumed but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint lint-types lint-rest pytest docs docs-serve peers soak fuzz audit bench bench-parts clean help

help:
	@echo "make run    set up, then ask a local language model a question about the files here"
	@echo "make test   everything that CI runs: lint, then all tests"
	@echo "make lint   style, types and layers only"
	@echo "make pytest the tests only, in WORKERS=2 processes"
	@echo "make docs   the site, in site/; make docs-serve shows it on 127.0.0.1:8000 while you write"
	@echo "make peers  run the programs in other libraries that the pages show; downloads each library, once"
	@echo "make soak   200 agents that are called, stopped and steered at random, for ten virtual minutes and a real one;"
	@echo "            before, 200 processes are killed and resumed on each store: files, SQLite, PostgreSQL, Redis,"
	@echo "            300 while they index a folder, and runs are cut off at every moment, of which the tests take some"
	@echo "make fuzz   run the fuzzers with new random input for SECONDS=600"
	@echo "make audit  check the installed packages for known vulnerabilities (needs the advisory data)"
	@echo "make bench  costs beside a bare asyncio loop and other libraries, each of which it downloads once; writes the"
	@echo "            tables and pictures of docs/performance.md; QUICK=1: a small form, which writes nothing"
	@echo "make bench-parts  further costs beside the bare loop, those of traces, and what retrieval finds,"
	@echo "            of which the first run takes minutes longer, because it embeds and downloads two packages"
	@echo "make clean  remove the virtual environment and caches"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; say which with: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# Stamps: an environment is made again when what it is made from has changed.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "Installing agentscope-rx with its command line and local model (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -e '.[cli]'
	@$(BIN)/agentscope-rx setup-local
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing agentscope-rx for development (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -e '.[dev]'
	@$(BIN)/agentscope-rx setup-local
	@touch $@

run: $(VENV)/.run
	@$(BIN)/agentscope-rx ask --model local:smollm2 "$(QUESTION)"

QUESTION ?= Read examples/data/ferry.txt: what does a ticket cost?

# Two at once: the types take one processor, and most of the time.
lint: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 lint-types lint-rest

lint-types: $(VENV)/.dev
	$(BIN)/basedpyright

lint-rest: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# of the environment whose Python comes first in PATH
	PATH="$(CURDIR)/$(BIN):$$PATH" basedpyright --verifytypes agentscope_rx --ignoreexternal > $(VENV)/.types || { cat $(VENV)/.types; exit 1; }
	$(BIN)/lint-imports

test: lint pytest

# Each worker gets a row of neighbouring tests, and takes from the other's row when its own is done.
WORKERS ?= 2

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=15

# Without the other tools for development, so that it is quick.
$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@echo "Installing agentscope-rx with what its site is built with (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html"

docs-serve: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

# PEER=langgraph: only the programs of that library.
peers: $(VENV)/.dev
	$(BIN)/python -m tests.docs.peers $(PEER)

soak: $(VENV)/.dev
	EVERY_MOMENT=1 $(BIN)/python -m pytest -q tests/agent/durable tests/pipeline/test_every_moment.py tests/sub_agents/test_durable.py
	$(BIN)/python -m tests.soak --kills 200 --indexing 300 --rounds 2000 --lives 100 --virtual 600 --real 60

SECONDS ?= 600

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.security.fuzz --seconds $(SECONDS)

audit: $(VENV)/.dev
	$(BIN)/python -m tests.security.audit

# PEER=langgraph: the bare loop, the engine and this library only, which writes nothing either.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.compare $(if $(QUICK),--quick) $(if $(PEER),--only $(PEER))

bench-parts: $(VENV)/.dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-* site .hypothesis .ruff_cache .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
