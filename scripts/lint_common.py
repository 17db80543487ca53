"""What the lint scripts share: listing sources, blanking comments, following includes, a cache.

Every script takes --root (a tree laid out like this one; tests/lint makes small ones), prints one
line a problem, "path:line: what is wrong", and exits with 1 if there was any.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys

# Folders with C++ code. Anything else at the top is not ours to lint.
CODE_FOLDERS = ("include", "src", "testing", "tests", "fuzz", "bench", "engines", "cli", "server",
                "python", "tools", "examples")
# Where `#include "a/b.h"` is looked for, in this order.
INCLUDE_ROOTS = ("src", "include", "")
SKIPPED = {".git", ".deps", "build", "__pycache__"}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
_BLANKED = re.compile(
    r'R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'  # Raw string.
    r'|"(?:[^"\\\n]|\\.)*"'                        # String.
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'"        # Character; not a digit separator.
    r"|//[^\n]*|/\*.*?\*/",                        # Comments.
    re.DOTALL)


_BATCH = re.compile(r"_batch_\d+\.cc$")  # cmake/compile_less.cmake makes these.
_BATCHED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def sources_of(path):
    """What a compiled file stands for: itself, or the sources that a batch includes."""
    if _BATCH.search(path.name):
        return [(path.parent / name).resolve() for name in _BATCHED.findall(path.read_text())]
    return [path]


def compile_entries(root, databases):
    """(source as a path, entry) of each compile command of the files in `databases`.

    A source that several builds compile is given once, as the first of them compiles it.
    """
    seen = set()
    for database in databases:
        if not database.is_file():
            raise SystemExit(f"{database} is missing: run `make build` and `make python`")
        for entry in json.loads(database.read_text()):
            for path in sources_of(pathlib.Path(entry["directory"], entry["file"]).resolve()):
                if path not in seen and path.is_relative_to(root):
                    seen.add(path)
                    yield path.relative_to(root), entry


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


def compiled_sources(root, databases):
    """(path, flags) of each of our sources that the files in `databases` compile.

    Paths in flags are relative to `root`, so that checkouts in other places share stamps.
    """
    ours = set(code_files(root, (".cc",)))
    return [(path, [flag.replace(f"{root}/", "").replace(str(root), ".")
                    for flag in compile_flags(entry)])
            for path, entry in compile_entries(root, databases) if path in ours]


def is_test(path):
    return path.stem.endswith("_test")


def parser(description):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    return result


def finish(problems):
    """Prints the problems and ends the script."""
    for problem in sorted(set(problems)):
        print(problem)
    sys.exit(1 if problems else 0)


def all_files(root):
    """Every file of the tree, as paths relative to it."""
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - SKIPPED)
        for name in sorted(set(names) - SKIPPED):  # A file .git is what a second work tree has.
            yield pathlib.Path(folder, name).relative_to(root)


def code_files(root, suffixes=(".h", ".cc", ".c")):
    return [path for path in all_files(root)
            if path.parts[0] in CODE_FOLDERS and path.suffix in suffixes]


def read(root, path):
    return (root / path).read_text(encoding="utf-8")


def blank(text):
    """`text` with comments and literals replaced by spaces; lines and columns stay."""
    return _BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes(text):
    """(line, quoted, path) of every #include."""
    return [(line_of(text, match.start()), match.group(1) == '"', match.group(2))
            for match in _INCLUDE.finditer(text)]


def resolve(root, included):
    """The file that an include path means, relative to the tree; None if it is not ours."""
    for folder in INCLUDE_ROOTS:
        if (root / folder / included).is_file():
            return pathlib.Path(folder, included)
    return None


def tool_version(*command):
    """What a tool says of itself, and the text of the running script: part of every cache key."""
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout + pathlib.Path(sys.argv[0]).read_bytes()


def reached(root, path, cache):
    """(our files that a file includes and that these do, itself among them; others' headers).

    `cache` is a dict kept by the caller.
    """
    seen, others, todo = {path}, set(), [path]
    while todo:
        current = todo.pop()
        if current not in cache:
            text = read(root, current)
            found = [(resolve(root, name), name) for _, _, name in includes(text)]
            cache[current] = (hashlib.sha256(text.encode()).digest(),
                              [file for file, _ in found if file],
                              [name for file, name in found if not file])
        others.update(cache[current][2])
        for included in cache[current][1]:
            if included not in seen:
                seen.add(included)
                todo.append(included)
    return seen, others


