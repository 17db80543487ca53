"""Goal: /attndb/v1/explain says what each head weighed when a token was chosen, under the plan of
the request, stores nothing, and tells nobody of another's conversation.

Method: the real server and model; what is told of a plan is held against what the command line
        says.
"""

import hashlib
import json

import pytest

from server_case import (CAPITAL, CONTEXTS, STORY, HttpError, Server, all_at_once, assistant,
                         run_attndb, user)

EXPLAIN = "/attndb/v1/explain"
NUM_LAYERS, NUM_HEADS = 30, 9  # SmolLM2-135M's.


def explain(server, messages, headers=(), **fields):
    return server.json("POST", EXPLAIN, {"messages": messages, **fields}, headers)


def heads_of(answer):
    return [head for layer in answer["layers"] for head in layer["heads"]]


def refusal(server, body):
    with pytest.raises(HttpError) as raised:
        server.json("POST", EXPLAIN, body)
    return raised.value.status, raised.value.error()["message"]


class TestExplain:
    def test_each_token_of_an_answer_has_weights_over_all_before_it(self, server):
        reply = server.ask(CAPITAL, max_tokens=16)
        given = [user(CAPITAL), assistant(reply.text)]
        num_reply = reply.usage["completion_tokens"]
        words = ""
        for token in range(num_reply):
            answer = explain(server, given, token=token, top=1024)
            assert answer["reply_tokens"] == num_reply
            assert answer["num_tokens"] == reply.usage["prompt_tokens"] + token
            assert answer["cached_tokens"] == answer["num_tokens"] - 1
            assert len(answer["tokens"]) == answer["num_tokens"]
            words += answer["next"]
        assert words == reply.text
        assert len(answer["layers"]) == NUM_LAYERS
        assert len(heads_of(answer)) == NUM_LAYERS * NUM_HEADS
        for head in heads_of(answer):
            assert sorted(head["tokens"]) == list(range(answer["num_tokens"]))
            assert sum(head["weights"]) == pytest.approx(1, abs=1e-4)
            assert head["weights"] == sorted(head["weights"], reverse=True)

    def test_beside_other_requests_it_changes_none_of_them(self, server):
        """Prompts that are read in one pass: an explained one runs a token more behind it."""
        def explained(i):
            return explain(server, [user(f"Notebook {i}. {CAPITAL}")], top=1)

        def asked(i):
            return server.ask(f"Notebook {i}. {CAPITAL}", max_tokens=12)

        for _ in range(3):
            answers = all_at_once([lambda i=i: (explained if i % 2 == 0 else asked)(i)
                                   for i in range(12)])
            for i, answer in enumerate(answers):
                if i % 2 == 0:
                    assert len(answer["layers"]) == NUM_LAYERS
                else:
                    assert "Paris" in answer.text

    def test_words_that_nobody_was_given_are_explained_too(self, server):
        answer = explain(server, [user(CAPITAL), assistant("London, I say.")], token=1)
        assert answer["tokens"][-1] == "London"
        assert answer["next"] == ","

    def test_without_a_reply_it_is_of_the_token_to_come(self, server):
        answer = explain(server, [user(CAPITAL)], top=3)
        assert answer["next"] is None
        assert answer["reply_tokens"] == 0
        assert "".join(answer["tokens"]).endswith("<|im_start|>assistant\n")
        assert {len(head["tokens"]) for head in heads_of(answer)} == {3}

    def test_it_says_what_the_plan_of_the_request_selected(self, server):
        plan = "topk(k=8,sink=2,window=4)"
        answer = explain(server, [user(STORY)], plan=plan, top=16)
        assert answer["explain"]["plan"] == plan
        for head in heads_of(answer):
            assert head["num_critical"] == 8
            assert set(head["critical"]) <= set(head["tokens"])
        assert all(head["num_critical"] is None
                   for head in heads_of(explain(server, [user(STORY)], plan="full")))

    def test_it_says_what_ran_in_place_of_an_index(self, server):
        wanted = explain(server, [user(STORY)], plan="topk(k=8,index=graph)", top=1)["explain"]
        for layer in wanted["layers"]:
            (substitute,) = layer["substitutes"]
            assert (substitute["ran"], substitute["wanted"], substitute["share"]) == (
                "index=flat", "index=graph", 1)
            assert substitute["because"].startswith("too few tokens")
            assert layer["ran"].startswith("topk(k=8,") and "graph" not in layer["ran"]
        for layer in explain(server, [user(STORY)], plan="full", top=1)["explain"]["layers"]:
            assert (layer["ran"], layer["substitutes"]) == ("full", [])

    def test_nothing_is_stored_and_nothing_counts_as_a_prompt(self, server):
        names = [each["name"] for each in server.json("GET", CONTEXTS)["contexts"]]
        prompts = server.metric("attndb_prompt_tokens")
        explain(server, [user("How deep is the sea?")])
        again = explain(server, [user("How deep is the sea?")])
        assert again["cached_tokens"] < again["num_tokens"] - 1, "it was kept"
        assert [each["name"] for each in server.json("GET", CONTEXTS)["contexts"]] == names
        assert server.metric("attndb_prompt_tokens") == prompts

    def test_a_response_may_have_no_input(self, server):
        """Its 'text' is the form of its reply, and no text to look up."""
        first = server.json("POST", "/v1/responses", {"input": CAPITAL, "temperature": 0,
                                                      "max_output_tokens": 8})
        body = {"interface": "responses", "previous_response_id": first["id"],
                "text": {"format": {"type": "text"}}}
        answer = server.json("POST", EXPLAIN, body)
        assert answer["reply_tokens"] == first["usage"]["output_tokens"]
        for interface, part in ("messages", "'messages'"), ("responses", "'input'"):
            status, message = refusal(server, {"interface": interface, "context": "none"})
            assert status == 400 and part in message

    def test_a_bare_context_may_name_the_chats_interface(self, server):
        context = server.ask(CAPITAL, max_tokens=4).context
        server.wait_until_durable(context)
        answer = server.json("POST", EXPLAIN, {"interface": "chat", "context": context})
        assert "report" in answer

    def test_what_it_refuses_it_names(self, server):
        messages = [user(CAPITAL)]
        for body, part in [
                ({"messages": messages, "token": 1}, "'token' is 1"),
                ({"messages": messages, "token": -1}, "'token' is -1"),
                ({"messages": messages, "top": 0}, "'top' is 0"),
                ({"messages": messages, "top": 10**9}, "'top'"),
                ({"messages": messages, "plan": "best"}, "plan"),
                ({"messages": [assistant("Hi")]}, "a reply to nothing"),
                ({"messages": []}, "'messages'"), ({}, "'messages'"), ([], "no JSON object"),
                ({"messages": [user("word " * 9000)]}, "expected at most 8,192"),
                ({"messages": [user("Who?"), assistant("word " * 9000)]},
                 "expected at most 8,192")]:
            status, message = refusal(server, body)
            assert status == 400 and part in message, (body, message)


