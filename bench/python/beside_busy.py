"""Tokens per second of a model's decode, alone and beside one busy process: with as many threads as
the machine gives cores to (the default), with all cores, and with one thread.

    python bench/python/beside_busy.py --attndb build/release/bin/attndb --text FILE --json FILE
                                       --commit COMMIT [--quick]

Method: one document of about 2,000 tokens; `attndb ask` of it, plan full, in turn with each number
of threads, first with nothing beside it, then beside a process that turns in place; ROUNDS rounds,
medians. What the default changed is kept: the changes that `ask` tells.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

TOKENS, ROUNDS = 2000, 5
BYTES_A_TOKEN = 4  # About, in English.
THREADS = {"default": (), "all": ("--threads", str(len(os.sched_getaffinity(0)))),
           "one": ("--threads", "1")}


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A process that takes what it gets of one core."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def run(attndb: str, store: str, *words: str) -> Any:
    env = {key: value for key, value in os.environ.items() if key != "ATTNDB_THREADS"}
    done = subprocess.run([attndb, *words, "--db", store, "--json"], env=env, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def measure(attndb: str, text: str, tokens: int, rounds: int) -> dict[str, Any]:
    rates: dict[str, list[float]] = {}
    changes = []
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "document.txt"
        document.write_bytes(Path(text).read_bytes()[:tokens * BYTES_A_TOKEN])
        store = folder + "/store"
        length = run(attndb, store, "import", str(document), "--name", "document")["num_tokens"]
        for _ in range(rounds):
            for name in ("alone", "beside"):
                with busy(name == "beside"):
                    for threads, flags in THREADS.items():
                        done = run(attndb, store, "ask", "-c", "document",
                                   "Tell it again, in full.", "--explain", "--plan", "full",
                                   "--max-tokens", "128", *flags)
                        rates.setdefault(f"{name}/{threads}", []).append(
                            done["tokens_per_second"])
                        if threads == "default":
                            changes.append({"beside": name == "beside", **done["threads"]})
    medians = {name: statistics.median(values) for name, values in rates.items()}
    results = [{"name": name, "unit": "tokens/s", "median": median, "best": max(rates[name])}
               for name, median in medians.items()]
    for row in results:
        print(f"{row['name']:16} {row['median']:8.1f} tokens/s")
    return {"num_tokens": length, "rounds": rounds, "results": results, "threads": changes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("--attndb", "--text", "--json", "--commit"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    tokens, rounds = (200, 1) if args.quick else (TOKENS, ROUNDS)
    machine = json.loads(subprocess.run([args.attndb, "doctor", "--fast", "--json"], check=True,
                                        stdout=subprocess.PIPE).stdout)["machine"]
    result = {"commit": args.commit,
              "machine": {"cpu": machine["cpu"], "cpus": machine["num_cores"],
                          "isa": machine["isa"], "kernel": platform.release()},
              "question": "busy: threads beside a busy process",
              **measure(args.attndb, args.text, tokens, rounds)}
    Path(args.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
