"""Runs Python's tests in an order that a seed decides: ATTNDB_SHUFFLE=17.

A test that needs what another one left passes only in the order in which they are written. pytest
takes this as a plugin (`-p shuffled`, with this folder in PYTHONPATH); unittest takes `Loader`.
Without the variable the order is that of the source. scripts/stress.py sets it.
"""

import os
import random
import unittest

VARIABLE = "ATTNDB_SHUFFLE"


def shuffled(names, suite):
    """`names` in the order that the seed gives for this suite; the same each time."""
    names = list(names)
    seed = os.environ.get(VARIABLE)
    if seed:
        random.Random(f"{seed} {suite}").shuffle(names)
    return names


class Loader(unittest.TestLoader):
    """A loader of unittest that puts the tests of each class into random order."""

    def getTestCaseNames(self, testCaseClass):  # noqa: N802, N803
        return shuffled(super().getTestCaseNames(testCaseClass), testCaseClass.__name__)


def pytest_report_header():
    return f"{VARIABLE}={os.environ.get(VARIABLE, '')}"


def pytest_collection_modifyitems(items):
    """Files in random order, and the tests of each: a file's fixtures are made once, as ever."""
    files = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    items[:] = [item for file in shuffled(files, "files") for item in shuffled(files[file], file)]
