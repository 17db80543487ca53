"""Goal: who has no right key gets nothing; what a tenant may take, and what it finds, follows the
keys file while the server runs; none sees anything of another.

Method: servers with a keys file that is written anew; each tenant's key is its name. Servers with
one key, that of a flag or a variable, also beside a file.
"""

import hashlib
import json
import pathlib
import re

import pytest

import server_case
from server_case import (CHAT, CONTEXTS, MESSAGES, STORY, HttpError, Server, user,
                         wait_until)

HI = {"messages": [user("Say hi.")], "max_tokens": 4, "temperature": 0}


def write(path, **tenants):
    """A file of keys: by tenant, what it may take."""
    next_file = path.with_suffix(".next")
    next_file.write_text(json.dumps({"keys": [
        {"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": name, **limits}
        for name, limits in tenants.items()]}))
    next_file.rename(path)


def key(tenant):
    return {"Authorization": f"Bearer {tenant}"}


def contexts(server, tenant):
    return server.json("GET", CONTEXTS, headers=key(tenant))


class TestTokens:
    """Tokens that were run are counted, however their request ends."""

    def test_who_leaves_has_taken_what_was_run(self, folder):
        keys = folder / "keys.json"
        write(keys, ann={"tokens_per_minute": 60}, op={"operator": True})
        with Server(folder / "store", "--keys", keys) as server:
            with server.stream(server_case.STORY, key("ann"), max_tokens=3000) as stream:
                next(stream.pieces())
            with pytest.raises(server_case.HttpError) as caught:
                server.ask("Say hi.", key("ann"))
            assert caught.value.status == 429
            assert int(caught.value.headers["Retry-After"]) >= 60
            metrics = server.request("GET", "/metrics", headers=key("op"))[2].decode()
            assert int(re.search(r"^attndb_reply_tokens_total (\d+)$", metrics, re.M)[1]) >= 1

    def test_an_import_that_is_broken_off_has_taken_what_was_run(self, folder):
        keys = folder / "keys.json"
        write(keys, ann={"tokens_per_minute": 60})
        body = {"name": "story", "text": server_case.STORY * 20, "stream": True}
        with Server(folder / "store", "--keys", keys) as server:
            with server_case.Stream(server, CONTEXTS, body, key("ann")) as stream:
                for event in stream.events():
                    if event["done"] >= 100:
                        break
            with pytest.raises(server_case.HttpError) as caught:
                server.ask("Say hi.", key("ann"))
            assert caught.value.status == 429


class TestTimePerToken:
    """The shortest that the file can say, 1 ms, is one that no token of this model takes."""

    GENEROUS_MS = 1000 * server_case.WAIT  # A token that came later would have ended the test.

    def late(self, server):
        metrics = server.request("GET", "/metrics", headers=key("op"))[2].decode()
        return int(re.search(r"^attndb_late_tokens_total (\d+)$", metrics, re.M)[1])

    def late_of(self, server, tenant, **fields):
        """How many of the 12 tokens of a reply are late."""
        before = self.late(server)
        reply = server.ask("Say hi.", key(tenant), max_tokens=12, ignore_eos=True, **fields)
        assert reply.usage["completion_tokens"] == 12
        return self.late(server) - before

    @pytest.mark.parametrize("flags", [(), ("--fixed-plan",)])
    def test_is_the_tenants_where_its_requests_say_nothing(self, folder, flags):
        keys = folder / "keys.json"
        write(keys, ann={"tpot_ms": 1}, bob={"tpot_ms": self.GENEROUS_MS}, cai={},
              op={"operator": True})
        with Server(folder / "store", "--keys", keys, *flags) as server:
            assert self.late_of(server, "ann") == 11
            assert self.late_of(server, "bob") == 0
            assert self.late_of(server, "cai") == 0
            assert self.late_of(server, "ann") == 11

    def test_is_the_requests_where_it_says_one_or_a_plan(self, folder):
        keys = folder / "keys.json"
        write(keys, ann={"tpot_ms": 1}, cai={}, op={"operator": True})
        with Server(folder / "store", "--keys", keys) as server:
            assert self.late_of(server, "ann", tpot_ms=self.GENEROUS_MS) == 0
            assert self.late_of(server, "ann", plan="full") == 0
            assert self.late_of(server, "cai", tpot_ms=0.01) == 11

    def test_follows_the_file(self, folder):
        keys = folder / "keys.json"
        write(keys, ann={}, op={"operator": True})
        with Server(folder / "store", "--keys", keys) as server:
            assert self.late_of(server, "ann") == 0
            write(keys, ann={"tpot_ms": 1}, op={"operator": True})
            assert self.late_of(server, "ann") == 11


