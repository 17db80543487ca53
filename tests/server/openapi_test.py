"""Goal: docs/openapi.yaml says what the server answers: every route, no other, in its shapes.

Method: the table of routes in server.cc; what the server allows at each path; a real answer of each
operation against its schema, and requests that the schemas refuse, which the server refuses, too.
"""

import json
import re

import fastjsonschema
import pytest
import yaml

import server_case
from server_case import CONTEXTS, ROOT, new_server

METHODS = {"get", "post", "delete"}
PAGES = {"/"}  # For people: no interface of programs.
NAME = "skerry"
EXPLAIN = "/attndb/v1/explain"
RESPONSE = "/v1/responses/{response}"

DOCUMENT = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text(encoding="utf-8"))


def operations():
    """(method, path) -> the operation."""
    return {(method, path): operation
            for path, item in DOCUMENT["paths"].items()
            for method, operation in item.items() if method in METHODS}


def filled(server, path):
    """The path with a context and the model in it."""
    path = path.replace("{id}", NAME).replace("{model}", server.model)
    if "{response}" in path:
        asked = server.json("POST", "/v1/responses", {"input": "Say hi.", "max_output_tokens": 4})
        path = path.replace("{response}", asked["id"])
    return path


def validator(schema):
    return fastjsonschema.compile({**schema, "components": DOCUMENT["components"]})


