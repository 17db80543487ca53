#!/usr/bin/env python3
"""Goal: `capture` writes what the model computes: its file is the context that `import` makes.

Method: short texts through the real model; the file's bytes against an exported context's, and
answers from either.
"""

import array
import json
import math
import signal
import struct
import time

import cli_case
from cli_case import CliCase, INTERRUPTED, NAME_TAKEN, NOT_FOUND, USAGE

TEXT = "The lighthouse of Skerry was built in 1870. Its keeper was called Maren. " * 3
LAYERS, Q_HEADS, KV_HEADS, DIM = 30, 9, 3, 64  # Shape of SmolLM2.


class KvFile:
    def __init__(self, path):
        content = path.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        self.header = json.loads(content[8:8 + length])
        self.metadata = self.header.pop("__metadata__")
        self.data = content[8 + length:]

    def shape(self, name):
        return self.header[name]["shape"]

    def words(self, name, code="H"):
        begin, end = self.header[name]["data_offsets"]
        return array.array(code, self.data[begin:end])

    def layer(self):
        """The layers' spec; they are all alike."""
        return json.loads(self.metadata["layers"])


def to_half(words):
    """Rows of DIM from pairs of neighbours to pairs half a head apart."""
    half = array.array(words.typecode)
    for row in range(0, len(words), DIM):
        half.extend(words[row:row + DIM:2])
        half.extend(words[row + 1:row + DIM:2])
    return half


def difference(a, b, name, row):
    """|a - b| / |a| of one row of head 0."""
    rows = [struct.unpack(f"<{DIM}e", file.words(name)[row * DIM:(row + 1) * DIM].tobytes())
            for file in (a, b)]
    squares = [sum((x - y) ** 2 for x, y in zip(*rows)), sum(x * x for x in rows[0])]
    return math.sqrt(squares[0] / squares[1])


class CaptureCase(CliCase):
    def setUp(self):
        super().setUp()
        self.text = self.write("text.txt", TEXT)
        self.out = self.dir / "out.safetensors"

    def capture(self, *args):
        result = self.run_json("capture", self.text, "-o", self.out, *args)
        self.assertFalse(self.store.exists())
        return result, KvFile(self.out)


