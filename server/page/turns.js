// The turns of a conversation, as elements: what was asked, what was answered, thought and called.

import {byId, make, say} from "/page/dom.js";
import {makeCode, MarkdownView} from "/page/markdown.js";

const kNames = {
  system: "Instructions", developer: "Instructions", user: "You", assistant: "Answer",
  tool: "Result of a tool"};
const kNearEnd = 48;  // Pixels.

// A JSON object or array, for people; null: the text is none.
function prettyJson(text) {
  if (!/^\s*[{[]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

// Changes the log. It follows its end, unless somebody reads further up.
function follow(change) {
  const log = byId("log");
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < kNearEnd;
  change();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

export function scrollToEnd() {
  byId("log").scrollTop = byId("log").scrollHeight;
}

function addTurn(role, ...parts) {
  const turn = make("article", {className: `turn ${role}`},
                    make("h3", {}, kNames[role] ?? role), ...parts);
  follow(() => byId("log").append(turn));
  return turn;
}

function folded(className, summary, ...parts) {
  return make("details", {className}, make("summary", {}, summary), ...parts);
}

const plainText = (text) => make("div", {className: "text plain", dir: "auto"}, text);

function makeCall({function: {name, arguments: given}}) {
  return make("div", {className: "call"}, make("p", {}, "Calls ", make("code", {}, name)),
              makeCode(prettyJson(given) ?? given, "JSON"));
}

// A reply that may still come.
export class ReplyTurn {
  constructor() {
    this.text = "";
    this.reasoning = "";
    this.calls = [];
    this.thoughts = plainText("");
    this.thinking = folded("reasoning", "Thinking", this.thoughts);
    this.thinking.hidden = true;
    this.body = make("div", {className: "text"});
    this.called = make("div", {className: "calls"});
    this.turn = addTurn("assistant", this.thinking, this.body, this.called);
    this.view = new MarkdownView(this.body);
  }

  // Shows a piece of a stream.
  add({content, reasoning_content: reasoning, tool_calls: calls}) {
    if (reasoning) {
      this.reasoning += reasoning;
      this.thinking.hidden = false;
      this.thoughts.append(reasoning);
    }
    for (const call of calls ?? []) this.addCall(call);
    if (!content) return;
    this.text += content;
    this.showText();
  }

  addCall({index, function: piece}) {
    const call = this.calls[index] ??= {function: {name: "", arguments: ""}};
    call.function.name += piece?.name ?? "";
    call.function.arguments += piece?.arguments ?? "";
    follow(() => this.called.replaceChildren(...this.calls.filter(Boolean).map(makeCall)));
  }

  showText() {
    const log = byId("log");
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < kNearEnd;
    return this.view.show(this.text).then(() => {
      if (isAtEnd) scrollToEnd();
    });
  }

  // Shows the whole of it.
  async end() {
    if (this.reasoning) say(this.thinking.querySelector("summary"), "What it thought");
    const json = prettyJson(this.text);
    if (json === null) {
      if (this.text) await this.showText();
      return;
    }
    await this.view.done;
    follow(() => this.body.replaceChildren(makeCode(json, "JSON")));
  }

  append(element) {
    follow(() => this.turn.append(element));
  }

  note(className, text) {
    this.append(make("p", {className}, text));
  }
}

// Shows a message that is complete.
export async function addMessage(message) {
  const text = message.content ?? "";
  if (message.role === "assistant") {
    const reply = new ReplyTurn();
    const calls = (message.tool_calls ?? []).map((call, index) => ({...call, index}));
    reply.add({...message, content: "", tool_calls: calls});
    reply.text = text;
    await reply.end();
    return;
  }
  const json = message.role === "tool" ? prettyJson(text) : null;
  const body = json === null ? plainText(text) : makeCode(json, "JSON");
  const isFolded = ["system", "developer", "tool"].includes(message.role);
  addTurn(message.role, isFolded ? folded("long", "Show", body) : body);
}

// Shows a text of which nobody knows whose words it has.
export function addText(text) {
  const turn = addTurn("raw", plainText(text));
  say(turn.querySelector("h3"), "Text");
}
