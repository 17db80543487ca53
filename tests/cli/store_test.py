#!/usr/bin/env python3
"""Goal: every command that looks after a store does what it says, in words and in JSON.

Method: one small store is imported once with the real model; each test works on a copy of it.
"""

import fcntl
import json
import os
import pathlib
import pty
import random
import struct
import subprocess
import termios
import time

import cli_case
from cli_case import (BUSY, CliCase, DAMAGE, NAME_TAKEN, NO_ROOM, NOT_FOUND, NO_TEXT, OTHER_MODEL,
                      READ_ONLY, SharedStoreCase, USAGE, another_model)

LIGHTHOUSE = "The lighthouse of Skerry was built in 1870. Its keeper was called Maren. "
# Shares no token with the other: raw, and another first word.
HARBOUR = "Nine boats have room in the harbour of Skerry. Its master is called Tom. "


class StoreCase(SharedStoreCase):
    """`self.store` has two contexts: lighthouse and harbour."""

    @staticmethod
    def fill(case):
        case.run_ok("import", "-", "--name", "lighthouse", stdin=LIGHTHOUSE * 3)
        case.run_ok("import", "-", "--name", "harbour", "--raw", stdin=HARBOUR * 3)

    def names(self, *args):
        return [context["name"] for context in self.run_json("ls", *args)["contexts"]]


