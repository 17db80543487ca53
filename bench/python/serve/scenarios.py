"""What is measured of the servers; each returns figures by name."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from servers import Answer, Llama, Message, Server, assistant, user, wait_until_idle

Figures = dict[str, float]
LAST_CHUNK = b"\r\n0\r\n\r\n"
QUESTION = "\n\nSay in one sentence what the text above is about."
MOST_RUN = 100  # Tokens of a prompt that is known: its last turn, the reply before it, no more.
BEFORE_SECONDS = 5  # Replies are alone before a long prompt comes.
STORY_TOKENS = 100
# No reply reaches the end of such a list.
LIST_SCHEMA = {"type": "array", "minItems": 100, "items": {
    "type": "object", "required": ["name", "count"], "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}}
BESIDE_TOKENS = 6000  # More than a reply gets while one is read, and within SmolLM2's window.


class Texts:
    """Pieces of one text, one behind the other: none is like another, or begins as it does."""

    def __init__(self, path: Path, server: Server) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.server = server
        self.next = 0

    def take(self, num_tokens: int) -> str:
        """A piece of so many tokens, within a few."""
        head = f"Text {self.next}:\n"
        piece = head + self.text[self.next:self.next + 6 * num_tokens]
        found = self.server.num_tokens(piece)
        if found < num_tokens:
            raise SystemExit(f"{self.path}: {found} tokens of its {len(self.text)} characters are "
                             f"left, and {num_tokens} needed: bench/python/make_text.py FILE BYTES")
        while found > num_tokens:
            piece = piece[:len(piece) * num_tokens // found]
            found = self.server.num_tokens(piece)
        self.next += len(piece) - len(head)
        return piece

    def conversation(self, num_tokens: int) -> list[Message]:
        return [user(self.take(num_tokens - 20) + QUESTION)]

    def conversations(self, num: int, num_tokens: int) -> list[list[Message]]:
        return [self.conversation(num_tokens) for _ in range(num)]


def check_reused(server: Server, answers: Sequence[Answer]) -> None:
    """Whether their prompts were known, as what is measured of them presumes."""
    for answer in answers:
        if answer.num_run > MOST_RUN:
            raise SystemExit(f"{server.name}: ran {answer.num_run} of {answer.num_prompt} tokens "
                             f"of a prompt that it should know but for {MOST_RUN}")


def overlap_rate(answers: Sequence[Answer]) -> float:
    """Tokens a second of all, while all were under way."""
    begin = max(answer.times[0] for answer in answers)
    end = min(answer.times[-1] for answer in answers)
    tokens_a_piece = [answer.num_tokens / len(answer.times) for answer in answers]
    pieces = [sum(begin < at <= end for at in answer.times) for answer in answers]
    return sum(n * each for n, each in zip(pieces, tokens_a_piece, strict=True)) / (end - begin)


def token_ms(answer: Answer) -> float:
    return 1000 * (answer.times[-1] - answer.times[0]) / (answer.num_tokens - 1)


def turns(servers: Sequence[Server], rounds: int) -> Iterator[Server]:
    """The servers, in an order that alternates; each when none of them is busy."""
    for i in range(rounds):
        for server in reversed(servers) if i % 2 else servers:
            wait_until_idle(servers)
            yield server


def in_turns(servers: Sequence[Server], rounds: int,
             measure: Callable[[Server], float]) -> Figures:
    """Medians of what takes turns over the servers."""
    found: dict[str, list[float]] = {server.name: [] for server in servers}
    for server in turns(servers, rounds):
        found[server.name].append(measure(server))
    return {name: statistics.median(values) for name, values in found.items()}


def decode_together(servers: Sequence[Server], conversations: Sequence[list[Message]], reply: int,
                    rounds: int) -> Figures:
    """Tokens a second of conversations that reply at the same time, all of whose prompts are
    known."""
    for server in servers:
        for conversation in conversations:
            server.chat(conversation, 1)
        server.chat_all(conversations, 2)  # Each finds its place.
    return in_turns(servers, rounds, lambda server: decode_rate(server, conversations, reply))


def decode_rate(server: Server, conversations: Sequence[list[Message]], reply: int) -> float:
    answers = server.chat_all(conversations, reply)
    check_reused(server, answers)
    return overlap_rate(answers)


def next_turn(servers: Sequence[Server], texts: Texts, num_tokens: int, rounds: int) -> Figures:
    """Milliseconds to the first token of the next turn of a conversation: while the server has it
    in memory, and after a restart."""
    figures: Figures = {}
    for when in ("memory", "restart"):
        histories = {server.name: texts.conversation(num_tokens) for server in servers}
        for server in servers:
            say(server, histories[server.name], 24)

        def turn(server: Server, when: str = when,
                 histories: dict[str, list[Message]] = histories) -> float:
            if when == "restart":
                server.restart()
                server.chat([user("Hello")], 2)  # The model's pages are warm, on both sides.
            histories[server.name].append(user("And what else does it say? Answer in brief."))
            answer = say(server, histories[server.name], 24)
            if when == "memory":
                check_reused(server, [answer])
            return answer.first_ms

        for name, value in in_turns(servers, rounds, turn).items():
            figures[f"{name}/{when}"] = value
    return figures


def choices(servers: Sequence[Server], texts: Texts, num: int, num_tokens: int, reply: int,
            rounds: int) -> Figures:
    """Milliseconds to the first token of all choices of a prompt that nobody knows, of one and of
    several; and of attndb the K and V in memory behind the reply, in megabytes."""
    figures: Figures = {}
    for count in (1, num):
        kv: list[float] = []

        def first(server: Server, count: int = count, kv: list[float] = kv) -> float:
            conversation = texts.conversation(num_tokens)
            before = server.kv_bytes()
            seconds = server.choose(conversation, count, reply)
            after = server.kv_bytes()
            if before is not None and after is not None:
                kv.append((after - before) / 1e6)
            return 1000 * max(seconds)

        for name, value in in_turns(servers, rounds, first).items():
            figures[f"{name}/first_{count}"] = value
        figures[f"kv_mb_{count}"] = statistics.median(kv)
    return figures


def bound(servers: Sequence[Server], reply: int, rounds: int) -> Figures:
    """Tokens a second of a reply to a short question: free, and bound by the grammar of a
    schema."""
    figures: Figures = {}
    form = {"response_format": {"type": "json_schema",
                                "json_schema": {"name": "list", "schema": LIST_SCHEMA}}}
    for what, fields in (("plain", {}), ("bound", form)):
        def rate(server: Server, fields: dict[str, Any] = fields) -> float:
            question = [user("List the animals of a farm, and how many there are of each.")]
            return 1000 / token_ms(server.chat(question, reply, fields=fields))

        for name, value in in_turns(servers, rounds, rate).items():
            figures[f"{name}/{what}"] = value
    return figures


def say(server: Server, history: list[Message], max_tokens: int) -> Answer:
    answer = server.chat(history, max_tokens, ignore_eos=False)
    history.append(assistant(answer.text))
    return answer


def long_prompt_beside(servers: Sequence[Server], texts: Texts, num_tokens: int,
                       rounds: int) -> Figures:
    """Milliseconds a token of three replies, before and while a long prompt is read, and the
    longest that any of them waited for its next token meanwhile."""
    found: dict[str, list[Figures]] = {server.name: [] for server in servers}
    for server in turns(servers, rounds):
        found[server.name].append(read_beside(server, texts, num_tokens))
    figures: Figures = {}
    for name, each_round in found.items():
        for what in each_round[0]:
            values = [each[what] for each in each_round]
            figures[f"{name}/{what}"] = (
                max(values) if what == "longest" else statistics.median(values))
    return figures


def read_beside(server: Server, texts: Texts, num_tokens: int) -> Figures:
    prompt, others = texts.conversation(num_tokens), texts.conversations(3, 300)
    for other in others:
        server.chat(other, 1)
    server.chat_all(others, 2)  # Each finds its place.
    wait_until_idle([server])
    is_read = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(len(others)) as pool:
        replying = [pool.submit(server.chat, other, BESIDE_TOKENS, until=is_read)
                    for other in others]
        try:
            time.sleep(BEFORE_SECONDS)
            late = server.chat(prompt, 1)
        finally:
            is_read.set()
    replies = [reply.result() for reply in replying]
    begin, asked, read = max(reply.times[0] for reply in replies), late.asked, late.times[0]
    if asked - begin < BEFORE_SECONDS / 2 or min(reply.times[-1] for reply in replies) < read:
        raise SystemExit(f"{server.name}: not all replies were under way from "
                         f"{BEFORE_SECONDS / 2} s before the prompt until it was read")
    before, beside = token_ms_of(replies, begin, asked), token_ms_of(replies, asked, read)
    return {"before": before, "beside": beside, "ratio": beside / before, "prompt": late.first_ms,
            "longest": max(longest_ms(reply, asked, read) for reply in replies)}


def token_ms_of(replies: Sequence[Answer], begin: float, end: float) -> float:
    """Milliseconds a token of replies that are under way from begin to end, or at least so many
    where none has one."""
    num_tokens = sum(begin < at <= end for reply in replies for at in reply.times)
    return 1000 * (end - begin) * len(replies) / max(num_tokens, 1)


def longest_ms(reply: Answer, begin: float, end: float) -> float:
    """The longest without a token, of what of it lies between begin and end."""
    times = [begin, *(at for at in reply.times if begin < at < end), end]
    return 1000 * max(b - a for a, b in itertools.pairwise(times))


def round_robin(servers: Sequence[Server], texts: Texts, num: int, num_tokens: int) -> Figures:
    """Milliseconds to the first token of many conversations' second turns, one after another,
    beside those of their first."""
    figures: Figures = {}
    conversations = texts.conversations(num, num_tokens)
    for server in turns(servers, 1):
        histories = [list(conversation) for conversation in conversations]
        first = [say(server, history, 16).first_ms for history in histories]
        for history in histories:
            history.append(user("What comes after that?"))
        wait_until_idle([server])
        second = [say(server, history, 16).first_ms for history in histories]
        figures[f"{server.name}/first"] = statistics.median(first)
        figures[f"{server.name}/p90"] = statistics.quantiles(second, n=10)[-1]
    return figures


def idle_connections(servers: Sequence[Server], num: int) -> Figures:
    """Megabytes that a server grows by for connections that have asked once and wait."""
    figures: Figures = {}
    for server in turns(servers, 1):
        before = server.resident_mb()
        sockets = []
        for _ in range(num):
            connection = socket.create_connection(("127.0.0.1", server.port))
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sockets.append(connection)
        answered = sum(connection.recv(4096).startswith(b"HTTP/1.1 200") for connection in sockets)
        figures[f"{server.name}/grows"] = server.resident_mb() - before
        figures[f"{server.name}/answered"] = answered
        for connection in sockets:
            connection.close()
    return figures


def narrow_socket(port: int) -> socket.socket:
    """A connection whose two ends' kernels hold little that is not read: some 20 KB. With segments
    of the loopback's own length it is 1.5 MB, whatever the buffer of the one that reads."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    narrow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 256)
    narrow.connect(("127.0.0.1", port))
    return narrow