class CaptureTest(CaptureCase):
    def test_a_whole_capture_is_the_context_that_import_makes(self):
        result, file = self.capture()
        tokens = result["num_tokens"]
        self.assertEqual((result["num_layers"], result["num_queries"]), (LAYERS, tokens))
        self.assertEqual(result["file_bytes"], self.out.stat().st_size)
        self.assertEqual(file.shape("tokens"), [tokens])
        self.assertEqual(file.shape("layers.29.q"), [Q_HEADS, tokens, DIM])
        self.run_ok("import", self.text, "--name", "imported")
        exported = self.dir / "exported.safetensors"
        self.run_ok("export", "imported", "-o", exported)
        context = KvFile(exported)
        self.assertEqual(file.words("tokens", "i"), context.words("tokens", "i"))
        self.assertEqual(file.layer()["rope_layout"], "interleaved")
        self.assertEqual(context.layer()["rope_layout"], "half")
        for layer in (0, 7, 29):
            self.assertEqual(file.words(f"layers.{layer}.v"), context.words(f"layers.{layer}.v"))
            self.assertEqual(to_half(file.words(f"layers.{layer}.k")),
                             context.words(f"layers.{layer}.k"))
        other = ("--db", self.dir / "other")
        self.run_ok("import", "--safetensors", self.out, "--name", "captured", *other)
        question = ("What was the keeper called?", "--max-tokens", "12")
        self.assertEqual(
            self.run_json("ask", "-c", "captured", *question, *other)["answer"],
            self.run_json("ask", "-c", "imported", *question)["answer"])

    def test_layers_tokens_and_queries_can_be_fewer(self):
        result, file = self.capture("--layers", "0,28-29", "--tokens", "20", "--queries", "5",
                                    "--kv-dtype", "f32")
        self.assertEqual((result["num_tokens"], result["num_layers"], result["num_queries"]),
                         (20, 3, 5))
        self.assertEqual(file.metadata["captured_layers"], "0,28,29")
        self.assertEqual(sorted(file.header), sorted(
            ["tokens", *(f"layers.{i}.{a}" for i in (0, 28, 29) for a in "kvq")]))
        self.assertEqual(file.shape("layers.28.q"), [Q_HEADS, 5, DIM])
        self.assertEqual(file.header["layers.28.k"]["dtype"], "F32")
        self.assert_fails(USAGE, "import", "--safetensors", self.out,
                          says=["holds 3 of 30 layers"])

    def test_ids_are_taken_as_they_are(self):
        ids = self.write("ids.txt", "1 4093, 198\n17")
        self.run_ok("capture", ids, "--token-ids", "-o", self.out, "--layers", "0", "--queries",
                    "0")
        file = KvFile(self.out)
        self.assertEqual(list(file.words("tokens", "i")), [1, 4093, 198, 17])
        self.assertNotIn("layers.0.q", file.header)

    def test_a_stretched_model_is_another(self):
        result, file = self.capture("--rope-scaling", "linear:4", "--tokens", "30")
        self.assertEqual(result["rope_scaling"], "linear:freq_scale=0.25,attn=1")
        self.assertEqual(file.layer()["rope_scaling"], result["rope_scaling"])
        self.run_ok("import", "--safetensors", self.out, "--name", "stretched")
        self.assertEqual(self.run_json("describe", "stretched")["rope_scaling"],
                         result["rope_scaling"])
        self.assert_fails(USAGE, "ask", "-c", "stretched", "Who?", "--rope-scaling", "linear:2",
                          says=["with --rope-scaling linear:4, found linear:2"])

    def test_a_plan_applies_to_every_token(self):
        _, full = self.capture("--layers", "0-1", "--queries", "0")
        self.out = self.dir / "window.safetensors"
        result, window = self.capture("--layers", "0-1", "--queries", "0", "--plan",
                                      "window(sink=2,window=8)")
        self.assertEqual(result["plan"], "window(sink=2,window=8)")
        self.assertEqual(window.metadata["note.plan"], result["plan"])
        tokens = result["num_tokens"]
        self.assertGreater(tokens, 40)
        self.assertEqual(full.words("layers.0.v"), window.words("layers.0.v"))
        # In layer 1, rows that saw all before them agree but for rounding; later ones do not.
        self.assertLess(difference(full, window, "layers.1.v", 9), 0.02)
        self.assertGreater(difference(full, window, "layers.1.v", tokens - 1), 0.05)


class RefusalTest(CaptureCase):
    def test_what_is_wrong_is_said_and_leaves_no_file(self):
        for args, says in ((["--layers", "0,30"], "below 30"),
                           (["--rope-scaling", "ntk:4"], "linear:FACTOR or yarn:FACTOR"),
                           (["--rope-scaling", "yarn:4000"], "expected 1 to 1024"),
                           (["--plan", "topk(k=0)"], "column"),
                           (["--model", self.text], "GGUF")):
            self.assert_fails(USAGE, "capture", self.text, "-o", self.out, *args, says=[says])
        ids = self.write("ids.txt", "1 2 99999999")
        self.assert_fails(USAGE, "capture", ids, "--token-ids", "-o", self.out, says=["99999999"])
        empty = self.write("empty.txt", "")
        self.assert_fails(USAGE, "capture", empty, "--raw", "-o", self.out, says=["is empty"])
        self.assert_fails(NOT_FOUND, "capture", self.dir / "none", "-o", self.out, says=["none"])
        self.assert_fails(USAGE, "capture", self.text, says=["--help"])
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()),
                         ["empty.txt", "ids.txt", "text.txt"])

    def test_an_interrupted_capture_leaves_no_file(self):
        long_text = self.write("long.txt", TEXT * 60)
        process = self.start("capture", long_text, "-o", self.out)
        deadline = time.monotonic() + cli_case.WAIT
        while not list(self.dir.glob("out.safetensors.*.tmp")):  # Before the first token.
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=cli_case.WAIT)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.assertIn(b"no file is written", err)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()),
                         ["long.txt", "text.txt"])

    def test_no_file_is_replaced(self):
        self.out.write_text("mine")
        self.assert_fails(NAME_TAKEN, "capture", self.text, "-o", self.out, "--tokens", "2",
                          says=[str(self.out), "never replaced"])
        self.assertEqual(self.out.read_text(), "mine")


if __name__ == "__main__":
    cli_case.main(needs_model=True)
