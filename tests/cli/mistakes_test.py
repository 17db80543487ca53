#!/usr/bin/env python3
"""Goal: whatever people get wrong is answered by one line that names the object, what was expected
and what was found, or what to do, with an exit code of its kind; nothing is changed by it.

Method: a table of mistakes, each with its code and what the line must say; the same with --json.
"""

import json
import os
import pathlib
import pwd
import re
import socket
import subprocess
import time

import cli_case
from cli_case import (CliCase, DAMAGE, ERROR, NAME_TAKEN, NOT_FOUND, NO_ROOM, OTHER_MODEL, USAGE,
                      another_model, has_engine)

# Words of the command line, the exit code, and what the line must match. {dir}: an empty folder.
WITHOUT_A_STORE = [
    (["lst"], USAGE, "unknown command 'lst'; did you mean 'ls'"),
    (["improt", "x"], USAGE, "did you mean 'import'"),
    (["list"], USAGE, "unknown command 'list'; did you mean 'ls'"),
    (["show", "x"], USAGE, "did you mean 'describe'"),
    (["remove", "x"], USAGE, "did you mean 'rm'"),
    (["delete", "x"], USAGE, "did you mean 'rm'"),
    (["version"], USAGE, "unknown command 'version'; did you mean --version"),
    (["-v"], USAGE, "unknown option -v; did you mean --version"),
    (["ls", "--version"], USAGE, "did you mean 'attndb --version'"),
    (["desc", "x"], USAGE, "did you mean 'describe'"),
    (["search", "x"], USAGE, "did you mean 'find'"),
    (["ls", "--database", "x"], USAGE, "unknown option --database; did you mean --db"),
    (["ls", "--url", "x"], USAGE, "did you mean --server"),
    (["ls", "--silent"], USAGE, "did you mean --quiet"),
    (["ls", "--format", "json"], USAGE, "did you mean --json"),
    (["frobnicate"], USAGE, "unknown command 'frobnicate'; see 'attndb --help'"),
    (["bench"], USAGE, "no command of attndb.*attndb-bench"),
    (["help", "lst"], USAGE, "unknown command 'lst'"),
    (["ls", "--sever", "x"], USAGE, "unknown option --sever; did you mean --server"),
    (["ls", "--frobnicate"], USAGE, "unknown option --frobnicate; see 'attndb ls --help'"),
    (["--jsn", "ls"], USAGE, "did you mean --json"),
    (["describe"], USAGE, "CONTEXT is missing"),
    (["describe", "a", "b"], USAGE, "unexpected argument 'b'"),
    (["rm"], USAGE, "CONTEXT is missing"),
    (["pin"], USAGE, "CONTEXT is missing"),
    (["ttl", "a"], USAGE, "is missing"),
    (["build", "a"], USAGE, "--index INDEX is missing"),
    (["--db"], USAGE, "--db PATH: the value is missing"),
    (["ls", "--wait", "soon"], USAGE, "--wait: expected a number from 0 to .*found 'soon'"),
    (["ls", "--wait", "-1"], USAGE, "--wait: expected.*found '-1'"),
    (["ls", "--sort", "age"], USAGE, "--sort: expected created, used.*found 'age'"),
    (["compact", "--segment-tokens", "many"], USAGE, "a whole number.*found 'many'"),
    (["compact", "--segment-tokens", "0"], USAGE, "from 1 to 2147483648, found '0'"),
    (["ttl", "a", "soon"], USAGE, "'soon' is no time to live; expected seconds, 90s"),
    (["quota", "much"], USAGE, "'much' is no size; expected bytes, 512M or 1.5GiB"),
    (["quota", "0"], USAGE, "quota none"),
    (["declare-equal", "a", "a"], USAGE, "expected two models, found one fingerprint twice"),
    (["declare-equal", "a", "hex:0"], USAGE, "hex:0.*digits"),
    (["ls"], NOT_FOUND, "attndb import"),
    (["ls", "--db", "{dir}/a.txt"], USAGE, "a.txt' is a file, expected a folder$"),
    (["ls", "--db", "{dir}/a.txt/st"], USAGE, "a.txt' is a file, expected a folder for store"),
    (["ls", "--db", "{dir}/dangling"], USAGE,
     "dangling' is a symbolic link to 'nowhere', which does not exist$"),
    (["compact", "--db", "{dir}/dangling/st"], USAGE, "symbolic link to 'nowhere'"),
    (["describe", "x"], NOT_FOUND, "attndb import"),
    (["rm", "x"], NOT_FOUND, "attndb import"),
    (["rm", "x*"], NOT_FOUND, "attndb import"),
    (["pin", "x"], NOT_FOUND, "attndb import"),
    (["verify"], NOT_FOUND, "attndb import"),
    (["compact"], NOT_FOUND, "attndb import"),
    (["ls", "--tenant", "a b"], NOT_FOUND, "no store|a b"),
    (["export", "x", "--safetensors", "{dir}/x.safetensors"], NOT_FOUND, "attndb import"),
    (["simulate", "--model", "7q"], USAGE, "7q"),
    (["completion", "tcsh"], USAGE, "expected bash, zsh or fish, found 'tcsh'"),
    (["simulate", "--trace", "{dir}/no.jsonl"], NOT_FOUND, "no.jsonl"),
]
VARIABLES = [
    ({"ATTNDB_THREADS": "lots"}, ["ls"], USAGE, "ATTNDB_THREADS: expected a whole number.*'lots'"),
    ({"ATTNDB_ISA": "neon"}, ["ls"], USAGE, "ATTNDB_ISA: expected scalar, avx2.*'neon'"),
]
OF_THE_ENGINE = [  # And of the server, which such a build has, too.
    (["ls", "--server", "ftp://x"], USAGE, "ftp://x"),
    (["ls", "--server", "http://127.0.0.1:1"], ERROR,
     "the server at 127.0.0.1 port 1: Connection refused; is 'attndb serve' running there"),
    (["ls", "--server", "http://127.0.0.1:1", "--tenant", "a"], USAGE, "--tenant"),
    (["ask", "-c", "x", "Who?", "--temperature", "0"], USAGE,
     "unknown option --temperature; did you mean --temp"),
    (["ask", "-c", "x", "Who?", "--max_tokens", "9"], USAGE, "did you mean --max-tokens"),
    (["ask", "-c", "x", "Who?", "--n-predict", "9"], USAGE, "did you mean --max-tokens"),
    (["import", "{dir}/a.txt", "--force"], USAGE, "did you mean --replace"),
    (["serve", "--ctx-size", "9"], USAGE, "did you mean --window"),
    (["serve", "--parallel", "9"], USAGE, "did you mean --sessions"),
    (["import", "{dir}/dangling"], NOT_FOUND, "cannot open '.*/dangling': No such file[^;]*$"),
    (["import", "{dir}/a.txt", "--db", "{dir}/dangling"], USAGE,
     "dangling' is a symbolic link to 'nowhere', which does not exist$"),
    (["ask", "Who?"], USAGE, "--context.*--find"),
    (["ask", "-c", "x", ""], USAGE, "the question is empty"),
    (["ask", "-c", "x", "Who?", "--check", "--temp", "1"], USAGE, "leave --temp out"),
    (["ask", "-c", "x", "Who?", "--tokens", "9-3"], USAGE, "9-3"),
    (["ask", "-c", "x", "Who?", "--top-p", "2"], USAGE, "--top-p: expected a number.*found '2'"),
    (["ask", "-c", "x", "Who?", "--max-tokens", "0"], USAGE, "--max-tokens: expected a whole"),
    (["explain"], USAGE, "nothing to explain: name a CONTEXT"),
    (["explain", "--prompt", "a", "--file", "b"], USAGE, "exclude each other"),
    (["import"], USAGE, "name a text FILE"),
    (["import", "-"], USAGE, "--name"),
    (["import", "{dir}/no.txt"], NOT_FOUND, "no.txt"),
    (["import", "{dir}/empty.txt"], USAGE, "empty.txt' is empty"),
    (["import", "{dir}/latin1.txt"], USAGE, "latin1.txt' is not UTF-8 at byte 3, it looks like "
     "latin1, expected a text; try: iconv -f latin1 -t UTF-8 .*latin1.txt . attndb import - "
     "--name latin1"),
    (["import", "{dir}/paper.pdf"], USAGE, "paper.pdf' is a PDF document, expected a text; try: "
     "pdftotext .*paper.pdf - . attndb import - --name paper"),
    (["import", "{dir}/zeros.txt"], USAGE, "zeros.txt' has a byte 0, at byte 2, expected a text"),
    (["import", "{dir}/a.txt", "--part-tokens", "100"], USAGE, "--part-tokens goes with --split"),
    (["import", "{dir}/model.gguf"], USAGE, "model.gguf' is a GGUF model, expected a text"),
    (["import", "{dir}/kv.safetensors"], USAGE, "safetensors file, expected a text.*--safetensors"),
    (["import", "{dir}/huge.txt"], USAGE, "huge.txt' has more than 1 GiB, expected a text of less"),
    (["import", "{dir}/a.txt", "--kv-dtype", "q8_0"], USAGE,
     "--kv-dtype: expected f16, bf16 or f32, found 'q8_0'"),
    (["import", "{dir}/a.txt", "--name", "a b"], USAGE,
     "--name: context name 'a b': expected 1 to 128 bytes of letters, digits and"),
    (["import", "{dir}/a.txt", "--ttl", "soon"], USAGE, "'soon' is no time to live"),
    (["import", "{dir}/a.txt", "-m", "{dir}/no.gguf"], NOT_FOUND, "no.gguf"),
    (["import", "{dir}/a.txt", "-m", "{dir}/a.txt"], USAGE, "a.txt"),
    (["import", "{dir}/a.txt", "-m", "qwen99"], NOT_FOUND,
     "model 'qwen99': no such file, and no model of that name in .ATTNDB_MODELS.*doctor"),
    (["explain", "--file", "{dir}/no.txt"], NOT_FOUND, "cannot open '.*/no.txt': No such file"),
    (["capture", "{dir}/no.txt", "-o", "{dir}/x"], NOT_FOUND, "cannot open '.*/no.txt'"),
    (["import", "--safetensors", "{dir}/no.safetensors"], NOT_FOUND, "no.safetensors"),
    (["import", "{dir}/a.txt", "--rope-scaling", "yarm:4"], USAGE, "yarm:4"),
    (["import", "{dir}/a.txt", "-t", "0"], USAGE, "--threads: expected a whole number from 1"),
    (["import", "--safetensors", "{dir}/a.txt"], USAGE, "a.txt"),
    (["import", "{dir}/a.txt", "--fingerprint", "x"], USAGE, "--fingerprint goes with"),
    (["serve", "--port", "99999"], USAGE, "--port.*found '99999'"),
    (["serve", "--stall-factor", "0.9"], USAGE, "--stall-factor.*from 1 .*found '0.9'"),
    (["serve", "--keys", "{dir}/no.json"], NOT_FOUND, "no.json"),
    (["serve", "--api-key", ""], USAGE, "--api-key is empty"),
    (["serve", "--api-key", "--quiet"], USAGE, "--api-key: its value begins with '-'"),
    (["serve", "--api-key", "a b"], USAGE, "--api-key: expected at most 1024 letters"),
    (["serve", "--api-key", "a,b"], USAGE, "--api-key has a comma.*--keys"),
    (["serve", "--quota", "0"], USAGE, "--quota: a limit of 0 bytes.*'--quota none'"),
    (["serve", "--quota", "much"], USAGE, "--quota: 'much' is no size"),
]

