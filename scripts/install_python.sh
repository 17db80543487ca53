#!/usr/bin/env bash
# Builds the Python package and installs it into .deps/venv (scripts/setup.sh python made that).
# What the release build compiled is taken from the compiler's cache, if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
readonly log=build/python-install.log
mkdir -p build
start=$SECONDS
.deps/venv/bin/python -m pip --disable-pip-version-check install --verbose --no-build-isolation \
  --force-reinstall --no-deps . >"$log" 2>&1 || {
  awk '/FAILED:|CMake Error|error:/{show=1} show' "$log" | head -n 200 >&2
  echo "python: not installed; whole log: $log" >&2
  exit 1
}
echo "python: attndb installed into .deps/venv in $((SECONDS - start)) s"
