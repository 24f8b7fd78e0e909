# `make demo` and `make test` work on a machine that has only Python (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := out/demo
# Short, so that it fits a demo: exploration ends early. Not the settings of a real run.
DEMO_RUN := minatar/breakout --agent rainbow --agents 2 --steps 20_000 --log-interval-steps 4_000 \
	--warmup-steps 1_000 --epsilon-decay-steps 8_000 --seed 0

.PHONY: help demo test lint types clean

help:
	@echo "make demo   install, then the paper's two exact examples and a short MinAtar training"
	@echo "make test   install, then the tests"
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
	@echo "2. Two Rainbow agents on MinAtar, with a copied target, then with a learned one (too short to compare them)."
	$(BIN)/lookrep train $(DEMO_RUN) --target hard --out $(DEMO)/hard
	$(BIN)/lookrep train $(DEMO_RUN) --target replicate --replicate-updates 250 --out $(DEMO)/replicate
	@echo
	@echo "3. How well they play."
	$(BIN)/lookrep eval $(DEMO)/hard
	$(BIN)/lookrep eval $(DEMO)/replicate
	@echo
	@echo "Figures: $(DEMO)/figure1.png and figure8.png. Runs: $(DEMO)/hard and $(DEMO)/replicate (metrics.jsonl in each)."
	@echo "Next: $(BIN)/lookrep play $(DEMO)/replicate --video $(DEMO)/replicate.gif, and README.md"

# A file's tests share what they compile, so they stay in one process.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

clean:
	rm -rf $(VENV)
