#!/usr/bin/env python3
"""Runs clang-tidy over every compiled source that is no test; findings are errors.

A file is looked at once for each content (its own, its headers', the settings'): the stamps lie in
--cache. Sources with the same flags are looked at many in one pass, which takes a fifth of the
time, because they share most of what they include; sources that define the same name go into
different passes. A pass that finds anything, be it two names that clash, is halved until it is
about one source. --at-most N limits the sources of one run.
"""

import pathlib
import re
import subprocess
import tempfile

import lint_common as lint

_BATCH = 32
# What a source defines at its outermost level: neither indented nor a directive.
_DEFINED = re.compile(
    r"^(?:enum class|enum|struct|class|union|using)\s+(\w+)|"  # A type; a function or variable.
    r"^(?![ }#\n]|namespace|using|template)[^\n({=;]*?(?<![:\w])(\w+)\s*(?:\[[^\n]*\]\s*)?[({=;]",
    re.MULTILINE)


def defined_names(text):
    return {a or b for a, b in _DEFINED.findall(lint.blank(text))}


def tidy_flags(sources):
    """The sources with flags that are as alike as can be: what decides about warnings, position and
    optional libraries makes no difference to clang-tidy.
    """
    system = sorted({f"-isystem{folder}" for _, flags in sources
                     for flag, folder in zip(flags, flags[1:]) if flag == "-isystem"} |
                    {f"-isystem{flag[2:]}" for _, flags in sources for flag in flags
                     if flag.startswith("-I/")})
    paths = [f"-I{folder or '.'}" for folder in lint.INCLUDE_ROOTS]
    for path, flags in sources:
        kept = [flag for flag in flags if flag.startswith(("-D", "-std", "-m", "-f", "-x"))
                and flag not in ("-fPIC", "-fPIE")]
        yield path, [*kept, *paths, *system, "-w"]


def batches(root, jobs):
    """Jobs of one set of flags, neighbours in the tree, which define no name twice."""
    done, open_batches = [], []
    for job in sorted(jobs):
        path, flags = job
        names = defined_names(lint.read(root, path))
        for batch in open_batches:
            if batch["flags"] == flags and not names & batch["names"]:
                break
        else:
            batch = {"flags": flags, "names": set(), "jobs": []}
            open_batches.append(batch)
            done.append(batch["jobs"])
        batch["names"] |= names
        batch["jobs"].append(job)
        if len(batch["jobs"]) == _BATCH:
            open_batches.remove(batch)
    return sorted(done, key=len, reverse=True)  # So that no core ends with the longest.


def run_tidy(args, jobs):
    path, flags = jobs[0]
    # In the tree, where clang-tidy finds the settings by itself: of settings that it is given by
    # name, it also applies the names to the standard library, 27,000 times a pass.
    with tempfile.NamedTemporaryFile("w", suffix=path.suffix, prefix=".tidy_",
                                     dir=args.root) as batch:
        source = str(args.root / path)
        if len(jobs) > 1:
            batch.write("".join(f'#include "{args.root / other}"\n' for other, _ in jobs))
            batch.flush()
            source = batch.name
        done = subprocess.run([args.clang_tidy, "--quiet", source, "--", *flags],
                              cwd=args.root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    output = (done.stdout + done.stderr).replace(f"{args.root}/", "").strip()
    return [f"{path}:1: {args.clang_tidy} found:\n{output}"]


def main():
    parser = lint.parser(__doc__)
    parser.add_argument("--clang-tidy", default="clang-tidy-14")
    parser.add_argument("--compile-commands", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--cache", type=pathlib.Path, default=lint.default_cache())
    lint.add_at_most(parser)
    args = parser.parse_args()
    settings = (args.root / ".clang-tidy").read_bytes()
    tool, known = lint.tool_version(args.clang_tidy, "--version") + settings, {}
    sources = [source for source in lint.compiled_sources(args.root, args.compile_commands)
               if not lint.is_test(source[0])]
    jobs = {lint.fingerprint(args.root, path, tool + repr(flags).encode(), known): (path, flags)
            for path, flags in tidy_flags(sources)}
    cache = args.cache / "clang"
    limit = lint.Limit(args.root, cache, args.at_most)
    lint.finish(lint.run_cached(cache, jobs, lambda group: run_tidy(args, group),
                                lambda todo: batches(args.root, todo), limit))


if __name__ == "__main__":
    main()
