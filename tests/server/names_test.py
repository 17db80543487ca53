"""Goal: a context's name stands for what it names now, and for what was answered a moment ago.

Method: documents that are replaced, appended to, renamed and removed between the turns of a chat;
what a prompt holds is told by /attndb/v1/explain. Turns are changed and asked before they are
durable: the first request that names them comes when their answer has come.
"""

import pytest

from server_case import (CHAT, CONTEXTS, STORY, HttpError, Server, assistant, run_client, user,
                         wait_until)

NOT_FOUND = 3
MAREN = "The tower is 38 metres tall. Its keeper is called Maren."
OLAF = "The tower is 40 metres tall. Its keeper is called Olaf."
MORE = " The spare key hangs behind the red door."


def store(server, name, text, **fields):
    return server.json("POST", CONTEXTS, {"name": name, "text": text, **fields})


def prompt_of(server, messages, context):
    """The text of all tokens that the model reads of these messages."""
    body = {"messages": messages, "context": context, "top": 1}
    return "".join(server.json("POST", "/attndb/v1/explain", body)["tokens"])


def status_of(call, *args, **fields):
    with pytest.raises(HttpError) as caught:
        call(*args, **fields)
    return caught.value.status


class Talk:
    """A first question to a document, its answer, and a second question."""

    def __init__(self, server, name):
        self.server = server
        asked = [user("What is the keeper called?")]
        self.first = server.ask(asked, context=name)
        self.messages = [*asked, assistant(self.first.text), user("How tall is the tower?")]
        self.words = ["What is the keeper called?", self.first.text, "How tall is the tower?"]

    def ask(self, name):
        return self.server.ask(self.messages, context=name)

    def prompt(self, name):
        return prompt_of(self.server, self.messages, name)

    def goes_on(self, name):
        return self.ask(name).cached >= self.first.usage["total_tokens"] - 1


class TestADocumentThatChanges:
    def test_a_follow_up_begins_with_what_replaced_it(self, server):
        store(server, "replaced", MAREN)
        talk = Talk(server, "replaced")
        assert talk.goes_on("replaced")
        assert MAREN in talk.prompt("replaced")
        num_tokens = store(server, "replaced", OLAF, replace=True)["num_tokens"]
        prompt = talk.prompt("replaced")
        assert OLAF in prompt and MAREN not in prompt
        assert all(words in prompt for words in talk.words), "the words of the turns are there"
        assert talk.ask("replaced").cached >= num_tokens, "the new text is not run again"
        store(server, "replaced", MAREN, replace=True)
        assert talk.goes_on("replaced"), "it is what it was again"

    def test_a_follow_up_begins_with_what_was_appended(self, server):
        store(server, "appended", MAREN)
        talk = Talk(server, "appended")
        store(server, "appended", MORE, append=True)
        prompt = talk.prompt("appended")
        assert MAREN + MORE in prompt
        assert all(words in prompt for words in talk.words)

    def test_a_follow_up_finds_it_under_its_new_name_alone(self, server):
        store(server, "old", MAREN)
        talk = Talk(server, "old")
        server.json("POST", f"{CONTEXTS}/old", {"name": "new"})
        assert status_of(talk.ask, "old") == 404
        assert status_of(talk.prompt, "old") == 404
        assert talk.goes_on("new")
        store(server, "old", OLAF)
        assert OLAF in talk.prompt("old")

    def test_a_follow_up_to_what_was_removed_is_not_found(self, server):
        store(server, "removed", MAREN)
        talk = Talk(server, "removed")
        assert server.json("DELETE", f"{CONTEXTS}/removed")["deleted"]
        assert status_of(talk.ask, "removed") == 404
        assert status_of(talk.prompt, "removed") == 404
        bare = {"prompt": " And", "context": "removed", "max_tokens": 1}
        assert status_of(server.json, "POST", "/v1/completions", bare) == 404

    def test_it_lives_as_long_as_somebody_asks_it(self, server):
        store(server, "used", MAREN)
        talk = Talk(server, "used")
        before = server.describe("used")["last_access_us"]
        talk.ask("used")
        assert server.describe("used")["last_access_us"] > before

    def test_a_chat_says_what_it_goes_on_with(self, server):
        store(server, "book", MAREN)
        talk = ["chat", "-c", "book", "--max-tokens", "4"]
        run_client(server.url, *talk, stdin="Who?\n")
        _, said = run_client(server.url, *talk, stdin="And?\n", as_json=False)
        assert "goes on with 'book.chat'\n" in said
        store(server, "book", OLAF, replace=True)
        _, said = run_client(server.url, *talk, stdin="And?\n", as_json=False)
        assert "'book.chat', which begins with another text than 'book' has now" in said
        _, said = run_client(server.url, "chat", "-n", "book.chat", stdin="", as_json=False)
        assert "goes on with 'book.chat'\n" in said
        server.json("DELETE", f"{CONTEXTS}/book")
        error = run_client(server.url, *talk, stdin="And?\n", exit_code=NOT_FOUND)["error"]
        assert "book" in error["message"] and "--name book.chat" in error["advice"]


