"""Goal: whoever runs a server sees what it does: lines, numbers, whether it lives and is ready.

Method: the lines on stderr of servers in each format; /metrics, /health and /ready while a server
works and while it stops; a disk that fills up, a model's file that goes.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import threading
import time

import pytest

import server_case
from server_case import (CAPITAL, CHAT, CONTEXT_HEADER, ROOT, HttpError, Server, run_attndb, user,
                         wait_until)
from small_disk import small_disk

MODEL = ROOT / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"

SECRET = "zanzibar"
HI = {"messages": [user(f"My word is {SECRET}.")], "max_tokens": 4, "temperature": 0}


def lines(server, num_lines=1):
    """The log's lines, once there are so many."""
    def found():
        logged = [json.loads(line) for line in server.said().splitlines() if line.startswith("{")]
        return logged if len(logged) >= num_lines else None

    return wait_until(found, f"{num_lines} lines in the log")


class TestLog:
    def test_a_line_says_how_a_request_went(self, folder):
        with Server(folder / "store", "--log", "json") as server:
            reply = server.ask(HI["messages"], headers={"X-Request-Id": "mine-1"}, max_tokens=4)
            assert reply.headers["X-Request-Id"] == "mine-1"
            [line] = lines(server)
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
            assert 0 < line.pop("first_token_ms") <= line.pop("ms")
            assert line == {
                "request_id": "mine-1", "method": "POST", "route": CHAT, "status": 200,
                "tenant": "default", "prompt_tokens": reply.usage["prompt_tokens"],
                "cached_tokens": reply.cached, "reply_tokens": reply.usage["completion_tokens"]}

    def test_every_way_to_end_has_a_line(self, folder):
        with Server(folder / "store", "--log", "json") as server:
            server.request("GET", "/health")
            server.request("GET", "/nothing")
            server.request("POST", CHAT, f'{{"messages": "{SECRET}"}}')
            with server.stream(HI["messages"], max_tokens=4000) as stream:
                next(stream.pieces())
            logged = lines(server, 4)
            assert [(line["route"], line["status"]) for line in logged] == [
                ("/health", 200), ("", 404), (CHAT, 400), (CHAT, 499)]
            assert len({line["request_id"] for line in logged}) == 4
            assert SECRET not in server.said()

    def test_a_path_without_a_route_is_named(self, folder):
        store = folder / "store"
        with Server(store, "--log", "json") as server:
            paths = {"/nothing?key=zanzibar": "/nothing", "/a%20b%0aGET%20/x": "/a%20b%0AGET%20/x",
                     "/%C3%A4%ff": "/%C3%A4%FF", "/" + "x" * 5000: "/" + "x" * 127 + "...",
                     f"{store}/catalog.db": "catalog.db", str(store): "the%20store"}
            for path in paths:
                assert server.request("GET", path)[0] == 404
            # A path that has a route may name a context.
            assert server.request("PATCH", f"{server_case.CONTEXTS}/{SECRET}")[0] == 405
            assert server.request("POST", f"/v1/models/{SECRET}")[0] == 405
            *lost, context, model = lines(server, len(paths) + 2)
            assert [(line["route"], line["path"]) for line in lost] == [
                ("", path) for path in paths.values()]
            assert [(line["route"], "path" in line) for line in (context, model)] == [
                (server_case.CONTEXTS + "/ID", False), ("/v1/models/ID", False)]
            assert SECRET not in server.said()

    def test_ids_that_are_no_ids_are_replaced(self, folder):
        with Server(folder / "store", "--log", "json") as server:
            for wrong in ("", "a b", "x" * 129, 'a"b', "\u00fc".encode().decode("latin-1")):
                _, headers, _ = server.request("GET", "/health", headers={"X-Request-Id": wrong})
                assert re.fullmatch(r"[0-9a-f]{16}", headers["X-Request-Id"]), wrong
            _, headers, _ = server.request("GET", "/health", headers={"X-Request-Id": "a.B-3_"})
            assert headers["X-Request-Id"] == "a.B-3_"

    def test_a_stream_has_its_id_too(self, folder):
        with Server(folder / "store") as server:
            with server.stream("Say hi.", headers={"X-Request-Id": "s1"}) as stream:
                stream.begin()
                assert stream.response.headers["X-Request-Id"] == "s1"

    def test_text_is_for_people_and_off_is_silent(self, folder):
        with Server(folder / "store", "--log", "text") as server:
            server.request("GET", "/health")
            wait_until(lambda: re.search(r"Z GET /health 200 [\d.]+ ms, default, [0-9a-f]{16}\n",
                                         server.said()), "a line")
        for quiet in (["--log", "off"], ["--quiet"]):
            with Server(folder / "store", *quiet) as server:
                server.request("GET", "/health")
                server.stop()
                assert "/health" not in server.said()

    def test_a_format_that_is_none_is_refused(self, folder):
        error = server_case.run_attndb(folder / "store", "serve", "--log", "xml",
                                       exit_code=2)["error"]
        assert "xml" in error["message"]


