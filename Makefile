# Every verb makes .venv and installs what it needs; nothing but make and Python >= 3.11 has to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt  # only what is imported is compiled, then
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
unexport PYTHONDONTWRITEBYTECODE  # tests start many processes, which had to compile every module anew

.DEFAULT_GOAL := help
.PHONY: help demo test test-wide test-slow test-clients test-lowest test-extras test-package test-browser notebooks test-faults check format docs bench bench-sweeps clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python >= 3.11 is needed; got " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[bench,rl,data]"
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) -e ".[bench,rl,data,cluster,accounting,secure,pandas,report,service,tune,notebooks,browser,dev]"
	@touch $@

$(VENV)-docs/.made: pyproject.toml constraints.txt | $(BIN)/python  # apart, so that what the extra lacks is seen
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[docs]"
	@touch $@

demo: $(VENV)/.run  ## play private agents beside others on four bandit families (about two minutes; a first figure in seconds)
	$(BIN)/privbandit run --env privbandit/Linear-v0 --agent uniform --agent linucb --agent jdp-linucb --seeds 5 \
	  --set dim=5 --users 20000 --out runs/first
	$(BIN)/privbandit run demo
	$(BIN)/privbandit frontier runs/demo

test: $(VENV)/.dev  ## run the tests
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not wide"

test-wide: $(VENV)/.dev  ## run long checks, and checks of `make test` again in further worlds and at further budgets (about a quarter of an hour)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "wide and not slow"

test-slow: $(VENV)/.dev  ## run the long statistical studies
	$(BIN)/python -m pytest -n auto -m slow

test-browser: $(VENV)/.dev  ## look at the report page, TensorBoard and the built documentation in Chromium, where there is one
	$(BIN)/python -m pytest -rs -m "slow or not slow" tests/browser

CLIENTS := coba contextualbandits mabwiser vowpalwabbit bayesianbandits sb3-contrib seaborn wandb optuna
OWN := -m pip install --quiet --disable-pip-version-check

test-clients: $(BIN)/python  ## run examples/clients with the libraries that docs/clients.md names, in an environment of their own
	$(PYTHON) -m venv $(VENV)-clients
	$(VENV)-clients/bin/python $(OWN) -c constraints.txt -e ".[bench,data,pandas]" pytest pytest-timeout hypothesis
	for client in $(CLIENTS); do $(VENV)-clients/bin/python $(OWN) -c constraints.txt $$client \
	  || echo "$$client cannot be installed here; its blocks are skipped"; done
	$(VENV)-clients/bin/python $(OWN) "mlflow-skinny>=3" sqlalchemy alembic || echo "mlflow cannot be installed here"
	$(VENV)-clients/bin/python -m pytest -rs -m "slow or not slow" tests/clients

test-lowest: $(BIN)/python  ## run the core's conformance suites with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python .ci/lowest.py bench data > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python $(OWN) -r $(VENV)-lowest/lowest.txt pytest pytest-timeout hypothesis
	$(VENV)-lowest/bin/python $(OWN) --no-deps -e .
	$(VENV)-lowest/bin/python -m pytest -rs -m "not slow" $(addprefix tests/, envs/test_conformance.py envs/test_gymnasium.py \
	  envs/test_spaces.py envs/test_wrappers.py agents/test_conformance.py agents/playing/test_play.py)

test-extras:  ## run commands with the core alone, and with each light extra alone, in environments of their own
	$(PYTHON) .ci/extras.py

test-package:  ## build the source archive and the wheel, install each elsewhere, and run README's commands from the archive
	$(PYTHON) .ci/package.py

notebooks: $(VENV)/.dev  ## run every notebook
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow tests/test_notebooks.py

test-faults: $(VENV)/.dev  ## attack the project by kills, full disks, hostile records, broken servers and files, and signals at 40 moments of eight commands (long)
	$(BIN)/python tests/faults/run.py

check: $(VENV)/.dev  ## lint, format and types; name tables of the docs that are older than what makes them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python .ci/stale.py

format: $(VENV)/.dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)-docs/.made  ## build the documentation into site/; python -m http.server -d site shows it
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict

bench: $(VENV)/.run  ## measure speed, memory and noise; tables of regret: privbandit reproduce envelope-linear, ...
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/steps.py
	$(BIN)/python benchmarks/cost.py
	$(BIN)/python benchmarks/trees.py
	$(BIN)/python benchmarks/privacy.py

bench-sweeps: $(VENV)/.dev  ## measure what sweeps cost beyond their trials, and what kills cost (about fifteen minutes)
	$(BIN)/python benchmarks/sweeps.py

clean:  ## remove what was made
	rm -rf $(VENV) $(VENV)-docs $(VENV)-clients $(VENV)-lowest $(VENV)-extras build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
