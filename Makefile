# Everything here needs python3 (3.11 to 3.14) with its venv module, and nothing else. `make test PYTHON=python3.13` chooses another one.
PYTHON ?= python3
FOLDER ?= deploy/sample-docs
PORT ?= 8700

SHOW_VERSION := import sys, pip; print("%d.%d" % sys.version_info[:2])
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
BIN := .venv/bin
STAMP := .venv/.installed-$(VERSION)
DOCS_BIN := .venv-docs/bin
DOCS_STAMP := .venv-docs/.installed-$(VERSION)
RUN_STAMP := .venv/.installed-to-run-$(VERSION)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
CHECK_PYTHON = case "$(VERSION)" in 3.11|3.12|3.13|3.14) ;; \
	*) echo "Livedex needs Python 3.11 to 3.14, $(PYTHON) is not: name one, as in make test PYTHON=python3.13" >&2; exit 1;; esac
MAKE_VENV = test "$$($(BIN)/python -c '$(SHOW_VERSION)' 2>/dev/null)" = "$(VERSION)" || $(PYTHON) -m venv --clear .venv
# What builds the package (setuptools) is pinned with the tools.
INSTALL_LIVEDEX = sed -n '/^setuptools==/,/[^\\]$$/p' requirements-dev.txt > .venv/requirements-build.txt \
	&& $(PIP) install --quiet --require-hashes --requirement .venv/requirements-build.txt \
	&& PYTHONWARNINGS=ignore $(PIP) install --quiet --no-deps --no-build-isolation --editable .
CODE := livedex pipeline consumers connectors migrations

.DEFAULT_GOAL := help
.PHONY: help run test test-unit coverage check deps lint-workflows fmt settings docs bench dist install lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(RUN_STAMP) ## start everything on a folder of sample documents, or on others: make run FOLDER=… PORT=…
	$(BIN)/livedex up $(FOLDER) --port $(PORT)

test: $(STAMP) ## run every test, three files at a time: most of them wait for servers and processes
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

test-unit: $(STAMP) ## run the tests that need no server
	$(BIN)/python -m pytest --numprocesses 2 -m unit tests/unit

coverage: $(STAMP) ## run every test and fail below the coverage floor of pyproject.toml; writes coverage.xml
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --cov --cov-report=term --cov-report=xml

check: $(STAMP) ## lint, format, types, direction of imports, dependencies, workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/hadolint deploy/Dockerfile
	@$(MAKE) --no-print-directory deps lint-workflows

deps: $(STAMP) ## check that every imported package is declared, and every declared one is used
	$(BIN)/deptry .
	$(BIN)/deptry . --exclude '\.venv|build' --ignore DEP002,DEP004

# zizmor works offline here. actionlint is a Go program that no pinned wheel contains: it runs if it is on the PATH or in .venv.
# With REQUIRE_ACTIONLINT=1, as on GitHub, Go builds it into .venv, and the check fails without it.
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
lint-workflows: $(STAMP) ## check everything in .github
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(BIN)/pre-commit validate-config
	$(BIN)/zizmor --offline --quiet --strict-collection --persona pedantic .github .pre-commit-config.yaml
	@PATH="$(CURDIR)/$(BIN):$$PATH"; \
	if [ "$(REQUIRE_ACTIONLINT)" = 1 ] && ! command -v actionlint >/dev/null; then GOBIN="$(CURDIR)/$(BIN)" go install $(ACTIONLINT) || exit; fi; \
	if command -v actionlint >/dev/null; then echo actionlint; actionlint; \
	else echo "actionlint is not installed, so its checks are left out; REQUIRE_ACTIONLINT=1 builds it with Go"; fi

fmt: $(STAMP) ## format, and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

settings: $(STAMP) ## render the described settings into docs/settings.md and docker-compose.yml
	$(BIN)/python deploy/render_settings.py

docs: $(DOCS_STAMP) ## build the documentation into build/docs; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs build --strict
	@echo "the documentation is in build/docs: open build/docs/index.html"

bench: $(STAMP) ## run the benchmarks
	$(BIN)/python -m bench

dist: $(STAMP) ## build the source distribution and the wheel into dist
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

install: $(STAMP) ## make .venv with everything pinned; the other targets do it by themselves

# A stamp is newer than the files it was made from. An environment of another Python, or a broken one, is made anew.
# `make run` needs what the program needs; everything else needs the tools for working on it, too, and that is enough for `make run`.
$(RUN_STAMP): requirements.txt pyproject.toml
	@$(CHECK_PYTHON)
	@$(MAKE_VENV)
	@echo "installing what requirements.txt pins into .venv; the first time takes a minute"
	@$(PIP) install --require-hashes --requirement requirements.txt
	@$(INSTALL_LIVEDEX)
	@touch $@

$(STAMP): requirements-dev.txt requirements.txt pyproject.toml
	@$(CHECK_PYTHON)
	@$(MAKE_VENV)
	@echo "installing what requirements-dev.txt pins into .venv; the first time takes a minute or two"
	@$(PIP) install --require-hashes --requirement requirements-dev.txt
	@$(INSTALL_LIVEDEX)
	@touch $@ $(RUN_STAMP)

# The documentation has an environment of its own: it needs nothing of the program.
$(DOCS_STAMP): requirements-docs.txt
	@$(CHECK_PYTHON)
	@$(PYTHON) -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes --requirement requirements-docs.txt
	@touch $@

LOCK := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: $(STAMP) ## pin the newest versions that pyproject.toml allows
	$(LOCK) --output-file requirements.txt pyproject.toml
	$(LOCK) --extra dev --extra eval --constraint requirements.txt --output-file requirements-dev.txt pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
		| $(LOCK) --output-file requirements-docs.txt -

clean: ## remove the environments and what the tools leave behind
	rm -rf .venv .venv-docs build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.* coverage.xml
