#!/usr/bin/env python3
"""Runs clang over every compiled source: clang-tidy over the code, syntax and -Wthread-safety over
the tests.

Warnings are errors. A file is looked at once for each content (its own, its headers', the
settings'): the stamps lie in --cache.
"""

import pathlib
import shlex
import subprocess

import lint_common as lint

_FLAGS = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument"]


def compile_flags(entry):
    """The flags of a compile command that matter to what the code means."""
    words = shlex.split(entry["command"])
    kept, i = [], 0
    while i < len(words):
        if words[i] in ("-isystem", "-include", "-x"):
            kept += words[i:i + 2]
            i += 1
        elif words[i].startswith(("-I", "-D", "-std", "-W", "-m", "-f")):
            kept.append(words[i])
        i += 1
    return [word for word in kept if not word.startswith("-fsanitize")]


def run_clang(args, job):
    path, flags = job
    flags = [*flags, *_FLAGS]
    if path.stem.endswith("_test"):
        command = [args.clang, *flags, "-Werror", "-fsyntax-only", str(args.root / path)]
    else:
        command = [args.clang_tidy, "--quiet", str(args.root / path), "--", *flags]
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
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    args = parser.parse_args()
    settings = (args.root / ".clang-tidy").read_bytes()
    tool = lint.tool_version(args.clang_tidy, "--version") + settings
    ours, known, jobs = set(lint.code_files(args.root, (".cc",))), {}, {}
    for path, entry in lint.compile_entries(args.root, args.compile_commands):
        if path in ours:
            flags = compile_flags(entry)
            key = lint.fingerprint(args.root, path, tool + repr(flags).encode(), known)
            jobs[key] = (path, flags)
    lint.finish(lint.run_cached(args.cache / "clang", jobs, lambda job: run_clang(args, job)))


if __name__ == "__main__":
    main()