def test_of_a_context_it_says_what_the_command_line_says(folder):
    (folder / "story.txt").write_text(STORY)
    run_attndb(folder / "store", "import", "-m", "smollm2", "--name", "story",
               folder / "story.txt")
    plan = "topk(k=8,sink=2,window=4)"
    said = run_attndb(folder / "store", "explain", "-m", "smollm2", "story", "--plan", plan)
    (folder / "link").symlink_to("store")  # A link to a store is the store.
    with Server(folder / "link") as server:
        told = server.json("POST", EXPLAIN, {"context": "story", "plan": plan})
        for explained in (said, told["explain"]):
            explained.pop("memory_bytes")  # What each has read so far.
        assert told["explain"] == said
        assert told["report"].startswith("plan      " + said["plan"])
        reuse = told["reuse"]
        assert (reuse["way"], reuse["tokens"]) == ("disk", said["num_tokens"])
        assert reuse["run_ms"] is None
        assert reuse["bytes"] == 23040 * said["num_tokens"], "none of it is in memory"
        answer = explain(server, [user("When was it built?")], context="story")
        assert "Skerry" in "".join(answer["tokens"])
        assert answer["cached_tokens"] > 150
        assert answer["reuse"]["way"] == "disk"
        assert answer["reuse"]["tokens"] == answer["cached_tokens"]
        again = explain(server, [user("When was it built?")], context="story")["reuse"]
        assert (again["way"], again["bytes"], again["read_ms"]) == ("memory", 0, None)
        assert again["run_ms"] > 0, "what was run is measured"
        assert refusal(server, {"context": "none"})[0] == 404


def test_tenants_are_told_of_their_own(folder):
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [
        {"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": name, "max_requests": 1}
        for name in ("alice", "bob")]}))
    alice, bob = ({"X-Api-Key": name} for name in ("alice", "bob"))
    with Server(folder / "store", "--keys", keys) as server:
        given = [user(CAPITAL), assistant(server.ask(CAPITAL, headers=alice).text)]
        for _ in range(5):  # The place of each is free when the next comes.
            assert explain(server, given, headers=alice)["reply_tokens"] > 0
        # To others they are words like any others.
        assert explain(server, given, headers=bob)["cached_tokens"] == 0
        with pytest.raises(HttpError, match="401"):
            explain(server, given)


def test_a_fixed_plan_is_not_named_otherwise(folder):
    with Server(folder / "store", "--fixed-plan", "--plan", "full") as server:
        status, message = refusal(server, {"messages": [user("Hi")], "plan": "window"})
        assert status == 400 and "fixed" in message
        with pytest.raises(HttpError) as caught:
            server.ask("Hi", tpot_ms=30)
        assert caught.value.status == 400
        assert "tpot_ms" in caught.value.error()["message"]
        assert "fixed" in caught.value.error()["message"]
        with pytest.raises(HttpError) as caught:
            server.ask("Hi", plan="window")
        assert caught.value.status == 400
        assert caught.value.error()["message"] == "'plan': this server's plan is fixed"
        assert explain(server, [user("Hi")])["explain"]["plan"] == "full"
