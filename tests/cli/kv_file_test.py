#!/usr/bin/env python3
"""Goal: contexts leave and enter a store as files, without a model.

Method: a KV file is made here, byte by byte, from docs/formats/import.md; it is imported, exported,
imported elsewhere, and refused when it is not what it says.
"""

import json
import random
import struct
import time

import cli_case
from cli_case import CliCase, DAMAGE, NAME_TAKEN, NOT_FOUND, UNSUPPORTED, USAGE

TOKENS = [5, 900, 17, 17, 3, 8, 44, 2, 1, 0, 12, 6]
LAYER = {"num_q_heads": 4, "num_kv_heads": 2, "head_dim": 8, "rope_layout": "half",
         "rope_base": 10000}
NUM_LAYERS = 2


class KvFile:
    """Its parts, to be changed before they are written."""

    def __init__(self, tokens=TOKENS, seed=1):
        numbers = random.Random(seed)
        self.metadata = {"format": "attndb.kv", "version": "1", "fingerprint": b"toy".hex(),
                         "kv_dtype": "float16", "rope_applied": "true",
                         "num_layers": str(NUM_LAYERS), "layers": json.dumps(LAYER)}
        self.tensors = {}
        self.data = b""
        self.add("tokens", "I32", [len(tokens)], struct.pack(f"<{len(tokens)}i", *tokens))
        shape = [LAYER["num_kv_heads"], len(tokens), LAYER["head_dim"]]
        count = shape[0] * shape[1] * shape[2]
        for layer in range(NUM_LAYERS):
            for array in "kv":
                values = [numbers.uniform(-2, 2) for _ in range(count)]
                self.add(f"layers.{layer}.{array}", "F16", shape,
                         struct.pack(f"<{count}e", *values))

    def add(self, name, dtype, shape, data):
        self.tensors[name] = {"dtype": dtype, "shape": list(shape),
                              "data_offsets": [len(self.data), len(self.data) + len(data)]}
        self.data += data

    def write(self, path):
        header = json.dumps({"__metadata__": self.metadata, **self.tensors}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + self.data)
        return path


def data_of(path):
    content = path.read_bytes()
    return content[8 + struct.unpack("<Q", content[:8])[0]:]


class KvFileCase(CliCase):
    def setUp(self):
        super().setUp()
        self.file = KvFile().write(self.dir / "book.safetensors")


