# Needs only make and Python 3.11 or newer; everything else goes into .venv.
#   make test PYTEST_ARGS="-n auto -k approvals"      make demo PYTHON=python3.13

PYTHON      ?= python3
PYTEST_ARGS ?= -n auto --dist worksteal

VENV    := .venv
BIN     := $(VENV)/bin
INSTALL  = $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

# Otherwise each of the hundreds of processes in the tests would compile the engine.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check bench crash soak format constraints docs clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1	/p' Makefile

demo: $(VENV)/.runtime ## kill, resume, approve and read a run; offline after the installation
	@$(BIN)/python docs/demo.py

test: $(VENV)/.dev ## run all tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.dev ## check formatting, lint, types and the direction of imports
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

docs: $(VENV)/.runtime ## rewrite the parts of the docs that come from the code
	@$(BIN)/python docs/generate.py

bench: $(VENV)/.dev ## measure the time per transition, compared with plain sqlite3
	$(BIN)/python -m tests.bench.rounds

crash: $(VENV)/.dev ## try every commit, tool and fault in real processes; write the table of docs/crash.md
	$(BIN)/python -m tests.crash.matrix --write

soak: $(VENV)/.dev ## kill workers at random for a minute
	$(BIN)/python -m tests.soak.soak

format: $(VENV)/.dev ## format the code and fix lint errors
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

constraints: ## write the newest versions that pyproject.toml allows to constraints.txt
	$(PYTHON) -m venv --clear build/constraints
	build/constraints/bin/python -m pip install --disable-pip-version-check -q -e '.[dev]'
	build/constraints/bin/python -m pip check
	{ echo "# Written by 'make constraints': every package of .[dev] at the version that was tested."; \
	  build/constraints/bin/python -m pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/constraints

clean: ## remove everything that make created; databases in data/ stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# If the interpreter of .venv no longer exists, .venv is created and filled again.
ifneq ($(shell test -x $(BIN)/python || echo gone),)
.PHONY: $(VENV)/pyvenv.cfg
endif

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Stepwell needs Python 3.11 or newer, and $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Choose another one, for example: make demo PYTHON=python3.13" >&2; exit 1; }
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.runtime: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing the runtime into $(VENV) ..."
	@$(INSTALL) -e .
	@touch $@

# Includes the runtime, so that one installation serves every target.
$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing the runtime and the test packages into $(VENV) ..."
	@$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.runtime $@
