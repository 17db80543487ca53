"""Measures what agents cost `attndb serve` and llama.cpp's own server, built from the same sources.

    python bench/python/serve/agent_trace.py --attndb FILE --llama-server FILE --model GGUF
        --text FILE --data FOLDER [--json FILE --commit COMMIT] [--quick] [--tools 24]
        [--system 8000] [--turns 20] [--agents 8] [--agent-turns 5] [--tools-as-text] [SCENARIO...]

Method: an agent has a system message and 24 tools, of about --system tokens together. In each turn
        the model says at most 32 tokens. Then the agent adds what a tool gave: 200 to 1,000 tokens
        of one text. What the model said goes into the conversation as the server gave it. If it
        called no tool, the agent's own call stands behind that. The servers run one after the
        other, each alone, and the same draws choose what both are told.
        alone: one agent. restart: one agent, and kill -9 behind the turn in the middle, when the
        server is idle. agents: several agents that share system and tools take turns. reasoning:
        one agent whose model thinks before each reply, and the template drops the thoughts of
        earlier replies. cut: the same, and attndb is asked for "edits": "cut".
        An answer that says that tokens left the window ends the run.
Result: a table, and with --json figures by name, written behind each turn: other scenarios stay in
        FILE as they were. Each turn is a line of the output.
        `turns`: how many were run. `begin`, `prompt`: tokens of the first and the last prompt.
        `run`: tokens of prompts that were computed.
        `new`: those that no earlier prompt or reply of the conversation has, and what agents share
        once. Dropped thoughts are no part of a prompt. `first`: milliseconds to the first token.
        --quick: small sizes, to see that all runs.
        --tools-as-text: the tools are part of the system message, and calls are texts. Then the
        template is the model's own.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.client
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scenarios import Texts
from servers import WAIT_SECONDS, Attndb, Llama, Server, events_of, machine, wait_until_idle

REPLY_TOKENS = 32
THOUGHT_TOKENS = 48  # At most, without the tags around them.
END_TOKENS = 5  # The end of a user's message, and the assistant's header.
RESULT_TOKENS = (200, 1000)
SEED = 58
QUICK = {"tools": 3, "system": 600, "turns": 3, "agents": 2, "agent_turns": 2}
TEMPLATE = Path(__file__).resolve().parent / "tools.jinja"
YARN = ("--rope-scaling", "yarn:4")
LLAMA_YARN = ("--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "8192")
SYSTEM = "You are an agent. Use the tools, one at a time, and say in few words what they gave."

Figures = dict[str, float]
Message = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    num_agents: int
    num_turns: int
    restart_at: int = -1  # The turn before which the server is killed.
    thinks: bool = False
    edits: str = "exact"


def plans_of(args: argparse.Namespace) -> dict[str, Scenario]:
    plans = (Scenario("alone", 1, args.turns),
             Scenario("restart", 1, args.turns, restart_at=args.turns // 2),
             Scenario("agents", args.agents, args.agent_turns),
             Scenario("reasoning", 1, args.turns, thinks=True),
             Scenario("cut", 1, args.turns, thinks=True, edits="cut"))
    return {plan.name: plan for plan in plans}


class Agents(Attndb):
    """attndb, asked with one kind of edits."""

    edits = "exact"

    def fields(self) -> dict[str, Any]:
        return {**super().fields(), "edits": self.edits}


@dataclasses.dataclass
class Turn:
    """What a server said of one request."""

    num_prompt: int
    num_run: int
    num_reply: int
    first_ms: float
    num_known: int = 0  # Tokens of the prompt that are those of earlier prompts and replies.
    num_cut: int = 0  # Tokens that attndb left out of the conversation.

    @property
    def num_new(self) -> int:
        return self.num_prompt - self.num_known


def ask(server: Server, body: dict[str, Any]) -> tuple[Message, Turn]:
    """The assistant's message, and what it took."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_SECONDS)
    asked = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"{server.name}: {response.status} {response.read()!r}")
    message: Message = {"role": "assistant", "content": ""}
    first, usage, timings = 0.0, {}, {}
    for event in events_of(response):
        if "error" in event:
            raise SystemExit(f"{server.name}: {event}")
        usage, timings = event.get("usage") or usage, event.get("timings") or timings
        for choice in event["choices"]:
            if add(choice["delta"], message) and not first:
                first = time.perf_counter()
    if response.headers.get("X-Attndb-Dropped", "0") != "0":
        raise SystemExit(f"{server.name}: tokens left the window")
    connection.close()
    num_prompt = int(usage["prompt_tokens"])
    details = usage.get("prompt_tokens_details", {})
    num_run = (int(timings["prompt_n"]) if timings else
               num_prompt - int(details["cached_tokens"]))
    return message, Turn(num_prompt, num_run, int(usage["completion_tokens"]),
                         1000 * ((first or time.perf_counter()) - asked),
                         num_cut=int(details.get("cut_tokens", 0)))