# {other}: another model's file. The store holds `a` and `b`, and `gone`, which has expired. No more
# has room.
WITH_A_STORE = [
    (["ask", "-c", "a", "Who?", "-m", "{other}"], OTHER_MODEL,
     "'a' is of another model: made by .*Smollm2.*asked by .*Another.*pass the --model that made"),
    (["ask", "-c", "con", "Who?"], NOT_FOUND, 'no context "con"; did you mean \'contract\'[?]$'),
    (["describe", "Contract"], NOT_FOUND, "did you mean 'contract'"),
    (["rm", "a", "contrct"], NOT_FOUND, "did you mean 'contract'"),
    (["cat", "tract"], NOT_FOUND, "did you mean 'contract'"),
    (["mv", "con", "c"], NOT_FOUND, "did you mean 'contract'"),
    (["append", "a", "{dir}/no.txt"], NOT_FOUND, "cannot open '.*/no.txt': No such file[^;]*$"),
    (["append", "con", "{dir}/a.txt"], NOT_FOUND, "did you mean 'contract'"),
    (["ask", "-c", "gone", "Who?"], NOT_FOUND, "gone"),
    (["cat", "gone"], NOT_FOUND, "gone"),
    (["import", "{dir}/long.txt"], NO_ROOM, "quota of .* are used, .* more are needed.*rm"),
    (["append", "a", "{dir}/long.txt"], NO_ROOM, "quota of .* are used, .* more are needed.*rm"),
    (["import", "{dir}/a.txt", "--name", "b"], NAME_TAKEN, "'b' .*--replace"),
    (["mv", "a", "b"], NAME_TAKEN, 'context "b" exists .31 tokens.; choose another name'),
    (["mv", "a", "a b"], USAGE, "context name 'a b': expected 1 to 128 bytes"),
    (["mv", "nobody", "c"], NOT_FOUND, 'no context "nobody".*attndb ls'),
    (["rm", "nobody"], NOT_FOUND, 'no context "nobody".*attndb ls'),
    (["rm", "x*"], NOT_FOUND, "'x[*]'"),
    (["ttl", "nobody", "1h"], NOT_FOUND, 'no context "nobody".*attndb ls'),
    (["compact", "nobody"], NOT_FOUND, 'no context "nobody".*attndb ls'),
    (["verify", "nobody"], NOT_FOUND, 'no context "nobody".*attndb ls'),
    (["build", "a", "--index", "hnsw"], USAGE, "hnsw"),
    (["ask", "-c", "nobody", "Who?"], NOT_FOUND, 'no context "nobody".*attndb ls'),
    (["ask", "-c", "a", "Who?", "--plan", "topq"], USAGE, "topq"),
    (["explain", "a", "--plan", "topk(k=0)"], USAGE, "topk.*k.*0"),
    (["ask", "-c", "a", "Who?", "--tokens", "0-99999"], USAGE, "99999|99,999"),
    (["append", "a", "{dir}/empty.txt"], USAGE, "empty.txt' is empty"),
    (["export", "a", "-o", ""], USAGE, "--safetensors is empty, expected a file to write"),
    (["export", "a", "-o", "{dir}"], USAGE, "is a folder, expected a file to write"),
    (["export", "a", "-o", "{dir}/a.txt/x"], USAGE, "a.txt' is a file, expected a folder"),
    (["export", "a", "-o", "{dir}/a.txt"], NAME_TAKEN, "a.txt.*never replaced"),
    (["export", "a", "-o", "{dir}/none/x"], NOT_FOUND, "folder '.*/none' does not exist"),
    (["capture", "{dir}/a.txt", "-o", "{dir}"], USAGE, "is a folder, expected a file to write"),
    (["plot", "{dir}/a.txt", "-o", "{dir}/out"], USAGE, "a.txt' is no KV file.*attndb capture"),
    (["plot", "nobody", "-o", "{dir}/out"], NOT_FOUND, "'nobody' is no file and no context"),
    (["plot", "a", "-o", "{dir}/out", "--format", "gif"], USAGE, "expected png, svg or pdf"),
    (["declare-equal", "gguf:1", "gguf:2"], NOT_FOUND, "gguf:1"),
]