class TestStart:
    def warns(self, folder, *args, **more):
        with Server(folder / "store", *args, **more) as server:
            return f"warning: anybody who reaches {server.url} may read" in server.said()

    def test_a_server_that_others_reach_without_a_key_is_warned_of(self, folder):
        everywhere = ("--host", "0.0.0.0")
        keys = folder / "keys.json"
        keys.write_text('{"keys": []}')
        assert self.warns(folder, *everywhere)
        assert self.warns(folder, *everywhere, "--quiet")
        assert not self.warns(folder, "--host", "127.0.0.2")
        assert not self.warns(folder, *everywhere, "--keys", keys)
        assert not self.warns(folder, *everywhere, "--api-key", "k")
        assert not self.warns(folder, *everywhere, variables={"ATTNDB_API_KEY": "k"})

    @pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="no IPv6")
    def test_its_url_has_an_address_of_ipv6_in_brackets(self, folder):
        with Server(folder / "store", "--host", "::1") as server:
            assert server.url == f"http://[::1]:{server.port}"
            assert server_case.run_client(server.url, "ls")["contexts"] == []

    def test_its_quota_is_that_of_the_quota_command(self, folder):
        store = folder / "store"

        def quota(*args):
            with Server(store, *args) as server:
                shown = server.json("GET", server_case.CONTEXTS)["quota_bytes"]
                assert run_attndb(store, "quota")["quota_bytes"] == shown
                return shown

        assert quota() == 0
        assert quota("--quota", "1GiB") == 1 << 30
        assert quota() == 1 << 30
        assert quota("--quota", "none") == 0

    def test_a_quota_below_what_is_stored_evicts_with_the_next_turn(self, folder):
        with Server(folder / "store") as server:
            old = server.ask(server_case.STORY)
            server.wait_until_durable(old.context)
            used = server.json("GET", server_case.CONTEXTS)["file_bytes"]
        with Server(folder / "store", "--quota", used - 1) as server:
            assert "the next turn evicts" in server.said()
            new = server.ask("Name a fish.")
            server.wait_until_durable(new.context)
            assert server.request("GET", f"{server_case.CONTEXTS}/{old.context}")[0] == 404

    def test_a_quota_that_is_none_is_refused(self, folder):
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [
            {"sha256": hashlib.sha256(b"k").hexdigest(), "tenant": "ann"}]}))
        for args, says in ((["0"], "--quota: a limit of 0 bytes"), ([""], "--quota: '' is no size"),
                           (["much"], "--quota: 'much' is no size"),
                           (["1GiB", "--keys", keys], "tenant 'default'")):
            error = run_attndb(folder / "store", "serve", "--quota", *args, exit_code=2)["error"]
            assert says in error["message"]
        assert not (folder / "store").exists()


