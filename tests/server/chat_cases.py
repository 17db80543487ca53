"""Chats as agents send them, drawn by a seed: what both servers make prompts and grammars of.

    python3 tests/server/chat_cases.py [FILE]    writes the bodies of all requests, one a line

The bodies are those of OpenAI's Chat Completions. All templates get the same ones. The draws do not
depend on the version of Python.
"""

import json
import pathlib
import sys

NUM_CASES = 300
NOW = 1772366400  # What templates see as the time: 2026-03-01 12:00 UTC.

SYSTEMS = (
    "You are a helpful assistant.",
    "You are a coding agent. Use the tools that you are given.\nNever guess.",
    "Du bist ein hilfreicher Assistent für Straßenbahnfahrpläne.",
    "Current date: 2026-03-01\n\n# Rules\n- be short\n- quote \"sources\"\n\t- tabs\\slashes",
    "  leading and trailing spaces  ",
    "日本語で答えてください。🚋",
)
QUESTIONS = (
    "What is the capital of France?",
    "List the files in /tmp, then delete the oldest one.",
    "Wie wird das Wetter morgen in Zürich?",
    "Fix this:\n```python\ndef f(x):\n    return {\"a\": x}['a']\n```",
    "<b>bold</b> & \"quoted\" 'text' with {{ braces }} and {% tags %}",
    "Ends with spaces   ",
    "\n\nBegins with lines",
    "Tell me about <|im_end|> and </s> and [INST].",
    "emoji 🎉👩‍👩‍👧 and combining é, and NUL-like \u2400",
    "1",
)
ANSWERS = (
    "Paris.",
    "I have looked at it.\n\n1. first\n2. second",
    "Das weiß ich nicht.",
    "{\"looks\": \"like JSON\"}",
    "  spaces around  ",
    "Yes: 100 % <of> it & \"more\".",
)
THOUGHTS = (
    "The user asks for the capital.",
    "First I look,\nthen I answer.",
    "Überlegen wir: 1 + 1 = 2.",
    "{\"plan\": [1, 2]}",
)
RESULTS = (
    "ok",
    "{\"temperature\": 21.5, \"unit\": \"celsius\"}",
    "drwxr-xr-x 2 root root 4096 a\n-rw-r--r-- 1 root root 12 b.txt",
    "Fehler: Datei „x“ nicht gefunden",
    "",
    "[1, 2, {\"a\": null}]",
)
NAMES = (
    "get_weather", "read_file", "write_file", "run_command", "search_web", "list_files",
    "send_mail", "create_event", "translate", "calculate", "get_time", "query_db", "fetch_url",
    "move_file", "delete_file", "find_symbol", "apply_patch", "open_ticket", "close_ticket",
    "play_music", "book_table", "get_route", "convert_units", "set_alarm",
)
FIELDS = (
    "path", "city", "query", "limit", "unit", "recursive", "content", "headers", "items", "start",
    "end", "label", "größe", "options", "tags", "email",
)
WORDS = ("alpha", "beta", "gamma", "C:\\dir", "Zürich", "a \"b\"", "x\ny", "東京", "🚀", "")


class Draw:
    """A stream of numbers (SplitMix64)."""

    def __init__(self, seed):
        self._state = seed

    def below(self, count):
        self._state = (self._state + 0x9E3779B97F4A7C15) % 2**64
        z = self._state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return (z ^ (z >> 31)) % count

    def chance(self, percent):
        return self.below(100) < percent

    def of(self, choices):
        return choices[self.below(len(choices))]

    def some(self, choices, count):
        """`count` different ones, in their order."""
        left = list(range(len(choices)))
        taken = sorted(left.pop(self.below(len(left))) for _ in range(count))
        return [choices[i] for i in taken]


def schema(draw, depth):
    """The schema of a value, with schemas of `depth` levels in it at most."""
    kinds = ["string", "string", "integer", "number", "boolean", "enum"]
    kinds += ["array", "object", "anyOf"] if depth > 0 else []
    kind = draw.of(kinds)
    made = {}
    if kind == "enum":
        made = {"type": "string", "enum": draw.some(WORDS[:-1], 1 + draw.below(4))}
    elif kind == "array":
        made = {"type": "array", "items": schema(draw, depth - 1)}
        if draw.chance(40):
            made["minItems"], made["maxItems"] = 1, 1 + draw.below(5)
    elif kind == "object":
        made = object_schema(draw, depth - 1)
    elif kind == "anyOf":
        made = {"anyOf": [schema(draw, depth - 1), {"type": "null"}]}
    else:
        made = {"type": kind}
        if kind == "string" and draw.chance(15):
            made["maxLength"] = 1 + draw.below(20)
        if kind == "string" and draw.chance(10):
            made["format"] = draw.of(("date", "time", "date-time", "uuid"))
        if kind == "integer" and draw.chance(30):
            made["minimum"], made["maximum"] = draw.below(10), 10 + draw.below(1000)
        if kind == "boolean" and draw.chance(30):
            made["default"] = draw.chance(50)
    if draw.chance(50):
        made["description"] = "The " + draw.of(FIELDS) + ": " + draw.of(QUESTIONS)
    return made


def object_schema(draw, depth):
    names = draw.some(FIELDS, draw.below(5))
    made = {"type": "object", "properties": {name: schema(draw, depth) for name in names}}
    if names and draw.chance(70):
        made["required"] = draw.some(names, 1 + draw.below(len(names)))
    if draw.chance(20):
        made["additionalProperties"] = False
    return made


