"""Goal: clients and a framework of agents run a loop of tools to its end, and a restart in the
middle costs them nothing.

Method: openai (chats and responses), langchain-openai, anthropic, llm and pydantic-ai with SmolLM2
        and a template that shows tools, as tools_test.py has it. The first two steps require one
        tool each, so that the small model calls the right one. Behind a step the server is killed
        and started again on its store; where the client runs the loop itself, a tool does this.
"""

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Callable
from typing import Annotated, Literal

import anthropic
import llm
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from pydantic import Field
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import server_case
from messages_test import BEGUN
from messages_test import TOOLS as ANTHROPIC_TOOLS
from server_case import CONTEXT_HEADER, WAIT, Server, user
from tools_test import CALLS, TOOLS, named

TEMPLATE = server_case.ROOT / "tests/server/tool_template.jinja"
QUESTION = "When does the ferry leave? I need two seats."


@dataclasses.dataclass
class Harbour:
    """The server, how one is started at a port, and what happened."""

    start: Callable[[int], Server]
    server: Server
    called: list = dataclasses.field(default_factory=list)  # Tools, each with its argument.
    contexts: list = dataclasses.field(default_factory=list)  # The ids of all turns.

    def restart(self):
        """Kills the server once the last turn is durable, and starts it again."""
        self.server.wait_until_durable(self.contexts[-1])
        self.server.kill()
        self.server = self.start(self.server.port)

    async def note(self, response):
        self.contexts.append(response.headers[CONTEXT_HEADER])


CHOICES = (["ferry"], ["weather"], "none")  # One for each step.


class Steps(AbstractCapability):
    """Says which tool each step calls."""

    def get_model_settings(self):
        return lambda ctx: {"tool_choice": CHOICES[len(ctx.deps.called)]}


async def ferry(ctx: RunContext[Harbour], seats: Literal[1, 2]) -> str:
    """Gives the ferry."""
    ctx.deps.called.append(("ferry", seats))
    return "at nine"


async def weather(ctx: RunContext[Harbour], city: Annotated[str, Field(max_length=12)]) -> str:
    """Gives the weather."""
    ctx.deps.called.append(("weather", city))
    ctx.deps.restart()
    return "rain"


def agent_for(harbour):
    http = DefaultAsyncHttpxClient(event_hooks={"response": [harbour.note]})
    client = AsyncOpenAI(base_url=harbour.server.url + "/v1", api_key="none", timeout=WAIT,
                         max_retries=0, http_client=http)
    model = OpenAIChatModel("smollm2", provider=OpenAIProvider(openai_client=client))
    return Agent(model, deps_type=Harbour, tools=[ferry, weather], retries=0,
                 capabilities=[Steps()], model_settings={
                     "temperature": 0, "max_tokens": 80, "stop_sequences": ["</tool_call>"],
                     "extra_body": {"logit_bias": {"<tool_call>": 8}}})


@pytest.fixture
def harbour(folder):
    with contextlib.ExitStack() as running:
        def start(port):
            return running.enter_context(
                Server(folder / "store", "--chat-template", TEMPLATE, port=port))
        yield Harbour(start, start(0))


def test_a_loop_of_two_tools_runs_over_a_restart(harbour):
    run = asyncio.run(agent_for(harbour).run(QUESTION, deps=harbour))
    assert [name for name, _ in harbour.called] == ["ferry", "weather"]
    replies = [message for message in run.all_messages() if isinstance(message, ModelResponse)]
    assert len(replies) == 3
    for reply, (name, _) in zip(replies, harbour.called):
        [call] = [part for part in reply.parts if isinstance(part, ToolCallPart)]
        assert call.tool_name == name
    assert run.output
    # The mark of a call's end, which the stop string cut, has a few tokens.
    for reply, earlier in zip(replies[1:], replies):
        assert reply.usage.cache_read_tokens >= earlier.usage.total_tokens - 8


# The tools that are called, with their results.
STEPS = (("ferry", "at nine"), ("weather", "rain"))
# The mark of a call's end, which the stop string cut, has a few tokens.
CUT_TOKENS = 8


def test_openais_client_goes_on_over_restarts(harbour):
    messages, held = [user(QUESTION)], 0
    with OpenAI(base_url=harbour.server.url + "/v1", api_key="none", timeout=WAIT,
                max_retries=0) as client:
        fields = {"model": "smollm2", "temperature": 0, "max_tokens": 80, **CALLS}
        for name, result in STEPS:
            raw = client.chat.completions.with_raw_response.create(
                messages=messages, tool_choice=named(name), **fields)
            answer = raw.parse()
            [call] = answer.choices[0].message.tool_calls
            assert call.function.name == name
            assert answer.usage.prompt_tokens_details.cached_tokens >= held - CUT_TOKENS
            held = answer.usage.total_tokens
            messages += [answer.choices[0].message,
                         {"role": "tool", "tool_call_id": call.id, "content": result}]
            harbour.contexts.append(raw.headers[CONTEXT_HEADER])
            harbour.restart()
        last = client.chat.completions.create(messages=messages, tool_choice="none", **fields)
    assert last.choices[0].message.content
    assert last.usage.prompt_tokens_details.cached_tokens >= held - CUT_TOKENS


