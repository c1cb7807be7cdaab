# Everything that is done by hand: `make demo` opens the sandbox, `make test` passes the tests, `make test-all` is what CI
# runs.
# Needs python3 >= 3.11 and a package registry, nothing else. `make PYTHON=python3.13 test` takes another interpreter.

PYTHON ?= python3
VENV := .venv
RELEASE := .venv-release
BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --compile --require-hashes
COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet
CODE := bot handlers playbooks sandbox tests benchmarks

# Start-up time is a budget, and without bytecode it is twice as long.
unexport PYTHONDONTWRITEBYTECODE

MINUTES ?= 60
HOURS ?= 6
COMMANDS ?= 20000
INPUTS ?= 1000000

DIST := dist
SOURCE_CHECKS := $(patsubst %,tests/test_%.py,finding_codes project readme security texts) $(addprefix tests/,hami/test_vendors.py render/test_typed.py)

.PHONY: demo test test-all test-each lint bench soak hours fuzz lock manifest dist sbom audit clean

demo: $(VENV)/installed
	@$(BIN)/hami-bot demo

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto

# What CI runs: the checks of the source beside every test, also what `make test` leaves out of long enumerations.
test-all: $(VENV)/installed-dev
	+$(MAKE) --jobs=2 lint test-each

test-each: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal --enumerations=all

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest -n 0 --enumerations=source $(SOURCE_CHECKS)

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

# `make soak MINUTES=5 SEED=17 DATABASE=postgresql://…`: an hour of SQLite by default.
soak: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(DATABASE),--database $(DATABASE))

# One process of the bot for that many hours; its clocks move on between the questions.
hours: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.soak.hours --hours $(HOURS) --commands $(COMMANDS) $(if $(SEED),--seed $(SEED))

# `make fuzz INPUTS=10000 SEED=17`: what foreigners send, changed at random.
fuzz: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.fuzz --inputs $(INPUTS) $(if $(SEED),--seed $(SEED))

manifest: $(VENV)/installed
	$(BIN)/python -m handlers.manifest > deploy/slack-manifest.json

# The same commit gives the same bytes.
dist: $(VENV)/installed
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -d $(DIST)

# What the image is made of, as CycloneDX.
sbom: $(VENV)/installed $(RELEASE)/installed
	mkdir -p $(DIST) build
	sed "s/^dynamic = .*/version = \"$$($(BIN)/python -m hatchling version)\"/" pyproject.toml > build/pyproject.toml
	$(RELEASE)/bin/cyclonedx-py requirements --output-reproducible --pyproject build/pyproject.toml \
	    -o $(DIST)/sbom.cdx.json requirements.lock

# Known vulnerabilities of every locked package. Needs the internet.
audit: $(RELEASE)/installed
	$(RELEASE)/bin/pip-audit --require-hashes --disable-pip $(patsubst %,-r %,$(wildcard requirements*.lock))

# Resolves every dependency anew. Needs uv.
lock:
	$(COMPILE) --upgrade --all-extras pyproject.toml -o requirements.lock
	$(COMPILE) --upgrade --group build -o requirements-build.lock
	$(COMPILE) --upgrade --group dev -c requirements.lock -c requirements-build.lock -o requirements-dev.lock
	$(COMPILE) --upgrade --group release -o requirements-release.lock
	$(COMPILE) --upgrade --group bench -o requirements-bench.lock

clean:
	rm -rf $(VENV) $(RELEASE) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("python3 >= 3.11 is needed, this is " + sys.version if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) -r requirements.lock -r requirements-build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.lock
	$(INSTALL) -r requirements-dev.lock
	touch $@

$(RELEASE)/installed: requirements-release.lock
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.lock
	touch $@
