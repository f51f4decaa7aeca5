# `make demo` and `make test` need Python 3.11 or newer and nothing else: each makes .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-slow lint bench clean

demo: $(READY)
	$(BIN)/tag2box demo --out demo

test: $(READY)
	$(BIN)/python -m pytest

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# VOC=VOCdevkit/VOC2007 measures the proposals too.
bench: $(READY)
	$(BIN)/python benchmarks/evaluation_speed.py
	$(BIN)/python benchmarks/sampler_speed.py
	$(BIN)/python benchmarks/training_cost.py --device cpu
	$(if $(VOC),$(BIN)/python benchmarks/proposal_presets.py $(VOC))

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv build dist demo
