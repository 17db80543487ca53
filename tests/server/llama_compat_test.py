"""Goal: programs that were written for llama.cpp's server find its routes, in its forms.

Method: the real server and model; the same texts by OpenAI's routes.
"""

import json

import pytest

from server_case import (CAPITAL, CONTEXTS, STORY, HttpError, Server, Stream, user,
                         write_tiny_model)

ONE_TWO = "One, two, three,"


@pytest.fixture(scope="module")
def props(server):
    return server.json("GET", "/props")


class TestProps:
    def test_they_tell_the_template_and_the_tokens(self, server, props):
        assert "<|im_start|>" in props["chat_template"]
        assert (props["bos_token"], props["eos_token"]) == ("<|im_start|>", "<|im_end|>")
        assert props["model_alias"] == server.model
        assert "/" not in props["model_path"] and props["model_path"].endswith(".gguf")
        assert props["total_slots"] >= 1
        assert props["chat_template_caps"]["supports_system_role"] is True
        assert props["chat_template_caps"]["supports_tools"] is False
        assert props["build_info"].startswith("attndb ")
        settings = props["default_generation_settings"]
        assert settings["n_ctx"] == 8192
        assert settings["params"]["temperature"] == pytest.approx(0.8)
        assert settings["params"]["top_k"] == 40


class TestTexts:
    def test_tokens_become_their_text_again(self, server):
        tokens = server.json("POST", "/tokenize",
                             {"content": "<|im_start|>Øre, one", "parse_special": True})["tokens"]
        told = server.json("POST", "/detokenize", {"tokens": tokens})
        assert told == {"content": "<|im_start|>Øre, one"}
        assert server.json("POST", "/detokenize", {}) == {"content": ""}
        with pytest.raises(HttpError) as raised:
            server.json("POST", "/detokenize", {"tokens": [10_000_000]})
        assert raised.value.status == 400

    def test_a_template_is_applied_as_a_chat_applies_it(self, server):
        prompt = server.json("POST", "/apply-template", {"messages": [user(CAPITAL)]})["prompt"]
        assert prompt.endswith("<|im_start|>assistant\n")
        assert f"<|im_start|>user\n{CAPITAL}<|im_end|>" in prompt
        counted = len(server.json("POST", "/tokenize",
                                  {"content": prompt, "parse_special": True})["tokens"])
        assert counted == server.ask(CAPITAL, max_tokens=1).usage["prompt_tokens"]


