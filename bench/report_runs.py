"""What bench/results/ has of runs of plans: one run's plans by name. report.py and
report_pictures.py read it."""

from __future__ import annotations

from typing import Any

AUTO, FAST = "auto(error=0.01)", "auto(error=0.03)"
BY_SCAN, BY_CLUSTERS = "auto(error=0.01,index=flat)", "auto(error=0.01,index=clustered)"
TOP_BY_SCAN, TOP_BY_CLUSTERS = "topk(k=100,bits=4)", "topk(k=100,index=clustered)"


def plan_of(result: Any, name: str) -> Any:
    """The plan's entry; None where the build did not have it."""
    return next((plan for plan in result["plans"] if plan["plan"] == name), None)


def group_size(run: Any) -> int:
    return int(run["heads"]["num_q_heads"] // run["heads"]["num_kv_heads"])
