"""Where the command line's program lies, which is part of the package."""

from pathlib import Path


def program_path() -> Path:
    """The command line's program."""
    path = Path(__file__).parent / "bin" / "attndb"
    if not path.exists():  # An editable install: the package's own files lie elsewhere.
        from attndb import _core

        path = Path(_core.__file__).parent / "bin" / "attndb"
    return path
