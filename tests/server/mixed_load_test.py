"""Goal: no mix of requests ends a server, makes it answer with an error of its own, damages its
store, or makes a sanitizer report.

Method: clients draw requests from seeds: chats with names, contexts, stop strings and plans,
        streams that the client leaves, explained requests, imports, appends, removals and bodies
        that are refused. The model is a tiny random one, so a reply takes milliseconds. Meanwhile
        the server is ended by SIGTERM and by SIGKILL in turns, and started again on its store.
        scripts/test_long.sh runs this against servers that are built with sanitizers: their reports
        are on stderr and in the exit code.
Sizes:  --mixed-seconds and --restart-every.
"""

import collections
import http.client
import json
import random
import sys
import threading
import time

import pytest

import server_case
from server_case import (CHAT, CONTEXTS, ROOT, STORY, HttpError, Server, assistant, new_folder,
                         user, write_tiny_model)

sys.path.insert(0, str(ROOT / "python/tests/hf"))

from sizes import print_count  # noqa: E402

NUM_CLIENTS = 6
PATIENCE = 600  # Seconds behind the end, for kinds of requests that were not answered yet.
WINDOW = 512  # Tokens, of which a model with few words needs one for each letter.
WORDS = STORY.split()
NAMES = ("atlas", "diary", "letters")  # Few, so that clients meet at one.
PLANS = (None, "full", "topk(k=16)", "topk(k=16,index=quest)", "dipr(beta=4)", "mass(p=0.9)",
         "auto(error=0.05)")
# What a server may say to a request that is in order: it is full, or somebody took the name away.
REFUSALS = (400, 404, 409, 429, 503, 507)
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
          "{% endfor %}<|im_start|>assistant\n")
REPORTS = ("Sanitizer", "runtime error:", "CHECK failed")


class Client:
    """One thread's requests. Each public method is a kind of request; it returns what it got."""

    def __init__(self, load, seed):
        self.load = load
        self.rng = random.Random(seed)
        self.turns = [(None, [])]  # Ids of turns of this client, with their messages.

    def text(self, words):
        begin = self.rng.randrange(len(WORDS) - words)
        return " ".join(WORDS[begin:begin + words])

    def fields(self):
        """The fields of a request for text."""
        rng = self.rng
        fields = {"max_tokens": rng.choice((1, 3, 12, 40)), "temperature": rng.choice((0, 0, 1.5)),
                  "seed": rng.randrange(9)}
        if rng.random() < 0.3:
            fields["stop"] = [rng.choice("aeinorst"), rng.choice(("ba", "ce", "\n"))]
        if rng.random() < 0.3:
            fields["store_as"] = rng.choice(NAMES)
        if rng.random() < 0.1:
            fields["overflow"] = "refuse"
        plan = rng.choice(PLANS)
        return fields | ({"plan": plan} if plan else {})

    def messages(self):
        """The messages of a turn that goes on, or of a new conversation."""
        _, messages = self.rng.choice(self.turns)
        begin = list(messages) or [{"role": "system", "content": self.text(3)}]
        return begin + [user(self.text(self.rng.choice((1, 4, 20))))]

    def remember(self, reply, messages):
        self.turns.append((reply.context, messages + [assistant(reply.text)]))
        self.turns = self.turns[-6:]

    def chat(self):
        messages = self.messages()
        self.remember(self.load.server.ask(messages, **self.fields()), messages)

    def streamed_chat(self):
        messages = self.messages()
        self.remember(self.load.server.ask_streamed(messages, **self.fields()), messages)

    def left_chat(self):
        """The client goes after some words, or before any."""
        with self.load.server.stream(self.messages(), **self.fields()) as stream:
            for _, _ in zip(range(self.rng.choice((0, 1, 5))), stream.pieces()):
                pass

    def question(self):
        """To a context by its name, or by the id of a turn, which may be new or gone."""
        context = self.rng.choice([*NAMES, *(name for name, _ in self.turns if name)])
        self.load.server.ask([user(self.text(4))], context=context, **self.fields())

    def completion(self):
        body = {"prompt": self.text(6), **self.fields()}
        self.load.server.json("POST", "/v1/completions", body)

    def explained(self):
        body = {"messages": self.messages(), "top": 4}
        plan = self.rng.choice(PLANS)
        self.load.server.json("POST", "/attndb/v1/explain",
                              body | ({"plan": plan} if plan else {}))

    def imported(self):
        body = {"name": self.rng.choice(NAMES), "text": self.text(30), "replace": True}
        self.load.server.json("POST", CONTEXTS, body)

    def appended(self):
        body = {"name": self.rng.choice(NAMES), "text": self.text(5), "append": True}
        self.load.server.json("POST", CONTEXTS, body)

    def changed(self):
        path = f"{CONTEXTS}/{self.rng.choice(NAMES)}"
        change = self.rng.choice(({"pinned": True}, {"pinned": False}, {"ttl_seconds": 3600}))
        self.load.server.json("POST", path, change)

    def removed(self):
        known = [*NAMES, *(name for name, _ in self.turns if name)]
        self.load.server.json("DELETE", f"{CONTEXTS}/{self.rng.choice(known)}")

    def looked(self):
        path = self.rng.choice((CONTEXTS, "/v1/models", "/ready", "/metrics", "/"))
        status, headers, body = self.load.server.request("GET", path)
        if status != 200:
            raise HttpError(status, headers, body)

    def kept_up(self):
        path = self.rng.choice(("/attndb/v1/verify", "/attndb/v1/compact"))
        self.load.server.json("POST", path, {})

    def refused(self):
        """Bodies that are wrong: 400, whatever else is under way."""
        body = self.rng.choice((b"{", {"messages": []}, {"messages": [user(STORY * 9)]},
                                {"messages": [user("a")], "plan": "topk(k=none)"}))
        status, headers, said = self.load.server.request("POST", CHAT, body)
        if status != 400:
            raise HttpError(status, headers, said)


