"""Goal:   each picture shows the numbers that it says, and can be saved without a display.
Method: drawn from SmolLM2's q, k, v; what lies in the figure is read back and compared with torch,
        brute force and the model's own softmax."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

import attndb
from attndb import measure, plot
from brute_force import NUM_Q_HEADS, SCALE, attended, num_for_mass, scores
from smollm2_capture import LAYERS, NUM_TOKENS, Capture

EXAMPLE = Path(__file__).parents[3] / "examples/plot_attention.py"


def test_draws_the_tokens_that_each_head_needs(captured: Capture, file: attndb.KvFile) -> None:
    figure = plot.tokens_for_mass(file, 0.8, queries=2, alpha=0.02)
    taken, needed = (np.array(dots.get_offsets()) for dots in _dots(figure))
    counts = np.empty((2, len(LAYERS), NUM_Q_HEADS))
    for i, layer in enumerate(LAYERS):
        for head in range(NUM_Q_HEADS):
            rows = [scores(captured, layer, head, NUM_TOKENS - 1 - j) * SCALE for j in range(2)]
            weights = [torch.softmax(logits, dim=0) for logits in rows]
            counts[0, i, head] = np.mean([int((w >= 0.02 * w.max()).sum()) for w in weights])
            counts[1, i, head] = np.mean([num_for_mass(w, 0.8) for w in weights])
    np.testing.assert_array_equal(taken[:, 1], counts[0].ravel())
    np.testing.assert_array_equal(needed[:, 1], counts[1].ravel())
    assert np.round(needed[:, 0]).tolist() == np.repeat(range(len(LAYERS)), NUM_Q_HEADS).tolist()
    assert (np.diff(needed[:, 0]) > 0).all(), "heads stand side by side"
    texts = _texts(figure)
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == [*map(str, LAYERS)]
    assert f"needed for 80 % of the mass: mean {counts[1].mean():,.0f}" in texts
    assert f"dipr(alpha=0.02) takes: mean {counts[0].mean():,.0f}" in texts
    assert "SmolLM2-135M-Instruct · 800 tokens" in texts
    assert len(_dots(plot.tokens_for_mass(file, queries=1))) == 1


@pytest.mark.parametrize("query", [-1, NUM_TOKENS - 20])
def test_draws_attention_and_marks_the_critical_tokens(
    captured: Capture, file: attndb.KvFile, query: int
) -> None:
    layer, head, plan = LAYERS[1], 1, "dipr(alpha=0.012,sink=4,window=32)"
    figure = plot.attention(file, layer, head, plan, query=query)
    token = query % NUM_TOKENS
    tokens, critical = attended(scores(captured, layer, head, token), plan)
    assert critical, "a head without critical tokens shows nothing"
    groups = [set(range(token + 1)) - tokens, tokens - critical, critical]
    weights = captured.weights[layer][token - NUM_TOKENS][head]
    for dots, expected in zip(_dots(figure), groups, strict=True):
        x, y = np.array(dots.get_offsets()).T
        assert set(x.astype(int).tolist()) == expected
        np.testing.assert_allclose(y, weights[x.astype(int)], rtol=2e-3, atol=1e-6)
        found = re.search(r": ([\d,]+) tokens?, ([\d.e-]+) %", str(dots.get_label()))
        assert found and int(found[1]) == len(expected)
        assert float(found[2]) == pytest.approx(100 * weights[sorted(expected)].sum(), rel=0.02)
    assert f"Attention of token {token}, layer {layer}, q head {head}" in _texts(figure)


def test_draws_attention_without_a_plan_and_under_full(file: attndb.KvFile) -> None:
    for plan in (None, "full"):
        (dots,) = _dots(plot.attention(file, 0, 8, plan))
        assert np.array(dots.get_offsets())[:, 0].tolist() == list(range(NUM_TOKENS))


def test_draws_error_against_bytes_and_against_critical_tokens(file: attndb.KvFile) -> None:
    plans = ["topk(k=8)", "dipr(alpha=0.012)", "topk(k=64,window=64)", "window", "full"]
    points = measure.plan_errors(file, plans, queries=2)
    by_plan = {point.plan: point for point in points}
    families = {
        "topk": ["topk(k=64,window=64)", "topk(k=8)"],  # In the order of bytes.
        "dipr": ["dipr(alpha=0.012)"],
        "window": ["window"],
        "full": ["full"],
    }
    figures = {
        "bytes": plot.plan_errors(points, notes="five plans"),
        "selected": plot.plan_errors(points, against="selected"),
    }
    for against, figure in figures.items():
        lines = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
        for family, members in families.items():
            found = [by_plan[plan] for plan in members]
            if against == "selected":
                found.sort(key=lambda point: point.selected)
            x = [p.bytes_per_token / 2**20 if against == "bytes" else p.selected for p in found]
            np.testing.assert_allclose(lines[family].get_xdata(), x)
            if family != "full":
                y = [100 * point.error for point in found]
                np.testing.assert_allclose(lines[family].get_ydata(), y)
        texts = _texts(figure)
        assert {"k=8", "k=64,window=64", "alpha=0.012", "window", "full: error 0"} <= texts
    assert "five plans" in _texts(figures["bytes"])


def test_labels_do_not_hide_each_other(file: attndb.KvFile) -> None:
    plans = [f"topk(k={k})" for k in (8, 16, 24)] + [f"dipr(alpha={a})" for a in (0.1, 0.05)]
    figure = plot.plan_errors(measure.plan_errors(file, plans, queries=1))
    figure.draw_without_rendering()
    names = {"k=8", "k=16", "k=24", "alpha=0.1", "alpha=0.05"}
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text() in names]
    assert len(boxes) == 5
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_draws_what_each_head_runs(tmp_path: Path, file: attndb.KvFile) -> None:
    spec = attndb.ModelSpec([file.spec.layers[0]], "float32", b"SmolLM2's layer 0")
    ids = file.tokens
    k, v = file.read_kv(0)
    with attndb.open(tmp_path / "store") as db:
        db.import_context(spec, ids[:300], [(k[:300], v[:300])], name="manual")
        session, _ = db.create_session(spec, ids[:301], plan="topk(k=8)")
        sparse = session.explain()
        session.set_plan("full")
        full = session.explain()
    for explain in (sparse, full):
        figure = plot.physical_plan(explain)
        (image,) = figure.axes[0].get_images()
        drawn = np.asarray(image.get_array())[:, 0]
        expected = [head.predicted_bytes / 2**10 for head in explain.layers[0].heads]
        np.testing.assert_allclose(drawn, expected)
        assert any(text.endswith("ms predicted") for text in _texts(figure))
    dots = plot.physical_plan(full, show="time").axes[0].collections[0].get_offsets()
    assert len(np.array(dots)) == len(full.layers[0].heads)
    with pytest.raises(attndb.InvalidArgumentError, match="show"):
        plot.physical_plan(full, show="colour")  # type: ignore[arg-type]


def test_draws_what_of_each_prompt_is_in_the_store(tmp_path: Path, file: attndb.KvFile) -> None:
    spec = attndb.ModelSpec([file.spec.layers[0]], "float32", b"SmolLM2's layer 0")
    ids = file.tokens
    k, v = file.read_kv(0)
    prompts = {"more": ids[:700], "less": ids[:200], "edited": np.roll(ids, 3), "half": ids.copy()}
    prompts["half"][300:] = 5
    with attndb.open(tmp_path / "store") as db:
        db.import_context(spec, ids[:600], [(k[:600], v[:600])], name="manual")
        figure = plot.prefix_hits(measure.prefix_hits(db, spec, prompts))
    reused, rest = ([bar.get_width() for bar in bars] for bars in figure.axes[0].containers)
    assert reused == [600, 199, 0, 300]
    assert rest == [100, 1, NUM_TOKENS, NUM_TOKENS - 300]
    texts = _texts(figure)
    assert {"600 from 'manual'", "300 from 'manual'", "none", *prompts} <= texts
    assert {"reused: 1,099 tokens", "to run: 1,401 tokens"} <= texts
    assert "44 % of the prompts' tokens are reused" in texts


def test_saves_what_the_name_says(tmp_path: Path, file: attndb.KvFile) -> None:
    plot.attention(file, 0, 0, path=tmp_path / "attention.png")
    assert imread(tmp_path / "attention.png").std() > 0.05, "an empty picture"
    plot.attention(file, 0, 0, path=str(tmp_path / "attention.svg"))
    assert "<svg" in (tmp_path / "attention.svg").read_text()


def test_refuses_what_can_not_be_drawn(file: attndb.KvFile) -> None:
    for call in (
        lambda: plot.attention(file, 0, NUM_Q_HEADS),
        lambda: plot.attention(file, 0, -1),
        lambda: plot.plan_errors([]),
        lambda: plot.prefix_hits([]),
    ):
        with pytest.raises(attndb.InvalidArgumentError):
            call()


def test_completion_offers_what_is_public() -> None:
    assert dir(plot) == plot.__all__ and dir(measure) == measure.__all__
    for module in (plot, measure):
        assert all(callable(getattr(module, name)) for name in dir(module))


def test_asks_for_matplotlib_by_name_and_leaves_pyplot_alone() -> None:
    script = (
        "import sys, attndb.measure\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import attndb.plot\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "del sys.modules['attndb.plot']\n"
        "sys.modules['matplotlib'] = None\n"
        "import attndb.plot\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stderr.strip().endswith(
        "ImportError: attndb.plot needs matplotlib: pip install matplotlib"
    )


def test_the_example_draws_three_pictures(tmp_path: Path, captured: Capture) -> None:
    folder = tmp_path / "pictures"
    command = [sys.executable, str(EXAMPLE), str(captured.path), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "dipr(alpha=0.012)" in ended.stdout
    names = {path.name for path in folder.iterdir()}
    assert names == {"tokens_for_mass.png", "attention.png", "plan_errors.png"}


def test_three_pictures_are_drawn_of_a_file(tmp_path: Path, file: attndb.KvFile) -> None:
    drawn: list[str] = []
    folder = tmp_path / "new" / "pictures"
    done = plot.pictures(file, folder, layer=LAYERS[1], queries=2, format="svg", drawn=drawn.append)
    assert drawn == list(done.files)
    assert [Path(path).name for path in drawn] == [
        "tokens_for_mass.svg", "attention.svg", "plan_errors.svg"
    ]
    assert all("<svg" in Path(path).read_text() for path in drawn)
    assert done.layer == LAYERS[1]
    assert [point.plan for point in done.points][-1] == "window"
    weights = measure.attention_weights(file, LAYERS[1])
    critical = measure.critical_tokens(file, LAYERS[1], "dipr(alpha=0.012)").critical
    shares = [w[c].sum() / (1 + c.sum()) for w, c in zip(weights, critical, strict=True)]
    assert done.head == int(np.argmax(shares)), "the head that attends most to what is critical"
    with pytest.raises(attndb.InvalidArgumentError, match=f"head {NUM_Q_HEADS}: no layer has"):
        plot.pictures(file, folder, head=NUM_Q_HEADS)
    with pytest.raises(attndb.InvalidArgumentError, match="format: expected 'png', 'svg' or 'pdf'"):
        plot.pictures(file, folder, format="gif")  # type: ignore[arg-type]


def test_the_module_draws_from_a_command_line(tmp_path: Path, captured: Capture) -> None:
    """What `attndb plot` runs, and reads with --json."""
    given = ["--json", "--queries", "2", "--layer", str(LAYERS[0]), "--head", "0", "-o"]
    ended = _plot_module(*given, str(tmp_path / "out"), str(captured.path))
    assert ended.returncode == 0, ended.stderr
    *files, told = map(json.loads, ended.stdout.splitlines())
    assert [Path(row["file"]).stem for row in files] == [
        "tokens_for_mass", "attention", "plan_errors"
    ]
    assert (told["layer"], told["head"]) == (LAYERS[0], 0)
    assert [plan["plan"] for plan in told["plans"]][-1] == "window"
    assert all(plan["error"] >= 0 and plan["bytes_per_token"] > 0 for plan in told["plans"])


def test_the_module_says_why_there_is_no_picture(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    ended = _plot_module("--json", "-o", none, none)
    assert ended.returncode == 1
    error = json.loads(ended.stdout)["error"]
    assert error["code"] == "not found" and "none" in error["message"]
    ended = _plot_module("-o", none, none)
    assert ended.returncode == 1 and ended.stdout.startswith("attndb.plot: ")
    assert not Path(none).exists()


def test_the_packages_command_line_draws_with_the_python_that_it_runs_in(
    tmp_path: Path, captured: Capture
) -> None:
    env = {key: value for key, value in os.environ.items() if key != "ATTNDB_PYTHON"}
    words = ["plot", str(captured.path), "-o", str(tmp_path), "--queries", "1", "--layer",
             str(LAYERS[0]), "--head", "0", "--json"]
    ended = subprocess.run([sys.executable, "-m", "attndb", *words], capture_output=True, text=True,
                           env={**env, "PATH": "/nonexistent"})
    assert ended.returncode == 0, ended.stderr
    assert len(json.loads(ended.stdout)["files"]) == 3


def _plot_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attndb.plot", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def _dots(figure: Figure) -> list:
    """Scatter plots, in the order they were drawn."""
    return [dots for dots in figure.axes[0].collections if hasattr(dots, "get_sizes")]


def _texts(figure: Figure) -> set[str]:
    """All that is written in the figure."""
    figure.draw_without_rendering()
    return {text.get_text() for text in figure.findobj(lambda item: hasattr(item, "get_text"))}
