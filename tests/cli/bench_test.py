#!/usr/bin/env python3
"""Goal: `attndb bench attention` runs on synthetic vectors and on .npy files, and says which.

Method: small geometries; .npy files written by hand, good ones and damaged ones. No figure of speed
is judged.
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
    SMALL = ("bench", "attention", "--tokens", 500, "--head-dim", 32, "--q-heads", 4,
             "--kv-heads", 2, "--repeat", 3)

    def save(self, name, shape, descr="<f4", seed=1):
        generator = random.Random(seed)
        count = 1
        for size in shape:
            count *= size
        path = self.dir / name
        path.write_bytes(npy(shape, [generator.gauss(0, 1) for _ in range(count)], descr))
        return str(path)

    def test_synthetic_vectors_are_labelled_so(self):
        done = self.run_ok(*self.SMALL)
        self.assertIn("synthetic", done.out)
        self.assertIn("GB/s", done.out)
        result = self.run_json(*self.SMALL)
        self.assertTrue(result["synthetic"])
        self.assertEqual(result["num_tokens"], 500)
        self.assertEqual(result["error_max"], 0)
        self.assertGreater(result["ms_median"], 0)

    def test_a_sparse_plan_selects_what_it_says(self):
        for dtype in ("f16", "bf16", "f32"):
            result = self.run_json(*self.SMALL, "--dtype", dtype, "--plan",
                                   "topk(k=16,sink=4,window=32)")
            self.assertAlmostEqual(result["selected_mean"], 16, places=1)
            self.assertGreater(result["error_mean"], 0)
            self.assertIn("topk", result["plan"])

    def test_vectors_from_files(self):
        keys = self.save("k.npy", (300, 2, 16), "<f2")
        values = self.save("v.npy", (300, 2, 16), "<f2", seed=2)
        queries = self.save("q.npy", (5, 4, 16), seed=3)
        result = self.run_json("bench", "attention", "--keys", keys, "--values", values,
                               "--queries", queries, "--repeat", 3)
        self.assertFalse(result["synthetic"])
        self.assertEqual((result["num_tokens"], result["num_q_heads"], result["num_kv_heads"],
                          result["head_dim"]), (300, 4, 2, 16))

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

    def test_a_bad_plan_points_at_the_column(self):
        self.assert_fails(USAGE, *self.SMALL, "--plan", "topk(k=16", says=["column"])

    def test_nothing_is_left_in_the_temporary_folder(self):
        folder = self.dir / "tmp"
        folder.mkdir()
        self.run_ok(*self.SMALL, env={"TMPDIR": str(folder)})
        self.assertEqual(list(folder.iterdir()), [])


if __name__ == "__main__":
    cli_case.main()
