"""``python -m attndb``: the command line, which is in the package."""

import os
import sys

from attndb._program import program_path


def main() -> int:
    """Becomes the command line. Exit codes: docs/cli.md."""
    os.environ.setdefault("ATTNDB_PYTHON", sys.executable)  # `attndb plot` comes back here.
    os.execv(program_path(), ["attndb", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
