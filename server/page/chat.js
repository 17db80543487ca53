// A conversation: asks, shows the answer as it comes, and what it cost.

import {byId, make, say} from "/page/dom.js";
import {count, counted, seconds} from "/page/format.js";
import {ask, eventsOf} from "/page/server.js";

let model = "";
let messages = [];  // What was said so far, as the server takes it.
let stopping = null;  // Aborts the answer that is under way; null: there is none.
let onAnswered = () => {};

const field = (id) => byId(id).value.trim();

function addTurn(role, text) {
  const body = make("div", {className: "text"}, text);
  const turn = make("article", {className: `turn ${role}`},
                    make("h3", {}, role === "user" ? "You" : "Answer"), body);
  byId("log").append(turn);
  turn.scrollIntoView({block: "nearest"});
  return {turn, body};
}

function note(turn, className, text) {
  turn.append(make("p", {className}, text));
  turn.scrollIntoView({block: "nearest"});
}

function factsOf({usage, firstSeconds, tokensPerSecond, context, dropped}) {
  const facts = [];
  if (usage) {
    const cached = usage.prompt_tokens_details.cached_tokens;
    facts.push(`prompt ${counted(usage.prompt_tokens, "token")}, ${count(cached)} reused`);
    facts.push(`answer ${counted(usage.completion_tokens, "token")}`);
  }
  if (firstSeconds !== null) facts.push(`first token ${seconds(firstSeconds)}`);
  if (tokensPerSecond) facts.push(`${tokensPerSecond.toFixed(1)} tokens/s`);
  if (dropped) facts.push(`${counted(Number(dropped), "old token")} left the window`);
  if (context) facts.push(`stored as ${context}`);
  return facts.join(" · ");
}

function requestOf(asked) {
  const request = {
    model,
    messages: asked,
    stream: true,
    stream_options: {include_usage: true},
  };
  for (const name of ["context", "plan"]) {
    if (field(name)) request[name] = field(name);
  }
  for (const name of ["temperature", "max_tokens"]) {
    if (field(name)) request[name] = Number(field(name));
  }
  return request;
}

// Reads an answer into `body`; what it tells of itself.
async function receive(request, signal, body) {
  const told = {text: "", usage: null, firstSeconds: null, tokensPerSecond: 0};
  const begin = performance.now();
  let first = 0;
  const response = await ask("/v1/chat/completions", {method: "POST", body: request, signal});
  told.context = response.headers.get("X-Attndb-Context");
  told.dropped = response.headers.get("X-Attndb-Dropped");
  try {
    for await (const event of eventsOf(response)) {
      const piece = event.choices[0]?.delta?.content;
      if (event.usage) told.usage = event.usage;
      if (!piece) continue;
      if (!first) first = performance.now();
      told.firstSeconds = (first - begin) / 1000;
      told.text += piece;
      body.append(piece);
      body.scrollIntoView({block: "nearest"});
    }
  } catch (error) {
    told.error = error;
  }
  const later = (told.usage?.completion_tokens ?? 0) - 1;
  if (later > 0) told.tokensPerSecond = later / ((performance.now() - first) / 1000);
  return told;
}

function setBusy(busy) {
  byId("send").disabled = busy;
  byId("stop").disabled = !busy;
  byId("new-chat").disabled = busy;
  byId("log").setAttribute("aria-busy", busy);
  // A context is what a conversation begins with.
  byId("context").disabled = busy || messages.length > 0;
}

// What went wrong, in the server's own words; the question goes back to where it can be changed.
function showFailure(turn, error, question) {
  const stopped = error.name === "AbortError";
  note(turn, stopped ? "facts" : "error", stopped ? "Stopped." : error.message);
  if (messages.at(-1)?.role === "user") {
    messages.pop();
    if (!byId("question").value) byId("question").value = question;
  }
}

async function send() {
  const question = byId("question").value.trim();
  if (!question || stopping) return;
  byId("question").value = "";
  addTurn("user", question);
  messages.push({role: "user", content: question});
  const {turn, body} = addTurn("assistant", "");
  stopping = new AbortController();
  setBusy(true);
  const request = requestOf([...messages]);
  try {
    const told = await receive(request, stopping.signal, body);
    if (told.text) messages.push({role: "assistant", content: told.text});
    if (told.error) throw told.error;
    note(turn, "facts", factsOf(told));
    onAnswered({turn, request, answer: told.text, messages: [...messages]});
  } catch (error) {
    showFailure(turn, error, question);
  } finally {
    stopping = null;
    setBusy(false);
  }
}

export function stop() {
  if (!stopping) return false;
  stopping.abort();
  return true;
}

// Begins anew, with a question to a stored context if one is named.
export function startChat(context = "") {
  if (stopping) return;
  messages = [];
  byId("log").replaceChildren();
  if (context) byId("context").value = context;
  setBusy(false);
  byId("question").focus();
}

// `answered({turn, request, answer, messages})`: an answer is complete.
export function setUpChat(answered) {
  onAnswered = answered;
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  byId("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  byId("stop").addEventListener("click", stop);
  byId("new-chat").addEventListener("click", () => startChat());
  setBusy(false);
}

export function setModel(name) {
  model = name;
  say(byId("model"), name);
}
