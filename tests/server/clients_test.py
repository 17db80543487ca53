"""Goal: the clients that people have work with the server as they come from PyPI.

Method: openai, llm and langchain-openai, each whole and streamed, against one server.
"""

import os
import subprocess
import sys

import llm
import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI

import server_case
from openai_client import client_of
from server_case import WAIT

QUESTION = server_case.CAPITAL
MESSAGES = [{"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as made:
        yield made


class TestOpenAi:
    def ask(self, client, **fields):
        return client.chat.completions.create(
            **{"model": "smollm2", "messages": MESSAGES, "temperature": 0, "max_tokens": 8,
               **fields})

    def test_lists_the_model(self, client, server):
        models = list(client.models.list())
        assert [model.id for model in models] == [server.model] == ["smollm2"]
        assert models[0].object == "model"
        assert client.models.retrieve("smollm2") == models[0]

    def test_chats(self, client):
        answer = self.ask(client)
        assert answer.object == "chat.completion"
        assert answer.model == "smollm2"
        [choice] = answer.choices
        assert choice.message.role == "assistant"
        assert "Paris" in choice.message.content
        assert choice.finish_reason == "stop" or answer.usage.completion_tokens == 8
        assert answer.usage.total_tokens == (answer.usage.prompt_tokens
                                             + answer.usage.completion_tokens)

    def test_a_stream_says_what_the_whole_answer_says(self, client):
        whole = self.ask(client)
        chunks = list(self.ask(client, stream=True, stream_options={"include_usage": True}))
        assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
        assert len({chunk.id for chunk in chunks}) == 1
        assert len(chunks) > 3
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert deltas[0].role == "assistant"
        assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
        assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens

    def test_usage_comes_only_where_it_was_asked_for(self, client):
        assert all(chunk.usage is None and chunk.choices
                   for chunk in self.ask(client, stream=True))

    def test_usage_says_which_tokens_were_cached(self, client):
        messages = [{"role": "user", "content": "Name a colour of the sky at noon."}]
        first = self.ask(client, messages=messages)
        assert first.usage.prompt_tokens_details.cached_tokens < first.usage.prompt_tokens
        messages += [{"role": "assistant", "content": first.choices[0].message.content},
                     {"role": "user", "content": "And at night?"}]
        second = self.ask(client, messages=messages)
        # The first turn's prompt was all run, and of its reply all but perhaps the last token.
        held = first.usage.prompt_tokens + first.usage.completion_tokens - 1
        assert held <= second.usage.prompt_tokens_details.cached_tokens
        assert second.usage.prompt_tokens_details.cached_tokens < second.usage.prompt_tokens

    def test_completes_text(self, client):
        answer = client.completions.create(model="smollm2", prompt="One, two, three,",
                                           temperature=0, max_tokens=6)
        assert answer.object == "text_completion"
        assert "four" in answer.choices[0].text
        chunks = list(client.completions.create(model="smollm2", prompt="One, two, three,",
                                                temperature=0, max_tokens=6, stream=True))
        assert "".join(chunk.choices[0].text for chunk in chunks) == answer.choices[0].text

    def test_stops_at_a_stop_word_and_leaves_it_out(self, client):
        whole = client.completions.create(model="smollm2", prompt="One, two, three,",
                                          temperature=0, max_tokens=12)
        assert "five" in whole.choices[0].text
        cut = client.completions.create(model="smollm2", prompt="One, two, three,",
                                        temperature=0, max_tokens=12, stop=["five"])
        assert cut.choices[0].finish_reason == "stop"
        assert cut.choices[0].text == whole.choices[0].text.split("five")[0]

    def test_the_same_seed_says_the_same(self, client):
        def say(seed):
            return self.ask(client, temperature=1.5, seed=seed,
                            max_tokens=12).choices[0].message.content

        assert say(1) == say(1)
        assert len({say(seed) for seed in range(4)}) > 1

    def test_parts_of_text_are_one_text(self, client):
        parts = [{"type": "text", "text": "Tell me the capital "},
                 {"type": "text", "text": "of France."}]
        answer = self.ask(client, messages=[{"role": "user", "content": parts}])
        assert answer.choices[0].message.content == self.ask(client).choices[0].message.content

    def test_logprobs_of_a_chat(self, client):
        ask = {"logprobs": True, "top_logprobs": 3}
        [choice] = self.ask(client, **ask).choices
        content = choice.logprobs.content
        assert "".join(token.token for token in content) == choice.message.content
        for token in content:
            assert token.bytes == list(token.token.encode())
            assert len(token.top_logprobs) == 3
            assert token.top_logprobs[0].token == token.token
            assert token.top_logprobs[0].logprob == token.logprob <= 0
        with client.chat.completions.stream(model="smollm2", messages=MESSAGES, temperature=0,
                                            max_tokens=8, **ask) as stream:
            told = [token for event in stream if event.type == "logprobs.content.delta"
                    for token in event.content]
            final = stream.get_final_completion()
        assert told == final.choices[0].logprobs.content
        assert [token.bytes for token in told] == [token.bytes for token in content]

    def test_logprobs_of_a_completion(self, client):
        ask = {"model": "smollm2", "prompt": "One, two, three,", "temperature": 0,
               "max_tokens": 6, "logprobs": 2}
        [choice] = client.completions.create(**ask).choices
        assert "".join(choice.logprobs.tokens) == choice.text
        assert len(choice.logprobs.token_logprobs) == len(choice.logprobs.text_offset) == 6
        assert [len(top) for top in choice.logprobs.top_logprobs] == [2] * 6
        parts = [chunk.choices[0].logprobs for chunk in client.completions.create(**ask,
                                                                                  stream=True)]
        assert [offset for part in parts if part
                for offset in part.text_offset] == choice.logprobs.text_offset

    def test_a_bias_forbids_a_token(self, client):
        [token] = self.ask(client, max_tokens=1, logprobs=True).choices[0].logprobs.content
        without = self.ask(client, max_tokens=1, logprobs=True,
                           logit_bias={str(token.id): -100})
        assert without.choices[0].logprobs.content[0].token != token.token

    @pytest.mark.parametrize("fields, says", [
        ({"n": 17}, "'n'"),
        ({"tools": [{"type": "web_search"}]}, "'tools[0].type'"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"49152": 1}}, "logit_bias"),
        ({"temperature": -1}, "temperature"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "wizard"),
        ({"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:"}}]}]}, "image_url"),
    ])
    @pytest.mark.parametrize("stream", [False, True])
    def test_what_cannot_be_honoured_is_an_exception_that_names_it(self, client, fields, says,
                                                                   stream):
        with pytest.raises(openai.BadRequestError) as caught:
            self.ask(client, stream=stream, **fields)
        assert says in caught.value.message
        assert caught.value.body["type"] == "invalid_request_error"
        assert says in caught.value.body["message"]

    def test_what_is_not_there_is_not_found(self, client):
        with pytest.raises(openai.NotFoundError) as caught:
            self.ask(client, extra_body={"context": "nobody-wrote-this"})
        assert "nobody-wrote-this" in caught.value.message
        with pytest.raises(openai.NotFoundError):
            client.post("/no/such/thing", cast_to=object)

    def test_embeddings_are_refused_in_words(self, client):
        with pytest.raises(openai.BadRequestError, match="embeddings"):
            client.embeddings.create(model="smollm2", input="text")

    def test_the_context_of_an_answer_is_in_its_headers(self, client, server):
        raw = client.chat.completions.with_raw_response.create(
            model="smollm2", messages=MESSAGES, max_tokens=4)
        context = raw.headers[server_case.CONTEXT_HEADER]
        usage = raw.parse().usage
        info = server.wait_until_durable(context)
        assert usage.prompt_tokens <= info["num_tokens"] <= usage.total_tokens


