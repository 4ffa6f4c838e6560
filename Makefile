# Everything a developer or a user runs, one line each. A target does nothing itself: it calls the
# script of its name in scripts/, or one cargo command. What does not exist yet has no target.

.DEFAULT_GOAL := help
.PHONY: help setup test test-ecosystem check fmt demo demo-stop run docs sim differential crash powercut fuzz hostile soak coverage bench bench-before bench-full

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need, or say what is missing
	@scripts/setup.sh

test: ## make check, then every test in its short form, one summary at the end
	@scripts/test.sh

test-ecosystem: ## mydumper, R2DBC, dbt against a built server; make test runs it too
	@scripts/test-ecosystem.sh $(ARGS)

check: ## formatting, lints, licences of dependencies, documentation, tidiness
	@scripts/check.sh

fmt: ## format all Rust code
	@cargo fmt --all

docs: ## write the pages of docs/ that are made from lists in the code
	@scripts/docs.sh

run: ## build the server and run it; ARGS="..." are handed to `freshet server`
	@scripts/run.sh $(ARGS)

demo: ## build, start, stream two tables in and ask about them; SF=0.1 makes it smaller
	@scripts/demo.sh

demo-stop: ## stop the server that make demo left running
	@scripts/demo-stop.sh

crash: ## kill the server under load; CYCLES=500 says how often
	@scripts/crash.sh

powercut: ## cut its power under load, as root; CUTS=100 says how often
	@scripts/powercut.sh

fuzz: ## feed rubbish to every reader; MINUTES=60 each, JOBS=n at a time, TARGET=x for one of them
	@scripts/fuzz.sh

hostile: ## clients that speak the protocol wrongly, with and without TLS, for MINUTES=60
	@scripts/hostile.sh

soak: ## mixed load for MINUTES=30; memory, files and latencies must stay flat
	@scripts/soak.sh

coverage: ## lines of the storage engine that tests run
	@scripts/coverage.sh

differential: ## answers to QUERIES=n random statements beside MariaDB's; SEED=n chooses them
	@scripts/differential.sh

sim: ## search SEEDS=n seeds of the simulation, from FIRST=n on, for a broken promise
	@scripts/sim.sh

bench: ## beside MariaDB and the null server on all workloads, ratios; under 15 minutes once built
	@scripts/bench.sh $(ARGS)

bench-before: ## beside the server of COMMIT=name, in turn: which points have slowed
	@scripts/bench_before.sh

bench-full: ## all workloads beside all peers, which are installed first; hours
	@scripts/bench-full.sh
