# Needs only make and Python 3.11 or newer; everything else goes into .venv.
#   make test PYTEST_ARGS="-n auto -k approvals"      make demo PYTHON=python3.13

PYTHON      ?= python3
PYTEST_ARGS ?= -n auto --dist worksteal

VENV    := .venv
BIN     := $(VENV)/bin
INSTALL  = $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

# Every process would compile the engine anew: the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check bench crash soak format constraints docs clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /make \1	/p' Makefile

demo: $(VENV)/.runtime ## a run is killed, resumed, approved and read, offline
	@$(BIN)/python docs/demo.py

test: $(VENV)/.dev ## all tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.dev ## formatter, linter, types, direction of imports
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

docs: $(VENV)/.runtime ## the parts of the docs that come from the code, written anew
	@$(BIN)/python docs/generate.py

bench: $(VENV)/.dev ## time per transition beside plain sqlite3
	$(BIN)/python -m tests.bench.rounds

crash: $(VENV)/.dev ## every commit, tool and fault in real processes; the table of docs/crash.md
	$(BIN)/python -m tests.crash.matrix --write

soak: $(VENV)/.dev ## workers that are killed at random for a minute
	$(BIN)/python -m tests.soak.soak

format: $(VENV)/.dev ## format, and fix what the linter can
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

constraints: ## the newest versions that pyproject.toml allows, into constraints.txt
	$(PYTHON) -m venv --clear build/constraints
	build/constraints/bin/python -m pip install --disable-pip-version-check -q -e '.[dev]'
	build/constraints/bin/python -m pip check
	{ echo "# Written by 'make constraints': every package of .[dev] at the version that was tested."; \
	  build/constraints/bin/python -m pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/constraints

clean: ## remove all that make has made; databases in data/ stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A .venv whose interpreter has gone is made again, and so is what was installed into it.
ifneq ($(shell test -x $(BIN)/python || echo gone),)
.PHONY: $(VENV)/pyvenv.cfg
endif

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Stepwell needs Python 3.11 or newer, and $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one, for example: make demo PYTHON=python3.13" >&2; exit 1; }
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.runtime: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing the runtime into $(VENV) ..."
	@$(INSTALL) -e .
	@touch $@

# Holds the runtime too, so that one installation serves every target.
$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing the runtime and what the tests need into $(VENV) ..."
	@$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.runtime $@
