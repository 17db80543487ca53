"""Goal: a conversation goes on whatever happens to the server, and tells of its tokens.

Method: openai's client; servers that are killed with SIGKILL once a turn is durable, beside one
that nobody disturbs; contexts that `attndb import` made; windows of 128 tokens.
"""

import openai
import pytest

import server_case
from openai_client import client_of
from server_case import (CAPITAL, CONTEXT_HEADER, CONTEXTS, DROPPED_HEADER, STORY, HttpError,
                         Server, assistant, new_folder, run_attndb, run_client, user)

QUESTIONS = ["Name a city by the sea.", "Which country is it in?", "What do people eat there?"]
WINDOW = 128


class Talk:
    """A conversation, turn by turn, as a client of openai's library has it."""

    def __init__(self, **fields):
        self.messages = []
        self.fields = {"temperature": 0, "max_tokens": 12, **fields}

    def say(self, server, text):
        """The words of the streamed answer, its usage, and the context that it is stored as."""
        self.messages.append(user(text))
        with client_of(server) as client:
            create = client.chat.completions.with_raw_response.create
            raw = create(model="smollm2", messages=self.messages, stream=True,
                         stream_options={"include_usage": True}, **self.fields)
            chunks = list(raw.parse())
        words = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.messages.append(assistant(words))
        return words, chunks[-1].usage, raw.headers[CONTEXT_HEADER]


def cached(usage):
    return usage.prompt_tokens_details.cached_tokens


@pytest.fixture(scope="module")
def undisturbed(server):
    """What a server says that runs from the first question to the last."""
    turns = []
    talk = Talk()
    for question in QUESTIONS:
        words, usage, context = talk.say(server, question)
        server.wait_until_durable(context)
        turns.append((words, usage))
    return turns


@pytest.fixture(scope="module")
def killed():
    """What servers say that are killed behind each turn, once it is durable."""
    turns = []
    talk = Talk()
    with new_folder() as folder:
        for question in QUESTIONS:
            with Server(folder / "store") as server:
                words, usage, context = talk.say(server, question)
                server.wait_until_durable(context)
                turns.append((words, usage))
                server.kill()
    return turns


@pytest.fixture(scope="module")
def skerry():
    """A server whose store holds an imported text."""
    with new_folder() as folder:
        imported = run_attndb(folder / "store", "import", "-", "--name", "skerry", "-m", "smollm2",
                              stdin=STORY)
        with Server(folder / "store") as server:
            server.imported_tokens = imported["num_tokens"]
            yield server


@pytest.fixture(scope="module")
def narrow():
    """A server whose window few turns fill."""
    with server_case.new_server("--window", WINDOW) as server:
        yield server


