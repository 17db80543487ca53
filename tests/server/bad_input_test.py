"""Goal: a request that no server could answer gets a typed error in the form of its interface.
Nothing is stored for it, and the replies of others go on.

Method: each interface gets the same bad requests. Another client's stream is open all the time: its
        pieces arrive while a slow request is refused, and behind each refusal. grammar_test.py has
        schemas and grammars, protocol_test.py has values of fields.
"""

import json
import threading

import pytest

import server_case
from server_case import CHAT, CONTEXTS, HttpError, Server, user, wait_until

RESPONSES = "/v1/responses"
ANTHROPIC = "/v1/messages"

# ChatML that misbehaves for some words of the last message.
TRAP = """
{%- set said = messages[-1].content -%}
{%- if said == 'Loop' -%}
{%- for a in range(10000) -%}{%- for b in range(10000) -%}{%- for c in range(10000) -%}
{%- endfor -%}{%- endfor -%}{%- endfor -%}
{%- elif said == 'Fill' -%}
{%- set held = namespace(text='0123456789abcdef') -%}
{%- for a in range(60) -%}{%- set held.text = held.text + held.text -%}{%- endfor -%}
{%- elif said == 'Raise' -%}
{{- raise_exception('the cat sleeps') -}}
{%- endif -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}


class Interface:
    """How a client asks, and how an error looks."""

    def __init__(self, path, as_body, tool, images, history):
        self.path = path
        self.body_of = as_body  # Takes a list of messages, or of items.
        self.tool = tool
        self.images = images  # Parts of a message that are no text, each with its type.
        self.history = history  # A question, a call, its result.

    def error_of(self, status, headers, body):
        answer = json.loads(body)
        assert headers["Content-Type"].startswith("application/json")
        if self.path == ANTHROPIC:
            assert answer["type"] == "error" and answer["request_id"] == headers["X-Request-Id"]
        else:
            assert answer["error"]["code"] == status
        assert answer["error"]["type"]
        return answer["error"]

    def __repr__(self):
        return self.path


def call_of(name):
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}


INTERFACES = [
    Interface(
        CHAT, lambda items: {"messages": items, "max_tokens": 2},
        {"type": "function", "function": FUNCTION},
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
         {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
         {"type": "file", "file": {"file_data": "AAAA", "filename": "a.pdf"}}],
        [user("Ask."), {"role": "assistant", "content": None, "tool_calls": [call_of("c1")]},
         {"role": "tool", "tool_call_id": "c1", "content": "Yes."}]),
    Interface(
        RESPONSES, lambda items: {"input": items, "max_output_tokens": 2},
        {"type": "function", **FUNCTION},
        [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
         {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
         {"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"}],
        [user("Ask."), {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
         {"type": "function_call_output", "call_id": "c1", "output": "Yes."}]),
    Interface(
        ANTHROPIC, lambda items: {"messages": items, "max_tokens": 2},
        {"name": "f", "input_schema": FUNCTION["parameters"]},
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                      "data": "AAAA"}},
         {"type": "audio", "source": {"type": "base64", "media_type": "audio/wav",
                                      "data": "AAAA"}},
         {"type": "document", "source": {"type": "url", "url": "http://x/y.pdf"}}],
        [user("Ask."), {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
         user([{"type": "tool_result", "tool_use_id": "c1", "content": "Yes."}])]),
]
each_interface = pytest.mark.parametrize("interface", INTERFACES, ids=repr)


class OpenStream:
    """The reply of another client, which a thread reads."""

    def __init__(self, server):
        self.num_pieces = 0
        self._is_over = False
        self._leaves = False
        self._stream = server.stream("Count to a thousand.", max_tokens=6000, ignore_eos=True)
        self._reader = threading.Thread(target=self._read)

    def _read(self):
        for _ in self._stream.pieces():
            self.num_pieces += 1
            if self._leaves:
                return
        self._is_over = True

    def wait_for_more(self):
        before = self.num_pieces
        wait_until(lambda: self.num_pieces > before or self._is_over, "the other reply goes on")
        assert not self._is_over, "the other reply has ended"

    def __enter__(self):
        self._stream.begin()
        self._reader.start()
        self.wait_for_more()
        return self

    def __exit__(self, *error):
        self._leaves = True
        self._reader.join()
        self._stream.close()


def names_of(server):
    return {context["name"] for context in server.json("GET", CONTEXTS)["contexts"]}


def refused(server, interface, body, other):
    """The status and the error; how many pieces the other client got meanwhile."""
    before, num_before = names_of(server), other.num_pieces
    status, headers, text = server.request("POST", interface.path, body)
    num_meanwhile = other.num_pieces - num_before
    error = interface.error_of(status, headers, text)
    other.wait_for_more()
    assert names_of(server) == before, "nothing is stored"
    return status, error, num_meanwhile


@pytest.fixture(scope="module")
def trap(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trap")
    template = folder / "trap.jinja"
    template.write_text(TRAP)
    with Server(folder / "store", "--chat-template", template) as server:
        yield server


@pytest.fixture(scope="module")
def beside_trap(trap):
    with OpenStream(trap) as stream:
        yield stream


@pytest.fixture(scope="module")
def other(server):
    with OpenStream(server) as stream:
        yield stream


class TestTemplates:
    @each_interface
    def test_that_loops_ends_its_own_request(self, trap, beside_trap, interface):
        status, error, num_meanwhile = refused(trap, interface, interface.body_of([user("Loop")]),
                                               beside_trap)
        assert status == 503
        assert "more than 1 s of CPU time" in error["message"]
        assert num_meanwhile > 0

    @each_interface
    def test_that_fills_memory_ends_its_own_request(self, trap, beside_trap, interface):
        body = interface.body_of([user("Fill")])
        status, error, _ = refused(trap, interface, body, beside_trap)
        assert status == 503
        assert "memory" in error["message"]

    @each_interface
    def test_that_raises_says_why(self, trap, beside_trap, interface):
        body = interface.body_of([user("Raise")])
        status, error, _ = refused(trap, interface, body, beside_trap)
        assert (status, error["type"]) == (400, "invalid_request_error")
        assert "the cat sleeps" in error["message"]

    def test_that_did_all_this_still_serves(self, trap):
        assert trap.ask("Say hi.").text

    @pytest.mark.parametrize("said", ["Loop", "Fill", "Raise"])
    def test_is_tried_by_other_routes(self, trap, said):
        for path in ("/apply-template", ANTHROPIC + "/count_tokens"):
            status, _, body = trap.request("POST", path, {"messages": [user(said)]})
            assert status == (400 if said == "Raise" else 503), path
            assert json.loads(body)["error"]["message"]

    @each_interface
    def test_is_none_of_a_request(self, server, other, interface):
        """A client can't bring a template: the field is ignored, as all that are unknown."""
        body = {**interface.body_of([user("Loop")]), "chat_template": TRAP}
        assert server.request("POST", interface.path, body)[0] == 200
        other.wait_for_more()


