#!/usr/bin/env python3
"""Checks that every header compiles alone.

A header that some x.cc includes first is proven by check_alone.py, and x.cc must include x.h first;
only the others are compiled here (-fsyntax-only), once for each content (--cache). A test proves
nothing: it finds GoogleTest precompiled. The header of the C interface must also compile as C.
"""

import pathlib
import subprocess

import lint_common as lint

# Kernels' inner headers are compiled once per target, between target pragmas: never alone.
NEVER_ALONE = ("-inl.h",)


def partner(path):
    """The header that `path`, a .cc file, must include first, as its include path, if it exists."""
    stem = path.name.removesuffix(".cc").removesuffix("_test")
    return path.with_name(stem + ".h")


def include_name(path):
    """How a header is named in an #include."""
    return path.relative_to(path.parts[0]) if path.parts[0] in ("src", "include") else path


def first_includes(root):
    """(headers that a .cc file includes first, problems)."""
    proven, problems = set(), []
    for path in lint.code_files(root, (".cc",)):
        own = partner(path)
        included = [(line, lint.resolve(root, name))
                    for line, _, name in lint.includes(lint.read(root, path))]
        if included and included[0][1] and not lint.is_test(path):
            proven.add(included[0][1])
        if path.name == own.stem + ".cc" and (root / own).is_file():
            if not included or included[0][1] != own:
                problems.append(
                    f'{path}:1: must include its own header first: "{include_name(own)}"')
    return proven, problems


def compile_alone(args, path):
    languages = ["c++", "c"] if path.name == "c_api.h" else ["c++"]
    problems = []
    for language in languages:
        flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wno-missing-field-initializers",
                 "-Werror", "-x", language,
                 "-std=c++20" if language == "c++" else "-std=c11", "-Isrc", "-Iinclude", "-I.",
                 *(f"-isystem{folder}" for folder in args.isystem)]
        command = [args.compiler, *flags, "-include", str(args.root / path), "/dev/null"]
        done = subprocess.run(command, cwd=args.root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            problems.append(
                f"{path}:1: does not compile alone ({language}):\n{done.stderr.strip()}")
    return problems


def main():
    parser = lint.parser(__doc__)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--isystem", action="append", default=[], help="of third-party headers")
    parser.add_argument("--cache", type=pathlib.Path, default=lint.default_cache())
    args = parser.parse_args()
    proven, problems = first_includes(args.root)
    tool, known, jobs = lint.tool_version(args.compiler, "--version"), {}, {}
    for path in lint.code_files(args.root, (".h",)):
        if path not in proven and not path.name.endswith(NEVER_ALONE):
            jobs[lint.fingerprint(args.root, path, tool, known)] = path
    problems += lint.run_cached(args.cache / "headers", jobs,
                                lambda group: compile_alone(args, group[0]))
    lint.finish(problems)


if __name__ == "__main__":
    main()