def answer_schema(method, path, status):
    response = operations()[method, path]["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    return response["content"]["application/json"]["schema"]


@pytest.fixture(scope="module")
def served():
    with new_server() as server:
        server.json("POST", CONTEXTS, {"name": NAME, "text": server_case.STORY})
        yield server


class TestRoutes:
    def test_every_route_is_documented_and_no_other(self):
        source = (ROOT / "server/server.cc").read_text(encoding="utf-8")
        table = {(method.lower(), path)
                 for method, path in re.findall(r'Route\{"([A-Z]+)", "([^"]+)"', source)
                 if path not in PAGES}
        table |= {(method, CONTEXTS + "/{id}") for method in ("get", "post", "delete")}
        table |= {("get", "/models/{model}"), ("get", "/v1/models/{model}")}
        table |= {("get", RESPONSE), ("delete", RESPONSE), ("get", RESPONSE + "/input_items")}
        assert table == set(operations())

    def test_a_path_allows_the_methods_that_are_documented(self, served):
        for path, item in DOCUMENT["paths"].items():
            status, headers, _ = served.request("PATCH", filled(served, path))
            assert status == 405, path
            assert set(headers["Allow"].lower().split(", ")) == METHODS & set(item), path

    def test_references_lead_somewhere(self):
        text = (ROOT / "docs/openapi.yaml").read_text(encoding="utf-8")
        for kind, name in re.findall(r'"#/components/(\w+)/(\w+)"', text):
            assert name in DOCUMENT["components"][kind], name

    def test_what_asks_for_no_key_says_so(self):
        open_paths = {path for (_, path), operation in operations().items()
                      if operation.get("security") == []}
        assert open_paths == {"/health", "/v1/health", "/ready"}


def properties(schema):
    """The names of all fields of a request."""
    if "$ref" in schema:
        return properties(DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    names = set(schema.get("properties", {}))
    return names.union(*(properties(part) for part in schema.get("allOf", ())))


def test_the_fuzzers_bodies_have_every_field():
    """Those that server_texts.cc edits: of requests for text, and of all others."""
    source = (ROOT / "fuzz/server_texts.cc").read_text(encoding="utf-8")

    def fields(name):
        lines = re.search(rf"string_view {name} =\s+((?:R\"\(.*\)\"\s*)+);", source).group(1)
        return set(json.loads("".join(re.findall(r'R"\((.*)\)"', lines))))

    for (method, path), operation in operations().items():
        if "requestBody" in operation:
            body = ("kStoreBody" if path.startswith("/attndb/")
                    else "kMessagesBody" if path.startswith("/v1/messages")
                    else "kResponseBody" if path.startswith("/v1/responses") else "kBody")
            missing = properties(request_schema(method, path)) - fields(body)
            assert missing == set(), (path, missing)


# One request for each operation and status.
CHAT = {"messages": [server_case.user("Say hi.")], "max_tokens": 4}
CASES = [
    ("get", "/health", None, 200), ("get", "/v1/health", None, 200), ("get", "/ready", None, 200),
    ("get", "/models", None, 200), ("get", "/v1/models", None, 200),
    ("get", "/models/{model}", None, 200), ("get", "/v1/models/{model}", None, 200),
    ("post", "/v1/chat/completions", CHAT, 200), ("post", "/chat/completions", CHAT, 200),
    ("post", "/v1/chat/completions", {**CHAT, "context": NAME, "store_as": "talk"}, 200),
    ("post", "/v1/chat/completions", {**CHAT, "context": "nobody-wrote-this"}, 404),
    ("post", "/v1/chat/completions", {**CHAT, "contexts": [NAME]}, 200),
    ("post", "/v1/chat/completions", {**CHAT, "context": NAME, "tokens": "0-20,30-60"}, 200),
    ("post", "/v1/chat/completions", {**CHAT, "find": 1}, 200),
    ("post", "/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2}, 200),
    ("post", "/v1/chat/completions", {**CHAT, "n": 3}, 200),
    ("post", "/v1/completions", {"prompt": "One, two,", "max_tokens": 2, "n": 2, "best_of": 2},
     200),
    ("post", "/completion", {"prompt": "One, two,", "n_predict": 2, "n_cmpl": 2}, 200),
    ("post", "/v1/chat/completions", {**CHAT, "n_probs": 2, "post_sampling_probs": True,
                                      "logit_bias": {"5": -100, "word": False}}, 200),
    ("post", "/v1/completions", {"prompt": "One, two,", "max_tokens": 2}, 200),
    ("post", "/v1/completions", {"prompt": "One, two,", "max_tokens": 2, "logprobs": 2,
                                 "logit_bias": [[5, -100], ["word", False]]}, 200),
    ("post", "/v1/completions", {"prompt": "One, two,", "max_tokens": 2, "logprobs": 0}, 200),
    ("post", "/v1/completions", {"prompt": "One, two,", "max_tokens": 2, "n_probs": 2}, 200),
    ("post", "/completions", {"prompt": ["One, two,"], "n_predict": 2}, 200),
    ("post", "/completion", {"prompt": "One, two,", "n_predict": 2, "n_probs": 1}, 200),
    ("post", "/infill", {"input_prefix": "a", "input_suffix": "b"}, 501),
    ("get", "/props", None, 200),
    ("post", "/v1/chat/completions/control", {"id": "chatcmpl-x", "action": "reasoning_end"}, 200),
    ("post", "/detokenize", {"tokens": [12, 345]}, 200),
    ("post", "/apply-template", {"messages": [server_case.user("Say hi.")]}, 200),
    ("post", "/v1/completions", {"prompt": [12, 345], "max_tokens": 2}, 200),
    ("post", "/v1/completions", {"prompt": "And", "max_tokens": 2, "context": NAME}, 200),
    ("post", "/v1/completions", {"prompt": "And", "context": "nobody-wrote-this"}, 404),
    ("post", "/v1/responses", {"input": "Say hi.", "max_output_tokens": 4}, 200),
    ("post", "/v1/responses", {"input": "Hi.", "previous_response_id": "resp_turn-0"}, 404),
    ("get", RESPONSE, None, 200), ("get", RESPONSE + "/input_items", None, 200),
    ("delete", RESPONSE, None, 200),
    ("post", "/v1/messages", CHAT, 200),
    ("post", "/v1/messages", {**CHAT, "messages": [server_case.user([
        {"type": "tool_result", "tool_use_id": "toolu_1"}])]}, 400),
    ("post", "/v1/messages/count_tokens", {"messages": CHAT["messages"]}, 200),
    ("post", "/v1/embeddings", {"input": "text"}, 400),
    ("post", "/tokenize", {"content": "One, two,"}, 200),
    ("post", "/tokenize", {"content": "\U0001f701 two", "with_pieces": True}, 200),
    ("post", EXPLAIN, {**CHAT, "top": 3}, 200), ("post", EXPLAIN, {"context": NAME}, 200),
    ("post", EXPLAIN, {"interface": "messages", "messages": CHAT["messages"], "top": 3}, 200),
    ("post", EXPLAIN, {"interface": "responses", "input": "Say hi.", "top": 3}, 200),
    ("post", EXPLAIN, {"interface": "responses", "input": "Say hi.",
                       "previous_response_id": "resp_turn-0"}, 404),
    ("post", "/attndb/v1/find", {"question": "When was the lighthouse built?", "top": 3}, 200),
    ("post", "/attndb/v1/find", {"question": "When?", "contexts": ["nobody-wrote-this"]}, 404),
    ("get", CONTEXTS, None, 200),
    ("post", CONTEXTS, {"name": NAME, "text": server_case.STORY}, 200),
    ("post", CONTEXTS, {"name": "other", "text": "Words.", "ttl_seconds": 60}, 200),
    ("post", CONTEXTS, {"name": NAME, "text": "Other words."}, 409),
    ("post", CONTEXTS, {"name": "dry", "text": "Dry words.", "dry_run": True}, 200),
    ("post", CONTEXTS, {"name": "other", "text": "More words.", "append": True}, 200),
    ("post", "/attndb/v1/text", {"context": NAME}, 200),
    ("post", "/attndb/v1/text", {"context": "nobody-wrote-this"}, 404),
    ("post", "/attndb/v1/messages", {"context": NAME}, 200),
    ("post", "/attndb/v1/messages", {"context": "nobody-wrote-this"}, 404),
    ("post", "/attndb/v1/verify", {}, 200),
    ("post", "/attndb/v1/verify", {"context": "nobody-wrote-this"}, 404),
    ("post", "/attndb/v1/compact", {"segment_tokens": 4096}, 200),
    ("post", "/attndb/v1/build", {"context": NAME, "index": "clustered"}, 200),
    ("post", "/attndb/v1/build", {"context": "nobody-wrote-this", "index": "clustered"}, 404),
    ("post", "/attndb/v1/quota", {"quota_bytes": 1 << 30}, 200),
    ("post", "/attndb/v1/quota", {"quota_bytes": None}, 200),
    ("get", CONTEXTS + "/{id}", None, 200),
    ("post", CONTEXTS + "/{id}", {"pinned": True, "ttl_seconds": 3600}, 200),
    ("delete", CONTEXTS + "/{id}", None, 200), ("delete", CONTEXTS + "/{id}", None, 404),
]


def request_schema(method, path):
    body = operations()[method, path].get("requestBody")
    return body and body["content"]["application/json"]["schema"]


@pytest.mark.parametrize("method, path, body, status", CASES)
def test_an_answer_has_its_shape(served, method, path, body, status):
    if body is not None:
        validator(request_schema(method, path))(body)
    found, headers, text = served.request(method.upper(), filled(served, path), body)
    assert found == status, text
    assert headers["X-Request-Id"]
    validator(answer_schema(method, path, status))(json.loads(text))


def test_each_operation_has_a_case():
    cased = {(method, path) for method, path, _, _ in CASES}
    assert set(operations()) - cased == {("get", "/metrics")}  # Text: protocol_test.py.


@pytest.mark.parametrize("path, wrong", [
    ("/v1/chat/completions", {"messages": []}),
    ("/v1/chat/completions", {**CHAT, "temperature": -1}),
    ("/v1/chat/completions", {**CHAT, "messages": [{"role": "wizard", "content": "x"}]}),
    ("/v1/chat/completions", {**CHAT, "max_tokens": -2}),
    ("/v1/chat/completions", {**CHAT, "overflow": "explode"}),
    ("/v1/chat/completions", {**CHAT, "edits": "explode"}),
    ("/v1/chat/completions", {**CHAT, "n": 0}),
    ("/v1/chat/completions", {**CHAT, "n": 65}),
    ("/v1/chat/completions", {**CHAT, "logprobs": 5}),
    ("/v1/chat/completions", {**CHAT, "contexts": []}),
    ("/v1/chat/completions", {**CHAT, "contexts": ["a", "a"]}),
    ("/v1/chat/completions", {**CHAT, "tokens": ""}),
    ("/v1/chat/completions", {**CHAT, "find": 0}),
    ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 21}),
    ("/v1/chat/completions", {**CHAT, "n_probs": 21}),
    ("/v1/chat/completions", {**CHAT, "tools": [{"type": "web_search"}]}),
    ("/v1/chat/completions", {**CHAT, "tools": [
        {"type": "function", "function": {"name": "a b"}}]}),
    ("/v1/chat/completions", {**CHAT, "tool_choice": "any"}),
    ("/v1/chat/completions", {**CHAT, "response_format": {"type": "xml"}}),
    ("/v1/chat/completions", {**CHAT, "reasoning_budget_tokens": -2}),
    ("/v1/chat/completions", {**CHAT, "logit_bias": {"5": 1e7}}),
    ("/v1/chat/completions", {**CHAT, "logit_bias": [[5]]}),
    ("/v1/completions", {"prompt": "a", "logprobs": True}),
    ("/v1/completions", {"prompt": ""}),
    ("/v1/completions", {"prompt": []}),
    ("/v1/completions", {"prompt": ["One,", "two,"]}),
    ("/v1/completions", {"prompt": [12, -1]}),
    ("/v1/completions", {"prompt": [[12, 345]]}),
    ("/v1/responses", {}),
    ("/v1/responses", {"input": 7}),
    ("/v1/responses", {"input": [{"type": "item_reference", "id": "x"}]}),
    ("/v1/responses", {"input": "Hi.", "tools": [{"type": "web_search"}]}),
    ("/v1/responses", {"input": "Hi.", "background": True}),
    ("/v1/messages", {"messages": CHAT["messages"]}),
    ("/v1/messages", {**CHAT, "max_tokens": -1}),
    ("/v1/messages", {**CHAT, "messages": [{"role": "user", "content": []}]}),
    ("/v1/messages", {**CHAT, "messages": [server_case.user([{"type": "image"}])]}),
    ("/v1/messages", {**CHAT, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ("/v1/messages", {**CHAT, "tool_choice": {"type": "all"}}),
    ("/v1/messages", {**CHAT, "thinking": {"type": "deep"}}),
    ("/v1/messages", {**CHAT, "stop_sequences": "END"}),
    ("/v1/messages", {**CHAT, "cache_control": {"type": "ephemeral", "ttl": "2h"}}),
    ("/v1/messages/count_tokens", {"messages": [{"role": "tool", "content": "x"}]}),
    ("/v1/embeddings", {"input": ""}),
    ("/v1/embeddings", {"input": ["a", 1]}),
    ("/tokenize", {"content": 1}),
    ("/detokenize", {"tokens": "x"}),
    ("/completion", {"prompt": []}),
    ("/apply-template", {"messages": []}),
    ("/tokenize", {"content": "One,", "with_pieces": 1}),
    (CONTEXTS, {"name": "a b", "text": "x"}),
    (CONTEXTS, {"name": "x"}),
    (CONTEXTS, {"name": "x", "text": "x", "pinned": 1}),
    (CONTEXTS, {"name": "x", "text": "x", "ttl_seconds": -1}),
    ("/attndb/v1/text", {}),
    ("/attndb/v1/messages", {}),
    ("/attndb/v1/find", {}),
    ("/attndb/v1/find", {"question": ""}),
    ("/attndb/v1/find", {"question": "x", "top": 0}),
    ("/attndb/v1/find", {"question": "x", "passage_tokens": 3}),
    ("/attndb/v1/find", {"question": "x", "contexts": []}),
    ("/attndb/v1/find", {"question": "x", "contexts": ["a", "a"]}),
    ("/attndb/v1/compact", {"segment_tokens": 0}),
    ("/attndb/v1/build", {"context": NAME}),
    ("/attndb/v1/build", {"index": "clustered"}),
    ("/attndb/v1/quota", {}),
    ("/attndb/v1/quota", {"quota_bytes": -1}),
])
def test_what_a_schema_refuses_the_server_refuses(served, path, wrong):
    with pytest.raises(fastjsonschema.JsonSchemaException):
        validator(request_schema("post", path))(wrong)
    status, _, text = served.request("POST", path, wrong)
    assert status == 400
    validator(answer_schema("post", path, 400))(json.loads(text))
