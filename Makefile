# Two commands do everything on a fresh machine with Python 3.11+ and make:
#   make reproduce   venv, install, the paper's figures, a compiled function, a bound, a report in out/
#   make test        venv, install, formatting, lint, types, docs, tests
# and for daily work: make check (lint, types, the tests of what changed), make format, make bench, make fuzz, make mutants, make course
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= out
unexport PYTHONDONTWRITEBYTECODE  # the tests start many processes that read the same modules

.PHONY: reproduce test check wheel course fuzz mutants format bench clean
.DEFAULT_GOAL := help

help:
	@sed -n '2,5p' Makefile

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "capax needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# The stamps make second runs fast: nothing is reinstalled while these files stay the same.
# Most of the 21 000 modules that are installed are never imported, and to compile them all takes a
# minute: large parts that the tests import are compiled on all cores, the rest where it is imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
$(VENV)/.run-installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e .
	@touch $@

IMPORTED := torch sympy scipy pandas jax ray matplotlib sklearn beartype numpy fontTools mpmath _pytest \
  transformers pydantic playwright optax equinox IPython rich
NEVER    := '/(tests|testing|_inductor|physics|rllib|serve|llm|train|tune|data|autoscaler|models|async_api)/'
$(VENV)/.test-installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[dev,torch,ray]'
	# real checkpoints for the tests of the audit: their weights alone, none of what they require
	$(PIP) -c constraints.txt --no-deps rxnmapper sceptr & pip=$$!; \
	cd $(VENV)/lib/python*/site-packages && ../../../bin/python -m compileall -qq -j 0 -x $(NEVER) $(IMPORTED); wait $$pip
	@touch $@ $(VENV)/.run-installed

reproduce: $(VENV)/.run-installed
	$(BIN)/capax reproduce --out $(OUT)

# Types are checked and the docs built in what the tests leave of the cores, and said last. A warning
# of the docs is an error; they are built without listings of sources, which take most of the time
# and warn of nothing. Tests wait for processes and browsers a quarter of their time: one worker more
# than there are cores. Run as a module, the builder finds tools/formulas.py. Beside busy tests it
# once lost its watcher of files (zensical 0.0.73, November 2026): then it is started again.
docs := CAPAX_DOCS_WHOLE=false $(BIN)/python -m zensical build --strict >$(VENV)/.docs 2>&1
test: $(VENV)/.test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@nice -n 19 sh -c '$(BIN)/pyrefly check && { $(docs) || { grep -q "Watcher disconnected" $(VENV)/.docs && $(docs); } \
	  || { cat $(VENV)/.docs; exit 1; }; }' \
	  >$(VENV)/.beside 2>&1 & beside=$$!; \
	$(BIN)/python -m pytest -n $$(($(WORKERS) + 1)) --dist worksteal; tests=$$?; \
	wait $$beside; beside=$$?; cat $(VENV)/.beside; exit $$((tests | beside))

# Daily work, in a minute or so: the tests of what changed since the last commit, or the quick ones.
check: $(VENV)/.test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $$($(BIN)/python tests/changed.py)

# The package alone: built, installed from the registry and used in a clean environment, for each
# interpreter in PYTHONS.
PYTHONS ?= $(PYTHON)
wheel: $(VENV)/.test-installed
	$(BIN)/python -m hatchling build -t wheel -d $(OUT)/dist
	for python in $(PYTHONS); do sh tests/clean_environment.sh $$python $(OUT)/dist || exit 1; done

# The lessons in a kernel, as a reader runs them; the tests run the same cells without one.
course: $(VENV)/.test-installed
	$(BIN)/python tools/course.py

# Hostile input by the hundred thousand: formulas, files, stores, command lines. Bad cases are kept.
CASES   ?= 100000
WORKERS ?= $$(nproc 2>/dev/null || sysctl -n hw.ncpu)
fuzz: $(VENV)/.test-installed
	$(BIN)/python benchmarks/fuzz.py --cases $(CASES) --jobs $(WORKERS) --out $(OUT)/fuzz

# Faults planted in proofs, bounds and statistics: at least nine in ten must make a test fail.
MUTANTS ?= 440
mutants: $(VENV)/.test-installed
	$(BIN)/python benchmarks/mutants.py --whole --count $(MUTANTS) --jobs $(WORKERS) --keep $(OUT)/mutants

format: $(VENV)/.test-installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test-installed
	$(BIN)/capax bench

clean:
	rm -rf $(VENV) $(OUT) site