def add(delta: dict[str, Any], message: Message) -> bool:
    """Adds a delta to a message; whether it held anything of the reply."""
    for name in ("content", "reasoning_content"):
        if delta.get(name):
            message[name] = message.get(name, "") + delta[name]
    for call in delta.get("tool_calls") or []:
        calls = message.setdefault("tool_calls", [])
        if call["index"] == len(calls):
            calls.append({"id": call["id"], "type": "function",
                          "function": {"name": call["function"]["name"], "arguments": ""}})
        calls[call["index"]]["function"]["arguments"] += call["function"].get("arguments") or ""
    return bool(delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls"))


def calls_well(message: Message) -> bool:
    """Whether a message calls tools, each with JSON: a reply that was cut may not."""
    try:
        for call in message.get("tool_calls", []):
            json.loads(call["function"]["arguments"])
    except json.JSONDecodeError:
        return False
    return bool(message.get("tool_calls"))


def tools_of(num_tools: int, num_tokens: int, texts: Texts) -> list[dict[str, Any]]:
    """Tools whose descriptions have about so many tokens together."""
    each = max(num_tokens // num_tools - 75, 40)
    return [{"type": "function", "function": {
        "name": f"tool_{i}", "description": texts.take(each),
        "parameters": {"type": "object",
                       "properties": {"query": {"type": "string", "description": "Words"},
                                      "limit": {"type": "integer", "minimum": 1}},
                       "required": ["query"]}}} for i in range(num_tools)]


@dataclasses.dataclass
class Work:
    """What agents are told: the same for both servers."""

    tools: list[dict[str, Any]]
    tasks: list[str]  # For each agent.
    own: list[int]  # Tokens of each first prompt that the other agents' have not.
    results: list[list[str]]  # For each agent and turn.
    as_text: bool
    thinks: bool

    def begin(self, agent: int) -> list[Message]:
        system = SYSTEM
        if self.as_text:
            system += "\n\n# Tools\n\n" + "\n".join(json.dumps(tool) for tool in self.tools)
        return [{"role": "system", "content": system},
                {"role": "user", "content": self.tasks[agent]}]

    def body(self, history: Sequence[Message], server: Server) -> dict[str, Any]:
        made = {"messages": history, "max_tokens": REPLY_TOKENS, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}, **server.fields()}
        if self.thinks:
            made |= {"max_tokens": THOUGHT_TOKENS + REPLY_TOKENS,
                     "reasoning_budget_tokens": THOUGHT_TOKENS}
        made["chat_template_kwargs"] = {"enable_thinking": self.thinks}
        if not self.as_text:
            made["tools"] = self.tools
        return made

    def go_on(self, history: list[Message], message: Message, agent: int, turn: int) -> None:
        """Adds what the model said, the call, and what the tool gave."""
        result = self.results[agent][turn]
        if self.as_text:
            history += [{"role": "assistant", "content": message["content"]},
                        {"role": "user", "content": f"<tool_response>\n{result}\n</tool_response>"}]
            return
        if not calls_well(message):
            message = {**message, "tool_calls": [
                {"id": f"call_{agent}_{turn}", "type": "function",
                 "function": {"name": f"tool_{turn % len(self.tools)}",
                              "arguments": json.dumps({"query": f"line {turn}"})}}]}
        history.append(message)
        history += [{"role": "tool", "tool_call_id": call["id"], "content": result}
                    for call in message["tool_calls"]]


def num_dropped(server: Server, message: Message) -> int:
    """Tokens of a reply, and of the end of its prompt, that the next prompt has no longer."""
    thoughts = message.get("reasoning_content")
    return server.num_tokens(f"<think>\n{thoughts}</think>") if thoughts else 0


def work_for(args: argparse.Namespace, texts: Texts, plan: Scenario) -> Work:
    draw = random.Random(SEED)
    tools = tools_of(args.tools, args.system, texts)
    tasks = [texts.take(40) + "\nLook for what comes next." for _ in range(plan.num_agents)]
    own = [texts.server.num_tokens(task) + END_TOKENS for task in tasks]
    results = [[texts.take(draw.randrange(*RESULT_TOKENS)) for _ in range(plan.num_turns)]
               for _ in range(plan.num_agents)]
    return Work(tools, tasks, own, results, args.tools_as_text, plan.thinks)


def run_turns(server: Server, work: Work, plan: Scenario) -> Iterator[Turn]:
    """All turns of all agents, in turn order; the first agent's first turn reads what is shared."""
    histories = [work.begin(agent) for agent in range(plan.num_agents)]
    known = [0] * len(histories)
    for turn in range(plan.num_turns):
        for agent, history in enumerate(histories):
            message, took = ask(server, work.body(history, server))
            is_shared = turn == 0 and agent > 0
            took.num_known = took.num_prompt - work.own[agent] if is_shared else known[agent]
            known[agent] = took.num_prompt + took.num_reply - num_dropped(server, message)
            work.go_on(history, message, agent, turn)
            yield took
        wait_until_idle([server])
        if turn + 1 == plan.restart_at:
            server.kill()
            server.start()
            wait_until_idle([server])


def figures_of(turns: Sequence[Turn], plan: Scenario) -> Figures:
    num_new = sum(turn.num_new for turn in turns)
    num_run = sum(turn.num_run for turn in turns)
    made = {"turns": len(turns), "begin": turns[0].num_prompt, "prompt": turns[-1].num_prompt,
            "new": num_new, "run": num_run, "ratio": num_run / num_new, "cut": turns[-1].num_cut,
            "first": turns[0].first_ms}
    steady = [turn.first_ms for i, turn in enumerate(turns)
              if i >= plan.num_agents and i != plan.restart_at]
    if steady:
        made["steady"] = statistics.median(steady)
    if 0 < plan.restart_at < len(turns):
        made["restart"] = turns[plan.restart_at].first_ms
        made["restart_run"] = turns[plan.restart_at].num_run
    return made


def servers_of(args: argparse.Namespace, plan: Scenario) -> list[Server]:
    data = Path(args.data)
    template = () if args.tools_as_text else ("--chat-template", str(TEMPLATE))
    llama_template = () if args.tools_as_text else ("--jinja", "--chat-template-file",
                                                    str(TEMPLATE))
    attndb = Agents(data / "attndb", args.attndb, args.model, "full", (*YARN, *template))
    attndb.edits = plan.edits
    attndb.forget()
    made: list[Server] = [attndb]
    if args.llama_server and plan.edits == "exact":
        # The tools' JSON and the replies need room, too.
        context = args.system + 2000 + plan.num_turns * (
            RESULT_TOKENS[1] + THOUGHT_TOKENS + REPLY_TOKENS + 100)
        made.append(Llama(data / "llama-server", args.llama_server, args.model,
                          ["-c", str(context * plan.num_agents), "-np", str(plan.num_agents),
                           *LLAMA_YARN, *llama_template]))
    return made


def run_scenario(args: argparse.Namespace, plan: Scenario) -> Iterator[Figures]:
    """Figures behind each turn: of the turns so far."""
    found: Figures = {}
    work = None
    for server in servers_of(args, plan):
        server.start()
        turns: list[Turn] = []
        try:
            work = work or work_for(args, Texts(Path(args.text), server), plan)
            for turn in run_turns(server, work, plan):
                turns.append(turn)
                print(f"{plan.name} {server.name} {len(turns)}: {turn.num_run} tokens run, "
                      f"{turn.num_new} new, {turn.num_prompt} in the prompt, "
                      f"{turn.num_cut} cut, first token {turn.first_ms:,.0f} ms", flush=True)
                found |= {f"{server.name}/{name}": value
                          for name, value in figures_of(turns, plan).items()}
                yield found
        finally:
            server.stop()


def table(results: dict[str, Figures]) -> str:
    columns = ("turns", "begin", "prompt", "new", "run", "ratio", "cut", "first", "steady",
               "restart", "restart_run")
    lines = ["| scenario | server | " + " | ".join(columns) + " |",
             "|---|---|" + "---|" * len(columns)]
    for name, figures in results.items():
        for server in dict.fromkeys(key.split("/")[0] for key in figures):
            found = [(column, figures.get(f"{server}/{column}")) for column in columns]
            cells = ["" if value is None else f"{value:,.{3 if column == 'ratio' else 0}f}"
                     for column, value in found]
            lines.append(f"| {name} | {server} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("attndb", "model", "text", "data"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--llama-server")
    parser.add_argument("--json")
    parser.add_argument("--commit", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tools", type=int, default=24)
    parser.add_argument("--system", type=int, default=8000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--agent-turns", type=int, default=5)
    parser.add_argument("--tools-as-text", action="store_true")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO",
                        help="alone, restart, agents, reasoning, cut; default: all")
    args = parser.parse_args()
    if args.quick:
        vars(args).update(QUICK)
    path = Path(args.json) if args.json else None
    kept = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}
    plans = plans_of(args)
    results = {}
    for name in args.scenarios or plans:
        for figures in run_scenario(args, plans[name]):
            results[name] = figures
            kept[name] = {"commit": args.commit, "machine": machine(), "figures": figures}
            if path:
                path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n",
                                encoding="utf-8")
        print(table({name: results[name]}), flush=True)


if __name__ == "__main__":
    main()
