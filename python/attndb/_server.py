"""A client of `attndb serve`. It needs the standard library only.

The client does not trust the server: it limits the size of each answer and checks its shape.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

from attndb._checked import checked
from attndb._context import Context, context_text
from attndb._errors import (
    BY_CODE,
    Error,
    FailedPreconditionError,
    InvalidArgumentError,
    IoError,
    NotFoundError,
    ResourceExhaustedError,
)
from attndb._results import (
    BuildReport,
    ContextInfo,
    Damage,
    RoomReport,
    VerifyReport,
    context_info,
)
from attndb._units import Size, Ttl, bytes_of, seconds_of

_MAX_BYTES = 256 << 20  # Limit of one answer.
_MAX_LINE = 16 << 20  # Limit of one event.
_MAX_TIMEOUT = 10**9  # Seconds. Sockets refuse timeouts beyond some 290 years.
_CONTEXTS = "/attndb/v1/contexts"

Message = Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """A model's reply, and its counts of tokens."""

    text: str
    finish: str  # "stop"; "length" if the reply was cut.
    context: str  # The context that the turn is stored as.
    prompt_tokens: int
    cached_tokens: int  # Prompt tokens that were reused.
    reply_tokens: int
    dropped_tokens: int  # Tokens of the prompt and of the reply that left the window.


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    context: str
    id: int
    num_tokens: int
    file_bytes: int
    already_imported: bool
    reused_tokens: int = 0
    new_tokens: int = 0
    seconds: float = 0.0
    evicted: tuple[str, ...] = field(default=())  # Contexts that were evicted to make room.


@checked
def connect(url: str = "", *, key: str = "", timeout: float = 300.0) -> Server:
    """Returns a client of the server at `url`, e.g. ``http://127.0.0.1:8080``. Sends nothing yet.

    ``url``: if it is empty, the environment variable ``ATTNDB_URL`` names the server, as on the
    command line. ``key``: the API key, which selects the tenant. ``timeout``: seconds that the
    server may be silent. Raises InvalidArgumentError (no URL, or an invalid one).
    """
    url = url or os.environ.get("ATTNDB_URL", "")
    if not url:
        raise InvalidArgumentError("no URL of a server is given, nor does ATTNDB_URL name one")
    return Server(url, key=key, timeout=timeout)


