"""Writes the text of the benchmarks: the topics of Python's own documentation, joined.

    python bench/python/make_text.py FILE

Some 130,000 tokens of SmolLM2, of one kind and free to have. Which Python it is of is in the text's
length and SHA-256, which are printed.
"""

from __future__ import annotations

import hashlib
import pydoc_data.topics
import sys
from pathlib import Path


def main() -> None:
    topics = pydoc_data.topics.topics
    text = "\n".join(topics[name] for name in sorted(topics)).encode()
    Path(sys.argv[1]).write_bytes(text)
    print(f"{sys.argv[1]}: {len(text)} bytes, SHA-256 {hashlib.sha256(text).hexdigest()[:16]}")


if __name__ == "__main__":
    main()
