# Two commands: `make demo` and `make test`. Both make their own environment and need Python 3.11, venv and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
ARCH ?= sm_80,sm_86,sm_90
PYTEST_ARGS ?=
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test check-deep lint types reference clean

help: ## this text
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.base ## build examples/conv1d.py for three architectures, with no GPU and no model
	$(BIN)/hybridcc build examples/conv1d.py -o $(OUT)/ --arch $(ARCH) --select proved

test: lint types $(VENV)/.test ## lint, types and every test but the slow ones
	$(BIN)/python -m pytest -m "not slow" -n auto --dist loadgroup $(PYTEST_ARGS)

check-deep: $(VENV)/.test ## the slow tests, full fuzz and mutation counts: hours; goes on where it was stopped
	$(BIN)/python -m pytest -n auto --dist loadgroup $(PYTEST_ARGS)
	$(BIN)/python -m tests.deep.fuzz_parser
	$(BIN)/python -m tests.deep.triton_ptx
	$(BIN)/python -m tests.deep.triton_dropin
	$(BIN)/python -m tests.deep.mutations
	$(BIN)/python -m tests.deep.executions
	$(BIN)/python -m tests.deep.seeds
	$(BIN)/python -m tests.deep.store_kills
	$(BIN)/python -m tests.deep.store_kills --journal delete

lint: $(VENV)/.test ## ruff, with the import rules of every room
	$(BIN)/ruff check .

types: $(VENV)/.test ## pyright
	$(BIN)/pyright --pythonpath $(BIN)/python

reference: $(VENV)/.base ## write docs/reference.md from the code
	$(BIN)/python docs/make_reference.py

clean: ## remove environment, output and caches
	rm -rf $(VENV) $(OUT) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hybridcc needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[model,mlir,test]'
	touch $@ $(VENV)/.base
