#!/usr/bin/env python3
"""Formats the C++ sources with clang-format and wraps comment lines that are too long.

clang-format leaves comments as they are (.clang-format says why), so a comment line beyond the
limit is wrapped here: its last words move to the next line of the paragraph. With --check nothing
is written and every file that would change is reported. Files may be named; all of them else.

clang-format takes longer to start than to read a file, so one process checks many files. A file is
checked once for each content: the stamps lie in --cache.
"""

import hashlib
import pathlib
import re
import subprocess

import lint_common as lint

_COLUMNS = 100
_COMMENT = re.compile(r"^(\s*(?://|/\*(?!.*\*/)|\*(?!/)))( +)(\S.*)$")
_BATCH = 64  # Files of one process.
# clang-format's line about a file that it would change.
_VIOLATION = re.compile(r"^(\S.*?):\d+:\d+: error: code should be clang-formatted", re.MULTILINE)
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


def unformatted(tool, root, paths):
    """The files among `paths` that would change."""
    done = subprocess.run([tool, "--dry-run", "-Werror", *map(str, paths)], cwd=root, text=True,
                          capture_output=True, check=False)
    found = {pathlib.Path(name) for name in _VIOLATION.findall(done.stderr)}
    if (done.returncode != 0) != bool(found):
        raise SystemExit(f"{tool} ended with {done.returncode}:\n{done.stderr}")
    for path in paths:
        text = lint.read(root, path)
        if wrap_comments(text) != text:
            found.add(path)
    return found


def batches(paths):
    return [paths[i:i + _BATCH] for i in range(0, len(paths), _BATCH)]


def main():
    parser = lint.parser(__doc__)
    parser.add_argument("--clang-format", default="clang-format-14")
    parser.add_argument("--cache", type=pathlib.Path, default=lint.default_cache())
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    root, tool = args.root, args.clang_format
    files = [path.resolve().relative_to(root) for path in args.files] or lint.code_files(root)
    known = lint.tool_version(tool, "--version") + (root / ".clang-format").read_bytes()

    def check(paths):
        return [f"{path}:1: not formatted: run `make format`"
                for path in unformatted(tool, root, paths)]

    def mend(paths):
        for path in unformatted(tool, root, paths):
            (root / path).write_text(formatted(tool, root, path), encoding="utf-8")
        return []

    if not args.check:
        lint.finish(lint.run_parallel(mend, batches(files)))
    jobs = {hashlib.sha256(b"%b%b\0%b" % (known, str(path).encode(),
                                          (root / path).read_bytes())).hexdigest(): path
            for path in files}
    lint.finish(lint.run_cached(args.cache / "format", jobs, check, batches))


if __name__ == "__main__":
    main()
