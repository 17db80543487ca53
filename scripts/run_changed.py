#!/usr/bin/env python3
"""Runs the tests of a label that can have changed since they passed.

A test is left out if its program, our libraries that it loads and what it is given (arguments,
environment, shard; our own variables and GoogleTest's) are, byte for byte, those with which it
passed: nothing else of this tree could make it fail.
Of a test that is a script, the files beside it and in the folders that it is given count, too. What
passed stands in BUILD/passed.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys


def tests_of(build, label):
    """(name, command, environment) of each test with the label."""
    done = subprocess.run(["ctest", "--show-only=json-v1", "-L", f"^{label}$"], cwd=build,
                          capture_output=True, text=True, check=True)
    for test in json.loads(done.stdout)["tests"]:
        properties = {item["name"]: item["value"] for item in test.get("properties", [])}
        yield test["name"], test.get("command", []), properties.get("ENVIRONMENT", [])


ROOT = pathlib.Path(__file__).resolve().parents[1]


def libraries(program):
    """Our shared libraries that a program loads."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return {pathlib.Path(path).resolve() for path in re.findall(r"=> (/\S+)", done.stdout)
            if path.startswith(f"{ROOT}/")}


def inputs(words):
    """The files that a command depends on: those of this tree that it names, and what they need."""
    files = set()
    for word in words:
        path = pathlib.Path(word)
        if not path.is_absolute() or not path.is_relative_to(ROOT):
            continue
        if path.is_file() and path.suffix in (".py", ".cmake"):
            files |= set(path.parent.rglob("*"))
        elif path.is_file():
            files |= {path} | libraries(path)
        elif path != ROOT and not path.is_relative_to(ROOT / "build"):
            files |= set(path.rglob("*"))
    return sorted(file for file in files if file.is_file() and "__pycache__" not in file.parts)


def fingerprint(command, environment, known):
    given = sorted(item for item in os.environ.items() if item[0].startswith(("ATTNDB_", "GTEST_")))
    digest = hashlib.sha256(repr((command, environment, given)).encode())
    for file in inputs(command):
        if file not in known:
            known[file] = hashlib.sha256(file.read_bytes()).digest()
        digest.update(str(file).encode() + known[file])
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--label", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    stamps, known = args.build / "passed", {}
    stamps.mkdir(exist_ok=True)
    keys = {name: fingerprint(command, environment, known)
            for name, command, environment in tests_of(args.build, args.label)}
    todo = [name for name, key in keys.items()
            if not (stamps / name).is_file() or (stamps / name).read_text() != key]
    if not keys:
        sys.exit(f"{args.build} has no tests of the label {args.label}")
    print(f"{len(todo)} of {len(keys)} tests can have changed")
    if not todo:
        return
    for name in todo:
        (stamps / name).unlink(missing_ok=True)
    report = (args.build / "changed.xml").resolve()
    done = subprocess.run(
        ["ctest", "--output-on-failure", "-j", str(args.jobs), "--output-junit", str(report), "-R",
         "^(" + "|".join(map(re.escape, todo)) + ")$"], cwd=args.build, check=False)
    for name in re.findall(r'<testcase name="([^"]+)"[^>]*status="run"', report.read_text()):
        (stamps / name).write_text(keys[name])
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