class TestCompletion:
    FIELDS = {"prompt": ONE_TWO, "n_predict": 8, "temperature": 0}

    @pytest.mark.parametrize("path", ["/completion", "/completions"])
    def test_it_goes_on_as_openais_does(self, server, path):
        told = server.json("POST", path, self.FIELDS)
        other = server.json("POST", "/v1/completions",
                            {"prompt": ONE_TWO, "max_tokens": 8, "temperature": 0})
        assert told["content"] == other["choices"][0]["text"]
        assert told["stop"] is True and told["stop_type"] == "limit"
        assert told["tokens_predicted"] == told["timings"]["predicted_n"] == 8
        assert told["tokens_evaluated"] == other["usage"]["prompt_tokens"]
        assert told["prompt"] == ONE_TWO
        assert told["generation_settings"]["n_predict"] == 8
        cached, run = told["timings"]["cache_n"], told["timings"]["prompt_n"]
        assert cached + run == told["tokens_evaluated"]

    def test_its_turn_has_the_prompts_first_words_as_title(self, server):
        _, headers, _ = server.request("POST", "/completion",
                                       json.dumps({**self.FIELDS, "prompt": "A turn of its own"}))
        turn = server.wait_until_durable(headers["X-Attndb-Context"])
        assert turn["title"] == "A turn of its own"

    def test_a_text_finds_contexts(self, folder):
        with Server(folder / "store") as server:
            server.json("POST", CONTEXTS, {"name": "skerry", "text": STORY})
            status, headers, _ = server.request("POST", "/completion", json.dumps(
                {**self.FIELDS, "prompt": "Where does the spare key hang?", "find": 1}))
            assert status == 200 and headers["X-Attndb-Found"].startswith("#")
            status, _, told = server.request("POST", "/completion", json.dumps(
                {**self.FIELDS, "prompt": [1, 2], "find": 1}))
            assert status == 400 and b"'find' needs a text" in told

    def test_a_stream_says_the_same_and_ends_without_done(self, server):
        whole = server.json("POST", "/completion", self.FIELDS)
        with Stream(server, "/completion", {**self.FIELDS, "stream": True}, {}) as stream:
            events = [json.loads(text) for text in stream.data()]
        assert "".join(event["content"] for event in events) == whole["content"]
        assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
        assert events[-1]["tokens_predicted"] == 8

    def test_ids_of_tokens_are_told(self, server):
        ids = server.json("POST", "/tokenize", {"content": ONE_TWO})["tokens"]
        assert server.json("POST", "/completion", self.FIELDS)["tokens"] == []
        told = server.json("POST", "/completion", {**self.FIELDS, "return_tokens": True})
        assert len(told["tokens"]) == told["tokens_predicted"] == 8
        text = server.json("POST", "/detokenize", {"tokens": ids + told["tokens"]})["content"]
        assert text == ONE_TWO + told["content"]
        with Stream(server, "/completion", {**self.FIELDS, "stream": True}, {}) as stream:
            events = [json.loads(event) for event in stream.data()]
        assert [token for event in events for token in event["tokens"]] == told["tokens"]
        assert events[-1]["tokens"] == []
        stopped = {**self.FIELDS, "stop": [told["content"].split()[2]]}
        whole = server.json("POST", "/completion", {**stopped, "return_tokens": True})
        assert whole["stop_type"] == "word"
        assert 0 < len(whole["tokens"]) == whole["tokens_predicted"] < 8
        with Stream(server, "/completion", {**stopped, "stream": True}, {}) as stream:
            events = [json.loads(event) for event in stream.data()]
        assert [token for event in events for token in event["tokens"]] == whole["tokens"]

    def test_the_models_end_is_one_of_the_tokens(self, server):
        prompt = server.json("POST", "/apply-template", {"messages": [user(CAPITAL)]})["prompt"]
        fields = {"prompt": prompt, "n_predict": 64, "temperature": 0}
        told = server.json("POST", "/completion", {**fields, "return_tokens": True})
        assert told["stop_type"] == "eos"
        end = server.json("POST", "/detokenize", {"tokens": told["tokens"][-1:]})["content"]
        assert end == "<|im_end|>"
        assert len(told["tokens"]) == told["tokens_predicted"] + 1
        with Stream(server, "/completion", {**fields, "stream": True}, {}) as stream:
            events = [json.loads(event) for event in stream.data()]
        assert [token for event in events for token in event["tokens"]] == told["tokens"]

    def test_names_of_control_tokens_are_tokens(self, server):
        prompt = server.json("POST", "/apply-template", {"messages": [user(CAPITAL)]})["prompt"]
        told = server.json("POST", "/completion",
                           {"prompt": prompt, "n_predict": 64, "temperature": 0})
        reply = server.ask(CAPITAL, max_tokens=64)
        assert told["content"] == reply.text
        assert told["stop_type"] == {"stop": "eos", "length": "limit"}[reply.finish]

    def test_texts_and_ids_stand_in_turn(self, server):
        ids = server.json("POST", "/tokenize", {"content": ONE_TWO})["tokens"]
        whole = server.json("POST", "/completion", self.FIELDS)
        mixed = server.json("POST", "/completion", {**self.FIELDS, "prompt": [*ids[:3], *ids[3:]]})
        assert mixed["content"] == whole["content"]

    def test_the_word_that_stops_is_told(self, server):
        told = server.json("POST", "/completion", {**self.FIELDS, "stop": ["zzz", ","]})
        assert (told["stop_type"], told["stopping_word"]) == ("word", ",")
        assert "," not in told["content"]

    def test_probabilities_are_told(self, server):
        told = server.json("POST", "/completion", {**self.FIELDS, "n_probs": 2})
        assert len(told["completion_probabilities"]) == 8
        assert all(len(each["top_logprobs"]) == 2 for each in told["completion_probabilities"])

    def test_a_prompt_that_is_none_is_refused(self, server):
        with pytest.raises(HttpError) as raised:
            server.json("POST", "/completion", {"prompt": [[1], [2]]})
        assert raised.value.status == 400 and "prompt" in raised.value.error()["message"]


class TestInfill:
    FIELDS = {"input_prefix": "def add(a, b):\n", "input_suffix": "\n", "n_predict": 4,
              "temperature": 0}

    def test_a_model_without_its_tokens_says_so(self, server):
        status, _, text = server.request("POST", "/infill", self.FIELDS)
        assert status == 501
        assert "prefix suffix middle" in json.loads(text)["error"]["message"]

    def test_a_model_with_its_tokens_fills_in(self, folder):
        fim = {f"tokenizer.ggml.{name}_token_id": number
               for name, number in (("fim_pre", 5), ("fim_suf", 6), ("fim_mid", 7))}
        model = write_tiny_model(folder / "fim.gguf", meta=fim, context_length=4096)
        with Server(folder / "store", model=model) as server:
            told = server.json("POST", "/infill", self.FIELDS)
            assert told["tokens_predicted"] <= 4
            prompt = told["prompt"]
            names = server.json("POST", "/detokenize", {"tokens": [5]})["content"]
            assert names in prompt
            more = server.json("POST", "/infill", {
                **self.FIELDS, "input_extra": [{"filename": "a.py", "text": "x = 1\n"}]})
            assert more["tokens_evaluated"] > told["tokens_evaluated"]
            status, _, text = server.request("POST", "/infill", {"input_prefix": "x"})
            assert status == 400 and b"input_suffix" in text
