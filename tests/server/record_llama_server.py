"""Records the prompts and grammars that llama.cpp's own server makes of chats.

    record_llama_server.py --llama-server FILE [--write | --check] [TEMPLATE...]
    record_llama_server.py --llama-server FILE --show CASE TEMPLATE

Chats:   those of chat_cases.py, each with each template in .deps/templates (`scripts/setup.sh
         templates llama-server`). llama-server has a tiny random model and a fixed clock.
Result:  tests/server/data/llama_server_chats.txt, which recorded_chats_test.cc compares with what
         attndb makes. --check compares with the file instead of writing it; --show prints one
         prompt, and what llama-server says of its reply.

The file has a line a template: its name, then 16 digits for each chat. The first 8 are of the
SHA-256 of the prompt, the last 8 of what a reply may be (`form_text`). "--------": llama-server
answered with an error. If a grammar does not allow the end of its prompt, llama-server does not
tell it. The digits then stay: they are of the function that makes the grammar.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import http.client
import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

import chat_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "data/llama_server_chats.txt"
TEMPLATES = ROOT / ".deps/templates"
CONTEXT = 65536  # A token may be a byte.
NUM_WORDS = 400
WAIT = 300
REFUSED = "-" * 8
NOT_SAID = "?" * 8  # The grammar does not allow the end of the prompt, and is not told.
NO_SAMPLER = "Failed to initialize samplers"
UNREADABLE = b"The model produced output that does not match"
TRIGGER_KINDS = {1: "word", 2: "pattern"}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def cases_digest():
    return digest("\n".join(chat_cases.lines()))


def form_text(settings):
    """What replies may be, in a form that attndb's test builds, too."""
    parts = ["lazy" if settings["grammar_lazy"] else "eager"]
    for trigger in settings["grammar_triggers"]:
        parts.append(f"{TRIGGER_KINDS[trigger['type']]} {trigger['value']}")
    parts += [f"begins {settings['generation_prompt']}"]
    parts += [f"stop {stop}" for stop in settings["stop"]]
    parts += [f"grammar {settings['grammar']}"]
    return "\n".join(parts)


def merges_of(text):
    """Merges that make one token of each frequent word: its letters join from the left."""
    words = collections.Counter(re.findall(" ?[A-Za-z]{2,12}|[^A-Za-z0-9\\s]{2,6}", text))
    pairs = {}
    for word, _ in words.most_common(NUM_WORDS):
        letters = word.replace(" ", "\u0120")  # GPT-2's sign for a space.
        pairs |= {(letters[:i], letters[i]): None for i in range(1, len(letters))}
    return [pair for pair in pairs if pair[1].isascii() and pair[0].lstrip("\u0120").isascii()]


def write_model(path, template):
    """A model that reads prompts fast: it has one small head, and a token is a word."""
    spec = importlib.util.spec_from_file_location("tiny", ROOT / "scripts/make_tiny_model.py")
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    merges = merges_of("\n".join(chat_cases.lines()) + template.read_text())
    meta = tiny.llama_bpe(17).meta
    tokens = meta["tokenizer.ggml.tokens"][:256] + [a + b for a, b in merges]
    tokens += ["<s>", "</s>"]
    tiny.VOCAB = len(tokens)
    model = tiny._decoder("llama", 17, layers=1, embed=32, q_heads=1, kv_heads=1, head_dim=16,
                          ff=32, context=CONTEXT)
    model.meta |= {key: meta[key] for key in meta if key.startswith("tokenizer.")} | {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [tiny.NORMAL] * (len(tokens) - 2) + [tiny.CONTROL] * 2,
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in merges],
        "tokenizer.ggml.bos_token_id": len(tokens) - 2,
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.ggml.padding_token_id": len(tokens) - 2,
        "tokenizer.ggml.add_bos_token": True}
    model.write(str(path))


def build_clock(folder):
    library = folder / "fixed_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "fixed_clock.c"],
                   check=True)
    return library