class ManageTest(StoreCase):
    def test_ls_lists_names_sizes_and_ages(self):
        done = self.run_ok("ls")
        self.assertRegex(done.out, r"(?m)^NAME +TOKENS +OWN +SIZE +CREATED +USED +EXPIRES")
        self.assertRegex(done.out, r"(?m)^lighthouse +\d+ +[\d.]+ (K|M)iB +\S")
        self.assertIn("2 contexts, ", done.out)
        self.assertEqual(self.names(), ["lighthouse", "harbour"])

    def test_a_store_below_a_link_is_the_store_itself(self):
        (self.dir / "link").symlink_to("store")
        (self.dir / "home").symlink_to(self.dir)
        home = {"HOME": str(self.dir / "home"), "ATTNDB_PATH": "~/store"}
        for args, env in ((["--db", self.dir / "link"], {}), ([], home)):
            listed = self.run_json("ls", *args, env=env)["contexts"]
            self.assertEqual([context["name"] for context in listed], ["lighthouse", "harbour"])
            report = self.run_json("doctor", "--fast", *args, env=env)
            self.assertEqual(report["store"]["num_contexts"], 2, report)
            self.assertFalse([text for text in report["warnings"] if "store" in text], report)
        self.run_ok("rm", "harbour", env=home)
        self.assertEqual(self.names(), ["lighthouse"])

    def test_a_tree_has_contexts_below_what_they_share(self):
        text = pathlib.Path(self.write("long.txt", "The keeper lights the lamp. " * 60))
        self.run_ok("import", text, "--raw", "--name", "short")
        text.write_text(text.read_text() + "Then the keeper sleeps." * 40)
        self.run_ok("import", text, "--raw", "--name", "long")
        listed = self.run_json("ls", "--tree")
        roots = {node["name"]: node for node in listed["tree"]}
        self.assertEqual(set(roots), {"lighthouse", "harbour", "short"})
        [below] = roots["short"]["children"]
        self.assertEqual((below["name"], below["children"]), ("long", []))
        self.assertGreater(below["num_shared"], 100)
        self.assertLess(below["own_bytes"], below["file_bytes"])
        self.assertEqual(len(listed["contexts"]), 4)
        done = self.run_ok("ls", "--tree").out
        self.assertRegex(done, r"(?m)^NAME +TOKENS +SHARED +OWN +SIZE +USED$")
        self.assertRegex(done, r"(?m)^short .*\n  long +\d+ +\d+ ")

    def test_ls_shows_a_conversation_once_by_its_newest_turn(self):
        words = "The keeper lights the lamp. " * 20 + "Then he sleeps."
        for name, more in (("turn-a", ""), ("turn-b", " The ferry comes at noon.")):
            self.run_ok("import", self.write(f"{name}.txt", words + more), "--raw", "--name", name)
        first = self.run_json("describe", "turn-a")
        self.assertEqual(self.run_json("describe", "turn-b")["continues"], first["id"])
        self.assertRegex(self.run_ok("describe", "turn-b").out, f"continues +#{first['id']}\n")
        self.assertEqual(self.names(), ["lighthouse", "harbour", "turn-b"])
        self.assertEqual(self.names("--all"), ["lighthouse", "harbour", "turn-a", "turn-b"])
        self.assertIn("3 contexts and 1 earlier turn (--all), ", self.run_ok("ls").out)
        self.assertIn("4 contexts, ", self.run_ok("ls", "--all").out)
        self.assertNotIn("turn-a", self.run_ok("ls", "--tree").out)
        self.assertEqual(self.names("turn-*"), ["turn-b"])
        self.assertIn("0 contexts and 1 earlier turn (--all), ", self.run_ok("ls", "turn-a").out)
        self.assertIn("No context fits", self.run_ok("ls", "turn-c").out)
        # A second way on makes a branch of it; a name of a person's is always shown.
        branch = self.write("branch.txt", words + " Nobody comes.")
        self.run_ok("import", branch, "--raw", "--name", "turn-c")
        self.assertEqual(self.names("turn-*"), ["turn-a", "turn-b", "turn-c"])
        self.run_ok("rm", "turn-c")
        self.run_ok("mv", "turn-a", "night")
        self.assertEqual(self.names(), ["lighthouse", "harbour", "night", "turn-b"])

    def test_describe_shows_one_by_name_and_by_number(self):
        info = self.run_json("describe", "harbour")
        self.assertEqual(info["name"], "harbour")
        self.assertGreater(info["num_tokens"], 30)
        self.assertGreaterEqual(len(info["segments"]), 1)
        self.assertEqual(self.run_json("describe", f"#{info['id']}"), info)
        self.assertIn("SEGMENT", self.run_ok("describe", "harbour").out)
        self.assert_fails(NOT_FOUND, "describe", "nobody", says=["nobody", "attndb ls"])
        self.assert_fails(NOT_FOUND, "describe", "#999", says=["999"])

    def test_pin_and_release(self):
        self.assertEqual(self.run_json("pin", "harbour"), {"context": "harbour", "pinned": True})
        self.assertTrue(self.run_json("describe", "harbour")["pinned"])
        self.assertIn("pinned", self.run_ok("ls").out)
        self.run_ok("pin", "harbour", "--off")
        self.assertFalse(self.run_json("describe", "harbour")["pinned"])
        self.assert_fails(NOT_FOUND, "pin", "nobody")

    def test_ttl_expires_and_never(self):
        self.assertEqual(self.run_json("ttl", "harbour", "7d")["ttl_seconds"], 7 * 86400)
        self.assertIn("7 d", self.run_ok("ls").out)
        self.assertIsNone(self.run_json("ttl", "harbour", "never")["ttl_seconds"])
        self.run_ok("ttl", "harbour", "1s")
        time.sleep(1.3)
        self.run_ok("compact")
        self.assertEqual(self.names(), ["lighthouse"])

    def test_mv_gives_another_name(self):
        number = self.run_json("describe", "harbour")["id"]
        self.assertEqual(self.run_ok("mv", "harbour", "порт/1").out,
                         "harbour is called порт/1 now\n")
        self.assertEqual(self.names(), ["lighthouse", "порт/1"])
        self.assertEqual(self.run_json("describe", "порт/1")["id"], number)
        self.assert_fails(NOT_FOUND, "mv", "harbour", "b", says=["harbour"])
        done = self.assert_fails(NAME_TAKEN, "mv", f"#{number}", "lighthouse",
                                 says=["lighthouse", "choose another name", "attndb rm"])
        self.assertNotIn("--replace", done.err)
        self.assert_fails(USAGE, "mv", "lighthouse", "a b", says=["context name 'a b'"])
        self.run_ok("mv", f"#{number}", "harbour", "--json")
        self.assertEqual(self.names(), ["lighthouse", "harbour"])

    def test_rm_takes_all_or_none(self):
        self.assert_fails(NOT_FOUND, "rm", "harbour", "nobody", says=["nobody"])
        self.assertEqual(self.names(), ["lighthouse", "harbour"])
        self.assertEqual(self.run_ok("rm", "harbour").out, "removed harbour\n")
        self.assertEqual(self.names(), ["lighthouse"])
        self.assertGreater(self.run_json("rm", "lighthouse")["freed_bytes"], 0)
        self.assertIn("attndb import", self.run_ok("ls").out)
        self.run_ok("compact")
        self.assertEqual(self.run_json("stats")["num_contexts"], 0)

    def test_quota_is_shown_set_and_lifted(self):
        self.assertEqual(self.run_json("quota")["quota_bytes"], 0)
        self.assertEqual(self.run_json("quota", "2GiB")["quota_bytes"], 2 << 30)
        self.assertIn("at most 2.0 GiB", self.run_ok("quota").out)
        self.assertEqual(self.run_json("stats")["quota_bytes"], 2 << 30)
        self.run_ok("quota", "none")
        self.assertIn("no limit", self.run_ok("quota").out)

    def test_stats_and_compact(self):
        stats = self.run_json("stats")
        self.assertEqual(stats["num_contexts"], 2)
        self.assertIn("contexts", self.run_ok("stats").out)
        after = self.run_json("compact")
        self.assertEqual(after["num_contexts"], 2)

    def test_build_tells_what_segments_have(self):
        report = self.run_json("build", "harbour", "--index", "planes")
        self.assertEqual(report["num_built"], 0)
        self.assertEqual(report["num_present"] + report["num_too_short"], 1)
        report = self.run_json("build", "harbour", "--index", "pq")
        self.assertGreater(report.pop("seconds"), 0)
        self.assertEqual(report, {"kind": "pq_8x8", "num_built": 0, "num_present": 0,
                                  "num_too_short": 1, "num_missing": 0, "file_bytes": 0})
        self.assertIn("attndb compact", self.run_ok("build", "harbour", "--index", "graph").err)
        self.assertIn("derived_bytes", self.run_json("describe", "harbour"))
        self.assert_fails(NOT_FOUND, "build", "nobody", "--index", "pq", says=["nobody"])
        self.assert_fails(USAGE, "build", "harbour", "--index", "tree", says=["tree", "graph, pq"])
        self.assert_fails(USAGE, "build", "harbour", "--index", "graph", "--m", 4,
                          says=["no setting of graph"])
        self.assert_fails(USAGE, "build", "harbour", "--index", "flat", says=["flat"])

    def test_tenants_do_not_see_each_other(self):
        self.assertEqual(self.names("--tenant", "alice"), [])
        self.assert_fails(NOT_FOUND, "describe", "harbour", "--tenant", "alice")
        self.assert_fails(USAGE, "ls", "--tenant", "a/b", says=["tenant"])

    def test_common_options_work_before_and_after_the_command(self):
        before = self.run_ok("--json", "ls").json()
        self.assertEqual(before, self.run_ok("ls", "--json").json())
        self.assertEqual(self.run_ok("--db", str(self.store), "ls", "--json",
                                     env={"ATTNDB_PATH": "/nowhere"}).json(), before)


