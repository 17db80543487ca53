"""Goal:   the picture of a simulation shows the report's hit rates.
Method: small simulations; what lies in the figure is read back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

import attndb
from attndb import plot

GB = 10**9


def _report(memory: list[int], disk: list[int]) -> attndb.SimulateReport:
    return attndb.simulate(num_conversations=300, memory_bytes=[size * GB for size in memory],
                           disk_bytes=[size * GB for size in disk],
                           policies=["lru", "attndb"])


def test_bars_of_one_memory_and_disk(tmp_path: Path) -> None:
    report = _report([20], [100])
    figure = plot.tiers(report, path=tmp_path / "bars.png")
    bars = figure.axes[0].patches
    tops = [bar.get_y() + bar.get_height() for bar in bars[2:]]
    np.testing.assert_allclose(tops, [100 * run.hit_rate for run in report.runs])
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["lru", "attndb"]
    assert imread(tmp_path / "bars.png").ndim == 3


@pytest.mark.parametrize(("memory", "disk"), [([20], [200, 0, 100]), ([40, 10, 20], [100])])
def test_curves_over_sizes(memory: list[int], disk: list[int]) -> None:
    report = _report(memory, disk)
    lines = plot.tiers(report).axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["lru", "attndb"]
    for line, policy in zip(lines, ("lru", "attndb"), strict=True):
        size = "disk_bytes" if len(disk) > 1 else "memory_bytes"
        points = sorted((getattr(run, size) / GB, 100 * run.hit_rate)
                        for run in report.runs if run.policy == policy)
        np.testing.assert_allclose(np.array(line.get_xydata()), points)


def test_a_curve_for_each_memory_over_disks() -> None:
    lines = plot.tiers(_report([10, 40], [0, 100])).axes[0].get_lines()
    assert [line.get_label() for line in lines] == [
        "lru, 10 GB of memory", "attndb, 10 GB of memory", "lru, 40 GB of memory",
        "attndb, 40 GB of memory"]


def test_no_runs_are_refused() -> None:
    empty = dataclasses.replace(_report([20], [100]), runs=())
    with pytest.raises(attndb.InvalidArgumentError, match="expected one or more runs"):
        plot.tiers(empty)