class TestParts:
    @each_interface
    @pytest.mark.parametrize("index", range(3))
    def test_that_are_no_text_are_refused_by_name(self, server, other, interface, index):
        part = interface.images[index]
        status, error, _ = refused(server, interface, interface.body_of([user([part])]), other)
        assert (status, error["type"]) == (400, "invalid_request_error")
        assert part["type"] in error["message"]

    @each_interface
    def test_that_are_no_text_are_refused_in_results(self, server, other, interface):
        *front, result = interface.history
        if interface.path == ANTHROPIC:
            result = user([{**result["content"][0], "content": [interface.images[0]]}])
        else:
            field = "output" if interface.path == RESPONSES else "content"
            result = {**result, field: [interface.images[0]]}
        status, error, _ = refused(server, interface, interface.body_of([*front, result]), other)
        assert (status, error["type"]) == (400, "invalid_request_error")
        assert interface.images[0]["type"] in error["message"]


class TestTools:
    @each_interface
    def test_that_are_10_000_are_refused(self, server, other, interface):
        body = {**interface.body_of([user("Ask.")]), "tools": [interface.tool] * 10_000}
        status, error, _ = refused(server, interface, body, other)
        assert (status, error["type"]) == (400, "invalid_request_error")
        assert "at most 1024 tools" in error["message"]

    @each_interface
    def test_a_result_before_its_call_is_refused(self, server, other, interface):
        question, call, result = interface.history
        self.expect_place(server, other, interface, [question, result, call, question])

    @each_interface
    def test_a_second_result_is_refused(self, server, other, interface):
        self.expect_place(server, other, interface, [*interface.history, interface.history[2]])

    @each_interface
    def test_a_result_of_an_unknown_call_is_refused(self, server, other, interface):
        text = json.dumps(interface.history[2]).replace("c1", "c2")
        self.expect_place(server, other, interface, [*interface.history[:2], json.loads(text)])

    @staticmethod
    def expect_place(server, other, interface, items):
        status, error, _ = refused(server, interface, interface.body_of(items), other)
        assert (status, error["type"]) == (400, "invalid_request_error")
        assert "tool_use_id" in error["message"] or "call_id" in error["message"]


class TestAnotherModel:
    def test_its_responses_are_as_if_there_were_none(self, folder):
        def ask(server, **fields):
            return server.json("POST", RESPONSES, {"input": "Name a fish.", "temperature": 0,
                                                   "max_output_tokens": 4, **fields})

        with Server(folder / "store") as server:
            first = ask(server)
            server.wait_until_durable(first["id"].removeprefix("resp_"))
        tiny = server_case.write_tiny_model(folder / "tiny.gguf")
        with Server(folder / "store", model=tiny) as server:
            said = set()
            for lost in (first["id"], first["id"][:-1] + "x"):
                with pytest.raises(HttpError) as caught:
                    ask(server, previous_response_id=lost)
                assert caught.value.status == 404
                said.add(caught.value.error()["message"].replace(lost, "ID"))
                for method in ("GET", "DELETE"):
                    assert server.request(method, f"{RESPONSES}/{lost}")[0] == 404
            assert len(said) == 1, "it is as if there were none"
        with Server(folder / "store") as server:
            again = ask(server, previous_response_id=first["id"])
            assert again["usage"]["input_tokens_details"]["cached_tokens"] > 0
