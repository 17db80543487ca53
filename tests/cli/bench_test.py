#!/usr/bin/env python3
"""Goal: `attndb bench attention` runs on synthetic vectors and on .npy files, and says which.

Method: small geometries; .npy files written by hand, good ones and damaged ones. Captures and their
stretching are in cli_test. No figure of speed is judged.
"""

import random
import struct

import cli_case
from cli_case import CliCase, NOT_FOUND, USAGE


def npy(shape, values, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    data = struct.pack(f"<{len(values)}{'f' if descr == '<f4' else 'e'}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


class BenchTest(CliCase):
    SMALL = ("bench", "attention", "--tokens", 500, "--geometry", "2x2x32", "--rows", 2)

    def save(self, name, shape, descr="<f4", seed=1):
        generator = random.Random(seed)
        count = 1
        for size in shape:
            count *= size
        path = self.dir / name
        path.write_bytes(npy(shape, [generator.gauss(0, 1) for _ in range(count)], descr))
        return str(path)

    def test_synthetic_vectors_are_labelled_so_and_nothing_is_left(self):
        folder = self.dir / "tmp"
        folder.mkdir()
        done = self.run_ok(*self.SMALL, env={"TMPDIR": str(folder)})
        for text in ("synthetic", "GB/s", "partly the cache's", "best by"):
            self.assertIn(text, done.out)
        self.assertEqual(list(folder.iterdir()), [])

    def test_plans_select_what_they_say_in_every_type(self):
        for dtype in ("bf16", "f32"):
            result = self.run_json(*self.SMALL, "--dtype", dtype, "--plan",
                                   "topk(k=16,sink=4,window=32)", "--plan", "window",
                                   "--try-plan", "topk(k=16,index=coarse)")
            full, topk, window = result["plans"]
            self.assertEqual((full["plan"], full["error_worst_head"]), ("full", 0))
            self.assertGreater(full["ms_median"], 0)
            self.assertAlmostEqual(topk["selected_mean"], 16, places=1)
            self.assertIn("topk(k=16", topk["canonical"])
            self.assertGreater(window["error_mean"], topk["error_mean"])
            self.assertLess(topk["mass"], 1)
            self.assertEqual(result["left_out"], ["topk(k=16,index=coarse)"])
            self.assertEqual(result["heads"]["origin"], "synthetic")
            self.assertEqual(result["heads"]["num_tokens"], 500)
            self.assertTrue(result["fits_cache"])

    def test_a_sweep_marks_its_frontier(self):
        result = self.run_json(*self.SMALL, "--sweep")
        self.assertGreater(len(result["plans"]), 10)
        self.assertTrue(any(plan["best_by_bytes"] for plan in result["plans"][1:]))
        self.assertFalse(all(plan["best_by_bytes"] for plan in result["plans"]))

    def test_vectors_from_files(self):
        keys = self.save("k.npy", (300, 2, 16), "<f2")
        values = self.save("v.npy", (300, 2, 16), "<f2", seed=2)
        queries = self.save("q.npy", (5, 4, 16), seed=3)
        result = self.run_json("bench", "attention", "--keys", keys, "--values", values,
                               "--queries", queries, "--repeat", 2)
        self.assertEqual(result["num_steps"], 10)
        heads = result["heads"]
        self.assertEqual(heads["origin"], "arrays")
        self.assertEqual((heads["num_tokens"], heads["num_q_heads"], heads["num_kv_heads"],
                          heads["head_dim"]), (300, 4, 2, 16))

    def test_files_that_do_not_fit_or_are_damaged_are_refused(self):
        keys = self.save("k.npy", (30, 2, 16))
        values = self.save("v.npy", (31, 2, 16))
        queries = self.save("q.npy", (5, 4, 16))
        run = ("bench", "attention", "--keys", keys, "--queries", queries, "--values")
        self.assert_fails(USAGE, *run, values, says=["[30, 2, 16]", "[31, 2, 16]"])
        self.assert_fails(NOT_FOUND, *run, self.dir / "none.npy", says=["none.npy"])
        self.assert_fails(USAGE, "bench", "attention", "--keys", keys, says=["go together"])
        damaged = self.dir / "d.npy"
        whole = (self.dir / "k.npy").read_bytes()
        for content in (b"", b"hello", whole[:20], whole[:-1], whole + b"x",
                        whole.replace(b"(30, ", b"(99, "), whole.replace(b"<f4", b"<f8")):
            damaged.write_bytes(content)
            self.assert_fails(USAGE, *run, damaged, says=["d.npy"])

    def test_requests_that_do_not_go_together_are_refused(self):
        bench = ("bench", "attention")
        self.assert_fails(USAGE, *bench, "--geometry", "9y", says=["llama3-8b", "8x4x128"])
        self.assert_fails(USAGE, *bench, "--stretch", 9000, says=["--capture"])
        self.assert_fails(USAGE, *bench, "--capture", "x", "--geometry", "smollm2",
                          says=["one of"])
        self.assert_fails(NOT_FOUND, *bench, "--capture", self.dir / "none.safetensors",
                          says=["none.safetensors"])

    def test_a_bad_plan_points_at_the_column(self):
        self.assert_fails(USAGE, *self.SMALL, "--plan", "topk(k=16", says=["column"])


if __name__ == "__main__":
    cli_case.main()
