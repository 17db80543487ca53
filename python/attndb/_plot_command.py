"""The command ``python -m attndb.plot``, which draws pictures of a captured file. `attndb plot`
runs this command with ``--json`` and reads its output."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from attndb import plot
from attndb._errors import Error, IoError, ResourceExhaustedError
from attndb._kv_file import KvFile
from attndb.measure import PlanError


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws the pictures that the command line asks for. Returns the exit code: 0, or 1 after a
    line with the error."""
    options = _parser().parse_args(arguments)

    def drawn(path: str) -> None:
        _say(options.json, {"file": path}, path)

    try:
        done = plot.pictures(
            KvFile(options.file),
            options.output,
            plan=options.plan,
            layer=options.layer,
            head=options.head,
            queries=options.queries,
            format=options.format,
            drawn=drawn,
        )
    except (Error, OSError, MemoryError) as error:
        kind = _kind(error)
        text = str(error) or "no memory"
        _say(options.json, {"error": {"code": kind.code, "message": text}}, f"attndb.plot: {text}")
        return 1
    points = [_fields(point) for point in done.points]
    told = {"layer": done.layer, "head": done.head, "plan": options.plan, "plans": points}
    _say(options.json, told, "\n".join(map(_row, done.points)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m attndb.plot", description="Draws what a model attends to, from a captured file."
    )
    parser.add_argument("file", help="a file of attndb capture, attndb.capture or write_kv_file")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="of the pictures")
    parser.add_argument("--plan", default="dipr(alpha=0.012)", help="marked in attention.png")
    parser.add_argument("--layer", type=int, help="of attention.png (default: a telling one)")
    parser.add_argument("--head", type=int, help="q head of attention.png (default: a telling one)")
    parser.add_argument("--queries", type=int, default=16, help="newest queries (default: 16)")
    parser.add_argument("--format", choices=("png", "svg", "pdf"), default="png")
    parser.add_argument("--json", action="store_true", help="a JSON object for each line")
    return parser


def _say(is_json: bool, fields: dict[str, object], text: str) -> None:
    print(json.dumps(fields) if is_json else text, flush=True)


def _kind(error: BaseException) -> type[Error]:
    if isinstance(error, Error):
        return type(error)
    return IoError if isinstance(error, OSError) else ResourceExhaustedError


def _fields(point: PlanError) -> dict[str, object]:
    return {
        "plan": point.plan,
        "error": point.error,
        "bytes_per_token": point.bytes_per_token,
        "full_bytes_per_token": point.full_bytes_per_token,
        "selected": point.selected,
    }


def _row(point: PlanError) -> str:
    share = point.bytes_per_token / point.full_bytes_per_token
    return f"{point.plan:20} error {point.error:7.2%}  bytes {share:7.1%} of full's"
