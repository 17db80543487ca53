"""A server's contexts and answers through Python: what is sent, what is made of what comes, and
that nothing that comes does harm.
"""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import attndb

CONTEXT: dict[str, Any] = {
    "id": 3, "name": "a/b", "num_tokens": 7, "kv_bytes": 1, "file_bytes": 2, "own_bytes": 2,
    "companion_bytes": 0, "derived_bytes": {"planes": 1}, "num_pending_companions": 0,
    "retained_bytes": 0, "query_sample_bytes": 0, "created_us": 1_000_000, "last_access_us": 2,
    "ttl_seconds": 60, "pinned": True, "damaged": False, "first_position": 0,
    "kv_dtype": "float16", "unrotated_keys": False, "fingerprint": "hex:00ff", "num_layers": 2,
    "model_name": "Toy", "model_path": "/models/toy.gguf",
    "rope_scaling": "", "non_finite_heads": [], "num_dropped": 2,
    "cuts": [{"at": 6, "dropped": [[1, 3]]}],
    "segments": [{"segment_id": 1, "num_tokens_used": 7, "num_tokens": 7, "file_bytes": 2,
                  "num_contexts": 1, "damage": "", "companions": []}],
}  # fmt: skip
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 5},
}


def events(*said: object) -> bytes:
    """A stream of these, with what a server sends in between."""
    return b":\n\n" + b"".join(
        b"data: " + (s.encode() if isinstance(s, str) else json.dumps(s).encode()) + b"\n\n"
        for s in said
    )


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