KINDS = {Client.chat: 8, Client.streamed_chat: 8, Client.left_chat: 4, Client.question: 5,
         Client.completion: 2, Client.explained: 3, Client.imported: 2, Client.appended: 1,
         Client.changed: 2, Client.removed: 2, Client.looked: 2, Client.kept_up: 1,
         Client.refused: 1}


class Load:
    """A server that is restarted, and its clients."""

    def __init__(self, folder, seconds, restart_every, seed):
        self.store, self.seed, self.restart_every = folder / "store", seed, restart_every
        self.model = write_tiny_model(folder / "tiny.gguf", {"tokenizer.chat_template": CHATML})
        self.deadline = time.monotonic() + seconds
        self.over = threading.Event()
        self.serves = threading.Event()  # Cleared as the end of a server begins.
        self.lock = threading.Lock()  # Guards the members below.
        self.num_ends = 0  # Each end of a server is counted before it begins.
        self.counts = collections.Counter()
        self.faults = []
        self.server = None
        self.start()

    def start(self):
        self.server = Server(self.store, "--window", WINDOW, "--drain", 5, model=self.model)
        self.serves.set()

    def run(self):
        clients = [threading.Thread(target=self.talk, args=(i,)) for i in range(NUM_CLIENTS)]
        for client in clients:
            client.start()
        while not self.over.wait(self.restart_every):
            last = self.num_ends >= 2 and self.is_enough()
            self.end(by_kill=self.num_ends % 2 == 1 and not last)
            if last or self.faults:
                self.over.set()
                self.serves.set()  # Clients that wait for a server see that it is over.
            else:
                self.start()
        for client in clients:
            client.join()

    def is_enough(self):
        """The time is over, and nothing is missing; or what is missing does not come."""
        now = time.monotonic()
        with self.lock:
            missing = [kind for kind in KINDS if self.counts[kind.__name__] == 0]
        if missing and now >= self.deadline + PATIENCE:
            self.fault(f"never answered: {[kind.__name__ for kind in missing]}")
        return now >= self.deadline and not missing or bool(self.faults)

    def end(self, by_kill):
        server = self.server
        self.serves.clear()
        with self.lock:
            self.num_ends += 1
        if server.process.poll() is not None:
            self.fault(f"the server ended by itself, with {server.process.returncode}")
        elif by_kill:
            server.process.kill()
        else:
            server.terminate()
            if (code := server.wait()) != 0:
                self.fault(f"SIGTERM: the server ended with {code}")
        server.kill()  # Nothing, but for its descriptors.
        said = server.said()
        if any(report in said for report in REPORTS):
            self.fault(said)

    def fault(self, what):
        with self.lock:
            self.faults.append(what)

    def talk(self, client_idx):
        client = Client(self, f"{self.seed}.{client_idx}")
        while not self.over.is_set():
            kind, = client.rng.choices(list(KINDS), list(KINDS.values()))
            self.serves.wait()
            ends_before = self.num_ends
            if not self.serves.is_set() or self.over.is_set():
                continue
            try:
                kind(client)
                with self.lock:
                    self.counts[kind.__name__] += 1
            except HttpError as e:
                if e.status not in REFUSALS:
                    self.fault(f"{kind.__name__}: {e}")
                    self.over.set()
                with self.lock:
                    self.counts[f"{kind.__name__} {e.status}"] += 1
            except (OSError, http.client.HTTPException, json.JSONDecodeError, KeyError,
                    IndexError) as e:
                if self.num_ends == ends_before:  # Nobody ended the server, and it does not answer.
                    self.fault(f"{kind.__name__}: {e!r}")
                    self.over.set()
                self.over.wait(0.05)


@pytest.fixture(scope="module")
def load(request):
    seed = request.config.getoption("--mixed-seed")
    with new_folder() as folder:
        mixed = Load(folder, request.config.getoption("--mixed-seconds"),
                     request.config.getoption("--restart-every"), seed)
        print(f"\nATTNDB_SEED={seed}", flush=True)
        mixed.run()
        yield mixed


class TestMixedLoad:
    def test_no_request_ended_the_server(self, load):
        assert load.faults == [], load.counts
        assert load.num_ends >= 3
        print_count(load.num_ends, "ends of a server under mixed requests")
        print_count(sum(load.counts.values()), "requests answered")

    def test_each_kind_of_request_was_answered(self, load):
        assert [kind.__name__ for kind in KINDS if load.counts[kind.__name__] == 0] == []

    def test_the_store_has_no_damage(self, load):
        assert server_case.run_attndb(load.store, "verify")["damages"] == []
