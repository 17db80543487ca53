"""Goal: a model thinks no longer than it may, and what it thought is known when it comes back.

Method: SmolLM2 with a template that begins a thinking in front of each reply
(thinking_template.jinja). The model never ends one by itself: it does not know these marks.
"""

import hashlib
import json

import pytest

import server_case
from server_case import CHAT, Server, user, wait_until

TEMPLATE = server_case.ROOT / "tests/server/thinking_template.jinja"
ASK = "Why is the sky blue?"
BUDGET = 7
MESSAGE = " Enough."
WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "Gives the weather.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"]}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("thinking") / "store", "--chat-template",
                TEMPLATE) as made:
        yield made


def ask(server, messages, **fields):
    if isinstance(messages, str):
        messages = [user(messages)]
    return server.json("POST", CHAT, {"messages": messages, "temperature": 0, "max_tokens": 24,
                                      **fields})


def message_of(answer):
    [choice] = answer["choices"]
    return choice["message"]


class TestBudget:
    def test_a_thinking_ends_behind_its_budget(self, server):
        answer = ask(server, ASK, reasoning_budget_tokens=BUDGET, logprobs=True)
        said = message_of(answer)
        tokens = [token["token"] for token in answer["choices"][0]["logprobs"]["content"]]
        thought = "".join(tokens[:BUDGET])
        assert said["reasoning_content"].strip() == thought.strip()
        assert "".join(tokens[BUDGET:]).startswith("</think>")
        assert said["content"] and "think>" not in said["content"]

    def test_without_a_budget_it_goes_on(self, server):
        long = message_of(ask(server, ASK, reasoning_budget_tokens=-1))
        assert not long["content"]
        short = message_of(ask(server, ASK, thinking_budget_tokens=BUDGET))
        assert long["reasoning_content"].startswith(short["reasoning_content"])

    def test_a_message_comes_before_the_end(self, server):
        said = message_of(ask(server, ASK, reasoning_budget_tokens=BUDGET,
                              reasoning_budget_message=MESSAGE))
        assert said["reasoning_content"].endswith(MESSAGE)
        assert said["content"]

    def test_a_budget_of_nothing_is_no_thinking(self, server):
        said = message_of(ask(server, ASK, reasoning_budget_tokens=0))
        assert said["content"] and not said.get("reasoning_content")

    def test_its_tokens_are_counted(self, server):
        answer = ask(server, ASK, reasoning_budget_tokens=BUDGET)
        usage = answer["usage"]
        assert usage["completion_tokens_details"] == {"reasoning_tokens": BUDGET}
        two = ask(server, ASK, reasoning_budget_tokens=BUDGET, n=2)["usage"]
        assert two["completion_tokens_details"] == {"reasoning_tokens": 2 * BUDGET}
        none = ask(server, ASK, reasoning_budget_tokens=0)["usage"]
        assert none["completion_tokens_details"] == {"reasoning_tokens": 0}
        cut = ask(server, ASK, reasoning_budget_tokens=50, max_tokens=5)["usage"]
        assert cut["completion_tokens_details"] == {"reasoning_tokens": 5}

    def test_a_stream_has_the_same(self, server):
        fields = {"reasoning_budget_tokens": BUDGET, "reasoning_budget_message": MESSAGE}
        said = message_of(ask(server, ASK, **fields))
        with server.stream([user(ASK)], max_tokens=24, **fields) as stream:
            deltas = [choice["delta"] for event in stream.chunks() for choice in event["choices"]]
        kinds = [kind for delta in deltas for kind in ("reasoning_content", "content")
                 if delta.get(kind)]
        assert kinds == sorted(kinds, reverse=True), "the reasoning comes first"
        for kind in set(kinds):
            assert "".join(delta.get(kind) or "" for delta in deltas) == said[kind]

    def test_a_reply_may_end_inside_its_thinking(self, server):
        answer = ask(server, ASK, reasoning_budget_tokens=50, max_tokens=5)
        assert answer["choices"][0]["finish_reason"] == "length"
        assert not message_of(answer)["content"] and message_of(answer)["reasoning_content"]

    def test_what_was_thought_is_not_read_again(self, server):
        first = ask(server, ASK, reasoning_budget_tokens=BUDGET, reasoning_budget_message=MESSAGE)
        second = ask(server, [user(ASK), message_of(first), user("Go on.")], max_tokens=2)
        cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached >= first["usage"]["total_tokens"] - 1


class TestInterfaces:
    def test_anthropics_budget_ends_the_thinking(self, server):
        answer = server.json("POST", "/v1/messages", {
            "model": "m", "max_tokens": 24, "temperature": 0, "messages": [user(ASK)],
            "thinking": {"type": "enabled", "budget_tokens": BUDGET}})
        thinking, text = answer["content"]
        assert thinking["type"] == "thinking" and text["type"] == "text"
        said = message_of(ask(server, ASK, reasoning_budget_tokens=BUDGET))
        assert (thinking["thinking"], text["text"]) == (
            said["reasoning_content"], said["content"])

    def test_responses_have_a_budget(self, server):
        answer = server.json("POST", "/v1/responses", {
            "input": ASK, "max_output_tokens": 24, "temperature": 0,
            "reasoning_budget_tokens": BUDGET})
        assert [item["type"] for item in answer["output"]] == ["reasoning", "message"]
        counted = {"reasoning_tokens": BUDGET}
        assert answer["usage"]["output_tokens_details"] == counted
        server.wait_until_durable(answer["id"].removeprefix("resp_"))
        stored = server.json("GET", f"/v1/responses/{answer['id']}")
        assert stored["usage"]["output_tokens_details"] == counted

    def test_a_server_may_have_a_budget_for_all(self, tmp_path):
        with Server(tmp_path / "store", "--chat-template", TEMPLATE, "--reasoning-budget", BUDGET,
                    "--reasoning-budget-message", MESSAGE) as server:
            assert message_of(ask(server, ASK))["reasoning_content"].endswith(MESSAGE)
            own = message_of(ask(server, ASK, reasoning_budget_tokens=2,
                                 reasoning_budget_message=""))
            assert not own["reasoning_content"].endswith(MESSAGE) and own["content"]


    def test_a_server_may_let_nobody_think(self, tmp_path):
        with Server(tmp_path / "store", "--chat-template", TEMPLATE,
                    "--reasoning-budget", "0") as server:
            said = message_of(ask(server, ASK))
            assert said["content"] and not said.get("reasoning_content")
            forced = message_of(ask(server, ASK, enable_thinking=True))
            assert forced["content"] and not forced.get("reasoning_content")


