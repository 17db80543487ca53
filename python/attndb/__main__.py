"""``python -m attndb``: the command line, which is in the package."""

import os
import sys
from pathlib import Path


def main() -> int:
    """Becomes the command line. Exit codes: docs/cli.md."""
    program = Path(__file__).parent / "bin" / "attndb"
    if not program.exists():  # An editable install: the package's own files lie elsewhere.
        from attndb import _core

        program = Path(_core.__file__).parent / "bin" / "attndb"
    os.execv(program, ["attndb", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
