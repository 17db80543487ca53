"""Reads the tests of a build from ctest, and what ctest prints while it runs them."""

import json
import re
import subprocess

_START = re.compile(r"^\s+Start\s+\d+: (\S+)$")
_RESULT = re.compile(r"^\s*\d+/(\d+) Test\s+#\d+: (\S+) \.+\s*(.*?)\s+([\d.]+) sec\s*$")
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


class Reader:
    """Reads what one call of ctest prints. `closing` is the match of its closing line, or None.

    ctest prints a failed test's output behind the test's line, and that output ends at the next
    line of ctest. A test that runs ctest itself prints such lines, too. Its lines name other tests,
    or other numbers of tests, or come before the last closing line.
    """

    def __init__(self, names):
        """`names` are those of all tests that this call may run, set-ups of fixtures included."""
        self._names = names
        self._seen, self._disabled, self._total = set(), 0, None
        self.closing = None

    def results(self, lines):
        """(name, status, seconds, output) of each test, as soon as ctest has said it all."""
        current, output, end = None, [], None
        for line in lines:
            match = self._result(line)
            if current and (match or self._is_start(line)):
                yield *current, "".join(output)
                current, end = None, None
            if match:
                current, output = (match[2], match[3], float(match[4])), []
                continue
            if closing := self._closing(line):
                self.closing, end = closing, len(output)
            if current:
                output.append(line)
        if current:
            yield *current, "".join(output[:end])

    def _is_new(self, name):
        return name in self._names and name not in self._seen

    def _result(self, line):
        match = _RESULT.match(line)
        if not match or not self._is_new(match[2]) or self._total not in (None, match[1]):
            return None
        self._total = match[1]
        self._seen.add(match[2])
        self._disabled += "Disabled" in match[3]
        return match

    def _is_start(self, line):
        match = _START.match(line)
        return match and self._is_new(match[1])

    def _closing(self, line):
        """The match of a line that can be the closing line: it comes when all tests have ended."""
        match = CLOSING.match(line.rstrip("\n"))
        ended = len(self._seen)
        whole = str(ended) == self._total and match and int(match[3]) == ended - self._disabled
        return match if whole else None


def state_of(status):
    """A result as passed, skipped or failed. None if the test was not run."""
    if "Passed" in status:
        return "passed"
    if "Skipped" in status or "Disabled" in status:
        return "skipped"
    return None if "Not Run" in status else "failed"


def plain(status):
    """A status without the asterisks of ctest."""
    return " ".join(status.replace("***", " ").split())


def cases_in(output):
    """The tests of a program that failed, as the program names them."""
    return list(dict.fromkeys(next(filter(None, match.groups()))
                              for match in _FAILED_CASE.finditer(output)))
