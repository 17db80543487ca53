"""The two servers that are compared, and one way to ask both."""

from __future__ import annotations

import abc
import dataclasses
import http.client
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

THREADS = 2
START_SECONDS = 120
WAIT_SECONDS = 7200  # A long prompt, read exactly, on two cores.
IDLE_SECONDS = 120  # What is stored, merged and built behind an answer.
CHOSEN = ("-fa", "on")  # llama-server's fastest flags here: the scenario `flags` compares them.

Message = dict[str, str]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


@dataclasses.dataclass
class Answer:
    """A streamed reply; times are those of time.perf_counter."""

    text: str
    asked: float
    times: list[float]  # When each piece of text came: one a token, but for parts of characters.
    usage: dict[str, Any]  # Empty of a reply that was not read to its end, as the timings are.
    timings: dict[str, Any]  # llama-server's own.

    @property
    def first_ms(self) -> float:
        return 1000 * (self.times[0] - self.asked)

    @property
    def num_tokens(self) -> int:
        return int(self.usage["completion_tokens"])

    @property
    def num_prompt(self) -> int:
        return int(self.usage["prompt_tokens"])

    @property
    def num_run(self) -> int:
        """Tokens of the prompt that were not reused: attndb says it as OpenAI does, llama-server in
        its timings, which stand in the same event."""
        if self.timings:
            return int(self.timings["prompt_n"])
        return self.num_prompt - int(self.usage["prompt_tokens_details"]["cached_tokens"])


class Server(abc.ABC):
    """A server with the model on any free port of 127.0.0.1."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.started_seconds = 0.0

    @abc.abstractmethod
    def command(self) -> list[str]:
        """What starts it, on self.port."""

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        began = time.perf_counter()
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        while not self.is_healthy():
            if self.process.poll() is not None or time.perf_counter() - began > START_SECONDS:
                raise SystemExit(f"{self.name} did not start: see {self.folder / 'log'}")
            time.sleep(0.005)
        self.started_seconds = time.perf_counter() - began

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as got:
                return bool(got.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(START_SECONDS)

    def kill(self) -> None:
        """Ends it with no chance to put anything in order."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()

    def resident_mb(self) -> float:
        assert self.process is not None
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1000

    def cpu_seconds(self) -> float:
        """What the process has used, all of its threads."""
        assert self.process is not None
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            user_ticks, system_ticks = stat.read().rpartition(")")[2].split()[11:13]
        return (int(user_ticks) + int(system_ticks)) / os.sysconf("SC_CLK_TCK")

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}",
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            return dict(json.load(response))

    def num_tokens(self, text: str) -> int:
        return len(self.post("/tokenize", {"content": text})["tokens"])

    def kv_bytes(self) -> int | None:
        """Bytes of K and V in memory; None: the server does not say."""
        return None

    def fields(self) -> dict[str, Any]:
        """What only this server is asked for."""
        return {}

    def chat(self, messages: Sequence[Message], max_tokens: int, ignore_eos: bool = True,
             until: threading.Event | None = None,
             fields: dict[str, Any] | None = None) -> Answer:
        """Asks for a reply, greedily, and reads it as it comes, to its end or until then."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True,
                "ignore_eos": ignore_eos, "stream_options": {"include_usage": True},
                **self.fields(), **(fields or {})}
        asked = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(f"{self.name}: {response.status} {response.read()!r}")
        text, times, usage, timings = "", [], {}, {}
        for event in events_of(response):
            usage, timings = event.get("usage") or usage, event.get("timings") or timings
            for choice in event["choices"]:
                piece = choice["delta"].get("content")
                if piece:
                    text += piece
                    times.append(time.perf_counter())
            if until is not None and until.is_set():
                break
        response.close()
        connection.close()
        return Answer(text, asked, times, usage, timings)

    def choose(self, messages: Sequence[Message], num: int, max_tokens: int) -> list[float]:
        """Asks for so many choices of a reply. Seconds to the first text of each."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        body = {"messages": messages, "max_tokens": max_tokens, "n": num, "seed": 1,
                "temperature": 1, "stream": True, "ignore_eos": True, **self.fields()}
        asked = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(f"{self.name}: {response.status} {response.read()!r}")
        first: dict[int, float] = {}
        for event in events_of(response):
            for choice in event["choices"]:
                if choice["delta"].get("content"):
                    first.setdefault(choice["index"], time.perf_counter() - asked)
        connection.close()
        if len(first) != num:
            raise SystemExit(f"{self.name}: {len(first)} of {num} choices say something")
        return list(first.values())

    def chat_all(self, conversations: Sequence[Sequence[Message]], max_tokens: int) -> list[Answer]:
        """Asks all of them at the same time."""
        answers: dict[int, Answer] = {}

        def ask(i: int) -> None:
            answers[i] = self.chat(conversations[i], max_tokens)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(conversations))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [answers[i] for i in range(len(conversations))]


def machine() -> dict[str, str | int]:
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(": ", 1)[1].strip() for line in info if "model name" in line), "")
    return {"cpu": model, "cpus": os.cpu_count() or 0, "kernel": platform.release()}


def wait_until_idle(servers: Sequence[Server]) -> None:
    """Until none of them has used a twentieth of a core for two seconds: what is left to do behind
    an answer would slow whoever is measured next."""
    busy: list[str] = []
    used = [server.cpu_seconds() for server in servers]
    deadline = time.monotonic() + IDLE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(2)
        before, used = used, [server.cpu_seconds() for server in servers]
        busy = [server.name for server, begin, end in zip(servers, before, used, strict=True)
                if end - begin >= 0.1]
        if not busy:
            return
    raise SystemExit(f"{', '.join(busy)}: not idle within {IDLE_SECONDS} s of the last answer")


def events_of(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        if not line.startswith(b"data: "):
            continue
        data = line[len(b"data: "):].strip()
        if data == b"[DONE]":
            return
        yield json.loads(data)


class Attndb(Server):
    name = "attndb"

    def __init__(self, folder: Path, binary: str, model: str, plan: str = "full",
                 flags: Sequence[str] = (), store: Path | None = None) -> None:
        super().__init__(folder)
        self.binary, self.model, self.plan, self.flags = binary, model, plan, list(flags)
        self.store = store or folder / "store"

    def command(self) -> list[str]:
        return [self.binary, "serve", "--model", self.model, "--threads", str(THREADS), "--port",
                str(self.port), "--db", str(self.store), *self.flags]

    def kv_bytes(self) -> int | None:
        name = 'attndb_memory_bytes{kind="kv"} '
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as metrics:
            lines = metrics.read().decode().splitlines()
        return int(float(next(line[len(name):] for line in lines if line.startswith(name))))

    def fields(self) -> dict[str, Any]:
        return {"plan": self.plan}

    def forget(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)


class Llama(Server):
    """llama.cpp's own server. Its slots share the context: -c is that of all. `chosen`: flags of
    which others would do, too."""

    name = "llama-server"

    def __init__(self, folder: Path, binary: str, model: str, flags: Sequence[str],
                 chosen: Sequence[str] = CHOSEN) -> None:
        super().__init__(folder)
        self.binary, self.model, self.flags = binary, model, [*chosen, *flags]

    def command(self) -> list[str]:
        return [self.binary, "-m", self.model, "-t", str(THREADS), "-tb", str(THREADS),
                "--port", str(self.port), "--host", "127.0.0.1", "--no-warmup", *self.flags]
