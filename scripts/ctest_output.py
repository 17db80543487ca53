"""Reads the tests of a build from ctest, and what ctest prints while it runs them."""

import json
import re
import subprocess

_START = re.compile(r"^\s+Start\s+\d+: ")
_RESULT = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.+\s*(.*?)\s+([\d.]+) sec\s*$")
CLOSING = re.compile(r"^(\d+)% tests passed, (\d+) tests failed out of (\d+)$")
_FAILED_CASE = re.compile(
    r"^(?:\[  FAILED  \] ([\w/.]+)"      # GoogleTest.
    r"|(?:FAILED|ERROR) (\S+::\S+)"      # pytest.
    r"|(?:FAIL|ERROR): (\w+ \(\S+\)))",  # unittest.
    re.MULTILINE)


class Entry:
    """One entry of ctest."""

    def __init__(self, test):
        self.name = test["name"]
        self.command = test.get("command", [])
        self.properties = {item["name"]: item["value"] for item in test.get("properties", [])}

    def listed(self, name):
        """The values of a property that is a list."""
        return self.properties.get(name, [])


def entries(options, cwd):
    """The entries that `ctest OPTIONS` would run."""
    done = subprocess.run(["ctest", *options, "--show-only=json-v1"], cwd=cwd, text=True,
                          capture_output=True, check=True)
    # A preset may print a line before the JSON.
    return [Entry(test) for test in json.loads(done.stdout[done.stdout.index("{"):])["tests"]]


def results_in(lines, names):
    """(name, status, seconds, output) of each test, as soon as ctest has said it all.

    `names` are those of the tests. ctest prints a failed test's output behind its line; the next
    line of its own ends that.
    """
    current, output = None, []
    for line in lines:
        match = _RESULT.match(line)
        if match and match[1] not in names:
            match = None  # The output of a test that runs ctest itself.
        if current and (match or _START.match(line) or CLOSING.match(line)):
            yield *current, "".join(output)
            current = None
        if match:
            current, output = (match[1], match[2], float(match[3])), []
        elif current:
            output.append(line)
    if current:
        yield *current, "".join(output)


def state_of(status):
    """What a result counts as: passed, skipped, failed; None if the test was not run."""
    if "Passed" in status:
        return "passed"
    if "Skipped" in status or "Disabled" in status:
        return "skipped"
    return None if "Not Run" in status else "failed"


def plain(status):
    """A status without ctest's decoration."""
    return " ".join(status.replace("***", " ").split())


def cases_in(output):
    """The tests of a program that failed, as the program names them."""
    return list(dict.fromkeys(next(filter(None, match.groups()))
                              for match in _FAILED_CASE.finditer(output)))