class RoundTripTest(KvFileCase):
    def test_a_file_becomes_a_context_with_its_name(self):
        done = self.run_ok("import", "--safetensors", self.file)
        self.assertIn("imported 'book': 12 tokens", done.out)
        info = self.run_json("describe", "book")
        self.assertEqual(info["num_tokens"], 12)
        self.assertEqual(info["kv_dtype"], "float16")
        self.assertEqual(info["num_layers"], NUM_LAYERS)

    def test_name_life_and_identity_can_be_given(self):
        result = self.run_json("import", "--safetensors", self.file, "--name", "mine", "--ttl",
                               "7d", "--pin", "--fingerprint", "theirs")
        self.assertEqual(result["context"], "mine")
        self.assertEqual(result["num_tokens"], 12)
        self.assertFalse(result["already_imported"])
        info = self.run_json("describe", "mine")
        self.assertEqual((info["ttl_seconds"], info["pinned"]), (7 * 86400, True))
        self.assertEqual(info["fingerprint"], "theirs")

    def test_models_are_declared_equal_by_the_fingerprints_that_describe_shows(self):
        self.run_ok("import", "--safetensors", self.file, "--fingerprint", "hex:00ff")
        shown = self.run_json("describe", "book")["fingerprint"]
        self.assertEqual(shown, "hex:00ff")
        result = self.run_json("declare-equal", shown, "toy")
        self.assertEqual(result, {"equal": ["hex:00ff", "toy"]})
        self.assertIn("serve toy", self.run_ok("declare-equal", shown, "toy").out)
        self.assert_fails(NOT_FOUND, "declare-equal", "HEX", "toy",
                          says=["no context has fingerprint HEX, none toy", "attndb describe"])
        self.assertEqual(self.run_json("declare-equal", "--undo", "toy", shown),
                         {"revoked": ["toy", "hex:00ff"]})
        self.assert_fails(NOT_FOUND, "declare-equal", "--undo", "toy", shown,
                          says=["were not declared equal"])

    def test_an_exported_context_is_the_same_elsewhere(self):
        self.run_ok("import", "--safetensors", self.file)
        first = self.dir / "first.safetensors"
        result = self.run_json("export", "book", "--safetensors", first)
        self.assertEqual((result["context"], result["num_tokens"]), ("book", 12))
        self.assertEqual(result["file_bytes"], first.stat().st_size)
        other = ("--db", self.dir / "other")
        self.run_ok("import", "--safetensors", first, "--name", "copy", *other)
        second = self.dir / "second.safetensors"
        done = self.run_ok("export", "#1", "-o", second, *other)
        self.assertIn("exported 'copy' to ", done.out)
        self.assertEqual(first.read_bytes(), second.read_bytes())
        self.assertEqual(data_of(first), KvFile().data)  # Layout half, as it came.

    def test_compact_makes_one_long_segment_of_an_import(self):
        tokens = [i * 7 % 1000 for i in range(5000)]
        file = KvFile(tokens=tokens).write(self.dir / "long.safetensors")
        self.run_ok("import", "--safetensors", file, "--segment-tokens", 4096)

        def lengths():
            return [segment["num_tokens"] for segment in
                    self.run_json("describe", "long")["segments"]]

        self.assertEqual(lengths(), [4096, 904])
        for args in ((), ("--segment-tokens", 4999)):
            self.assertEqual(self.run_json("compact", *args)["num_segments"], 2)
        done = self.run_json("compact", "--segment-tokens", 5000)
        self.assertEqual((done["num_segments_before"], done["num_segments"]), (2, 1))
        self.assertEqual(lengths(), [5000])
        self.assertIn("segments 1 -> 1", self.run_ok("compact", "--segment-tokens", 65536).out)
        self.run_ok("verify")
        out = self.dir / "out.safetensors"
        self.run_ok("export", "long", "-o", out)
        self.assertEqual(data_of(out), data_of(file))

    def test_indexes_of_an_import_are_built_once_and_shown_by_kind(self):
        tokens = [i * 7 % 1000 for i in range(5000)]
        file = KvFile(tokens=tokens).write(self.dir / "long.safetensors")
        self.run_ok("import", "--safetensors", file)
        start = time.monotonic()
        report = self.run_json("build", "long", "--index", "pq,m=4,b=4")
        self.assertLess(0, report["seconds"])
        self.assertLess(report.pop("seconds"), time.monotonic() - start)
        self.assertGreater(report.pop("file_bytes"), 0)
        self.assertEqual(report, {"kind": "pq_4x4", "num_built": 1, "num_present": 0,
                                  "num_too_short": 0, "num_missing": 0})
        again = self.run_json("build", "long", "--index", "pq", "--m", 4, "--b", 4)
        self.assertEqual((again["num_built"], again["num_present"]), (0, 1))
        self.assertGreater(again["seconds"], 0)
        self.assertRegex(self.run_ok("build", "long", "--index", "pq,m=4,b=4").out,
                         r"^pq_4x4: built for 0 segments, 1 had it, .* in all, in [\d.]+ [mu]?s\n$")
        info = self.run_json("describe", "long")
        self.assertEqual(info["derived_bytes"]["pq_4x4"], again["file_bytes"])
        self.assertEqual(sum(info["derived_bytes"].values()), info["companion_bytes"])
        self.assertEqual(self.run_json("ls")["contexts"][0]["derived_bytes"],
                         info["derived_bytes"])
        self.assertIn(", pq_4x4 ", self.run_ok("describe", "long").out)

    def test_an_import_builds_the_index_that_it_is_asked_for(self):
        tokens = [i * 11 % 1000 for i in range(5000)]
        file = KvFile(tokens=tokens).write(self.dir / "long.safetensors")
        self.run_ok("import", "--safetensors", file, "--index", "pq,m=4,b=4", "--iterations", 2)
        self.assertEqual(self.run_json("build", "long", "--index", "pq,m=4,b=4")["num_present"], 1)
        again = ("import", "--safetensors", file, "--name", "other", "--index")
        self.assert_fails(USAGE, *again, "tree", says=["tree", "graph, pq"])
        self.assert_fails(USAGE, *again, "pq", "--no-planes", says=["background_builds"])
        self.assert_fails(USAGE, *again, "pq", "--iterations", 1001, says=["--iterations"])

    def test_graphs_are_trained_as_asked_and_go_on_when_segments_are_merged(self):
        tokens = [i * 13 % 1000 for i in range(6500)]
        held = KvFile(tokens=tokens)
        shape = [LAYER["num_q_heads"], len(tokens), LAYER["head_dim"]]
        count = shape[0] * shape[1] * shape[2]
        numbers = random.Random(3)
        for layer in range(NUM_LAYERS):
            held.add(f"layers.{layer}.q", "F32", shape,
                     struct.pack(f"<{count}f", *(numbers.uniform(-2, 2) for _ in range(count))))
        file = held.write(self.dir / "long.safetensors")
        roar = ("--roar-keys", 20, "--roar-degree", 6, "--roar-window", 20)
        sampled = []
        for name, rate in (("few", 0.1), ("many", 0.4)):
            self.run_ok("import", "--safetensors", file, "--name", name, "--replace",
                        "--query-sample", rate, "--no-planes")
            sampled.append(self.run_json("describe", name)["query_sample_bytes"])
            self.run_ok("rm", name)
        self.assertAlmostEqual(sampled[1] / sampled[0], 4, delta=1)
        self.run_ok("import", "--safetensors", file, "--segment-tokens", 4096,
                    "--index", "roargraph", "--training-queries", 500, *roar)
        before = self.run_json("describe", "long")
        self.assertEqual(len(before["segments"]), 2)
        self.run_ok("compact", "--segment-tokens", 65536, "--grow-graphs", *roar)
        after = self.run_json("describe", "long")
        self.assertEqual(len(after["segments"]), 1)
        self.assertGreater(after["derived_bytes"]["roargraph_1"], 0)
        of_heads = self.run_json("build", "long", "--index", "roargraph,graphs=head", *roar)
        self.assertEqual((of_heads["kind"], of_heads["num_built"]), ("roargraph_head_1", 1))
        self.assertGreater(of_heads["file_bytes"], after["derived_bytes"]["roargraph_1"])
        self.run_ok("verify")
        self.assert_fails(USAGE, "import", "--safetensors", file, "--query-sample", 17,
                          says=["--query-sample"])
        self.assert_fails(USAGE, "compact", "--roar-degree", 128, says=["--roar-degree"])

    def test_importing_again_does_nothing_and_another_needs_replace(self):
        self.run_ok("import", "--safetensors", self.file)
        again = self.run_json("import", "--safetensors", self.file, "--pin")
        self.assertTrue(again["already_imported"])
        self.assertTrue(self.run_json("describe", "book")["pinned"])
        other = KvFile(tokens=[4, 4, 4]).write(self.dir / "other.safetensors")
        self.assert_fails(NAME_TAKEN, "import", "--safetensors", other, "--name", "book",
                          says=["'book'", "12 tokens", "--replace"])
        self.run_ok("import", "--safetensors", other, "--name", "book", "--replace")
        self.assertEqual(self.run_json("describe", "book")["num_tokens"], 3)

    def test_tenants_keep_their_own(self):
        self.run_ok("import", "--safetensors", self.file, "--tenant", "alice")
        self.assertEqual(self.run_json("ls")["contexts"], [])
        self.assert_fails(NOT_FOUND, "export", "book", "-o", self.dir / "x")
        self.run_ok("export", "book", "-o", self.dir / "x", "--tenant", "alice")


