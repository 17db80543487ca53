"""``python -m attndb``: the command line, which is in the package."""

import os
import sys
from pathlib import Path


def program_path() -> Path:
    """The command line's program."""
    path = Path(__file__).parent / "bin" / "attndb"
    if not path.exists():  # An editable install: the package's own files lie elsewhere.
        from attndb import _core

        path = Path(_core.__file__).parent / "bin" / "attndb"
    return path


def main() -> int:
    """Becomes the command line. Exit codes: docs/cli.md."""
    os.execv(program_path(), ["attndb", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
