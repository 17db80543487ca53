"""Goal: a server that is killed again and again under load loses no turn that it said to be
durable, gives no wrong answer, and goes on with each conversation where it was.

Method: clients that talk at temperature 0, each waiting until its turn is durable, beside SIGKILLs;
        what was acknowledged is sought in the store, and each of its tokens judged by plain
        llama.cpp after the same tokens (judge_turns.cc).
Sizes:  --load-seconds and --kill-every; half an hour and 30 s in scripts/test_long.sh.
"""

import http.client
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import server_case
from server_case import ROOT, STORY, HttpError, Server, assistant, new_folder, user

sys.path.insert(0, str(ROOT / "python/tests/hf"))

from sizes import print_count  # noqa: E402

NUM_CLIENTS = 3
NUM_TURNS = 5  # In a conversation.
REPLY_TOKENS = 24
QUESTIONS = ("When does the bakery open?", "Who keeps the lighthouse?", "Where do sheep graze?",
             "What hangs behind the door?", "What rings at noon, and why?",
             "When is the road closed?")


class Load:
    """Clients of one server, and whoever kills it."""

    def __init__(self, store, seconds, kill_every):
        self.store, self.kill_every = store, kill_every
        self.deadline = time.monotonic() + seconds
        self.server = Server(store)
        self.lock = threading.Lock()  # Guards what follows.
        self.acknowledged = {}  # Id of a durable turn -> its messages and its answer.
        self.replaced = set()  # Turns that a later one continues.
        self.num_kills = self.num_retries = 0
        self.faults = []

    def is_over(self):
        return time.monotonic() >= self.deadline or bool(self.faults)

    def run(self):
        clients = [threading.Thread(target=self.talk, args=(i,)) for i in range(NUM_CLIENTS)]
        for client in clients:
            client.start()
        while not self.is_over():
            time.sleep(min(self.kill_every, max(0, self.deadline - time.monotonic())))
            self.server.kill()
            self.num_kills += 1
            began = time.monotonic()
            self.server = Server(self.store)  # Port and all: clients look it up.
            self.deadline += time.monotonic() - began
        for client in clients:
            client.join()
        self.server.kill()

    def talk(self, seed):
        try:
            rng = random.Random(seed)
            number = 0
            while not self.is_over():
                number += 1
                self.converse(rng, f"Letter {seed}.{number}. ")
        except Exception as e:  # noqa: BLE001: whatever ends a client is a fault.
            with self.lock:
                self.faults.append(repr(e))

    def converse(self, rng, greeting):
        messages, previous = [], None
        for turn in range(NUM_TURNS):
            if self.is_over():
                return
            question = rng.choice(QUESTIONS)
            messages.append(user(greeting + STORY[:330] + question if turn == 0 else question))
            answer = self.ask(messages)
            if answer is None:
                return
            if previous is not None and answer.cached < previous["tokens"]:
                raise AssertionError(f"{answer.cached} of {previous} were reused")
            described = self.durable(answer.context)
            if described is None:
                return
            with self.lock:
                self.acknowledged[answer.context] = (list(messages), answer.text)
                if previous is not None:
                    self.replaced.add(previous["name"])
            messages.append(assistant(answer.text))
            previous = {"name": answer.context, "tokens": described["num_tokens"]}

    def retried(self, call):
        """What the call says, however often the server is killed meanwhile; None: time is over."""
        while True:
            try:
                return call()
            except (OSError, http.client.HTTPException):
                if self.is_over():
                    return None
                with self.lock:
                    self.num_retries += 1
                time.sleep(0.05)

    def ask(self, messages):
        return self.retried(lambda: self.server.ask(messages, max_tokens=REPLY_TOKENS, plan="full"))

    def durable(self, context):
        """What the turn is, once it is durable. A kill before that may lose it: it was not said to
        be kept."""
        while True:
            try:
                described = self.retried(lambda: self.server.describe(context))
            except HttpError as e:
                assert e.status == 404, e
                return None
            if described is None or described["durable"]:
                return described
            time.sleep(0.01)


def judged(store, ids):
    """By as many judges, of one thread each, as there are cores, if there is much to judge."""
    judge = pathlib.Path(server_case.binary()).with_name("judge_turns")
    num_judges = len(os.sched_getaffinity(0)) if len(ids) >= 100 else 1

    def judge_some(some):
        done = subprocess.run([judge, store], input="\n".join(some), capture_output=True, text=True,
                              env=server_case.environment(store), cwd=ROOT, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    with ThreadPoolExecutor(num_judges) as pool:
        parts = pool.map(judge_some, (ids[i::num_judges] for i in range(num_judges)))
        return [verdict for part in parts for verdict in part]


@pytest.fixture(scope="module")
def load(request):
    with new_folder() as folder:
        run = Load(folder / "store", request.config.getoption("--load-seconds"),
                   request.config.getoption("--kill-every"))
        run.run()
        yield run


@pytest.fixture(scope="module")
def verdicts(load):
    """Of the last turn of each conversation: all of its replies are in it."""
    return judged(load.store, sorted(load.acknowledged.keys() - load.replaced))


class TestLoad:
    def test_nobody_saw_a_fault(self, load):
        assert load.faults == []
        assert load.num_kills >= 3
        assert len(load.acknowledged) > load.num_kills
        print_count(load.num_kills, "kills of a server under load")
        print_count(len(load.acknowledged), "turns acknowledged, none of them lost")

    def test_no_acknowledged_turn_is_lost(self, load):
        listed = server_case.run_attndb(load.store, "ls", "--all")["contexts"]
        assert load.acknowledged.keys() - {context["name"] for context in listed} == set()
        assert server_case.run_attndb(load.store, "verify")["damages"] == []

    def test_each_holds_what_was_said(self, load, verdicts):
        for verdict in verdicts:
            messages, answer = load.acknowledged[verdict["id"]]
            said = [message["content"] for message in messages if message["role"] == "assistant"]
            assert verdict["replies"][:-1] == said
            # The last token that a limit lets through is answered, and not run.
            assert answer.startswith(verdict["replies"][-1])
            assert len(answer) - len(verdict["replies"][-1]) <= 20
            for message in messages:
                assert message["content"] in verdict["text"]

    def test_each_token_is_the_models(self, verdicts):
        def largest(what):
            return max((verdict[what] or 0 for verdict in verdicts), default=0)

        # As `ask --check` judges; here of batches, and over all that is judged: of hundreds of
        # conversations, one will have its largest gap where its own few tokens hardly move.
        spread = largest("batch_spread")
        assert {verdict["id"]: verdict["differences"] for verdict in verdicts
                if verdict["largest_gap"] > spread} == {}, spread
        assert sum(verdict["num_judged"] for verdict in verdicts) > 10 * len(verdicts)
        num_differing = sum(len(verdict["differences"]) for verdict in verdicts)
        print_count(sum(verdict["num_judged"] for verdict in verdicts),
                    f"tokens judged; {num_differing} are not plain llama.cpp's choice; by "
                    f"{largest('largest_gap'):.3f} in logits at most; its own spread there is "
                    f"{spread:.3f} between batches, {largest('own_spread'):.3f} between kernels")