class RefusalTest(KvFileCase):
    def refuse(self, file, code, *says):
        self.assert_fails(code, "import", "--safetensors", file.write(self.file),
                          says=[str(self.file), *says])
        self.assertFalse(self.store.exists(), "a store was made for a file that is none")

    def test_a_file_that_is_not_what_it_says_is_refused(self):
        file = KvFile()
        file.metadata["version"] = "9"
        self.refuse(file, UNSUPPORTED, "version is '9'")
        file = KvFile()
        del file.metadata["fingerprint"]
        self.refuse(file, USAGE, "no fingerprint")
        file = KvFile()
        file.tensors["layers.1.v"]["shape"][1] = 13
        self.refuse(file, USAGE, "layers.1.v", "expected 416 bytes")
        file = KvFile()
        file.data = file.data[:-1]
        self.refuse(file, USAGE, "behind its header")
        file = KvFile()
        file.add("extra", "U8", [1], b"x")
        self.refuse(file, USAGE, "unknown tensor 'extra'")
        self.file.write_text("just a text, which is longer than eight bytes")
        self.assert_fails(USAGE, "import", "--safetensors", self.file, says=["has a header of"])
        self.assert_fails(USAGE, "import", "--safetensors", self.dir, says=["no regular file"])
        self.assert_fails(NOT_FOUND, "import", "--safetensors", self.dir / "none", says=["none"])

    def test_a_file_of_some_layers_cannot_be_a_context(self):
        file = KvFile()
        file.metadata["captured_layers"] = "0"
        for array in "kv":
            del file.tensors[f"layers.1.{array}"]
        file.data = file.data[:file.tensors["layers.0.v"]["data_offsets"][1]]
        self.assert_fails(USAGE, "import", "--safetensors", file.write(self.file),
                          says=["holds 1 of 2 layers; a context needs all"])

    def test_a_value_beyond_the_type_leaves_nothing(self):
        file = KvFile()
        start, end = file.tensors["layers.1.v"]["data_offsets"]
        wide = struct.pack("<192f", *([1.0] * 191 + [1e30]))
        file.tensors["layers.1.v"].update(dtype="F32", data_offsets=[start, start + len(wide)])
        file.data = file.data[:start] + wide + file.data[end:]
        self.assert_fails(USAGE, "import", "--safetensors", file.write(self.file),
                          says=["v of layer 1, head 1, token 11", "float16"])
        self.assertEqual(self.run_json("ls")["contexts"], [])

    def test_what_does_not_go_together_is_a_usage_error(self):
        for args in ([], ["text.txt", "--safetensors", self.file],
                     ["text.txt", "--fingerprint", "x"]):
            self.assert_fails(USAGE, "import", *args, says=["--safetensors"])
        self.assert_fails(USAGE, "import", "--safetensors", self.file, "--ttl", "soon",
                          says=["'soon'"])
        self.assertFalse(self.store.exists())

    def test_export_replaces_no_file_and_needs_a_context(self):
        self.run_ok("import", "--safetensors", self.file)
        before = self.file.read_bytes()
        self.assert_fails(NAME_TAKEN, "export", "book", "-o", self.file,
                          says=[str(self.file), "never replaced"])
        self.assertEqual(self.file.read_bytes(), before)
        self.assert_fails(NOT_FOUND, "export", "nobody", "-o", self.dir / "x", says=["nobody"])
        missing = self.dir / "no" / "folder"
        done = self.assert_fails(NOT_FOUND, "export", "book", "-o", missing / "x",
                                 says=[f"file '{missing / 'x'}': folder '{missing}' does not exist",
                                       "make it first, or choose another FILE"])
        self.assertNotIn(".tmp", done.err)
        self.assert_fails(USAGE, "export", "book", says=["--help"])
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()),
                         ["book.safetensors", "store"])

    def test_a_damaged_context_is_not_exported(self):
        self.run_ok("import", "--safetensors", self.file)
        segment = next(path for path in self.store.rglob("*.seg"))
        content = bytearray(segment.read_bytes())
        content[-1] ^= 1
        segment.write_bytes(content)
        self.assert_fails(DAMAGE, "export", "book", "-o", self.dir / "x", says=["expected"])
        self.assertFalse((self.dir / "x").exists())


if __name__ == "__main__":
    cli_case.main()
