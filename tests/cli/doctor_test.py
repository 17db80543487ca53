#!/usr/bin/env python3
"""`attndb doctor` runs a forward: it works here, and where it dies doctor lives and says so."""

import argparse
import pathlib
import struct
import sys
import unittest

import cli_case
from cli_case import ERROR, NOT_FOUND, USAGE, CliCase

_dying_llama = None


class ForwardTest(CliCase):
    def test_a_forward_of_a_tiny_model_works_here(self):
        report = self.run_json("doctor", "--fast")
        forward = report["engine"]["forward"]
        self.assertTrue(forward["ok"], forward)
        self.assertIsNone(forward["signal"])
        self.assertGreater(forward["seconds"], 0)
        self.assertTrue(report["engine"]["instruction_sets"])
        known = pathlib.Path("/proc/cpuinfo").read_text().replace("_", "").split()
        for name in report["machine"]["instruction_sets"]:
            self.assertIn(name.lower(), known, "this processor has what the kernels use")
        text = self.run_ok("doctor", "--fast").out
        self.assertIn("of a tiny quantized model: right", text)
        for name in report["engine"]["instruction_sets"]:
            self.assertIn(name, text)

    def test_a_forward_that_dies_is_reported_and_is_an_error(self):
        env = {"LD_PRELOAD": _dying_llama}
        done = self.run_any("doctor", "--fast", env=env)
        self.assertEqual(done.code, ERROR, done)
        self.assertIn("died of SIGILL", done.out)
        self.assertIn("scripts/setup.sh", done.out)
        self.assertIn("environment\n", done.out, "the rest of the report is there")
        self.assertNotIn("No trouble found", done.out)
        in_json = self.run_any("doctor", "--fast", "--json", env=env)
        self.assertEqual(in_json.code, ERROR, in_json)
        report = in_json.json()
        self.assertFalse(report["engine"]["forward"]["ok"])
        self.assertEqual(report["engine"]["forward"]["signal"], "SIGILL")
        self.assertIn("scripts/setup.sh", report["engine"]["forward"]["advice"])
        self.assertTrue(any("SIGILL" in warning for warning in report["warnings"]))

    def test_the_kernels_that_are_forced_name_their_instruction_sets(self):
        machine = self.run_json("doctor", "--fast", env={"ATTNDB_ISA": "scalar"})["machine"]
        self.assertEqual((machine["isa"], machine["instruction_sets"]), ("scalar", []))
        machine = self.run_json("doctor", "--fast", env={"ATTNDB_ISA": "avx2"})["machine"]
        if machine["isa"] == "avx2":
            self.assertEqual(machine["instruction_sets"], ["AVX2", "FMA", "F16C"])

    def test_the_kernels_in_use_are_the_fastest_unless_others_are_forced(self):
        report = self.run_json("doctor", "--fast")
        fastest = report["machine"]["cpu_isa"]
        self.assertEqual(report["machine"]["isa"], fastest)
        if fastest == "scalar":
            self.skipTest("this CPU has no AVX2")
        self.assertFalse([text for text in report["warnings"] if "kernels" in text])
        report = self.run_json("doctor", "--fast", env={"ATTNDB_ISA": "scalar"})
        self.assertEqual(report["machine"]["cpu_isa"], fastest)
        self.assertTrue([text for text in report["warnings"]
                         if f"this CPU can run {fastest}" in text], report["warnings"])

    def test_nothing_is_left_where_temporary_files_go(self):
        temp = self.dir / "tmp"
        temp.mkdir()
        self.run_ok("doctor", "--fast", env={"TMPDIR": str(temp)})
        self.run_any("doctor", "--fast", env={"TMPDIR": str(temp), "LD_PRELOAD": _dying_llama})
        self.assertEqual(list(temp.iterdir()), [])

    def test_without_a_place_for_the_model_it_says_so(self):
        done = self.run_ok("doctor", "--fast", env={"TMPDIR": str(self.dir / "missing")})
        self.assertIn("no forward of a tiny model", done.out)


