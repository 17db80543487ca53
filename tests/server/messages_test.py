"""Goal: Anthropic's client works with the server as it comes from PyPI.

Method: its Messages, whole and streamed, against one server; what it raises for each error; the
life of what is stored, by a server that has a time to live.
"""

import http.client
import json

import anthropic
import pytest

import server_case
from server_case import CONTEXT_HEADER, STORY, WAIT, Server
from tenants_test import write as write_keys

MODEL = "smollm2"
QUESTION = [{"role": "user", "content": server_case.CAPITAL}]
PATH = "/v1/messages"

WEATHER = {"name": "get_weather", "description": "The weather at a place.",
           "input_schema": {"type": "object", "properties": {"place": {"type": "string"}},
                            "required": ["place"]}}
HISTORY = [
    {"role": "user", "content": "What is the weather in Oslo?"},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I have to look.", "signature": "attndb"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"place": "Oslo"}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False,
         "content": [{"type": "text", "text": "Rain, 4 degrees."}]},
        {"type": "text", "text": "Say it in one word."}]}]


def client_of(server, api_key="none"):
    return anthropic.Anthropic(base_url=server.url, api_key=api_key, timeout=WAIT, max_retries=0)


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as made:
        yield made


# What the client knows no name of, and sends as it is.
GREEDY = {"temperature": 0}


def ask(client, messages=None, **fields):
    return client.messages.create(**{"model": MODEL, "messages": messages or QUESTION,
                                     "max_tokens": 8, "extra_body": GREEDY, **fields})


def input_of(usage):
    return (usage.input_tokens + usage.cache_read_input_tokens
            + usage.cache_creation_input_tokens)


class TestMessages:
    def test_answers(self, client):
        answer = ask(client)
        assert (answer.type, answer.role, answer.model) == ("message", "assistant", MODEL)
        assert answer.id.startswith("msg_")
        [block] = answer.content
        assert block.type == "text"
        assert "Paris" in block.text
        assert answer.stop_reason == "end_turn" or answer.usage.output_tokens == 8
        assert answer.stop_sequence is None

    def test_a_stream_says_what_the_whole_answer_says(self, client):
        whole = ask(client)
        with client.messages.stream(model=MODEL, messages=QUESTION, max_tokens=8,
                                    extra_body=GREEDY) as stream:
            text = "".join(stream.text_stream)
            last = stream.get_final_message()
        assert text == whole.content[0].text == last.content[0].text
        assert (last.role, last.model, last.stop_reason) == ("assistant", MODEL, whole.stop_reason)
        assert last.usage.output_tokens == whole.usage.output_tokens
        assert input_of(last.usage) == input_of(whole.usage)

    def test_events_come_in_their_order(self, client):
        events = [event.type for event in ask(client, stream=True)]
        deltas = events.count("content_block_delta")
        assert deltas > 1
        assert events == ["message_start", "content_block_start",
                          *["content_block_delta"] * deltas, "content_block_stop",
                          "message_delta", "message_stop"]

    def test_reasons_to_stop(self, client):
        cut = ask(client, max_tokens=2)
        assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 2)
        stopped = ask(client, stop_sequences=["Zebra", "Paris"])
        assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Paris")
        assert "Paris" not in "".join(block.text for block in stopped.content)
        with client.messages.stream(model=MODEL, messages=QUESTION, max_tokens=8,
                                    stop_sequences=["Paris"], extra_body=GREEDY) as stream:
            last = stream.get_final_message()
        assert (last.stop_reason, last.stop_sequence) == ("stop_sequence", "Paris")

    def test_the_system_text_is_read(self, client):
        blocks = [{"type": "text", "text": "You are brief.",
                   "cache_control": {"type": "ephemeral"}}]
        assert (input_of(ask(client, system=blocks).usage)
                == input_of(ask(client, system="You are brief.").usage)
                == client.messages.count_tokens(model=MODEL, messages=QUESTION,
                                                system=blocks).input_tokens)

    def test_usage_says_what_was_reused_and_what_was_stored(self, client):
        messages = [{"role": "user", "content": "Name a colour of the sky at dawn."}]
        first = ask(client, messages)
        assert input_of(first.usage) == client.messages.count_tokens(
            model=MODEL, messages=messages).input_tokens
        assert first.usage.cache_creation_input_tokens > 0
        messages += [{"role": "assistant", "content": first.content},
                     {"role": "user", "content": "And at night?"}]
        second = ask(client, messages)
        # The first turn's prompt was all run, and of its reply all but perhaps the last token.
        held = input_of(first.usage) + first.usage.output_tokens - 1
        assert held <= second.usage.cache_read_input_tokens < input_of(second.usage)
        assert second.usage.input_tokens == 0, "all that was run is stored"

    def test_no_tokens_read_the_prompt_alone(self, client):
        messages = [{"role": "user", "content": STORY + "Who keeps the lamp?"}]
        warmed = ask(client, messages, max_tokens=0)
        assert (warmed.content, warmed.usage.output_tokens) == ([], 0)
        assert warmed.stop_reason == "max_tokens"
        asked = ask(client, messages)
        assert asked.usage.cache_read_input_tokens >= input_of(asked.usage) - 1

    def test_a_count_runs_nothing(self, client, server):
        messages = [{"role": "user", "content": STORY + "How many sheep?"}]
        run_before = server.metric("attndb_prompt_tokens")
        count = client.messages.count_tokens(model=MODEL, messages=messages, tools=[WEATHER])
        assert count.input_tokens > 100
        assert server.metric("attndb_prompt_tokens") == run_before

    def test_a_context_and_a_request_are_named(self, client, server):
        raw = client.messages.with_raw_response.create(
            model=MODEL, messages=QUESTION, max_tokens=4,
            extra_headers={"anthropic-version": "2023-06-01", "X-Request-Id": "mine-1"})
        context = raw.headers[CONTEXT_HEADER]
        assert raw.parse().id == "msg_" + context
        assert raw.request_id == "mine-1"
        assert server.wait_until_durable(context)["num_tokens"] > 0
        assert ask(client)._request_id  # pylint: disable=protected-access

    def test_a_stored_text_is_asked(self, client, server):
        server.json("POST", server_case.CONTEXTS, {"name": "skerry", "text": STORY})
        answer = ask(client, [{"role": "user", "content": "Who keeps the lighthouse?"}],
                     extra_headers={CONTEXT_HEADER: "skerry"})
        assert answer.usage.cache_read_input_tokens > 100

    def test_calls_and_their_results_are_read(self, client):
        count = client.messages.count_tokens(model=MODEL, messages=HISTORY, tools=[WEATHER])
        answer = ask(client, HISTORY, tools=[WEATHER], tool_choice={"type": "none"})
        assert input_of(answer.usage) == count.input_tokens
        assert answer.stop_reason in ("end_turn", "max_tokens")

    def test_more_tokens_than_memory_has_are_no_error(self, client):
        answer = ask(client, stop_sequences=["Paris"], max_tokens=2_000_000_000, stream=True)
        assert [event.type for event in answer][-1] == "message_stop"