class Fake:
    """A server that gives one answer, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any, str | None]] = []
        self.status, self.body = 200, b"{}"
        self.headers: dict[str, str] = {}
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                key = self.headers.get("Authorization")
                body = json.loads(data) if data else None
                fake.asked.append((self.command, self.path, body, key))
                self.send_response(fake.status)
                for name, value in fake.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(fake.body)

            do_POST = do_DELETE = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def says(self, body: object, status: int = 200, **headers: str) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_contexts_are_those_of_a_store(fake: Fake) -> None:
    server = attndb.connect(fake.url + "/v1", key="k")
    fake.says({"contexts": [CONTEXT], "file_bytes": 2, "quota_bytes": 0})
    [info] = server.list()
    assert (info.id, info.name, info.ttl) == (3, "a/b", timedelta(seconds=60))
    assert info.fingerprint == b"\x00\xff"
    assert info.model_name == "Toy"
    assert info.cuts == (attndb.Cut(6, ((1, 3),)),)
    assert info.segments[0].num_tokens == 7
    assert info.created.timestamp() == 1
    fake.says({"context": "a/b", "durable": True, **CONTEXT})
    assert server.describe("a/b") == info
    assert server.is_durable(3)
    assert fake.asked == [
        ("GET", "/attndb/v1/contexts", None, "Bearer k"),
        ("GET", "/attndb/v1/contexts/a%2Fb", None, "Bearer k"),
        ("GET", "/attndb/v1/contexts/%233", None, "Bearer k"),
    ]


def test_a_damaged_context_is_described_and_not_durable(fake: Fake) -> None:
    server = attndb.connect(fake.url)
    damaged = {**CONTEXT, "damaged": True}
    fake.says({"context": "a/b", "durable": False, "error": "gone", **damaged})
    assert server.describe("a/b").damaged
    assert not server.is_durable("a/b")
    fake.says({"context": "a/b", "durable": False, "error": "the disk is full"})
    with pytest.raises(attndb.FailedPreconditionError, match="the disk is full"):
        server.describe("a/b")


def test_changes_are_asked_for(fake: Fake) -> None:
    server = attndb.connect(fake.url)
    server.pin("a", False)
    server.set_ttl("a", timedelta(minutes=1))
    server.set_ttl("a", None)
    server.rename("a", "b")
    server.drop("a")
    path = "/attndb/v1/contexts/a"
    assert fake.asked == [
        ("POST", path, {"pinned": False}, None),
        ("POST", path, {"ttl_seconds": 60}, None),
        ("POST", path, {"ttl_seconds": None}, None),
        ("POST", path, {"name": "b"}, None),
        ("DELETE", path, None, None),
    ]


def test_a_text_is_imported_with_progress(fake: Fake) -> None:
    stored = {"context": "a", "id": 4, "num_tokens": 9, "file_bytes": 5, "companion_bytes": 0,
              "already_imported": False, "reused_tokens": 1, "new_tokens": 8, "seconds": 0.5,
              "evicted": ["old"]}  # fmt: skip
    fake.says(events({"done": 4, "total": 9}, {"done": 9, "total": 9}, stored, "[DONE]"))
    seen: list[tuple[int, int]] = []
    imported = attndb.connect(fake.url).import_text(
        "a", "text", ttl=60, pin=True, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(4, 9), (9, 9)]
    assert imported == attndb.Imported("a", 4, 9, 5, False, 1, 8, 0.5, ("old",))
    body = fake.asked[0][2]
    assert (body["name"], body["text"], body["ttl_seconds"], body["pinned"]) == (
        "a", "text", 60, True)  # fmt: skip


def test_a_text_is_appended_and_read(fake: Fake) -> None:
    server = attndb.connect(fake.url)
    stored = {"context": "a", "id": 4, "num_tokens": 9, "file_bytes": 5, "already_imported": False}
    fake.says(events({"done": 4, "total": 9}, stored, "[DONE]"))
    assert server.append_text(4, "more").num_tokens == 9
    fake.says({"context": "a", "num_tokens": 9, "text": "All of it."})
    assert server.text("a", special=True) == "All of it."
    room = {"context": "b", "dry_run": True, "num_tokens": 9, "reused_tokens": 3, "new_tokens": 6,
            "new_bytes": 70, "evicted": ["old"]}  # fmt: skip
    fake.says(room)
    assert server.check_room("b", "text", raw=True) == attndb.RoomReport(3, 70, ("old",))
    fake.says(stored | {"already_imported": True})
    assert server.check_room("a", "text") == attndb.RoomReport(9, 0, ())
    assert [asked[1:3] for asked in fake.asked] == [
        ("/attndb/v1/contexts", {"name": "#4", "text": "more", "append": True, "stream": True}),
        ("/attndb/v1/text", {"context": "a", "special": True}),
        ("/attndb/v1/contexts", {"name": "b", "text": "text", "system": "", "raw": True,
                                 "replace": False, "dry_run": True}),
        ("/attndb/v1/contexts", {"name": "a", "text": "text", "system": "", "raw": False,
                                 "replace": False, "dry_run": True}),
    ]  # fmt: skip
    for said in ({}, {"text": 1}):
        fake.says(said)
        with pytest.raises(attndb.IoError):
            server.text("a")


def test_upkeep_is_that_of_a_store(fake: Fake) -> None:
    server = attndb.connect(fake.url)
    damage = {"segment_id": 2, "file": "segments/2.seg", "message": "sum", "contexts": ["a"]}
    report = {"ok": False, "num_segments": 3, "num_bytes": 80, "damages": [damage]}
    fake.says(events({"done": 1, "total": 2}, report, "[DONE]"))
    seen: list[tuple[int, int]] = []
    found = server.verify(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2)] and not found.ok
    assert found.damages == (attndb.Damage(2, "segments/2.seg", "sum", ("a",)),)
    fake.says(events({"num_segments": 1}, "[DONE]"))
    server.compact("a", segment_tokens=4096)
    fake.says({"quota_bytes": 1 << 30, "file_bytes": 0})
    server.set_quota("1GiB")
    server.set_quota(0)
    assert [asked[1:3] for asked in fake.asked] == [
        ("/attndb/v1/verify", {"context": "", "stream": True}),
        ("/attndb/v1/compact", {"context": "a", "stream": True, "segment_tokens": 4096}),
        ("/attndb/v1/quota", {"quota_bytes": 1 << 30}),
        ("/attndb/v1/quota", {"quota_bytes": None}),
    ]
    built = {"kind": "pq", "num_built": 2, "num_present": 1, "num_too_short": 0, "num_missing": 0,
             "file_bytes": 9, "seconds": 0.5}  # fmt: skip
    fake.says(events(built, "[DONE]"))
    assert server.build("a", "pq") == attndb.BuildReport("pq", 2, 1, 0, 0, 9, 0.5)
    for said in ({}, {"damages": 1}, {"damages": [{}], "num_segments": 1, "num_bytes": 1}):
        fake.says(events(said, "[DONE]"))
        with pytest.raises(attndb.IoError):
            server.verify()


def test_an_answer_comes_whole_or_in_pieces(fake: Fake) -> None:
    server = attndb.connect(fake.url)
    said = events(delta("Pa"), delta(""), delta("ris"), delta("", "stop"),
                  {"choices": [], "usage": USAGE}, "[DONE]")  # fmt: skip
    fake.says(said, X_Attndb_Context="turn-1", X_Attndb_Dropped="3")
    expected = attndb.Answer("Paris", "stop", "turn-1", 9, 5, 2, 3)
    assert server.ask("Where?", context="c", plan="full", max_tokens=4) == expected
    with server.stream([{"role": "user", "content": "Where?"}], store_as="s") as stream:
        with pytest.raises(attndb.InvalidArgumentError):
            _ = stream.answer
        assert list(stream) == ["Pa", "ris"]
        assert stream.answer == expected
    first, second = (asked[2] for asked in fake.asked)
    assert first["messages"] == second["messages"] == [{"role": "user", "content": "Where?"}]
    assert (first["context"], first["plan"], first["max_tokens"]) == ("c", "full", 4)
    assert second["store_as"] == "s" and "context" not in second


def test_what_an_answer_attended_to_is_explained(fake: Fake) -> None:
    server = attndb.connect(fake.url)
    fake.says({"num_tokens": 9, "layers": []})
    assert server.explain("Where?", context="c", token=2)["num_tokens"] == 9
    assert fake.asked[-1][:3] == ("POST", "/attndb/v1/explain", {
        "messages": [{"role": "user", "content": "Where?"}], "context": "c", "token": 2,
        "top": 32})  # fmt: skip
    server.explain(context="c", plan="full")
    assert fake.asked[-1][2] == {"context": "c", "plan": "full", "top": 32}


@pytest.mark.parametrize(
    "status, name, kind",
    [
        (400, "unsupported", attndb.UnsupportedError),
        (409, "already exists", attndb.AlreadyExistsError),
        (503, "busy", attndb.BusyError),
        (404, None, attndb.NotFoundError),
        (401, None, attndb.InvalidArgumentError),
        (429, "odd", attndb.ResourceExhaustedError),
        (500, None, attndb.IoError),
    ],
)
def test_errors_are_those_of_a_store(
    fake: Fake, status: int, name: str | None, kind: type[attndb.Error]
) -> None:
    fake.says({"error": {"message": "what it is", "status": name}}, status)
    with pytest.raises(kind, match="what it is"):
        attndb.connect(fake.url).list()
    fake.says(b"<html>", status)
    with pytest.raises(attndb.Error, match=str(status)):
        attndb.connect(fake.url).ask("x")


def test_an_error_in_a_stream_is_raised(fake: Fake) -> None:
    error = {"error": {"message": "no memory", "status": "resource exhausted"}}
    fake.says(events(delta("Pa"), error))
    pieces = []
    with pytest.raises(attndb.ResourceExhaustedError, match="no memory"):
        with attndb.connect(fake.url).stream("x") as stream:
            for piece in stream:
                pieces.append(piece)
    assert pieces == ["Pa"]


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"[]", b"null", b"\xff", b"[" * 10**5, b'{"contexts": 1}',
     b'{"contexts": [1]}', b'{"contexts": [{}]}', b'{"contexts": [{"id": 1}]}',
     b'data: {"choices": 1}\n\ndata: [DONE]\n\n', b'data: {"choices": [1]}\n\ndata: [DONE]\n\n',
     b"data: [DONE]\n\n", b'data: {"usage": []}\n\ndata: [DONE]\n\n'],
)  # fmt: skip
def test_what_is_no_answer_is_an_io_error(fake: Fake, body: bytes) -> None:
    fake.says(body)
    server = attndb.connect(fake.url)
    for call in (server.list, lambda: server.describe("x"), lambda: server.ask("x"),
                 lambda: server.import_text("x", "y")):  # fmt: skip
        with pytest.raises(attndb.IoError):
            call()


def test_who_is_not_there_is_an_io_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(attndb.IoError):
        attndb.connect(f"http://127.0.0.1:{port}", timeout=5).list()


@pytest.mark.parametrize(
    "url", ["", "localhost:80", "ftp://a", "http://", "http://a:x", "http://b@a"]
)
def test_a_url_that_is_none_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTNDB_URL", raising=False)
    with pytest.raises(attndb.InvalidArgumentError, match="URL"):
        attndb.connect(url)
    monkeypatch.setenv("ATTNDB_URL", url)
    with pytest.raises(attndb.InvalidArgumentError, match="URL"):
        attndb.connect()


def test_where_no_url_is_given_the_environment_names_the_server(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.says({"contexts": [CONTEXT], "file_bytes": 2, "quota_bytes": 0})
    monkeypatch.setenv("ATTNDB_URL", fake.url + "/v1")
    for server in (attndb.connect(), attndb.connect("", key="k")):
        assert [context.name for context in server.list()] == ["a/b"]
    monkeypatch.setenv("ATTNDB_URL", "http://nowhere.invalid")
    assert attndb.connect(fake.url).list()  # What is given is stronger.
    assert [asked[3] for asked in fake.asked] == [None, "Bearer k", None]
