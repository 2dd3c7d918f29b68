# Everything runs in .venv, which the first target that needs it makes with pinned versions.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2
# Further options of pytest: make test OPTIONS=--durations=30
OPTIONS ?=

# The workers share the cores, so each framework gets one thread in the tests.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1

# Plugins by name: pytest rewrites every module of a package that brings one, and deep_bench brings one.
PLUGINS := -p xdist.plugin -p _hypothesis_pytestplugin
# Tests start many processes: with bytecode kept, each of them is spared compiling deep_bench.
PYTEST := env -u PYTHONDONTWRITEBYTECODE PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(ONE_THREAD) $(BIN)/python -m pytest $(PLUGINS)

# What make test runs; make test-long and make test-full run what it leaves out.
NORMAL := not long and not full and not gpu

FRAMEWORKS := --on reference --on onnxruntime --on torch --on tensorflow

.PHONY: help demo test test-system test-long test-full test-gpu mpich row check bench coverage gradients corpus docs clean

help:
	@echo "make demo       the main job on the network that ships: is each framework right, and how fast?"
	@echo "make test       all tests but the longest: some ten minutes on two quiet cores"
	@echo "make test-long  what takes long, or repeats another test in a further framework or size: about as much again"
	@echo "make test-full  that, and the big tables whole: an hour"
	@echo "make test-system  the tests that need SLURM, SimGrid or Pango from the system"
	@echo "make mpich      the communicators over MPICH, which is installed beside"
	@echo "make row        run, report, compare, bundle and repeat a recipe in a new environment, as docs/howto/publish.md has it"
	@echo "make test-gpu   the tests that need a CUDA device"
	@echo "make check      lint, format, types, the import rule, the examples in the documentation"
	@echo "make bench      what deep_bench itself costs"
	@echo "make coverage   the standard's cases on every framework; writes docs/coverage.md"
	@echo "make gradients  the gradients of the standard's cases on every framework; writes docs/gradients.md"
	@echo "make corpus     how good the checker is, on the labelled corpus; writes docs/checking.md"
	@echo "make docs       the documentation, into build/docs"
	@echo "make clean      remove what was built here, .venv too; results/ stays"

$(INSTALLED): setup.py constraints.txt
	@test -x $(BIN)/python || { \
	    for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do \
	        if $$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2> /dev/null; then \
	            echo "making $(VENV) with $$python"; exec $$python -m venv $(VENV); \
	        fi; \
	    done; \
	    echo "no Python 3.11 to 3.13 with venv was found; install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "installing deep-bench and its pinned requirements into $(VENV); the first time this takes some minutes"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/deep-bench run digits-cnn

test: $(INSTALLED)
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "$(NORMAL)" $(OPTIONS)

test-long: $(INSTALLED)
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "long and not full and not gpu" $(OPTIONS)

test-full: $(INSTALLED)
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "(long or full) and not gpu" $(OPTIONS)

# What is skipped on a machine with Python alone: tests that need SLURM, SimGrid or Pango from the system.
ON_SYSTEM := tests/distributed/slurm tests/recipes/test_slurm.py tests/distributed/scaling/test_prediction.py tests/results/test_report.py

test-system: $(INSTALLED)
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "$(NORMAL)" $(ON_SYSTEM) $(OPTIONS)

# A second MPI beside Open MPI, in an environment of its own: each brings its own mpirun.
mpich: $(INSTALLED)
	@test -x build/mpich/bin/mpiexec || { \
	    $(BIN)/python -m venv build/mpich && \
	    build/mpich/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt mpich mpi4py pytest -e .; }
	DEEP_BENCH_MPICH=build/mpich/bin/mpiexec $(PYTEST) -q tests/distributed/communicators/test_mpi.py -k mpich

# Needs no .venv: it makes one of its own, and another one to repeat in.
row:
	tests/row.sh

test-gpu: $(INSTALLED)
	$(PYTEST) -m gpu

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -q tests/test_import_rule.py
	$(PYTEST) -q -n $(WORKERS) --doctest-modules --doctest-glob='*.md' deep_bench README.md $(wildcard docs/*.md docs/*/*.md)

bench: $(INSTALLED)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

# The command exits with 1 where a case is wrong that is no known fault; what it found is written all the same.
coverage: $(INSTALLED)
	@mkdir -p build
	-$(BIN)/deep-bench conformance $(FRAMEWORKS) --json build/as-is.json
	-$(BIN)/deep-bench conformance $(FRAMEWORKS) --frozen --json build/frozen.json
	$(BIN)/python -m deep_bench.testing.coverage build/as-is.json build/frozen.json > docs/coverage.md

gradients: $(INSTALLED)
	@mkdir -p build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt onnx-ad
	-$(BIN)/deep-bench conformance --kind node $(FRAMEWORKS) --json build/outputs.json
	-$(BIN)/deep-bench conformance --gradients $(FRAMEWORKS) --json build/gradients.json
	-cd benchmarks && ../$(BIN)/deep-bench conformance --gradients --on onnx_ad_peer:OnnxAd --json ../build/peer.json
	$(BIN)/python -W ignore -m deep_bench.testing.agreement reference onnxruntime torch tensorflow > build/agreement.json
	$(BIN)/python -m deep_bench.testing.gradient_coverage build/gradients.json build/peer.json build/outputs.json build/agreement.json > docs/gradients.md

corpus: $(INSTALLED)
	$(ONE_THREAD) $(BIN)/python -m tests.corpus --write

# Needs no network. Each warning is an error, and all of them are shown.
docs: $(INSTALLED)
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs build/docs
	@echo "build/docs/index.html"

clean:
	rm -rf $(VENV) build docs/reference dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
