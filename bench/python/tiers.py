"""What does `attndb simulate` give at AttentionStore's settings, beside the paper's figures?

    python bench/python/tiers.py --attndb build/release/bin/attndb --json FILE --commit COMMIT
                                 [--seeds N]

Runs each of SETTINGS; keeps the runs, the seconds that each took and the peak of memory.
bench/tiers_report.py makes the tables of docs/tiers.md of them. Hit rates are counts and depend on
no machine; seconds do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

# Name: the flags of `attndb simulate`. "{seeds}" is added to all but those that measure time.
ALL = ("--policy", "lru", "--policy", "fifo", "--policy", "attention_store",
       "--policy", "attndb(cut=0)", "--policy", "attndb", "--policy", "attndb(bytes=1)", "--bound")
OURS = ("--policy", "attention_store", "--policy", "attndb", "--policy", "none")
TTL = tuple(word for name in ("attention_store(ttl=3600)", "attndb(ttl=3600)",
                              "attndb(bytes=1,ttl=3600)") for word in ("--policy", name))
SHORT = ("--rate", "0.22", "--think", "600", *ALL)
SETTINGS: dict[str, tuple[str, ...]] = {
    "13b": ("--disk", "2TB,5TB,10TB", *ALL),
    "13b_none": ("--policy", "none"),
    "65b": ("--model", "65b", *OURS),
    "70b": ("--model", "70b", *OURS),
    "falcon": ("--model", "falcon", *OURS),
    "falcon_2k": ("--model", "falcon", "--window", "2048", *OURS),
    **{f"{model}_memory": ("--model", model, "--disk", "0", "--policy", "attention_store",
                           "--policy", "attndb")
       for model in ("13b", "65b", "70b", "falcon")},
    **{f"{model}_overflow": ("--model", model, "--recompute-overflow", "--policy",
                             "attention_store")
       for model in ("13b", "65b", "70b", "falcon")},
    "falcon_2k_memory": ("--model", "falcon", "--window", "2048", "--disk", "0",
                         "--policy", "attention_store"),
    "falcon_2k_overflow": ("--model", "falcon", "--window", "2048", "--recompute-overflow",
                           "--policy", "attention_store"),
    # [AS] Fig. 25: capacity over that of all conversations of an hour, 3.02 TB at 0.25 a second;
    # 128 GB of each is memory.
    "ratio_0.1": ("--rate", "0.25", "--think", "180", "--disk", "174", *TTL),
    "ratio_0.25": ("--rate", "0.25", "--think", "180", "--disk", "627", *TTL),
    "ratio_0.5": ("--rate", "0.25", "--think", "180", "--disk", "1382", *TTL),
    # The same ratios at the load of the other figures: 12.08 TB.
    "overload_0.1": ("--disk", "1080", *TTL),
    "overload_0.25": ("--disk", "2892", *TTL),
    "short_1tb": ("--disk", "1TB", *SHORT),
    "short_100gb": ("--disk", "100", *SHORT),
    "prefer": ("--disk", "2TB", "--policy", "attndb", "--policy", "attndb(prefer=600)",
               "--policy", "attndb(prefer=3600)", "--policy", "attndb(prefer=1000000)"),
}
# Conversations of about 10^5 and 10^6 turns.
TIMED = {"turns_1e5": 28_500, "turns_1e6": 285_000}


def run(attndb: str, *flags: str) -> dict[str, Any]:
    start = time.monotonic()
    command = [attndb, "simulate", "--json", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"attndb simulate {' '.join(flags)}: exit code {process.returncode}")
    return json.loads(out) | {"flags": list(flags), "seconds": time.monotonic() - start,
                              "cpu_seconds": usage.ru_utime + usage.ru_stime,
                              "peak_bytes": usage.ru_maxrss * 1024}


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attndb", required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--quick", action="store_true", help="one seed, 10^5 turns at most")
    arguments = parser.parse_args()
    seeds = 1 if arguments.quick else arguments.seeds
    load = os.getloadavg()[0]
    reports = {}
    for name, flags in SETTINGS.items():
        reports[name] = run(arguments.attndb, *flags, "--seeds", str(seeds))
        print(f"{name}: " + ", ".join(f"{each['policy']} {100 * each['hit_rate']:.1f}"
                                      for each in reports[name]["runs"]), flush=True)
    for name, conversations in TIMED.items():
        if arguments.quick and name != "turns_1e5":
            continue
        for policy in ("lru", "attention_store", "attndb"):
            report = run(arguments.attndb, "--conversations", str(conversations),
                         "--policy", policy)
            reports[f"{name}_{policy}"] = report
            print(f"{name} {policy}: {report['seconds']:.1f} s, "
                  f"{report['peak_bytes'] / 2**20:.0f} MiB", flush=True)
    machine = {"cpu": cpu(), "cores": os.cpu_count(), "kernel": platform.release(),
               "load_before": load}
    result = {"bench": "tiers", "commit": arguments.commit, "machine": machine, "seeds": seeds,
              "reports": reports}
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