class DamageTest(StoreCase):
    def damage_a_segment(self):
        files = sorted((path for path in self.store.rglob("*") if path.is_file()),
                       key=lambda path: path.stat().st_size)
        path = next(p for p in reversed(files) if "catalog" not in p.name and ".db" not in p.name)
        content = bytearray(path.read_bytes())
        content[random.Random(5).randrange(4096, len(content))] ^= 0x10
        path.chmod(0o644)
        path.write_bytes(content)

    def test_verify_is_content_with_a_good_store(self):
        done = self.run_ok("verify")
        self.assertRegex(done.out, r"^ok: \d+ segments, [\d.]+ MiB checked in ")
        self.assertTrue(self.run_json("verify", "harbour")["ok"])
        self.assert_fails(NOT_FOUND, "verify", "nobody")

    def test_damage_is_found_listed_and_kept_apart(self):
        self.damage_a_segment()
        done = self.run_any("verify")
        self.assertEqual(done.code, DAMAGE, done)
        self.assertIn("DAMAGED", done.out)
        self.assertRegex(done.out, r"not served: (harbour|lighthouse)")
        again = self.run_any("verify", "--json")
        self.assertEqual(again.code, DAMAGE)
        report = again.json()
        self.assertFalse(report["ok"])
        damaged = report["damages"][0]["contexts"][0]
        self.assertEqual(self.run_any("describe", damaged).code, DAMAGE)
        self.assertIn("DAMAGED", self.run_ok("ls").out)
        self.assertEqual(self.run_any("stats").code, DAMAGE)
        self.assertIn("damaged segments", self.run_ok("doctor", "--fast").out)
        self.assert_fails(DAMAGE, "ask", "--context", damaged, "Who?")
        other = ({"harbour", "lighthouse"} - {damaged}).pop()
        self.run_ok("ask", "--context", other, "Who?", "--max-tokens", 3)

    def test_the_same_text_imported_again_mends_what_is_damaged(self):
        self.damage_a_segment()
        damaged = self.run_any("verify", "--json").json()["damages"][0]["contexts"][0]
        texts = {"harbour": HARBOUR, "lighthouse": LIGHTHOUSE}
        raw = ["--raw"] if damaged == "harbour" else []
        # Other words are refused still: the name is taken.
        self.assert_fails(NAME_TAKEN, "import", "-", "--name", damaged, stdin="Other words.")
        done = self.run_json("import", "-", "--name", damaged, *raw, stdin=texts[damaged] * 3)
        self.assertFalse(done["already_imported"])
        self.run_ok("verify")
        self.assertEqual(sorted(self.names()), ["harbour", "lighthouse"])
        self.run_ok("ask", "--context", damaged, "Who?", "--max-tokens", 3)


