"""What attndb.measure must find, by other means: torch, one head and one row at a time."""

from __future__ import annotations

import math

import torch

from smollm2_capture import NUM_QUERIES, NUM_TOKENS, Capture

NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM = 9, 3, 64
SCALE = 1 / math.sqrt(HEAD_DIM)


def scores(captured: Capture, layer: int, head: int, row: int) -> torch.Tensor:
    """Unscaled, of the tokens that token `row` sees."""
    kv_head = head // (NUM_Q_HEADS // NUM_KV_HEADS)
    k = torch.tensor(captured.k[layer][: row + 1, kv_head], dtype=torch.float64)
    q = captured.q[layer][row - (NUM_TOKENS - NUM_QUERIES), head]
    return k @ torch.tensor(q, dtype=torch.float64)


def num_for_mass(weights: torch.Tensor, mass: float) -> int:
    """Takes the largest away, one by one, until no more than the rest is left."""
    left, count = float(weights.sum()) * mass, 0
    for weight in weights.sort(descending=True).values.tolist():
        left -= weight
        count += 1
        if left <= 0:
            return count
    return count


def attended(scores: torch.Tensor, plan: str) -> tuple[set[int], set[int]]:
    """Tokens attended to, and the critical ones, under "name(key=value,...)" with all its keys."""
    name, _, rest = plan.rstrip(")").partition("(")
    options = {key: float(value) for key, value in (pair.split("=") for pair in rest.split(","))}
    n, values = len(scores), scores.tolist()
    always = set(range(n)[: int(options["sink"])]) | set(range(n)[-int(options["window"]) :])
    middle = [i for i in range(n) if i not in always]
    if name == "window":
        return always, set()
    if name == "topk":
        middle.sort(key=lambda i: -values[i])
        critical = set(middle[: int(options["k"])])
    elif name == "mass":
        weights = torch.softmax(scores * SCALE, dim=0).tolist()
        held, critical = sum(weights[i] for i in always), set()
        for i in sorted(middle, key=lambda i: -weights[i]):
            if held >= options["p"]:
                break
            held += weights[i]
            critical.add(i)
    else:
        weights = torch.softmax(scores * SCALE, dim=0).tolist()
        least = options["alpha"] * max(weights)
        critical = {i for i in middle if weights[i] >= least}
    return always | critical, critical


def output(
    captured: Capture, layer: int, head: int, scores: torch.Tensor, tokens: set[int]
) -> torch.Tensor:
    """Attention over `tokens` alone."""
    chosen = torch.tensor(sorted(tokens))
    v = captured.v[layer][:, head // (NUM_Q_HEADS // NUM_KV_HEADS)]
    v = torch.tensor(v, dtype=torch.float64)[chosen]
    return torch.softmax(scores[chosen] * SCALE, dim=0) @ v
