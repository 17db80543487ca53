# The front door: every command sets up what it needs first (scripts/setup.sh: nothing when done).
# The builds themselves are CMake's: CMakePresets.json.
.DEFAULT_GOAL := help
.PHONY: help setup build python demo check test test-asan test-tsan test-long minutes bench lint format \
        clean packages tools engine templates clients torch library unit-tests

JOBS ?= $(shell nproc)
BESIDE = $(MAKE) --no-print-directory --jobs=4  # Downloads and builds side by side.
STEP = scripts/step.sh  # Records the seconds of a step: `make minutes` prints them.
ifndef MINUTES_RUN  # A make within this one belongs to the same run.
export MINUTES_RUN := $(MAKECMDGOALS) $(shell date +%s)
endif

help:      ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:     ## Debian packages (as root), llama.cpp, the demo's model. Once.
	@scripts/setup.sh

build: setup ## The command line, at build/release/bin/attndb, the server and everything else.
	@scripts/build.sh release

python: packages ## The Python package, into .deps/venv, with torch and transformers.
	@$(BESIDE) engine torch library
	@scripts/build.sh release attndb_programs
	@scripts/install_python.sh

# It builds what it runs, and no server. A server that was built before must not be older than the
# library that it loads.
demo: packages ## Import a text into a store; a second process answers from it.
	@$(BESIDE) engine library
	@$(STEP) "build: command line" scripts/build.sh --native release \
	  $(if $(wildcard build/release/bin/attndb-s*),attndb_programs,attndb_cli)
	@$(STEP) demo scripts/demo.sh

check: packages tools ## Before each commit: layers, format, unit tests that a change can affect.
	@$(STEP) check scripts/check.sh $(JOBS)

# The release build comes before that of ASan, which takes the tests' object code from ccache.
test: packages tools ## Every test: lint, unit, asan + ubsan, engine, command line, server, Python.
	@$(BESIDE) engine templates clients torch unit-tests
	@$(STEP) "build: release" scripts/build.sh release all bench_test
	@$(STEP) "build: asan" scripts/build.sh asan
	@$(STEP) "build: Python package" scripts/install_python.sh
	@$(STEP) tests scripts/run_tests.py --jobs $(JOBS) asan release

minutes:   ## How long the last demo, check and test took, by step; into docs/testing.md, too.
	@python3 -B scripts/minutes.py

test-asan: build-asan ## The unit tests under AddressSanitizer and UBSan.
	@ctest --preset asan -j $(JOBS)

test-tsan: build-tsan ## The unit tests under ThreadSanitizer.
	@ctest --preset tsan -j $(JOBS)

test-long: python tools ## The sizes that prove: kills, flips, agreement, fuzzing, TSan. Hours.
	@scripts/build.sh release
	@scripts/test_long.sh

bench: python ## Measure; writes bench/results/ and docs/performance.md. Seven hours: bench/run.sh --list.
	@scripts/build.sh release bench
	@scripts/setup.sh llama-server
	@scripts/setup.sh peers || echo "bench: no peers of indexes (why: above): what needs them is skipped"
	@failed=0; bench/run.sh || failed=$$?; .deps/venv/bin/python bench/report.py && \
	  bench/tiers_report.py && bench/truncation_report.py && bench/serve_report.py && exit $$failed

lint: python tools ## The layers, headers, format and style of the sources.
	@scripts/build.sh release
	@ATTNDB_LINT=all ctest --preset release -L lint

format: tools ## Lay out the C++ sources.
	@scripts/format.py

clean:     ## Remove the builds; what is set up stays.
	@rm -rf build

# Parts of the above, which may run side by side.
packages tools engine templates clients:
	@$(STEP) "set-up: $@" scripts/setup.sh $@

torch:
	@$(STEP) "set-up: $@" scripts/setup.sh python

library: packages
	@$(STEP) "build: library" scripts/build.sh --native release attndb

unit-tests: packages
	@$(STEP) "build: unit tests" scripts/build.sh release unit_tests

build-%: packages
	@$(STEP) "build: $*" scripts/build.sh $*