class MistakesTest(CliCase):
    def setUp(self):
        super().setUp()
        self.write("empty.txt", "")
        self.write("a.txt", "A text.")
        (self.dir / "dangling").symlink_to("nowhere")
        for name, content in (("latin1.txt", b"caf\xe9"), ("model.gguf", b"GGUF\x03\0\0\0"),
                              ("paper.pdf", b"%PDF-1.7\n"), ("zeros.txt", b"ab\0c"),
                              ("kv.safetensors", b"\x40" + 7 * b"\0" + b'{"a": 1}')):
            (self.dir / name).write_bytes(content)
        with open(self.dir / "huge.txt", "wb") as huge:
            huge.truncate((1 << 30) + 1)  # Sparse.

    def check(self, args, code, says, env=None, is_empty=True):
        words = [word.replace("{dir}", str(self.dir)) for word in args]
        with self.subTest(args=args, env=env):
            done = self.assert_fails(code, *words, env=env or {})
            line = done.err.splitlines()[-1]
            self.assertRegex(line, re.compile(says, re.DOTALL))
            self.assertEqual(len(done.err.splitlines()), 1, done)
            self.assertEqual(done.out, "")
            if any(word.startswith("{dir}/no") for word in args):
                self.assertNotIn("attndb ls", line, "a file that is missing is no context")
            self.assertEqual(self.store.exists(), not is_empty, "nothing is made by a mistake")

    def test_without_a_store(self):
        for args, code, says in WITHOUT_A_STORE:
            self.check(args, code, says)

    def test_variables(self):
        for env, args, code, says in VARIABLES:
            self.check(args, code, says, env)

    def test_of_the_engine(self):
        if not has_engine():
            self.skipTest("no engine")
        for args, code, says in OF_THE_ENGINE:
            self.check(args, code, says)

    def test_with_a_store(self):
        if not has_engine():
            self.skipTest("no engine")
        self.write("long.txt", "A storm came over the sea. " * 40)
        other = another_model(self.dir)
        self.run_ok("import", "-", "--name", "gone", "--ttl", "1s", stdin="Gone soon.")
        for name in "ab":
            self.run_ok("import", "-", "--name", name, stdin=f"Maren keeps the light {name}.")
        time.sleep(1.1)
        self.run_ok("import", "-", "--name", "contract", stdin="It holds for a year.")
        self.run_ok("pin", "a")
        self.run_ok("pin", "contract")
        self.run_ok("pin", "b")
        self.run_ok("compact")
        self.run_ok("quota", f"{self.run_json('stats')['file_bytes']}B")
        before = self.run_json("ls", "--sort", "created")["contexts"]
        for args, code, says in WITH_A_STORE:
            args = [word.replace("{other}", str(other)) for word in args]
            self.check(args, code, says, is_empty=False)
        after = self.run_json("ls", "--sort", "created")["contexts"]
        for row in before + after:
            del row["last_access_us"]
        self.assertEqual(before, after, "nothing is changed by a mistake")

    def test_a_home_folder_is_found(self):
        home = {"HOME": str(self.dir)}
        for env, args in (({**home, "ATTNDB_PATH": "~/st"}, ["ls"]),
                          (home, ["ls", "--db=~/st"]),
                          ({**home, "ATTNDB_PATH": "~"}, ["ls", "--db", "~/st"])):
            self.assert_fails(NOT_FOUND, *args, env=env, says=[f"no store at '{self.dir}/st'"])
        self.assertFalse((cli_case.ROOT / "~").exists())
        models = self.run_json("doctor", "--fast", env={**home, "ATTNDB_MODELS": "~/models"})
        self.assertEqual(models["environment"]["ATTNDB_MODELS"], f"{self.dir}/models")
        # Without HOME the system's list of users says it.
        told = self.run_json("doctor", "--fast", env={"HOME": "", "ATTNDB_PATH": ""})
        self.assertEqual(told["store"]["path"],
                         pwd.getpwuid(os.getuid()).pw_dir + "/.local/share/attndb")

    def test_a_path_need_not_be_utf8(self):
        folder = os.fsencode(self.dir) + b"/caf\xe9"
        os.mkdir(folder)
        done = subprocess.run([cli_case.attndb(), b"ls", b"--db", folder + b"/st"], check=False,
                              capture_output=True, cwd=cli_case.ROOT,
                                  env=cli_case.environment(self.store))
        self.assertEqual(done.returncode, NOT_FOUND, done)
        self.assertIn(b"no store at '" + folder + b"/st'", done.stderr)
        if not has_engine():
            return
        model = pathlib.Path(cli_case.engine()["models"][0]["path"])
        os.symlink(os.fsencode(model), folder + b"/m\xff.gguf")
        text = folder + b"/text\xff.txt"
        pathlib.Path(os.fsdecode(text)).write_text("A text.")
        for words in (["import", text, "--db", folder + b"/st"],
                      ["import", text, "--name", "other", "--db", folder + b"/st", "--dry-run"],
                      ["capture", text, "-o", folder + b"/kv\xff", "-m", folder + b"/m\xff.gguf"],
                      ["import", "--safetensors", folder + b"/kv\xff", "--db", folder + b"/st"],
                      ["export", "kv_", "-o", folder + b"/out\xff", "--db", folder + b"/st"],
                      ["ls", "--db", folder + b"/st"]):
            done = subprocess.run([cli_case.attndb(), *words, "--json"], check=False,
                                  capture_output=True, cwd=cli_case.ROOT,
                                  env=cli_case.environment(self.store))
            self.assertEqual(done.returncode, 0, (words, done))
            json.loads(done.stdout)  # UTF-8, whatever the path is.

    def test_a_port_that_is_taken(self):
        programs = self.run_json("doctor", "--fast")["programs"]
        if not has_engine() or programs["attndb-server"] is None:
            self.skipTest("no server")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.assert_fails(ERROR, "serve", "--port", port,
                                     says=[f"port {port}: Address already in use; --port names"])
        self.assertNotIn("doctor", done.err)

    def test_what_verify_meets_does_not_send_to_verify(self):
        if not has_engine():
            self.skipTest("no engine")
        self.run_ok("import", "-", "--name", "a", stdin="A text.")
        catalog = self.store / "catalog.db"
        catalog.write_bytes(b"no catalog" * 500)
        for args in (["verify"], ["ls"]):
            done = self.assert_fails(DAMAGE, *args, says=["put back a copy of the store"])
            self.assertNotIn("attndb verify", done.err)

    def test_one_file_among_others_is_missing(self):
        if not has_engine():
            self.skipTest("no engine")
        done = self.run_any("import", self.write("b.txt", "Text."), str(self.dir / "no.txt"))
        self.assertEqual(done.code, NOT_FOUND, done)
        self.assertRegex(done.err, "cannot open '.*/no.txt': No such file or directory\n")
        twice = self.run_ok("import", str(self.dir / "b.txt"), str(self.dir / "b.txt"))
        self.assertIn("already imported as 'b'", twice.out)

    def test_there_are_many(self):
        tables = (WITHOUT_A_STORE, VARIABLES, OF_THE_ENGINE, WITH_A_STORE)
        self.assertGreaterEqual(sum(map(len, tables)), 100)


if __name__ == "__main__":
    cli_case.main()