def fingerprint(root, path, tool, cache):
    """Digest of a file, of all our headers that it reaches and of `tool`, what it is checked with.

    `cache` is a dict kept by the caller.
    """
    digest = hashlib.sha256(tool)
    for member in sorted(reached(root, path, cache)[0]):
        digest.update(str(member).encode() + b"\0" + cache[member][0])
    return digest.hexdigest()


def run_parallel(run, jobs):
    """The problems that `run` finds in each of `jobs`, in their order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [problem for found in pool.map(run, jobs) for problem in found]


_STAMPS_KEPT = 10000


def default_cache():
    """Where stamps lie unless --cache says: content decides, so checkouts share them."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base, "attndb", "lint")


def add_at_most(arguments):
    """Adds the option that limits run_cached()."""
    arguments.add_argument("--at-most", type=int, metavar="N",
                           help="look at N sources; at all of them if ATTNDB_LINT is all")


class Limit:
    """Chooses the jobs of a run that may look at `at_most` sources.

    A source comes first if the last run that looked at it found something: a run that follows must
    not pass without it. Next come sources whose own text was never looked at: their authors wait
    for the answer. Then come sources whose headers changed, drawn by chance. What is left out gets
    no stamp, so that a later run looks at it. A job is a tuple that begins with the path of its
    source.
    """

    def __init__(self, root, folder, at_most):
        self._root, self._folder = root, folder
        self._at_most = None if os.environ.get("ATTNDB_LINT") == "all" else at_most

    def stamp(self, job):
        """The stamp of a source's own text."""
        digest = hashlib.sha256(f"{job[0]}\0{read(self._root, job[0])}".encode())
        return self._folder / f"own-{digest.hexdigest()}"

    def failed(self, job):
        """The stamp of a source in which something was found."""
        return self._folder / f"failed-{hashlib.sha256(str(job[0]).encode()).hexdigest()}"

    def chosen(self, jobs):
        if self._at_most is None or len(jobs) <= self._at_most:
            return jobs
        print(f"note: looks at {self._at_most} of {len(jobs)} changed sources; `make lint` looks "
              "at all")
        random.shuffle(jobs)
        def place(job):
            return not self.failed(job).exists(), self.stamp(job).exists()
        return sorted(jobs, key=place)[:self._at_most]


def run_cached(folder, jobs, run, batches=lambda jobs: [[job] for job in jobs], limit=None):
    """Runs `run` for each of `jobs` (a dict key -> job) whose key has no stamp in `folder`.

    `batches` groups a list of jobs; `run` takes a group and returns a list of problems. A group
    with problems is halved until it is one job, whose problems are given; jobs without are stamped
    and not run again until their key changes. `limit` can leave jobs out. The stamps used longest
    ago are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = {id(job): key for key, job in jobs.items()}

    def stamps(job):
        return [folder / keys[id(job)], *([limit.stamp(job)] if limit else [])]

    def run_group(group):
        found = run(group)
        if found and len(group) > 1:
            middle = len(group) // 2
            return run_group(group[:middle]) + run_group(group[middle:])
        if not found:
            for stamp in (stamp for job in group for stamp in stamps(job)):
                stamp.touch()
        for job in group if limit else ():
            if found:
                limit.failed(job).touch()
            else:
                limit.failed(job).unlink(missing_ok=True)
        return found

    todo = []
    for key, job in jobs.items():
        if (folder / key).exists():
            for stamp in stamps(job):
                stamp.touch()
        else:
            todo.append(job)
    problems = run_parallel(run_group, batches(limit.chosen(todo) if limit else todo))
    kept = sorted(folder.iterdir(), key=lambda stamp: stamp.stat().st_mtime)
    for stamp in kept[:max(0, len(kept) - _STAMPS_KEPT)]:
        stamp.unlink(missing_ok=True)
    return problems
