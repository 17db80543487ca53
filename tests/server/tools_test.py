"""Goal: tools, structured output and thinking work with the clients that people have.

Method: SmolLM2 with a template that shows tools (tool_template.jinja). It calls tools because a
bias makes the mark of a call likely, and a grammar sees to it that the call is right: where a call
is required, llama.cpp's grammars allow any words before it, and more calls behind it. A stop string
ends the reply behind the first one. openai and langchain-openai ask.
"""

import json
from typing import Literal

import openai
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

import server_case
from openai_client import client_of
from server_case import WAIT, Server

TEMPLATE = server_case.ROOT / "tests/server/tool_template.jinja"


def tool(name, **parameters):
    return {"type": "function", "function": {
        "name": name, "description": f"Gives the {name}.", "parameters": {
            "type": "object", "properties": parameters, "required": list(parameters)}}}


WEATHER = tool("weather", city={"type": "string", "maxLength": 12})
FERRY = tool("ferry", day={"enum": ["Monday", "Tuesday"]}, seats={"enum": [1, 2]})
TOOLS = [WEATHER, FERRY]
HARBOUR = {"type": "object", "properties": {
    "boats": {"type": "integer"}, "open": {"type": "boolean"}}, "required": ["boats", "open"],
    "additionalProperties": False}


CALLS = {"tools": TOOLS, "stop": ["</tool_call>"],
         "extra_body": {"logit_bias": {"<tool_call>": 8}}}


def named(name):
    return {"type": "function", "function": {"name": name}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("tools") / "store", "--chat-template", TEMPLATE) as made:
        yield made


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as made:
        yield made


def ask(client, messages, **fields):
    return client.chat.completions.create(**{
        "model": "smollm2", "messages": messages, "temperature": 0, "max_tokens": 80, **fields})


def added_up(chunks):
    """The message that the deltas of a stream make, and its reason to finish."""
    content, calls, reason = "", [], None
    for chunk in chunks:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or ():
                if call.index == len(calls):
                    assert call.id and call.type == "function" and call.function.name
                    calls.append([call.id, call.function.name, ""])
                else:
                    assert call.id is None and call.function.name is None
                calls[call.index][2] += call.function.arguments or ""
    return content, calls, reason


WHEN = [server_case.user("When does the ferry leave? I need two seats.")]