class TestControl:
    CONTROL = "/v1/chat/completions/control"

    def end(self, server, answer_id):
        return server.json("POST", self.CONTROL, {"id": answer_id, "action": "reasoning_end"})

    def test_a_client_ends_the_thinking_while_it_reads(self, server):
        texts = {"reasoning_content": "", "content": ""}
        with server.stream([user(ASK)], max_tokens=4000, reasoning_control=True,
                           reasoning_budget_message=MESSAGE) as stream:
            answer_id = None
            for chunk in stream.chunks():
                for choice in chunk["choices"]:
                    for kind in texts:
                        texts[kind] += choice["delta"].get(kind) or ""
                if texts["content"]:
                    break
                if texts["reasoning_content"] and answer_id is None:
                    answer_id = chunk["id"]
                    assert self.end(server, answer_id) == {"success": True}
        assert texts["reasoning_content"].endswith(MESSAGE)
        wait_until(lambda: not self.end(server, answer_id)["success"], "it has ended")

    def test_only_chats_that_ask_for_it_are_controlled(self, server):
        with server.stream([user(ASK)], max_tokens=4000) as stream:
            first = next(iter(stream.chunks()))
            told = self.end(server, first["id"])
        assert told["success"] is False and "reasoning_control" in told["message"]

    def test_it_needs_no_place_beside_the_chats(self, tmp_path):
        keys = tmp_path / "keys.json"
        keys.write_text(json.dumps({"keys": [
            {"sha256": hashlib.sha256(b"ann").hexdigest(), "tenant": "ann", "max_requests": 1}]}))
        ann = {"Authorization": "Bearer ann"}
        with Server(tmp_path / "store", "--keys", keys, "--chat-template", TEMPLATE) as server:
            with server.stream([user(ASK)], ann, max_tokens=4000,
                               reasoning_control=True) as stream:
                body = {"id": next(stream.chunks())["id"], "action": "reasoning_end"}
                assert server.request("POST", CHAT, {"messages": [user(ASK)]}, ann)[0] == 429
                assert server.json("POST", self.CONTROL, body, ann) == {"success": True}
                assert server.request("POST", self.CONTROL, body)[0] == 401

    def test_a_server_that_stops_ends_it_too(self, tmp_path):
        with Server(tmp_path / "store", "--chat-template", TEMPLATE, "--drain", "60") as server:
            with server.stream([user(ASK)], max_tokens=4000, reasoning_control=True) as stream:
                answer_id = next(stream.chunks())["id"]
                server.terminate()
                wait_until(lambda: server.request("GET", "/ready")[0] == 503, "it stops")
                assert server.request("POST", CHAT, {"messages": [user(ASK)]})[0] == 503
                assert self.end(server, answer_id) == {"success": True}
            assert server.wait() == 0

    def test_what_names_no_chat_is_refused(self, server):
        for body in ({"action": "reasoning_end"}, {"id": "chatcmpl-x"},
                     {"id": "chatcmpl-x", "action": "stop"}):
            status, _, _ = server.request("POST", self.CONTROL, body)
            assert status == 400, body
        told = self.end(server, "chatcmpl-x")
        assert told["success"] is False and "under way" in told["message"]


class TestRawText:
    def test_a_completion_shows_the_marks_as_they_are(self, server):
        chat = {"messages": [user(ASK)]}
        prompt = server.json("POST", "/apply-template", chat)["prompt"]
        assert prompt.endswith("<think>")
        raw = {"prompt": prompt + "It is blue.</think>", "n_predict": 8, "temperature": 0}
        told = server.json("POST", "/completion", raw)
        assert "reasoning_content" not in told and told["content"]
        marks = {"prompt": prompt, "n_predict": 24, "temperature": 0,
                 "grammar": 'root ::= "So." "</think>" "Yes" "<think>"'}
        assert server.json("POST", "/completion", marks)["content"] == "So.</think>Yes<think>"


class TestTools:
    def test_a_call_in_the_thinking_is_none(self, server):
        message = " So I call it."
        said = message_of(ask(server, "Is it raining in Rome?", tools=[WEATHER], max_tokens=60,
                              reasoning_budget_tokens=5, reasoning_budget_message=message,
                              stop=["</tool_call>"], logit_bias={"<tool_call>": 8}))
        assert said["reasoning_content"] == "<tool_call>" + message
        [call] = said["tool_calls"]
        assert call["function"]["name"] == "weather"
        assert set(json.loads(call["function"]["arguments"])) == {"city"}
