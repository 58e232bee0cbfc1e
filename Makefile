# Each command says what it does; a .venv is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
export HF_HUB_OFFLINE ?= 1
unexport PYTHONDONTWRITEBYTECODE  # each of many processes would compile the package again

.DEFAULT_GOAL := help
.PHONY: help setup demo test style quality docs dist bench clean codex claude clean-ai

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/.core: pyproject.toml constraints.txt setup.py $(wildcard src/lockstep/kernels/native/*)
	@echo "== making $(VENV) with $$($(PYTHON) --version), torch and Lockstep (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@echo "== installing torch" && $(PIP) torch
	@echo "== installing Lockstep and what it needs" && $(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "== installing the test tools and the references (transformers, diffusers)" && $(PIP) --editable '.[test,quality]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@echo "== installing what makes the site" && $(PIP) --editable '.[docs]'
	@touch $@

setup: $(VENV)/.core  ## make .venv with Lockstep in it
	@echo "== ready: $(BIN)/lockstep --help"

demo: $(VENV)/.core  ## make a sheet of pictures with the embedded model
	@echo "== drawing a sheet of pictures with the embedded model"
	@OMP_WAIT_POLICY=passive $(BIN)/lockstep demo

test: $(VENV)/.test  ## run the tests (RUN_SLOW=1 adds the slow ones)
	@echo "== running the tests on $$(nproc) processes"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -q $(TESTS)

style: $(VENV)/.test  ## put the code into its format
	@$(BIN)/ruff format src tests benchmarks examples tools && $(BIN)/ruff check --fix src tests benchmarks examples tools

quality: $(VENV)/.test  ## check format, lint, types, generated stubs and the rules of the house
	@echo "== format and lint" && $(BIN)/ruff format --check src tests benchmarks examples tools && $(BIN)/ruff check src tests benchmarks examples tools
	@echo "== types" && $(BIN)/mypy
	@echo "== generated stubs" && $(BIN)/python -m lockstep.blocks.stubs --check
	@echo "== rules of the house" && $(BIN)/python -m tools.quality

docs: $(VENV)/.docs  ## build the documentation as a site into site/: open site/index.html
	@echo "== building the site; a broken link or a page that nobody finds is an error"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "== open site/index.html"

dist: $(VENV)/.test  ## build the wheel and the source distribution into dist/
	@echo "== building the source distribution, and the wheel from it"
	@rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist . >/dev/null && ls -sh dist
	@echo "== do the extras resolve together? (lockstep-diffusion[all])"
	@$(PIP) --dry-run "lockstep-diffusion[all] @ file://$$(ls $(CURDIR)/dist/*.whl)"

bench: $(VENV)/.test  ## run the benchmarks side by side with their peers
	@$(BIN)/python -m benchmarks

clean:  ## remove .venv and caches
	@echo "== removing $(VENV) and caches"
	@rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache build dist site src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

codex:  ## link the guides of .ai/ where Codex looks for them
	@echo "== linking .ai/ for Codex"
	@mkdir -p .agents && rm -rf .agents/skills
	@ln -snf .ai/AGENTS.md AGENTS.md && ln -snf ../.ai/skills .agents/skills

claude:  ## link the guides of .ai/ where Claude Code looks for them
	@echo "== linking .ai/ for Claude Code"
	@mkdir -p .claude && rm -rf .claude/skills
	@ln -snf .ai/AGENTS.md CLAUDE.md && ln -snf ../.ai/skills .claude/skills

clean-ai:  ## remove those links
	@echo "== removing the links to .ai/"
	@rm -f AGENTS.md CLAUDE.md .agents/skills .claude/skills
	@rmdir .agents .claude 2>/dev/null || true
