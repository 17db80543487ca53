"""Goal: what a tenant may take, and what it finds, follows the keys file while the server runs.

Method: servers with a keys file that is written anew; each tenant's key is its name.
"""

import hashlib
import json
import re

import pytest

import server_case
from server_case import CONTEXTS, Server, wait_until


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
