"""What is measured of the servers; each returns figures by name."""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from servers import Answer, Llama, Message, Server, assistant, user

Figures = dict[str, float]
LAST_CHUNK = b"\r\n0\r\n\r\n"
QUESTION = "\n\nSay in one sentence what the text above is about."


class Texts:
    """Pieces of one text, none of which begins as another does."""

    def __init__(self, path: Path, server: Server) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.server = server
        self.next = 0

    def take(self, num_tokens: int) -> str:
        num_chars = 5 * num_tokens
        if self.next + num_chars > len(self.text):
            self.next = 0
        piece = f"Text {self.next}:\n" + self.text[self.next:self.next + num_chars]
        # Cut to so many tokens, within a few: a text's share of the piece's tokens.
        for _ in range(4):
            found = self.server.num_tokens(piece)
            if found <= num_tokens:
                break
            piece = piece[:len(piece) * num_tokens // found]
        self.next += num_chars
        return piece

    def conversation(self, num_tokens: int) -> list[Message]:
        return [user(self.take(num_tokens - 20) + QUESTION)]


def overlap_rate(answers: Sequence[Answer]) -> float:
    """Tokens a second of all, while all were under way."""
    begin = max(answer.times[0] for answer in answers)
    end = min(answer.times[-1] for answer in answers)
    tokens_a_piece = [answer.num_tokens / len(answer.times) for answer in answers]
    pieces = [sum(begin < at <= end for at in answer.times) for answer in answers]
    return sum(n * each for n, each in zip(pieces, tokens_a_piece, strict=True)) / (end - begin)


def token_ms(answer: Answer) -> float:
    return 1000 * (answer.times[-1] - answer.times[0]) / (answer.num_tokens - 1)


def in_turns(servers: Sequence[Server], rounds: int,
             measure: Callable[[Server], float]) -> Figures:
    """Medians of what takes turns over the servers."""
    found: dict[str, list[float]] = {server.name: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            found[server.name].append(measure(server))
    return {name: statistics.median(values) for name, values in found.items()}


def decode_together(servers: Sequence[Server], texts: Texts, num: int, num_tokens: int,
                    reply: int, rounds: int) -> Figures:
    """Tokens a second of conversations that reply at the same time, all of whose prompts are
    known."""
    conversations = [texts.conversation(num_tokens) for _ in range(num)]
    for server in servers:
        for conversation in conversations:
            server.chat(conversation, 1)
        server.chat_all(conversations, 2)  # Each finds its place.
    return in_turns(servers, rounds,
                    lambda server: overlap_rate(server.chat_all(conversations, reply)))


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
            return say(server, histories[server.name], 24).first_ms

        for name, value in in_turns(servers, rounds, turn).items():
            figures[f"{name}/{when}"] = value
    return figures


def say(server: Server, history: list[Message], max_tokens: int) -> Answer:
    answer = server.chat(history, max_tokens, ignore_eos=False)
    history.append(assistant(answer.text))
    return answer


def long_prompt_beside(servers: Sequence[Server], texts: Texts, num_tokens: int,
                       rounds: int) -> Figures:
    """Milliseconds a token of three replies, before and while a long prompt is read."""
    figures: Figures = {}
    for server in servers:
        ratios, before_ms, beside_ms, first_ms = [], [], [], []
        for _ in range(rounds):
            prompt = texts.conversation(num_tokens)
            others = [texts.conversation(300) for _ in range(3)]
            for other in others:
                server.chat(other, 1)
            arrived: list[Answer] = []

            def ask_late(server: Server = server, prompt: list[Message] = prompt,
                         arrived: list[Answer] = arrived) -> None:
                time.sleep(3)
                arrived.append(server.chat(prompt, 1))

            late = threading.Thread(target=ask_late)
            late.start()
            replies = server.chat_all(others, 700)
            late.join()
            asked, read = arrived[0].asked, arrived[0].times[0]
            before = [gap for reply in replies for gap in gaps(reply, reply.times[0], asked)]
            beside = [gap for reply in replies
                      for gap in gaps(reply, asked, min(read, reply.times[-1]))]
            before_ms.append(statistics.mean(before))
            beside_ms.append(statistics.mean(beside))
            ratios.append(beside_ms[-1] / before_ms[-1])
            first_ms.append(arrived[0].first_ms)
        figures[f"{server.name}/before"] = statistics.median(before_ms)
        figures[f"{server.name}/beside"] = statistics.median(beside_ms)
        figures[f"{server.name}/ratio"] = statistics.median(ratios)
        figures[f"{server.name}/prompt"] = statistics.median(first_ms)
    return figures


def gaps(answer: Answer, begin: float, end: float) -> list[float]:
    """Milliseconds between pieces that came between two times."""
    inside = [at for at in answer.times if begin < at <= end]
    return [1000 * (b - a) for a, b in zip(inside, inside[1:], strict=False)]


def round_robin(servers: Sequence[Server], texts: Texts, num: int, num_tokens: int) -> Figures:
    """Milliseconds to the first token of many conversations' second turns, one after another,
    beside those of their first."""
    figures: Figures = {}
    for server in servers:
        histories = [texts.conversation(num_tokens) for _ in range(num)]
        first = [say(server, history, 16).first_ms for history in histories]
        for history in histories:
            history.append(user("What comes after that?"))
        second = [say(server, history, 16).first_ms for history in histories]
        figures[f"{server.name}/first"] = statistics.median(first)
        figures[f"{server.name}/p90"] = statistics.quantiles(second, n=10)[-1]
    return figures


def idle_connections(servers: Sequence[Server], num: int) -> Figures:
    """Megabytes that a server grows by for connections that have asked once and wait."""
    figures: Figures = {}
    for server in servers:
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


def slow_readers(servers: Sequence[Server], num: int, rounds: int) -> Figures:
    """Milliseconds a token of a reply, alone and beside clients that read nothing of theirs, once
    these have been answered: of each answer the server still has what the kernel does not hold.
    `whole`: how many answers came to their end when they were read after that, none of it lost."""
    figures: Figures = {}
    body = (b'{"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 100, '
            b'"temperature": 0, "stream": true, "ignore_eos": true}')
    request = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
               b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    for server in servers:
        def reply_ms(server: Server = server) -> float:
            return token_ms(server.chat([user("Tell me a story.")], 64))

        alone = statistics.median(reply_ms() for _ in range(rounds))
        with socket.create_connection(("127.0.0.1", server.port)) as reading:
            reading.sendall(request)
            held, made = held_bytes(), len(read_answer(reading))
        if made < 1.05 * held:
            raise SystemExit(f"{server.name}: an answer of {made} B, of which the kernel holds "
                             f"{held} B: no write waits")
        sockets = []
        for _ in range(num):
            sockets.append(narrow_socket(server.port))
            sockets[-1].sendall(request)
        server.chat([user("Is it over?")], 2)
        server.wait_until_idle()  # What is left are connections that nobody reads.
        beside = statistics.median(reply_ms() for _ in range(rounds))
        whole = 0
        for slow in sockets:
            whole += read_answer(slow).endswith(LAST_CHUNK)
            slow.close()
        figures[f"{server.name}/whole"] = whole
        figures[f"{server.name}/alone"] = alone
        figures[f"{server.name}/beside"] = beside
        figures[f"{server.name}/unread_kb"] = (made - held) / 1000
    return figures


def start_seconds(servers: Sequence[Server], rounds: int) -> Figures:
    """Seconds from the command to the first healthy answer, the model's pages in memory."""
    def start(server: Server) -> float:
        server.restart()
        return server.started_seconds

    return in_turns(servers, rounds, start)


def save_slot(server: Llama, name: str) -> None:
    server.post("/slots/0?action=save", {"filename": name})


def restore_slot(server: Llama, name: str) -> None:
    server.post("/slots/0?action=restore", {"filename": name})
