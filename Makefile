# Every command sets itself up: a virtual environment in .venv, made once and reused.
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: help install run test check bench format clean

help:
	@echo "make install set up .venv and no more; then: . $(BIN)/activate"
	@echo "make run     watch Ordered Memory learn ListOps from nothing, beside an LSTM (about five minutes)"
	@echo "make test    run the tests"
	@echo "make bench   measure the native engine beside memory.py (about twelve minutes on an idle machine)"
	@echo "make check   run the linters and the type checker"
	@echo "make format  format the code"
	@echo "make clean   remove the virtual environment"

install: $(VENV)/installed
	@echo "installed: . $(BIN)/activate, then om --help"

run: $(VENV)/installed
	$(BIN)/om demo

# A test that hangs outside Python hears no signal: after 400 seconds its process says where it is and ends, and another
# goes on with the rest.
test: $(VENV)/installed
	$(BIN)/python -m pytest -n 2 -o faulthandler_timeout=400 -o faulthandler_exit_on_timeout=true $(TESTS)

check: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed
	$(BIN)/om bench

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	@echo "setting up $(VENV) (once; PyTorch is a large download)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