class TestTools:
    def test_a_loop_of_two_tools_runs_to_its_end(self, client):
        messages = list(WHEN)
        for name, result in (("ferry", "at nine"), ("weather", "rain")):
            [choice] = ask(client, messages, tool_choice=named(name), **CALLS).choices
            assert choice.finish_reason == "tool_calls"
            assert choice.message.content is None
            [call] = choice.message.tool_calls
            assert call.function.name == name
            arguments = json.loads(call.function.arguments)
            assert set(arguments) == {"ferry": {"day", "seats"}, "weather": {"city"}}[name]
            messages += [choice.message, {"role": "tool", "tool_call_id": call.id,
                                          "content": result}]
        last = ask(client, messages, tools=TOOLS, tool_choice="none", max_tokens=8)
        assert last.choices[0].finish_reason in ("stop", "length")
        assert last.choices[0].message.content and not last.choices[0].message.tool_calls

    def test_what_was_said_is_not_read_again(self, client):
        first = ask(client, WHEN, tool_choice=named("ferry"), **CALLS)
        message = first.choices[0].message
        second = ask(client, [*WHEN, message, {
            "role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "at ten"}],
            tools=TOOLS, tool_choice="none", max_tokens=2)
        cached = second.usage.prompt_tokens_details.cached_tokens
        # The mark of the call's end, which the stop string cut, has a few tokens.
        assert cached >= first.usage.total_tokens - 8

    def test_a_stream_calls_as_the_whole_answer_calls(self, client):
        fields = {**CALLS, "tool_choice": "required"}
        whole = ask(client, WHEN, **fields).choices[0]
        content, calls, reason = added_up(ask(client, WHEN, stream=True, **fields))
        assert content == (whole.message.content or "")
        assert reason == whole.finish_reason == "tool_calls"
        assert [call[1:] for call in calls] == [
            [call.function.name, call.function.arguments] for call in whole.message.tool_calls]
        json.loads(calls[0][2])

    def test_a_call_that_is_cut_says_so(self, client):
        fields = {**CALLS, "tool_choice": named("ferry"), "max_tokens": 24}
        whole = ask(client, WHEN, **fields).choices[0]
        assert whole.finish_reason == "length"
        [call] = whole.message.tool_calls
        assert call.function.arguments.startswith('{"day"')
        with pytest.raises(json.JSONDecodeError):
            json.loads(call.function.arguments)
        _, calls, reason = added_up(ask(client, WHEN, stream=True, **fields))
        assert reason == "length"
        assert [call[1:] for call in calls] == [["ferry", call.function.arguments]]

    def test_without_a_need_the_model_may_speak_or_call(self, client):
        spoken = ask(client, WHEN, tools=TOOLS, max_tokens=16).choices[0]
        assert spoken.message.content and not spoken.message.tool_calls
        [call] = ask(client, WHEN, **CALLS).choices[0].message.tool_calls
        json.loads(call.function.arguments)  # The grammar begins with the mark of a call.
        none = ask(client, WHEN, tool_choice="none", **{**CALLS, "max_tokens": 16}).choices[0]
        assert "<tool_call>" in none.message.content and not none.message.tool_calls

    @pytest.mark.parametrize("fields, says", [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        ({"tools": TOOLS, "tool_choice": named("sail")}, "tool_choice.function.name"),
        ({"tools": TOOLS, "extra_body": {"grammar": 'root ::= "a"'}}, "grammar"),
        ({"messages": [{"role": "tool", "tool_call_id": "c", "content": "5"}]},
         "messages[0].tool_call_id"),
    ])
    def test_what_is_wrong_is_named(self, client, fields, says):
        with pytest.raises(openai.BadRequestError) as error:
            ask(client, **{"messages": WHEN, **fields})
        assert says in error.value.message

    def test_langchain_binds_tools(self, server):
        def ferry(day: Literal["Monday", "Tuesday"]) -> str:
            """When the ferry leaves."""
            return day

        chat = ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="smollm2",
                          temperature=0, max_tokens=80, timeout=WAIT)
        bound = chat.bind_tools([ferry], tool_choice="ferry", stop=CALLS["stop"],
                                extra_body=CALLS["extra_body"])
        said = bound.invoke([HumanMessage("When does the ferry leave?")])
        [call] = said.tool_calls
        assert call["name"] == "ferry" and set(call["args"]) == {"day"}
        end = chat.invoke([HumanMessage("When does the ferry leave?"), said,
                           ToolMessage("at nine", tool_call_id=call["id"])])
        assert end.content


class TestStructuredOutput:
    def test_a_reply_is_of_its_schema(self, client):
        answer = ask(client, WHEN, response_format={"type": "json_schema", "json_schema": {
            "name": "harbour", "schema": HARBOUR}})
        said = json.loads(answer.choices[0].message.content)
        assert set(said) == {"boats", "open"}
        assert isinstance(said["boats"], int) and isinstance(said["open"], bool)
        assert answer.choices[0].finish_reason == "stop"

    def test_llama_cpps_name_of_it_does_the_same(self, client):
        answer = ask(client, WHEN, extra_body={"json_schema": HARBOUR})
        assert set(json.loads(answer.choices[0].message.content)) == {"boats", "open"}

    def test_a_reply_follows_a_grammar(self, client):
        answer = ask(client, WHEN, extra_body={"grammar": 'root ::= "at " ("nine" | "ten")'})
        assert answer.choices[0].message.content in ("at nine", "at ten")
        text = client.completions.create(
            model="smollm2", prompt="The ferry leaves", max_tokens=16, temperature=0,
            extra_body={"grammar": 'root ::= " at " ("nine" | "ten")'}).choices[0].text
        assert text in (" at nine", " at ten")

    @pytest.mark.parametrize("fields, says", [
        ({"grammar": "root ::= ("}, "grammar"),
        ({"json_schema": {"type": "wizard"}}, "wizard"),
        ({"json_schema": {"$ref": "#/nowhere"}}, "nowhere"),
    ])
    def test_what_cannot_be_compiled_is_named(self, client, fields, says):
        with pytest.raises(openai.BadRequestError) as error:
            ask(client, WHEN, extra_body=fields)
        assert says in error.value.message


class TestContinuedMessage:
    def test_a_last_reply_goes_on(self, client):
        messages = [server_case.user(server_case.CAPITAL),
                    server_case.assistant("The capital of France is")]
        said = ask(client, messages, max_tokens=4).choices[0].message.content
        assert said.lstrip().startswith("Paris")

    def test_a_reply_that_has_ended_is_followed_by_another(self, client):
        messages = [server_case.user(server_case.CAPITAL), server_case.assistant("It is Paris.")]
        went_on = ask(client, messages, max_tokens=4)
        begins = ask(client, messages, max_tokens=4, extra_body={"continue_final_message": False})
        assert begins.usage.prompt_tokens > went_on.usage.prompt_tokens
