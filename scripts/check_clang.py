#!/usr/bin/env python3
"""Runs clang over every compiled source: clang-tidy over the code, syntax and -Wthread-safety over
the tests.

Warnings are errors. A file is looked at once for each content (its own, its headers', the
settings'): the stamps lie in --cache. Sources with the same flags are looked at sixteen in one
pass, which takes a fifth of the time, because they share most of what they include; a pass that
finds anything, be it two names that clash, is halved until it is about one source.
"""

import collections
import pathlib
import shlex
import subprocess
import tempfile

import lint_common as lint

_BATCH = 16
_FLAGS = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument"]


def compile_flags(entry):
    """The flags of a compile command that matter to what the code means."""
    words = shlex.split(entry["command"])
    kept, i = [], 0
    while i < len(words):
        if words[i] == "-include" and words[i + 1].endswith("cmake_pch.hxx"):
            i += 1  # A precompiled header of the build's compiler: sources include what they use.
        elif words[i] in ("-isystem", "-include", "-x"):
            kept += words[i:i + 2]
            i += 1
        elif words[i].startswith(("-I", "-D", "-std", "-W", "-m", "-f")):
            kept.append(words[i])
        i += 1
    return [word for word in kept if not word.startswith(("-fsanitize", "-Winvalid-pch"))]


def batches(jobs):
    """Jobs of one language, kind and set of flags, neighbours in the tree, sixteen together."""
    alike = collections.defaultdict(list)
    for job in sorted(jobs):
        path, flags = job
        alike[path.suffix, is_test(path), tuple(flags)].append(job)
    return [group[i:i + _BATCH] for group in alike.values()
            for i in range(0, len(group), _BATCH)]


def is_test(path):
    return path.stem.endswith("_test")


def run_clang(args, jobs):
    path, flags = jobs[0]
    flags = [*flags, *_FLAGS]
    with tempfile.NamedTemporaryFile("w", suffix=path.suffix) as batch:
        source = str(args.root / path)
        if len(jobs) > 1:
            batch.write("".join(f'#include "{args.root / other}"\n' for other, _ in jobs))
            batch.flush()
            source = batch.name
        if is_test(path):
            command = [args.clang, *flags, "-Werror", "-fsyntax-only", source]
        else:
            settings = f"--config-file={args.root / '.clang-tidy'}"
            command = [args.clang_tidy, "--quiet", settings, source, "--", *flags]
        done = subprocess.run(command, cwd=args.root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    output = (done.stdout + done.stderr).replace(f"{args.root}/", "").strip()
    return [f"{path}:1: {pathlib.Path(command[0]).name} found:\n{output}"]


def main():
    parser = lint.parser(__doc__)
    parser.add_argument("--clang", default="clang++-14")
    parser.add_argument("--clang-tidy", default="clang-tidy-14")
    parser.add_argument("--compile-commands", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--cache", type=pathlib.Path, default=lint.default_cache())
    args = parser.parse_args()
    settings = (args.root / ".clang-tidy").read_bytes()
    tool = lint.tool_version(args.clang_tidy, "--version") + settings
    ours, known, jobs = set(lint.code_files(args.root, (".cc",))), {}, {}
    for path, entry in lint.compile_entries(args.root, args.compile_commands):
        if path in ours:
            flags = compile_flags(entry)
            key = lint.fingerprint(args.root, path, tool + repr(flags).encode(), known)
            jobs[key] = (path, flags)
    lint.finish(lint.run_cached(args.cache / "clang", jobs, lambda group: run_clang(args, group),
                                batches))


if __name__ == "__main__":
    main()
