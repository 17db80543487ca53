#!/usr/bin/env python3
"""Checks the rules of style that no compiler knows. Limits and exceptions: tidy.toml.

Every text file:  no path of one machine, no host of a package registry.
C++ and scripts:  lines of at most 100 columns; files of at most 700 lines; no comment that begins
                  with "Of" or "...", as only the code or comment before it says what it is about.
C++:              functions of at most 70 lines; every .cc is compiled (--compile-commands); no
                  TODO without the number of its issue.
Headers:          a comment at the top; the include guard ATTNDB_<PATH>_H_.
src/:             no new, delete, std::cout, abort; every x.h with an x.cc has an x_test.cc.
"""

import fnmatch
import pathlib
import re
import tomllib

import cpp_functions
import lint_common as lint

_MACHINE = re.compile(
    r"(?<![\w.$}/-])/(?:work|home|root)/\w"
    r"|https?://[^\s)>\"']*(?:pypi|pythonhosted|artifact|nexus|npmjs|proxy\.golang)")
_TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(#\d+\))")
_COMMENT = re.compile(r"\s*(?://|/\*|#)")
_FRAGMENT = re.compile(r"(?:^|\s)(?://|/\*|#) (Of\b|\.\.\.)")
_WORDS = {
    "new": re.compile(r"\bnew\b(?!\s*\()"),  # Placement new is `new (`.
    "delete": re.compile(r"(?<!=\s)\bdelete\b"),
    "std::cout": re.compile(r"\bstd::cout\b"),
    "abort": re.compile(r"\babort\s*\("),
}


def check_text(root, path):
    try:
        text = lint.read(root, path)
    except UnicodeDecodeError:
        return
    for match in _MACHINE.finditer(text):
        yield f"{path}:{lint.line_of(text, match.start())}: names a machine: {match.group()}"


def check_code(path, text, limits):
    lines = text.split("\n")
    if len(lines) - 1 > limits["file_lines"]:
        yield f"{path}:1: {len(lines) - 1} lines; at most {limits['file_lines']}"
    for number, line in enumerate(lines, 1):
        if len(line) > limits["line_columns"]:
            yield f"{path}:{number}: {len(line)} columns; at most {limits['line_columns']}"
        if line != line.rstrip():
            yield f"{path}:{number}: space at the end of the line"
    yield from check_comments(path, lines)


def check_comments(path, lines):
    for number, (before, line) in enumerate(zip(["", *lines], lines), 1):
        goes_on = _COMMENT.match(line) and _COMMENT.match(before)
        match = _FRAGMENT.search(line)
        if match and not goes_on:
            yield f"{path}:{number}: a comment begins with {match.group(1)}: name what it is about"


class LongFunctions:
    """The ratchet: what tidy.toml lets in, and whether it still needs to."""

    def __init__(self, limit, allowed):
        self.limit = limit
        self.allowed = allowed
        self.seen = set()

    def check(self, path, blanked):
        for name, line, num_lines in cpp_functions.functions(blanked):
            key = f"{path}:{name}"
            if num_lines <= self.limit:
                continue
            self.seen.add(key)
            if num_lines > self.allowed.get(key, self.limit):
                yield f"{path}:{line}: {name}() has {num_lines} lines; at most {self.limit}"

    def finish(self):
        for key in sorted(set(self.allowed) - self.seen):
            yield f"scripts/tidy.toml:1: no longer needed in long_functions: {key}"


def check_header(path, text):
    if not text.startswith(("//", "/*")):
        yield f"{path}:1: no comment at the top that says what the header is for"
    parts = path.parts
    if parts[0] == "src" or parts[:2] == ("include", "attndb"):
        parts = parts[1:] if parts[0] == "src" else parts[2:]
    guard = "ATTNDB_" + re.sub(r"\W", "_", "/".join(parts)).upper() + "_"
    if not re.search(rf"^#ifndef {guard}\n#define {guard}$", text, re.MULTILINE):
        yield f"{path}:1: include guard must be {guard}"


def check_words(path, blanked, allowed):
    for word, pattern in _WORDS.items():
        if word not in allowed:
            for match in pattern.finditer(blanked):
                yield f"{path}:{lint.line_of(blanked, match.start())}: {word} in src/"


def check_units(files, tested_by):
    """A unit of src/, x.h with x.cc, needs x_test.cc or an entry in tidy.toml."""
    names = {path.as_posix() for path in files}
    used = set()
    for name in sorted(names):
        unit = name.removesuffix(".cc")
        is_unit = unit != name and f"{unit}.h" in names and not unit.endswith("_test_util")
        if not name.startswith("src/") or not is_unit or f"{unit}_test.cc" in names:
            continue
        entry = next((glob for glob in tested_by if fnmatch.fnmatchcase(unit, glob)), None)
        if entry is None:
            yield f"{name}:1: no {unit}_test.cc, and no entry in tidy.toml's tested_by"
        elif tested_by[entry]["test"] not in names:
            yield f"scripts/tidy.toml:1: {entry}: no such test: {tested_by[entry]['test']}"
        used.add(entry)
    for entry in sorted(set(tested_by) - used):
        yield f"scripts/tidy.toml:1: no longer needed in tested_by: {entry}"


def check_compiled(root, files, commands, elsewhere):
    compiled = {path for path, _ in lint.compile_entries(root, commands)}
    missing = {path.as_posix() for path in files
               if path.suffix in (".cc", ".c") and path not in compiled}
    for name in missing - set(elsewhere):
        yield f"{name}:1: in no CMakeLists.txt: never compiled"
    for name in set(elsewhere) - missing:
        if elsewhere[name] == "either":  # By what the machine has.
            continue
        yield f"scripts/tidy.toml:1: no longer needed in compiled_elsewhere: {name}"


def check_cpp(root, path, rules, long_functions):
    text = lint.read(root, path)
    blanked = lint.blank(text)
    yield from check_code(path, text, rules["limits"])
    yield from long_functions.check(path, blanked)
    for match in _TODO.finditer(text):
        line = lint.line_of(text, match.start())
        yield f"{path}:{line}: {match.group()} without an issue: {match.group()}(#123)"
    if path.suffix == ".h":
        yield from check_header(path, text)
    if path.parts[0] == "src" and not path.stem.endswith(("_test", "_test_util")):
        allowed = rules["allowed_words"].get(path.as_posix(), [])
        yield from check_words(path, cpp_functions.without_directives(blanked), allowed)


def main():
    parser = lint.parser(__doc__)
    parser.add_argument("--compile-commands", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    rules = tomllib.loads(lint.read(args.root, "scripts/tidy.toml"))
    long_functions = LongFunctions(rules["limits"]["function_lines"], rules["long_functions"])
    problems = []
    for path in lint.all_files(args.root):
        problems += check_text(args.root, path)
        if path.suffix in (".py", ".sh"):
            problems += check_code(path, lint.read(args.root, path), rules["limits"])
    files = lint.code_files(args.root)
    for path in files:
        problems += check_cpp(args.root, path, rules, long_functions)
    problems += long_functions.finish()
    problems += check_units(files, rules["tested_by"])
    if args.compile_commands:
        problems += check_compiled(args.root, files, args.compile_commands,
                                   rules["compiled_elsewhere"])
    lint.finish(problems)


if __name__ == "__main__":
    main()
