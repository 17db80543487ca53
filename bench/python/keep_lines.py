"""Keeps results of several ``attndb-bench attention --json``, from stdin, one a line.

    ... | python bench/python/keep_lines.py FILE COMMIT

Prints a line a run and plan.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from keep_result import checked, plan_line


def main() -> None:
    path, commit = sys.argv[1:]
    runs = [checked(path, json.loads(line), commit) for line in sys.stdin]
    for run in runs:
        print(f"{run['heads']['num_tokens']:,} tokens")
        for plan in run["plans"]:
            print("  " + plan_line(plan))
    result = {
        "bench": "lines",
        "commit": commit,
        "machine": runs[0]["machine"],
        "runs": [{key: run[key] for key in ("heads", "plans")} for run in runs],
    }
    Path(path).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
