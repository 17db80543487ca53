"""Goal: a request gets as many replies to its prompt as it asks for, as OpenAI's clients expect
them. The prompt is run once, and each choice is a turn that a client can go on from.

Method: the PyPI client openai and plain HTTP against SmolLM2, whole and streamed.
"""

import json

import pytest

import server_case
from openai_client import client_of
from server_case import (CHAT, CONTEXTS, CONTEXT_HEADER, HttpError, Stream, assistant, new_server,
                         user, wait_until)

COMPLETION = "/v1/completions"
MESSAGES = [user("Make up a name for a boat.")]
DRAWN = {"temperature": 1.5, "seed": 11, "max_tokens": 12}


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as made:
        yield made


def texts_of(chunks):
    """The text of each choice, by its index."""
    texts = {}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    return texts


class TestClient:
    def ask(self, client, **fields):
        return client.chat.completions.create(
            **{"model": "smollm2", "messages": MESSAGES, "n": 3, **DRAWN, **fields})

    def test_each_choice_says_what_its_seed_says_alone(self, client):
        answer = self.ask(client)
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        said = [choice.message.content for choice in answer.choices]
        alone = [self.ask(client, n=1, seed=11 + i) for i in range(3)]
        assert said == [one.choices[0].message.content for one in alone]
        assert len(set(said)) == 3
        assert len({choice.attndb["context"] for choice in answer.choices}) == 3
        assert answer.usage.prompt_tokens == alone[0].usage.prompt_tokens
        assert answer.usage.completion_tokens == sum(one.usage.completion_tokens for one in alone)
        assert answer.usage.total_tokens == (answer.usage.prompt_tokens
                                             + answer.usage.completion_tokens)

    def test_a_stream_says_what_the_whole_answer_says(self, client):
        whole = self.ask(client)
        chunks = list(self.ask(client, stream=True, stream_options={"include_usage": True}))
        assert texts_of(chunks) == {choice.index: choice.message.content
                                    for choice in whole.choices}
        assert len({chunk.id for chunk in chunks}) == 1
        assert [chunk.choices[0].index for chunk in chunks[:3]] == [0, 1, 2]
        assert {chunk.choices[0].delta.role for chunk in chunks[:3]} == {"assistant"}
        ends = [choice.finish_reason for chunk in chunks for choice in chunk.choices
                if choice.finish_reason]
        assert sorted(ends) == sorted(choice.finish_reason for choice in whole.choices)
        assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
        # The choices speak in turn.
        order = [chunk.choices[0].index for chunk in chunks if chunk.choices]
        assert order != sorted(order)

    def test_completions_have_choices_too(self, client):
        ask = {"model": "smollm2", "prompt": "The boat is called", "n": 2, **DRAWN}
        whole = client.completions.create(**ask)
        assert [choice.index for choice in whole.choices] == [0, 1]
        texts = ["", ""]
        for chunk in client.completions.create(**ask, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].text
        assert texts == [choice.text for choice in whole.choices]
        best = client.completions.create(**ask, best_of=2)
        assert [choice.text for choice in best.choices] == texts

    def test_stop_words_and_logprobs_are_of_each_choice(self, client):
        free = self.ask(client)
        stop = free.choices[1].message.content.split()[1]
        cut = self.ask(client, stop=[stop], logprobs=True, top_logprobs=2)
        for choice, whole in zip(cut.choices, free.choices):
            assert choice.message.content == whole.message.content.split(stop)[0]
            tokens = choice.logprobs.content
            assert b"".join(bytes(token.bytes) for token in tokens).decode() == (
                choice.message.content)
        assert cut.choices[1].finish_reason == "stop"

    def test_a_grammar_holds_for_each_choice(self, client):
        answer = self.ask(client, extra_body={"grammar": 'root ::= [a-z]+ " and " [a-z]+ "."'},
                          max_tokens=40)
        for choice in answer.choices:
            if choice.finish_reason == "stop":
                assert " and " in choice.message.content and choice.message.content.endswith(".")

    def test_each_choice_may_call_tools(self):
        with new_server("--chat-template",
                        str(server_case.ROOT / "tests/server/tool_template.jinja")) as server, \
                client_of(server) as client:
            ask = {"model": "smollm2", "messages": [user("Is it warm in Rome?")], "n": 2,
                   "temperature": 0.7, "seed": 3, "max_tokens": 80, "tool_choice": "required",
                   # The first call is likely, and ends the reply: see tools_test.py.
                   "stop": ["</tool_call>"], "logit_bias": {"<tool_call>": 8},
                   "tools": [{"type": "function", "function": {
                       "name": "weather", "parameters": {
                           "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}},
                           "required": ["city"]}}}]}
            whole = client.chat.completions.create(**ask)
            calls = []
            for choice in whole.choices:
                assert choice.finish_reason == "tool_calls"
                [call] = choice.message.tool_calls
                assert json.loads(call.function.arguments)["city"] in ("Rome", "Oslo")
                calls.append(call.function.arguments)
            streamed = ["", ""]
            for chunk in client.chat.completions.create(**ask, stream=True):
                for choice in chunk.choices:
                    for call in choice.delta.tool_calls or []:
                        streamed[choice.index] += call.function.arguments or ""
            assert streamed == calls


