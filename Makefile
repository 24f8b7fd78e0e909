# `make demo` and `make test` work on a machine that has only Python (3.11+) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types clean help

help:
	@echo "make demo   install, then reproduce the paper's examples"
	@echo "make test   install, then run the tests"
	@echo "make lint   ruff;  make types  mypy;  make clean  remove the environment"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lookrep needs Python 3.11 or newer; try make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,lint]'
	@touch $@

demo: $(STAMP)
	$(BIN)/lookrep exact two-state --figure out/figure1.png
	$(BIN)/lookrep exact two-state-two-spaces --figure out/figure8.png

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

clean:
	rm -rf $(VENV)