class Stream:
    """An answer that arrives in pieces: an iterator of texts. An early close ends the reply."""

    def __init__(self, events: Iterator[dict[str, Any]], headers: http.client.HTTPMessage,
                 close: Callable[[], None]) -> None:
        self._events = events
        self._headers = headers
        self._close = close
        self._text: list[str] = []
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The whole answer. Raises InvalidArgumentError before the last piece was taken."""
        if self._answer is None:
            raise InvalidArgumentError("the answer is not complete: take its pieces first")
        return self._answer

    def __iter__(self) -> Iterator[str]:
        finish = ""
        usage: Any = {}
        for event in self._events:
            pieces = []
            with _as_io_error():
                usage = event.get("usage") or usage
                for choice in event.get("choices", ()):
                    finish = str(choice.get("finish_reason") or finish)
                    pieces.append(str(choice.get("delta", {}).get("content") or ""))
            for piece in filter(None, pieces):
                self._text.append(piece)
                yield piece
        self._answer = _answer("".join(self._text), finish, usage, self._headers)

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@checked
class Server:
    """A client of one server, made by :func:`connect`.

    Any thread may use a Server: each call opens its own connection. An error that the server
    reports raises the exception that a DB would raise. A server that can't be reached, or whose
    answer can't be read, raises IoError.
    """

    def __init__(self, url: str, *, key: str = "", timeout: float = 300.0) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidArgumentError(f"{url!r} is no URL of a server: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise InvalidArgumentError(
                f"{url!r} is no URL of a server, expected one as http://127.0.0.1:8080"
            )
        if not (key.isascii() and key.isprintable()):
            raise InvalidArgumentError("key: expected ASCII without control characters")
        if not 0 < timeout <= _MAX_TIMEOUT:
            raise InvalidArgumentError(
                f"timeout: expected more than 0 and at most {_MAX_TIMEOUT} seconds, found {timeout}"
            )
        self._tls = parts.scheme == "https"
        self._host = parts.hostname
        self._port = port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout = timeout

    def list(self) -> list[ContextInfo]:
        """The tenant's contexts, oldest first."""
        rows = self._ask("GET", _CONTEXTS).get("contexts")
        if not isinstance(rows, list):
            raise IoError("the server's answer is no list of contexts: is it attndb's?")
        return [_context(row) for row in rows]

    def describe(self, context: Context) -> ContextInfo:
        """One context by name, "#id" or id, with its segments."""
        return _context(self._ask("GET", _path(context)))

    def is_durable(self, context: Context) -> bool:
        """Whether the answered turn that `context` names would survive a power cut now."""
        return self._ask("GET", _path(context)).get("durable") is True

    def pin(self, context: Context, pinned: bool = True) -> None:
        """Pins a context, so that it is never evicted and never expires; False unpins it."""
        self._ask("POST", _path(context), {"pinned": pinned})

    def set_ttl(self, context: Context, ttl: Ttl) -> None:
        """Time to live since the last access: seconds, timedelta or ``"7d"``; None = for ever."""
        self._ask("POST", _path(context), {"ttl_seconds": seconds_of(ttl)})

    def rename(self, context: Context, name: str) -> None:
        """Gives a context a new name. Raises AlreadyExistsError (another context has it)."""
        self._ask("POST", _path(context), {"name": name})

    def drop(self, context: Context) -> None:
        """Deletes a context."""
        self._ask("DELETE", _path(context))

    def import_text(
        self,
        name: str,
        text: str,
        *,
        system: str = "",
        raw: bool = False,
        replace: bool = False,
        ttl: Ttl = None,
        pin: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Imported:
        """Runs a text through the server's model and stores it durably as context `name`.

        ``system``: the system message in front of the text. ``raw``: the text alone, without the
        model's chat template. ``progress``: called with tokens done and tokens in all.
        Raises AlreadyExistsError (the name is taken, and ``replace`` is False).
        """
        body = {"name": name, "text": text, "system": system, "raw": raw, "replace": replace,
                "pinned": pin, "ttl_seconds": seconds_of(ttl), "stream": True}
        return _imported(self._last_event(_CONTEXTS, body, progress))

    def append_text(
        self, context: Context, text: str, *, progress: Callable[[int, int], None] | None = None
    ) -> Imported:
        """Runs a text behind all tokens of a context, and adds the text to the context.

        The context keeps its name, its pin and its time to live. Raises NotFoundError, and
        FailedPreconditionError (the context has lost tokens, is a dialogue, or has no name).
        """
        body = {"name": context_text(context), "text": text, "append": True, "stream": True}
        return _imported(self._last_event(_CONTEXTS, body, progress))

    def check_room(
        self, name: str, text: str, *, system: str = "", raw: bool = False, replace: bool = False
    ) -> RoomReport:
        """Returns the needs of an import_text of this text. Runs and stores nothing.

        Raises ResourceExhaustedError (no room), AlreadyExistsError (the name is taken).
        """
        body = {"name": name, "text": text, "system": system, "raw": raw, "replace": replace,
                "dry_run": True}
        told = self._ask("POST", _CONTEXTS, body)
        with _as_io_error():
            if told.get("already_imported"):
                return RoomReport(num_reused=int(told["num_tokens"]), new_bytes=0, evicted=())
            return RoomReport(
                num_reused=int(told["reused_tokens"]),
                new_bytes=int(told["new_bytes"]),
                evicted=tuple(map(str, told["evicted"])),
            )

    def text(self, context: Context, *, special: bool = False) -> str:
        """Returns the text of a context. ``special``: with control tokens."""
        body = {"context": context_text(context), "special": special}
        text = self._ask("POST", "/attndb/v1/text", body).get("text")
        if not isinstance(text, str):
            raise IoError("the server's answer has no text: is it attndb's?")
        return text

    # These calls need an operator's key. They concern the key's tenant.

    def verify(
        self,
        context: Context | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> VerifyReport:
        """Does DB.verify on the server, while requests continue. ``progress``: called with bytes
        done and bytes in all."""
        body = {"context": context_text(context), "stream": True}
        told = self._last_event("/attndb/v1/verify", body, progress)
        with _as_io_error():
            damages = tuple(
                Damage(int(row["segment_id"]), str(row["file"]), str(row["message"]),
                       tuple(map(str, row["contexts"])))
                for row in told["damages"]
            )
            return VerifyReport(int(told["num_segments"]), int(told["num_bytes"]), damages)

    def compact(
        self,
        context: Context | None = None,
        *,
        segment_tokens: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Does DB.compact on the server, while requests continue."""
        body: dict[str, Any] = {"context": context_text(context), "stream": True}
        if segment_tokens != 0:
            body["segment_tokens"] = segment_tokens
        self._last_event("/attndb/v1/compact", body, progress)

    def build(
        self,
        context: Context,
        index: str,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> BuildReport:
        """Does DB.build on the server, while requests continue."""
        body = {"context": context_text(context), "index": index, "stream": True}
        told = self._last_event("/attndb/v1/build", body, progress)
        with _as_io_error():
            counts = {name: int(told[name]) for name in
                      ("num_built", "num_present", "num_too_short", "num_missing", "file_bytes")}
            return BuildReport(kind=str(told["kind"]), seconds=float(told["seconds"]), **counts)

    def set_quota(self, num_bytes: Size) -> None:
        """Limits the tenant's bytes on disk, e.g. ``"20GiB"``; 0 = no limit."""
        limit = bytes_of("num_bytes", num_bytes) or None
        self._ask("POST", "/attndb/v1/quota", {"quota_bytes": limit})

    def stream(
        self,
        messages: str | Sequence[Message],
        *,
        context: str = "",
        plan: str = "",
        store_as: str = "",
        **fields: Any,
    ) -> Stream:
        """Asks a question, or continues a conversation, and returns the answer as a stream.

        ``messages``: a text is one message of the user. ``context``: the stored context that the
        question is about. ``plan``: how the model attends to it. ``store_as``: the name that the
        turn is stored under. Other keywords are fields of OpenAI's interface: ``max_tokens``,
        ``temperature``, ``seed``, ``stop``, ...
        """
        own = {"context": context, "plan": plan, "store_as": store_as}
        body = {**fields, "messages": _messages(messages), "stream": True,
                "stream_options": {"include_usage": True},
                **{name: value for name, value in own.items() if value}}
        exchange = _Exchange(self, "POST", "/v1/chat/completions", body)
        return Stream(exchange.events(), exchange.response.headers, exchange.close)

    def ask(self, messages: str | Sequence[Message], **options: Any) -> Answer:
        """Does :meth:`stream`, and returns the whole answer at once."""
        with self.stream(messages, **options) as stream:
            for _ in stream:
                pass
            return stream.answer

    def explain(
        self,
        messages: str | Sequence[Message] = (),
        *,
        context: str = "",
        plan: str = "",
        token: int | None = None,
        top: int = 32,
    ) -> dict[str, Any]:
        """Tells which tokens a token of an answer attended to, in each layer and head.

        Takes messages like :meth:`stream`, but stores nothing. Without messages, explains the plan
        of ``context``. ``token``: index of a token of the last message, if that message is a reply.
        ``top``: number of tokens per head. Returns the JSON object of ``POST /attndb/v1/explain``
        (docs/openapi.yaml).
        """
        own = {"messages": _messages(messages), "context": context, "plan": plan, "token": token,
               "top": top}
        body = {name: value for name, value in own.items() if value not in ("", [], None)}
        return self._ask("POST", "/attndb/v1/explain", body)

    def _last_event(
        self, path: str, body: object, progress: Callable[[int, int], None] | None
    ) -> dict[str, Any]:
        """Returns the last event of a call. Earlier events report progress: {"done", "total"}."""
        last: dict[str, Any] = {}
        with _Exchange(self, "POST", path, body) as exchange:
            for last in exchange.events():
                if progress is not None and "done" in last:
                    with _as_io_error():
                        done, total = int(last["done"]), int(last["total"])
                    progress(done, total)
        return last

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        with _Exchange(self, method, path, body) as exchange:
            return exchange.json()

    def _connection(self) -> http.client.HTTPConnection:
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=ssl.create_default_context()
        )


class _as_io_error:
    """Turns the exceptions of a broken connection or of a misshapen answer into IoError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if isinstance(error, Error) or not isinstance(
            error,
            (OSError, http.client.HTTPException, ValueError, LookupError, TypeError,
             AttributeError, RecursionError),
        ):
            return
        what = str(error) or type(error).__name__
        raise IoError(f"the server's answer can't be read: {what}") from error


class _Exchange:
    """One request and its answer, on its own connection. Raises the error that the server sends."""

    def __init__(self, server: Server, method: str, path: str, body: object = None) -> None:
        headers = {**server._headers, "Connection": "close"}
        data = None
        if body is not None:
            data = _json(body)
            headers["Content-Type"] = "application/json"
        self._connection = server._connection()
        try:
            with _as_io_error():
                self._connection.request(method, server._prefix + path, data, headers)
                self.response = self._connection.getresponse()
            if self.response.status != 200:
                raise _error(self.response.status, self._read())
        except BaseException:
            self.close()
            raise

    def json(self) -> dict[str, Any]:
        with _as_io_error():
            return _object(self._read())

    def events(self) -> Iterator[dict[str, Any]]:
        """Yields the JSON object of each event, up to [DONE]."""
        num_bytes = 0
        try:
            while True:
                with _as_io_error():
                    line = self.response.readline(_MAX_LINE + 1)
                num_bytes += len(line)
                if not line or len(line) > _MAX_LINE or num_bytes > _MAX_BYTES:
                    raise IoError("the server's answer ended before its end" if not line else
                                  "the server's answer is too long")
                if not line.startswith(b"data:"):
                    continue
                data = line[len(b"data:") :].strip()
                if data == b"[DONE]":
                    return
                with _as_io_error():
                    event = _object(data)
                if "error" in event:
                    raise _error(200, data)
                yield event
        finally:
            self.close()

    def _read(self) -> bytes:
        with _as_io_error():
            data = self.response.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise IoError("the server's answer is too long")
        return data

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> _Exchange:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _json(body: object) -> bytes:
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"fields: expected what JSON can hold: {error}") from None


def _object(data: bytes) -> dict[str, Any]:
    found = json.loads(data)
    if not isinstance(found, dict):
        raise IoError("the server's answer is no JSON object: is it attndb's?")
    return found


def _path(context: Context) -> str:
    return f"{_CONTEXTS}/{quote(context_text(context), safe='')}"


def _imported(told: dict[str, Any]) -> Imported:
    with _as_io_error():
        return Imported(
            context=str(told["context"]),
            id=int(told["id"]),
            num_tokens=int(told["num_tokens"]),
            file_bytes=int(told["file_bytes"]),
            already_imported=bool(told["already_imported"]),
            reused_tokens=int(told.get("reused_tokens", 0)),
            new_tokens=int(told.get("new_tokens", 0)),
            seconds=float(told.get("seconds", 0)),
            evicted=tuple(map(str, told.get("evicted", ()))),
        )


def _context(fields: object) -> ContextInfo:
    if not isinstance(fields, dict):
        raise IoError("the server sent a context that is no object")
    if fields.get("durable") is False and fields.get("damaged") is not True:
        why = fields.get("error") or "it is being stored"
        raise FailedPreconditionError(f"{fields.get('context')!r}: {why}")
    with _as_io_error():
        rows = {name: fields[name] for name in ContextInfo.__dataclass_fields__ if name in fields}
        rows.setdefault("expired", False)  # An older server does not send it.
        text = str(rows["fingerprint"])
        is_hex = text.startswith("hex:")
        rows["fingerprint"] = bytes.fromhex(text[len("hex:") :]) if is_hex else text.encode()
        rows["non_finite_heads"] = tuple(rows["non_finite_heads"])
        cuts = [(cut["at"], [tuple(pair) for pair in cut["dropped"]]) for cut in rows["cuts"]]
        times = {name: fields[name] for name in ("ttl_seconds", "created_us", "last_access_us")}
        return context_info({**rows, **times, "cuts": cuts, "segments": fields.get("segments", [])})


def _messages(messages: str | Sequence[Message]) -> list[dict[str, str]]:
    """Returns the messages as they are sent. A text becomes one message of the user."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return [dict(message) for message in messages]


def _answer(text: str, finish: str, usage: Any, headers: http.client.HTTPMessage) -> Answer:
    with _as_io_error():
        return Answer(
            text=text,
            finish=finish,
            context=headers.get("X-Attndb-Context", ""),
            prompt_tokens=int(usage["prompt_tokens"]),
            cached_tokens=int(usage["prompt_tokens_details"]["cached_tokens"]),
            reply_tokens=int(usage["completion_tokens"]),
            # The usage at the end also counts tokens that left during the reply; the header does
            # not, because the server sends the header before the reply.
            dropped_tokens=int(usage.get("dropped_tokens", headers.get("X-Attndb-Dropped", 0))),
        )


def _error(status: int, data: bytes) -> Error:
    """Makes an exception of the server's error object; without one, of the HTTP status."""
    message, name = f"the server answers with status {status}", None
    try:
        found = _object(data)["error"]
        message, name = str(found["message"]), found.get("status")
    except (Error, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    for kind in BY_CODE[1:]:
        if kind.code == name:
            return kind(message)
    if status == 404:
        return NotFoundError(message)
    if status in (429, 503, 507):
        return ResourceExhaustedError(message)
    return InvalidArgumentError(message) if 400 <= status < 500 else IoError(message)
