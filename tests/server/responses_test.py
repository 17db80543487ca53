"""Goal: OpenAI's Responses work with its client: a response is a context that is stored, and the
next request sends only what is new, after a kill, too.

Method: the client's responses, whole and streamed, against one server; a server that is killed and
started again; tenants by keys.
"""

import openai
import pytest

import server_case
from openai_client import client_of
from server_case import CONTEXT_HEADER, STORY, Server, run_client, wait_until
from tenants_test import write as write_keys

MODEL = "smollm2"
CALL = [{"role": "user", "content": "What is the weather in Oslo?"},
        {"type": "function_call", "call_id": "c1", "name": "get_weather",
         "arguments": '{"place": "Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain, 4 degrees."}]


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as made:
        yield made


def ask(client, text=server_case.CAPITAL, **fields):
    return client.responses.create(**{"model": MODEL, "input": text, "temperature": 0,
                                      "max_output_tokens": 8, **fields})


class TestResponses:
    def test_answers(self, client):
        answer = ask(client, instructions="You know the world.", metadata={"k": "v"})
        assert (answer.object, answer.model) == ("response", MODEL)
        assert answer.id.startswith("resp_")
        [item] = answer.output
        assert item.content[0].text == answer.output_text != ""
        assert (item.type, item.role) == ("message", "assistant")
        cut = answer.usage.output_tokens == 8 and answer.status == "incomplete"
        assert answer.status == "completed" or cut
        assert (answer.instructions, answer.metadata) == ("You know the world.", {"k": "v"})
        assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens

    def test_a_stream_says_what_the_whole_answer_says(self, client):
        whole = ask(client)
        events = list(ask(client, stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert [event.type for event in events[:4]] == [
            "response.created", "response.in_progress", "response.output_item.added",
            "response.content_part.added"]
        text = "".join(event.delta for event in events
                       if event.type == "response.output_text.delta")
        assert text == whole.output_text
        last = events[-1]
        assert last.type == f"response.{whole.status}"
        assert last.response.output_text == whole.output_text
        assert last.response.usage.output_tokens == whole.usage.output_tokens

    def test_the_clients_own_stream_takes_it(self, client):
        whole = ask(client)
        with client.responses.stream(model=MODEL, input=server_case.CAPITAL, temperature=0,
                                     max_output_tokens=8) as stream:
            events = list(stream)
        assert [event.snapshot for event in events
                if event.type == "response.output_text.delta"][-1] == whole.output_text
        assert events[-1].type == f"response.{whole.status}"

    def test_calls_and_their_outputs_are_read(self, client):
        assert ask(client, CALL).usage.input_tokens > ask(client, CALL[:1]).usage.input_tokens

    def test_a_stored_one_is_opened_with_its_calls(self, client, server):
        answer = ask(client, CALL)
        context = answer.id.removeprefix("resp_")
        opened = server.json("POST", server_case.MESSAGES, {"context": context})
        assert opened["form"] == "dialogue"
        asked, calls, result, reply = opened["messages"]
        assert asked == {"role": "user", "content": CALL[0]["content"]}
        assert calls["tool_calls"][0]["function"] == {"name": "get_weather",
                                                      "arguments": CALL[1]["arguments"]}
        assert (result["role"], result["tool_call_id"]) == ("tool", "c1")
        assert result["content"] == CALL[2]["output"]
        assert reply == {"role": "assistant", "content": answer.output_text}

    def test_what_is_wrong_is_named_by_its_place(self, client):
        for text, place in [(CALL[2:], "input[0].call_id"),
                            ([{"type": "item_reference", "id": "x"}], "input[0]")]:
            with pytest.raises(openai.BadRequestError) as caught:
                ask(client, text)
            assert caught.value.body["message"].startswith(f"'{place}'")
        with pytest.raises(openai.BadRequestError, match="background"):
            ask(client, background=True)


class TestStored:
    def test_only_what_is_new_is_sent_and_run(self, client):
        first = ask(client, STORY + "Who keeps the lighthouse?", instructions="You are brief.")
        second = ask(client, "And its bell?", previous_response_id=first.id,
                     instructions="You are brief.")
        held = first.usage.input_tokens + first.usage.output_tokens - 1
        assert held <= second.usage.input_tokens_details.cached_tokens
        assert second.previous_response_id == first.id
        third = ask(client, "And the doctor?", previous_response_id=second.id,
                    instructions="You are brief.")
        assert third.usage.input_tokens_details.cached_tokens > held

    def test_a_response_is_read_again_and_deleted(self, client, server):
        answer = ask(client, "Name a fish.", instructions="You are brief.")
        again = client.responses.retrieve(answer.id)
        assert again.to_dict() == answer.to_dict()
        items = client.responses.input_items.list(answer.id)
        assert [item.content for item in items] == ["Name a fish."]
        context = answer.id.removeprefix("resp_")
        assert server.describe(context)["durable"]
        client.responses.delete(answer.id)
        for gone in (lambda: client.responses.retrieve(answer.id),
                     lambda: client.responses.delete(answer.id),
                     lambda: ask(client, "Another?", previous_response_id=answer.id)):
            with pytest.raises(openai.NotFoundError):
                gone()
        assert server.request("GET", f"{server_case.CONTEXTS}/{context}")[0] == 404

    def test_a_response_that_is_not_stored_has_no_id_to_ask_for(self, client):
        answer = ask(client, "Name a bird.", store=False)
        for lost in (answer.id, "resp_turn-0", "resp_", "nothing", "resp_#1"):
            with pytest.raises(openai.NotFoundError):
                ask(client, "Another?", previous_response_id=lost)

    def test_other_contexts_are_no_responses(self, client, server):
        chat = server.ask("Say hi.")
        server.wait_until_durable(chat.context)
        for context in (chat.context, "skerry"):
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve("resp_" + context)

    def test_a_kill_changes_nothing(self, folder):
        with Server(folder / "store") as server, client_of(server) as client:
            first = ask(client, STORY + "Who keeps the lighthouse?")
            assert client.responses.retrieve(first.id).id == first.id  # It is durable.
            server.kill()
        with Server(folder / "store") as server, client_of(server) as client:
            assert client.responses.retrieve(first.id).to_dict() == first.to_dict()
            second = ask(client, "And its bell?", previous_response_id=first.id)
            held = first.usage.input_tokens + first.usage.output_tokens - 1
            assert held <= second.usage.input_tokens_details.cached_tokens

    def test_another_tenants_response_is_as_if_there_were_none(self, folder):
        keys = folder / "keys.json"
        write_keys(keys, ann={}, bob={})
        with (Server(folder / "store", "--keys", keys) as server,
              client_of(server, api_key="ann") as ann, client_of(server, api_key="bob") as bob):
            answer = ask(ann)
            assert ann.responses.retrieve(answer.id).id == answer.id
            with pytest.raises(openai.NotFoundError) as theirs:
                bob.responses.retrieve(answer.id)
            with pytest.raises(openai.NotFoundError) as nobodys:
                bob.responses.retrieve(answer.id[:-1] + "x")
            assert theirs.value.body.keys() == nobodys.value.body.keys()
            with pytest.raises(openai.NotFoundError) as gone_on:
                ask(bob, previous_response_id=answer.id)
            with pytest.raises(openai.NotFoundError) as from_nothing:
                ask(bob, previous_response_id=answer.id[:-1] + "x")
            assert (gone_on.value.message.replace(answer.id, "ID")
                    == from_nothing.value.message.replace(answer.id[:-1] + "x", "ID"))
            assert server.json("GET", server_case.CONTEXTS,
                               headers={"Authorization": "Bearer bob"})["contexts"] == []

    def test_a_response_lives_as_long_as_its_context(self, client, server):
        raw = client.responses.with_raw_response.create(model=MODEL, input="Name a tree.",
                                                        max_output_tokens=4)
        context = raw.headers[CONTEXT_HEADER]
        assert raw.parse().id == "resp_" + context
        server.wait_until_durable(context)
        server.json("DELETE", f"{server_case.CONTEXTS}/{context}")
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve("resp_" + context)

    def test_an_expired_response_is_none(self, client, server):
        answer = ask(client, "Name a river.")
        context = answer.id.removeprefix("resp_")
        server.wait_until_durable(context)
        run_client(server.url, "ttl", context, "1s")
        # To ask for the response would be a use of it, and begin its time anew.
        wait_until(lambda: all(row["name"] != context or row["expired"] for row
                               in server.json("GET", server_case.CONTEXTS)["contexts"]),
                   "the response has expired")
        with pytest.raises(openai.NotFoundError):
            ask(client, "And a lake?", previous_response_id=answer.id)
