"""Goal: tokens are asked for and given by their ids as they are by their text.

Method: texts that the server tokenizes, asked as texts and as ids at temperature 0; what both may
reuse of each other.
"""

import pytest

import server_case
from server_case import CAPITAL, DEFAULT_SYSTEM, STORY, HttpError, new_server

COMPLETION = "/v1/completions"
WINDOW = 128


def ids_of(server, text, **fields):
    body = {"content": text, "add_special": True, **fields}
    return server.json("POST", "/tokenize", body)["tokens"]


def complete(server, prompt, **fields):
    """What is said, and the usage."""
    body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, **fields}
    answer = server.json("POST", COMPLETION, body)
    return answer["choices"][0]["text"], answer["usage"]


def cached(usage):
    return usage["prompt_tokens_details"]["cached_tokens"]


def refusal(server, prompt, **fields):
    with pytest.raises(HttpError) as caught:
        complete(server, prompt, **fields)
    assert caught.value.status == 400
    return caught.value.error()["message"]


class TestPrompt:
    def test_of_ids_is_answered_as_its_text_is(self, server):
        text = "Beside the harbour of Skerry one, two, three,"
        ids = ids_of(server, text)
        first, usage = complete(server, text)
        assert first and usage["prompt_tokens"] == len(ids)
        again = complete(server, text)
        assert cached(again[1]) == len(ids) - 1
        assert complete(server, ids) == again

    def test_of_ids_is_known_to_its_text_and_to_a_chat(self, server):
        ids = ids_of(server, STORY)
        _, usage = complete(server, ids)
        assert usage["prompt_tokens"] == len(ids) > 100 > cached(usage)
        assert cached(complete(server, STORY)[1]) == len(ids) - 1
        # A chat's own markup, which no text can hold.
        chat = server.ask(CAPITAL)
        markup = (f"<|im_start|>system\n{DEFAULT_SYSTEM}<|im_end|>\n"
                  f"<|im_start|>user\n{CAPITAL}<|im_end|>\n<|im_start|>assistant\n")
        text, usage = complete(server, ids_of(server, markup, add_special=False,
                                              parse_special=True))
        assert "Paris" in text
        assert usage["prompt_tokens"] == chat.usage["prompt_tokens"]
        assert cached(usage) == usage["prompt_tokens"] - 1

    def test_of_ids_can_be_streamed(self, server):
        ids = ids_of(server, "One, two, three,")
        complete(server, ids)
        whole, _ = complete(server, ids)
        body = {"prompt": ids, "max_tokens": 8, "temperature": 0, "stream": True}
        with server_case.Stream(server, COMPLETION, body, {}) as stream:
            assert "".join(stream.pieces()) == whole

    def test_is_one_a_request(self, server):
        for prompt in (["a", "b"], [[1, 2], [3]], [[1, 2]], ["a", 1], [["a"]]):
            assert "one prompt a request" in refusal(server, prompt), prompt

    def test_of_ids_that_are_none_is_refused(self, server):
        for prompt in ([], [-1], [1.5], [1, "a"], [1, [2]], [2**31], [None], [True]):
            assert "'prompt" in refusal(server, prompt), prompt
        [model] = server.json("GET", "/v1/models")["data"]
        num_ids = model["meta"]["n_vocab"]
        message = refusal(server, [0, num_ids])
        assert f"token {num_ids}," in message and f"0 to {num_ids - 1}" in message
        assert complete(server, [0, num_ids - 1], max_tokens=1)[1]["prompt_tokens"] == 2

    def test_of_more_ids_than_the_window_is_refused_as_its_text_is(self):
        with new_server("--window", WINDOW) as narrow:
            ids = ids_of(narrow, STORY)
            assert len(ids) > WINDOW
            for overflow in ("truncate", "refuse"):
                message = refusal(narrow, ids, overflow=overflow)
                assert str(WINDOW) in message
                assert message == refusal(narrow, STORY, overflow=overflow)
            assert "Paris" in narrow.ask(CAPITAL).text


class TestPieces:
    def pieces(self, server, text, **fields):
        body = {"content": text, "with_pieces": True, **fields}
        tokens = server.json("POST", "/tokenize", body)["tokens"]
        plain = server.json("POST", "/tokenize", {"content": text, **fields})["tokens"]
        assert [token["id"] for token in tokens] == plain
        return [token["piece"] for token in tokens]

    def test_are_the_text_between_them(self, server):
        assert self.pieces(server, "What is the capital?") == ["What", " is", " the", " capital",
                                                               "?"]
        assert "".join(self.pieces(server, STORY)) == STORY
        assert self.pieces(server, "") == []

    def test_that_are_parts_of_a_character_are_bytes(self, server):
        text = "\U0001f701"
        pieces = self.pieces(server, text)
        assert len(pieces) > 1 and all(isinstance(piece, list) for piece in pieces)
        assert bytes(byte for piece in pieces for byte in piece).decode() == text

    def test_of_control_tokens_are_their_names(self, server):
        assert self.pieces(server, "<|im_end|>", parse_special=True) == ["<|im_end|>"]
        assert len(self.pieces(server, "<|im_end|>")) > 1
