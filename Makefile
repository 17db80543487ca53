# The front door: every command sets up what it needs first (scripts/setup.sh: nothing when done).
# The builds themselves are CMake's: CMakePresets.json.
.DEFAULT_GOAL := help
.PHONY: help setup build python demo test test-asan test-tsan bench lint format clean

JOBS ?= $(shell nproc)

help:      ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:     ## Debian packages (as root), llama.cpp, the demo's model. Once.
	@scripts/setup.sh

build: build-release ## The command line, at build/release/bin/attndb, and everything else.

python: build-release ## The Python package, into .deps/venv, with torch and transformers.
	@scripts/setup.sh python
	@scripts/install_python.sh

demo: setup ## Import a text into a store; a second process answers from it.
	@scripts/build.sh release attndb_cli
	@scripts/demo.sh

test: test-asan python ## Every test: lint, unit, asan + ubsan, engine, command line, Python.
	@ctest --preset release -j $(JOBS)

test-asan: build-asan ## The unit tests under AddressSanitizer and UBSan.
	@ctest --preset asan -j $(JOBS)

test-tsan: build-tsan ## The unit tests under ThreadSanitizer.
	@ctest --preset tsan -j $(JOBS)

bench: python ## Measure; writes bench/results/ and docs/performance.md. Four hours: bench/run.sh --list.
	@scripts/build.sh release bench
	@scripts/setup.sh peers || echo "bench: no peers of indexes (why: above): what needs them is skipped"
	@failed=0; bench/run.sh || failed=$$?; .deps/venv/bin/python bench/report.py && exit $$failed

lint: python ## The layers, headers, format and style of the sources.
	@ctest --preset release -L lint

format: setup ## Lay out the C++ sources.
	@scripts/format.py

clean:     ## Remove the builds; what is set up stays.
	@rm -rf build

build-%: setup
	@scripts/build.sh $*
