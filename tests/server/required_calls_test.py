"""Goal: a call that a request requires is the call that llama.cpp's own server makes.

Method: both servers run SmolLM2 with the same template, at temperature 0. Both answer the same
        requests with `"tool_choice": "required"`. Where the replies part, llama-server's own
        likelihoods say how far its choice is before attndb's: the gap. llama-server has a spread
        of its own. It reads the same prompt in smaller batches, and there its choice is before
        the tokens that are nearly as likely by a little more or less. The largest of these
        changes with a template is the template's spread. No gap may be larger than its template's
        spread and than the median of all spreads, unless llama-server itself makes attndb's
        choice in smaller batches. If a template has no form for tools, attndb refuses the
        request; llama-server's reply is then no call.
Sizes:  scripts/test_long.sh chats runs it, with --llama-server FILE; --templates REGEX chooses.
"""

import json
import re
import statistics
import sys

import chat_cases
import record_llama_server
from server_case import CHAT, ROOT, Server, new_folder, user

sys.path.insert(0, str(ROOT / "python/tests/hf"))

from sizes import print_count  # noqa: E402

MODEL = ROOT / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
REPLY_TOKENS = 48
LISTED = 2000  # Tokens whose likelihoods llama-server tells beside each.
UNREAD = "does not match the expected"  # llama.cpp's parser, of a reply that it can't read.
NO_FORM = "the model's template has no form for tools"
SMALL_BATCHES = (("-b", "32", "-ub", "32"), ("-b", "128", "-ub", "128"))
NEAR = 1.0  # Tokens that are no farther behind the choice are compared with it.
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
    if status == 200:
        return made["choices"][0]
    assert status == 400 or UNREAD in made["error"]["message"], made
    return {"refused": made["error"]["message"]}


def tokens_of(choice):
    """The tokens of a reply, each with its likelihood and those of others."""
    return choice["logprobs"]["content"]


def chances_of(token):
    """The likelihoods that are listed beside a token of a reply, by token."""
    return {other["id"]: other["logprob"] for other in token["top_logprobs"]}


def common_tokens(ours, theirs):
    """Pairs of tokens up to where two replies part."""
    for mine, other in zip(ours, theirs):
        if mine["id"] != other["id"]:
            return
        yield mine, other


def spread_of(theirs, in_batches):
    """The largest change of a distance between llama-server's choice and a token near it."""
    spread = 0.0
    for whole, batch in common_tokens(theirs, in_batches):
        chances = chances_of(batch)
        for token in whole["top_logprobs"]:
            distance = whole["logprob"] - token["logprob"]
            if abs(distance) <= NEAR and token["id"] in chances:
                spread = max(spread, abs(distance - (batch["logprob"] - chances[token["id"]])))
    return spread


class Compared:
    """The replies of both servers to each request of one template."""

    def __init__(self, template):
        self.template = template
        self.num_tokens = 0  # Tokens of replies, up to where they part.
        self.num_refused = 0
        self.gaps = []  # Where replies part.
        self.num_own = 0  # Replies that llama-server in smaller batches parts from as attndb does.
        self.spread = 0.0

    def add(self, ours, theirs, in_batches):
        for batch in in_batches:
            self.spread = max(self.spread, spread_of(theirs, batch))
        num_common = sum(1 for _ in common_tokens(ours, theirs))
        self.num_tokens += num_common
        if num_common == min(len(ours), len(theirs)):
            assert len(ours) == len(theirs), (self.template, len(ours), len(theirs))
            return
        mine, other = ours[num_common], theirs[num_common]
        if any(sum(1 for _ in common_tokens(ours, batch)) > num_common for batch in in_batches):
            self.num_own += 1
            return
        self.gaps.append(other["logprob"] - chances_of(other).get(mine["id"], float("-inf")))


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
    in_batches = zip(*(llama_answers(request, folder, template, *args) for args in SMALL_BATCHES))
    for ours, their, batches in zip(attndb_answers(template), theirs, in_batches, strict=True):
        if "refused" in ours:
            calls = their.get("message", {}).get("tool_calls")
            is_alike = "refused" in their or (NO_FORM in ours["refused"] and not calls)
            assert is_alike, f"{template.name}: {ours}"
            compared.num_refused += 1
        else:
            assert "refused" not in their, f"{template.name}: {their}"
            compared.add(tokens_of(ours), tokens_of(their), [tokens_of(one) for one in batches])
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
              f"{compared.num_own} as llama-server from itself, "
              f"spread {compared.spread:.3f}", flush=True)
        all_of.append(compared)
    median = statistics.median(compared.spread for compared in all_of)
    assert {compared.template: (compared.gaps, compared.spread) for compared in all_of
            if any(abs(gap) > max(median, compared.spread) for gap in compared.gaps)} == {}, median
    num_tokens = sum(compared.num_tokens for compared in all_of)
    num_refused = sum(compared.num_refused for compared in all_of)
    answered = [compared for compared in all_of if compared.num_refused < len(QUESTIONS)]
    assert len(answered) > len(all_of) * 3 / 4 or len(all_of) < 4
    assert num_tokens > 20 * len(answered)
    parted = [abs(gap) for compared in all_of for gap in compared.gaps]
    num_own = sum(compared.num_own for compared in all_of)
    print_count(num_tokens, f"tokens of required calls as llama-server gives them, with "
                f"{len(templates)} templates; {num_refused} requests are refused; "
                f"{num_own} replies part as llama-server parts from itself, {len(parted)} more by "
                f"{max(parted, default=0):.3f} in log-likelihood at most; the median of its own "
                f"spreads is {median:.3f}")