class LlamaServer:
    """llama-server with one template, on any free port. `folder` has the clock of build_clock."""

    def __init__(self, binary, folder, template, model=None, context=CONTEXT, args=()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [binary, "-m", model or folder / "model.gguf", "--jinja",
                   "--chat-template-file", template, "-c", context, "-np", 1, "-t", 1, "-tb", 1,
                   "--no-warmup", "--host", "127.0.0.1", "--port", self.port, *args]
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
            env={**os.environ, "TZ": "UTC", "LC_ALL": "C", "FIXED_CLOCK": str(chat_cases.NOW),
                 "LD_PRELOAD": str(folder / "fixed_clock.so"), "LLAMA_SERVER_SLOTS_DEBUG": "1"})
        deadline = time.monotonic() + WAIT
        while self.post("GET", "/health")[0] != 200:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise SystemExit(f"llama-server did not start with {template}:\n" +
                                 (folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.02)

    def post(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            connection.request(method, path, body and body.encode(),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except ConnectionError:
            return 0, b"no connection"
        finally:
            connection.close()

    def prompt(self, body):
        """The prompt of a chat; None if it is refused, and why."""
        status, answer = self.post("POST", "/apply-template", json.dumps(body))
        if status != 200:
            return None, answer.decode(errors="replace")
        return json.loads(answer)["prompt"], ""

    def form(self, body):
        """What a reply may be; None if the chat is refused, and why."""
        asked = {**body, "max_tokens": 1, "verbose": True}
        status, answer = self.post("POST", "/v1/chat/completions", json.dumps(asked))
        if status == 200:
            settings = json.loads(answer)["__verbose"]["generation_settings"]
        elif UNREADABLE in answer:  # The one token of the reply is no text in the model's format.
            settings = json.loads(self.post("GET", "/slots")[1])[0]["params"]
        else:
            return None, answer.decode(errors="replace")
        return form_text(settings), ""

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


@contextlib.contextmanager
def running(binary, template):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder / "model.gguf", template)
        build_clock(folder)
        server = LlamaServer(binary, folder, template)
        try:
            yield server
        finally:
            server.stop()


def record(binary, template):
    """The line of a template, and how llama-server refused chats, with their numbers."""
    words, refusals = [], {}
    with running(binary, template) as server:
        for i, case in enumerate(chat_cases.cases()):
            for found, why in (server.prompt(case), server.form(case)):
                if found is None:
                    refusals.setdefault(why[:300], []).append(i)
                words.append(digest(found) if found is not None else
                             NOT_SAID if NO_SAMPLER in why else REFUSED)
        if server.process.poll() is not None:
            raise SystemExit(f"llama-server ended with {template}")
    print(f"{template.name}: {sum(len(cases) for cases in refusals.values())} refusals",
          file=sys.stderr)
    for why, numbers in sorted(refusals.items()):
        print(f"    {len(numbers)} as {numbers[0]}: {why}", file=sys.stderr)
    return f"{template.name} {''.join(words)}"


def header():
    return (f"# llama-server's prompts and grammars: record_llama_server.py wrote this.\n"
            f"cases {cases_digest()}")


def read_record():
    lines = RECORD.read_text().splitlines()
    return lines[1], dict(line.split(" ") for line in lines[2:])


def completed(was, now):
    """A line with what llama-server does not tell as it was."""
    return "".join(was[i:i + 8] if now[i:i + 8] == NOT_SAID else now[i:i + 8]
                   for i in range(0, len(now), 8))


def differences(was, now):
    """The numbers of the chats that two lines say something else of."""
    return [i // 16 for i in range(0, len(now), 16) if was[i:i + 16] != now[i:i + 16]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama-server", default=ROOT / ".deps/llama-server/llama-server")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="writes the file, or these lines of it")
    what.add_argument("--check", action="store_true", help="compares with the file")
    what.add_argument("--show", type=int, metavar="CASE", help="prints one chat's")
    parser.add_argument("templates", nargs="*", metavar="TEMPLATE")
    args = parser.parse_args()
    names = args.templates or sorted(path.name for path in TEMPLATES.glob("*.jinja"))
    paths = [TEMPLATES / name for name in names]
    if args.show is not None:
        case = chat_cases.cases()[args.show]
        with running(args.llama_server, paths[0]) as server:
            for found, why in (server.prompt(case), server.form(case)):
                print(why if found is None else found, end="\n\n")
        return 0
    digest_line, was = read_record() if RECORD.exists() else ("", {})
    same_chats = digest_line == header().splitlines()[1]
    if not same_chats:
        was = {}
    if args.check and not same_chats:
        raise SystemExit("the chats are others than those recorded")
    now, num_wrong = {}, 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for line in pool.map(lambda path: record(args.llama_server, path), paths):
            name, words = line.split(" ")
            now[name] = completed(was.get(name, words), words)
            wrong = differences(was.get(name, ""), now[name])
            if args.check and wrong:
                num_wrong += 1
                print(f"{name}: other answers for chats {wrong}", flush=True)
    if args.write:
        if same_chats:
            now = {**was, **now}
        RECORD.write_text("\n".join([header(), *(f"{n} {now[n]}" for n in sorted(now))]) + "\n")
        return 0
    if args.check:
        print(f"{chat_cases.NUM_CASES * len(now)} chats rendered again")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