def held_bytes() -> int:
    """What is written to such a connection until a write would wait."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with narrow_socket(listening.getsockname()[1]):
            writing, _ = listening.accept()
            with writing:
                writing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                writing.settimeout(0.5)
                num_held = 0
                try:
                    while True:
                        num_held += writing.send(b"x" * 250)  # An event is about so long.
                except TimeoutError:
                    return num_held


def read_answer(connection: socket.socket) -> bytes:
    """What comes of an answer in chunks, head and all, up to its end or to where it is cut off."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while not answer.endswith(LAST_CHUNK):
            piece = connection.recv(65536)
            if not piece:
                break
            answer += piece
    return answer


def story_request(num_tokens: int) -> bytes:
    body = (b'{"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": %d, '
            b'"temperature": 0, "stream": true, "ignore_eos": true}' % num_tokens)
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def unread(server: Server) -> int:
    """Bytes that a server still has of a story that nobody reads: what the kernel does not hold."""
    with socket.create_connection(("127.0.0.1", server.port)) as reading:
        reading.sendall(story_request(STORY_TOKENS))
        held, made = held_bytes(), len(read_answer(reading))
    if made < 1.05 * held:
        raise SystemExit(f"{server.name}: an answer of {made} B, of which the kernel holds "
                         f"{held} B: no write waits")
    return made - held