class ModelsTest(CliCase):
    def setUp(self):
        super().setUp()
        self.env = {"ATTNDB_MODELS": str(self.dir / "models"),
                    "HF_HUB_CACHE": str(self.dir / "hub"),
                    "LLAMA_CACHE": str(self.dir / "llama")}
        self.snapshot = self.dir / "hub/models--owner--repo-GGUF/snapshots/abc"
        for path in (self.dir / "models/Tiny.gguf", self.snapshot / "repo-Q4_0.gguf",
                     self.snapshot / "repo-Q8_0.gguf", self.dir / "llama/o_r_m.gguf"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"GGUF")

    def test_models_are_listed_by_names_that_stand_for_them(self):
        report = self.run_json("doctor", "--fast", env=self.env)
        found = {model["name"]: model["path"] for model in report["engine"]["models"]}
        found.pop("smollm2", None)
        self.assertEqual(list(found), ["Tiny", "repo-Q4_0", "repo-Q8_0", "o_r_m"])
        text = self.run_ok("doctor", "--fast", env=self.env).out
        self.assertIn(f"{self.snapshot}/repo-Q4_0.gguf, 4 B", text)

    def test_a_models_chat_template_is_told(self):
        def text(value):
            return struct.pack("<Q", len(value)) + value

        def model(name, template):
            pair = text(b"tokenizer.chat_template") + struct.pack("<I", 8) + text(template)
            header = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1 if template else 0)
            (self.dir / f"models/{name}.gguf").write_bytes(header + (pair if template else b""))

        model("Known", b"{{ '<|im_start|>' + messages[0].role + messages[0].content }}")
        model("Jinja", b"{% for m in messages %}({{ m.role }}) {{ m.content }}{% endfor %}")
        model("Unknown", b"{{ nobody.knows(this) }}")
        model("Bare", b"")
        report = self.run_json("doctor", "--fast", env=self.env)
        found = {one["name"]: one["chat_template"] for one in report["engine"]["models"]}
        self.assertEqual([found[name] for name in ("Known", "Jinja", "Unknown", "Bare", "Tiny")],
                         ["known", "known", "unknown", "none", ""])
        text = self.run_ok("doctor", "--fast", env=self.env).out
        self.assertIn("a chat template that can't be applied: --raw", text)
        self.assertIn("the model file's own, in Jinja; --chat-template FILE replaces it", text)

    def test_a_name_is_its_file_and_several_are_told_apart(self):
        model = ["import", "-", "--name", "x", "--model"]
        for name, file in (("tiny", self.dir / "models/Tiny.gguf"),
                           ("owner/repo-gguf:q8_0", self.snapshot / "repo-Q8_0.gguf"),
                           ("o/r", self.dir / "llama/o_r_m.gguf")):
            self.assert_fails(USAGE, *model, name, stdin="text", env=self.env, says=[str(file)])
        self.assert_fails(USAGE, *model, "owner/repo-GGUF", stdin="text", env=self.env,
                          says=["stands for 2: expected one of repo-Q4_0, repo-Q8_0"])
        self.assert_fails(NOT_FOUND, *model, "repo", stdin="text", env=self.env,
                          says=["did you mean repo-Q4_0, repo-Q8_0?", str(self.dir / "hub"),
                                "'attndb doctor' lists the models"])
        self.assertFalse(self.store.exists())


class DamagedModelTest(CliCase):
    def test_a_damaged_field_of_a_model_is_named_and_is_a_usage_error(self):
        def text(value):
            return struct.pack("<Q", len(value)) + value

        for count in (0, 10**6, 2**32 - 1):
            path = self.dir / "model.gguf"
            path.write_bytes(
                struct.pack("<4sIQQ", b"GGUF", 3, 0, 2) +
                text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama") +
                text(b"llama.block_count") + struct.pack("<II", 4, count))
            self.assert_fails(USAGE, "import", "-", "--name", "x", "--model", path, stdin="text",
                              says=[str(path), f"llama.block_count is {count}",
                                    "expected 1 to 512"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dying-llama", required=True)
    arguments, rest = parser.parse_known_args()
    _dying_llama = arguments.dying_llama
    sys.argv[1:] = rest
    cli_case.main()
