// Puts the page together: the key, the chat, and what is shown anew every few seconds.

import {openChat, openedChat, setModel, setUpChat, startChat, stop} from "/page/chat.js";
import {setUpContexts, showContexts} from "/page/contexts.js";
import {kContexts, setUpConversations, showConversations} from "/page/conversations.js";
import {byId, make, say} from "/page/dom.js";
import {showNumbers} from "/page/numbers.js";
import {openPicture, setUpPicture} from "/page/picture.js";
import {askJson, key, setKey, watchKey} from "/page/server.js";

const kRefreshMs = 3000;

function showKeyForm(message) {
  byId("key-form").hidden = false;
  say(byId("key-says"), message);
}

async function showModel() {
  const {data} = await askJson("/v1/models");
  setModel(data[0].id);
}

async function showStored() {
  const {contexts} = await askJson(kContexts);
  showConversations(contexts);
  showContexts(contexts);
}

// The address of the page names the conversation, so that a reload opens it again.
function named() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";  // Somebody wrote it by hand.
  }
}

function nameChat(context) {
  if (named() === context) return;
  history.replaceState(null, "", context ? `#${encodeURIComponent(context)}` : location.pathname);
  showConversations();
}

function openNamed() {
  if (named() === openedChat()) return;
  if (named()) openChat(named());
  else startChat();
}

// All that is asked of the server by itself. What fails is said, and asked again next time.
async function refresh() {
  try {
    if (!byId("model").textContent) {
      await showModel();
      openNamed();
    }
    await Promise.all([showNumbers(), showStored()]);
    say(byId("status"), "");
  } catch (error) {
    if (error.status !== 401) say(byId("status"), error.message);
  }
}

async function keepFresh() {
  for (;;) {
    if (document.visibilityState === "visible") await refresh();
    await new Promise((resolve) => setTimeout(resolve, kRefreshMs));
  }
}

watchKey((message, hadKey) => {
  const why = hadKey ? "The server does not know this key" : "This server asks for a key";
  showKeyForm(`${why}: ${message}`);
}, () => say(byId("key-says"), "The key is accepted."));

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(byId("key").value.trim());
  byId("key").value = "";
  refresh();
});
if (key()) showKeyForm("");

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]") && stop()) {
    event.preventDefault();
    byId("question").focus();
  }
});

setUpChat(({reply, request, messages}) => {
  const {context, plan} = request;
  const show = () => openPicture({messages, context, plan});
  reply.append(make("button", {type: "button", onclick: show}, "What it attended to"));
  refresh();
}, nameChat);
setUpConversations();
setUpContexts(showStored);
setUpPicture();
window.addEventListener("hashchange", openNamed);
keepFresh();
