"""Keeps one result of ``attndb-bench attention --json``, from stdin, with the commit it is of.

    attndb-bench attention --json | python bench/python/keep_result.py FILE COMMIT

Prints a line a plan.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any


def checked(path: str, result: Any, commit: str) -> Any:
    """A result, with the commit and the kernel that it is of."""
    if "error" in result:
        sys.exit(f"{path}: {result['error']}")
    result["commit"] = commit
    result["machine"]["kernel"] = platform.release()
    return result


def read_result(path: str, commit: str) -> Any:
    """What stdin has."""
    return checked(path, json.load(sys.stdin), commit)


def plan_line(plan: Any) -> str:
    return (
        f"{plan['plan']:45} error {100 * plan['error_mean']:6.2f} %"
        f"  bytes {100 * plan['share_of_full_bytes']:5.1f} %  {plan['ms_median']:9.3f} ms"
        f"  {plan['speedup']:5.2f} x full"
    )


def main() -> None:
    path, commit = sys.argv[1:]
    result = read_result(path, commit)
    for plan in result["plans"]:
        print(plan_line(plan))
    Path(path).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
