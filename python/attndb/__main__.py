"""Runs the command line, which is part of the package: ``python -m attndb``."""

import os
import sys

from attndb._program import program_path


def main() -> int:
    """Replaces this process by the command line. Exit codes: docs/cli.md."""
    os.environ.setdefault("ATTNDB_PYTHON", sys.executable)  # `attndb plot` runs this Python.
    os.execv(program_path(), ["attndb", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
