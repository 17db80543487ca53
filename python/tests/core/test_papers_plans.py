"""Every plan that docs/plan.md gives as a paper's setting runs over stored and new tokens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import attndb
from core_steps import NUM_LAYERS, Steps

PLAN_MD = Path(__file__).resolve().parents[3] / "docs/plan.md"
NUM_STORED = 300


def plans_of_papers() -> list[str]:
    section = PLAN_MD.read_text(encoding="utf-8").split("## The papers' settings")[1]
    section = section.split("\n## ")[0]
    rows = [line.split("|")[3] for line in section.splitlines() if line.startswith("| ")][1:]
    return [plan for row in rows for plan in re.findall(r"`([^`]+)`", row)]


def test_the_table_has_plans() -> None:
    assert {"full", "pqcache", "infllm", "auto(rules=alaya)"} <= set(plans_of_papers())


@pytest.mark.parametrize("plan", plans_of_papers())
def test_runs(plan: str, db: attndb.DB, spec: attndb.ModelSpec) -> None:
    steps = Steps(NUM_STORED + 1)
    session, _ = db.create_session(spec, steps.ids[:NUM_STORED])
    steps.run(session, 0, NUM_STORED)
    db.store(session, steps.ids[:NUM_STORED])
    resumed, rest = db.create_session(spec, steps.ids, plan=plan)
    assert len(rest) == 1
    out = steps.run(resumed, NUM_STORED, NUM_STORED + 1)
    explain = resumed.explain()
    assert len(explain.layers) == NUM_LAYERS
    for layer in range(NUM_LAYERS):
        expected, _ = steps.expected(layer, NUM_STORED, NUM_STORED + 1)
        # What sinks, window and the papers' budgets hold is all there is, or a share of it.
        if explain.layers[layer].selected_mean == NUM_STORED + 1:
            np.testing.assert_allclose(out[layer], expected, rtol=0, atol=1e-5)
        assert np.isfinite(out[layer]).all()