@contextlib.contextmanager
def clients_that_do_not_read(server: Server, num: int) -> Iterator[list[socket.socket]]:
    """Clients that each ask for a story, until all are answered: what is left are connections."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(narrow_socket(server.port)) for _ in range(num)]
        for slow in sockets:
            slow.sendall(story_request(STORY_TOKENS))
        wait_until_idle([server])
        yield sockets


def slow_readers(servers: Sequence[Server], num: int, rounds: int) -> Figures:
    """Milliseconds a token of a reply, alone and beside clients that read nothing of theirs.
    `whole`: how many answers came to their end when they were read after that, none of it lost."""
    figures: Figures = {}
    for server in turns(servers, 1):
        def reply_ms(server: Server = server) -> float:
            return token_ms(server.chat([user("Tell me a story.")], 64))

        figures[f"{server.name}/alone"] = statistics.median(reply_ms() for _ in range(rounds))
        figures[f"{server.name}/unread_kb"] = unread(server) / 1000
        with clients_that_do_not_read(server, num) as sockets:
            figures[f"{server.name}/beside"] = statistics.median(reply_ms() for _ in range(rounds))
            figures[f"{server.name}/whole"] = sum(
                read_answer(slow).endswith(LAST_CHUNK) for slow in sockets)
    return figures


def is_stopped(server: Server, num: int) -> bool:
    """Whether as many clients that do not read keep others from being answered."""
    with clients_that_do_not_read(server, num):
        return not server.is_healthy()


def start_seconds(servers: Sequence[Server], rounds: int) -> Figures:
    """Seconds from the command to the first healthy answer, the model's pages in memory."""
    def start(server: Server) -> float:
        server.restart()
        return server.started_seconds

    return in_turns(servers, rounds, start)


def flags(server: Llama, conversation: list[Message], num: int, reply: int,
          rounds: int) -> Figures:
    """What llama-server's flags are chosen by: the milliseconds of reading a prompt, and tokens a
    second of so many slots that have it and reply at the same time."""
    began = time.perf_counter()
    server.post("/v1/chat/completions", {"messages": conversation, "max_tokens": 1, "id_slot": 0})
    prompt_ms = 1000 * (time.perf_counter() - began)
    save_slot(server, "flags")
    for slot in range(1, num):
        restore_slot(server, "flags", slot)
    together = [conversation] * num
    check_reused(server, server.chat_all(together, 2))
    rates = in_turns([server], rounds, lambda server: decode_rate(server, together, reply))
    return {"prompt": prompt_ms, "together": rates[server.name]}


def save_slot(server: Llama, name: str, slot: int = 0) -> None:
    server.post(f"/slots/{slot}?action=save", {"filename": name})


def restore_slot(server: Llama, name: str, slot: int = 0) -> None:
    server.post(f"/slots/{slot}?action=restore", {"filename": name})
