"""Goal: /attndb/v1/find tells what `attndb find` tells, of the tenant's contexts alone, beside all
that the server does.

Method: the real server and model; the command line on the same store, and through the server.
"""

import hashlib
import json
from urllib.parse import quote

import pytest

from server_case import (CAPITAL, CONTEXTS, STORY, HttpError, Server, all_at_once, new_server,
                         run_attndb, run_client)

FIND = "/attndb/v1/find"
QUESTION = "Where does the spare key hang?"
OTHER = ("The mill grinds oats on Mondays. Its wheel has twelve paddles. The miller keeps bees. "
         "A heron fishes below the weir. The road to the mill floods each March. ") * 4


def find(server, headers=(), **fields):
    return server.json("POST", FIND, {"question": QUESTION, **fields}, headers)


def places(answer):
    return [(p["context"], p["first_token"], p["num_tokens"]) for p in answer["passages"]]


def refusal(server, headers=(), **fields):
    with pytest.raises(HttpError) as raised:
        find(server, headers, **fields)
    return raised.value.status, raised.value.error()["message"]


@pytest.fixture(scope="module")
def stored():
    with new_server() as server:
        server.json("POST", CONTEXTS, {"name": "skerry", "text": STORY})
        server.json("POST", CONTEXTS, {"name": "mill", "text": OTHER})
        yield server


class TestFind:
    def test_it_tells_what_the_command_line_tells(self, stored):
        answer = find(stored, top=5, passage_tokens=32)
        assert "spare key" in answer["passages"][0]["text"]
        told = run_attndb(stored.store, "find", "-m", "smollm2", "-n", 5, "--passage-tokens", 32,
                          QUESTION)
        assert places(answer) == places(told)
        for mine, its in zip(answer["passages"], told["passages"]):
            assert mine["text"] == its["text"]
            assert mine["score"] == pytest.approx(its["score"], abs=0.05)
        for count in ("num_contexts", "num_tokens", "num_passages"):
            assert answer[count] == told[count]
        assert set(answer) == set(told)

    def test_a_context_is_looked_through_alone(self, stored):
        answer = find(stored, context="mill", passage_tokens=32)
        assert answer["num_contexts"] == 1
        assert {place[0] for place in places(answer)} <= {"mill"}
        assert find(stored, contexts=["mill", "skerry"])["num_contexts"] == 2

    def test_a_turn_is_found_once_it_is_durable(self, stored):
        turn = stored.ask(f"{STORY} {CAPITAL}").context
        assert find(stored, contexts=[turn])["num_contexts"] == 1

    def test_unknown_contexts_and_long_questions_are_refused(self, stored):
        assert refusal(stored, context="nobody-wrote-this")[0] == 404
        status, message = refusal(stored, question=STORY * 6)
        assert status == 400 and "expected at most 512" in message

    def test_the_command_line_asks_the_server(self, stored):
        told = run_client(stored.url, "find", "-n", 3, "--passage-tokens", 32, "-c", "skerry",
                          QUESTION)
        assert places(told) == places(find(stored, top=3, passage_tokens=32, context="skerry"))
        text, said = run_client(stored.url, "find", "-c", "skerry", QUESTION, as_json=False)
        assert "SCORE" in text and "skerry" in text
        assert "looked through" in said
        run_client(stored.url, "find", "-c", "nobody-wrote-this", QUESTION, as_json=False,
                   exit_code=3)

    def test_beside_replies_it_changes_none_of_them(self, stored):
        alone = [stored.ask(f"Notebook {i}. {CAPITAL}", max_tokens=12).text for i in range(4)]
        answers = all_at_once(
            [lambda i=i: stored.ask(f"Notebook {i}. {CAPITAL}", max_tokens=12).text
             for i in range(4)] + [lambda: find(stored, passage_tokens=32) for _ in range(4)])
        assert answers[:4] == alone
        for answer in answers[4:]:
            assert places(answer)[0][0] == "skerry"


class TestAsk:
    """`attndb ask` prints the same through a server, of several contexts and of some tokens."""

    @pytest.mark.parametrize("args", [
        ("-c", "skerry", "-c", "mill"), ("-c", "skerry", "--tokens", "0-40,100-150"),
        ("--find", 1, "-c", "skerry", "-c", "mill")])
    def test_it_says_the_same_through_the_server(self, stored, args):
        asked = ("ask", *args, "--plan", "full", "--max-tokens", 12, QUESTION)
        told = run_client(stored.url, *asked)
        alone = run_attndb(stored.store, *asked, "-m", "smollm2")
        assert told["answer"] == alone["answer"]
        assert told["contexts"] == alone["contexts"]

    def test_such_a_turn_is_stored_nowhere(self, stored):
        def names():
            return [info["name"] for info in stored.json("GET", CONTEXTS)["contexts"]]

        before = names()
        reply = stored.ask(QUESTION, contexts=["skerry", "mill"])
        assert reply.context is None
        assert names() == before

    def test_conversations_are_not_found_for_a_question(self, stored):
        turn = stored.ask(QUESTION).context
        stored.wait_until_durable(turn)
        reply = stored.ask(QUESTION, find=2)
        assert reply.context is None, "both documents are asked"
        found = reply.headers["x-attndb-found"].split(",")
        names = [stored.json("GET", f"{CONTEXTS}/{quote(context)}")["name"] for context in found]
        assert sorted(names) == ["mill", "skerry"]
        told, said = run_client(stored.url, "ask", "--find", 1, "--max-tokens", 4, QUESTION,
                                as_json=False)
        assert told and "found in skerry, best first" in said


def test_an_empty_store_has_nothing_to_find(folder):
    with Server(folder / "store") as server:
        for command in (("find", QUESTION), ("ask", "--find", 1, QUESTION)):
            _, said = run_client(server.url, *command, as_json=False, exit_code=3)
            assert "the store has no contexts" in said and "attndb import FILE" in said


def test_another_tenants_contexts_are_not_there(folder):
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [
        {"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": name}
        for name in ("ann", "bob")]}))

    def key(name):
        return {"Authorization": f"Bearer {name}"}

    with Server(folder / "store", "--keys", keys) as server:
        server.json("POST", CONTEXTS, {"name": "skerry", "text": STORY}, key("ann"))
        assert find(server, key("ann"))["num_contexts"] == 1
        assert refusal(server, key("bob"))[0] == 404
        assert refusal(server, key("bob"), context="skerry")[0] == 404
        assert server.request("POST", FIND, {"question": QUESTION})[0] == 401