class TestLlm:
    @pytest.fixture(autouse=True)
    def user_path(self, server, tmp_path, monkeypatch):
        """llm's own folder, which names the server as users of llm name it."""
        (tmp_path / "extra-openai-models.yaml").write_text(
            f"- model_id: attndb\n  model_name: smollm2\n  api_base: {server.url}/v1\n")
        monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))

    def test_streams(self):
        response = llm.get_model("attndb").prompt(QUESTION, temperature=0, max_tokens=8)
        pieces = list(response)
        assert len(pieces) > 2
        assert "Paris" in "".join(pieces)
        assert response.usage().input > 0
        assert response.usage().output in range(len(pieces) - 1, 9)

    def test_does_without_a_stream(self):
        model = llm.get_model("attndb")
        whole = model.prompt(QUESTION, stream=False, temperature=0, max_tokens=8)
        streamed = model.prompt(QUESTION, temperature=0, max_tokens=8)
        assert whole.text() == streamed.text()
        assert whole.usage().input == streamed.usage().input

    def test_goes_on_with_a_conversation(self, server):
        conversation = llm.get_model("attndb").conversation()
        conversation.prompt("Name a bird.", temperature=0, max_tokens=8).text()
        before = server.metric("attndb_cached_tokens")
        second = conversation.prompt("Name another.", temperature=0, max_tokens=8)
        assert second.text()
        assert server.metric("attndb_cached_tokens") - before > second.usage().input / 2

    def test_its_command_line_says_what_the_model_says(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "llm", "-m", "attndb", "-o", "temperature", "0", "-o",
             "max_tokens", "8", QUESTION], capture_output=True, text=True, timeout=WAIT,
            env={**os.environ, "LLM_USER_PATH": str(tmp_path)}, check=False)
        assert done.returncode == 0, done
        assert "Paris" in done.stdout

    def test_an_error_is_an_exception_with_the_message(self):
        with pytest.raises(Exception, match="temperature|top_p"):
            llm.get_model("attndb").prompt(QUESTION, top_p=1.0, temperature=-1.0).text()
        with pytest.raises(Exception, match="logit_bias has token 49152"):
            llm.get_model("attndb").prompt(QUESTION, logit_bias={"49152": -100}).text()


