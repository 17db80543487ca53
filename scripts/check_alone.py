#!/usr/bin/env python3
"""Checks that every compiled source compiles alone, with clang's warnings and -Wthread-safety.

The build compiles sources in batches and behind precompiled headers, where one can live on what
another includes and clang is silent about constants that nothing uses. A source is looked at once
for each content (its own, its headers', its flags): the stamps lie in --cache. With --changed only
those are looked at that differ from the last commit. --at-most N limits the sources of one run.

What many sources include is compiled once for them, too, but only for those that include it anyway:
nothing is there that a source would not have. A source that includes its own header first proves
that this compiles alone (check_headers.py); it gets no more than that header includes.
"""

import collections
import hashlib
import pathlib
import subprocess
import tempfile
import threading

import lint_common as lint

_FLAGS = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument",
          "-Werror"]
_COMMON = ("cstddef", "cstdint", "optional", "ostream", "span", "string", "string_view", "utility",
           "vector")
# The first set of which a source includes all is precompiled for it.
PRECOMPILED = [
    ("gtest/gtest.h", "gmock/gmock.h"),
    ("gtest/gtest.h",),
    (*_COMMON, "nlohmann/json.hpp"),
    (*_COMMON, "algorithm", "array", "chrono", "functional", "memory"),
    _COMMON,
]
_WORTHWHILE = 4  # Sources for which a set takes less time to compile than it saves.


def changed_files(root):
    """The files that differ from the last commit, or are in none."""
    done = subprocess.run(["git", "status", "--porcelain", "-z", "--no-renames", "-uall"], cwd=root,
                          capture_output=True, text=True, check=True)
    return {pathlib.Path(line[3:]) for line in done.stdout.split("\0") if line}


class Compiler:
    """Compiles sources, each alone; from several threads."""

    def __init__(self, args, folder):
        self._args = args
        self._folder = pathlib.Path(folder)
        self._known = {}  # What lint.reached() remembers.
        self._made = collections.defaultdict(threading.Lock)  # Set -> held while it is compiled.
        self._users = collections.Counter()

    def key(self, path, flags, tool):
        return lint.fingerprint(self._args.root, path, tool + repr(flags).encode(), self._known)

    def singly(self, jobs):
        """Each job by itself, as run_cached() wants it; counts who shares a set."""
        self._users.update(self._set_of(*job) for job in jobs)
        return [[job] for job in jobs]

    def problems(self, path, flags):
        flags = [*flags, *_FLAGS]
        done = self._run([*flags, *self._precompiled(path, flags), "-fsyntax-only", str(path)])
        if done.returncode == 0:
            return []
        output = (done.stdout + done.stderr).replace(f"{self._args.root}/", "").strip()
        return [f"{path}:1: does not compile alone:\n{output}"]

    def _run(self, words):
        return subprocess.run([self._args.clang, *words], cwd=self._args.root, capture_output=True,
                              text=True, check=False)

    def _set_of(self, path, flags):
        """(headers, flags) of what is precompiled for a source; no headers if nothing is."""
        root = self._args.root
        first = [lint.resolve(root, name)
                 for _, _, name in lint.includes(lint.read(root, path))[:1]]
        proves = first[0] if first and first[0] and not lint.is_test(path) else path
        _, others = lint.reached(root, proves, self._known)
        headers = next((names for names in PRECOMPILED if others.issuperset(names)), ())
        return headers, tuple(flag for flag in flags if not flag.startswith("-I"))

    def _precompiled(self, path, flags):
        headers, shared = self._set_of(path, flags[:-len(_FLAGS)])
        if not headers or self._users[headers, shared] < _WORTHWHILE:
            return []
        name = hashlib.sha256(repr((headers, shared)).encode()).hexdigest()
        source, target = self._folder / f"{name}.h", self._folder / f"{name}.pch"
        with self._made[name]:
            if not target.exists():
                source.write_text("".join(f"#include <{header}>\n" for header in headers))
                self._run([*shared, *_FLAGS, "-x", "c++-header", str(source), "-o", str(target)])
        return ["-include-pch", str(target)]


def main():
    parser = lint.parser(__doc__)
    parser.add_argument("--clang", default="clang++-14")
    parser.add_argument("--compile-commands", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--cache", type=pathlib.Path, default=lint.default_cache())
    parser.add_argument("--changed", action="store_true")
    lint.add_at_most(parser)
    args = parser.parse_args()
    tool = lint.tool_version(args.clang, "--version")
    sources = lint.compiled_sources(args.root, args.compile_commands)
    if args.changed:
        changed = changed_files(args.root)
        sources = [(path, flags) for path, flags in sources if path in changed]
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(args, folder)
        jobs = {compiler.key(path, flags, tool): (path, flags) for path, flags in sources}
        cache = args.cache / "alone"
        limit = lint.Limit(args.root, cache, args.at_most)
        lint.finish(lint.run_cached(cache, jobs, lambda group: compiler.problems(*group[0]),
                                    compiler.singly, limit))


if __name__ == "__main__":
    main()