class TestATurnThatWasJustAnswered:
    ROUNDS = 10

    def answer(self, server, number):
        return server.ask(STORY + str(number))

    def await_stores(self, server):
        wait_until(lambda: server.metric("attndb_pending_stores") == 0, "nothing is being stored")

    def test_is_removed_for_good(self, folder):
        with Server(folder / "store") as server:
            for i in range(self.ROUNDS):
                context = self.answer(server, i).context
                assert server.json("DELETE", f"{CONTEXTS}/{context}")["deleted"]
                assert status_of(server.describe, context) == 404
            self.await_stores(server)
            assert server.json("GET", CONTEXTS)["contexts"] == []
        with Server(folder / "store") as server:
            assert server.json("GET", CONTEXTS)["contexts"] == []

    def test_is_pinned_renamed_and_given_a_life(self, folder):
        with Server(folder / "store") as server:
            for i in range(self.ROUNDS):
                context = self.answer(server, i).context
                told = server.json("POST", f"{CONTEXTS}/{context}",
                                   {"pinned": True, "ttl_seconds": 3600, "name": f"turn{i}"})
                assert (told["durable"], told["pinned"], told["name"]) == (True, True, f"turn{i}")
        with Server(folder / "store") as server:
            rows = server.json("GET", CONTEXTS)["contexts"]
            assert [row["name"] for row in rows] == [f"turn{i}" for i in range(self.ROUNDS)]
            assert all(row["pinned"] and row["ttl_seconds"] == 3600 for row in rows)

    def test_is_what_a_chat_and_a_text_go_on_from(self, folder):
        with Server(folder / "store") as server:
            for i in range(self.ROUNDS):
                first = self.answer(server, i)
                second = server.ask("And?", context=first.context)
                assert second.cached >= first.usage["total_tokens"] - 1
                third = server.json("POST", "/v1/completions",
                                    {"prompt": " So", "context": second.context, "max_tokens": 1})
                details = third["usage"]["prompt_tokens_details"]
                assert details["cached_tokens"] >= second.usage["total_tokens"] - 1
                assert second.usage["prompt_tokens"] > first.usage["prompt_tokens"]

    def test_is_shown_and_explained(self, folder):
        with Server(folder / "store") as server:
            for i in range(self.ROUNDS // 2):
                context = self.answer(server, i).context
                text = server.json("POST", "/attndb/v1/text", {"context": context})["text"]
                assert f"{STORY}{i}" in text
                context = self.answer(server, f"{i} again").context
                told = server.json("POST", "/attndb/v1/explain", {"context": context})
                assert told["reuse"]["tokens"] > 0
                context = self.answer(server, f"{i} once more").context
                assert run_client(server.url, "describe", context)["name"] == context
                context = self.answer(server, f"{i} a last time").context
                assert run_client(server.url, "rm", context)["removed"] == [context]

    def test_gives_its_name_to_the_turn_behind_it(self, folder):
        with Server(folder / "store") as server:
            talk = []
            for i in range(self.ROUNDS):
                talk.append(user("And?" if talk else STORY))
                reply = server.ask(talk, store_as="talk")
                talk.append(assistant(reply.text))
                if i == 0:
                    server.json("POST", f"{CONTEXTS}/talk", {"pinned": True})
            info = server.wait_until_durable("talk")
            assert info["num_tokens"] == reply.usage["total_tokens"]
            assert info["pinned"]

    def test_keeps_the_pin_that_came_while_it_replied(self, folder):
        with Server(folder / "store") as server:
            server.ask("Name a fish.", store_as="talk")
            server.wait_until_durable("talk")
            with server.stream("Tell me of the sea.", store_as="talk", max_tokens=60,
                               ignore_eos=True) as stream:
                pieces = stream.pieces()
                next(pieces)
                server.json("POST", f"{CONTEXTS}/talk", {"pinned": True})
                assert list(pieces)
            assert server.wait_until_durable("talk")["pinned"]

    def test_takes_no_name_that_a_document_has_by_then(self, folder):
        with Server(folder / "store") as server:
            with server.stream("Tell me of the sea.", store_as="book", max_tokens=120,
                               ignore_eos=True) as stream:
                events = stream.events()
                next(events)
                store(server, "book", MAREN)
                last = list(events)[-1]
            assert "is a document" in last["error"]["message"]
            self.await_stores(server)
            text = server.json("POST", "/attndb/v1/text", {"context": "book"})["text"]
            assert MAREN in text
            cut = [row["name"] for row in server.json("GET", CONTEXTS)["contexts"]
                   if row["name"] != "book"]
            assert len(cut) == 1 and cut[0].startswith("turn-"), "what it said is kept"


def test_the_tokens_of_a_context_are_explained_as_a_prompt(server):
    num_tokens = store(server, "part", MAREN, raw=True)["num_tokens"]
    whole = store(server, "whole", MAREN + MORE, raw=True)["num_tokens"]
    other = store(server, "another", OLAF, raw=True)["num_tokens"]

    def shared(prompt, context):
        body = {"prompt_of": prompt, "context": context}
        told = server.json("POST", "/attndb/v1/explain", body)["prefix"]
        return told["num_reused"], told["num_prompt_tokens"]

    assert shared("whole", "part") == (num_tokens, whole)
    assert shared("another", "part") == (shared("another", "part")[0], other)
    assert shared("another", "part")[0] < num_tokens
    for body in ({"prompt_of": "nobody"}, {"prompt_of": "whole", "context": "nobody"}):
        assert status_of(server.json, "POST", "/attndb/v1/explain", body) == 404
    assert status_of(server.json, "POST", "/attndb/v1/explain",
                     {"prompt_of": "whole", "text": "x"}) == 400
    assert status_of(server.json, "POST", CHAT, {"messages": []}) == 400
