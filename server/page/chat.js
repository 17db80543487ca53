// A conversation: opens a stored one, asks, shows the answer as it comes, and what it cost.
//
// Method: an answer is stored as a context. The next message goes on from it and sends only what is
//         new, so that it is the same before and after a reload.

import {byId, say} from "/page/dom.js";
import {count, counted, seconds} from "/page/format.js";
import {ask, askJson, eventsOf} from "/page/server.js";
import {addMessage, addText, ReplyTurn, scrollToEnd} from "/page/turns.js";

let model = "";
let base = "";  // The context that the conversation goes on from; empty: it begins.
let messages = [];  // What was said behind it, as the server takes it.
let stopping = null;  // Aborts the answer that is under way; null: there is none.
let isOpening = false;  // Whether a stored conversation is being opened.
let underWay = Promise.resolve();  // Resolves when that answer has ended.
let opening = 0;  // Counts what is opened: of several, the last one is shown.
let onAnswered = () => {};
let onMoved = () => {};

const field = (id) => byId(id).value.trim();

function factsOf({usage, firstSeconds, tokensPerSecond, context, dropped}) {
  const facts = [];
  if (usage) {
    const cached = count(usage.prompt_tokens_details.cached_tokens);
    const asked = counted(usage.prompt_tokens, "prompt token");
    facts.push(`${cached} of ${asked} ${usage.prompt_tokens === 1 ? "was" : "were"} reused`);
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
  const context = base || field("context");
  if (context) request.context = context;
  if (field("plan")) request.plan = field("plan");
  for (const name of ["temperature", "max_tokens"]) {
    if (field(name)) request[name] = Number(field(name));
  }
  return request;
}

// Reads an answer into `reply`; what it tells of itself.
async function receive(request, signal, reply) {
  const told = {usage: null, firstSeconds: null, tokensPerSecond: 0};
  const begin = performance.now();
  let first = 0;
  const response = await ask("/v1/chat/completions", {method: "POST", body: request, signal});
  told.context = response.headers.get("X-Attndb-Context");
  told.dropped = response.headers.get("X-Attndb-Dropped");
  try {
    for await (const event of eventsOf(response)) {
      const delta = event.choices[0]?.delta ?? {};
      if (event.usage) told.usage = event.usage;
      if (!delta.content && !delta.reasoning_content && !delta.tool_calls) continue;
      if (!first) first = performance.now();
      told.firstSeconds = (first - begin) / 1000;
      reply.add(delta);
    }
  } catch (error) {
    told.error = error;
  }
  const later = (told.usage?.completion_tokens ?? 0) - 1;
  if (later > 0) told.tokensPerSecond = later / ((performance.now() - first) / 1000);
  await reply.end();
  return told;
}

function setBusy(busy) {
  byId("send").disabled = busy;
  byId("stop").disabled = !busy;
  byId("new-chat").disabled = busy;
  byId("log").setAttribute("aria-busy", busy);
  // A context is what a conversation begins with.
  byId("context").disabled = busy || base !== "" || messages.length > 0;
}

// What went wrong, in the server's own words; the question goes back to where it can be changed.
function showFailure(reply, error, question) {
  const stopped = error.name === "AbortError";
  reply.note(stopped ? "facts" : "error", stopped ? "Stopped." : error.message);
  if (messages.at(-1)?.role === "user") {
    messages.pop();
    if (!byId("question").value) byId("question").value = question;
  }
}

// The conversation is at this context now.
function moveTo(context) {
  base = context;
  messages = [];
  onMoved(context);
}

async function answer(question) {
  addMessage({role: "user", content: question});
  messages.push({role: "user", content: question});
  if (!byId("chat-title").textContent) say(byId("chat-title"), question);
  const reply = new ReplyTurn();
  scrollToEnd();
  stopping = new AbortController();
  setBusy(true);
  const request = requestOf([...messages]);
  try {
    const told = await receive(request, stopping.signal, reply);
    if (reply.text) messages.push({role: "assistant", content: reply.text});
    if (told.error) throw told.error;
    reply.note("facts", factsOf(told));
    const said = [...messages];
    if (told.context) moveTo(told.context);
    onAnswered({reply, request, messages: said});
  } catch (error) {
    showFailure(reply, error, question);
  } finally {
    stopping = null;
    setBusy(false);
  }
}

function send() {
  const question = byId("question").value.trim();
  if (!question || stopping || isOpening) return;
  byId("question").value = "";
  underWay = answer(question);
}

export function stop() {
  if (!stopping) return false;
  stopping.abort();
  return true;
}

function clear(title) {
  messages = [];
  base = "";
  byId("log").replaceChildren();
  say(byId("chat-title"), title);
}

// Begins anew, with a question to a stored context if one is named.
export function startChat(context = "") {
  if (stopping) return;
  ++opening;
  isOpening = false;
  clear("");
  if (context) byId("context").value = context;
  setBusy(false);
  onMoved("");
  byId("question").focus();
}

// Shows a stored conversation, which the next message continues. An answer that is under way is
// stopped. `title`: empty: that of its first words.
export async function openChat(context, title = "") {
  const own = ++opening;
  isOpening = true;
  stop();
  await underWay;
  if (own !== opening) return;
  clear(title);
  byId("context").value = "";
  byId("log").setAttribute("aria-busy", true);
  try {
    const body = {context};
    const told = await askJson("/attndb/v1/messages", {method: "POST", body});
    if (own !== opening) return;
    if (told.messages.length === 0) {
      const {text} = await askJson("/attndb/v1/text", {method: "POST", body});
      if (own !== opening) return;
      addText(text);
    }
    moveTo(context);
    if (!title) {
      const first = told.messages.find(({role}) => role === "user");
      say(byId("chat-title"), (first?.content ?? context).slice(0, 80));
    }
    await Promise.all(told.messages.map(addMessage));
    scrollToEnd();
    say(byId("chat-says"), `Opened: ${counted(told.messages.length, "message")}, ` +
        `${counted(told.num_tokens, "token")}.`);
  } catch (error) {
    if (own !== opening) return;
    onMoved("");
    new ReplyTurn().note("error", error.message);
  } finally {
    if (own === opening) {
      isOpening = false;
      setBusy(false);
    }
  }
}

export const openedChat = () => base;

// `answered({reply, request, messages})`: an answer is complete. `moved(context)`: the conversation
// is stored as this context; empty: it is not stored.
export function setUpChat(answered, moved) {
  onAnswered = answered;
  onMoved = moved;
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