class TestPrompt:
    def test_it_is_run_once(self):
        with new_server() as server:
            run = server.metric("attndb_pass_prompt_tokens")
            answer = server.json("POST", CHAT, {
                "messages": [user(server_case.STORY * 4)], "n": 8, **DRAWN})
            assert len(answer["choices"]) == 8
            assert (server.metric("attndb_pass_prompt_tokens") - run
                    == answer["usage"]["prompt_tokens"])


class TestDisk:
    """The prompt is stored once, and each choice adds its reply."""

    REPLY = 12

    def ask(self, server, n, **fields):
        """The answer, once its choices are durable, and their contexts."""
        status, headers, text = server.request("POST", CHAT, {
            "messages": [user(server_case.STORY * 4)], "n": n, **DRAWN, "max_tokens": self.REPLY,
            "ignore_eos": True, **fields})
        assert status == 200, text
        answer = json.loads(text)
        contexts = [headers[CONTEXT_HEADER]]
        if n > 1:
            contexts = [choice["attndb"]["context"] for choice in answer["choices"]]
        for context in contexts:
            server.wait_until_durable(context)
        return answer, contexts

    @staticmethod
    def bytes_of(server):
        return server.metric("attndb_disk_bytes")

    def test_eight_choices_take_a_prompt_and_eight_replies(self, folder):
        bytes_on_disk = {}
        for n in (1, 8):
            with server_case.Server(folder / str(n)) as server:
                answer, _ = self.ask(server, n)
                bytes_on_disk[n] = self.bytes_of(server)
        num_tokens = answer["usage"]["prompt_tokens"] + self.REPLY
        of_token = bytes_on_disk[1] / num_tokens
        print(f"{num_tokens} tokens: {bytes_on_disk}")
        # Segments of few tokens take up to twice the bytes of their tokens.
        assert bytes_on_disk[8] <= bytes_on_disk[1] + 8 * 2 * self.REPLY * of_token

    def test_a_deleted_choice_leaves_the_others_and_the_last_one_nothing(self, folder):
        with server_case.Server(folder) as server:
            answer, contexts = self.ask(server, 3)
            left = [self.bytes_of(server)]
            for i, context in enumerate(contexts):
                server.json("DELETE", f"{CONTEXTS}/{context}")
                left.append(self.bytes_of(server))
                for other in contexts[i + 1:]:
                    held = server.describe(other)["num_tokens"]
                    assert held == answer["usage"]["prompt_tokens"] + self.REPLY - 1
            assert left[0] > left[1] > left[2] > 10 * (left[0] - left[2])
            assert left[3] == 0

    def test_a_kill_while_choices_are_stored_leaves_whole_ones(self, folder):
        with server_case.Server(folder) as server:
            with Stream(server, CHAT, {"messages": [user(server_case.STORY * 4)], "n": 8,
                                       "stream": True, **DRAWN, "ignore_eos": True}, {}) as stream:
                for event in stream.events():
                    if any(choice["finish_reason"] for choice in event["choices"]):
                        break
                server.kill()
        with server_case.Server(folder) as server:
            assert server_case.run_attndb(folder, "verify")["damages"] == []
            for context in server.json("GET", CONTEXTS)["contexts"]:
                assert server.describe(context["name"])["durable"]
                reply = server.ask([user("Why?")], context=context["name"], max_tokens=4)
                assert reply.cached > 600
            self.ask(server, 8)
        assert server_case.run_attndb(folder, "verify")["damages"] == []


