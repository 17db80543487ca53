"""Keeps results of several ``attndb bench attention --json``, from stdin, one a line.

    ... | python bench/python/keep_lines.py FILE COMMIT

Prints a line a run and plan.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path


def main() -> None:
    path, commit = sys.argv[1:]
    runs = [json.loads(line) for line in sys.stdin]
    for run in runs:
        if "error" in run:
            sys.exit(f"{path}: {run['error']}")
        print(f"{run['heads']['num_tokens']:,} tokens")
        for plan in run["plans"]:
            print(
                f"  {plan['plan']:45} error {100 * plan['error_mean']:6.2f} %"
                f"  {plan['ms_median']:9.3f} ms  {plan['speedup']:5.2f} x full"
            )
    result = {
        "bench": "lines",
        "commit": commit,
        "machine": {**runs[0]["machine"], "kernel": platform.release()},
        "runs": [{key: run[key] for key in ("heads", "plans")} for run in runs],
    }
    Path(path).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
