"""Finds the command line's program, which is part of the package."""

from pathlib import Path


def program_path() -> Path:
    """Returns the path of the command line's program."""
    path = Path(__file__).parent / "bin" / "attndb"
    if not path.exists():  # In an editable install the package's own files lie elsewhere.
        from attndb import _core

        path = Path(_core.__file__).parent / "bin" / "attndb"
    return path