class TestMetrics:
    def test_memory_is_told_by_kind(self, server):
        text = server.request("GET", "/metrics")[2].decode()
        kinds = dict(re.findall(r'^attndb_memory_bytes\{kind="(\w+)"\} (\d+)$', text, re.M))
        assert set(kinds) == {"kv", "weights"}
        assert int(kinds["weights"]) > 10**7
        assert server.metric("attndb_memory_limit_bytes") > int(kinds["kv"])
        assert server.metric("process_resident_memory_bytes") > 10**7

    def test_batch_and_queue_are_told(self, server):
        before = server.metric("attndb_pass_reply_tokens")
        reply = server.ask("Say hi.", max_tokens=8)
        ran = server.metric("attndb_pass_reply_tokens") - before
        # The first token of a reply comes with the prompt's pass.
        assert ran in (reply.usage["completion_tokens"] - 1, reply.usage["completion_tokens"])
        assert server.metric("attndb_pass_prompt_tokens") > 0
        assert server.metric("attndb_waiting_turns") == server.metric("attndb_active_turns") == 0

    def test_the_time_of_each_token_is_told(self, server):
        first, later = (server.metric(f"attndb_{name}_seconds_count")
                        for name in ("first_token", "token"))
        server.ask("Say hi.", max_tokens=8, ignore_eos=True)
        assert server.metric("attndb_first_token_seconds_count") == first + 1
        assert server.metric("attndb_token_seconds_count") == later + 7

    def test_tokens_that_come_later_than_wanted_are_counted(self, server):
        before = server.metric("attndb_late_tokens")
        assert server.ask("Say hi.", max_tokens=8, ignore_eos=True, tpot_ms=0.001).text
        assert server.metric("attndb_late_tokens") == before + 7
        assert server.ask("Say ho.", max_tokens=8, ignore_eos=True, tpot_ms=900_000).text
        assert server.metric("attndb_late_tokens") == before + 7

    def test_what_is_stored_is_counted(self, server):
        server.wait_until_durable(server.ask("Name a fish.").context)
        assert server.metric("attndb_stores") >= 1
        assert server.metric("attndb_disk_bytes") > 0
        assert server.metric("attndb_damaged_segments") == 0


@pytest.fixture(scope="module")
def talk(server):
    """Messages of 1,500 to 2,000 tokens, which the server has read turn by turn."""
    messages = []
    for _ in range(5):
        messages.append(user(server_case.STORY * 2))
        messages.append(server_case.assistant(server.ask(messages, max_tokens=4).text))
    return [*messages, user("What is the keeper of the lighthouse called?")]


class TestTimePerToken:
    """Of a conversation that is long enough for attention to be what a plan can save."""

    NUM_TOKENS = 20  # The plan is set anew every few of them.
    # A token that came later would have ended the test: it holds however busy the machine is.
    GENEROUS_MS = 1000 * server_case.WAIT

    def ask(self, server, talk, **fields):
        """The reply, and how many of its tokens were late."""
        before = server.metric("attndb_late_tokens")
        reply = server.ask(talk, max_tokens=self.NUM_TOKENS, ignore_eos=True, **fields)
        assert 1500 <= reply.usage["prompt_tokens"] <= 2000
        assert reply.usage["completion_tokens"] == self.NUM_TOKENS
        assert reply.finish == "length"
        return reply, server.metric("attndb_late_tokens") - before

    def test_that_can_be_met_is_and_costs_no_word(self, server, talk):
        reply, num_late = self.ask(server, talk, tpot_ms=self.GENEROUS_MS)
        assert num_late == 0
        assert "Maren" in reply.text

    def test_that_can_not_be_met_is_told_and_the_answer_comes(self, server, talk):
        reply, num_late = self.ask(server, talk, tpot_ms=0.01)
        # The first token is no token's next.
        assert num_late == self.NUM_TOKENS - 1
        assert reply.text

    def test_of_a_request_that_says_none_is_any(self, server, talk):
        reply, num_late = self.ask(server, talk)
        assert num_late == 0
        assert "Maren" in reply.text


