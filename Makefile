# `make demo` and `make test` work on a machine that has only Python (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := out/demo
# Short, so that it fits a demo: a few minutes on two cores. Not the settings of a real study.
DEMO_STUDY := minatar-targets --variant hard polyak replicate-all recipe --seeds 3 --steps 20_000
STUDIES := exact minatar-targets minatar-baselines minatar-kr minatar-recipe minatar-lag minatar-horizon minatar-width \
  minatar-scaling-tuning minatar-scaling minatar-methods-tuning minatar-methods minatar-resets minatar-trust \
  minatar-small-targets minatar-distilled network-pairs paper-ablation paper-kr paper-norms paper-55 paper-readings \
  atari-parity

.PHONY: help demo test smoke chaos fuzz torch lint types docs readme wheel clean

help:
	@echo "make demo   install, then the paper's two exact examples, a small study on MinAtar, and its report"
	@echo "make test   install, then the tests"
	@echo "make smoke  install, then every built-in study in its smallest size (10 to 20 minutes)"
	@echo "make chaos  54 kills at least, damaged files, full disks, two writers and signals, with a table (15 minutes)"
	@echo "make fuzz   10,000 wrong settings, files and command lines"
	@echo "make docs   the guides, reference and results as a site with search: out/site/index.html"
	@echo "make readme README.md's commands as they stand, in a fresh copy and environment"
	@echo "make wheel  the wheel in empty environments, alone and with [train]"
	@echo "make torch  the recipe for PyTorch beside ours, with torch in an environment of its own"
	@echo "make lint   ruff;  make types  mypy;  make clean  remove the environment"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lookrep needs Python 3.11 or newer; try make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,lint]'
	@touch $@

demo: $(STAMP)
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	@echo "1. The paper's two examples, solved exactly: both networks learn the same values with different parameters."
	$(BIN)/lookrep exact two-state --figure $(DEMO)/figure1.png
	$(BIN)/lookrep exact two-state-two-spaces --figure $(DEMO)/figure8.png
	@echo
	@echo "2. A small study: Rainbow on MinAtar breakout with four target updates (too short to tell which is best)."
	$(BIN)/lookrep study run $(DEMO_STUDY) --out $(DEMO)/study
	@echo
	@echo "3. Its report."
	$(BIN)/lookrep report $(DEMO)/study -o $(DEMO)/report.html
	@echo
	@echo "Open $(DEMO)/report.html in a browser. Figures of the exact examples: $(DEMO)/figure1.png and figure8.png."
	@echo "Next: README.md, and docs/results/minatar.md for what real studies say."

# A file's tests share what they compile, so they stay in one process.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

smoke: $(STAMP)
	@rm -rf out/smoke
	for study in $(STUDIES); do $(BIN)/lookrep study run $$study --size smoke --out out/smoke/$$study || exit 1; done

# CHAOS=--seed=N repeats a failure.
chaos: $(STAMP)
	PYTHONPATH=benchmarks $(BIN)/python -m chaos $(CHAOS)

fuzz: $(STAMP)
	LOOKREP_FUZZ=1200 $(BIN)/python -m pytest tests/test_fuzz.py tests/test_fuzz_commands.py

# PyTorch is large, and lookrep itself is JAX: the recipe for it is tested in an environment of its own.
torch:
	$(PYTHON) -m venv out/torch
	out/torch/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch --editable '.[test]'
	out/torch/bin/python -m pytest tests/test_examples.py -k torch

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Open out/site/index.html, or have it served: $(BIN)/mkdocs serve"

readme:
	PYTHON=$(PYTHON) .ci/readme

wheel:
	PYTHON=$(PYTHON) .ci/wheel

clean:
	rm -rf $(VENV)
