"""Goal: an answer says how likely the model found each of its tokens, in each form, and these
tokens have the very bytes of its text; a bias steers a reply and nothing else.

Method: SmolLM2, whole and streamed: words, parts of characters, stop words; every id of its
vocabulary. protocol_test.py says which tests of llama.cpp's server check the same.
"""

import json

import pytest

from server_case import CAPITAL, CHAT, Stream, user

COMPLETION = "/v1/completions"
HI = {"messages": [user("Say hi.")], "max_tokens": 4, "temperature": 0}
JAPANESE = {"prompt": "Repeat: 日本語 日本語 日本語 日本語 日本語", "max_tokens": 16}
VOCABULARY = 49152


def bytes_of(content):
    return b"".join(bytes(token["bytes"]) for token in content)


def ask(server, path, **body):
    """The one choice of an answer."""
    return server.json("POST", path, {"temperature": 0, **body})["choices"][0]


def streamed(server, path, **body):
    """The choices of a stream's events."""
    with Stream(server, path, {"temperature": 0, **body, "stream": True}, {}) as stream:
        return [event["choices"][0] for event in stream.events()]


def content_of(choices):
    """The tokens of all events."""
    return [token for choice in choices if choice["logprobs"]
            for token in choice["logprobs"]["content"]]


def assert_alike(some, others):
    """The same tokens, as likely but for the rounding of other passes."""
    for name in ("id", "token", "bytes"):
        assert [token[name] for token in some] == [token[name] for token in others]
    assert [token["logprob"] for token in some] == pytest.approx(
        [token["logprob"] for token in others], abs=0.05)


class TestLogprobs:
    def test_of_a_chat_are_the_same_streamed(self, server):
        asked = {**HI, "max_tokens": 12, "logprobs": True, "top_logprobs": 5}
        whole = ask(server, CHAT, **asked)
        content = whole["logprobs"]["content"]
        assert "".join(token["token"] for token in content) == whole["message"]["content"]
        for token in content:
            chances = [likely["logprob"] for likely in token["top_logprobs"]]
            assert len(chances) == 5
            assert chances == sorted(chances, reverse=True)
            assert token["logprob"] == chances[0] <= 0
            assert token["bytes"] == list(token["token"].encode())
        choices = streamed(server, CHAT, **asked)
        assert_alike(content_of(choices), content)
        for choice in choices:
            if choice["logprobs"]:
                assert choice["delta"]["content"].encode() == bytes_of(
                    choice["logprobs"]["content"])

    def test_have_the_bytes_of_characters_in_parts(self, server):
        choices = streamed(server, COMPLETION, **JAPANESE, n_probs=1)
        text, shown = "", b""
        for choice in choices:
            text += choice["text"]
            if choice["logprobs"]:
                shown += bytes_of(choice["logprobs"]["content"])
            if "\ufffd" not in text:
                assert text.encode().startswith(shown)
        assert shown.decode(errors="replace") == text
        whole = ask(server, COMPLETION, **JAPANESE, n_probs=1)
        assert bytes_of(whole["logprobs"]["content"]) == shown
        assert len(whole["logprobs"]["content"]) == 16

    def test_end_before_a_stop_word(self, server):
        asked = {"prompt": "One, two, three,", "max_tokens": 12}
        text = ask(server, COMPLETION, **asked)["text"]
        stop = text[len(text) // 2:][:6]
        whole = ask(server, COMPLETION, **asked, stop=[stop], n_probs=1)
        assert whole["text"] == text.split(stop)[0]
        assert bytes_of(whole["logprobs"]["content"]).decode() == whole["text"]
        choices = streamed(server, COMPLETION, **asked, stop=[stop], n_probs=1)
        assert_alike(content_of(choices), whole["logprobs"]["content"])

    def test_of_a_completion_are_lists(self, server):
        choice = ask(server, COMPLETION, prompt="One, two, three,", max_tokens=6, logprobs=3)
        lists = choice["logprobs"]
        assert "".join(lists["tokens"]) == choice["text"]
        ends = [*lists["text_offset"][1:], None]
        assert lists["tokens"] == [choice["text"][begin:end]
                                   for begin, end in zip(lists["text_offset"], ends)]
        for token, chance, top in zip(lists["tokens"], lists["token_logprobs"],
                                      lists["top_logprobs"]):
            assert len(top) == 3
            assert top[token] == chance == max(top.values())

    def test_after_samplers_are_probabilities(self, server):
        asked = {**HI, "n_probs": 10, "post_sampling_probs": True}
        for token in ask(server, CHAT, **asked)["logprobs"]["content"]:
            assert token["prob"] == 1
            assert [likely["prob"] for likely in token["top_probs"]] == [1]
        drawn = ask(server, CHAT, **{**asked, "temperature": 1.5, "top_k": 4, "min_p": 0,
                                     "top_p": 1, "seed": 5})
        for token in drawn["logprobs"]["content"]:
            likely = {other["id"]: other["prob"] for other in token["top_probs"]}
            assert len(likely) == 4
            assert likely[token["id"]] == token["prob"]
            assert abs(sum(likely.values()) - 1) < 1e-5

    def test_change_nothing_else(self, server):
        asked = {**HI, "max_tokens": 12, "temperature": 1.2, "seed": 3}
        plain = ask(server, CHAT, **asked)
        assert plain["logprobs"] is None
        for fields in ({"logprobs": True, "top_logprobs": 20},
                       {"n_probs": 20, "post_sampling_probs": True}, {"logit_bias": {}}):
            assert ask(server, CHAT, **asked, **fields)["message"] == plain["message"]


def refused(server, body):
    """The message of the error."""
    status, _, text = server.request("POST", CHAT, body)
    assert status == 400, text[:300]
    return json.loads(text)["error"]["message"]


class TestBias:
    @pytest.mark.parametrize("bias", [
        {" Paris": False}, [[" Paris", False]], {" Paris": -100}, [[" Paris", -100]]])
    def test_a_bias_names_a_token_by_its_text(self, server, bias):
        answer = ask(server, CHAT, messages=[user(CAPITAL)], max_tokens=8, logit_bias=bias)
        assert " Paris" not in answer["message"]["content"]

    def test_a_bias_leaves_the_logprobs_the_models_own(self, server):
        asked = {**HI, "max_tokens": 1, "logprobs": True, "top_logprobs": 2}
        best, second = ask(server, CHAT, **asked)["logprobs"]["content"][0]["top_logprobs"]
        biased = ask(server, CHAT, **asked, logit_bias={str(best["id"]): -100})
        [token] = biased["logprobs"]["content"]
        assert_alike(token["top_logprobs"], [best, second])
        assert_alike([token], [second])

    def test_a_bias_of_most_of_the_vocabulary_is_honoured(self, server):
        paris = server.json("POST", "/tokenize", {"content": " Paris"})["tokens"]
        answer = ask(server, CHAT, messages=[user(CAPITAL)], max_tokens=3,
                     logit_bias=[[token, False] for token in range(VOCABULARY)
                                 if token not in paris])
        assert answer["message"]["content"] == " Paris" * 3

    def test_a_bias_that_leaves_no_token_is_400(self, server):
        every = [[token, False] for token in range(VOCABULARY)]
        assert "forbids every token" in refused(server, {**HI, "logit_bias": every})

    def test_a_bias_of_thousands_is_a_list(self, server):
        wide = {str(token): -1 for token in range(4096)}
        assert server.ask(CAPITAL, logit_bias=wide).text
        assert "4096 members" in refused(server, {**HI, "logit_bias": {**wide, "x": 1}})
