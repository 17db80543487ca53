"""What the tests of the server share: servers with stores of their own, and ways to ask them.

Servers run SmolLM2 on one thread, on any free port of 127.0.0.1; none outlives its test.
"""

import contextlib
import ctypes
import dataclasses
import http.client
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "testing"))

from program_environment import environment  # noqa: E402

WAIT = 120  # Seconds, for what takes one where nobody else is busy.

CHAT = "/v1/chat/completions"
CONTEXTS = "/attndb/v1/contexts"
MESSAGES = "/attndb/v1/messages"
CONTEXT_HEADER = "X-Attndb-Context"
DROPPED_HEADER = "X-Attndb-Dropped"

# The system message of SmolLM2's own template, for chats that have none.
DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
# What the model knows so well that rounding changes no word of it: it says Paris.
CAPITAL = "Tell me the capital of France."

# A message of about 170 tokens.
STORY = ("The bakery opens at six and sells rye bread. Nine boats have room in the harbour. "
         "A ferry runs to the mainland on Tuesdays. The school has two rooms and forty pupils. "
         "Sheep graze on the northern hills until October. The post office closes at noon. "
         "The lighthouse of Skerry was built in 1870. Its keeper is called Maren. "
         "The lamp shines every twelve seconds. The spare key hangs behind the red door. "
         "In winter the road to the cape is closed, and letters come by the ferry alone. "
         "The doctor visits each second Friday and sees her patients in the old chapel. "
         "Its bell was cast in Bergen and rings at eight, at noon and when there is fog. "
         "The island has one shop, one inn with five beds, and a library of nine shelves. ")

_attndb = None  # Set by conftest.py.


def use_binary(path):
    global _attndb
    _attndb = os.path.abspath(path)


def binary():
    return _attndb


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def wait_until(is_so, what, seconds=WAIT):
    """Returns what is_so() says, once that is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


class HttpError(Exception):
    """An answer that is no 200."""

    def __init__(self, status, headers, body):
        super().__init__(f"{status}: {body[:500]!r}")
        self.status = status
        self.headers = headers
        self.body = body

    def error(self):
        return json.loads(self.body)["error"]


@dataclasses.dataclass
class Reply:
    """An answer of a chat, streamed or not."""

    text: str
    finish: str
    usage: dict
    headers: http.client.HTTPMessage

    @property
    def context(self):
        return self.headers[CONTEXT_HEADER]

    @property
    def cached(self):
        return self.usage["prompt_tokens_details"]["cached_tokens"]


class Stream:
    """A request whose events are read one by one. To close it is to go away."""

    def __init__(self, server, path, body, headers):
        self._connection = server.connection()
        self._connection.request("POST", path, json.dumps(body),
                                 {"Content-Type": "application/json", **headers})
        self.response = None

    def begin(self):
        """Waits for the answer's head."""
        self.response = self._connection.getresponse()
        if self.response.status != 200:
            raise HttpError(self.response.status, self.response.headers, self.response.read())

    def data(self):
        """What each event says, as text; the end of the stream ends it."""
        if self.response is None:
            self.begin()
        for line in self.response:
            if line.startswith(b"data: "):
                yield line[len(b"data: "):].decode().rstrip("\n")

    def events(self):
        """What each event says, up to [DONE]."""
        for text in self.data():
            if text == "[DONE]":
                return
            yield json.loads(text)

    def chunks(self):
        """Each event of an answer. An event that is an error is raised."""
        for event in self.events():
            if "error" in event:
                raise HttpError(event["error"]["code"], self.response.headers,
                                json.dumps(event).encode())
            yield event

    def pieces(self):
        """The words of each event that has any."""
        for event in self.chunks():
            for choice in event.get("choices", []):
                text = choice.get("text") or choice.get("delta", {}).get("content")
                if text:
                    yield text

    def close(self):
        if self.response is not None:
            self.response.close()
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def _die_with_parent():
    """In the child: what ends this process ends its servers, too."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Server:
    """`attndb serve` on a store; `with` ends it. `inside`: SmallDisk.inside (small_disk.py)."""

    def __init__(self, store, *args, port=0, model="smollm2", inside=(), variables=()):
        self.store = store
        # A file, so that nobody need read it for the server to go on.
        self._said = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*inside, _attndb, "--json", "serve", "-t", "1",
             *map(str, ("-m", model, "-p", port, *args))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said,
            env={**environment(store), **dict(variables)}, cwd=ROOT,
            preexec_fn=_die_with_parent)
        line = self.process.stdout.readline()
        try:
            where = json.loads(line)
            self.url, self.port, self.model = where["url"], where["port"], where["model"]
            self.started = where
        except (json.JSONDecodeError, KeyError) as e:
            self.kill()
            raise AssertionError(f"no server: {line!r}\n{self.said()}") from e

    def said(self):
        """What came on stderr."""
        self._said.seek(0)
        return self._said.read().decode("utf-8", "replace")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """Its exit code."""
        return self.process.wait(timeout=WAIT)

    def kill(self):
        """As a power cut: no chance to put anything in order."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """As its operator ends it."""
        if self.process.poll() is None:
            self.terminate()
        try:
            code = self.wait()
        finally:
            self.kill()
        assert code == 0, f"exit code {code}\n{self.said()}"

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        # Whoever killed it has ended it already; a test that fails is told why, not that.
        if error is not None or self.process.poll() is not None:
            self.kill()
        else:
            self.stop()
        self._said.close()

    def connection(self, timeout=WAIT):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    # One request each.

    def request(self, method, path, body=None, headers=(), timeout=WAIT):
        """Status, headers and body of the answer."""
        connection = self.connection(timeout)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, headers=()):
        status, answered, text = self.request(method, path, body, headers)
        if status != 200:
            raise HttpError(status, answered, text)
        return json.loads(text)

    def ask(self, messages, headers=(), **fields):
        """The answer at temperature 0 to a text or to messages."""
        status, answered, text = self.request("POST", CHAT, _chat(messages, fields), headers)
        if status != 200:
            raise HttpError(status, answered, text)
        body = json.loads(text)
        choice = body["choices"][0]
        return Reply(choice["message"]["content"], choice["finish_reason"], body["usage"],
                     answered)

    def stream(self, messages, headers=(), **fields):
        body = _chat(messages, fields)
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
        return Stream(self, CHAT, body, dict(headers))

    def ask_streamed(self, messages, headers=(), **fields):
        with self.stream(messages, headers, **fields) as stream:
            events = list(stream.chunks())
            choices = [choice for event in events for choice in event["choices"]]
            return Reply("".join(choice["delta"].get("content", "") for choice in choices),
                         choices[-1]["finish_reason"], events[-1]["usage"],
                         stream.response.headers)

    def describe(self, context):
        return self.json("GET", f"{CONTEXTS}/{context}")

    def wait_until_durable(self, context):
        return wait_until(lambda: (info := self.describe(context))["durable"] and info,
                          f"{context} is durable")

    def metric(self, name):
        status, _, text = self.request("GET", "/metrics")
        assert status == 200
        for line in text.decode().splitlines():
            if line.split(" ")[0] in (name, name + "_total"):
                return float(line.split(" ")[1])
        raise AssertionError(f"no metric {name} in\n{text.decode()}")


def _chat(messages, fields):
    if isinstance(messages, str):
        messages = [user(messages)]
    return {"model": "smollm2", "messages": messages, "temperature": 0, "max_tokens": 8, **fields}


def run_attndb(store, *args, stdin="", exit_code=0, inside=()):
    """The command line's answer, as JSON. `inside`: SmallDisk.inside (small_disk.py)."""
    done = subprocess.run([*inside, _attndb, "--json", *map(str, args)], input=stdin.encode(),
                          capture_output=True, env=environment(store), cwd=ROOT, timeout=WAIT,
                          check=False)
    assert done.returncode == exit_code, f"attndb {args}: {done}"
    return json.loads(done.stdout)