class TestContexts:
    def ask(self, server, **fields):
        status, headers, text = server.request("POST", CHAT, {"messages": MESSAGES, "n": 3,
                                                              **DRAWN, **fields})
        assert status == 200, text
        return headers, json.loads(text)

    def test_each_choice_is_a_turn_that_goes_on(self, server):
        headers, answer = self.ask(server)
        contexts = [choice["attndb"]["context"] for choice in answer["choices"]]
        assert len(set(contexts)) == 3
        assert headers[CONTEXT_HEADER] == contexts[0]
        for context, choice in zip(contexts, answer["choices"]):
            server.wait_until_durable(context)
            # By its name, and by its words.
            reply = server.ask([user("Why that name?")], context=context, max_tokens=4)
            held = answer["usage"]["prompt_tokens"] + 4  # And more of the reply.
            assert reply.cached >= held
            words = [*MESSAGES, assistant(choice["message"]["content"]), user("And a second one?")]
            assert server.ask(words, max_tokens=4).cached >= held

    def test_each_of_many_is_found_by_its_words(self):
        with new_server("--sessions", "24") as server:
            _, answer = self.ask(server, n=24, max_tokens=6, temperature=3, min_p=0, top_k=0)
            for choice in answer["choices"]:
                server.wait_until_durable(choice["attndb"]["context"])
            held = answer["usage"]["prompt_tokens"] + 3
            for choice in answer["choices"]:
                words = [*MESSAGES, assistant(choice["message"]["content"]), user("Why?")]
                assert server.ask(words, max_tokens=1).cached >= held, choice

    def test_they_go_on_after_a_restart(self, folder):
        with server_case.Server(folder) as server:
            _, answer = self.ask(server)
            for choice in answer["choices"]:
                server.wait_until_durable(choice["attndb"]["context"])
        with server_case.Server(folder) as server:
            for choice in answer["choices"]:
                words = [*MESSAGES, assistant(choice["message"]["content"]), user("Why?")]
                assert (server.ask(words, max_tokens=4).cached
                        >= answer["usage"]["prompt_tokens"] + 4)

    def test_a_stream_names_them_with_the_ends(self, server):
        with Stream(server, CHAT, {"messages": MESSAGES, "n": 2, "stream": True, **DRAWN},
                    {}) as stream:
            ends = [choice for event in stream.events() for choice in event["choices"]
                    if choice["finish_reason"]]
        assert len(ends) == 2
        for end in ends:
            assert server.wait_until_durable(end["attndb"]["context"])

    def test_they_go_on_from_a_stored_context(self, server):
        server.json("POST", CONTEXTS, {"name": "isle", "text": server_case.STORY})
        _, answer = self.ask(server, context="isle",
                             messages=[user("When was the lighthouse built?")], temperature=0)
        assert {choice["message"]["content"] for choice in answer["choices"]} == {
            answer["choices"][0]["message"]["content"]}
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 100

    def test_one_choice_has_no_field_of_attndb(self, server):
        _, answer = self.ask(server, n=1)
        assert "attndb" not in answer["choices"][0]

    def test_what_is_not_stored_names_no_context(self, server):
        for name in ("cape", "shore"):
            server.json("POST", CONTEXTS, {"name": name, "text": name + server_case.STORY})
        _, answer = self.ask(server, contexts=["cape", "shore"])
        assert len(answer["choices"]) == 3
        assert all("attndb" not in choice for choice in answer["choices"])


class TestLimits:
    def test_there_are_as_many_as_a_pass_takes(self):
        with new_server("--sessions", "2") as server:
            asked = {"messages": MESSAGES, **DRAWN, "max_tokens": 2}
            assert len(server.json("POST", CHAT, {**asked, "n": 2})["choices"]) == 2
            with pytest.raises(HttpError) as raised:
                server.json("POST", CHAT, {**asked, "n": 3})
            assert raised.value.status == 400
            assert "'n' is 3, expected at most 2" in raised.value.error()["message"]

    def test_a_name_is_of_one_choice(self, server):
        with pytest.raises(HttpError) as raised:
            server.json("POST", CHAT, {"messages": MESSAGES, "n": 2, "store_as": "talk"})
        assert raised.value.status == 400
        assert "'store_as'" in raised.value.error()["message"]

    def test_a_client_that_leaves_ends_all_choices(self, server):
        with Stream(server, CHAT, {"messages": MESSAGES, "n": 4, "stream": True, "max_tokens": 4000,
                                   "ignore_eos": True}, {}) as stream:
            next(stream.pieces())
        wait_until(lambda: server.metric("attndb_active_turns") == 0, "all choices have ended")


class TestLlamaCompletion:
    FIELDS = {"prompt": "The boat is called", "n_predict": 8, "temperature": 1.5, "seed": 11}

    def test_several_are_a_list(self, server):
        told = server.json("POST", "/completion", {**self.FIELDS, "n_cmpl": 3})
        assert [one["index"] for one in told] == [0, 1, 2]
        for i, one in enumerate(told):
            alone = server.json("POST", "/completion", {**self.FIELDS, "seed": 11 + i})
            assert one["content"] == alone["content"]
            assert one["generation_settings"]["seed"] == 11 + i
            assert server.wait_until_durable(one["attndb"]["context"])

    def test_a_stream_has_the_events_of_all(self, server):
        told = server.json("POST", "/completion", {**self.FIELDS, "n": 2})
        texts = ["", ""]
        ends = []
        with Stream(server, "/completion", {**self.FIELDS, "n": 2, "stream": True}, {}) as stream:
            for text in stream.data():
                event = json.loads(text)
                texts[event["index"]] += event["content"]
                ends += [event["index"]] if event["stop"] else []
        assert texts == [one["content"] for one in told]
        assert sorted(ends) == [0, 1]