class TestLangChain:
    @pytest.fixture
    def chat(self, server):
        return ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="smollm2",
                          temperature=0, max_tokens=8, timeout=WAIT, max_retries=0)

    def test_invokes(self, chat):
        answer = chat.invoke(QUESTION)
        assert isinstance(answer, AIMessage)
        assert "Paris" in answer.content
        assert answer.usage_metadata["total_tokens"] == (
            answer.usage_metadata["input_tokens"] + answer.usage_metadata["output_tokens"])
        assert answer.response_metadata["model_name"] == "smollm2"
        assert answer.response_metadata["finish_reason"] in ("stop", "length")

    def test_streams(self, chat):
        chunks = list(chat.stream(QUESTION))
        assert sum(1 for chunk in chunks if chunk.content) > 2
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        assert whole.content == chat.invoke(QUESTION).content
        assert whole.response_metadata["finish_reason"] in ("stop", "length")

    def test_logprobs_are_in_the_metadata(self, chat):
        answer = chat.bind(logprobs=True, top_logprobs=2).invoke(QUESTION)
        content = answer.response_metadata["logprobs"]["content"]
        assert "".join(token["token"] for token in content) == answer.content
        assert all(len(token["top_logprobs"]) == 2 for token in content)

    def test_streams_usage_where_it_is_asked_for(self, server):
        chat = ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="smollm2",
                          temperature=0, max_tokens=4, stream_usage=True, timeout=WAIT)
        usages = [chunk.usage_metadata for chunk in chat.stream(QUESTION) if chunk.usage_metadata]
        assert len(usages) == 1
        assert usages[0]["output_tokens"] == 4

    def test_usage_says_what_was_read_from_the_cache(self, chat):
        messages = [HumanMessage("Name a river of Egypt.")]
        first = chat.invoke(messages)
        second = chat.invoke([*messages, first, HumanMessage("How long is it?")])
        cached = second.usage_metadata["input_token_details"]["cache_read"]
        assert cached >= first.usage_metadata["total_tokens"] - 1

    def test_a_model_without_tools_answers_without_them(self, chat):
        def weather(city: str) -> str:
            """What the weather is."""
            return city

        answer = chat.bind_tools([weather]).invoke(QUESTION)
        assert "Paris" in answer.content and not answer.tool_calls