class TestKilledServer:
    def test_the_conversation_goes_on_as_if_nothing_had_happened(self, undisturbed, killed):
        assert all(words for words, _ in undisturbed)
        assert [words for words, _ in killed] == [words for words, _ in undisturbed]
        assert [usage.prompt_tokens for _, usage in killed] == [
            usage.prompt_tokens for _, usage in undisturbed]

    def test_no_token_is_run_again(self, undisturbed, killed):
        assert cached(killed[0][1]) == 0
        for (_, before), (_, usage) in zip(killed, killed[1:]):
            # All that was held: the last token of a reply may not have been run.
            assert cached(usage) >= before.total_tokens - 1
        # Another conversation may have begun with the same system message where nothing was killed.
        assert [cached(usage) for _, usage in killed[1:]] == [
            cached(usage) for _, usage in undisturbed[1:]]

    def test_the_store_is_sound_behind_a_kill(self):
        with new_folder() as folder:
            with Server(folder / "store") as server:
                server.wait_until_durable(server.ask(STORY).context)
                server.kill()
            run_attndb(folder / "store", "verify")

    def test_a_turn_that_was_cut_off_by_a_kill_leaves_the_last_one_as_it_was(self, folder):
        talk = [user(STORY + "What is the keeper called?")]
        with Server(folder / "store") as server:
            first = server.ask(talk)
            server.wait_until_durable(first.context)
            talk += [assistant(first.text), user("Tell me a long story about her.")]
            with server.stream(talk, max_tokens=500) as stream:
                pieces = stream.pieces()
                for _ in range(5):
                    next(pieces)
                server.kill()
        with Server(folder / "store") as server:
            again = server.ask(talk, max_tokens=4)
            assert again.cached >= first.usage["total_tokens"] - 1

    def test_words_that_the_tokenizer_would_cut_otherwise_go_on_too(self, folder):
        """The tokens of a hot reply are not always those that its words become again."""
        talks = []
        with Server(folder / "store") as server:
            for seed in range(2, 6):
                talk = [user("Say anything.")]
                first = server.ask(talk, temperature=3, top_k=0, top_p=1, min_p=0, seed=seed,
                                   max_tokens=24)
                talk += [assistant(first.text), user("Go on.")]
                server.wait_until_durable(first.context)
                assert server.ask(talk, max_tokens=1).cached >= first.usage["total_tokens"] - 1
                talks.append((talk, first))
            server.kill()
        with Server(folder / "store") as server:
            for talk, first in talks:
                assert server.ask(talk, max_tokens=1).cached >= first.usage["total_tokens"] - 1

    def test_a_reply_that_was_cut_within_a_character_goes_on(self, folder):
        """max_tokens may end a reply between the tokens of one character."""
        talk = [user("Say it again and again: 日本語 日本語 日本語 日本語")]
        talks = []
        with Server(folder / "store") as server:
            for max_tokens in range(2, 6):
                first = server.ask(talk, max_tokens=max_tokens)
                server.wait_until_durable(first.context)
                turn = [*talk, assistant(first.text), user("Go on.")]
                assert server.ask(turn, max_tokens=1).cached >= first.usage["total_tokens"] - 1
                talks.append((turn, first))
        with Server(folder / "store") as server:
            for turn, first in talks:
                assert server.ask(turn, max_tokens=1).cached >= first.usage["total_tokens"] - 1

    def test_a_reply_that_ended_at_a_stop_word_goes_on(self, folder):
        talk = [user("Count from one to ten in words.")]
        with Server(folder / "store") as server:
            whole = server.ask(talk, max_tokens=16).text
            stop = whole[len(whole) // 2:][:3]
            first = server.ask(talk, max_tokens=16, stop=[stop])
            assert first.finish == "stop"
            assert first.text == whole.split(stop)[0]
            talk += [assistant(first.text), user("Go on.")]
            server.wait_until_durable(first.context)
            server.kill()
        with Server(folder / "store") as server:
            again = server.ask(talk, max_tokens=1)
        # What the words hold was run; what lay behind the stop word is no part of it.
        assert again.cached >= first.usage["prompt_tokens"]


class TestTitles:
    def test_a_turn_that_names_its_context_alone_has_its_title(self, server):
        first = server.ask("Name a fish.", max_tokens=4).context
        second = server.ask("And a bird?", max_tokens=4, context=first).context
        server.wait_until_durable(second)
        third = server.ask("And a tree?", max_tokens=4, context=second).context
        assert [server.wait_until_durable(turn)["title"] for turn in (first, second, third)] == (
            ["Name a fish."] * 3)

    def test_a_conversation_is_listed_once_by_its_first_words(self, folder):
        talk = Talk()
        other = Talk(max_tokens=4)
        with Server(folder / "store") as server:
            turns = [talk.say(server, question)[2] for question in QUESTIONS]
            turns.append(other.say(server, "Name a\n\tfruit.")[2])
            for turn in turns:
                server.wait_until_durable(turn)
            every = {context["name"]: context
                     for context in server.json("GET", CONTEXTS)["contexts"]}
            titles = [every[turn]["title"] for turn in turns]
            assert titles == [QUESTIONS[0]] * 3 + ["Name a fruit."]
            ids = [every[turn]["id"] for turn in turns]
            assert [every[turn]["continues"] for turn in turns] == [None, ids[0], ids[1], None]
            listed = [context["name"] for context in run_client(server.url, "ls")["contexts"]]
            assert listed == turns[2:]
            assert len(run_client(server.url, "ls", "--all")["contexts"]) == 4
            shown = run_client(server.url, "ls", as_json=False)[0]
            assert f"#{ids[2]} {QUESTIONS[0]}" in shown and "turn-" not in shown, shown
            assert "2 contexts and 2 earlier turns (--all), " in shown, shown
            # A second way on from the first turn makes a branch of it.
            branch = Talk()
            branch.messages = talk.messages[:2]
            server.wait_until_durable(branch.say(server, "Is it old?")[2])
            assert len(run_client(server.url, "ls")["contexts"]) == 4
            # A turn that goes leaves its place to the one before it.
            server.json("DELETE", f"{CONTEXTS}/{turns[1]}")
            assert server.json("GET", f"{CONTEXTS}/{turns[2]}")["continues"] == ids[0]
            described = run_client(server.url, "describe", f"#{ids[2]}", as_json=False)[0]
            assert QUESTIONS[0] in described, described
            assert f"continues #{ids[0]}" in " ".join(described.split()), described


class TestDurability:
    def test_a_turn_says_when_it_is_durable(self, server):
        reply = server.ask("Name a tree.")
        info = server.wait_until_durable(reply.context)
        assert info["context"] == reply.context
        assert info["name"] == reply.context
        held = info["num_tokens"]
        assert reply.usage["total_tokens"] - 1 <= held <= reply.usage["total_tokens"]
        assert reply.context in [context["name"] for context
                                 in server.json("GET", server_case.CONTEXTS)["contexts"]]

    def test_a_context_can_be_pinned_and_removed(self, server):
        reply = server.ask("Name a flower.")
        path = f"{server_case.CONTEXTS}/{reply.context}"
        server.wait_until_durable(reply.context)
        assert server.json("POST", path, {"pinned": True, "ttl_seconds": 3600})["pinned"]
        assert server.describe(reply.context)["ttl_seconds"] == 3600
        assert not server.json("POST", path, {"pinned": False, "ttl_seconds": None})["pinned"]
        assert server.describe(reply.context)["ttl_seconds"] is None
        assert server.json("DELETE", path)["deleted"]
        with pytest.raises(HttpError) as caught:
            server.describe(reply.context)
        assert caught.value.status == 404
        again = server.ask("Name a flower.")
        assert again.cached <= again.usage["prompt_tokens"] - 4, "its words have to be run again"

    def test_a_turn_that_never_was_is_not_found(self, server):
        with pytest.raises(HttpError) as caught:
            server.describe("turn-000000000000000000000000")
        assert caught.value.status == 404


class TestTimeToLive:
    def test_is_the_servers_and_a_named_dialogue_keeps_its_own(self, folder):
        with Server(folder / "store", "--ttl", 2) as server:
            talk = [user("Name a fish.")]
            unnamed = server.ask(talk)
            assert server.wait_until_durable(unnamed.context)["ttl_seconds"] == 120
            first = server.ask(talk, store_as="fish")
            assert server.wait_until_durable("fish")["ttl_seconds"] == 120
            server.json("POST", f"{server_case.CONTEXTS}/fish",
                        {"ttl_seconds": 7777, "pinned": True})
            talk += [assistant(first.text), user("Where does it live?")]
            second = server.ask(talk, store_as="fish")
            info = server.wait_until_durable("fish")
            assert info["num_tokens"] >= second.usage["prompt_tokens"]
            assert (info["ttl_seconds"], info["pinned"]) == (7777, True)

    def test_takes_what_nobody_asked_for_and_nothing_that_is_pinned(self, folder):
        with Server(folder / "store") as server:
            gone, pinned = (server.ask(text).context for text in ("Name a tree.", "Name a bird."))
            for context in (gone, pinned):
                server.wait_until_durable(context)
                server.json("POST", f"{server_case.CONTEXTS}/{context}",
                            {"ttl_seconds": 1, "pinned": context == pinned})

        def names(server, **having):
            return {row["name"] for row in server.json("GET", server_case.CONTEXTS)["contexts"]
                    if having.items() <= row.items()}

        with Server(folder / "store") as server:
            server_case.wait_until(lambda: names(server, expired=True) == {gone}, "it is over")
            assert names(server) == {gone, pinned}
            last = server.ask("Name a river.").context
            server.wait_until_durable(last)
            server_case.wait_until(lambda: names(server) == {pinned, last}, "it is gone")


class TestNamedContext:
    def test_is_asked_without_running_its_tokens(self, skerry):
        reply = skerry.ask("Who is the keeper of the lighthouse?", context="skerry",
                           max_tokens=12)
        assert "Maren" in reply.text
        # Its last token may be another one before a question.
        assert reply.cached >= skerry.imported_tokens - 1

    def test_goes_on_as_a_conversation(self, skerry):
        talk = [user("When does the bakery open?")]
        first = skerry.ask(talk, context="skerry")
        assert "six" in first.text.lower() or "6" in first.text
        talk += [assistant(first.text), user("What does it sell?")]
        second = skerry.ask(talk, context="skerry")
        assert second.cached >= first.usage["total_tokens"] - 1

    def test_a_name_is_not_durable_while_its_next_turn_is_under_way(self, server):
        talk = [user("Name a fruit.")]
        first = server.ask(talk, store_as="fruit")
        assert server.wait_until_durable("fruit")["durable"]
        talk += [assistant(first.text), user("Count to one hundred.")]
        with server.stream(talk, store_as="fruit", max_tokens=60) as stream:
            pieces = stream.pieces()
            next(pieces)
            assert not server.describe("fruit")["durable"]
            assert list(pieces)
        held = first.usage["total_tokens"]
        assert server.wait_until_durable("fruit")["num_tokens"] > held

    def test_is_stored_whole_beside_a_reply_that_goes_on(self, folder):
        """The last token of the named reply once ran between two turns of a pass, and overwrote
        the other one's logits: the server died."""
        with Server(folder / "store") as server:
            with server.stream("Tell me of the sea.", store_as="a", max_tokens=60,
                               ignore_eos=True) as named:
                next(named.pieces())
                with server.stream("Tell me of the mountains.", max_tokens=200,
                                   ignore_eos=True) as other:
                    next(other.pieces())
                    named_end = list(named.events())[-1]["usage"]
                    other_end = list(other.events())[-1]["usage"]
            assert named_end["completion_tokens"] == 60
            assert other_end["completion_tokens"] == 200
            stored = server.wait_until_durable("a")
            assert stored["num_tokens"] == named_end["total_tokens"]

    def test_says_the_same_behind_a_restart(self, folder):
        run_attndb(folder / "store", "import", "-", "--name", "skerry", "-m", "smollm2",
                   stdin=STORY)
        talk = [user("When was the lighthouse built?")]
        with Server(folder / "store") as server:
            first = server.ask(talk, context="skerry")
            talk += [assistant(first.text), user("What is its keeper called?")]
            server.wait_until_durable(first.context)
            expected = server.ask(talk, context="skerry")
            server.kill()
        with Server(folder / "store") as server:
            second = server.ask(talk, context="skerry")
        assert second.text == expected.text
        assert second.cached >= first.usage["total_tokens"] - 1

    def test_that_does_not_exist_is_an_error_with_its_name(self, skerry):
        with client_of(skerry) as client, pytest.raises(openai.NotFoundError, match="atlantis"):
            client.chat.completions.create(model="smollm2", messages=[user("Where is it?")],
                                           extra_body={"context": "atlantis"})

    def test_is_named_by_a_header_as_well(self, skerry):
        named = {CONTEXT_HEADER: "skerry"}
        question = "When was the lighthouse built?"
        field = skerry.ask(question, context="skerry")
        for fields in ({}, {"context": None}, {"context": ""}, {"context": "skerry"}):
            reply = skerry.ask(question, named, **fields)
            assert reply.usage["prompt_tokens"] == field.usage["prompt_tokens"]
            assert reply.cached == field.usage["prompt_tokens"] - 1
        bare = skerry.json("POST", "/v1/completions", {"prompt": " And", "max_tokens": 1}, named)
        assert bare["usage"]["prompt_tokens"] > skerry.imported_tokens

    @pytest.mark.parametrize("header, fields, status, says", [
        ("atlantis", {}, 404, ["atlantis"]),
        ("skerry", {"context": "atlantis"}, 400, ["skerry", "atlantis"]),
        (b"sk\xe4rry", {}, 400, ["UTF-8"])])
    def test_of_a_header_is_checked_as_that_of_the_field(self, skerry, header, fields, status,
                                                         says):
        with pytest.raises(HttpError) as caught:
            skerry.ask("Where is it?", {CONTEXT_HEADER: header}, **fields)
        assert caught.value.status == status
        assert all(word in caught.value.error()["message"] for word in says)

    def test_is_what_a_bare_text_goes_on_from(self, skerry):
        body = {"prompt": " The keeper is called", "context": "skerry", "max_tokens": 4,
                "temperature": 0}
        usage = skerry.json("POST", "/v1/completions", body)["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= skerry.imported_tokens
        asked = skerry.json("POST", "/tokenize", {"content": body["prompt"]})["tokens"]
        assert usage["prompt_tokens"] == skerry.imported_tokens + len(asked)
        with pytest.raises(HttpError) as caught:
            skerry.json("POST", "/v1/completions", {**body, "context": "atlantis"})
        assert caught.value.status == 404
        assert "atlantis" in caught.value.error()["message"]

    def test_has_its_own_beginning(self, skerry):
        messages = [{"role": "system", "content": "Be brief."}, user("Where?")]
        with pytest.raises(HttpError) as caught:
            skerry.ask(messages, context="skerry")
        assert caught.value.status == 400


class TestWindow:
    def long_talk(self, server, **fields):
        """A conversation of so many turns that its first ones have to go, and the last reply."""
        talk = []
        for question in ("Name a city by the sea.",
                         "Which country is it in? Say it in a few words.",
                         "What do people eat there? Name two dishes.",
                         "What is the weather like there in the winter months?"):
            talk.append(user(question))
            reply = server.ask(talk, max_tokens=24, **fields)
            talk.append(assistant(reply.text))
        return talk, reply

    def test_a_conversation_that_outgrows_it_goes_on_and_says_so(self, narrow):
        _, reply = self.long_talk(narrow)
        assert reply.usage["prompt_tokens"] + 24 > WINDOW
        dropped = int(reply.headers[DROPPED_HEADER])
        assert 0 < dropped < reply.usage["prompt_tokens"]
        assert reply.text

    def test_a_stream_says_so_too(self, narrow):
        talk, _ = self.long_talk(narrow)
        reply = narrow.ask_streamed([*talk, user("Thank you.")])
        assert 0 < int(reply.headers[DROPPED_HEADER]) <= reply.usage["dropped_tokens"]

    def test_what_leaves_while_it_replies_is_told_too(self, narrow):
        prompt = [user("Tell me of the sea.")]
        reply = narrow.ask(prompt, max_tokens=WINDOW, ignore_eos=True)
        assert reply.usage["prompt_tokens"] < WINDOW
        assert int(reply.headers[DROPPED_HEADER]) == reply.usage["dropped_tokens"] > 0
        streamed = narrow.ask_streamed(prompt, max_tokens=WINDOW, ignore_eos=True)
        assert streamed.headers[DROPPED_HEADER] is None
        assert streamed.usage["dropped_tokens"] > 0

    def test_llama_cpps_name_for_the_length_of_a_reply_prevails(self, narrow):
        short = narrow.ask("Name a fish.", max_tokens=8, n_predict=3, ignore_eos=True)
        assert short.usage["completion_tokens"] == 3
        full = narrow.ask("Name a fish.", max_tokens=8, n_predict=-1, ignore_eos=True)
        assert full.usage["total_tokens"] == WINDOW
        assert full.finish == "length" and full.headers[DROPPED_HEADER] is None

    def test_who_stays_within_it_loses_nothing(self, narrow):
        assert narrow.ask("Name a fish.").headers[DROPPED_HEADER] is None

    @pytest.mark.parametrize("stream", [False, True])
    def test_who_wants_no_loss_is_refused_before_anything_is_run(self, narrow, stream):
        talk, _ = self.long_talk(narrow)
        passes = narrow.metric("attndb_passes")
        with client_of(narrow) as client, pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(
                model="smollm2", messages=[*talk, user("And then?")], max_tokens=24, stream=stream,
                extra_body={"overflow": "refuse"})
        assert str(WINDOW) in caught.value.message
        assert narrow.metric("attndb_passes") == passes

    @pytest.mark.parametrize("overflow", ["refuse", "truncate"])
    def test_a_message_that_alone_is_beyond_it_is_refused(self, narrow, overflow):
        with pytest.raises(HttpError) as caught:
            narrow.ask(STORY, overflow=overflow)
        assert caught.value.status == 400
        assert str(WINDOW) in caught.value.error()["message"]

    def test_so_is_one_in_the_middle_of_a_conversation(self, narrow):
        for talk in ([{"role": "system", "content": STORY}, user("Hi")],
                     [user("Hi"), assistant("Hello."), user(STORY), assistant("I see."),
                      user("And then?")]):
            with pytest.raises(HttpError) as caught:
                narrow.ask(talk)
            assert caught.value.status == 400
            which = next(i for i, message in enumerate(talk) if message["content"] == STORY)
            assert caught.value.error()["message"].startswith(f"messages[{which}] has more tokens")

    def test_a_refused_message_leaves_the_server_as_it_was(self, narrow):
        before = narrow.ask(CAPITAL)
        with pytest.raises(HttpError):
            narrow.ask(STORY)
        after = narrow.ask(CAPITAL)
        assert "Paris" in after.text
        assert after.cached == before.usage["prompt_tokens"] - 1

    def test_a_conversation_that_lost_tokens_goes_on_behind_a_kill(self, folder):
        with Server(folder / "store", "--window", WINDOW) as server:
            talk, last = self.long_talk(server)
            info = server.wait_until_durable(last.context)
            talk.append(user("Thank you."))
            expected = server.ask(talk)
            server.kill()
        with Server(folder / "store", "--window", WINDOW) as server:
            reply = server.ask(talk)
            num_run = server.metric("attndb_pass_prompt_tokens")
        assert reply.text == expected.text
        assert int(reply.headers[DROPPED_HEADER]) == int(expected.headers[DROPPED_HEADER])
        assert num_run <= reply.usage["prompt_tokens"] - (last.usage["total_tokens"] - 1)
        # What has left the window need not be run, but is no part of what was reused: of a window
        # that is full, half leaves before anything runs.
        assert info["num_dropped"] > 0
        num_left = info["num_tokens"] - info["num_dropped"]
        assert expected.cached == (num_left if num_left < WINDOW else WINDOW // 2)
        assert 0 < reply.cached <= WINDOW
        assert reply.cached < reply.usage["prompt_tokens"] - num_run
        assert reply.usage["run_tokens"] == num_run
