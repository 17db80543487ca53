"""Goal: a call that a request requires is the call that llama.cpp's own server makes.

Method: both servers run SmolLM2 with the same template, at temperature 0. Both answer the same
        requests with `"tool_choice": "required"`. Where the replies part, llama-server's own
        likelihoods say how far its choice is before attndb's: the gap. llama-server has a spread
        of its own. It reads the same prompt in smaller batches, and there its choice is before
        the tokens that are nearly as likely by a little more or less. The largest of these
        changes with a template is the template's spread. No gap may be larger than its template's
        spread and than the median of all spreads, unless llama-server itself makes attndb's
        choice in smaller batches. If a template has no form for tools, attndb refuses the
        request; llama-server's reply is then no call. Both prompts have the same number of tokens.
Kept:   the comparison of each template, in build/long/required_calls. A run that is broken off
        goes on with the templates that are left, as long as both servers and this file stay the
        same.
Sizes:  scripts/test_long.sh chats runs it, with --llama-server FILE; --templates REGEX chooses.
"""

import dataclasses
import hashlib
import json
import pathlib
import re
import statistics
import sys

import pytest

import chat_cases
import record_llama_server
from server_case import CHAT, ROOT, Server, binary, new_folder, user

sys.path.insert(0, str(ROOT / "python/tests/hf"))

from sizes import print_count  # noqa: E402

MODEL = ROOT / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
KEPT = ROOT / "build/long/required_calls"
REPLY_TOKENS = 48
LISTED = 2000  # Tokens whose likelihoods llama-server tells beside each.
UNREAD = "does not match the expected"  # llama.cpp's parser, of a reply that it can't read.
SHORTER = 8  # A reply that can't be read is tried again with so many tokens fewer.
NO_FORM = "the model's template has no form for tools"
BATCHES = ((), ("-b", "32", "-ub", "32"), ("-b", "128", "-ub", "128"))
NEAR = 1.0  # Tokens that are no farther behind the choice are compared with it.
CONTROL = r"<\|\w+\|>"  # The names of SmolLM2's control tokens that chat_cases.py draws.
FAULTY = "Qwen3-Coder.jinja"  # The template with which attndb gets a fault.
QUESTIONS = ("What is the weather in Paris?", "Read the file notes.txt.",
             "Find out what time it is in Bergen, then set an alarm for seven.")


def requests():
    """Requests with one to three tools, drawn by a seed.

    No text has the name of a control token. llama-server would read the token there, and attndb
    reads the text.
    """
    draw = chat_cases.Draw(58)
    made = []
    for count, question in enumerate(QUESTIONS, 1):
        tools = [chat_cases.tool(draw, name) for name in draw.some(chat_cases.NAMES, count)]
        tools = json.loads(re.sub(CONTROL, "end", json.dumps(tools)))
        made.append({"messages": [user(question)], "tools": tools, "tool_choice": "required",
                     "temperature": 0, "max_tokens": REPLY_TOKENS, "logprobs": True})
    return made


def choice_of(status, answer):
    """The choice of a whole answer; the error of one that is refused."""
    made = json.loads(answer)
    if status == 200:
        return {**made["choices"][0], "prompt_tokens": made["usage"]["prompt_tokens"]}
    assert status == 400 or UNREAD in made["error"]["message"], made
    return {"refused": made["error"]["message"]}


def tokens_of(choice):
    """The tokens of a reply, each with its likelihood and those of others."""
    return choice["logprobs"]["content"]


def chances_of(token):
    """The likelihoods that are listed beside a token of a reply, by token."""
    return {other["id"]: other["logprob"] for other in token["top_logprobs"]}


def num_common(ours, theirs):
    """How many tokens two replies have in common before they part."""
    count = 0
    for mine, other in zip(ours, theirs):
        if mine["id"] != other["id"]:
            break
        count += 1
    return count


def spread_of(theirs, in_batches):
    """The largest change of a distance between llama-server's choice and a token near it."""
    spread = 0.0
    for whole, batch in list(zip(theirs, in_batches))[:num_common(theirs, in_batches)]:
        chances = chances_of(batch)
        for token in whole["top_logprobs"]:
            distance = whole["logprob"] - token["logprob"]
            if abs(distance) <= NEAR and token["id"] in chances:
                spread = max(spread, abs(distance - (batch["logprob"] - chances[token["id"]])))
    return spread


@dataclasses.dataclass
class Compared:
    """The replies of both servers to each request of one template."""

    template: str
    num_tokens: int = 0  # Tokens of replies, up to where they part.
    num_refused: int = 0
    gaps: list = dataclasses.field(default_factory=list)  # Where replies part.
    num_own: int = 0  # Replies that llama-server in smaller batches parts from as attndb does.
    num_shorter: int = 0  # Replies that llama-server refuses, so that a beginning was compared.
    spread: float = 0.0

    def add(self, ours, theirs):
        """`theirs`: llama-server's tokens in each of BATCHES."""
        whole = theirs[0]
        self.spread = max(self.spread, *(spread_of(whole, batch) for batch in theirs[1:]))
        count = num_common(ours, whole)
        self.num_tokens += count
        if count == min(len(ours), len(whole)):
            assert len(ours) == len(whole), (self.template, len(ours), len(whole))
            return
        if any(num_common(ours, batch) > count for batch in theirs[1:]):
            self.num_own += 1
            return
        mine, other = ours[count], whole[count]
        self.gaps.append(other["logprob"] - chances_of(other).get(mine["id"], float("-inf")))

    def parts_too_far(self, median):
        return any(abs(gap) > max(median, self.spread) for gap in self.gaps)


