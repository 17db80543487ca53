"""Writes the text of the benchmarks: the topics of Python's own documentation, joined.

    python bench/python/make_text.py FILE [BYTES]

Some 130,000 tokens of SmolLM2, of one kind and free to have. With BYTES, the sources of the
standard library's modules follow, in the order of their names, until there are so many bytes: 256K
tokens take some 1,200,000. Which Python it is of is in the text's length and SHA-256, which are
printed.
"""

from __future__ import annotations

import hashlib
import os
import pydoc_data.topics
import sys
from pathlib import Path


def topics_text() -> bytes:
    topics = pydoc_data.topics.topics
    return "\n".join(topics[name] for name in sorted(topics)).encode()


def with_sources(text: bytes, num_bytes: int) -> bytes:
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        if len(text) >= num_bytes:
            break
        text += b"\n" + path.read_bytes()
    return text[:num_bytes]


def main() -> None:
    text = topics_text()
    if len(sys.argv) > 2:
        text = with_sources(text, int(sys.argv[2]))
    Path(sys.argv[1]).write_bytes(text)
    print(f"{sys.argv[1]}: {len(text)} bytes, SHA-256 {hashlib.sha256(text).hexdigest()[:16]}")


if __name__ == "__main__":
    main()
