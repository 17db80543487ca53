// The list of conversations: each once, by its newest turn, the newest first.

import {openChat, openedChat, startChat} from "/page/chat.js";
import {byId, confirmed, KeyedList, make, say} from "/page/dom.js";
import {ago, counted} from "/page/format.js";
import {ask} from "/page/server.js";

export const kContexts = "/attndb/v1/contexts";
const kMaxShown = 100;

let known = [];  // All contexts, as the server listed them last.

export const nameOf = (context) => context.name || `#${context.id}`;
export const pathOf = (context) => `${kContexts}/${encodeURIComponent(nameOf(context))}`;

// Whether the server gave the name.
const isTurn = ({name}) => name.startsWith("turn-");
const titleOf = (context) => context.title || nameOf(context);

// What a person calls it: the name that somebody gave, or "#id" and the title.
export function shownName(context) {
  if ((context.name && !isTurn(context)) || !context.title) return nameOf(context);
  return `#${context.id} ${context.title}`;
}

function numContinuedOf(contexts) {
  const num = new Map();
  for (const {continues} of contexts) {
    if (continues !== null) num.set(continues, (num.get(continues) ?? 0) + 1);
  }
  return num;
}

// The contexts without the earlier turns of conversations. What two others continue is shown, too:
// a conversation can be taken up there again.
export function newestTurns(contexts) {
  const num = numContinuedOf(contexts);
  return contexts.filter((context) => {
    const isNamed = context.name && !isTurn(context);
    return isNamed || num.get(context.id) !== 1;
  });
}

// The turns that this conversation shares with no other one, the newest first.
function ownTurns(newest) {
  const num = numContinuedOf(known);
  const byContextId = new Map(known.map((context) => [context.id, context]));
  const turns = [newest];
  for (;;) {
    const before = byContextId.get(turns.at(-1).continues);
    if (!before || !isTurn(before) || num.get(before.id) !== 1) return turns;
    turns.push(before);
  }
}

async function remove(context) {
  const turns = ownTurns(context);
  const what = `Delete “${titleOf(context)}”? All of it is removed from the store. That can't ` +
    "be undone.";
  if (!await confirmed(what, "Delete")) return;
  try {
    for (const turn of turns) await ask(pathOf(turn), {method: "DELETE"});
    if (turns.some((turn) => nameOf(turn) === openedChat())) startChat();
    say(byId("conversations-error"), "");
  } catch (error) {
    say(byId("conversations-error"), error.message);
  }
  showConversations(known.filter((one) => !turns.includes(one)));
  byId("conversations-title").focus();
}

function makeItem() {
  const item = {context: null};
  item.title = make("span", {className: "title", dir: "auto"});
  item.facts = make("span", {className: "facts"});
  const open = () => openChat(nameOf(item.context), titleOf(item.context))
    .then(() => byId("question").focus());
  item.open = make("button", {type: "button", className: "open", onclick: open},
                   item.title, item.facts);
  item.remove = make("button", {type: "button", className: "remove", title: "Delete",
                                onclick: () => remove(item.context)}, "×");
  item.element = make("li", {}, item.open, item.remove);
  return item;
}

function fillItem(item, context) {
  item.context = context;
  say(item.title, titleOf(context));
  item.open.title = titleOf(context);
  say(item.facts, `${ago(context.created_us)} · ${counted(context.num_tokens, "token")}`);
  item.element.dataset.name = nameOf(context);
  item.remove.setAttribute("aria-label", `Delete ${titleOf(context)}`);
  const isOpen = nameOf(context) === openedChat();
  if (isOpen) item.open.setAttribute("aria-current", "true");
  else item.open.removeAttribute("aria-current");
}

const list = new KeyedList(() => byId("conversations"), makeItem, fillItem);

export function showConversations(contexts = known) {
  known = contexts;
  const wanted = byId("conversations-filter").value.trim().toLowerCase();
  const found = newestTurns(contexts)
    .filter((context) => isTurn(context) || context.title)
    .filter((context) => titleOf(context).toLowerCase().includes(wanted))
    .sort((a, b) => b.created_us - a.created_us);
  list.show(found.slice(0, kMaxShown), ({id}) => id);
  const all = counted(found.length, "conversation");
  say(byId("conversations-count"), found.length > kMaxShown ? `${kMaxShown} of ${all}` : all);
}

export function setUpConversations() {
  byId("conversations-filter").addEventListener("input", () => showConversations());
  // A narrow window has the list folded, so that the chat is in sight.
  const isWide = matchMedia("(min-width: 700px)");
  const fold = () => { byId("conversations-fold").open = isWide.matches; };
  isWide.addEventListener("change", fold);
  fold();
}