def write_tiny_model(path, meta=None, **keys):
    """A tiny random model, with these of its metadata; `keys` are those of its architecture."""
    spec = importlib.util.spec_from_file_location("tiny", ROOT / "scripts/make_tiny_model.py")
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    model = tiny.llama_bpe(seed=17)
    model.keys(**keys)
    model.meta |= meta or {}
    model.write(str(path))
    return path


def write_embedding_model(path, pooling_type=3):
    """One that pools tokens: 1 their mean, 2 the first, 3 the last."""
    return write_tiny_model(path, pooling_type=pooling_type)


def damage_longest_segment(store):
    """Flips a bit in each page of the middle of the longest file."""
    path = max((path for path in store.rglob("*")
                if path.is_file() and not path.name.startswith("catalog")
                and "sqlite" not in path.name and not path.name.endswith(("-wal", "-shm"))),
               key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    places = range(len(data) // 4, len(data) * 3 // 4, 4096)
    for place in places:
        data[place] ^= 0x10
    path.write_bytes(data)


def start_client(url, *args, stdin=""):
    """The command line, that asks a server, as a process."""
    client = subprocess.Popen([_attndb, "--json", *map(str, args), "--server", url],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=environment("/nowhere"), cwd=ROOT)
    client.stdin.write(stdin.encode())
    client.stdin.close()
    return client


def run_client(url, *args, stdin="", exit_code=0, as_json=True, flag=True, **variables):
    """The command line's answer that asks a server; as text, what it prints and what it says."""
    env = {**environment("/nowhere"), **variables}
    del env["ATTNDB_PATH"]
    if not flag:
        env["ATTNDB_URL"] = url
    command = [_attndb, *(["--json"] if as_json else []), *map(str, args)]
    done = subprocess.run(command + (["--server", url] if flag else []), input=stdin.encode(),
                          capture_output=True, env=env, cwd=ROOT, timeout=WAIT, check=False)
    assert done.returncode == exit_code, f"attndb {args}: {done}"
    return json.loads(done.stdout) if as_json else (done.stdout.decode(), done.stderr.decode())


def run_attndb_as_text(store, *args):
    """What the command line prints that works on a store."""
    done = subprocess.run([_attndb, *map(str, args)], stdin=subprocess.DEVNULL,
                          capture_output=True, env=environment(store), cwd=ROOT, timeout=WAIT,
                          check=True)
    return done.stdout.decode()


@contextlib.contextmanager
def new_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attndb-server-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def new_server(*args):
    """A server on a store that holds nothing."""
    with new_folder() as folder, Server(folder / "store", *args) as server:
        yield server


def all_at_once(calls):
    """The results of calls that run side by side, in their order."""
    results = [None] * len(calls)

    def run(i, call):
        try:
            results[i] = call()
        except Exception as e:  # pylint: disable=broad-except
            results[i] = e

    threads = [threading.Thread(target=run, args=(i, call)) for i, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
