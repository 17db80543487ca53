#!/usr/bin/env python3
"""Formats the C++ sources with clang-format and wraps comment lines that are too long.

clang-format leaves comments as they are (.clang-format says why), so a comment line beyond the
limit is wrapped here: its last words move to the next line of the paragraph. With --check nothing
is written and every file that would change is reported. Files may be named; all of them else.
"""

import pathlib
import re
import subprocess

import lint_common as lint

_COLUMNS = 100
_COMMENT = re.compile(r"^(\s*(?://|/\*(?!.*\*/)|\*(?!/)))( +)(\S.*)$")
_LABEL = re.compile(r"^([A-Z][A-Za-z]+:|[-*]|\d+\.)( +)")


def wrap_comments(text):
    """`text` with the words beyond the limit moved to the next comment line."""
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        match = _COMMENT.match(lines[i])
        if match and len(lines[i]) > _COLUMNS:
            _wrap(lines, i, match)
        i += 1
    return "\n".join(lines)


def _wrap(lines, i, match):
    cut = lines[i].rfind(" ", 0, _COLUMNS + 1)
    if cut <= match.start(3):
        return  # One long word.
    rest = lines[i][cut + 1:]
    lines[i] = lines[i][:cut].rstrip()
    mark, hang = match.group(1).replace("/*", " *"), match.group(2)
    if label := _LABEL.match(match.group(3)):
        hang += " " * label.end()
    following = _COMMENT.match(lines[i + 1]) if i + 1 < len(lines) else None
    same = following and following.group(1, 2) == (mark, hang)
    if same and not _LABEL.match(following.group(3)):
        lines[i + 1] = f"{mark}{hang}{rest} {following.group(3)}"
    else:
        lines.insert(i + 1, f"{mark}{hang}{rest}")


def formatted(tool, root, path):
    text = wrap_comments(lint.read(root, path))
    done = subprocess.run([tool, f"--assume-filename={root / path}"], input=text, text=True,
                          capture_output=True, check=True)
    return done.stdout


def main():
    parser = lint.parser(__doc__)
    parser.add_argument("--clang-format", default="clang-format-14")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    files = [path.resolve().relative_to(args.root) for path in args.files]

    def check(path):
        result = formatted(args.clang_format, args.root, path)
        if result == lint.read(args.root, path):
            return []
        if args.check:
            return [f"{path}:1: not formatted: run `make format`"]
        (args.root / path).write_text(result, encoding="utf-8")
        return []

    lint.finish(lint.run_parallel(check, files or lint.code_files(args.root)))


if __name__ == "__main__":
    main()
