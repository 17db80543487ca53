"""Replies that are held to a schema or a grammar, over HTTP.

Goal: what the reply has to be, it is, whole and streamed, in chats and completions. What llama.cpp
can't compile is a 400 with the place, and a grammar that explodes ends its own request alone.
"""

import json
import re
import threading

import pytest

from server_case import CAPITAL, CHAT, CONTEXTS, HttpError, Server, user

COMPLETION = "/v1/completions"
PLACE = {"type": "object", "additionalProperties": False, "required": ["city", "rooms"],
         "properties": {"city": {"type": "string", "maxLength": 20},
                        "rooms": {"type": "integer", "minimum": 1, "maximum": 99}}}
# The stacks of this grammar double with each "x".
EXPLODES = 'root ::= "x" root "y" | "x" root "z" | ""'
ASK = "Name a place."


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("grammar")) as server:
        yield server


def of_schema(schema):
    return {"response_format": {"type": "json_schema",
                                "json_schema": {"name": "it", "schema": schema}}}


class TestReplies:
    @pytest.mark.parametrize("fields", [of_schema(PLACE), {"json_schema": PLACE}])
    @pytest.mark.parametrize("temperature", [0, 1.5])
    def test_a_reply_is_json_of_its_schema(self, server, fields, temperature):
        ask = {"max_tokens": 200, "temperature": temperature, "seed": 7, **fields}
        reply = server.ask(ASK, **ask)
        place = json.loads(reply.text)
        assert set(place) == {"city", "rooms"}
        assert isinstance(place["city"], str) and 1 <= place["rooms"] <= 99
        assert reply.finish == "stop"
        assert server.ask_streamed(ASK, **ask).text == reply.text

    def test_a_reply_is_any_object(self, server):
        reply = server.ask("Answer with a small JSON object.", max_tokens=400,
                           response_format={"type": "json_object"})
        if reply.finish == "stop":
            assert isinstance(json.loads(reply.text), dict)
        else:
            assert reply.text.lstrip().startswith("{")

    def test_a_reply_is_of_its_grammar(self, server):
        reply = server.ask(CAPITAL, grammar='root ::= [A-Z]{3} "-" [0-9]{4}')
        assert re.fullmatch("[A-Z]{3}-[0-9]{4}", reply.text)

    def test_a_completion_is_of_its_grammar(self, server):
        status, _, body = server.request("POST", COMPLETION, {
            "prompt": "One, two,", "temperature": 0, "max_tokens": 20,
            "grammar": 'root ::= ("three" | "four") "!"'})
        assert status == 200
        assert json.loads(body)["choices"][0]["text"] in ("three!", "four!")

    def test_equal_prompts_have_grammars_of_their_own(self, server):
        letters = "abcdefgh"
        replies = {}

        def ask(letter):
            replies[letter] = server.ask(CAPITAL, max_tokens=20,
                                          grammar=f'root ::= "{letter}"{{9}}').text

        threads = [threading.Thread(target=ask, args=letter) for letter in letters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert replies == {letter: letter * 9 for letter in letters}


class TestRefusals:
    @pytest.mark.parametrize("grammar, says", [
        ("root ::= \"a\"\nb ::= (", "line 2"), ("root = 1", "line 1, column 6"),
        ("root ::= nowhere", "nowhere"), ("a ::= \"b\"", "root"),
        ("root ::= root \"a\" | \"b\"", "left recursion"), ("root ::= [a-z]{2001}", "repetitions"),
        ("root ::= " + "(" * 10**6, "grammar"), ("root ::= \"\0\"", "zero byte")])
    def test_a_grammar_that_cannot_be_compiled_is_400_and_says_where(self, server, grammar, says):
        with pytest.raises(HttpError) as caught:
            server.ask(CAPITAL, grammar=grammar)
        assert caught.value.status == 400
        assert says in caught.value.error()["message"]

    def test_a_grammar_of_nothing_is_400(self, server):
        with pytest.raises(HttpError) as caught:
            server.ask(CAPITAL, grammar=r"root ::= [^\x00-\UFFFFFFFF]")
        assert caught.value.status == 400
        assert "allows no token" in caught.value.error()["message"]

    def test_a_grammar_that_explodes_ends_its_own_request_alone(self, server):
        status, _, body = server.request("POST", "/tokenize", {"content": "x"})
        assert status == 200
        [letter] = json.loads(body)["tokens"]
        plain = server.ask(CAPITAL).text
        ended = []

        def explode():
            ended.append(server.request("POST", CHAT, {
                "messages": [user(CAPITAL)], "grammar": EXPLODES, "max_tokens": 100,
                "logit_bias": {str(letter): 100}}))

        thread = threading.Thread(target=explode)
        thread.start()
        assert server.ask(CAPITAL).text == plain
        thread.join()
        [(status, _, body)] = ended
        assert status == 503
        assert "the grammar of the reply was not applied" in json.loads(body)["error"]["message"]
        assert server.ask(CAPITAL, grammar='root ::= "yes"').text == "yes"


def loop_of_two():
    return {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            "$ref": "#/$defs/a"}


def many_words(count, length):
    return {"type": "string", "enum": [f"{i}".ljust(length, "y") for i in range(count)]}


def many_members(count):
    return {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(count)}}


class TestHostileSchemas:
    @pytest.mark.parametrize("schema, status, says", [
        ({"$ref": "#"}, 400, "$ref"),
        (loop_of_two(), 400, "left recursion"),
        (many_words(1000, 1024), 503, "more than 1 s of CPU time"),
        (many_members(1000), 400, "more than 1 s of CPU time"),
        (many_members(2000), 400, "more than 1024 members"),
        ({"type": "string", "pattern": "^(a$"}, 400, "unbalanced parentheses"),
    ])
    def test_each_is_refused_and_nothing_is_stored(self, server, schema, status, says):
        question = f"Name a place, not {says}."  # The title of what would be stored.
        with pytest.raises(HttpError) as error:
            server.ask(question, **of_schema(schema))
        assert error.value.status == status
        assert says in error.value.error()["message"]
        assert server.ask(CAPITAL).text
        assert question not in [context["title"] for context
                                in server.json("GET", CONTEXTS)["contexts"]]

    @pytest.mark.parametrize("schema", [
        {"type": "string", "description": "y" * 2**20},
        {"type": "string", "pattern": "^((((a{1,99}){1,99}){1,99}){1,99})$"},
        {"type": "string", "pattern": "^" + "(" * 5000 + "a" + ")" * 5000 + "$"},
    ])
    def test_what_has_a_small_grammar_is_taken(self, server, schema):
        assert server.ask(ASK, **of_schema(schema)).text.startswith('"')