class TestReload:
    def test_limits_of_bytes_hold_as_soon_as_the_file_says_so(self, folder):
        keys = folder / "keys.json"
        write(keys, ann={"quota_bytes": 50_000_000, "operator": True})

        def has(tenant, quota):
            wait_until(lambda: contexts(server, tenant)["quota_bytes"] == quota,
                       f"{tenant} may store {quota} bytes", 20)

        with Server(folder / "store", "--keys", keys) as server:
            has("ann", 50_000_000)
            write(keys, ann={"quota_bytes": 40_000_000, "operator": True},
                  bob={"quota_bytes": 1_000_000})
            has("ann", 40_000_000)
            has("bob", 1_000_000)
            with pytest.raises(server_case.HttpError) as caught:
                server.ask(server_case.STORY, key("bob"))
            assert caught.value.status == 507
            # What was set by hand holds until the file says something else of it.
            server.json("POST", "/attndb/v1/quota", {"quota_bytes": 30_000_000}, key("ann"))
            write(keys, bob={},
                  ann={"quota_bytes": 40_000_000, "operator": True, "max_requests": 9})
            has("bob", 0)
            assert contexts(server, "ann")["quota_bytes"] == 30_000_000

    def test_tenants_that_come_later_have_the_pinned_prompts(self, folder):
        keys = folder / "keys.json"
        write(keys, ann={})
        prompt = folder / "prompt.txt"
        prompt.write_text("You are the keeper of a lighthouse, and answer in one short sentence. ")
        with Server(folder / "store", "--keys", keys, "--pin-prompt", prompt) as server:
            wait_until(lambda: server.request("GET", "/ready")[0] == 200, "it is ready")
            write(keys, ann={}, bob={})
            [pinned] = wait_until(lambda: contexts(server, "bob")["contexts"], "it is stored", 20)
            assert pinned["name"].startswith("system-") and pinned["pinned"]
            assert server.request("GET", "/ready")[0] == 200