class WriterTest(StoreCase):
    def hold(self):
        """A process that has the store open for writing, until its stdin ends."""
        writer = self.start("chat", "--context", "harbour", "--wait", cli_case.WAIT)
        self.addCleanup(self.end, writer)
        deadline = time.monotonic() + cli_case.WAIT
        while self.run_any("pin", "harbour").code != BUSY:
            self.assertLess(time.monotonic(), deadline, "no process holds the store")
            self.assertIsNone(writer.poll())
        return writer

    @staticmethod
    def end(process):
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        process.wait()

    def test_a_second_writer_is_told_and_readers_go_on(self):
        writer = self.hold()
        self.assert_fails(BUSY, "pin", "harbour", says=[
            "--wait", f"process {writer.pid} (attndb chat) for ", " s"])
        self.assert_fails(BUSY, "import", "-", "--name", "x", stdin="text")
        self.assertEqual(self.names(), ["lighthouse", "harbour"])
        self.run_ok("describe", "harbour")
        self.run_ok("stats")
        self.run_ok("verify")
        self.run_ok("ask", "--context", "lighthouse", "Who?", "--max-tokens", 3)
        writer.stdin.close()
        self.assertEqual(writer.wait(cli_case.WAIT), 0)
        self.run_ok("pin", "harbour")

    def test_a_long_import_lets_others_pass(self):
        text = self.write("long.txt", "".join(f"Line {i}: ship {i * 37 % 101} came in.\n"
                                              for i in range(150)))
        long_import = self.start("import", text, "--raw", "--checkpoint", 512)
        self.addCleanup(self.end, long_import)
        while "" not in self.names():  # Its first checkpoint: it is in the midst of the text.
            self.assertIsNone(long_import.poll(), "it ended before its first checkpoint")
            time.sleep(0.1)
        self.run_ok("rm", "harbour", "--wait", 600, timeout=600)
        out, err = long_import.communicate(timeout=600)
        self.assertEqual(long_import.returncode, 0, err)
        self.assertIn(b"another process waits for the store", err)
        self.assertRegex(err, rb"(?m)the import goes on at [\d,]{3,} of [\d,]+ tokens$")
        self.assertIn(b"imported 'long'", out)
        self.assertEqual(self.names(), ["lighthouse", "long"])
        self.run_ok("verify")

    def test_wait_waits_for_the_writer_to_end(self):
        writer = self.hold()
        waiting = self.start("pin", "harbour", "--wait", 600)
        time.sleep(0.5)
        self.assertIsNone(waiting.poll())
        writer.stdin.close()
        self.assertEqual(waiting.wait(cli_case.WAIT), 0)
        self.end(waiting)

    def test_who_may_not_write_can_read_and_ask(self):
        for path in [self.store, *self.store.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.dir.chmod(0o755)
        nobody = self.as_nobody()
        self.assertEqual([context["name"] for context in self.run_json("ls", **nobody)["contexts"]],
                         ["lighthouse", "harbour"])
        self.run_ok("ask", "--context", "lighthouse", "Who?", "--max-tokens", 3, **nobody)
        self.run_ok("verify", **nobody)
        self.assert_fails(READ_ONLY, "pin", "harbour", says=["--db"], **nobody)
        self.assertIn("can't be written to", self.run_ok("doctor", "--fast", **nobody).out)

    def as_nobody(self):
        """Options of a run by a user who owns nothing. Only root can become one."""
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        cache = self.dir / "cache"
        cache.mkdir(mode=0o777)
        cache.chmod(0o777)
        options = {"user": "nobody", "env": {"XDG_CACHE_HOME": str(cache)}}
        try:
            can_run = self.run_any("--version", **options).code != 127  # The loader's own code.
        except PermissionError:
            can_run = False
        if not can_run:
            self.skipTest("the program, or a library of it, lies where nobody may look")
        return options


class ModelOfAContextTest(CliCase):
    """A model beside smollm2: the same file, with another name in its head and another weight."""

    def setUp(self):
        super().setUp()
        self.other = another_model(self.dir)
        self.run_ok("import", "-", "--name", "a", "-m", self.other, stdin="Maren keeps the light.")

    def test_a_context_knows_the_model_that_made_it(self):
        info = self.run_json("describe", "a")
        self.assertEqual(info["model_name"].strip(), "Another Model")
        self.assertEqual(info["model_path"], str(self.other))
        self.assertIn("Another Model", self.run_ok("ls").out)
        self.assertRegex(self.run_ok("describe", "a").out, r"model +Another Model.*other\.gguf\)")
        self.run_ok("ask", "-c", "a", "Who?", "--max-tokens", 2)

    def test_another_model_is_refused_by_name(self):
        self.assert_fails(OTHER_MODEL, "ask", "-c", "a", "Who?", "-m", "smollm2",
                          says=["'a' is of another model", "Another Model", "Smollm2 135M",
                                str(self.other), "pass the --model that made the context"])
        moved = self.dir / "moved.gguf"
        self.other.rename(moved)
        done = self.run_any("ask", "-c", "a", "Who?")
        self.assertEqual(done.code, OTHER_MODEL, done)
        self.assertIn("which is not there; tries smollm2\nattndb: context 'a' is of another model",
                      done.err)
        self.run_ok("ask", "-c", "a", "Who?", "-m", moved, "--max-tokens", 2)


class TrainedLengthTest(CliCase):
    def setUp(self):
        super().setUp()
        self.too_long = self.write("notes.txt", "sea " * 9000)

    def test_a_text_beyond_the_models_length_is_refused_before_anything_is_run(self):
        says = ["notes.txt' has 9,0", "was trained on 8,192",
                "give --rope-scaling yarn:2, or a shorter document"]
        self.assert_fails(USAGE, "import", self.too_long, "-q", says=says)
        self.assertFalse(self.store.exists())
        self.assert_fails(USAGE, "import", self.too_long, "-q", "--rope-scaling", "yarn:1.05",
                          says=["yarn:1.05 stretches to 8,601", "give --rope-scaling yarn:2"])
        self.assert_fails(USAGE, "import", self.too_long, "-q", "--rope-scaling", "ntk:2",
                          says=["'ntk:2', expected linear:FACTOR or yarn:FACTOR"])

    def test_a_scaling_is_kept_with_the_context_and_used_again(self):
        self.run_ok("import", "-", "--name", "yarn", "--rope-scaling", "yarn:4",
                    stdin=LIGHTHOUSE * 3)
        self.run_ok("import", "-", "--name", "plain", stdin=LIGHTHOUSE * 3)
        info = self.run_json("describe", "yarn")
        self.assertTrue(info["rope_scaling"].startswith("yarn:freq_scale=0.25,"), info)
        # Nothing of it served the second import, whose identity is another.
        self.assertEqual(info["segments"][0]["num_contexts"], 1)
        ask = ("ask", "-c", "yarn", "What is the keeper called?", "--max-tokens", 8)
        done = self.run_ok(*ask)
        self.assertIn("'yarn' was imported with --rope-scaling yarn:4, which is used again",
                      done.err)
        given = self.run_ok(*ask, "--rope-scaling", "yarn:4")
        self.assertEqual(given.out, done.out)
        self.assertNotIn("imported with", given.err)
        self.assertEqual(self.run_ok(*ask, "-q").err, "")
        # The space at its end and what follows are other tokens together.
        self.assertEqual(self.run_json(*ask)["reused_tokens"], info["num_tokens"] - 1)
        self.run_ok("chat", "-c", "yarn", "--max-tokens", 4, "-q", stdin="Who?\n")
        self.assertEqual(self.run_json("describe", "yarn.chat")["rope_scaling"],
                         info["rope_scaling"])
        self.run_ok("explain", "yarn")
        found = self.run_json("find", "keeper", "-c", "yarn")
        self.assertEqual(found["skipped"], [])
        self.run_ok("import", "-", "--name", "unrotated", "--unrotated-keys", stdin=LIGHTHOUSE * 3)
        self.assertTrue(self.run_json("describe", "unrotated")["unrotated_keys"])
        self.assertIn("keys without RoPE", self.run_ok("describe", "unrotated").out)
        answer = self.run_json("ask", "-c", "unrotated", "Who?", "--max-tokens", 4)
        self.assertEqual(answer["reused_tokens"], info["num_tokens"] - 1)
        for name, scaling, says in [("yarn", "linear:4", "with --rope-scaling yarn:4"),
                                    ("plain", "yarn:4", "without --rope-scaling")]:
            for command in [("ask", "Who?", "-c"), ("chat", "-c"), ("explain",),
                            ("find", "Who?", "-c")]:
                self.assert_fails(USAGE, *command, name, "--rope-scaling", scaling, says=[says])


class ImportTest(StoreCase):
    def test_an_imported_document_is_not_run_again(self):
        again = self.run_json("import", "-", "--name", "harbour", "--raw", stdin=HARBOUR * 3)
        self.assertTrue(again["already_imported"])
        self.assertIn("already imported as 'harbour'",
                      self.run_ok("import", "-", "--name", "harbour", "--raw",
                                  stdin=HARBOUR * 3).out)

    def test_a_taken_name_is_refused_before_the_work_and_replace_takes_it(self):
        self.assert_fails(NAME_TAKEN, "import", "-", "--name", "harbour",
                          stdin="Another text.", says=["--replace"])
        self.run_ok("import", "-", "--name", "harbour", "--replace", stdin="Another text.")
        self.assertEqual(sorted(self.names()), ["harbour", "lighthouse"])
        self.assertLess(self.run_json("describe", "harbour")["num_tokens"], 60)

    def test_a_second_name_costs_one_token(self):
        done = self.run_json("import", "-", "--name", "port", "--raw", stdin=HARBOUR * 3)
        self.assertEqual(done["new_tokens"], 1)
        self.assertEqual(sorted(self.names()), ["harbour", "lighthouse", "port"])

    def test_the_name_comes_from_the_file(self):
        path = self.write("My Notes.v2.txt", "Short notes.")
        self.assertEqual(self.run_json("import", path)["context"], "My_Notes.v2")

    def test_ttl_and_pin_are_set_also_on_what_is_there(self):
        self.run_ok("import", "-", "--name", "n", "--ttl", "1h", "--pin", stdin="Notes.")
        info = self.run_json("describe", "n")
        self.assertEqual((info["ttl_seconds"], info["pinned"]), (3600, True))
        self.run_ok("import", "-", "--name", "harbour", "--pin", "--raw", stdin=HARBOUR * 3)
        self.assertTrue(self.run_json("describe", "harbour")["pinned"])

    def test_a_bad_name_is_refused(self):
        for name in ("a b", "x" * 129, "a\nb"):
            self.assert_fails(USAGE, "import", "-", "--name", name, stdin="Notes.")

    def test_what_is_no_model_is_said_by_name(self):
        not_gguf = self.write("model.gguf", "hello" * 100)
        self.assert_fails(USAGE, "import", "-", "--name", "n", "--model", not_gguf, stdin="x",
                          says=["model.gguf"])
        self.assert_fails(NOT_FOUND, "import", "-", "--name", "n", "--model", "/no/such.gguf",
                          stdin="x", says=["such.gguf"])
        empty = self.dir / "empty"
        self.assert_fails(USAGE, "import", "-", "--name", "n", "--model", not_gguf, "--db", empty,
                          stdin="x")
        self.assertFalse(empty.exists(), "no store for what is no model")

    def test_no_room_has_its_own_exit_code(self):
        self.run_ok("pin", "lighthouse")
        self.run_ok("pin", "harbour")
        used = self.run_json("stats")["file_bytes"]
        self.run_ok("quota", f"{used}B")
        done = self.assert_fails(NO_ROOM, "import", "-", "--name", "n", stdin="Notes. " * 50,
                                 says=["quota"])
        self.assertNotIn("prefill", done.err)
        self.assertNotIn("stored already", done.err)
        self.assertEqual(self.run_json("stats")["file_bytes"], used)
        self.assertEqual(sorted(self.names()), ["harbour", "lighthouse"])

    def test_who_is_evicted_is_named(self):
        before = set(self.names())
        self.run_ok("quota", f"{self.run_json('stats')['file_bytes']}B")
        done = self.run_ok("import", "-", "--name", "n", "--json", stdin="Notes. " * 50)
        gone = before - set(self.names())
        self.assertTrue(gone)
        self.assertEqual(set(json.loads(done.out)["evicted"]), gone)
        self.assertIn("evicted to make room", done.err)
        self.assertEqual(self.run_json("import", "-", "--name", "n", stdin="Notes. " * 50)
                         ["already_imported"], True)

    def test_names_are_letters_of_every_language(self):
        for name in ("яблоко", "груша"):
            (self.dir / f"{name}.txt").write_text(f"About {name}: it grows on trees.")
            self.run_ok("import", self.dir / f"{name}.txt")
        self.assertEqual(sorted(self.names()), ["harbour", "lighthouse", "груша", "яблоко"])
        self.assertIn("яблоко", self.run_ok("ls").out)
        self.assert_fails(NOT_FOUND, "describe", "слива", says=['"слива"'])
        self.assert_fails(NAME_TAKEN, "import", "-", "--name", "груша", stdin="x", says=["'груша'"])
        self.assert_fails(USAGE, "import", "-", "--name", "a\u202eb", stdin="x",
                          says=["'a?b': expected 1 to 128 bytes of letters"])

    def test_several_files_are_imported_in_one_go(self):
        (self.dir / "notes" / "may").mkdir(parents=True)
        for name in ("notes/a.txt", "notes/may/b.md", "c.txt"):
            (self.dir / name).write_text(f"This is {name}, and it is short.")
        (self.dir / "notes" / "x.bin").write_bytes(b"\0\1")
        done = self.run_ok("import", self.dir / "notes", f"{self.dir}/c*.txt", "--raw")
        self.assertEqual([line.split(":")[0] for line in done.out.splitlines()[:3]],
                         ["imported 'a'", "imported 'may/b'", "imported 'c'"])
        self.assertIn("imported 3 of 3 files in", done.out)
        self.assertIn("left out what is no text: 1 file\n", done.err)
        self.assertIn("/notes/x.bin: it has a byte 0, at byte 0\n", done.err)
        again = self.run_json("import", self.dir / "notes", "--raw")
        self.assertEqual([one["already_imported"] for one in again["imports"]], [True, True])
        self.assertEqual((again["num_done"], again["num_failed"], again["num_left"]), (2, 0, 0))
        self.assertEqual([pathlib.Path(one["file"]).name for one in again["skipped"]], ["x.bin"])
        self.assert_fails(USAGE, "import", self.dir / "c.txt", self.dir / "notes" / "may",
                          "--name", "n", says=["2 files"])
        self.assert_fails(NOT_FOUND, "import", f"{self.dir}/*.rst", says=["no file fits"])

    def test_a_folder_without_texts_has_an_exit_code_of_its_own(self):
        folder = self.dir / "scans"
        folder.mkdir()
        (folder / "a.pdf").write_bytes(b"%PDF-1.7")
        (folder / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
        done = self.run_any("import", folder)
        self.assertEqual(done.code, NO_TEXT, done)
        self.assertIn("a.pdf: it is a PDF document\n", done.err)
        self.assertIn("attndb: warning: nothing to import: none of 2 files is a text", done.err)
        done = self.run_any("import", folder, "--json")
        self.assertEqual(done.code, NO_TEXT, done)
        self.assertEqual(done.json()["imports"], [])
        self.assertEqual([one["reason"] for one in done.json()["skipped"]],
                         ["it is a PDF document", "it is a PNG image"])

    def test_a_text_is_split_at_its_headings(self):
        sections = [f"# Harbour {i}\n\n" + f"Boat {i} lies in harbour {i}, says its master. " * 6 +
                    "\n\n" for i in range(1, 6)]
        sections[3] += "The spare key of the boat house hangs behind the red door.\n"
        path = self.write("harbours.md", "".join(sections))
        command = ("import", path, "--split", "--part-tokens", 150, "--raw")
        would = self.run_json(*command, "--dry-run")["imports"]
        done = self.run_ok(*command)
        parts = [name for name in self.names() if name.startswith("harbours")]
        self.assertEqual(parts, [f"harbours.{i}" for i in range(1, len(would) + 1)])
        self.assertGreater(len(parts), 2)
        self.assertIn(f"is in {len(parts)} parts: 'harbours.1' to '{parts[-1]}'", done.err)
        texts = [self.run_ok("cat", part).out for part in parts]
        self.assertEqual("".join(texts), "".join(sections))
        for text in texts:
            self.assertTrue(text.startswith("# Harbour "), text)
        for context in self.run_json("ls", "harbours.*")["contexts"]:
            self.assertLessEqual(context["num_tokens"], 150)
        again = self.run_json(*command)["imports"]
        self.assertEqual([one["already_imported"] for one in again], [True] * len(parts))
        # Each part is found by itself.
        found = self.run_json("find", "Where does the spare key of the boat house hang?")
        best = found["passages"][0]["context"]
        self.assertIn("spare key", texts[parts.index(best)])
        asked = self.run_json("ask", "--find", 1, "Where does the spare key hang?",
                              "--max-tokens", 5)
        self.assertIn(asked["context"], parts)
        # A shorter text leaves a part behind.
        pathlib.Path(path).write_text("".join(sections[:-2]))
        shorter = self.run_ok(*command, "--replace")
        self.assertRegex(shorter.err, r"'harbours\.\d' is there as well.*'attndb rm harbours")

    def test_parts_are_checked_before_the_first_is_run(self):
        path = self.write("isles.md", "".join(
            f"# Isle {i}\n\n" + f"Isle {i} has a light that burns all night. " * 6 + "\n\n"
            for i in range(1, 6)))
        command = ("import", path, "--split", "--part-tokens", 100, "--raw", "--tenant", "isles")
        self.run_ok("import", "-", "--name", "isles.3", "--raw", "--tenant", "isles",
                    stdin="Another text.")
        for more in ((), ("--dry-run",)):
            done = self.run_any(*command, *more)
            self.assertEqual(done.code, NAME_TAKEN, done)
            self.assertRegex(done.err, "part 3 of 5: .*'isles.3'")
        # Each part has room, and all five have none.
        self.run_ok("rm", "isles.3", "--tenant", "isles")
        self.run_ok("quota", "6MB", "--tenant", "isles")
        for more in ((), ("--dry-run",)):
            done = self.run_any(*command, *more)
            self.assertEqual(done.code, NO_ROOM, done)
            self.assertIn("all 5 parts together: ", done.err)
        self.assertEqual(self.run_json("ls", "--tenant", "isles")["contexts"], [])

    def test_a_text_that_fits_is_not_split(self):
        self.run_ok("import", "-", "--name", "short", "--split", stdin="A short text.")
        self.assertIn("short", self.names())

    def test_one_file_that_fails_leaves_the_others(self):
        (self.dir / "good.txt").write_text("Nothing is wrong with this.")
        (self.dir / "bad.txt").write_bytes(b"caf\xe9")
        paths = (self.dir / "bad.txt", self.dir / "no.txt", self.dir / "good.txt")
        done = self.run_any("import", *paths)
        self.assertEqual(done.code, USAGE)
        self.assertIn("imported 1 of 3 files", done.out)
        self.assertIn("bad.txt' is not UTF-8 at byte 3", done.err)
        self.assertIn("cannot open", done.err)
        self.run_ok("rm", "good")
        told = self.run_any("import", *paths, "--json").json()
        self.assertEqual(told["num_failed"], 2)
        self.assertEqual([one.get("error", {}).get("exit_code") for one in told["imports"]],
                         [USAGE, NOT_FOUND, None])
        self.assertIn("good", self.names())

    def test_a_dry_run_says_what_it_would_take(self):
        text = "The ferry leaves at nine. " * 30
        would = self.run_json("import", "-", "--name", "ferry", "--dry-run", "--raw", stdin=text)
        self.assertEqual(would["reused_tokens"], 0)
        self.assertEqual(self.names(), ["lighthouse", "harbour"])
        done = self.run_json("import", "-", "--name", "ferry", "--raw", stdin=text)
        self.assertEqual((done["num_tokens"], done["new_tokens"]),
                         (would["num_tokens"], would["new_tokens"]))
        segments = sum(one["file_bytes"] for one in self.run_json("describe", "ferry")["segments"])
        self.assertAlmostEqual(would["new_bytes"], segments, delta=segments // 20)
        more = self.run_ok("import", "-", "--name", "more", "--dry-run", "--raw",
                           stdin=text + "It comes back at ten.")
        self.assertRegex(more.out, r"'more' would have \d+ tokens, \d+ of them stored already; the "
                                   r"others take [\d.]+ [KM]iB on disk and about [\d.]+ m?s\n")
        self.assert_fails(NAME_TAKEN, "import", "-", "--name", "harbour", "--dry-run", stdin="x")
        self.run_ok("quota", "1KiB")
        self.run_ok("pin", "lighthouse")
        self.run_ok("pin", "harbour")
        self.run_ok("pin", "ferry")
        self.assert_fails(NO_ROOM, "import", "-", "--name", "n", "--dry-run", stdin="Notes. " * 50,
                          says=["quota"])

    def test_a_list_fits_its_terminal(self):
        long_name = "shelf/" + "x" * 100
        self.run_ok("import", "-", "--name", long_name, "--raw", stdin="A text.")
        for width in (80, 100):
            master, terminal = pty.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
            with os.fdopen(master, "rb", buffering=0) as screen:
                code = subprocess.run([cli_case.attndb(), "ls"], stdout=terminal, check=False,
                                      env=cli_case.environment(self.store)).returncode
                os.close(terminal)
                shown = screen.read(65536).decode()
            self.assertEqual(code, 0)
            lines = [line.rstrip("\r") for line in shown.split("\n")]
            self.assertLessEqual(max(map(len, lines)), width, shown)
            self.assertIn("lighthouse", shown)
            self.assertIn("shelf/x", shown)
        self.assertIn(long_name, self.run_ok("ls").out, "a pipe gets all of it")

    def test_cat_prints_the_text(self):
        self.assertEqual(self.run_ok("cat", "harbour").out, HARBOUR * 3)
        self.assertNotIn("<|im_start|>", self.run_ok("cat", "lighthouse").out)
        special = self.run_json("cat", "lighthouse", "--special")
        self.assertIn("<|im_start|>", special["text"])
        self.assertIn(LIGHTHOUSE, special["text"])
        self.assert_fails(NOT_FOUND, "cat", "nobody", says=["nobody"])

    def test_append_runs_what_is_new_alone(self):
        before = self.run_json("describe", "harbour")
        done = self.run_json("append", "harbour", "-", stdin="A crane was built in 1901.")
        self.assertLess(done["new_tokens"], 20)
        self.assertGreaterEqual(done["reused_tokens"], before["num_tokens"] - 1)
        self.assertEqual(self.run_ok("cat", "harbour").out,
                         HARBOUR * 3 + "A crane was built in 1901.")
        self.assertEqual(self.names(), ["lighthouse", "harbour"])
        # Its last token was a space, which the new word has taken. A sentence's end stays.
        grown = self.run_json("describe", "harbour")
        self.run_ok("append", "harbour", "-", stdin=" Another one stands beside it.")
        self.assertEqual(self.run_json("describe", "harbour")["id"], grown["id"])
        self.assert_fails(NOT_FOUND, "append", "nobody", "-", stdin="x", says=["nobody"])
        self.run_ok("chat", "-c", "lighthouse", "--name", "talk", "--max-tokens", 3, "-q",
                    stdin="Who?\n")
        self.assert_fails(1, "append", "talk", "-", stdin="x", says=["dialogue", "attndb chat"])

    def test_shared_beginnings_are_reused(self):
        longer = self.run_json("import", "-", "--name", "longer",
                               "--raw", stdin=HARBOUR * 3 + "And a ferry comes twice a day.")
        self.assertGreater(longer["reused_tokens"], 40)
        self.assertLess(longer["new_tokens"], 20)
        self.assertEqual(sorted(self.names()), ["harbour", "lighthouse", "longer"])

    def test_another_kv_type_is_another_context(self):
        done = self.run_json("import", "-", "--name", "wide", "--kv-dtype", "f32",
                             "--raw", stdin=HARBOUR * 3)
        self.assertEqual(done["reused_tokens"], 0)
        self.assertEqual(self.run_json("describe", "wide")["kv_dtype"], "float32")
        self.run_ok("ask", "--context", "wide", "Who?", "--max-tokens", 3)


if __name__ == "__main__":
    cli_case.main(needs_model=True)
