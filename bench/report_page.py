"""Pages of docs/ with tables of results, and marks between which the tables stand:
bench/tiers_report.py, bench/truncation_report.py and bench/serve_report.py fill them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def replaced(page: str, name: str, text: str) -> str:
    """The page with `text` between the marks of `name`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return before + begin + text + end + after


def fill_page(name: str, about: str, section: Callable[[Any], str]) -> None:
    """Runs the report `name`: puts the section of bench/results/`name`.json between the marks of
    docs/`name`.md, or checks that it stands there.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--results", type=Path, default=ROOT / f"bench/results/{name}.json")
    parser.add_argument("--page", type=Path, default=ROOT / f"docs/{name}.md")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    page = arguments.page.read_text()
    wanted = replaced(page, name, section(json.loads(arguments.results.read_text())))
    if not arguments.check:
        arguments.page.write_text(wanted)
    elif page != wanted:
        sys.exit(f"{arguments.page} is not that of the results: run bench/{name}_report.py")