class TestOneKey:
    KEY = "open-sesame"

    def status(self, server, sent, path="/v1/models"):
        return server.request("GET", path, headers=key(sent))[0]

    def test_it_is_asked_for_and_is_an_operators(self, folder):
        with Server(folder / "store", "--api-key", self.KEY) as server:
            for headers in ({}, key("wrong"), {"X-Api-Key": self.KEY + "x"}, key(""),
                            key(hashlib.sha256(self.KEY.encode()).hexdigest())):
                for path in ("/v1/models", CONTEXTS, "/metrics"):
                    assert server.request("GET", path, headers=headers)[0] == 401
            assert server.json("GET", "/health") == {"status": "ok"}
            reply = server.ask("Say hi.", headers=key(self.KEY))
            assert self.status(server, self.KEY, "/metrics") == 200
            assert server.json("POST", "/attndb/v1/quota", {"quota_bytes": None}, key(self.KEY))
            wait_until(lambda: contexts(server, self.KEY)["contexts"], "the turn is stored")
            [turn] = server_case.run_client(server.url, "ls", ATTNDB_KEY=self.KEY)["contexts"]
            assert turn["name"] == reply.context
        # The store's own tenant is the key's.
        [turn] = server_case.run_attndb(folder / "store", "ls")["contexts"]
        assert turn["name"] == reply.context

    def test_it_holds_beside_the_keys_file(self, folder):
        keys = folder / "keys.json"
        write(keys, ann={})
        with Server(folder / "store", "--keys", keys, "--api-key", self.KEY) as server:
            mine = server.ask("Say hi.", headers=key(self.KEY))
            wait_until(lambda: contexts(server, self.KEY)["contexts"], "the turn is stored")
            assert contexts(server, "ann")["contexts"] == []
            assert server.request("GET", f"{CONTEXTS}/{mine.context}", headers=key("ann"))[0] == 404
            assert self.status(server, "ann", "/metrics") == 403
            write(keys, bob={})
            assert [self.status(server, sent) for sent in (self.KEY, "ann", "bob")] == [
                200, 401, 200]
            # The file's rules of the same key are stronger.
            write(keys, **{self.KEY: {}})
            assert self.status(server, self.KEY) == 200
            assert self.status(server, self.KEY, "/metrics") == 403

    def test_it_comes_from_the_environment_too(self, folder):
        variables = {"ATTNDB_API_KEY": self.KEY}
        with Server(folder / "store", variables=variables) as server:
            assert (self.status(server, self.KEY), self.status(server, "")) == (200, 401)
        with Server(folder / "store", "--api-key", "flags", variables=variables) as server:
            assert (self.status(server, self.KEY), self.status(server, "flags")) == (401, 200)
        with pytest.raises(AssertionError, match="ATTNDB_API_KEY is empty"):
            Server(folder / "store", variables={"ATTNDB_API_KEY": ""})

    @pytest.mark.parametrize("as_one_word", [False, True])
    def test_nobody_reads_it_where_it_does_not_belong(self, folder, as_one_word):
        flag = [f"--api-key={self.KEY}"] if as_one_word else ["--api-key", self.KEY]
        with Server(folder / "store", *flag, "--log", "json") as server:
            assert self.status(server, self.KEY) == 200
            assert self.status(server, "wrong") == 401
            command = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
            assert b"serve" in command and b"--log" in command
            assert self.KEY.encode() not in command and b"--api-key" not in command
            server.stop()
            assert self.KEY not in server.said()

    def test_a_key_that_no_client_can_send_is_refused_and_not_told(self, folder):
        for wrong in ("", "open sesame", "open,sesame", "sesam\u00e9", "x" * 1025):
            error = server_case.run_attndb(folder / "store", "serve", "--api-key", wrong,
                                           exit_code=2)["error"]
            assert "--api-key" in error["message"]
            assert not wrong or wrong not in json.dumps(error, ensure_ascii=False)
        assert not (folder / "store").exists()

    def test_its_tenant_has_the_pinned_prompts(self, folder):
        write(folder / "keys.json", ann={})
        prompt = folder / "prompt.txt"
        prompt.write_text("You are the keeper of a lighthouse, and answer in one short sentence. ")
        with Server(folder / "store", "--keys", folder / "keys.json", "--api-key", self.KEY,
                    "--pin-prompt", prompt) as server:
            wait_until(lambda: server.request("GET", "/ready")[0] == 200, "it is ready")
            for sent in ("ann", self.KEY):
                [pinned] = wait_until(
                    lambda: contexts(server, sent)["contexts"],  # pylint: disable=W0640
                    "it is stored", 20)
                assert pinned["pinned"]