def value(draw, wanted):
    """A value that a schema lets be."""
    if "enum" in wanted:
        return draw.of(wanted["enum"])
    if "anyOf" in wanted:
        return value(draw, draw.of(wanted["anyOf"]))
    kind = wanted["type"]
    if kind == "object":
        required = wanted.get("required", [])
        return {name: value(draw, inner) for name, inner in wanted["properties"].items()
                if name in required or draw.chance(50)}
    if kind == "array":
        return [value(draw, wanted["items"]) for _ in range(1 + draw.below(2))]
    return {"string": draw.of(WORDS), "integer": draw.below(100), "boolean": draw.chance(50),
            "number": draw.below(1000) / 8, "null": None}[kind]


def tool(draw, name):
    made = {"type": "function", "function": {"name": name}}
    if draw.chance(90):
        made["function"]["description"] = "Does " + name + ". " + draw.of(QUESTIONS)
    made["function"]["parameters"] = object_schema(draw, draw.below(4))
    if draw.chance(10):
        made["function"]["strict"] = True
    return made


def call(draw, offered, idx):
    chosen = draw.of(offered)["function"]
    arguments = value(draw, chosen["parameters"])
    ascii_only = draw.chance(50)
    separators = draw.of(((",", ":"), (", ", ": ")))
    return {"id": f"call_{idx:08d}", "type": "function",
            "function": {"name": chosen["name"],
                         "arguments": json.dumps(arguments, ensure_ascii=ascii_only,
                                                 separators=separators)}}


def content(draw, text):
    """A message's content: mostly a text, sometimes in parts."""
    if not draw.chance(12):
        return text
    half = len(text) // 2
    pieces = [text] if draw.chance(50) else [text[:half], text[half:]]
    return [{"type": "text", "text": piece} for piece in pieces]


def calling_turn(draw, offered, first_id):
    """An assistant's message that calls tools, and what they answered."""
    message = {"role": "assistant"}
    how = draw.below(4)
    if how < 3:  # 3: there is no such member.
        message["content"] = (None, "", draw.of(ANSWERS))[how]
    if draw.chance(30):
        message["reasoning_content"] = draw.of(THOUGHTS)
    count = 1 if draw.chance(75) else 2 + draw.below(2)
    message["tool_calls"] = [call(draw, offered, first_id + i) for i in range(count)]
    made = [message]
    for asked in message["tool_calls"]:
        result = {"role": "tool", "tool_call_id": asked["id"],
                  "content": content(draw, draw.of(RESULTS))}
        if draw.chance(30):
            result["name"] = asked["function"]["name"]
        made.append(result)
    return made


def conversation(draw, offered):
    messages = []
    if draw.chance(60):
        role = "developer" if draw.chance(8) else "system"
        messages.append({"role": role, "content": content(draw, draw.of(SYSTEMS))})
    for turn in range(1 + draw.below(4)):
        messages.append({"role": "user", "content": content(draw, draw.of(QUESTIONS))})
        if offered and draw.chance(60):
            for _ in range(1 + draw.below(2)):
                messages += calling_turn(draw, offered, len(messages))
            if draw.chance(30):
                continue  # The user asks on without an answer.
        if draw.chance(70) or turn == 0:
            answer = {"role": "assistant", "content": content(draw, draw.of(ANSWERS))}
            if draw.chance(25):
                answer["reasoning_content"] = draw.of(THOUGHTS)
            messages.append(answer)
    return messages


def ended(draw, messages):
    """The same conversation, with an end that a reply can follow."""
    messages = list(messages)
    while messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages or messages[-1]["role"] in ("system", "developer"):
        messages.append({"role": "user", "content": draw.of(QUESTIONS)})
    return messages


def body(draw):
    num_tools = 0 if draw.chance(40) else draw.of((1, 1, 2, 3, 5, 8, 24))
    tools = [tool(draw, name) for name in draw.some(NAMES, num_tools)]
    made = {"messages": ended(draw, conversation(draw, tools))}
    if draw.chance(4):  # The reply goes on with what the assistant began.
        made["messages"].append({"role": "assistant", "content": draw.of(ANSWERS)})
    if tools:
        made["tools"] = tools
        if draw.chance(60):
            made["tool_choice"] = draw.of(("auto", "none", "required", "required"))
        if draw.chance(40):
            made["parallel_tool_calls"] = draw.chance(50)
    if draw.chance(8 if tools else 30):
        made["response_format"] = draw.of((
            {"type": "json_object"}, {"type": "text"},
            {"type": "json_schema", "json_schema": {"name": "answer", "strict": True,
                                                    "schema": object_schema(draw, 2)}}))
    if draw.chance(30):
        made["chat_template_kwargs"] = {"enable_thinking": draw.chance(50)}
        if draw.chance(30):
            made["chat_template_kwargs"]["custom"] = {"depth": draw.below(5), "größe": "ü"}
    if draw.chance(12):
        made["reasoning_effort"] = draw.of(("none", "low", "medium", "high"))
    if draw.chance(15):
        made["reasoning_format"] = draw.of(("none", "auto", "deepseek"))
    return made


def cases():
    return [body(Draw(1000 + i)) for i in range(NUM_CASES)]


def lines():
    return [json.dumps(case, ensure_ascii=False) for case in cases()]


if __name__ == "__main__":
    text = "\n".join(lines()) + "\n"
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
