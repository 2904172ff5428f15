# Everything a newcomer needs: `make up`, `make test`. Each does its own set-up on a machine with python3.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
unexport PYTHONDONTWRITEBYTECODE # starting from source each time would cost half a second

.DEFAULT_GOAL := help
.PHONY: help up test test-full check fmt docs bench lock clean

help: ## what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python requirements-dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

up: $(READY) ## a running control plane with example nodes; FLAGS="--port 7443" and so on
	@$(BIN)/mooring up --nodes 5 $(FLAGS)

check: $(READY) ## lint, formatting, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check ## every check and every test
	$(BIN)/pytest

test-full: check ## the same with the tests that take minutes
	MOORING_FULL=1 $(BIN)/pytest

fmt: $(READY) ## format and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY) ## write the pages that are made from the code
	$(BIN)/python docs/generate.py

bench: $(READY) ## measure; see benchmarks/README.md
	$(BIN)/python -m benchmarks

lock: $(READY) ## resolve the dependencies anew
	$(BIN)/python -m pip install --quiet uv==0.13.7
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --python-version 3.11 pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --python-version 3.11 pyproject.toml --group dev -o requirements-dev.txt

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache* .ruff_cache .pytest_cache .import_linter_cache build dist
