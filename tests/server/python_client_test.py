"""Goal: Python's client works against the real server, call by call.

Method: a script of calls, run by the Python that attndb is installed in, on a server with the real
model; what it prints is compared with what the server says by itself.
"""

import json
import subprocess

from server_case import CONTEXTS, ROOT, WAIT, new_server

PYTHON = ROOT / ".deps/venv/bin/python"
TEXT = "The keeper of the lighthouse of Skerry is called Maren. The lamp shines every minute. "

SCRIPT = """
import json, os, sys
import attndb
server = attndb.connect(sys.argv[1])
text = sys.argv[2]
steps = []
imported = server.import_text("doc", text, progress=lambda done, total: steps.append(done))
assert steps == sorted(steps) and steps
appended = server.append_text("doc", "The red door is locked.")
question, options = "What is the keeper called?", {"temperature": 0, "max_tokens": 24}
answer = server.ask(question, context="doc", **options)
with server.stream(question, context="doc", **options) as pieces:
    streamed = "".join(pieces)
    assert pieces.answer.text == streamed
explained = server.explain(question, context="doc", top=3)
server.rename("doc", "renamed")
server.pin("renamed")
info = server.describe("renamed")
assert info.pinned
server.pin("renamed", False)
server.set_ttl("renamed", "1h")
room = server.check_room("another", text)
verified = server.verify()
server.compact()
built = server.build("renamed", "quest")
server.set_quota("1GiB")
names = [context.name for context in server.list()]
whole = server.text("renamed")
server.drop("renamed")
try:
    server.describe("renamed")
    raise SystemExit("it is still there")
except attndb.NotFoundError:
    pass
print(json.dumps({
    "imported": imported.num_tokens, "appended": appended.num_tokens, "answer": answer.text,
    "cached": answer.cached_tokens, "streamed": streamed, "layers": len(explained["layers"]),
    "room": room.num_reused,
    "verified": verified.num_segments, "damages": len(verified.damages),
    "too_short": built.num_too_short, "names": names, "whole": whole,
}))
"""


def test_each_call_does_what_it_says():
    with new_server() as server:
        done = subprocess.run([PYTHON, "-c", SCRIPT, server.url, TEXT], capture_output=True,
                              timeout=WAIT, check=False)
        assert done.returncode == 0, done.stderr.decode()
        told = json.loads(done.stdout)
        assert "Maren" in told["answer"]
        assert told["streamed"] == told["answer"]
        assert told["cached"] >= told["imported"]
        assert told["appended"] > told["imported"] > 15
        assert told["layers"] == 30
        assert told["room"] > 0 and told["too_short"] > 0
        assert told["verified"] >= 1 and told["damages"] == 0
        assert "renamed" in told["names"]
        assert "Maren" in told["whole"] and "The red door is locked." in told["whole"]
        names = [context["name"] for context in server.json("GET", CONTEXTS)["contexts"]]
        assert "renamed" not in names
