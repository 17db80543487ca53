// The stored contexts: a table that is kept up to date without losing its place.

import {startChat} from "/page/chat.js";
import {nameOf, newestTurns, pathOf, shownName} from "/page/conversations.js";
import {byId, confirmed, KeyedList, make, say} from "/page/dom.js";
import {ago, bytes, count, counted, span} from "/page/format.js";
import {ask} from "/page/server.js";

const kMaxRows = 100;  // Those that were used last.

let refresh = async () => {};
let known = [];

function lifeOf(context) {
  const life = [];
  if (context.damaged) life.push("damaged");
  if (context.pinned) life.push("pinned");
  else if (context.ttl_seconds === null) life.push("for ever");
  else {
    const left = context.last_access_us / 1e6 + context.ttl_seconds - Date.now() / 1000;
    life.push(left > 0 ? `${span(left)} left` : "expired");
  }
  return life.join(", ");
}

// Does what a button says, and shows the list as it is then.
async function change(work) {
  try {
    await work();
    say(byId("contexts-error"), "");
  } catch (error) {
    say(byId("contexts-error"), error.message);
  }
  await refresh();
}

async function remove(row) {
  const freed = bytes(row.context.own_bytes);
  const question = `Delete context ${shownName(row.context)}? That frees ${freed}, and can't be ` +
    "undone.";
  if (!await confirmed(question, "Delete")) return;
  await change(() => ask(pathOf(row.context), {method: "DELETE"}));
  if (!row.element.isConnected) byId("contexts-title").focus();
}

function pin(row) {
  const body = {pinned: !row.context.pinned};
  return change(() => ask(pathOf(row.context), {method: "POST", body}));
}

function makeRow() {
  const row = {context: null};
  const button = (text, work) => make("button", {type: "button", onclick: work}, text);
  row.name = make("th", {scope: "row", className: "name", dir: "auto"});
  row.cells = ["tokens", "size", "created", "used", "life"]
    .map((className) => make("td", {className}));
  row.ask = button("Ask", () => startChat(nameOf(row.context)));
  row.pin = button("Pin", () => pin(row));
  row.remove = button("Delete", () => remove(row));
  row.element = make("tr", {}, row.name, ...row.cells,
                     make("td", {className: "actions"}, row.ask, row.pin, row.remove));
  return row;
}

function fillRow(row, context) {
  row.context = context;
  const name = shownName(context);
  const texts = [count(context.num_tokens), bytes(context.file_bytes), ago(context.created_us),
                 ago(context.last_access_us), lifeOf(context)];
  row.element.dataset.name = nameOf(context);
  say(row.name, name);
  row.cells.forEach((cell, i) => say(cell, texts[i]));
  say(row.pin, context.pinned ? "Unpin" : "Pin");
  for (const button of [row.ask, row.pin, row.remove]) {
    button.setAttribute("aria-label", `${button.textContent} ${name}`);
  }
}

const list = new KeyedList(() => byId("contexts-body"), makeRow, fillRow);

export function showContexts(contexts = known) {
  known = contexts;
  const wanted = byId("contexts-filter").value.trim().toLowerCase();
  const found = newestTurns(contexts)
    .filter((context) => shownName(context).toLowerCase().includes(wanted))
    .sort((a, b) => b.last_access_us - a.last_access_us);
  list.show(found.slice(0, kMaxRows), ({id}) => id);
  say(byId("contexts-count"),
      found.length > kMaxRows ? `${count(kMaxRows)} of ${counted(found.length, "context")}`
                              : counted(found.length, "context"));
  byId("context-names").replaceChildren(
    ...contexts.map((context) => make("option", {value: nameOf(context)}, shownName(context))));
}

// `again()`: asks the server for the list, and shows it.
export function setUpContexts(again) {
  refresh = again;
  byId("contexts-filter").addEventListener("input", () => showContexts());
}
