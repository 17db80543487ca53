"""Keeps what ``attndb-bench index --json`` says, from stdin, with the commit it is of.

    attndb-bench index --json | python bench/python/keep_index_result.py FILE COMMIT

Of each peer only the results that say something: of recall 0.9 or more, and beaten in recall and
time by no other of its own. Prints a line a head and recall.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from keep_result import read_result


def says_something(result: Any, all_of_head: list[Any]) -> bool:
    if result["name"] == "attndb":
        return True
    return result["recall"] >= 0.9 and not any(
        other["name"] == result["name"]
        and other["recall"] >= result["recall"]
        and other["us_per_query"] < result["us_per_query"]
        for other in all_of_head
    )


def best_text(best: Any) -> str:
    return "not reached" if best is None else f"{best['name']} {best['us_per_query']:.1f} us"


def main() -> None:
    path, commit = sys.argv[1:]
    result = read_result(path, commit)
    for head in result["heads"]:
        results = head["results"]
        head["results"] = [one for one in results if says_something(one, results)]
        for best in head["best"]:
            texts = best_text(best["attndb"]), best_text(best["peer"])
            print(f"{head['name']:8} recall {best['recall']}: {texts[0]:22} {texts[1]}")
    Path(path).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
