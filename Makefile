# Each target makes its own .venv from the pinned constraints: a fresh machine needs Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What `make test` installs, both kinds of clusters included; the continuous integration adds oracle: other people's
# implementations to compare with.
EXTRAS ?= all,test,dask,ray
STAMP := $(VENV)/.installed
# A worker for each core and one more, because some tests wait, but eight at the most: each may take two gigabytes. Idle
# ones take tests over from busy ones.
WORKERS = $(shell $(PYTHON) -c "import os; print(min(8, 1 + (os.cpu_count() or 1)))")
PARALLEL = -n $(WORKERS) --dist worksteal
PYTEST = $(BIN)/python -m pytest $(PARALLEL) --cov --cov-report=

.PHONY: demo test quick lint campaign clean

# Six small models on the generated graph `patterns`, from training to the report: about two minutes on two cores.
demo: $(STAMP)
	$(BIN)/relens run patterns

test: $(STAMP)-test
	rm -f .coverage .coverage.*
	$(PYTEST)
	# Compiled kernels are invisible to coverage: run those tests once more as plain Python.
	NUMBA_DISABLE_JIT=1 $(PYTEST) --cov-append -m kernels
	# And once compiled with checks of every index, which a cache of its own keeps apart from kernels without them.
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/numba-checked $(BIN)/python -m pytest $(PARALLEL) -m kernels
	$(BIN)/coverage report --skip-covered --fail-under=90

# A minute on two cores: one look at every package.
quick: $(STAMP)-test
	$(BIN)/python -m pytest $(PARALLEL) -m quick

lint: $(STAMP)-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Attacks on a tiny graph: kills, damaged and hostile files, full disks, lost machines, floods. Half an hour on two cores.
SEED ?= 0
campaign: $(STAMP)-test
	$(BIN)/python -m campaigns --seed $(SEED) --output out/campaigns-$(SEED).json

clean:
	rm -rf $(VENV) .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "relens needs Python 3.11 or newer, found: $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(BIN)/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[all]'
	touch $@

$(STAMP)-test: $(STAMP)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@

$(STAMP)-lint: $(STAMP)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[lint]'
	touch $@
