"""Goal: a model that has embeddings gives them as OpenAI's interface does; the openai client reads
them, and what they take counts.

Method: a tiny random model whose file says that it pools the last token; the same inputs in each
form. That a model without embeddings says so: clients_test.py.
"""

import array
import math

import openai
import pytest

import openapi_test
import server_case
from openai_client import client_of
from server_case import Server
from tenants_test import key, write

PATH = "/v1/embeddings"
TEXTS = ["The lamp shines every twelve seconds.", "Sheep", "The lamp shines every twelve seconds."]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return server_case.write_embedding_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def embedding(model):
    with server_case.new_folder() as folder, Server(folder / "store", model=model) as running:
        yield running


@pytest.fixture(scope="module")
def client(embedding):
    with client_of(embedding) as made:
        yield made


def as_float32(numbers):
    return array.array("f", numbers)


class TestOpenAi:
    def test_each_text_has_its_embedding(self, client, embedding):
        answer = client.embeddings.create(model="any", input=TEXTS)
        assert answer.object == "list"
        assert answer.model == embedding.model
        assert [entry.index for entry in answer.data] == [0, 1, 2]
        assert {entry.object for entry in answer.data} == {"embedding"}
        first, other, again = (as_float32(entry.embedding) for entry in answer.data)
        assert first == again != other
        for numbers in (first, other):
            assert len(numbers) == 64
            assert math.isclose(sum(x * x for x in numbers), 1, rel_tol=1e-4)
        num_tokens = sum(len(tokens) for tokens in map(self.ids, [embedding] * 3, TEXTS))
        assert answer.usage.prompt_tokens == answer.usage.total_tokens == num_tokens

    @staticmethod
    def ids(server, text):
        return server.json("POST", "/tokenize", {"content": text, "add_special": True})["tokens"]

    def test_floats_are_what_base64_says(self, client):
        texts = client.embeddings.create(model="any", input=TEXTS[0])  # Base64, of itself.
        floats = client.embeddings.create(model="any", input=TEXTS[0], encoding_format="float")
        assert as_float32(texts.data[0].embedding) == as_float32(floats.data[0].embedding)

    def test_ids_are_the_text_that_they_are_of(self, client, embedding):
        text = client.embeddings.create(model="any", input=TEXTS[0]).data[0]
        ids = self.ids(embedding, TEXTS[0])
        one = client.embeddings.create(model="any", input=ids)
        two = client.embeddings.create(model="any", input=[ids, ids[:1]])
        assert one.data[0].embedding == two.data[0].embedding == text.embedding
        assert len(two.data) == 2
        assert two.data[1].embedding != text.embedding

    @pytest.mark.parametrize("fields, says", [
        ({"input": ""}, "'input'"), ({"input": []}, "'input'"), ({"input": ["a", ""]}, "input[1]"),
        ({"input": [[1], [99999]]}, "vocabulary"), ({"input": ["a"] * 2049}, "2048"),
        ({"input": [1] * 4097}, "4,096"), ({"input": "a", "dimensions": 32}, "'dimensions'")])
    def test_what_cannot_be_embedded_is_refused_by_name(self, client, fields, says):
        with pytest.raises(openai.BadRequestError) as caught:
            client.embeddings.create(model="any", **fields)
        assert says in caught.value.body["message"]
        assert caught.value.body["type"] == "invalid_request_error"

    def test_all_dimensions_may_be_asked_for(self, client):
        assert len(client.embeddings.create(model="any", input="a", dimensions=64).data) == 1


def test_an_answer_has_its_documented_shape(embedding):
    schema = openapi_test.answer_schema("post", PATH, 200)
    for form in ("float", "base64"):
        body = {"input": TEXTS, "encoding_format": form, "user": "u"}
        openapi_test.validator(openapi_test.request_schema("post", PATH))(body)
        openapi_test.validator(schema)(embedding.json("POST", PATH, body))


def test_many_ask_at_once_beside_chats(embedding):
    alone = embedding.json("POST", PATH, {"input": TEXTS})["data"]
    before = embedding.metric("attndb_embedded_tokens")
    completion = {"prompt": TEXTS[0], "max_tokens": 8, "temperature": 0, "ignore_eos": True}

    def embed():
        return embedding.json("POST", PATH, {"input": TEXTS})["data"]

    def complete():
        return embedding.json("POST", "/v1/completions", completion)["usage"]["completion_tokens"]

    answers = server_case.all_at_once([embed, complete] * 6)
    assert answers[::2] == [alone] * 6
    assert answers[1::2] == [8] * 6
    tokens = sum(len(TestOpenAi.ids(embedding, text)) for text in TEXTS)
    assert embedding.metric("attndb_embedded_tokens") - before == 6 * tokens


def test_tokens_count_for_the_tenant(folder, model):
    keys = folder / "keys.json"
    write(keys, ann={"tokens_per_minute": 60})
    with Server(folder / "store", "--keys", keys, model=model) as server:
        server.json("POST", PATH, {"input": [[1] * 100, [2] * 20]}, key("ann"))
        with pytest.raises(server_case.HttpError) as caught:
            server.json("POST", PATH, {"input": "a"}, key("ann"))
        assert caught.value.status == 429
        assert int(caught.value.headers["Retry-After"]) >= 30