class TestLife:
    def test_who_stops_lives_and_is_not_ready(self, folder):
        with Server(folder / "store") as server:
            assert server.json("GET", "/ready") == {"status": "ready"}
            with server.stream("Count to one hundred.", max_tokens=60) as stream:
                pieces = stream.pieces()
                next(pieces)
                server.terminate()
                wait_until(lambda: "ends: what" in server.said(), "the server has seen the signal")
                time.sleep(0.2)
                status, headers, body = server.request("GET", "/ready")
                assert status == 503, body
                assert int(headers["Retry-After"]) >= 1
                assert server.json("GET", "/health") == {"status": "ok"}
                list(pieces)
                context = stream.response.headers[CONTEXT_HEADER]
            assert server.wait() == 0
        with Server(folder / "store") as server:
            assert server.describe(context)["durable"]


    def test_whose_segments_are_gone_is_not_ready_and_names_no_path(self, folder):
        store = folder / "store"
        with Server(store) as server:
            server.json("POST", server_case.CONTEXTS, {"name": "doc", "text": "Maren keeps it."})
            os.rename(store / "segments", folder / "elsewhere")
            status, headers, body = server.request("GET", "/ready")
            assert status == 503 and int(headers["Retry-After"]) >= 1
            answers = [body]
            for method, path, sent in (
                    ("POST", CHAT, json.dumps({**HI, "context": "doc", "store_as": "turn"})),
                    ("POST", server_case.CONTEXTS, json.dumps({"name": "b", "text": "Other."})),
                    ("POST", "/attndb/v1/verify", "{}"), ("GET", server_case.CONTEXTS, None)):
                answers.append(server.request(method, path, sent)[2])
            for answer in answers:
                text = answer if isinstance(answer, str) else answer.decode()
                assert str(folder) not in text, text
            assert server.json("GET", "/health") == {"status": "ok"}
            os.rename(folder / "elsewhere", store / "segments")
            assert server.json("GET", "/ready") == {"status": "ready"}


class TestPinnedPrompts:
    SYSTEM = "You are the keeper of a lighthouse, and answer in one short sentence. " * 4

    def ask(self, server, question):
        return server.ask([{"role": "system", "content": self.SYSTEM.strip()}, user(question)])

    def test_each_conversation_begins_with_what_was_read_at_the_start(self, folder):
        prompt = folder / "prompt.txt"
        prompt.write_text(self.SYSTEM.strip() + "\n")
        args = ("--pin-prompt", prompt)
        with Server(folder / "store", *args) as server:
            wait_until(lambda: server.request("GET", "/ready")[0] == 200, "it is ready")
            [pinned] = wait_until(
                lambda: server.json("GET", server_case.CONTEXTS)["contexts"], "it is stored")
            assert pinned["name"].startswith("system-") and pinned["pinned"]
            assert pinned["num_tokens"] > 50
            for question in ("Who are you?", "What do you see?"):
                assert self.ask(server, question).cached >= pinned["num_tokens"]
        with Server(folder / "store", *args) as server:
            assert server.json("GET", "/ready") == {"status": "ready"}
            assert server.metric("attndb_passes") == 0
            assert self.ask(server, "And at night?").cached >= pinned["num_tokens"]

    def test_each_tenant_has_it(self, folder):
        prompt = folder / "prompt.txt"
        prompt.write_text(self.SYSTEM)
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [
            {"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": name}
            for name in ("ann", "bob")]}))
        with Server(folder / "store", "--keys", keys, "--pin-prompt", prompt) as server:
            wait_until(lambda: server.request("GET", "/ready")[0] == 200, "it is ready")
            for name in ("ann", "bob"):
                headers = {"Authorization": f"Bearer {name}"}
                wait_until(lambda: server.json("GET", server_case.CONTEXTS,  # pylint: disable=W0640
                                               headers=headers)["contexts"], "it is stored")

    def test_a_file_that_is_none_is_refused(self, folder):
        empty = folder / "empty.txt"
        empty.write_text("\n")
        for path, code in ((folder / "nothing", 3), (empty, 2)):
            error = server_case.run_attndb(folder / "store", "serve", "--pin-prompt", path,
                                           exit_code=code)["error"]
            assert path.name in error["message"]