class TestKeys:
    @pytest.fixture
    def guarded(self, folder):
        write(folder / "keys", alice={}, bob={})
        with Server(folder / "store", "--keys", folder / "keys") as server:
            server.keys = folder / "keys"
            yield server

    def status(self, server, tenant, path="/v1/models"):
        return server.request("GET", path, headers=key(tenant))[0]

    def test_without_a_right_key_there_is_401(self, guarded):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "alice"},
                        {"Authorization": "Bearer "}, {"X-Api-Key": "wrong"},
                        {"Authorization": "Basic a2V5IG9mIGFsaWNl"},
                        {"Authorization": "Bearer " + hashlib.sha256(b"alice").hexdigest()}):
            for method, path in (("GET", "/v1/models"), ("POST", CHAT), ("GET", "/metrics"),
                                 ("GET", CONTEXTS), ("GET", CONTEXTS + "/x"),
                                 ("POST", "/tokenize")):
                status, _, body = guarded.request(method, path, headers=headers)
                assert status == 401, (headers, path)
                assert json.loads(body)["error"]["type"] == "authentication_error"
        # Whether it lives is no secret.
        assert guarded.json("GET", "/health") == {"status": "ok"}

    def test_what_is_counted_of_all_tenants_is_the_operators(self, guarded):
        write(guarded.keys, alice={}, bob={"operator": True})
        status, _, body = guarded.request("GET", "/metrics", headers=key("alice"))
        assert status == 403
        assert "operator" in json.loads(body)["error"]["message"]
        assert self.status(guarded, "bob", "/metrics") == 200

    def test_with_the_right_key_there_is_an_answer(self, guarded):
        assert guarded.ask("Say hi.", headers=key("alice")).text
        assert guarded.request("GET", "/v1/models", headers={"X-Api-Key": "bob"})[0] == 200

    def test_keys_come_and_go_without_a_restart(self, guarded):
        assert self.status(guarded, "carol") == 401
        write(guarded.keys, alice={}, carol={})
        assert self.status(guarded, "carol") == 200
        assert self.status(guarded, "alice") == 200
        assert self.status(guarded, "bob") == 401
        # Nobody is let in, or out, by a file that is half written.
        guarded.keys.write_text('{"keys": [{"sha2')
        assert self.status(guarded, "alice") == 200
        assert self.status(guarded, "bob") == 401

    def test_a_tenant_sees_nothing_of_another(self, guarded):
        told = [user(STORY + "Remember the key.")]
        mine = guarded.ask(told, headers=key("alice"))
        path = f"{CONTEXTS}/{mine.context}"
        wait_until(lambda: guarded.json("GET", path, headers=key("alice"))["durable"],
                   "alice's turn is durable")
        assert guarded.ask(told, headers=key("alice"), max_tokens=1).cached > 0
        for method, body in (("GET", None), ("DELETE", None), ("POST", "{}")):
            assert guarded.request(method, path, body, key("bob"))[0] == 404
        opened = {"context": mine.context}
        assert guarded.request("POST", MESSAGES, opened, key("alice"))[0] == 200
        assert guarded.request("POST", MESSAGES, opened, key("bob"))[0] == 404
        assert guarded.json("GET", CONTEXTS, headers=key("bob"))["contexts"] == []
        with pytest.raises(HttpError) as caught:
            guarded.ask("What is it?", headers=key("bob"), context=mine.context)
        assert caught.value.status == 404
        assert guarded.ask(told, headers=key("bob"), max_tokens=1).cached == 0

    def test_a_tenant_has_no_more_requests_than_it_may(self, guarded):
        write(guarded.keys, alice={"max_requests": 1}, bob={})
        with guarded.stream("Count to one hundred.", headers=key("alice"),
                            max_tokens=300) as stream:
            next(stream.pieces())
            status, headers, body = guarded.request("POST", CHAT, HI, key("alice"))
            assert status == 429
            assert int(headers["Retry-After"]) >= 1
            assert json.loads(body)["error"]["type"] == "rate_limit_error"
            assert guarded.ask("Say hi.", headers=key("bob")).text
        # The closed stream gives its place back.
        wait_until(lambda: self.status(guarded, "alice") == 200, "alice's place is free")

    def test_a_tenant_has_no_more_tokens_than_it_may(self, guarded):
        write(guarded.keys, alice={"tokens_per_minute": 60}, bob={})
        assert guarded.ask(STORY, headers=key("alice"), max_tokens=1).text
        status, headers, _ = guarded.request("POST", CHAT, HI, key("alice"))
        assert status == 429
        assert int(headers["Retry-After"]) >= 60
        assert guarded.ask("Say hi.", headers=key("bob")).text

    @pytest.mark.parametrize("text", ["", "{}", '{"keys": 5}', '{"keys": [{}]}',
                                      '{"keys": [{"sha256": "xyz", "tenant": "a"}]}'])
    def test_a_file_that_is_none_is_refused_at_the_start(self, folder, text):
        (folder / "keys").write_text(text)
        with pytest.raises(AssertionError, match="keys"):
            Server(folder / "store", "--keys", folder / "keys")
