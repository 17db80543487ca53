"""Goal: with "edits": "cut" a conversation from which pieces left goes on without reading again.

Method: SmolLM2 thinks before it answers, bound by a grammar; the client sends its answers back
without the thoughts. Tokens that are run are counted, also behind kill -9. The client of a second
conversation removes old messages.
"""

import pytest

from server_case import CHAT, HttpError, Server, assistant, new_folder, run_attndb, user

CUT_HEADER = "X-Attndb-Cut"
THOUGHTS = r'root ::= "<think>" [a-z ]{40,60} "</think>" [A-Z] [a-z ]{40,60}'
RULES = ("Think first, then answer in one sentence. Be polite and brief, and do not tell people "
         "what they did not ask for, whatever they say.")
QUESTIONS = [f"Tell me what the {animal} eats in {place}, and how it finds its food there."
             for animal, place in [("fox", "winter"), ("owl", "the dark"), ("otter", "a river"),
                                   ("goat", "the mountains"), ("hare", "a field")]]


def run_tokens(usage):
    return usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]


def cut_tokens(usage):
    return usage["prompt_tokens_details"].get("cut_tokens", 0)


def end_of(usage):
    """Where the stored turn ends: the tokens that were cut are there, too."""
    return usage["prompt_tokens"] + cut_tokens(usage) + usage["completion_tokens"]


class Thinker:
    """A conversation whose client drops all thoughts."""

    def __init__(self, **fields):
        self.messages = [{"role": "system", "content": RULES}]
        self.fields = {"grammar": THOUGHTS, "max_tokens": 200, **fields}

    def say(self, server, text):
        self.messages.append(user(text))
        reply = server.ask(self.messages, **self.fields)
        self.messages.append(assistant(reply.text.split("</think>")[-1]))
        server.wait_until_durable(reply.headers["X-Attndb-Context"])
        return reply


def talk(restarts, **fields):
    """The replies to all questions. restarts: the server is killed behind the second one."""
    thinker = Thinker(**fields)
    replies = []
    with new_folder() as folder:
        for questions in (QUESTIONS[:2], QUESTIONS[2:]) if restarts else (QUESTIONS,):
            with Server(folder / "store") as server:
                replies += [thinker.say(server, question) for question in questions]
                server.kill()
    return replies


@pytest.mark.parametrize("restarts", [False, True])
def test_only_new_tokens_are_run(restarts):
    replies = talk(restarts, edits="cut")
    num_cut = 0
    for before, reply in zip(replies, replies[1:]):
        new = reply.usage["prompt_tokens"] + cut_tokens(reply.usage) - end_of(before.usage)
        assert 0 < new < 60
        # The last token of a reply may not have been run.
        assert new <= run_tokens(reply.usage) <= new + 1
        assert cut_tokens(reply.usage) > num_cut + 10
        num_cut = cut_tokens(reply.usage)
        assert reply.headers[CUT_HEADER] == str(num_cut)
        assert "X-Attndb-Dropped" not in reply.headers
        assert "dropped_tokens" not in reply.usage


def test_without_it_what_follows_is_run_again():
    replies = talk(False)
    for before, reply in zip(replies, replies[1:]):
        assert cut_tokens(reply.usage) == 0
        assert CUT_HEADER not in reply.headers
        new = reply.usage["prompt_tokens"] - before.usage["prompt_tokens"]
        assert run_tokens(reply.usage) == pytest.approx(new, abs=3)


@pytest.fixture(scope="module")
def edited():
    """A server, and a conversation that it has answered with cuts."""
    with new_folder() as folder, Server(folder / "store", "--log", "json") as server:
        thinker = Thinker(edits="cut")
        for question in QUESTIONS[:3]:
            last = thinker.say(server, question)
        yield server, thinker, last


def test_the_context_says_its_cuts(edited):
    server, _, last = edited
    context = server.describe(last.headers["X-Attndb-Context"])
    assert context["num_dropped"] == cut_tokens(last.usage)
    assert len(context["cuts"]) == 2
    assert f'"cut_tokens":{cut_tokens(last.usage)}' in server.said()


def test_a_stream_says_it_too(edited):
    server, thinker, last = edited
    messages = thinker.messages + [user("Is that so?")]
    reply = server.ask_streamed(messages, edits="cut")
    assert cut_tokens(reply.usage) > cut_tokens(last.usage)
    assert reply.headers[CUT_HEADER] == str(cut_tokens(reply.usage))


def test_the_same_conversation_without_it_is_exact(edited):
    server, thinker, _ = edited
    messages = thinker.messages + [user("Why do you say so?")]
    reply = server.ask(messages)
    assert cut_tokens(reply.usage) == 0
    with new_folder() as folder, Server(folder / "store") as fresh:
        assert fresh.ask(messages).text == reply.text


def test_messages_that_are_gone_are_cut(edited):
    server, thinker, last = edited
    messages = thinker.messages[:1] + thinker.messages[3:] + [user("And then?")]
    reply = server.ask(messages, edits="cut")
    assert cut_tokens(reply.usage) > cut_tokens(last.usage)
    assert run_tokens(reply.usage) < 20
    text = server.json("POST", "/attndb/v1/text",
                       {"context": reply.headers["X-Attndb-Context"]})["text"]
    assert [QUESTIONS[i] in text for i in range(3)] == [False, True, True]


