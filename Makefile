# All of Zoea's errands. Each makes or updates .venv first, as far as needed.
SHELL := /bin/sh
VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip --disable-pip-version-check --quiet
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
# What judges the pages' accessibility, their HTML, and how MCP is spoken; in tests only.
AXE := $(VENV)/axe/node_modules/axe-core/axe.min.js
HTML := $(VENV)/html/node_modules/.bin/html-validate
CONFORMANCE := $(VENV)/conformance/node_modules/.bin/conformance
CHECKED := zoea agents memory sandbox bench tests

# Some programs of ours start others by the dozen: what is compiled once is kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help up test lint bench bench-fleet bench-peers chaos soak

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

up: $(RUN) ## run everything and print the sign-in link (ARGS="--port 8001 --myses 12")
	@exec $(PYTHON) manage.py up $(ARGS)

test: $(if $(ARGS),$(DEV),lint) $(AXE) $(HTML) $(CONFORMANCE) ## lint, then all tests; with ARGS="tests/memory -k search" those alone
	@$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

# Mypy in two processes, while a third compiles the tests.
lint: $(DEV) ## style, templates, types, layers, migrations, deployment checks; loads the tests
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(VENV)/bin/djangofmt --check templates
	@$(VENV)/bin/djangofmt check templates
	@$(PYTHON) -m pytest --collect-only -qq >$(VENV)/collected || \
		{ cat $(VENV)/collected; exit 1; } & collecting=$$!; \
	$(PYTHON) -m mypy --strict -n 2 $(CHECKED); status=$$?; \
	wait $$collecting && exit $$status
	@PYTHONPATH=. $(VENV)/bin/lint-imports
	@ZOEA_DATA=$$(mktemp -d) && export ZOEA_DATA && trap 'rm -rf "$$ZOEA_DATA"' EXIT && \
	$(PYTHON) manage.py makemigrations --check --dry-run && \
	$(PYTHON) manage.py check --deploy --fail-level WARNING

bench: $(DEV) ## measure core, turns, surfaces and pages (ARGS="core")
	@$(PYTHON) -m bench $(ARGS)

bench-fleet: $(DEV) ## fly one fleet under several kinds of context (ARGS="--ticks 300")
	@$(PYTHON) -m bench loop $(ARGS)

bench-peers: $(DEV) ## measure the log beside other libraries' stores (ARGS="--only langgraph")
	@$(PYTHON) -m bench peers $(ARGS)

chaos: $(DEV) ## let everything go wrong at once (ARGS="--myses 50 --turns 200")
	@$(PYTHON) -m bench faults chaos $(ARGS)

soak: $(DEV) ## load a fleet for 20 minutes, and a database of 3,000,000 memories (ARGS="--only load")
	@$(PYTHON) -m bench load $(ARGS)

$(RUN): requirements.txt | $(PYTHON)
	@echo "Installing requirements ..."
	@$(PIP) install -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt $(RUN)
	@echo "Installing requirements for development ..."
	@$(PIP) install -r requirements-dev.txt
	@touch $@

$(AXE): JUDGE := axe axe-core@4.10.3
$(HTML): JUDGE := html html-validate@10.17.0
# Later ones want a newer Node than Debian's.
$(CONFORMANCE): JUDGE := conformance @modelcontextprotocol/conformance@0.1.13
$(AXE) $(HTML) $(CONFORMANCE): | $(PYTHON)
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/$(JUDGE) || \
		echo "Without npm the tests with $(lastword $(JUDGE)) are skipped."

# The first Python that is new enough; name another with WITH=/path/to/python3.12.
$(PYTHON):
	@for python in $(WITH) python3.11 python3 python3.12 python3.13 python3.14 python; do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		"$$python" -m venv $(VENV) && exit 0; \
		rm -rf $(VENV); \
		echo "$$python cannot make a virtual environment: install its venv module" \
			"(on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; \
	done; \
	echo "Zoea needs Python 3.11 or newer, and none was found: install it, or name" \
		"one with make WITH=/path/to/python3.12 up." >&2; exit 1
