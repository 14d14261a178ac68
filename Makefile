# `make run` opens the debugger, `make test` runs every check; each sets up .venv when it is missing.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(name))))
BIN := .venv/bin
READY := .venv/up-to-date

.PHONY: run test

run: $(READY)
	$(BIN)/qdbg kernels/dot.cu

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2

# torch first and by itself: it is by far the largest download, and the rest resolves against it.
$(READY): pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "qdbg needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[dev]'
	touch $@