class TestErrors:
    def refused(self, client, error, **fields):
        with pytest.raises(error) as caught:
            ask(client, **fields)
        body = caught.value.body
        assert body["type"] == "error"
        assert body["request_id"] == caught.value.request_id is not None
        return body["error"]

    def test_what_is_wrong_is_named_by_its_place(self, client):
        image = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
        error = self.refused(client, anthropic.BadRequestError, messages=[
            {"role": "user", "content": [{"type": "text", "text": "See:"}, image]}])
        assert error["type"] == "invalid_request_error"
        assert error["message"].startswith("'messages.0.content.1': blocks of type \"image\"")
        for place, fields in [
                ("tools.0", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
                ("max_tokens", {"max_tokens": -1}),
                ("messages.1", {"messages": HISTORY[:2]}),
                ("messages.0.content.0.tool_use_id", {"messages": HISTORY[2:]})]:
            error = self.refused(client, anthropic.BadRequestError, **fields)
            assert error["message"].startswith(f"'{place}'"), error

    def test_a_context_that_is_not_there(self, client):
        error = self.refused(client, anthropic.NotFoundError,
                             extra_headers={CONTEXT_HEADER: "nobody-wrote-this"})
        assert error["type"] == "not_found_error"

    def test_paths_and_methods_that_there_are_not(self, client, server):
        with pytest.raises(anthropic.NotFoundError) as caught:
            client.messages.batches.list()
        assert caught.value.body["error"]["type"] == "not_found_error"
        status, headers, body = server.request("GET", PATH)
        assert (status, headers["Allow"]) == (405, "POST")
        assert json.loads(body)["error"]["type"] == "invalid_request_error"
        status, _, body = server.request("POST", PATH, "{")
        assert (status, json.loads(body)["type"]) == (400, "error")

    def test_keys_and_limits(self, folder):
        keys = folder / "keys.json"
        write_keys(keys, ann={"tokens_per_minute": 10})
        with Server(folder / "store", "--keys", keys) as server:
            with client_of(server, "nobody") as stranger:
                error = self.refused(stranger, anthropic.AuthenticationError)
                assert error["type"] == "authentication_error"
                assert "x-api-key" in error["message"]
            with client_of(server, "ann") as ann:
                assert ask(ann).content
                error = self.refused(ann, anthropic.RateLimitError)
                assert error["type"] == "rate_limit_error"

    def test_a_body_that_is_too_long(self, server):
        """The server refuses it by its length, before it reads it."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
        connection.putrequest("POST", PATH)
        connection.putheader("Content-Length", str(1 << 40))
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read())["error"]["type"] == "request_too_large"
        connection.close()


@pytest.fixture(scope="class")
def caller(tmp_path_factory):
    """A client of a server whose template shows tools, as that of tools_test.py."""
    template = server_case.ROOT / "tests/server/tool_template.jinja"
    store = tmp_path_factory.mktemp("tools") / "store"
    with Server(store, "--chat-template", template) as server, client_of(server) as made:
        yield made


FERRY = {"name": "ferry", "input_schema": {
    "type": "object", "properties": {"day": {"enum": ["Monday", "Tuesday"]},
                                     "seats": {"type": "integer"}},
    "required": ["day", "seats"]}}
TOOLS = [{**WEATHER, "input_schema": {"type": "object", "required": ["place"], "properties": {
    "place": {"type": "string", "maxLength": 12}}}}, FERRY]
WHEN = [{"role": "user", "content": "When does the ferry leave? I need two seats."}]


# A grammar lets the model say something before it calls, and a small model goes on saying it.
BEGUN = [{"role": "assistant", "content": "<tool_call>"}]


class TestTools:
    def test_a_loop_of_two_tools_runs_to_its_end(self, caller):
        messages, held = list(WHEN), 0
        for name, result in (("ferry", "at nine"), ("get_weather", "rain")):
            answer = ask(caller, messages + BEGUN, tools=TOOLS, max_tokens=80,
                         tool_choice={"type": "tool", "name": name})
            assert answer.stop_reason == "tool_use"
            [call] = answer.content
            assert (call.type, call.name) == ("tool_use", name)
            assert call.id.startswith("toolu_")
            assert set(call.input) == {"ferry": {"day", "seats"}, "get_weather": {"place"}}[name]
            assert answer.usage.cache_read_input_tokens >= held
            held = answer.usage.cache_read_input_tokens + answer.usage.cache_creation_input_tokens
            messages += [{"role": "assistant", "content": answer.content},
                         {"role": "user", "content": [{"type": "tool_result", "content": result,
                                                       "tool_use_id": call.id}]}]
        last = ask(caller, messages, tools=TOOLS, tool_choice={"type": "none"})
        assert last.stop_reason in ("end_turn", "max_tokens")
        assert [block.type for block in last.content] == ["text"]
        assert last.usage.cache_read_input_tokens >= held

    def test_a_stream_calls_as_the_whole_answer_does(self, caller):
        fields = {"tools": TOOLS, "max_tokens": 80, "tool_choice": {"type": "any"}}
        whole = ask(caller, WHEN + BEGUN, **fields)
        with caller.messages.stream(model=MODEL, messages=WHEN + BEGUN, extra_body=GREEDY,
                                    **fields) as stream:
            last = stream.get_final_message()
        assert last.stop_reason == whole.stop_reason
        assert ([(block.name, block.input) for block in last.content]
                == [(block.name, block.input) for block in whole.content])

    def test_a_reply_is_bound_to_a_schema(self, caller):
        schema = {"type": "object", "properties": {"open": {"type": "boolean"}},
                  "required": ["open"], "additionalProperties": False}
        answer = ask(caller, WHEN, max_tokens=40, output_config={
            "format": {"type": "json_schema", "schema": schema}})
        assert set(json.loads(answer.content[0].text)) == {"open"}


class TestLife:
    def test_a_mark_says_how_long_a_context_lives_at_least(self, folder):
        def life(server, client, **mark):
            raw = client.messages.with_raw_response.create(
                model=MODEL, max_tokens=2, messages=QUESTION, **mark)
            return server.wait_until_durable(raw.headers[CONTEXT_HEADER])["ttl_seconds"]

        hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
        five = {"cache_control": {"type": "ephemeral"}}
        with Server(folder / "store", "--ttl", 10) as server, client_of(server) as client:
            assert life(server, client) == 600
            assert life(server, client, **five) == 600
            assert life(server, client, **hour) == 3600

    def test_without_a_time_to_live_contexts_stay(self, client, server):
        raw = client.messages.with_raw_response.create(
            model=MODEL, max_tokens=2, messages=QUESTION, cache_control={"type": "ephemeral"})
        assert server.wait_until_durable(raw.headers[CONTEXT_HEADER])["ttl_seconds"] is None
