"""Writes the documents of bench_truncation: English that a Debian machine has by itself.

    python bench/python/truncation_documents.py FOLDER [NUM_DOCUMENTS]

Each is 64,000 characters, some 14,000 to 20,000 tokens of SmolLM2, of one of four kinds in turn:
the topics of Python's documentation, docstrings of its standard library, licences, manual pages. A
kind that the machine does not have is left out, and those that it has go on. What each document is
of, and its SHA-256, is in FOLDER/sources.json.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import pydoc_data.topics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

CHARACTERS = 64_000
LICENCES = Path("/usr/share/common-licenses")
# Without those that repeat another almost word for word.
LICENCE_NAMES = ("GPL-3", "Apache-2.0", "MPL-2.0", "GFDL-1.3", "LGPL-2.1", "Artistic", "CC0-1.0",
                 "GPL-1", "MPL-1.1")
MANUALS = ("bash", "curl", "gpg", "tmux", "ld", "wget", "git-config", "valgrind", "systemctl")


def topics() -> str:
    return "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))


def docstrings() -> str:
    found = []
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text and len(text) > 300:
                    found.append(text)
    return "\n\n".join(found)


def licences() -> str:
    paths = (LICENCES / name for name in LICENCE_NAMES)
    return "\n".join(path.read_text(errors="replace") for path in paths if path.is_file())


def manual(name: str) -> str:
    environment = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["man", "--no-hyphenation", "--no-justification", "--pager=cat", name],
                          env=environment, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def parts(name: str, make: Callable[[], str]) -> Iterator[tuple[str, str]]:
    text = make()
    for i in range(len(text) // CHARACTERS):
        yield f"{name}, part {i + 1}", text[i * CHARACTERS:(i + 1) * CHARACTERS]


def manuals() -> Iterator[tuple[str, str]]:
    """The beginning of each page that is long enough."""
    for name in MANUALS:
        try:
            text = manual(name)
        except FileNotFoundError:  # There is no man.
            return
        if len(text) >= CHARACTERS:
            yield f"{name}(1)", text[:CHARACTERS]


def documents() -> Iterator[tuple[str, str]]:
    kinds = [parts("topics of Python's documentation", topics), manuals(),
             parts("licences", licences), parts("docstrings of Python's library", docstrings)]
    while kinds:
        for kind in list(kinds):
            document = next(kind, None)
            if document is None:
                kinds.remove(kind)
            else:
                yield document


def main() -> None:
    folder = Path(sys.argv[1])
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    folder.mkdir(parents=True, exist_ok=True)
    sources = []
    for _, (source, text) in zip(range(wanted), documents(), strict=False):
        data = text.encode()
        name = f"{len(sources):02}.txt"
        (folder / name).write_bytes(data)
        sources.append({"file": name, "source": source,
                        "sha256": hashlib.sha256(data).hexdigest()})
    if len(sources) < wanted:
        sys.exit(f"this machine has {len(sources)} documents, expected {wanted}")
    (folder / "sources.json").write_text(json.dumps(sources, indent=1) + "\n")
    print(f"{folder}: {len(sources)} documents of {CHARACTERS} characters")


if __name__ == "__main__":
    main()
