# Python 3.11 or newer and make are all that a machine needs; everything else comes from the locks in requirements/.

PYTHON ?= python3
UV ?= uv
FILES ?=
ARGS ?=
OUT ?= build/bench
SECONDS ?= 300
SEED ?= 1
PROCESSES ?= 2

BIN := .venv/bin
GEN := .venv-gen/bin
BENCH := .venv-bench/bin
OURS := shared job_api job_worker verification tests protos examples bench
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
LOCKED := --require-hashes --only-binary :all:
UV_COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --only-binary :all: \
	--no-header --no-annotate --no-emit-index-url

# Each process has servers of its own; a file's tests stay together and in order. On one core it is one process.
# ARGS="-n 0" runs all in pytest itself, as --pdb needs it.
SHARED_OUT := -n auto --maxprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install demo test check prove chaos check-deploy proto fmt bench lock clean

help: ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

install: .venv/installed ## Set up .venv from the locks

demo: .venv/installed ## Run the main job from end to end; FILES="a.pdf b.html" for documents of yours
	$(BIN)/baton demo $(FILES)

test: .venv/installed .venv-gen/installed ## Run every test but what takes long; ARGS="-k lease" for some of them
	$(BIN)/python -m pytest $(SHARED_OUT) $(ARGS)

check: .venv/installed .venv-gen/installed ## Check format, lint, types, imports, protos, generated code; run unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(OURS)
	$(BIN)/lint-imports
	$(GEN)/buf lint
	$(GEN)/buf format --diff --exit-code
	$(BIN)/python -m pytest tests/unit tests/architecture

prove: .venv/installed ## Run the tests that take long: many jobs, many kills
	$(BIN)/python -m pytest -m prove $(ARGS)

chaos: .venv/installed ## Put an embedded stack under fire: SECONDS=300 for case 10, SEED=1; ARGS="--json", "--record DIR"
	$(BIN)/baton verify --seconds $(SECONDS) --seed $(SEED) $(ARGS)

check-deploy: .venv/installed ## Check deploy/ with tools that a machine may lack: docker with compose
	$(BIN)/hadolint deploy/Dockerfile
	@docker compose version >/dev/null 2>&1 || { \
		echo "check-deploy: compose.yaml is not checked: docker with its compose plugin is missing" >&2; exit 1; }
	BATON_TOKEN_SECRET=checked BATON_TOKEN=checked POSTGRES_PASSWORD=checked REDIS_PASSWORD=checked \
		docker compose --file deploy/compose.yaml config --quiet

proto: .venv-gen/installed ## Generate shared/gen from protos/
	$(GEN)/python protos/generate.py

fmt: .venv/installed .venv-gen/installed ## Format Python and protos, and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(GEN)/buf format --write

bench: .venv/installed .venv-bench/installed ## Measure Baton beside pgqueuer; OUT=DIR for the results
	$(BIN)/python -m bench --out $(OUT) --peer-python $(BENCH)/python $(ARGS)

lock: ## Bring the locks up to date, with uv
	$(UV_COMPILE) --upgrade pyproject.toml --extra embedded requirements/product.in -o requirements/product.lock
	$(UV_COMPILE) --upgrade pyproject.toml requirements/image.in -o requirements/image.lock
	$(UV_COMPILE) --upgrade requirements/dev.in -o requirements/dev.lock
	$(UV_COMPILE) --upgrade requirements/gen.in -o requirements/gen.lock
	$(UV_COMPILE) --upgrade requirements/bench.in -o requirements/bench.lock

clean: ## Remove the environments and every cache
	rm -rf .venv .venv-gen .venv-bench build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# A new lock is installed into the environment that is there: laid over it, another Python would break it.
.venv/locked: requirements/product.lock requirements/dev.lock requirements/grpcurl.lock
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP_INSTALL) $(LOCKED) -r requirements/product.lock -r requirements/dev.lock
	$(BIN)/python $(PIP_INSTALL) --require-hashes --no-deps --no-build-isolation --use-pep517 -r requirements/grpcurl.lock
	touch $@

# The checkout itself: its entry points, and a path entry to its packages.
.venv/installed: .venv/locked pyproject.toml
	$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

.venv-gen/installed: requirements/gen.lock
	test -x $(GEN)/python || $(PYTHON) -m venv .venv-gen
	$(GEN)/python $(PIP_INSTALL) $(LOCKED) -r requirements/gen.lock
	touch $@

# The peer of `make bench`, apart from the product.
.venv-bench/installed: requirements/bench.lock
	test -x $(BENCH)/python || $(PYTHON) -m venv .venv-bench
	$(BENCH)/python $(PIP_INSTALL) $(LOCKED) -r requirements/bench.lock
	touch $@