class TestIgnoredLines:
    """A line of system messages that changes with each request."""

    EXPRESSION = "^request: [0-9]+$"

    def test_the_start_and_the_log_say_it(self, folder):
        with Server(folder / "store", "--ignore-line", self.EXPRESSION, "--ignore-line",
                    "(?i)today is", "--log", "json") as server:
            assert (f"lines of system messages are deleted that match '{self.EXPRESSION}', "
                    "'(?i)today is'") in server.said()
            cached = []
            for number in (1, 2):
                system = f"Today is day {number}.\nrequest: {number}\n" + "Be brief. " * 20
                reply = server.json("POST", "/v1/chat/completions", {
                    "messages": [{"role": "system", "content": system},
                                 {"role": "user", "content": "Hi"}], "max_tokens": 1})
                cached.append(reply["usage"]["prompt_tokens_details"]["cached_tokens"])
            assert cached[0] < 20 < 60 < cached[1]
            assert server.said().count('"ignored_lines":2') == 2
            assert "request: 2" not in server.said()

    def test_a_wrong_expression_is_refused(self, folder):
        error = server_case.run_attndb(folder / "store", "serve", "--ignore-line", "a(b",
                                       exit_code=2)["error"]
        assert "--ignore-line: 'a(b'" in error["message"]
        assert "missing )" in error["message"]
        assert not (folder / "store").exists()


class TestAdmission:
    """K and V of a token of SmolLM2 take 23,040 bytes."""

    def test_what_can_never_fit_is_refused_and_what_does_not_fit_now_waits(self, folder):
        with Server(folder / "store", "--memory", "100MiB") as server:
            # Half of what 15 parts of 16 of the memory have room for.
            assert ("replies have at most 2,133 tokens unless a request says 'max_tokens', not "
                    "4,096: memory for K and V (--memory) allows no more") in server.said()
            for max_tokens in (5000, 4400):  # More than 100 MiB; more than 15 parts of 16 of it.
                with pytest.raises(server_case.HttpError) as caught:
                    server.ask("Say hi.", max_tokens=max_tokens)
                assert caught.value.status == 400
                assert "of memory" in caught.value.error()["message"]
            with server.stream("Count to one thousand.", max_tokens=3000) as stream:
                next(stream.pieces())
                assert server.metric("attndb_memory_promised_bytes") > 3000 * 23_040
                done = []
                waiting = threading.Thread(
                    target=lambda: done.append(server.ask(server_case.CAPITAL, max_tokens=3000)))
                waiting.start()
                wait_until(lambda: server.metric("attndb_memory_waiting_turns") == 1, "it waits")
                assert not done
            waiting.join()
            assert done[0].text
            wait_until(lambda: server.metric("attndb_memory_promised_bytes") == 0, "all is free")

    def test_who_waits_is_told_that_the_server_stops(self, folder):
        with Server(folder / "store", "--memory", "100MiB", "--drain", "1") as server:
            with server.stream("Count to one thousand.", max_tokens=3000) as stream:
                next(stream.pieces())
                with server.stream("Say hi.", max_tokens=3000):
                    wait_until(lambda: server.metric("attndb_memory_waiting_turns") == 1, "waits")
                    server.terminate()
                    assert server.wait() == 0

    def test_a_prompt_beyond_the_tenants_quota_is_refused(self, folder):
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [
            {"sha256": hashlib.sha256(b"k").hexdigest(), "tenant": "ann",
             "quota_bytes": 1_000_000}]}))
        with Server(folder / "store", "--keys", keys) as server:
            headers = {"Authorization": "Bearer k"}
            with pytest.raises(server_case.HttpError) as caught:
                server.ask(server_case.STORY, headers)
            assert caught.value.status == 507
            assert "Retry-After" not in caught.value.headers
            assert caught.value.error()["status"] == "resource exhausted"
            assert "quota" in caught.value.error()["message"]
            assert server.ask("Say hi.", headers).text


