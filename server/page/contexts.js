// The stored contexts: a table that is kept up to date without losing its place.

import {startChat} from "/page/chat.js";
import {byId, confirmed, make, say} from "/page/dom.js";
import {bytes, count, counted, span} from "/page/format.js";
import {ask, askJson} from "/page/server.js";

const kContexts = "/attndb/v1/contexts";
const kMaxRows = 100;  // Those that were used last.

const rows = new Map();  // By id.

const nameOf = (context) => context.name || `#${context.id}`;
const pathOf = (context) => `${kContexts}/${encodeURIComponent(nameOf(context))}`;
const ago = (microseconds) => `${span(Math.max(0, Date.now() / 1000 - microseconds / 1e6))} ago`;

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
  await showContexts();
}

async function remove(row) {
  const name = nameOf(row.context);
  const freed = bytes(row.context.own_bytes);
  const question = `Delete context ${name}? That frees ${freed}, and can't be undone.`;
  if (!await confirmed(question, "Delete")) return;
  await change(() => ask(pathOf(row.context), {method: "DELETE"}));
  if (!rows.has(row.context.id)) byId("contexts-title").focus();
}

function pin(row) {
  const body = {pinned: !row.context.pinned};
  return change(() => ask(pathOf(row.context), {method: "POST", body}));
}

function makeRow() {
  const row = {context: null};
  const button = (text, work) => make("button", {type: "button", onclick: work}, text);
  row.name = make("th", {scope: "row", className: "name"});
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
  const name = nameOf(context);
  const texts = [count(context.num_tokens), bytes(context.file_bytes), ago(context.created_us),
                 ago(context.last_access_us), lifeOf(context)];
  say(row.name, name);
  row.cells.forEach((cell, i) => say(cell, texts[i]));
  say(row.pin, context.pinned ? "Unpin" : "Pin");
  for (const button of [row.ask, row.pin, row.remove]) {
    button.setAttribute("aria-label", `${button.textContent} ${name}`);
  }
}

function place(contexts) {
  const gone = new Set(rows.keys());
  contexts.forEach((context, i) => {
    gone.delete(context.id);
    if (!rows.has(context.id)) rows.set(context.id, makeRow());
    const row = rows.get(context.id);
    fillRow(row, context);
    // An element that is moved loses the focus: only what stands elsewhere is.
    const here = byId("contexts-body").children[i];
    if (here !== row.element) byId("contexts-body").insertBefore(row.element, here ?? null);
  });
  for (const id of gone) {
    rows.get(id).element.remove();
    rows.delete(id);
  }
}

export async function showContexts() {
  const {contexts} = await askJson(kContexts);
  const wanted = byId("contexts-filter").value.trim().toLowerCase();
  const found = contexts.filter((context) => nameOf(context).toLowerCase().includes(wanted))
    .sort((a, b) => b.last_access_us - a.last_access_us);
  place(found.slice(0, kMaxRows));
  say(byId("contexts-count"),
      found.length > kMaxRows ? `${count(kMaxRows)} of ${counted(found.length, "context")}`
                              : counted(found.length, "context"));
  byId("context-names").replaceChildren(
    ...contexts.map((context) => make("option", {value: nameOf(context)})));
}

export function setUpContexts() {
  byId("contexts-filter").addEventListener("input", () => showContexts().catch(() => {}));
}