def llama_choice(server, body):
    """llama-server's choice, of a beginning of its reply that has the form of the template.

    llama-server refuses a reply without that form, and attndb shows it as content.
    """
    for shorter in range(0, REPLY_TOKENS, SHORTER):
        asked = {**body, "top_logprobs": LISTED, "max_tokens": REPLY_TOKENS - shorter}
        choice = choice_of(*server.post("POST", CHAT, json.dumps(asked)))
        if UNREAD not in choice.get("refused", ""):
            break
    return {**choice, "shorter": shorter}


def llama_answers(request, folder, template, args):
    """llama-server's choices."""
    program = request.config.getoption("--llama-server")
    server = record_llama_server.LlamaServer(program, folder, template, MODEL, 8192, args)
    try:
        return [llama_choice(server, body) for body in requests()]
    finally:
        server.stop()


def attndb_answers(template, *args):
    with new_folder() as folder, Server(folder / "store", "--chat-template", template,
                                        *args) as server:
        answers = [server.request("POST", CHAT, body) for body in requests()]
    return [choice_of(status, text) for status, _, text in answers]


def compare(request, folder, template, *args):
    """`args`: attndb's."""
    compared = Compared(template.name)
    all_theirs = zip(*(llama_answers(request, folder, template, batch) for batch in BATCHES))
    for ours, theirs in zip(attndb_answers(template, *args), all_theirs, strict=True):
        if "refused" in ours:
            calls = theirs[0].get("message", {}).get("tool_calls")
            is_alike = "refused" in theirs[0] or (NO_FORM in ours["refused"] and not calls)
            assert is_alike, f"{template.name}: {ours}"
            compared.num_refused += 1
            continue
        for their in theirs:
            assert "refused" not in their, f"{template.name}: {their}"
            assert their["prompt_tokens"] == ours["prompt_tokens"], template.name
        shorter = max(their["shorter"] for their in theirs)
        compared.num_shorter += shorter > 0
        length = REPLY_TOKENS - shorter
        compared.add(tokens_of(ours)[:length], [tokens_of(their)[:length] for their in theirs])
    return compared


def key_of(request, template):
    """The digest of all that decides how a template's comparison ends."""
    programs = sorted(pathlib.Path(binary()).parent.glob("attndb*"))
    libraries = sorted((ROOT / ".deps/llama/lib").glob("*.so"))
    digest = hashlib.sha256()
    for path in (*programs, *libraries, request.config.getoption("--llama-server"), MODEL,
                 template, chat_cases.__file__, __file__):
        digest.update(hashlib.sha256(pathlib.Path(path).read_bytes()).digest())
    return digest.hexdigest()


def compared_once(request, folder, template):
    """The comparison of a template. One that an earlier run has kept is not made again."""
    key, file = key_of(request, template), KEPT / f"{template.name}.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    if kept.pop("key", None) == key:
        return Compared(**kept)
    compared = compare(request, folder, template)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"key": key, **dataclasses.asdict(compared)}))
    return compared


@pytest.fixture
def folder_with_clock(request, folder):
    assert request.config.getoption("--llama-server"), "expected --llama-server FILE"
    record_llama_server.build_clock(folder)
    return folder


def test_required_calls_are_llama_servers(request, folder_with_clock):
    wanted = re.compile(request.config.getoption("--templates"))
    templates = [path for path in sorted(record_llama_server.TEMPLATES.glob("*.jinja"))
                 if wanted.search(path.name)]
    all_of = []
    for template in templates:
        compared = compared_once(request, folder_with_clock, template)
        print(f"{compared.template}: {compared.num_tokens} tokens alike, "
              f"{compared.num_refused} refused, parted at {compared.gaps}, "
              f"{compared.num_own} as llama-server from itself, {compared.num_shorter} shortened, "
              f"spread {compared.spread:.3f}", flush=True)
        all_of.append(compared)
    median = statistics.median(compared.spread for compared in all_of)
    assert {compared.template: (compared.gaps, compared.spread) for compared in all_of
            if compared.parts_too_far(median)} == {}, median
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


def test_a_fault_in_attention_is_seen(request, folder_with_clock):
    """attndb leaves out the middle of each prompt."""
    template = record_llama_server.TEMPLATES / FAULTY
    compared = compare(request, folder_with_clock, template, "--plan",
                       "window(sink=16,window=128)")
    print(f"{compared.template}: parted at {compared.gaps}, spread {compared.spread:.3f}")
    assert compared.parts_too_far(0)