class TestFaultsOfTheMachine:
    """Full disks are real file systems (small_disk.py), as the server asks how much is free before
    it begins a turn, and every file of the store must meet the same end: a limit on the size of
    files would do neither, and gives another error.
    """

    def fill(self, file):
        """Takes all that is free."""
        with open(file, "wb", buffering=0) as out, contextlib.suppress(OSError):
            while True:
                out.write(bytes(1 << 16))

    def test_a_full_disk_refuses_turns_until_there_is_room_and_loses_none(self, folder):
        with small_disk(folder) as disk:
            with Server(disk.path / "store", inside=disk.inside) as server:
                first = server.ask(CAPITAL)
                server.wait_until_durable(first.context)
                self.fill(disk.here / "filler")
                with pytest.raises(HttpError) as refused:
                    server.ask("Name a river of Norway.")
                assert refused.value.status == 507
                assert "free" in refused.value.error()["message"]
                assert server.json("GET", "/health") == {"status": "ok"}
                assert server.describe(first.context)["durable"]
                (disk.here / "filler").unlink()
                second = server.ask("Name a river of Norway.")
                server.wait_until_durable(second.context)
            with Server(disk.path / "store", inside=disk.inside) as server:
                again = server.ask(CAPITAL)
                assert again.text == first.text
                assert again.cached == first.usage["prompt_tokens"] - 1
            assert run_attndb(disk.path / "store", "verify", inside=disk.inside)["damages"] == []
            self.fill(disk.here / "filler")
            removed = run_attndb(disk.path / "store", "rm", first.context, inside=disk.inside)
            assert removed["removed"] == [first.context], "the command that makes room works"

    def test_a_disk_that_fills_up_meanwhile_costs_the_turn_its_context_alone(self, folder):
        with small_disk(folder) as disk:
            with Server(disk.path / "store", inside=disk.inside) as server:
                with server.stream("Count to one hundred.", max_tokens=40) as stream:
                    pieces = stream.pieces()
                    next(pieces)
                    self.fill(disk.here / "filler")
                    assert list(pieces)
                    context = stream.response.headers[CONTEXT_HEADER]
                state = wait_until(
                    lambda: (info := server.describe(context)).get("error") and info,
                    "it is told that it could not be stored")
                assert not state["durable"]
                (disk.here / "filler").unlink()
                server.wait_until_durable(server.ask(CAPITAL).context)
            assert run_attndb(disk.path / "store", "verify", inside=disk.inside)["damages"] == []

    def test_a_model_file_that_disappears_is_needed_at_the_next_start_only(self, folder):
        model = folder / "model.gguf"
        shutil.copy(MODEL, model)
        with Server(folder / "store", model=model) as server:
            model.unlink()
            assert "Paris" in server.ask(CAPITAL).text
        with pytest.raises(AssertionError, match="no server.*model.gguf"):
            Server(folder / "store", model=model)

    @pytest.mark.parametrize("change", ["cut short", "written over"])
    def test_a_model_file_that_is_changed_in_place_answers_nothing_wrong(self, folder, change):
        """Its weights are mapped, and it is looked at around each pass."""
        model = folder / "model.gguf"
        shutil.copy(MODEL, model)
        with Server(folder / "store", model=model) as server:
            first = server.ask(CAPITAL)
            server.wait_until_durable(first.context)
            if change == "cut short":
                os.truncate(model, 1_000_000)
            else:
                with open(model, "r+b") as file:
                    file.seek(model.stat().st_size // 2)
                    file.write(bytes(1000))
            for _ in range(2):
                with pytest.raises(HttpError, match="the model.*was written to") as caught:
                    server.ask("Name a river of Norway.")
                assert caught.value.status == 500
            assert server.json("GET", "/health") == {"status": "ok"}
            assert len(server.json("GET", server_case.CONTEXTS)["contexts"]) == 1
        with Server(folder / "store") as server:
            again = server.ask(CAPITAL)
            assert again.text == first.text
            assert again.cached == first.usage["prompt_tokens"] - 1
        assert run_attndb(folder / "store", "verify")["damages"] == []

    def test_weights_that_are_copied_outlive_their_file(self, folder):
        model = folder / "model.gguf"
        shutil.copy(MODEL, model)
        with Server(folder / "store", "--no-mmap", model=model) as server:
            os.truncate(model, 1_000_000)
            assert "Paris" in server.ask(CAPITAL).text
