"""Goal: a server whose model has a template that can't be used says so when it starts, and one
without the program attndb-chat refuses by name what needs it. All else works.

Method: tiny models with templates of their own; a copy of the programs without attndb-chat beside
them.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

import server_case
from server_case import CAPITAL, CHAT, HttpError, Server, run_attndb, user, write_tiny_model

COMPLETION = {"prompt": "One, two", "max_tokens": 2, "temperature": 0}
TEMPLATE = "tokenizer.chat_template"
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


def refusal(server, path, body):
    with pytest.raises(HttpError) as raised:
        server.json("POST", path, body)
    assert raised.value.status == 400
    return raised.value.error()["message"]


class TestOwnTemplate:
    @pytest.mark.parametrize("template, says", [
        ("fine\nfine {% if x %}", "can't be parsed"),
        ("{% for i in range(1000000) %}{% for j in range(1000000) %}{% endfor %}{% endfor %}",
         "was not applied")])
    def test_one_that_cant_be_used_is_named_at_start(self, folder, template, says):
        model = write_tiny_model(folder / "broken.gguf", meta={TEMPLATE: template},
                                 context_length=4096)
        with Server(folder / "store", model=model) as server:
            said = server.said()
            assert "warning: chats are refused" in said and "'broken.gguf'" in said
            assert says in said and "--chat-template" in said
            assert says in server.started["chat_template_error"]
            # It needs no template.
            assert server.json("POST", "/v1/completions", COMPLETION)["choices"][0]["text"]
            chat = {"messages": [user("Hi")], "max_tokens": 2}
            status, _, text = server.request("POST", CHAT, chat)
            assert status in (400, 503) and says in json.loads(text)["error"]["message"]
            for path, body in (("/v1/messages", {**chat, "model": "m"}),
                               ("/v1/responses", {"input": "Hi"})):
                status, _, text = server.request("POST", path, body)
                assert status in (400, 503) and says.encode() in text, path
            assert server.json("GET", "/props")["chat_template_caps"] == {}

    def test_another_one_replaces_it(self, folder):
        model = write_tiny_model(folder / "broken.gguf", meta={TEMPLATE: "{% if x %}"},
                                 context_length=4096)
        fine = folder / "fine.jinja"
        fine.write_text("{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8")
        with Server(folder / "store", "--chat-template", fine, model=model) as server:
            assert "warning" not in server.said() and "chat_template_error" not in server.started
            assert server.ask("Hi", max_tokens=2).usage["completion_tokens"] <= 2

    def test_a_right_one_is_not_talked_about(self, server):
        assert "template" not in server.said()
        assert "chat_template_error" not in server.started


def test_props_wait_for_no_template(folder):
    with Server(folder / "store") as server:
        tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
        children = " ".join(file.read_text() for file in tasks.glob("*/children")).split()
        [chat] = [int(child) for child in children
                  if "attndb-chat" in pathlib.Path(f"/proc/{child}/cmdline").read_text()]
        os.kill(chat, signal.SIGSTOP)
        try:
            assert server.json("GET", "/props")["chat_template_caps"]["supports_system_role"]
        finally:
            os.kill(chat, signal.SIGCONT)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The command line in a folder without attndb-chat."""
    folder = tmp_path_factory.mktemp("bare")
    programs = os.path.dirname(server_case.binary())
    for name in ("attndb", "attndb-server"):
        shutil.copy2(os.path.join(programs, name), folder / name)
    whole = server_case.binary()
    server_case.use_binary(folder / "attndb")
    yield folder
    server_case.use_binary(whole)


@pytest.fixture(scope="module")
def bare_server(bare):
    with Server(bare / "store") as running:
        yield running


class TestWithoutTheProgram:
    def test_chats_of_a_common_template_work(self, bare_server):
        assert "warning" not in bare_server.said()
        answer = bare_server.ask([{"role": "system", "content": "Be brief."}, user(CAPITAL)],
                                 max_tokens=12)
        assert "Paris" in answer.text
        bare_server.wait_until_durable(answer.context)
        again = bare_server.ask([{"role": "system", "content": "Be brief."}, user(CAPITAL),
                                 server_case.assistant(answer.text), user("And its river?")],
                                max_tokens=2)
        assert again.cached >= answer.usage["prompt_tokens"]

    def test_the_other_interfaces_work(self, bare_server):
        assert bare_server.json("POST", "/v1/completions", COMPLETION)["choices"][0]["text"]
        assert bare_server.json("POST", "/completion", {"prompt": "One", "n_predict": 2})["content"]
        told = bare_server.json("POST", "/v1/messages", {
            "model": "m", "max_tokens": 2, "messages": [user("Hi")]})
        assert told["content"][0]["type"] == "text"
        told = bare_server.json("POST", "/v1/responses", {"input": "Hi", "max_output_tokens": 2})
        assert told["output"][0]["type"] == "message"
        choices = bare_server.json("POST", CHAT, {"messages": [user("Hi")], "n": 2,
                                                  "max_tokens": 2})["choices"]
        assert len(choices) == 2
        assert bare_server.json("GET", "/props")["chat_template_caps"] == {}

    @pytest.mark.parametrize("fields", [
        {"tools": TOOLS}, {"response_format": {"type": "json_object"}},
        {"json_schema": {"type": "object"}}, {"grammar": "root ::= [a-z]+"}])
    def test_what_needs_it_is_refused_by_name(self, bare_server, fields):
        chat = {"messages": [user("Hi")], "max_tokens": 2}
        assert "attndb-chat" in refusal(bare_server, CHAT, {**chat, **fields})

    def test_the_other_interfaces_name_it_too(self, bare_server):
        told = bare_server.request("POST", "/v1/messages", {
            "model": "m", "max_tokens": 2, "messages": [user("Hi")],
            "tools": [{"name": "weather", "input_schema": {"type": "object"}}]})
        assert told[0] == 400 and b"attndb-chat" in told[2]
        told = bare_server.request("POST", "/v1/responses", {
            "input": "Hi", "text": {"format": {"type": "json_schema", "name": "a",
                                               "schema": {"type": "object"}}}})
        assert told[0] == 400 and b"attndb-chat" in told[2]

    def test_a_template_that_is_not_common_is_named_at_start(self, bare, folder):
        del bare
        model = write_tiny_model(folder / "own.gguf", context_length=4096,
                                 meta={TEMPLATE: "[{{ messages[0].content }}]"})
        with Server(folder / "store", model=model) as server:
            said = server.said()
            assert "warning: chats are refused" in said and "attndb-chat" in said
            assert "attndb-chat" in refusal(server, CHAT, {"messages": [user("Hi")]})
            assert server.json("POST", "/v1/completions", COMPLETION)["choices"][0]["text"]

    def test_a_template_of_the_users_is_refused(self, bare, folder):
        own = folder / "own.jinja"
        own.write_text("[{{ messages[0].content }}]", encoding="utf-8")
        done = subprocess.run(
            [bare / "attndb", "serve", "-m", "smollm2", "-p", "0", "--chat-template", own],
            capture_output=True, env=server_case.environment(folder / "store"), check=False,
            timeout=server_case.WAIT)
        assert done.returncode != 0 and b"attndb-chat" in done.stderr

    def test_the_command_line_works(self, bare, folder):
        del bare
        store = folder / "store"
        run_attndb(store, "import", "-", "--name", "story", stdin=server_case.STORY)
        told = run_attndb(store, "ask", "-c", "story", "When was the lighthouse built?",
                          "--max-tokens", "8")
        assert told["answer"]
