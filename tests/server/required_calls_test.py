"""Goal: a call that a request requires is the call that llama.cpp's own server makes.

Method: both servers run SmolLM2 with the same template, at temperature 0. Both answer the same
        requests with `"tool_choice": "required"`. Where the replies part, llama-server's own
        likelihoods say how near its choice and attndb's are. They may be no farther apart than
        llama-server's likelihoods of one token are when it reads the same prompt in smaller
        batches. If a template has no form for tools, attndb refuses the request; llama-server's
        reply is then no call.
Sizes:  scripts/test_long.sh chats runs it, with --llama-server FILE; --templates REGEX chooses.
"""

import json
import re
import sys

import chat_cases
import record_llama_server
from server_case import CHAT, ROOT, Server, new_folder, user

sys.path.insert(0, str(ROOT / "python/tests/hf"))

from sizes import print_count  # noqa: E402

MODEL = ROOT / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
REPLY_TOKENS = 48
LISTED = 2000  # Tokens whose likelihoods llama-server tells beside each.
NO_FORM = "the model's template has no form for tools"
SMALL_BATCH = ("-b", "32", "-ub", "32")
QUESTIONS = ("What is the weather in Paris?", "Read the file notes.txt.",
             "Find out what time it is in Bergen, then set an alarm for seven.")


def requests():
    """Requests with one to three tools, drawn by a seed."""
    draw = chat_cases.Draw(58)
    made = []
    for count, question in enumerate(QUESTIONS, 1):
        tools = [chat_cases.tool(draw, name) for name in draw.some(chat_cases.NAMES, count)]
        made.append({"messages": [user(question)], "tools": tools, "tool_choice": "required",
                     "temperature": 0, "max_tokens": REPLY_TOKENS, "logprobs": True})
    return made


def choice_of(status, answer):
    """The choice of a whole answer; the error of one that is refused."""
    made = json.loads(answer)
    return made["choices"][0] if status == 200 else {"refused": made["error"]["message"]}


def tokens_of(choice):
    """The tokens of a reply, each with its likelihood and those of others."""
    return choice["logprobs"]["content"]


class Compared:
    """The three replies to each request of one template."""

    def __init__(self, template):
        self.template = template
        self.num_tokens = 0  # Tokens of replies, up to where they part.
        self.num_refused = 0
        self.gaps = []  # Where replies part.
        self.spread = 0.0  # The largest difference of llama-server from itself.

    def add(self, ours, theirs, in_batches):
        for mine, other in zip(theirs, in_batches):
            if mine["id"] != other["id"]:
                break
            self.spread = max(self.spread, abs(mine["logprob"] - other["logprob"]))
        for mine, other in zip(ours, theirs):
            if mine["id"] != other["id"]:
                listed = {token["id"]: token["logprob"] for token in other["top_logprobs"]}
                self.gaps.append(other["logprob"] - listed.get(mine["id"], float("-inf")))
                return
            self.num_tokens += 1
        assert len(ours) == len(theirs), (self.template, len(ours), len(theirs))


def llama_answers(request, folder, template, *args):
    """llama-server's choices."""
    binary = request.config.getoption("--llama-server")
    server = record_llama_server.LlamaServer(binary, folder, template, MODEL, 8192, args)
    try:
        answers = [server.post("POST", CHAT, json.dumps({**body, "top_logprobs": LISTED}))
                   for body in requests()]
    finally:
        server.stop()
    return [choice_of(status, text) for status, text in answers]


def attndb_answers(template):
    with new_folder() as folder, Server(folder / "store", "--chat-template", template) as server:
        answers = [server.request("POST", CHAT, body) for body in requests()]
    return [choice_of(status, text) for status, _, text in answers]


def compare(request, folder, template):
    compared = Compared(template.name)
    record_llama_server.build_clock(folder)
    theirs = llama_answers(request, folder, template)
    in_batches = llama_answers(request, folder, template, *SMALL_BATCH)
    for ours, their, batch in zip(attndb_answers(template), theirs, in_batches, strict=True):
        if "refused" in ours:
            calls = their.get("message", {}).get("tool_calls")
            is_alike = "refused" in their or (NO_FORM in ours["refused"] and not calls)
            assert is_alike, f"{template.name}: {ours}"
            compared.num_refused += 1
        else:
            assert "refused" not in their, f"{template.name}: {their}"
            compared.add(tokens_of(ours), tokens_of(their), tokens_of(batch))
    return compared


def test_required_calls_are_llama_servers(request, folder):
    assert request.config.getoption("--llama-server"), "expected --llama-server FILE"
    wanted = re.compile(request.config.getoption("--templates"))
    templates = [path for path in sorted(record_llama_server.TEMPLATES.glob("*.jinja"))
                 if wanted.search(path.name)]
    all_of = []
    for template in templates:
        compared = compare(request, folder, template)
        print(f"{compared.template}: {compared.num_tokens} tokens alike, "
              f"{compared.num_refused} refused, parted at {compared.gaps}, "
              f"spread {compared.spread:.3f}", flush=True)
        all_of.append(compared)
    spread = max(compared.spread for compared in all_of)
    assert {compared.template: compared.gaps for compared in all_of
            if any(abs(gap) > spread for gap in compared.gaps)} == {}, spread
    num_tokens = sum(compared.num_tokens for compared in all_of)
    num_refused = sum(compared.num_refused for compared in all_of)
    assert num_tokens + 20 * num_refused > 20 * len(templates)
    parted = [abs(gap) for compared in all_of for gap in compared.gaps]
    print_count(num_tokens, f"tokens of required calls as llama-server gives them, with "
                f"{len(templates)} templates; {num_refused} requests are refused; "
                f"{len(parted)} replies part, by "
                f"{max(parted, default=0):.3f} in log-likelihood at most; its own spread is "
                f"{spread:.3f}")
