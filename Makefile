# Everything a newcomer needs: `make up`, `make test`. Each does its own set-up on a machine with python3.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
DIST ?= dist
unexport PYTHONDONTWRITEBYTECODE # starting from source each time would cost half a second

.DEFAULT_GOAL := help
.PHONY: help up test test-full tests check lint layers types fmt docs site fuzz bench lock manifests dist clean

help: ## what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Check that Python is new enough and that the virtual environment works. A first run that was interrupted may have left
# an incomplete one, which is replaced.
define environment
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Mooring needs Python 3.11 or newer, and $(PYTHON) is " \
	  + sys.version.split()[0] + ": name another one, as in  make $(MAKECMDGOALS) PYTHON=python3.12")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
	  { echo "Making a virtual environment in $(VENV) ..."; rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	@$(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
endef

$(RUNTIME): requirements.txt
	$(environment)
	@echo "Installing what Mooring needs ..."
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	@touch $@

$(READY): requirements-dev.txt
	$(environment)
	@echo "Installing what Mooring and its tests need ..."
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements-dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@ $(RUNTIME)

up: $(RUNTIME) ## a running control plane with example nodes; FLAGS="--port 7443" and so on
	@echo 'The command is $(BIN)/mooring; type  export PATH="$(CURDIR)/$(BIN):$$PATH"  to call it by name.'
	@$(BIN)/mooring up --nodes 5 $(FLAGS)

check: lint layers types ## lint, formatting, types and import layers

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

layers: $(READY)
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

# In a new clone, one process imports all tests before four processes run them: otherwise each of the four compiles the
# same files, which takes a minute of processor time. Four keep two cores busy, because many tests wait. The tests count
# the statements that they execute.
$(COMPILED) tests: export MOORING_COVERAGE := 1
$(COMPILED): $(READY)
	@tools/test_tools.sh
	@$(BIN)/pytest --numprocesses 0 --collect-only -qq >/dev/null 2>&1 || true # the next run reports what is wrong
	@touch $@

tests: $(COMPILED)
	@tools/test_tools.sh
	$(BIN)/pytest

# mypy runs beside the tests, because many tests wait: this saves a minute on a machine without mypy's cache.
test: $(READY) ## every check and every test
	@$(MAKE) --no-print-directory --jobs 2 check tests

test-full: export MOORING_FULL := 1
test-full: test ## the same with the tests that take minutes

fmt: $(READY) ## format, and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY) ## write the pages that are made from the code
	$(BIN)/python docs/generate.py

site: $(READY) requirements-docs.txt ## the documentation as a site, in build/site
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements-docs.txt
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open build/site/index.html"

FUZZ_SEEDS ?= 200
fuzz: $(READY) ## compare with a real Kubernetes on random input (MOORING_REAL=DIR); prints its seed
	@failed=0; $(BIN)/python -m mooring.testing.differential api --seeds $$(( $(FUZZ_SEEDS) * 10 )) $(FLAGS) || failed=1; \
	  $(BIN)/python -m mooring.testing.differential scheduling --seeds $(FUZZ_SEEDS) $(FLAGS) || failed=1; exit $$failed

bench: $(READY) ## measure; see benchmarks/README.md
	$(BIN)/python -m benchmarks

lock: $(READY) ## update the pinned dependencies
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --python-version 3.11 pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --python-version 3.11 pyproject.toml --group dev -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --python-version 3.11 --group docs -o requirements-docs.txt

manifests: $(READY) ## write deploy/bridge from the Helm chart
	$(BIN)/python tools/manifests.py

dist: $(READY) ## a release in DIST: wheel, sdist, mooring.pyz, krew archive, chart, SBOM, checksums
	@$(BIN)/python tools/dist.py $(DISTFLAGS) $(DIST)

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache* .ruff_cache .pytest_cache .import_linter_cache build dist
