#!/usr/bin/env bash
# Builds the Python package and installs it into .deps/venv (scripts/setup.sh python made that). The
# library and the command line are those of the release build, which must be there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly log=build/python-install.log
mkdir -p build
start=$SECONDS
cmake --install build/release --component runtime --prefix build/stage >"$log"
.deps/venv/bin/python -m pip --disable-pip-version-check install --verbose --no-build-isolation \
  --force-reinstall --no-deps --config-settings=cmake.define.ATTNDB_PREBUILT="$PWD/build/stage" \
  --config-settings=build.targets="attndb_python;attndb_python_stub" . >>"$log" 2>&1 || {
  awk '/FAILED:|CMake Error|error:/{show=1} show' "$log" | head -n 200 >&2
  echo "python: not installed; whole log: $log" >&2
  exit 1
}
echo "python: attndb installed into .deps/venv in $((SECONDS - start)) s"
