#!/usr/bin/env python3
"""Goal: `attndb simulate` says what memory and disk keep of conversations, made up or of a trace,
and names what is wrong.

Method: small workloads; what the figures are is tested in src/simulate.
"""

import json

import cli_case
from cli_case import CliCase, NOT_FOUND, USAGE

SMALL = ("simulate", "--conversations", "300", "--memory", "20", "--disk", "0,100")
TURN = {"conversation": "a", "new_tokens": 10, "answer_tokens": 20}


def trace(*times):
    return "\n".join(json.dumps(TURN | {"time": time}) for time in times)


class SimulateTest(CliCase):
    def test_a_table_of_sizes_and_policies(self):
        lines = self.run_ok(*SMALL, "--bound").out.splitlines()
        self.assertIn("300 synthetic conversations of ShareGPT's shape", lines[1])
        self.assertEqual(lines[3].split()[:4], ["memory", "disk", "policy", "hits"])
        self.assertIn("Belady", lines[3])
        self.assertEqual([line.split()[4] for line in lines[4:]],
                         2 * ["lru", "fifo", "attention_store", "attndb"])

    def test_json_has_more(self):
        report = self.run_json(*SMALL, "--policy", "attndb(bytes=1)", "--policy", "none")
        runs = report["runs"]
        self.assertEqual([run["policy"] for run in runs], 2 * ["attndb(bytes=1)", "none"])
        self.assertEqual([run["disk_bytes"] for run in runs],
                         [0, 0, 100_000_000_000, 100_000_000_000])
        self.assertEqual(runs[1]["hit_rate"], 0)
        self.assertGreater(runs[2]["hit_rate"], runs[0]["hit_rate"])

    def test_a_seed_gives_the_same_and_another_another(self):
        first = self.run_json(*SMALL)
        self.assertEqual(self.run_json(*SMALL), first)
        self.assertNotEqual(self.run_json(*SMALL, "--seed", "2"), first)

    def test_a_trace_and_its_bad_lines(self):
        path = self.write("good.jsonl", trace(0, 90))
        flags = ("--warm-up", "0", "--policy", "lru")
        report = self.run_json("simulate", "--trace", path, *flags)
        self.assertEqual(report["runs"][0]["hit_rate"], 0.5)
        path = self.write("bad.jsonl", trace(0, 90, 80))
        self.assert_fails(USAGE, "simulate", "--trace", path,
                          says=["bad.jsonl line 3: expected a time of at least 90"])
        self.assert_fails(NOT_FOUND, "simulate", "--trace", path + "x", says=["bad.jsonlx"])

    def test_what_is_wrong_is_named(self):
        for flags, what in ((("--memory", "x"), "--memory 'x': expected sizes in GB"),
                            (("--policy", "lfu"), "'lfu': expected none, lru"),
                            (("--model", "7b"), "model: expected 13b"),
                            (("--model", ""), "kv_bytes_per_token: expected 1"),
                            (("--rate", "0"), "--rate")):
            self.assert_fails(USAGE, "simulate", *flags, says=[what])


if __name__ == "__main__":
    cli_case.main()