def test_a_message_that_is_replaced_is_run(edited):
    server, thinker, _ = edited
    messages = [dict(message) for message in thinker.messages] + [user("And then?")]
    messages[1]["content"] = "[cleared]"
    assert run_tokens(server.ask(messages, edits="cut").usage) > 100


@pytest.mark.parametrize("path, body", [
    (CHAT, {"messages": [user("Hi")]}),
    ("/v1/messages", {"messages": [user("Hi")], "max_tokens": 4}),
    ("/v1/responses", {"input": "Hi"})])
def test_other_values_are_refused(edited, path, body):
    for value in ("drop", 1, ""):
        with pytest.raises(HttpError) as caught:
            edited[0].json("POST", path, {**body, "edits": value})
        assert caught.value.status == 400
        assert "'edits'" in caught.value.error()["message"]
    for value in ("exact", "cut", None):
        edited[0].json("POST", path, {**body, "edits": value, "max_tokens": 4})


def test_the_server_has_a_default():
    """A request that says "exact" is exact all the same, and so is explain."""
    with new_folder() as folder, Server(folder / "store", "--edits", "cut") as server:
        assert "behind a removed piece of a chat are not run again" in server.said()
        assert '"edits": "exact"' in server.said()
        thinker = Thinker()
        for question in QUESTIONS[:2]:
            last = thinker.say(server, question)
        assert cut_tokens(last.usage) > 0
        messages = thinker.messages + [user("Is that so?")]
        assert cut_tokens(server.ask(messages, edits="exact").usage) == 0
        server.json("POST", "/attndb/v1/explain", {"messages": messages})
        assert cut_tokens(server.ask(messages, max_tokens=1).usage) > cut_tokens(last.usage)


def test_other_defaults_are_refused(tmp_path):
    error = run_attndb(tmp_path / "store", "serve", "--edits", "some", exit_code=2)["error"]
    assert "--edits is 'some', expected exact or cut" in error["message"]


def words_of(messages):
    return [(message["role"], message["content"]) for message in messages]


def test_a_context_has_the_words_that_are_left(edited):
    """Of both turns with cuts. The thoughts of the last reply are there: nothing dropped them."""
    server, thinker, last = edited
    name = last.headers["X-Attndb-Context"]
    stored = server.json("POST", "/attndb/v1/messages", {"context": name})
    said = words_of(stored["messages"])
    assert said[:-1] == words_of(thinker.messages[:-1])
    assert said[-1][1].endswith(thinker.messages[-1]["content"])
    whole = server.json("POST", "/attndb/v1/text", {"context": name})
    assert stored["num_tokens"] == whole["num_tokens"] == server.describe(name)["num_tokens"]
    text = whole["text"]
    assert text.count("<think>") == 1 == said[-1][1].count("<think>")
    question = [user("Why is that?")]
    exact = server.ask(question, context=name, max_tokens=1)
    cut = server.ask(question, context=name, max_tokens=1, edits="cut")
    assert cut_tokens(exact.usage) == 0
    assert cut_tokens(cut.usage) == cut_tokens(last.usage)
    assert cut.usage["prompt_tokens"] == exact.usage["prompt_tokens"]
    assert run_tokens(cut.usage) < 20 < 60 < run_tokens(exact.usage)


def test_the_command_line_has_the_words_that_are_left():
    """On the store itself. It asks as a request without "cut" does, and stores what it asked."""
    asks = ("--max-tokens", 8, "--plan", "full")
    why = "Why is that?"
    with new_folder() as folder:
        store = folder / "store"
        with Server(store) as server:
            thinker = Thinker(edits="cut")
            for question in QUESTIONS[:3]:
                name = thinker.say(server, question).headers["X-Attndb-Context"]
            text = server.json("POST", "/attndb/v1/text", {"context": name})["text"]
            exact = server.ask([user(why)], context=name, max_tokens=1)
        before = run_attndb(store, "describe", name)
        assert run_attndb(store, "cat", name)["text"] == text
        asked = run_attndb(store, "ask", "-c", name, why, *asks)
        talk = run_attndb(store, "chat", "-c", name, "--name", "talk", *asks, stdin=why + "\n")
        for turn in (asked, talk["turns"][0]):
            assert turn["reused_tokens"] == before["cuts"][0]["dropped"][0][0]
            assert turn["reused_tokens"] + turn["new_tokens"] == exact.usage["prompt_tokens"]
        assert run_attndb(store, "describe", "talk")["num_dropped"] == 0
        assert run_attndb(store, "cat", "talk")["text"].startswith(text)
        # --tokens counts the tokens of the store, and goes on from the session with its cuts.
        some = run_attndb(store, "ask", "-c", name, why, *asks, "--tokens",
                          f"0-{before['num_tokens']}")
        assert some["new_tokens"] < 20


def test_the_other_interfaces_cut_too(edited):
    server, thinker, last = edited
    system, *messages = thinker.messages
    asked = {"messages": messages + [user("Are you sure?")], "system": system["content"],
             "max_tokens": 4, "edits": "cut"}
    usage = server.json("POST", "/v1/messages", asked)["usage"]
    assert usage["cut_tokens"] > cut_tokens(last.usage)
    assert usage["cache_creation_input_tokens"] < 30
    asked = {"input": messages + [user("Is it true?")], "instructions": system["content"],
             "max_output_tokens": 4, "edits": "cut"}
    usage = server.json("POST", "/v1/responses", asked)["usage"]
    assert usage["input_tokens_details"]["cut_tokens"] > cut_tokens(last.usage)
    assert usage["input_tokens_details"]["cache_write_tokens"] < 30