def test_openais_client_goes_on_from_responses_over_restarts(harbour):
    """Each request has only what is new: the conversation is the server's."""
    asked, held, previous = QUESTION, 0, None
    with OpenAI(base_url=harbour.server.url + "/v1", api_key="none", timeout=WAIT,
                max_retries=0) as client:
        fields = {"model": "smollm2", "temperature": 0, "max_output_tokens": 80,
                  "tools": [{"type": "function", **tool["function"]} for tool in TOOLS],
                  "extra_body": {"stop": CALLS["stop"], **CALLS["extra_body"]}}
        for name, result in STEPS:
            answer = client.responses.create(
                input=asked, previous_response_id=previous,
                tool_choice={"type": "function", "name": name}, **fields)
            [call] = answer.output
            assert (call.type, call.name) == ("function_call", name)
            json.loads(call.arguments)
            assert answer.usage.input_tokens_details.cached_tokens >= held - CUT_TOKENS
            held, previous = answer.usage.total_tokens, answer.id
            asked = [{"type": "function_call_output", "call_id": call.call_id, "output": result}]
            harbour.contexts.append(answer.id.removeprefix("resp_"))
            harbour.restart()
        del fields["extra_body"]
        last = client.responses.create(input=asked, previous_response_id=previous,
                                       tool_choice="none", **fields)
    assert last.output_text
    assert last.usage.input_tokens_details.cached_tokens >= held - CUT_TOKENS


def llms_model(harbour, folder, monkeypatch):
    """The model of `llm`, which asks for one tool after the other."""
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: harbour\n  model_name: smollm2\n  api_base: {harbour.server.url}/v1\n"
        "  supports_tools: true\n")
    monkeypatch.setenv("LLM_USER_PATH", str(folder))
    model = llm.get_model("harbour")
    build, hooks = model.build_kwargs, {"response": [lambda got: harbour.contexts.append(
        got.headers[CONTEXT_HEADER])]}

    def build_step(prompt, stream):
        step = len(harbour.called)
        choice = named(STEPS[step][0]) if step < len(STEPS) else "none"
        wanted = {"stop": CALLS["stop"], "extra_body": CALLS["extra_body"]}
        return {**build(prompt, stream), "tool_choice": choice,
                **(wanted if step < len(STEPS) else {})}

    monkeypatch.setattr(model, "build_kwargs", build_step)
    monkeypatch.setattr(model, "get_client", lambda key: OpenAI(
        base_url=harbour.server.url + "/v1", api_key="none", timeout=WAIT, max_retries=0,
        http_client=DefaultHttpxClient(event_hooks=hooks)))
    return model


def test_llms_client_goes_on_over_restarts(harbour, tmp_path, monkeypatch):
    def ferry(seats: Literal[1, 2]) -> str:
        """Gives the ferry."""
        harbour.called.append(("ferry", seats))
        harbour.restart()
        return "at nine"

    def weather(city: Literal["Oslo", "Bergen"]) -> str:
        """Gives the weather."""
        harbour.called.append(("weather", city))
        harbour.restart()
        return "rain"

    chain = llms_model(harbour, tmp_path, monkeypatch).chain(
        QUESTION, tools=[ferry, weather], options={"temperature": 0, "max_tokens": 80})
    replies = list(chain.responses())
    assert len(replies) == 3
    assert [name for name, _ in harbour.called] == ["ferry", "weather"]
    assert replies[-1].text()
    held = 0
    for usage in (reply.usage() for reply in replies):
        cached = (usage.details or {}).get("prompt_tokens_details", {}).get("cached_tokens", 0)
        assert cached >= held - CUT_TOKENS
        held = usage.input + usage.output


def test_langchains_client_goes_on_over_restarts(harbour):
    messages, held = [HumanMessage(QUESTION)], 0
    chat = ChatOpenAI(base_url=harbour.server.url + "/v1", api_key="none", model="smollm2",
                      temperature=0, max_tokens=80, timeout=WAIT, max_retries=0,
                      include_response_headers=True)
    for name, result in STEPS:
        said = chat.bind_tools(TOOLS, tool_choice=name, stop=CALLS["stop"],
                               extra_body=CALLS["extra_body"]).invoke(messages)
        [call] = said.tool_calls
        assert call["name"] == name
        assert said.usage_metadata["input_token_details"]["cache_read"] >= held - CUT_TOKENS
        held = said.usage_metadata["total_tokens"]
        messages += [said, ToolMessage(result, tool_call_id=call["id"])]
        harbour.contexts.append(said.response_metadata["headers"][CONTEXT_HEADER.lower()])
        harbour.restart()
    last = chat.bind_tools(TOOLS, tool_choice="none").invoke(messages)
    assert last.content
    assert last.usage_metadata["input_token_details"]["cache_read"] >= held - CUT_TOKENS


def test_anthropics_client_goes_on_over_restarts(harbour):
    messages, held = [user(QUESTION)], 0
    with anthropic.Anthropic(base_url=harbour.server.url, api_key="none", timeout=WAIT,
                             max_retries=0) as client:
        fields = {"model": "smollm2", "max_tokens": 80, "tools": ANTHROPIC_TOOLS,
                  "extra_body": {"temperature": 0}}
        for name, result in (("ferry", "at nine"), ("get_weather", "rain")):
            raw = client.messages.with_raw_response.create(
                messages=messages + BEGUN, tool_choice={"type": "tool", "name": name}, **fields)
            answer = raw.parse()
            [call] = answer.content
            assert call.name == name
            assert answer.usage.cache_read_input_tokens >= held
            held = (answer.usage.cache_read_input_tokens
                    + answer.usage.cache_creation_input_tokens)
            messages += [{"role": "assistant", "content": answer.content},
                         user([{"type": "tool_result", "content": result,
                                "tool_use_id": call.id}])]
            harbour.contexts.append(raw.headers[CONTEXT_HEADER])
            harbour.restart()
        last = client.messages.create(messages=messages, tool_choice={"type": "none"}, **fields)
    assert [block.type for block in last.content] == ["text"]
    assert last.usage.cache_read_input_tokens >= held
