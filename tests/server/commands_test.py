"""Goal: commands that ask a server print what they print of the store itself, and say why if they
can not.

Method: one store, served, that the command line reads beside its server; keys; servers that are
not there, that end, and that are no servers of attndb.
"""

import contextlib
import hashlib
import http.server
import json
import signal
import threading

import pytest

import server_case
from server_case import (CAPITAL, STORY, Server, damage_longest_segment, new_folder, run_attndb,
                         run_attndb_as_text, run_client)

ERROR, USAGE, NOT_FOUND, DAMAGE, BUSY, NAME_TAKEN = 1, 2, 3, 4, 5, 8
UNSUPPORTED, INTERRUPTED = 10, 130
KEY = "open-sesame"


@pytest.fixture(scope="module")
def skerry():
    """A server whose store holds an imported text."""
    with new_folder() as folder:
        run_attndb(folder / "store", "import", "-", "--name", "skerry", stdin=STORY)
        with Server(folder / "store") as server:
            yield server


@contextlib.contextmanager
def answering(status, body, content_type="application/json", posted=None, headers=()):
    """The URL of a server that gives the same answer to everything, or another to each POST."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = posted if posted is not None and self.command == "POST" else body
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(answer)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_DELETE = do_GET

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


def same_text(server, *args, leaving_out=""):
    """Ages in words may pass from one to the next between two calls."""
    for _ in range(5):
        ours = run_client(server.url, *args, as_json=False)[0]
        if ours == run_attndb_as_text(server.store, *args).replace(leaving_out, ""):
            return True
    return False


class TestSameOutput:
    def test_ls(self, skerry):
        stored = run_attndb(skerry.store, "ls")
        for context in stored["contexts"]:
            context["model_path"] = ""  # The server's own affair.
        assert run_client(skerry.url, "ls") == stored
        assert same_text(skerry, "ls")
        assert [context["name"] for context in run_client(skerry.url, "ls")["contexts"]
                if not context["name"].startswith("turn-")] == ["skerry"]

    def test_describe_by_name_and_by_number(self, skerry):
        for name in ("skerry", "#1"):
            described = run_client(skerry.url, "describe", name)
            stored = run_attndb(skerry.store, "describe", name)
            path = stored["model_path"]
            assert path, "the store knows it"
            assert described == {**stored, "model_path": ""}
            assert described["segments"]
            assert same_text(skerry, "describe", name, leaving_out=f" ({path})")

    def test_pin_and_ttl(self, skerry):
        assert run_client(skerry.url, "pin", "skerry") == {"context": "skerry", "pinned": True}
        assert run_attndb(skerry.store, "describe", "skerry")["pinned"]
        assert run_client(skerry.url, "pin", "skerry", "--off")["pinned"] is False
        assert run_client(skerry.url, "ttl", "skerry", "2h") == {"context": "skerry",
                                                                 "ttl_seconds": 7200}
        assert run_attndb(skerry.store, "describe", "skerry")["ttl_seconds"] == 7200
        assert run_client(skerry.url, "ttl", "skerry", "never")["ttl_seconds"] is None
        assert run_client(skerry.url, "describe", "skerry")["ttl_seconds"] is None
        assert run_client(skerry.url, "pin", "skerry", as_json=False)[0] == "pinned skerry\n"

    def test_rm_removes_all_or_none(self, skerry):
        context = skerry.ask("Say hi.").context
        skerry.wait_until_durable(context)
        gone = run_client(skerry.url, "rm", context, "nobody-wrote-this", exit_code=NOT_FOUND)
        assert "nobody-wrote-this" in gone["error"]["message"]
        assert run_client(skerry.url, "describe", context)["name"] == context
        gone = run_client(skerry.url, "rm", context)
        assert gone["removed"] == [context] and gone["freed_bytes"] >= 0, "a session may hold it"
        run_client(skerry.url, "describe", context, exit_code=NOT_FOUND)

    def test_an_error_is_that_of_the_store(self, skerry):
        theirs = run_client(skerry.url, "describe", "nobody-wrote-this", exit_code=NOT_FOUND)
        assert theirs == run_attndb(skerry.store, "describe", "nobody-wrote-this",
                                    exit_code=NOT_FOUND)

    def test_the_environment_names_the_server_too(self, skerry):
        by_flag = run_client(skerry.url, "describe", "skerry")
        assert run_client(skerry.url, "describe", "skerry", flag=False) == by_flag
        assert run_client(skerry.url + "/v1", "describe", "skerry") == by_flag

    def test_an_empty_store_lists_nothing(self, server):
        assert run_client(server.url, "ls")["contexts"] == []
        assert "No contexts yet" in run_client(server.url, "ls", as_json=False)[0]


class TestExplain:
    def test_a_contexts_plan(self, skerry):
        for plan in ("full", "topk(k=64)"):
            theirs = run_client(skerry.url, "explain", "skerry", "--plan", plan)
            ours = run_attndb(skerry.store, "explain", "skerry", "--plan", plan)
            for field in ("plan", "num_tokens", "num_reused", "num_segments"):
                assert theirs[field] == ours[field]
            assert [layer["plan"] for layer in theirs["layers"]] == [
                layer["plan"] for layer in ours["layers"]]
        shown = run_client(skerry.url, "explain", "skerry", "--plan", "topk(k=64)", as_json=False)
        assert shown[0].startswith("plan      topk(k=64,") and shown[0].count("\n") == 5
        tables = run_client(skerry.url, "explain", "skerry", "--verbose", as_json=False)[0]
        assert "runs [why]" in tables

    def test_what_of_a_text_is_stored(self, skerry):
        for args in (["--prompt", STORY], ["--prompt", "Of nothing that is known."],
                     ["skerry", "--prompt", STORY[:len(STORY) // 2]],
                     ["--prompt", STORY, "--raw"], ["--prompt", STORY, "--system", "Be brief."]):
            assert run_client(skerry.url, "explain", *args) == run_attndb(skerry.store, "explain",
                                                                          *args)
        assert same_text(skerry, "explain", "--prompt", STORY)

    def test_errors_are_the_stores(self, skerry):
        for args, code in ((["nobody-wrote-this"], NOT_FOUND), ([], USAGE),
                           (["skerry", "--plan", "what"], USAGE)):
            refused = run_client(skerry.url, "explain", *args, exit_code=code)
            assert refused["error"]["code"] == run_attndb(skerry.store, "explain", *args,
                                                          exit_code=code)["error"]["code"]

    def test_an_answer_that_explains_nothing_is_said(self):
        for body in (b"{}", b"[]", b'{"explain": {}, "report": 3}'):
            with answering(200, body) as url:
                assert "explains nothing" in run_client(
                    url, "explain", "skerry", exit_code=ERROR)["error"]["message"]


class TestImport:
    def test_a_text_becomes_the_context_that_import_makes(self, folder):
        with Server(folder / "store") as server:
            done = run_client(server.url, "import", "-", "--name", "skerry", "--system", "Be kind.",
                              "--ttl", "7d", stdin=STORY)
            assert done["context"] == "skerry"
            assert done["already_imported"] is False
            assert done["new_tokens"] == done["num_tokens"] > 100
            assert (done["reused_tokens"], done["evicted"]) == (0, [])
            described = run_client(server.url, "describe", "skerry")
            assert (described["num_tokens"], described["ttl_seconds"]) == (done["num_tokens"],
                                                                           7 * 86400)
            again = run_client(server.url, "import", "-", "--name", "skerry", "--system",
                               "Be kind.", "--pin", stdin=STORY)
            assert again["already_imported"]
            assert run_client(server.url, "describe", "skerry")["pinned"]
            # With no word in front it is another text, of the same end.
            other = run_client(server.url, "import", "-", "--name", "other", stdin=STORY + "End.",
                               as_json=False)
            assert other[0].startswith("imported 'other': ")
        # The command line alone finds what it would have made itself.
        assert run_attndb(folder / "store", "import", "-", "--name", "skerry", "--system",
                          "Be kind.", stdin=STORY)["already_imported"]

    def test_who_is_evicted_is_named(self, folder):
        with Server(folder / "store") as server:
            run_client(server.url, "import", "-", "--name", "old", "--raw", stdin=STORY)
            used = run_client(server.url, "describe", "old")["file_bytes"]
            run_client(server.url, "quota", used + used // 2)
            done = run_client(server.url, "import", "-", "--name", "new", "--raw",
                              stdin="Another text. " + STORY)
            assert done["evicted"] == ["old"]
            assert [context["name"] for context in run_client(server.url, "ls")["contexts"]] == [
                "new"]

    def test_the_same_text_imported_again_mends_what_is_damaged(self, folder):
        with Server(folder / "store") as server:
            for name, text in (("whole", CAPITAL), ("torn", STORY)):
                run_client(server.url, "import", "-", "--name", name, "--raw", stdin=text)
        damage_longest_segment(folder / "store")
        with Server(folder / "store") as server:
            report = run_client(server.url, "verify", exit_code=DAMAGE)
            assert report["damages"][0]["contexts"] == ["torn"]
            run_client(server.url, "import", "-", "--name", "torn", "--raw", stdin="Other words.",
                       exit_code=NAME_TAKEN)
            done = run_client(server.url, "import", "-", "--name", "torn", "--raw", stdin=STORY)
            assert not done["already_imported"]
            assert run_client(server.url, "verify")["damages"] == []
            assert not run_client(server.url, "describe", "torn")["damaged"]

    def test_a_name_is_taken_once_unless_it_is_to_be_replaced(self, skerry):
        error = run_client(skerry.url, "import", "-", "--name", "skerry", stdin="Other words.",
                           exit_code=NAME_TAKEN)["error"]
        assert "skerry" in error["message"]
        run_client(skerry.url, "import", "-", "--name", "taken", stdin="First words.")
        before = run_client(skerry.url, "describe", "taken")["id"]
        done = run_client(skerry.url, "import", "-", "--name", "taken", "--replace",
                          stdin="Other words.")
        assert done["id"] != before
        assert run_client(skerry.url, "rm", "taken")

    def test_what_is_wrong_is_refused_before_it_runs(self, skerry):
        passes = skerry.metric("attndb_passes")
        for args, says in ((["--name", "a b"], "a b"),
                           (["--name", "x", "--index", "pq"], "--index"),
                           (["--name", "x", "--model", "other"], "--model")):
            error = run_client(skerry.url, "import", "-", *args, stdin="Words.",
                               exit_code=USAGE)["error"]
            assert says in error["message"]
        long = run_client(skerry.url, "import", "-", "--name", "x", stdin=STORY * 60,
                          exit_code=USAGE)["error"]
        assert "tokens" in long["message"]
        assert skerry.metric("attndb_passes") == passes

    def test_one_that_is_interrupted_leaves_nothing(self, folder):
        with Server(folder / "store") as server:
            client = server_case.start_client(server.url, "import", "-", "--name", "long",
                                              stdin=STORY * 30)
            server_case.wait_until(lambda: server.metric("attndb_active_turns") == 1, "it is read")
            client.send_signal(signal.SIGINT)
            assert client.wait(timeout=server_case.WAIT) == INTERRUPTED
            server_case.wait_until(lambda: server.metric("attndb_active_turns") == 0, "it ended")
            assert run_client(server.url, "ls")["contexts"] == []


    def test_a_dry_run_tells_what_it_would_take_and_changes_nothing(self, skerry):
        before = run_client(skerry.url, "ls")
        passes = skerry.metric("attndb_passes")
        for name, text in (("skerry", STORY), ("other", STORY), ("new", "Of nothing known.")):
            args = ["import", "-", "--name", name, "--dry-run"]
            ours = run_client(skerry.url, *args, stdin=text)
            theirs = run_attndb(skerry.store, *args, stdin=text)
            ours.pop("predicted_seconds", None), theirs.pop("predicted_seconds", None)
            assert ours == theirs
        run_client(skerry.url, "import", "-", "--name", "skerry", "--dry-run", stdin="Other words.",
                   exit_code=NAME_TAKEN)
        assert run_client(skerry.url, "ls") == before
        assert skerry.metric("attndb_passes") == passes


class TestAppend:
    TAIL = " The keeper's name was Maren."

    def test_what_is_appended_is_what_the_store_alone_makes(self, folder):
        for name in ("ours", "theirs"):
            run_attndb(folder / "store", "import", "-", "--name", name, "--pin", "--ttl", "2h",
                       stdin=STORY)
        with Server(folder / "store") as server:
            done = run_client(server.url, "append", "ours", "-", stdin=self.TAIL)
            assert done["context"] == "ours" and done["already_imported"] is False
            described = run_client(server.url, "describe", "ours")
            assert (described["pinned"], described["ttl_seconds"]) == (True, 7200)
            assert done["reused_tokens"] > 0 and done["new_tokens"] < 20
            text = run_client(server.url, "cat", "ours")["text"]
            assert text.endswith(self.TAIL) and STORY in text
            by_id = run_client(server.url, "append", f"#{described['id']}", "-", stdin=" More.")
            assert by_id["num_tokens"] > done["num_tokens"] and by_id["context"] == "ours"
            error = run_client(server.url, "append", "nobody-wrote-this", "-", stdin="x",
                               exit_code=NOT_FOUND)["error"]
            assert "nobody-wrote-this" in error["message"]
            run_client(server.url, "chat", "-c", "ours", "--max-tokens", "2", stdin="Who?\n")
            error = run_client(server.url, "append", "ours.chat", "-", stdin="x",
                               exit_code=ERROR)["error"]
            assert "is a dialogue" in error["message"]
        alone = run_attndb(folder / "store", "append", "theirs", "-", stdin=self.TAIL)
        assert alone["num_tokens"] == done["num_tokens"]
        assert run_attndb(folder / "store", "cat", "theirs")["text"] == text


class TestNamesAndTexts:
    def test_mv_is_seen_by_the_store(self, folder):
        run_attndb(folder / "store", "import", "-", "--name", "old", stdin="Some words.")
        with Server(folder / "store") as server:
            number = run_client(server.url, "describe", "old")["id"]
            run_client(server.url, "mv", "old", "new")
            assert run_attndb(folder / "store", "describe", "new")["id"] == number
            run_client(server.url, "describe", "old", exit_code=NOT_FOUND)
            run_client(server.url, "import", "-", "--name", "taken", stdin="Other words.")
            error = run_client(server.url, "mv", "new", "taken", exit_code=NAME_TAKEN)["error"]
            assert "taken" in error["message"]
            run_client(server.url, "mv", "new", "a b", exit_code=USAGE)

    def test_cat_gives_the_text_of_a_context(self, skerry):
        for args in (["skerry"], ["#1"], ["skerry", "--special"]):
            assert run_client(skerry.url, "cat", *args) == run_attndb(skerry.store, "cat", *args)
        assert run_client(skerry.url, "cat", "skerry", as_json=False)[0].endswith(STORY)
        run_client(skerry.url, "cat", "nobody-wrote-this", exit_code=NOT_FOUND)
        with answering(200, b'{"text": 1}') as url:
            assert "no 'text'" in run_client(url, "cat", "a", exit_code=ERROR)["error"]["message"]


class TestUpkeep:
    def test_verify_says_what_it_says_of_the_store(self, skerry):
        ours = run_client(skerry.url, "verify", "skerry")
        assert ours == run_attndb(skerry.store, "verify", "skerry")
        assert ours["ok"] and ours["num_segments"] > 0
        assert run_client(skerry.url, "verify", as_json=False)[0].startswith("ok: ")
        run_client(skerry.url, "verify", "nobody-wrote-this", exit_code=NOT_FOUND)
        for body in (b"{}", b'{"damages": [1]}', b'{"damages": [{"segment_id": -1}]}'):
            with answering(200, b"data: " + body + b"\n\ndata: [DONE]\n\n") as url:
                run_client(url, "verify", exit_code=ERROR)

    def test_damage_is_found_and_the_rest_is_served(self, folder):
        for name in ("sound", "broken"):
            run_attndb(folder / "store", "import", "-", "--name", name, "--raw",
                       stdin=f"This is the {name} one. " * 20)
        file = max((folder / "store").rglob("*.seg"), key=lambda path: path.stat().st_mtime_ns)
        with Server(folder / "store") as server:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            with open(file, "r+b") as segment:  # In place: the server has it open.
                segment.write(content)
            found = run_client(server.url, "verify", exit_code=DAMAGE)
            assert found["ok"] is False
            assert [damage["contexts"] for damage in found["damages"]] == [["broken"]]
            assert run_client(server.url, "verify", "sound")["ok"]

    def test_compact_merges_what_is_in_pieces(self, folder):
        run_attndb(folder / "store", "import", "-", "--name", "book", "--raw", stdin=STORY)
        run_attndb(folder / "store", "append", "book", "-", stdin=" Its keeper was called Maren.")
        before = len(run_attndb(folder / "store", "describe", "book")["segments"])
        assert before > 1
        with Server(folder / "store") as server:
            done = run_client(server.url, "compact", "book", "--segment-tokens", "100000")
            assert done["num_segments_before"] == before > done["num_segments"] == 1
            assert len(run_client(server.url, "describe", "book")["segments"]) == 1
            assert "segments 1 -> 1" in run_client(server.url, "compact", as_json=False)[0]
            for args in (["--grow-graphs"], ["--roar-keys", "8"]):
                error = run_client(server.url, "compact", *args, exit_code=USAGE)["error"]
                assert args[0] in error["message"]
        assert run_attndb(folder / "store", "verify")["ok"]

    def test_build_makes_an_index_that_the_store_has_then(self, skerry):
        done = run_client(skerry.url, "build", "skerry", "--index", "pq", "--m", "2", "--b", "4")
        assert done["kind"].startswith("pq") and done["num_missing"] == 0
        assert done["num_built"] + done["num_too_short"] > 0
        again = run_client(skerry.url, "build", "skerry", "--index", "pq,m=2,b=4")
        assert again["num_built"] == 0 and again["num_present"] == done["num_built"]
        run_client(skerry.url, "build", "skerry", "--index", "hnsw", exit_code=USAGE)
        run_client(skerry.url, "build", "nobody-wrote-this", "--index", "pq", exit_code=NOT_FOUND)
        error = run_client(skerry.url, "build", "skerry", "--index", "pq", "--iterations", "3",
                           exit_code=USAGE)["error"]
        assert "--iterations" in error["message"]

    def test_a_quota_is_set_shown_and_taken_away(self, folder):
        with Server(folder / "store") as server:
            assert run_client(server.url, "quota")["quota_bytes"] == 0
            assert run_client(server.url, "quota", "1GiB")["quota_bytes"] == 1 << 30
            assert run_attndb(server.store, "quota")["quota_bytes"] == 1 << 30
            assert run_client(server.url, "quota", as_json=False)[0].startswith("at most 1.0 GiB")
            assert run_client(server.url, "quota", "none")["quota_bytes"] == 0
            run_client(server.url, "quota", "much", exit_code=USAGE)

    def test_upkeep_is_the_operators(self, guarded):
        for args in (["verify"], ["compact"], ["quota", "1GiB"],
                     ["build", "skerry", "--index", "pq"]):
            error = run_client(guarded.url, *args, exit_code=USAGE, ATTNDB_KEY=KEY)["error"]
            assert "operator" in error["message"]
        assert run_client(guarded.url, "quota", ATTNDB_KEY=KEY)["quota_bytes"] == 0


class TestAnswers:
    QUESTION = "Who is the keeper of the lighthouse?"

    def test_ask_says_what_it_says_of_the_store(self, skerry):
        args = ["ask", "-c", "skerry", "When was the lighthouse of Skerry built?",
                "--max-tokens", "16", "--plan", "full"]
        ours = run_client(skerry.url, *args)
        theirs = run_attndb(skerry.store, *args)
        assert "1870" in ours["answer"] and "1870" in theirs["answer"]
        assert set(ours) == set(theirs)
        for key in ("context", "contexts", "plan", "reused_tokens", "new_tokens", "dropped"):
            assert ours[key] == theirs[key], key
        assert ours["first_token_ms"] > 0
        printed, said = run_client(skerry.url, *args, as_json=False)
        assert printed == ours["answer"] + "\n"
        # The turn before is in memory: all but the last token of the same prompt.
        num_tokens = ours["reused_tokens"] + ours["new_tokens"]
        assert f"reused {num_tokens - 1} tokens, ran 1 new" in said

    def test_tokens_that_left_while_it_replied_are_counted_too(self):
        def dropped(in_usage, in_head):
            """What `ask` says of a stream whose usage and whose head say these numbers."""
            usage = {"prompt_tokens": 20, "completion_tokens": 1, **in_usage}
            events = [{"choices": [{"delta": {"content": "Maren"}, "finish_reason": None}]},
                      {"choices": [{"delta": {}, "finish_reason": "length"}]},
                      {"choices": [], "usage": usage}]
            stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            with answering(200, b'{"id": 1, "name": "doc"}', headers=in_head.items(),
                           posted=(stream + "data: [DONE]\n\n").encode()) as url:
                answer = run_client(url, "ask", "-c", "doc", self.QUESTION)
                assert answer["answer"] == "Maren"
                assert ("dropped" in answer) != ("dropped_tokens" in answer)
                said = run_client(url, "ask", "-c", "doc", self.QUESTION, as_json=False)[1]
                number = answer.get("dropped_tokens", 0)
                assert (f"{number} of its oldest tokens" in said) == (number > 0)
                return number

        head = {"X-Attndb-Dropped": "4"}
        assert dropped({"dropped_tokens": 9}, {}) == 9
        assert dropped({"dropped_tokens": 9}, head) == 9, "those of the prompt are among them"
        assert dropped({}, head) == 4, "all that an older server tells"
        assert dropped({}, {}) == 0

    def test_ask_takes_the_flags_of_a_request_and_no_others(self, skerry):
        short = run_client(skerry.url, "ask", "-c", "skerry", self.QUESTION, "--max-tokens", "1")
        assert (short["generated_tokens"], short["finish"]) == (1, "max_tokens")
        for args in (["--check"], ["--threads", "1"]):
            error = run_client(skerry.url, "ask", "-c", "skerry", self.QUESTION, *args,
                               exit_code=USAGE)["error"]
            assert args[0] in error["message"], args
        error = run_client(skerry.url, "ask", "-c", "nobody-wrote-this", self.QUESTION,
                           exit_code=NOT_FOUND)["error"]
        assert "nobody-wrote-this" in error["message"]

    def test_a_chat_goes_on_wherever_it_is_asked(self, folder):
        run_attndb(folder / "store", "import", "-", "--name", "skerry", stdin=STORY)
        talk = ["chat", "-c", "skerry", "--max-tokens", "6"]
        with Server(folder / "store") as server:
            first = run_client(server.url, *talk, stdin="Who is the keeper?\n")
            assert first["name"] == "skerry.chat"
            [turn] = first["turns"]
            stored = run_client(server.url, "describe", "skerry.chat")
            # All of the reply is stored, its last token too, however it ended.
            assert stored["num_tokens"] >= (turn["reused_tokens"] + turn["new_tokens"]
                                            + turn["generated_tokens"])
            run_client(server.url, "pin", "skerry.chat")
            printed, said = run_client(server.url, *talk, stdin="And the doctor?\nWhy?\n",
                                       as_json=False)
            assert "goes on with 'skerry.chat'" in said
            assert printed.count("\n") >= 2
            assert run_client(server.url, "describe", "skerry.chat")["pinned"]
            error = run_client(server.url, "chat", "-c", "skerry", "--name", "skerry",
                               stdin="Who?\n", exit_code=USAGE)["error"]
            assert "is a document" in error["message"]
            run_client(server.url, "chat", "--name", "no.chat", stdin="", exit_code=NOT_FOUND)
            held = run_client(server.url, "describe", "skerry.chat")["num_tokens"]
            lines = ["/context", "/plan full", "/context skerry.chat", "/plan"]
            _, said = run_client(server.url, *talk, stdin="\n".join(lines) + "\n", as_json=False)
            assert "turns are stored as 'skerry.chat'" in said and said.count("plan full") == 2
            for line, code in (("/plan nonsense", USAGE), ("/context nobody", NOT_FOUND)):
                run_client(server.url, *talk, stdin=line + "\n", exit_code=code)
            [tree] = run_client(server.url, "ls", "--tree")["tree"]
            assert [tree["name"], tree["children"][0]["name"]] == ["skerry", "skerry.chat"]
        alone = run_attndb(folder / "store", *talk, stdin="Is that so?\n")
        assert alone["turns"][0]["reused_tokens"] == held


class TestRefusals:
    def test_who_finds_the_store_in_use_is_sent_to_the_server(self, skerry):
        error = run_attndb(skerry.store, "pin", "skerry", exit_code=BUSY)["error"]
        assert f"process {skerry.process.pid} (attndb serve)" in error["message"]
        assert "--server" in error["advice"] and "ATTNDB_URL" in error["advice"]

    def test_a_name_that_is_nearly_right_is_guessed(self, skerry):
        for args in (["describe", "skery"], ["ask", "-c", "sker", "Who?"], ["rm", "SKERRY"]):
            error = run_client(skerry.url, *args, exit_code=NOT_FOUND)["error"]
            assert error["advice"].startswith("did you mean 'skerry'"), args
        # The store is in use, which the command went on from.
        error = run_attndb(skerry.store, "ask", "-c", "skery", "Who?", exit_code=NOT_FOUND)["error"]
        assert error["advice"] == "did you mean 'skerry'?"

    def test_what_works_on_a_store_alone_says_so(self, skerry):
        for args in (["stats"], ["export", "skerry", "-o", "x"],
                     ["declare-equal", "gguf:1", "gguf:2"]):
            error = run_client(skerry.url, *args, exit_code=UNSUPPORTED)["error"]
            assert "--db" in error["advice"], args

    def test_flags_of_a_store_are_refused_by_name(self, skerry):
        for args in (["--db", "/store"], ["--tenant", "ann"]):
            error = run_client(skerry.url, "ls", *args, exit_code=USAGE)["error"]
            assert args[0] in error["message"]
        assert "--server" in run_client(skerry.url, "serve", exit_code=USAGE)["error"]["message"]

    def test_a_url_that_is_none_is_refused(self):
        error = run_client("http://", "ls", exit_code=USAGE)["error"]
        assert "no URL" in error["message"]

    def test_a_server_that_is_not_there_is_said_by_its_place(self, folder):
        with Server(folder / "store") as server:
            assert run_client(server.url, "ls")["contexts"] == []
            server.kill()
            error = run_client(server.url, "ls", exit_code=ERROR)["error"]
        assert str(server.port) in error["message"]


@pytest.fixture(scope="module")
def guarded():
    with new_folder() as folder:
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [
            {"sha256": hashlib.sha256(KEY.encode()).hexdigest(), "tenant": "ann"}]}))
        with Server(folder / "store", "--keys", keys) as server:
            yield server


class TestKeys:
    def test_without_its_key_a_server_says_where_to_put_it(self, guarded):
        for key in ("", "wrong"):
            error = run_client(guarded.url, "ls", exit_code=USAGE, ATTNDB_KEY=key)["error"]
            assert "no valid key" in error["message"]
            assert "ATTNDB_KEY" in error["advice"]

    def test_with_its_key_a_tenant_sees_its_own(self, guarded):
        context = guarded.ask("Say hi.", headers={"Authorization": f"Bearer {KEY}"}).context
        server_case.wait_until(
            lambda: [row["name"] for row in
                     run_client(guarded.url, "ls", ATTNDB_KEY=KEY)["contexts"]] == [context],
            "the turn is listed")


class TestTenants:
    def test_none_reads_changes_or_checks_what_is_anothers(self, folder):
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [
            {"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": name,
             "operator": True, "quota_bytes": 20_000_000} for name in ("ann", "bob")]}))
        with Server(folder / "store", "--keys", keys) as server:
            run_client(server.url, "import", "-", "--name", "hers", stdin=STORY, ATTNDB_KEY="ann")
            number = run_client(server.url, "describe", "hers", ATTNDB_KEY="ann")["id"]
            for name in ("hers", f"#{number}"):
                for args in (["cat", name], ["append", name, "-"], ["verify", name],
                             ["compact", name], ["mv", name, "his"]):
                    run_client(server.url, *args, stdin="x", exit_code=NOT_FOUND, ATTNDB_KEY="bob")
            assert run_client(server.url, "verify", ATTNDB_KEY="bob")["num_segments"] == 0
            run_client(server.url, "quota", "30M", ATTNDB_KEY="bob")
            assert run_client(server.url, "quota", ATTNDB_KEY="ann")["quota_bytes"] == 20_000_000

            def ask(name, text, **fields):
                return server.request("POST", "/attndb/v1/contexts",
                                      {"name": name, "text": text, **fields},
                                      {"Authorization": "Bearer ann"})
            run_client(server.url, "pin", "hers", ATTNDB_KEY="ann")
            for fields in ({"dry_run": True}, {}):
                status, headers, text = ask("more", "Other words. " * 300, **fields)
                assert status == 507 and "Retry-After" not in headers, text

    def test_two_texts_are_not_appended_at_once(self, folder):
        with Server(folder / "store") as server:
            run_client(server.url, "import", "-", "--name", "book", stdin="Once.")
            first = server_case.start_client(server.url, "append", "book", "-", stdin=STORY * 20)
            server_case.wait_until(lambda: server.metric("attndb_active_turns") == 1, "it is read")
            error = run_client(server.url, "append", "book", "-", stdin=" x",
                               exit_code=BUSY)["error"]
            assert "'book'" in error["message"]
            assert first.wait(timeout=server_case.WAIT) == 0
            run_client(server.url, "append", "book", "-", stdin=" The end.")
            text = run_client(server.url, "cat", "book")["text"]
            assert "Once." in text and text.endswith(" The end.") and text.count(STORY) == 20

    def test_a_page_of_another_site_changes_nothing(self, skerry):
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200),
                             ("none", 200)):
            for method, path, body in (("POST", "/attndb/v1/quota", {"quota_bytes": None}),
                                       ("POST", "/tokenize", {"content": "x"})):
                found, _, text = skerry.request(method, path, body, {"Sec-Fetch-Site": site})
                assert found == status, text
        assert skerry.request("DELETE", "/attndb/v1/contexts/skerry", None,
                              {"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert skerry.request("GET", "/v1/models", None,
                              {"Sec-Fetch-Site": "cross-site"})[0] == 200


class TestHostileServers:
    @pytest.mark.parametrize("body", [
        b"", b"hello", b"[]", b"{}", b"null", b'{"contexts": 1}', b'{"contexts": [1]}',
        b'{"contexts": [{"name": 1}]}', b'{"contexts": [{"num_tokens": -1}]}', b"\xff\xfe",
        b"[" * 10**6, b'{"contexts": []' + b" " * 10**6])
    def test_what_is_no_answer_is_an_error(self, body):
        with answering(200, body) as url:
            for args in (["ls"], ["describe", "x"]):
                run_client(url, *args, exit_code=ERROR)

    def test_words_do_not_reach_the_terminals_controls(self):
        body = {"contexts": [{"id": 1, "name": "\u001b[2Jevil", "created_us": 1}]}
        with answering(200, json.dumps(body).encode()) as url:
            printed, _ = run_client(url, "ls", as_json=False)
        assert "evil" in printed
        assert "\x1b" not in printed
        with answering(500, json.dumps({"error": {"message": "\u001b[2Jevil"}}).encode()) as url:
            _, said = run_client(url, "ls", as_json=False, exit_code=ERROR)
        assert "evil" in said
        assert "\x1b" not in said

    def test_a_proxys_page_is_said_by_its_status(self):
        with answering(502, b"<html>bad gateway</html>", "text/html") as url:
            error = run_client(url, "ls", exit_code=ERROR)["error"]
        assert "502" in error["message"]
